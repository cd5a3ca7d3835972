"""Olsen & Petersen, figure 2: how the loss falls by projection and by softmax, at several rates."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import data as stored
from reproduce.framework.statistics import Summary
from reproduce.olsen.common import (
    Gain,
    K,
    chi2_1nn,
    folds,
    histograms,
    shown,
    verdicts,
)
from vicinal import Chi2LMNN
from vicinal.solvers import BoldDriver
from vicinal.starts import BinGroups, BinIdentity

RANK = 10


ITERATIONS = 300


OWN = "own"


STARTS = ("identity, cut", "groups")


#: constraint and first learning rate; OWN is the solver that Chi2LMNN takes by itself
LINES = (
    ("projection", 0.1), ("projection", 1.0), ("projection", 10.0), ("projection", OWN),
    ("softmax", 1.0), ("softmax", 10.0), ("softmax", 100.0), ("softmax", OWN),
)  # fmt: skip


_SOLVERS = {"projection": "spectral projected gradients", "softmax": "L-BFGS"}


#: shades of the learning rates, light to dark, and of the own solver
_COLOURS = {
    "projection": ("#9ecae1", "#4292c6", "#08519c", "black"),
    "softmax": ("#fdbe85", "#f16913", "#8c2d04", "0.5"),
}


#: a step that lowers the sum of losses by less is the report's last
_REPORTS_TOL = 0.01


_SHOWN = (10, 30, 100, 300)


Line = tuple[str, Any]


Runs = dict[Line, dict[int, Any]]


FOLDS = 5


#: by their names in the parts
_INIT = dict(zip(STARTS, (BinIdentity(), BinGroups()), strict=True))


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each line and fold; ``--where constraint=softmax`` takes some."""
    for split, start, (constraint, rate) in product(range(splits or FOLDS), STARTS, LINES):
        where = {"data": "webcam", "split": split, "start": start}
        yield {**where, "constraint": constraint, "rate": rate}


def work(data: str, split: int, start: str, constraint: str, rate: float | str) -> dict[str, Any]:
    """The loss at each iteration, summed over the rows as the report has it."""
    X, y = stored(data)
    H, y = histograms(X), np.asarray(y)
    train, test = folds(y, split)
    # [OlsenPetersen] section 3
    adaptive = {"increase": 1.01, "decrease": 0.5, "max_failures": 20}
    solver = "auto" if rate == OWN else BoldDriver(learning_rate=float(rate), **adaptive)
    model = Chi2LMNN(
        min(RANK, H.shape[1]), k=K, constraint=constraint, init=_INIT[start], solver=solver,
        max_iter=ITERATIONS, tol=0.0, random_state=split,
    ).fit(H[train], y[train])  # fmt: skip
    return {
        "loss": [float(f"{len(train) * loss:.6g}") for loss in model.history_["loss"]],
        "evaluations": int(model.history_["n_evaluations"][-1]),
        "held out": chi2_1nn(model.transform(H), y, train, test),
        "margin": float(model.margin_),
        "rows": len(train),
    }


def _by_start(done: list[Done]) -> dict[str, Runs]:
    """Results by start, then by line, then by fold."""
    found: dict[str, Runs] = {}
    for each in done:
        job = each.job
        runs = found.setdefault(job["start"], {})
        runs.setdefault((job["constraint"], job["rate"]), {})[job["split"]] = each.result
    return found


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, a table for each start, and numbers of the protocol."""
    found = _by_start(done)
    starts = [start for start in STARTS if start in found]
    tables = "\n\n".join(f"## Start: {start}\n\n{_table(found[start])}" for start in starts)
    return {
        "finding": _finding(found),
        "tables": tables,
        "verdicts": verdicts(claims(done)),
        "iterations": ITERATIONS,
        "reports_tol": f"{_REPORTS_TOL:g}",
        **_protocol(done),
    }


def _words(line: Line) -> str:
    constraint, rate = line
    return f"{constraint}, " + (_SOLVERS[constraint] if rate == OWN else f"rate {rate:g}")


def _at(run: Any, iteration: int) -> float:
    """The least loss up to an iteration: a spectral step may raise it."""
    return min(run["loss"][: iteration + 1])


def _stop(run: Any) -> int | None:
    """Where the report's rule would have stopped: a step that lowers the sum by less than 0.01."""
    falls = -np.diff(run["loss"])
    slow = np.flatnonzero(falls < _REPORTS_TOL)
    return int(slow[0]) + 1 if len(slow) else None


def _best(runs: Runs, constraint: str, iteration: int, own: bool) -> Line | None:
    """The line of a constraint that has the least mean loss at an iteration."""
    means = {
        line: float(np.mean([_at(run, iteration) / run["rows"] for run in of.values()]))
        for line, of in runs.items()
        if line[0] == constraint and (line[1] == OWN) == own
    }
    return min(means, key=lambda line: means[line]) if means else None


#: iteration at which we ask which constraint is faster
_EARLY = 30


def _gap(runs: Runs, iteration: int, own: bool) -> Gap | None:
    """Loss a row by softmax less that by projection on the same folds, each at its best rate."""
    best = [_best(runs, constraint, iteration, own) for constraint in _SOLVERS]
    if best[0] is None or best[1] is None:
        return None
    one, two = runs[best[0]], runs[best[1]]
    common = sorted(set(one) & set(two))
    gaps = [(_at(two[s], iteration) - _at(one[s], iteration)) / one[s]["rows"] for s in common]
    return Gap(gaps) if gaps else None


class Gap:
    """Mean and corrected error of differences of losses."""

    def __init__(self, gaps: list[float]) -> None:
        self.mean, self.folds = float(np.mean(gaps)), len(gaps)
        self.error = Gain(np.array(gaps) / 100.0).error

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}" if self.folds > 1 else f"{self.mean:+.2f}"

    @property
    def clear(self) -> bool:
        """Whether softmax is behind by more than two corrected errors."""
        return self.folds > 1 and self.mean > 2 * self.error


def _finding(found: dict[str, Runs]) -> str:
    told = []
    for start in [start for start in STARTS if start in found]:
        for own in (False, True):
            gaps = {at: gap for at in (_EARLY, ITERATIONS) if (gap := _gap(found[start], at, own))}
            if gaps:
                how = "our own solvers" if own else "best rates"
                listed = "; ".join(
                    f"{gap} after {at} iterations{'' if own else f' ({_rates(found[start], at)})'}"
                    for at, gap in gaps.items()
                )
                told.append(f'- start "{start}", {how}: {listed}')
    if not told:
        return "Too little is run yet to compare the two constraints."
    lines = "\n".join(told)
    return (
        "The report: projection converges faster, and to a lower loss, than softmax. Here, loss a "
        f"row by softmax less that by projection, on the same folds:\n\n{lines}\n\n{_edge(found)}"
    )


def _rates(runs: Runs, iteration: int) -> str:
    best = [_best(runs, constraint, iteration, own=False) for constraint in _SOLVERS]
    return "rates " + " and ".join(f"{line[1]:g}" for line in best if line)


def _at_edge(runs: Runs, constraint: str, iteration: int) -> bool:
    """Whether the best rate is the largest tried, so that a larger one may do better."""
    best = _best(runs, constraint, iteration, own=False)
    return bool(best) and best[1] == max(r for c, r in LINES if c == constraint and r != OWN)


def _edge(found: dict[str, Runs]) -> str:
    """Which best rates are the largest tried, and which leads a larger rate might end."""
    told: list[str] = []
    leads: dict[str, list[str]] = {}
    for at in (_EARLY, ITERATIONS):
        edges = [c for c in _SOLVERS if any(_at_edge(runs, c, at) for runs in found.values())]
        if edges:
            told.append(f"of {' and of '.join(edges)} after {at} iterations")
        for runs in found.values():
            gap = _gap(runs, at, own=False)
            ahead, behind = _SOLVERS if gap and gap.mean > 0 else reversed(_SOLVERS)
            if gap and _at_edge(runs, behind, at):
                leads.setdefault(f"{ahead} over {behind}", []).append(str(at))
    if not told:
        return ""
    which = ", and ".join(told)
    text = f"The largest rate tried is the best one {which}: a larger one may do better."
    for lead, ats in leads.items():
        when = " and ".join(dict.fromkeys(ats))
        text += f" So at the best rates the lead of {lead} after {when} iterations holds "
        text += "among the rates tried only."
    return f"{text} Our own solvers have no rate to choose."


def claims(done: list[Done]) -> Iterator[Claim]:
    """Faster, and to a lower loss: at the best rates and by our own solvers, from both starts."""
    found = _by_start(done)
    for iteration, says in {
        _EARLY: f"Projection converges faster than softmax (loss after {_EARLY} iterations)",
        ITERATIONS: f"Projection reaches a lower loss than softmax (after {ITERATIONS} iterations)",
    }.items():
        pairs = [_gap(runs, iteration, own) for runs in found.values() for own in (False, True)]
        gaps = [gap for gap in pairs if gap]
        if gaps:
            edge = any(_at_edge(runs, "softmax", iteration) for runs in found.values())
            word = "seen" if all(gap.clear for gap in gaps) and not edge else "partly"
            if all(gap.mean <= 0 and gap.folds > 1 for gap in gaps):
                word = "not seen"
            least = min(gaps, key=lambda gap: gap.mean)
            last = "; softmax's best rate is the largest" if edge else f", {least.folds} folds"
            yield Claim(says, word, f"softmax {least} a row or more{last}")


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt, found = pyplot(), _by_start(done)
    starts = [start for start in STARTS if start in found]
    figure, axes = plt.subplots(
        1, len(starts), figsize=(5.2 * len(starts), 4.6), layout="constrained", squeeze=False,
        sharey=True,
    )  # fmt: skip
    shades = {line: _COLOURS[line[0]][i % 4] for i, line in enumerate(LINES)}
    for ax, start in zip(axes[0], starts, strict=True):
        for line in [line for line in LINES if line in found[start]]:
            runs = found[start][line]
            run = runs[min(runs)]
            loss = np.asarray(run["loss"]) / run["rows"]
            ax.plot(loss, color=shades[line], ls="--" if line[1] == OWN else "-", lw=1.4,
                    label=_words(line))  # fmt: skip
        ax.set(yscale="log", xlabel="iteration", title=f"start: {start}")
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.9", lw=0.6)
    axes[0, 0].set_ylabel("loss per training row")
    lines = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
    below = {"loc": "outside lower center", "ncols": 2, "frameon": False, "fontsize": "small"}
    figure.legend(lines.values(), lines, **below)
    picture(figure, folder, "olsen-petersen-figure-2")


def _table(runs: Runs) -> str:
    rows = []
    for line in [line for line in LINES if line in runs]:
        of = list(runs[line].values())
        stops = [stop for run in of if (stop := _stop(run)) is not None]
        losses = [np.mean([_at(run, t) / run["rows"] for run in of]) for t in _SHOWN]
        rows.append([
            _words(line), *(f"{loss:.3g}" for loss in losses),
            f"{np.mean([run['evaluations'] for run in of]):.0f}",
            f"{np.median(stops):.0f} ({len(stops)} of {len(of)})" if stops else "never",
            shown(Summary([run["held out"] for run in of])),
        ])  # fmt: skip
    header = [
        "line", *(f"loss at {t}" for t in _SHOWN), "evaluations", "the report's stop",
        "held out, 1-NN",
    ]  # fmt: skip
    return table(header, rows)


def _protocol(done: list[Done]) -> dict[str, Any]:
    splits = len({each.job["split"] for each in done})
    rows = sorted({each.result["rows"] for each in done})
    margins = [each.result["margin"] for each in done]
    return {
        "rank": RANK,
        "k": K,
        "min_margins": f"{min(margins):.3f}",
        "max_margins": f"{max(margins):.3f}",
        "splits": splits,
        "rows": rows[0],
        "iterations_2": ITERATIONS,
        "projection": _SOLVERS["projection"],
        "softmax": _SOLVERS["softmax"],
    }


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-figure-2",
        "Olsen & Petersen figure 2: projection and softmax as the loss falls, webcam, r = 10",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
)
