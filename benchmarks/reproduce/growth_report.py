"""The report on time and memory as the rows grow in number."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.experiment import Done
from reproduce.report import picture, plain_frame, pyplot, table

__all__ = ["FITS", "PATHS", "report"]

#: one evaluation: words for each path
PATHS = {
    "exact": "exact, far tiles left out",
    "nearest": "lists of the 100 nearest",
    "compact": "compact kernel",
    "tree": "trees, tolerance 0.01",
}
#: fits at the largest size
FITS = ("defaults", "stochastic", "nearest", "compact", "exact")
COLOURS = {"exact": "#0072B2", "nearest": "#E69F00", "compact": "#009E73", "tree": "#D55E00"}
#: of an evaluation with lists, their renewal every ten iterations
REFRESH = 10


def report(done: list[Done], folder: Path) -> str:
    """Exponents, curves, tables."""
    evaluations = {
        (each.job["path"], each.job["d"], each.job["n"]): each.result
        for each in done
        if each.job["part"] == "evaluation"
    }
    fits = {each.job["path"]: each.result for each in done if each.job["part"] == "fit"}
    if not evaluations:
        return "Not run yet."
    loads = [each.result["load"] for each in done]
    parts = [
        _finding(evaluations, fits),
        _draw(evaluations, folder),
        _exponents(evaluations),
        _times(evaluations),
        _fits(fits),
        _protocol(loads),
    ]
    return "\n\n".join(part for part in parts if part)


def _clock(found: dict[Any, Any]) -> str:
    """The wall-clock; where the machine was busy with other things, the time of the cores."""
    busy = float(np.median([result["load"] for result in found.values()]))
    return "cpu" if busy > 1.5 * (os.cpu_count() or 1) else "seconds"


def _seconds(path: str, result: dict[str, Any], clock: str) -> float:
    """Of one evaluation, with its share of the search for lists; by the wall or of all cores."""
    search = result["search" if clock == "seconds" else "search cpu"]
    return result[clock] + (search / REFRESH if path == "nearest" else 0.0)


def exponent(found: dict[Any, Any], path: str, d: int, clock: str) -> tuple[float, int, int] | None:
    """Slope of log seconds by log n, least squares; and the sizes it goes over."""
    points = sorted(
        (n, _seconds(path, r, clock)) for (p, k, n), r in found.items() if (p, k) == (path, d)
    )
    if len(points) < 3:
        return None
    n, seconds = np.log(np.array(points)).T
    return float(np.polyfit(n, seconds, 1)[0]), points[0][0], points[-1][0]


def _finding(found: dict[Any, Any], fits: dict[str, Any]) -> str:
    slopes = []
    for path, words in PATHS.items():
        each = [(d, exponent(found, path, d, _clock(found))) for d in (2, 3)]
        told = " and ".join(f"{e[0]:.2f} (d = {d})" for d, e in each if e is not None)
        if told:
            slopes.append(f"{words} {told}")
    text = (
        "Late in learning the time of one value and gradient grows with the number of rows n as "
        f"n to the power: {'; '.join(slopes) or 'not run yet'}."
    )
    if "defaults" in fits:
        fit = fits["defaults"]
        under = "under" if fit["memory"] < 2e9 else "above"
        text += (
            f" `NCA(2)` on 1,000,000 × 50 takes {_spent(fit)} and "
            f"{fit['memory'] / 1e9:.2f} GB beyond the input, {under} the 2 GB that were asked for."
        )
    return text


def _spent(fit: dict[str, Any]) -> str:
    if fit["load"] <= 1.5 * (os.cpu_count() or 1):
        return f"{fit['seconds']:.0f} s"
    return f"{fit['cpu']:.0f} CPU s" if "cpu" in fit else f"{fit['seconds']:.0f} s (busy)"


def _draw(found: dict[Any, Any], folder: Path) -> str:
    plt, clock = pyplot(), _clock(found)
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", sharey=True)
    for ax, d in zip(axes, (2, 3), strict=True):
        for path, words in PATHS.items():
            points = sorted(
                (n, _seconds(path, r, clock))
                for (p, k, n), r in found.items()
                if (p, k) == (path, d)
            )
            if points:
                ax.plot(*np.transpose(points), "o-", ms=4, color=COLOURS[path], label=words)
        sizes = np.array(sorted({n for _, k, n in found if k == d}), dtype=float)
        if len(sizes):
            first = [(p, r) for (p, k, n), r in found.items() if (k, n) == (d, sizes[0])]
            least = min(_seconds(p, r, clock) for p, r in first)
            ax.plot(sizes, 0.4 * least * sizes / sizes[0], ":", color="0.5", label="proportional")
        ax.set(xscale="log", yscale="log", xlabel="rows", title=f"d = {d}")
        plain_frame(ax)
    unit = "seconds" if clock == "seconds" else "CPU seconds"
    axes[0].set_ylabel(f"{unit}, one value and gradient")
    words = "Seconds of one evaluation by number of rows, four paths"
    shown = picture(figure, folder, "nca-growth", words)
    plt.close(figure)
    return shown


def _exponents(found: dict[Any, Any]) -> str:
    rows = []
    for path, d in product(PATHS, (2, 3)):
        fitted = exponent(found, path, d, _clock(found))
        if fitted is not None:
            rows.append([PATHS[path], d, f"{fitted[0]:.2f}", f"{fitted[1]:,} – {fitted[2]:,}"])
    return table(["path", "d", "exponent", "rows"], rows)


def _times(found: dict[Any, Any]) -> str:
    sizes, clock = sorted({n for _, _, n in found}), _clock(found)
    unit = "seconds" if clock == "seconds" else "CPU seconds"
    rows = []
    for path, d in product(PATHS, (2, 3)):
        results = [found.get((path, d, n)) for n in sizes]
        if any(results):
            cells = [r and f"{_seconds(path, r, clock):.3g}" for r in results]
            rows.append([PATHS[path], d, unit, *cells])
            if path == "nearest":
                key = "search" if clock == "seconds" else "search cpu"
                rows.append(["", "", "of the search", *(r and f"{r[key]:.3g}" for r in results)])
            rows.append(["", "", "pairs, %", *(r and _share(r["share"]) for r in results)])
            memory = [r and f"{r['memory'] / 1e6:.0f}" for r in results]
            rows.append(["", "", "memory, MB", *memory])
    return (
        table(["path", "d", "", *(f"{n:,}" for n in sizes)], rows)
        + "\n\nSeconds: the best of some repeats (2 from 100,000 rows on, of trees 1 above); lists "
        f"with 1/{REFRESH} of the search, made anew every {REFRESH} iterations. Pairs: the share "
        "of all that is computed. Memory: the peak beyond points and labels, lists included."
    )


def _share(share: float) -> str:
    return "" if share != share else f"{100 * share:.3g}"


def _fits(fits: dict[str, Any]) -> str:
    if not fits:
        return ""
    rows = [
        [
            name,
            _spent(fit),
            f"{fit['memory'] / 1e9:.2f}",
            fit["iterations"],
            fit["plan"].split("; about")[0].replace("|", "\\|"),
        ]
        for name in FITS
        if (fit := fits.get(name)) is not None
    ]
    return (
        "## Memory of a fit\n\n"
        + table(["fit", "time", "GB beyond the input", "iterations", "plan"], rows)
        + '\n\nAll at 1,000,000 × 50 in float32 (0.2 GB), d = 2. "defaults" is `NCA(2)` from its '
        "own start to its end; the others make two steps, next to none in length, from the map "
        "that is timed above: that shows their memory, not how long a fit takes."
    )


def _protocol(loads: list[float]) -> str:
    return f"""## Protocol

Rows: 36 classes, each a cloud about a point of a 6 × 6 grid on a square sheet (standard deviation
0.07, the grid has steps of 0.2, so that neighbouring classes touch), which is bent by sines of
random directions into 50 columns, with noise of 0.01. The map is the best linear view of the sheet
by least squares (d = 2), and one more direction (d = 3), in float32; its scale is such that a row
consults 8 others in the mean (the exponential of the entropy of its choice, on a sample): the
state late in learning, for every number of rows. Gaussian kernel and log objective, for the compact
kernel the accuracy objective. {os.cpu_count()} cores, all used; the load of the machine was
{min(loads):.1f} to {max(loads):.1f} when the jobs began (1 is one busy core). Where other programs
kept it busy, the wall-clock says nothing, and the seconds of all cores together are shown: on a
quiet machine the wall-clock would be a little more than half of them."""
