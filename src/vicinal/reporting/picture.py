"""The picture of a page: the rows before learning, and after some iterations and the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import Embedding, Frame
from vicinal.reporting.spaces import Points, Space, principal
from vicinal.reporting.subject import embedded

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
        self.n_axes, self.d, self._train = n_axes, Z.shape[1], train
        self._target = self._centred(Z)
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
            return "The learnt space: a line. Its height only spreads the points."
        if self.d == self.n_axes:
            return f"The learnt space, {self.d} dimensions"
        if self.d < self.n_axes:
            return f"The learnt space, {self.d} dimensions. The last axis only spreads the points."
        return (
            f"The learnt space of {self.d} dimensions, seen from where it is widest "
            f"({100 * self.share:.0f} % of its variance)"
        )

    def show(self, Z: Array) -> Array:
        """Points turned towards the last ones (Procrustes), all pictures being of one size."""
        Z, train = self._centred(Z), self._train
        U, _, V = np.linalg.svd(Z[train].T @ self._target[train], full_matrices=False)
        shown = Z @ (U @ V) @ self._basis
        shown *= self._size / (_size(shown) or 1.0)
        missing = self.n_axes - shown.shape[1]
        strip = _SPREAD * self._size * self._jitter[:, :missing]
        return np.hstack([shown, strip]).astype(np.float32)

    def _centred(self, Z: Array) -> Array:
        Z = np.asarray(Z, np.float64)
        return Z - Z[self._train].mean(axis=0)


def _size(Z: Array) -> float:
    """Root of the mean squared distance from the centre."""
    return float(np.sqrt(np.mean(np.sum(Z**2, axis=1))))


def thinned(frames: Sequence[Any], n: int) -> list[Any]:
    """As many frames as a page of n points has room for next to the last one, spread evenly."""
    most = int(np.clip(_POINTS_OF_ALL_FRAMES // max(n, 1), 3, _MOST_FRAMES)) - 1
    if len(frames) <= most:
        return list(frames)
    return [frames[i] for i in np.unique(np.linspace(0, len(frames) - 1, most).round().astype(int))]


def picture_of(
    points: Points, predicted: Array | None = None, target: str = ""
) -> tuple[Embedding, list[tuple[int, Space]]]:
    """The picture, and the points after each iteration that its score is computed for.

    ``predicted`` are the predictions of a cross-validation; without, those of held-out rows.
    """
    fitted, Z = points.fitted, points.after.points
    n_axes = 3 if Z.shape[1] == 3 and _asked_for_three(fitted.learner) else 2
    axes = Axes(Z, points.train, n_axes)
    last = int(getattr(fitted.learner, "n_iter_", 0))
    recorded = [] if fitted.recorder is None else fitted.recorder.frames
    recorded = [
        one
        for one in recorded
        if one.iteration < last and (one.points is None or len(one.points) == len(Z))
    ]
    frames, spaces = [], []
    for one in thinned(recorded, points.n):
        at = one.points
        if at is None:
            at = embedded(one.estimator, points.prepared)
            spaces.append((one.iteration, Space(at, points.after.chi2)))
        frames.append(Frame(one.iteration, axes.show(at)))
    frames.append(Frame(last, axes.show(Z)))
    spaces.append((last, points.after))
    before, share = principal(points.before.points, n_axes)
    what = "standardised columns" if points.standard else "columns"
    what = "histograms" if points.after.chi2 else what
    codes = points.codes
    picture = Embedding(
        before=before,
        frames=frames,
        before_title=f"PCA of the {what} ({100 * share:.0f} % of their variance)",
        after_title=axes.title,
        codes=np.zeros(points.n, int) if codes is None else codes,
        classes=[str(label) for label in points.classes],
        values=points.y if points.kind == "numbers" else None,
        names=[name for part in points.parts for name in part.names],
        held_out=points.held_out,
        predicted=_predicted(points) if predicted is None else predicted,
        target=target,
    )
    return picture, spaces


def _asked_for_three(learner: Any) -> bool:
    """Whether three dimensions were asked for; they may also be all that there are."""
    given = learner.get_params()
    return 3 in (given.get("n_components"), given.get("learner__n_components"))


def _predicted(points: Points) -> Array | None:
    """The predicted class of each held-out point."""
    model = points.fitted.model
    if points.kind != "classes" or len(points.test) == 0 or not hasattr(model, "predict"):
        return None
    found = np.full(points.n, -1)
    found[points.test] = np.searchsorted(points.classes, model.predict(points.parts[-1].X))
    return found
