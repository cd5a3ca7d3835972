"""Pictures next to the pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["picture", "plain_frame", "pyplot", "square_frame"]


def picture(figure: Any, folder: Path, name: str) -> None:
    """Write a Matplotlib figure next to the page, and close it."""
    from PIL import Image  # comes with Matplotlib

    path = folder / f"{name}.png"
    figure.savefig(path, dpi=90, metadata={"Software": None})
    pyplot().close(figure)
    # A palette looks the same and takes a third of the room.  Median cut, the usual way to choose
    # it, would merge colours that few points have: two classes might become one.
    with Image.open(path) as drawn:
        small = drawn.convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)
    small.save(path, optimize=True)


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
