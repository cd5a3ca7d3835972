"""Olsen & Petersen, figure 3: accuracy of χ²-LMNN on webcam by μ and by the margin."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.protocol import data as stored
from reproduce.framework.statistics import Summary
from reproduce.olsen.common import (
    SPLITS,
    Gain,
    K,
    chi2_1nn,
    folds,
    histograms,
    shown,
    typical_distance,
    verdicts,
)
from vicinal import Chi2LMNN

AUTO = "auto"


RANKS = (10, 20)


MUS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


#: margins in typical distances of a row to its nearest of the same class
SHARES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


_COLOURS = {10: "#0072B2", 20: "#D55E00"}


Curves = dict[int, dict[float, dict[int, Any]]]


#: corrected errors by which the best value must beat the worst
CLEAR = 2.0


#: what is varied, as the index names it
NAMES = {"μ": "μ", "margin": "The margin"}


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit: μ at the default margin, then margins at μ = 1."""
    values = [(mu, AUTO) for mu in MUS] + [(1.0, share) for share in SHARES]
    for split, rank, (mu, share) in product(range(splits or SPLITS), RANKS, values):
        yield {"data": "webcam", "split": split, "rank": rank, "mu": mu, "share": share}


def work(data: str, split: int, rank: int, mu: float, share: float | str) -> dict[str, Any]:
    """Held-out accuracy of 1-NN, and of three voters."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    typical = typical_distance(H[train], y[train])
    margin = AUTO if share == AUTO else float(share) * typical
    model = Chi2LMNN(min(rank, H.shape[1]), k=K, mu=mu, margin=margin, random_state=split)
    model.fit(H[train], y[train])
    return {
        "held out": chi2_1nn(model.transform(H), y, train, test),
        "held out, votes": float(model.score(H[test], y[test])),
        "typical": typical,
        "margin": float(model.margin_),
        "iterations": int(model.n_iter_),
    }


def _kinds(done: list[Done]) -> dict[str, Curves]:
    """Results by what is varied, then by rank, value and fold."""
    by_mu: Curves = {}
    by_share: Curves = {}
    for each in done:
        job = each.job
        curves, value = (by_mu, job["mu"]) if job["share"] == AUTO else (by_share, job["share"])
        of = curves.setdefault(job["rank"], {}).setdefault(value, {})
        of[job["split"]] = each.result
    return {"μ": by_mu, "margin": by_share}


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, tables by μ and by margin, and numbers of the protocol."""
    kinds = _kinds(done)
    tables = "\n\n".join(
        f"## By {name}\n\n{_table(name, curves)}" for name, curves in kinds.items() if curves
    )
    return {
        "finding": _finding(kinds),
        "tables": tables,
        "verdicts": verdicts(claims(done)),
        **_protocol(done),
    }


def _mean(runs: dict[int, Any], what: str = "held out") -> Summary:
    return Summary([run[what] for run in runs.values()])


def _range(curves: dict[float, dict[int, Any]]) -> tuple[float, float, Gain] | None:
    """The best and the worst value by the mean, and the difference on the same folds."""
    best = max(curves, key=lambda value: _mean(curves[value]).mean)
    worst = min(curves, key=lambda value: _mean(curves[value]).mean)
    common = sorted(set(curves[best]) & set(curves[worst]))
    gaps = [curves[best][s]["held out"] - curves[worst][s]["held out"] for s in common]
    return (best, worst, Gain(gaps)) if gaps and best != worst else None


def _finding(kinds: dict[str, Curves]) -> str:
    told = []
    for name, curves in kinds.items():
        ranks = []
        for rank, of in sorted(curves.items()):
            if found := _range(of):
                best, worst, gain = found
                ranks.append(
                    f"at r = {rank}, {_mean(of[best]).mean:.1f} % at best ({best:g}) and "
                    f"{gain:.1f} points less at worst ({worst:g})"
                )
        if ranks:
            told.append(f"- By {name}: {'; '.join(ranks)}.{_middle(curves) if name == 'μ' else ''}")
    if not told:
        return "Too little is run yet to compare values."
    lines = "\n".join(told)
    begin = "The report: both μ and ℓ can have an effect. Here, held-out accuracy on webcam by 1-NN"
    return f"{begin}:\n\n{lines}"


def _middle(curves: Curves) -> str:
    """The same without the smallest and largest values of μ."""
    inner = {
        rank: {mu: runs for mu, runs in of.items() if 0.1 <= mu <= 10}
        for rank, of in sorted(curves.items())
    }
    told = [
        f"{found[2].mean:.1f} points at r = {rank}"
        for rank, of in inner.items()
        if of and (found := _range(of))
    ]
    return f" From 0.1 to 10, best and worst differ by {' and '.join(told)}." if told else ""


def _table(name: str, curves: Curves) -> str:
    ranks = sorted(curves)
    rows = []
    for value in sorted({value for of in curves.values() for value in of}):
        row: list[Any] = [f"{value:g}"]
        for rank in ranks:
            runs = curves[rank].get(value)
            row += (
                [shown(_mean(runs)), shown(_mean(runs, "held out, votes"))] if runs else [None] * 2
            )
            row.append(f"{np.mean([r['iterations'] for r in runs.values()]):.0f}" if runs else None)
        rows.append(row)
    header = [name if name == "μ" else "margin, in typical distances"]
    for rank in ranks:
        header += [f"r = {rank}, 1-NN", f"r = {rank}, 3 votes", "iterations"]
    return table(header, rows)


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt, kinds = pyplot(), _kinds(done)
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", sharey=True)
    for ax, (name, curves) in zip(axes, kinds.items(), strict=True):
        for rank, of in sorted(curves.items()):
            values = sorted(of)
            means = [_mean(of[value]) for value in values]
            ax.errorbar(
                values, [each.mean for each in means], [each.error for each in means],
                color=_COLOURS[rank], marker="o", ms=4, capsize=3, label=f"r = {rank}",
            )  # fmt: skip
        ax.set(xscale="log", xlabel=name if name == "μ" else "margin ℓ, in typical distances")
        if name == "margin":
            shares = [each.result["margin"] / each.result["typical"] for each in done
                      if each.job["share"] == AUTO]  # fmt: skip
            if shares:
                ax.axvline(np.mean(shares), color="0.5", lw=1, ls="--", label='margin="auto"')
        plain_frame(ax)
    axes[0].set_ylabel("held-out accuracy of 1-NN, per cent")
    picture(figure, folder, "olsen-petersen-figure-3")


def _protocol(done: list[Done]) -> dict[str, Any]:
    splits = len({each.job["split"] for each in done})
    typical = [each.result["typical"] for each in done]
    auto = [each.result["margin"] for each in done if each.job["share"] == AUTO]
    told = f" {min(auto):.3f} to {max(auto):.3f} on these folds" if auto else ""
    return {
        "splits": splits,
        "clear": f"{CLEAR:g}",
        "auto_margins": told,
        "min_typical": f"{min(typical):.2f}",
        "max_typical": f"{max(typical):.2f}",
    }


def claims(done: list[Done]) -> Iterator[Claim]:
    """Both parameters have an effect: the best value of each against the worst."""
    for name, curves in _kinds(done).items():
        found = {rank: each for rank, of in sorted(curves.items()) if (each := _range(of))}
        clear = [gain.mean > CLEAR * gain.error > 0 for *_, gain in found.values()]
        if found:
            yield Claim(
                f"{NAMES[name]} can have an effect (webcam, best value against worst)",
                "seen" if all(clear) else "partly" if any(clear) else "not seen",
                ", ".join(f"r = {rank}: {gain:+.1f}" for rank, (*_, gain) in found.items())
                + " points",
            )


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-figure-3",
        "Olsen & Petersen figure 3: χ²-LMNN on webcam by μ and by the margin",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
)
