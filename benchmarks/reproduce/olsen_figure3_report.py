"""The report on Olsen & Petersen's figure 3: accuracy by μ and by the margin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduce.experiment import Done
from reproduce.olsen_scores import Gain, shown
from reproduce.protocol import Summary
from reproduce.report import picture, plain_frame, pyplot, table

__all__ = ["AUTO", "MUS", "RANKS", "SHARES", "report"]

AUTO = "auto"
RANKS = (10, 20)
MUS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
#: margins in typical distances of a row to its nearest of the same class
SHARES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_COLOURS = {10: "#0072B2", 20: "#D55E00"}

Curves = dict[int, dict[float, dict[int, Any]]]


def report(done: list[Done], folder: Path) -> str:
    """Markdown; the picture goes beside it."""
    if not done:
        return "Not run yet."
    by_mu: Curves = {}
    by_share: Curves = {}
    for each in done:
        job = each.job
        curves, value = (by_mu, job["mu"]) if job["share"] == AUTO else (by_share, job["share"])
        of = curves.setdefault(job["rank"], {}).setdefault(value, {})
        of[job["split"]] = each.result
    kinds = {"μ": by_mu, "margin": by_share}
    parts = [_finding(kinds), _draw(kinds, done, folder)]
    for name, curves in kinds.items():
        if curves:
            parts += [f"## By {name}", _table(name, curves)]
    return "\n\n".join([*parts, _NOTE, _protocol(done)])


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
    parts = []
    for name, curves in kinds.items():
        told = []
        for rank, of in sorted(curves.items()):
            found = _range(of)
            if found:
                best, worst, gain = found
                told.append(
                    f"{_mean(of[best]).mean:.1f} % at best ({best:g}) and {gain.mean:.1f} ± "
                    f"{gain.error:.1f} points less at worst ({worst:g}) with r = {rank}"
                )
        inner = {
            rank: {mu: runs for mu, runs in of.items() if 0.1 <= mu <= 10}
            for rank, of in (curves if name == "μ" else {}).items()
        }
        middle = [
            f"{found[2].mean:.1f} at r = {rank}"
            for rank, of in sorted(inner.items())
            if of and (found := _range(of))
        ]
        if told:
            text = f"by {name} " + ", ".join(told)
            parts.append(text + (f" (from 0.1 to 10: {', '.join(middle)})" if middle else ""))
    return (
        "The report: both μ and ℓ can have an effect; here, held-out accuracy on webcam: "
        f"{'; '.join(parts)}."
        if parts
        else "Too little is run yet to compare values."
    )


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


def _draw(kinds: dict[str, Curves], done: list[Done], folder: Path) -> str:
    plt = pyplot()
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
    words = "Held-out accuracy on webcam by μ and by the margin, mean and error of the mean"
    shown_ = picture(figure, folder, "olsen-petersen-figure-3", words)
    plt.close(figure)
    return shown_


_NOTE = """\
Held-out accuracy in per cent, mean ± error of the mean over the folds; the errors of two settings
are of the same folds, and of a difference smaller than of either. The best of many settings is
a little too good for what a new set would show."""


def _protocol(done: list[Done]) -> str:
    splits = len({each.job["split"] for each in done})
    typical = [each.result["typical"] for each in done]
    auto = [each.result["margin"] for each in done if each.job["share"] == AUTO]
    told = f" {min(auto):.3f} to {max(auto):.3f} on these folds" if auto else ""
    return f"""## Protocol and assumptions

- webcam, rows divided by their sums; folds: {splits}, stratified (5, up to 4 times over);
  `Chi2LMNN(r)` with k = 3 and the default start and solver.
- By μ at the default margin,{told}; by margin at μ = 1. The report first searches μ, at a margin
  that it does not name, then ℓ at the best μ. Its values can only be read off a picture that we do
  not have.
- The typical distance is the median χ² distance of a training row to the nearest of its class,
  {min(typical):.2f} to {max(typical):.2f} on these folds. χ² distances of histograms are at most
  1.
- The margin of the report's loss is in the same unit, χ² itself; its loss is the sum over rows
  where ours is the mean, which changes no minimum."""
