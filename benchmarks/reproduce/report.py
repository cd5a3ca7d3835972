"""Markdown and pictures: tables with the paper's figure beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduce.protocol import Summary

__all__ = [
    "Published",
    "distance",
    "lead",
    "picture",
    "plain_frame",
    "pyplot",
    "square_frame",
    "table",
    "verdict",
]


class Published(NamedTuple):
    """A figure of a paper, in per cent, and its standard error (0 where none is given)."""

    mean: float
    error: float = 0.0

    def __str__(self) -> str:
        return f"{self.mean:g} ± {self.error:g}" if self.error else f"{self.mean:g}"


def distance(ours: Summary, paper: Published) -> float:
    """Standard errors of the difference by which we are above the paper; nan without any."""
    error = (ours.error**2 + paper.error**2) ** 0.5
    return (ours.mean - paper.mean) / error if error else float("nan")


def verdict(ours: Summary | None, paper: Published) -> str:
    """The distance in words: bold below -3, points where there is no error, empty without ours."""
    if ours is None:
        return ""
    z = distance(ours, paper)
    if z != z:
        return f"{ours.mean - paper.mean:+.1f} points"
    return f"**{z:+.1f} SE**" if z < -3.0 else f"{z:+.1f} SE"


def lead(first: Any, second: Any) -> tuple[float, float]:
    """By how much the first is ahead in the mean over common splits, and in standard errors.

    The errors are 0 for one split, of which nothing can be said.
    """
    gap = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    points = float(gap.mean())
    if len(gap) < 2 or points == 0.0:
        return points, 0.0
    error = float(gap.std(ddof=1) / np.sqrt(len(gap)))
    return points, points / error if error else float(np.copysign(np.inf, points))


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A markdown table."""
    header = list(header)
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(['---'] * len(header))}|"]
    lines += [
        f"| {' | '.join('' if cell is None else str(cell) for cell in row)} |" for row in rows
    ]
    return "\n".join(lines)


def picture(figure: Any, folder: Path, name: str, words: str) -> str:
    """Write a Matplotlib figure beside the report; the markdown that shows it."""
    from PIL import Image  # comes with Matplotlib

    path = folder / f"{name}.png"
    figure.savefig(path, dpi=90, metadata={"Software": None})
    # A palette looks the same and takes a third of the room.  Median cut, the usual way to choose
    # it, would merge colours that few points have: two classes might become one.
    with Image.open(path) as drawn:
        small = drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
    small.save(path, optimize=True)
    return f"![{words}]({path.name})"


def pyplot() -> Any:
    """Matplotlib without a screen, imported when a picture is drawn."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def plain_frame(ax: Any) -> None:
    """A light grid, two spines, and the legend."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="0.9", lw=0.6)
    ax.legend(frameon=False, fontsize="small")


def square_frame(ax: Any, Z: Any) -> None:
    """A square that holds all points but the outermost few in a thousand of either coordinate."""
    low, high = np.quantile(Z, [0.002, 0.998], axis=0)
    half = 0.54 * float((high - low).max())
    (x, y) = 0.5 * (low + high)
    ax.set_aspect("equal", adjustable="box")
    ax.set(xlim=(x - half, x + half), ylim=(y - half, y + half))
