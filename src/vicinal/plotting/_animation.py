"""An embedding as it develops, as a GIF or an MP4."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.plotting._colours import colouring
from vicinal.plotting._embedding import new_panels
from vicinal.plotting._matplotlib import pyplot
from vicinal.plotting._names import add_names
from vicinal.plotting._points import draw_points

_MARGIN = 1.06  # of the view beyond the outermost points
_CALM = 2  # frames before and after that the view of a frame also holds, so that it does not jump


def animate(
    frames: Any,
    y: Any = None,
    *,
    path: str | os.PathLike[str],
    fps: float = 15.0,
    hold: float = 1.5,
    classes: Any = None,
    size: float = 9.0,
    legend: bool = True,
    dpi: float = 100.0,
) -> Path:
    """Write the frames of an embedding as an animation.

    The view follows the picture: it is square, and all points of a frame are inside.

    Parameters
    ----------
    frames : vicinal.callbacks.Frames or sequence of array-like of shape (n, 2)
        What the callback has recorded, or embeddings of the same rows, one after the other.
    y : array-like of shape (n,), default=None
        Class labels; None draws all rows in one colour.
    path : str or path-like
        The file, by its ending a GIF (``.gif``) or a film (``.mp4``, which needs the program
        ffmpeg).  Missing folders are created.
    fps : float, default=15.0
        Frames per second.
    hold : float, default=1.5
        For how many seconds the last frame stays.
    classes, size, legend
        As in :func:`scatter`.
    dpi : float, default=100.0
        Pixels per inch; the picture is four inches high.

    Returns
    -------
    path : Path
        The file.
    """
    path = Path(path)
    places, titles = _frames(frames)
    if not fps > 0 or not hold >= 0:
        name, value, bound = ("fps", fps, "(0") if not fps > 0 else ("hold", hold, "[0")
        raise ValueError(
            f"The {name!r} parameter of animate must be a float in {bound}, inf). "
            f"Got {value!r} instead."
        )
    colours = colouring(y, len(places[0]), classes)
    names = "legend" if legend else "none"
    writer = _writer(path, fps)
    path.parent.mkdir(parents=True, exist_ok=True)
    plt = pyplot()
    [ax] = new_panels(places[:1], colours, names, height=4.0)
    try:
        artists, _ = draw_points(ax, places[0], colours, size=size)
        add_names(ax, places[0], colours, names)
        ax.set_aspect("equal", adjustable="box")
        ax.set_title(" ")  # leaves room for the iterations
        ax.figure.canvas.draw()
        ax.figure.set_layout_engine("none")  # no frame may shift the axes
        with writer.saving(ax.figure, str(path), dpi):
            for Z, view, title in zip(places, _views(places), titles, strict=True):
                for artist, rows in artists:
                    artist.set_offsets(Z[rows])
                ax.set(**view)
                ax.set_title(title, fontsize="medium")
                writer.grab_frame()
            for _ in range(round(hold * fps)):
                writer.grab_frame()
    finally:
        plt.close(ax.figure)
    return path


def _frames(frames: Any) -> tuple[list[Array], list[str]]:
    """The embeddings and a title for each."""
    places = [np.asarray(Z) for Z in getattr(frames, "embeddings", frames)]
    if not places:
        raise ValueError(
            "The 'frames' parameter of animate must hold at least one frame. Got none."
        )
    shape = places[0].shape
    for at, Z in enumerate(places):
        if Z.ndim != 2 or Z.shape[1] != 2 or Z.shape != shape:
            raise ValueError(
                "The 'frames' parameter of animate must hold arrays of one shape (n, 2). "
                f"Frame {at} has shape {Z.shape}."
            )
    iterations = getattr(frames, "iterations", None)
    titles = [""] * len(places) if iterations is None else [f"iteration {i}" for i in iterations]
    return places, titles


def _views(places: list[Array]) -> list[dict[str, tuple[float, float]]]:
    """A square for each frame that holds its points and the points of its neighbours."""
    low = np.array([Z.min(axis=0) for Z in places])
    high = np.array([Z.max(axis=0) for Z in places])
    views = []
    for at in range(len(places)):
        near = slice(max(0, at - _CALM), at + _CALM + 1)
        least, most = low[near].min(axis=0), high[near].max(axis=0)
        half = 0.5 * _MARGIN * float((most - least).max()) or 1.0
        x, y = (float(c) for c in 0.5 * (least + most))
        views.append({"xlim": (x - half, x + half), "ylim": (y - half, y + half)})
    return views


def _writer(path: Path, fps: Any) -> Any:
    pyplot()  # says what to install where there is no matplotlib
    from matplotlib import animation

    if path.suffix.lower() == ".gif":
        return animation.PillowWriter(fps=fps)
    if path.suffix.lower() != ".mp4":
        raise ValueError(
            "The 'path' parameter of animate must end in '.gif' or '.mp4'. "
            f"Got {str(path)!r} instead."
        )
    if not animation.FFMpegWriter.isAvailable():
        raise RuntimeError(
            "To write an MP4, animate needs the program ffmpeg, which was not found. Install it, "
            f"or write a GIF: path={str(path.with_suffix('.gif'))!r}."
        )
    return animation.FFMpegWriter(fps=fps, codec="h264", extra_args=["-pix_fmt", "yuv420p"])
