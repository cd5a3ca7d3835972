"""Points of a picture: the learnt space in two or three dimensions, after some iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import Frame
from vicinal.reporting.recording import Recorded

_POINTS_OF_ALL_FRAMES = 600_000
_MOST_FRAMES = 30
_SPREAD = 0.1  # height of the strip in which the points of a line are spread, by their deviation


class Axes:
    """Shows points of any dimension in two or three.

    Parameters
    ----------
    Z : array of shape (n, d)
        The learnt points.
    train : int array
        The points that were learnt from: they choose the axes.
    n_axes : int
        2 or 3.
    """

    def __init__(self, Z: Array, train: Array, n_axes: int) -> None:
        self.n_axes, self.d = n_axes, Z.shape[1]
        self._train = train
        self._target = _centred(Z, train)
        self._basis = np.eye(self.d)[:, :n_axes]
        self.share = 1.0
        if self.d > n_axes:
            _, s, V = np.linalg.svd(self._target[train], full_matrices=False)
            self._basis = V[:n_axes].T
            variance = s**2
            self.share = float(variance[:n_axes].sum() / (variance.sum() or 1.0))
        self._jitter = np.random.RandomState(0).uniform(-1.0, 1.0, (len(Z), n_axes))
        self._size = _size(self._target @ self._basis)

    @property
    def title(self) -> str:
        """What the picture shows of the learnt space."""
        if self.d == 1:
            return "The learnt space: a line. The second axis only spreads the points."
        if self.d == self.n_axes:
            return f"The learnt space, {self.d} dimensions"
        if self.d < self.n_axes:
            return f"The learnt space, {self.d} dimensions. The last axis only spreads the points."
        return (
            f"First {self.n_axes} principal axes of the learnt space of {self.d} dimensions "
            f"({100 * self.share:.0f} % of its variance)"
        )

    def show(self, Z: Array) -> Array:
        """Points turned towards the last ones, all pictures being of one size."""
        Z = _centred(Z, self._train)
        shown = Z @ self._turn(Z) @ self._basis
        shown *= self._size / (_size(shown) or 1.0)
        missing = self.n_axes - shown.shape[1]
        if missing > 0:
            strip = _SPREAD * self._size * self._jitter[:, :missing]
            shown = np.hstack([shown, strip])
        return shown.astype(np.float32)

    def _turn(self, Z: Array) -> Array:
        """The rotation that brings points nearest to the last ones (Procrustes)."""
        U, _, V = np.linalg.svd(Z[self._train].T @ self._target[self._train], full_matrices=False)
        return U @ V


def _centred(Z: Array, train: Array) -> Array:
    Z = np.asarray(Z, np.float64)
    return Z - Z[train].mean(axis=0)


def _size(Z: Array) -> float:
    """Root of the mean squared distance from the centre."""
    return float(np.sqrt(np.mean(np.sum(Z**2, axis=1))))


def thinned(frames: Sequence[Any], n: int) -> list[Any]:
    """As many frames as a page of n points has room for beside the last one, spread evenly."""
    most = int(np.clip(_POINTS_OF_ALL_FRAMES // max(n, 1), 3, _MOST_FRAMES)) - 1
    if len(frames) <= most:
        return list(frames)
    return [frames[i] for i in np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))]


def frames_of(
    axes: Axes,
    recorded: Sequence[Recorded],
    embed: Callable[[Any], Array],
    last: tuple[int, Array],
) -> list[Frame]:
    """The pictures after the recorded iterations and at the end, ``last``.

    ``embed(estimator)`` are the points of all rows of the picture under a recorded estimator.
    """
    frames = []
    for one in recorded:
        Z = one.points if one.points is not None else embed(one.estimator)
        frames.append(Frame(one.iteration, axes.show(Z)))
    return [*frames, Frame(last[0], axes.show(last[1]))]
