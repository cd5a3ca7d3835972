"""What growing tables cost: exponents, times, memory, and the picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.machine import machine_words
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot

#: one evaluation: words for each path
PATHS = {
    "exact": "exact, far tiles left out",
    "nearest": "lists of the 100 nearest",
    "compact": "compact kernel",
    "tree": "trees, tolerance 0.01",
}


#: fits at the largest size
FITS = ("defaults", "nearest", "exact")


COLOURS = {"exact": "#0072B2", "nearest": "#E69F00", "compact": "#009E73", "tree": "#D55E00"}


#: of an evaluation with lists, their renewal every ten iterations
REFRESH = 10


#: a cell of what was not run
NONE = "–"


def _evaluations(done: list[Done]) -> dict[Any, Any]:
    """Results of single evaluations by path, d and n."""
    return {
        (each.job["path"], each.job["d"], each.job["n"]): each.result
        for each in done
        if each.job["part"] == "evaluation"
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """Exponents, curves, tables."""
    evaluations = _evaluations(done)
    fits = {each.job["path"]: each.result for each in done if each.job["part"] == "fit"}
    return {
        "finding": _finding(evaluations, fits),
        "exponents": _exponents(evaluations),
        **_times(evaluations),
        **_fits(fits),
        "machine": machine_words(done),
    }


def _seconds(path: str, result: dict[str, Any]) -> float:
    """Of one evaluation by the clock, with its share of the search for lists."""
    return result["seconds"] + (result["search"] / REFRESH if path == "nearest" else 0.0)


def exponent(found: dict[Any, Any], path: str, d: int) -> tuple[float, int, int] | None:
    """Slope of log seconds by log n, least squares; and the sizes it goes over."""
    points = sorted((n, _seconds(path, r)) for (p, k, n), r in found.items() if (p, k) == (path, d))
    if len(points) < 3:
        return None
    n, seconds = np.log(np.array(points)).T
    return float(np.polyfit(n, seconds, 1)[0]), points[0][0], points[-1][0]


def _finding(found: dict[Any, Any], fits: dict[str, Any]) -> str:
    slopes = []
    for path, words in PATHS.items():
        each = [(d, exponent(found, path, d)) for d in (2, 3)]
        told = " and ".join(f"{e[0]:.2f} (d = {d})" for d, e in each if e is not None)
        if told:
            slopes.append(f"{words} {told}")
    told = f"{'; '.join(slopes)} (one run; no error known)" if slopes else ""
    text = (
        "Late in learning the time of one value and gradient grows with the number of rows n as "
        f"n to the power: {told or 'not run yet'}."
    )
    if "defaults" in fits:
        fit = fits["defaults"]
        under = "below" if fit["memory"] < 2e9 else "above"
        text += (
            f" `NCA(2)` on 1,000,000 × 50 takes {fit['seconds']:.0f} s and "
            f"{fit['memory'] / 1e9:.2f} GB beyond the input (one run), {under} our limit of 2 GB."
        )
    return text


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt, found = pyplot(), _evaluations(done)
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", sharey=True)
    for ax, d in zip(axes, (2, 3), strict=True):
        for path, words in PATHS.items():
            points = sorted(
                (n, _seconds(path, r)) for (p, k, n), r in found.items() if (p, k) == (path, d)
            )
            if points:
                ax.plot(*np.transpose(points), "o-", ms=4, color=COLOURS[path], label=words)
        sizes = np.array(sorted({n for _, k, n in found if k == d}), dtype=float)
        if len(sizes):
            first = [(p, r) for (p, k, n), r in found.items() if (k, n) == (d, sizes[0])]
            least = min(_seconds(p, r) for p, r in first)
            ax.plot(
                sizes, 0.4 * least * sizes / sizes[0], ":", color="0.5", label="proportional to n"
            )
        ax.set(xscale="log", yscale="log", xlabel="rows", title=f"d = {d}")
        plain_frame(ax)
    axes[0].set_ylabel("seconds, one value and gradient")
    picture(figure, folder, "nca-growth")


def _exponents(found: dict[Any, Any]) -> str:
    rows = []
    for path, d in product(PATHS, (2, 3)):
        fitted = exponent(found, path, d)
        if fitted is not None:
            rows.append([PATHS[path], d, f"{fitted[0]:.2f}", f"{fitted[1]:,} – {fitted[2]:,}"])
    return table(["path", "d", "exponent", "rows"], rows)


def _times(found: dict[Any, Any]) -> dict[str, Any]:
    sizes = sorted({n for _, _, n in found})
    rows = []
    for path, d in product(PATHS, (2, 3)):
        results = [found.get((path, d, n)) for n in sizes]
        if any(results):
            cells = [f"{_seconds(path, r):.3g}" if r else NONE for r in results]
            rows.append([PATHS[path], d, "seconds", *cells])
            if path == "nearest":
                searches = [f"{r['search']:.3g}" if r else NONE for r in results]
                rows.append(["", "", "of the search", *searches])
            rows.append(["", "", "pairs, %", *(_share(r["share"]) if r else NONE for r in results)])
            memory = [f"{r['memory'] / 1e6:.0f}" if r else NONE for r in results]
            rows.append(["", "", "memory, MB", *memory])
    return {"times": table(["path", "d", "", *(f"{n:,}" for n in sizes)], rows), "refresh": REFRESH}


def _share(share: float) -> str:
    return NONE if share != share else f"{100 * share:.3g}"


def _fits(fits: dict[str, Any]) -> dict[str, Any]:
    if not fits:
        return {}
    rows = [
        [
            name,
            f"{fit['seconds']:.0f} s",
            f"{fit['memory'] / 1e9:.2f}",
            fit["iterations"],
            fit["plan"].split("; about")[0].replace("|", "\\|"),
        ]
        for name in FITS
        if (fit := fits.get(name)) is not None
    ]
    return {"fits": table(["fit", "time", "GB beyond the input", "iterations", "plan"], rows)}


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index: exponents, and the memory of a fit."""
    found = _evaluations(done)
    for d in (2, 3):
        told = []
        for path in PATHS:
            fitted = exponent(found, path, d)
            if fitted is not None:
                told.append(f"{path} {fitted[0]:.2f}")
        if told:
            yield Claim(
                f"Time of an evaluation late in learning grows as n to the power (d = {d})",
                "answer",
                f"{', '.join(told)} (one run)",
            )
    fits = {each.job["path"]: each.result for each in done if each.job["part"] == "fit"}
    if "defaults" in fits:
        fit = fits["defaults"]
        yield Claim(
            "Time of NCA(2) on 1,000,000 × 50, and memory beyond the input",
            "answer",
            f"{fit['seconds']:.0f} s, {fit['memory'] / 1e9:.2f} GB (one run)",
        )
