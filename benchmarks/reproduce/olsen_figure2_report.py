"""The report on Olsen & Petersen's figure 2: how the loss falls by projection and by softmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduce.experiment import Done
from reproduce.olsen_common import K
from reproduce.olsen_scores import shown
from reproduce.protocol import Summary
from reproduce.report import picture, pyplot, table

__all__ = ["ITERATIONS", "LINES", "OWN", "RANK", "STARTS", "report"]

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


def report(done: list[Done], folder: Path) -> str:
    """Markdown; the picture goes beside it."""
    if not done:
        return "Not run yet."
    found: dict[str, Runs] = {}
    for each in done:
        job = each.job
        runs = found.setdefault(job["start"], {})
        runs.setdefault((job["constraint"], job["rate"]), {})[job["split"]] = each.result
    parts = [_finding(found), _draw(found, folder)]
    for start in [start for start in STARTS if start in found]:
        parts += [f"## Start: {start}", _table(found[start])]
    return "\n\n".join([*parts, _NOTE, _protocol(done)])


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


def _compared(runs: Runs, constraint: str, own: bool) -> tuple[Line, float] | None:
    """The line of least mean loss at the end of a constraint, and that loss per row."""
    means = {
        line: float(np.mean([_at(run, ITERATIONS) / run["rows"] for run in of.values()]))
        for line, of in runs.items()
        if line[0] == constraint and (line[1] == OWN) == own
    }
    if not means:
        return None
    best = min(means, key=lambda line: means[line])
    return best, means[best]


def _wins(runs: Runs) -> str:
    """At each rate that both have, whether projection ends lower."""
    both = sorted(
        {line[1] for line in runs if line[0] == "projection" and line[1] != OWN}
        & {line[1] for line in runs if line[0] == "softmax" and line[1] != OWN}
    )
    parts = []
    for rate in both:
        one, two = runs["projection", rate], runs["softmax", rate]
        common = sorted(set(one) & set(two))
        if common:
            lower = sum(_at(one[s], ITERATIONS) < _at(two[s], ITERATIONS) for s in common)
            parts.append(f"{lower} of {len(common)} folds at rate {rate:g}")
    return ", ".join(parts)


def _finding(found: dict[str, Runs]) -> str:
    parts = []
    for start in [start for start in STARTS if start in found]:
        runs = found[start]
        told = []
        for own in (False, True):
            pair = [_compared(runs, constraint, own) for constraint in _SOLVERS]
            if all(pair):
                ends = [f"{loss:.2f} ({_words(line)})" for line, loss in pair]  # type: ignore[misc]
                told.append(f"{'own solvers' if own else 'best rate'} {' and '.join(ends)}")
        wins = _wins(runs)
        if wins:
            told.append(f"projection lower on {wins}")
        if told:
            parts.append(f"from {start}, {', '.join(told)}")
    return (
        "The report: projection converges faster, and to a lower loss, than softmax; here, loss a "
        f"row after {ITERATIONS} iterations: {'; '.join(parts)}."
        if parts
        else "Too little is run yet to compare the two constraints."
    )


def _draw(found: dict[str, Runs], folder: Path) -> str:
    plt = pyplot()
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
    words = "Loss by iteration, projection and softmax, several rates and our own solvers"
    shown_ = picture(figure, folder, "olsen-petersen-figure-2", words)
    plt.close(figure)
    return shown_


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


_NOTE = f"""\
Loss per training row, the least up to an iteration, mean over the folds. Evaluations: of loss and
gradient, in all {ITERATIONS} iterations. "The report's stop": the median iteration whose step
lowers the loss, summed over the rows, by less than {_REPORTS_TOL:g}, and in how many folds there is
one; a spectral step may also raise it. Held out: per cent after the last iteration."""


def _protocol(done: list[Done]) -> str:
    splits = len({each.job["split"] for each in done})
    rows = sorted({each.result["rows"] for each in done})
    margins = [each.result["margin"] for each in done]
    return f"""## Protocol and assumptions

- webcam, rows divided by their sums, r = {RANK}, k = {K}, μ = 1, margin
  {min(margins):.3f} to {max(margins):.3f} (`margin="auto"`); folds: {splits}, of {rows[0]} training
  rows; the picture shows the first. The report gives neither μ, ℓ, k nor the rows of its figure.
- Rates: the step of the report's section 3, ×1.01 after a success, halved at most 20 times, by
  `BoldDriver`. The figure's rates cannot be read from the text, but that those of softmax differ
  from those of projection; here they are ten times larger, and two are in both. Our loss is a mean
  over the rows, so that a rate here is one of the report's times the number of rows.
- No tolerance: all lines go on for {ITERATIONS} iterations unless they stall.
- "identity, cut" is the report's start softmax(10 I + 0.01), of which r rows are kept; the report
  does not say what it does for r < 800. "groups" is the default of `Chi2LMNN`.
- Both constraints begin with the same map. The dashed lines are what `Chi2LMNN(constraint=...)`
  does by itself: {_SOLVERS["projection"]} for projection, {_SOLVERS["softmax"]} for softmax."""
