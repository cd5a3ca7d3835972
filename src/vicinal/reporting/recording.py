"""What a fit looked like on its way: maps, or points, after some iterations."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from vicinal.callbacks._base import Callback
from vicinal.core.types import Array

_RATIO = 1.5  # between the iterations of two recorded maps: each costs as much as an evaluation
_RATIO_OF_POINTS = 1.25  # between those of two recorded pictures, which are at hand
#: attributes of a fitted estimator that its transform does not need, and that are large
_NOT_KEPT = ("_model", "_resume", "_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx")


class Recorded(NamedTuple):
    """An iteration, and what was learnt by then: an estimator, or the points themselves."""

    iteration: int
    estimator: Any = None
    points: Array | None = None


class Recorder(Callback):
    """A callback that keeps what is learnt after some iterations, for the slider of a report.

    The iterations are spread evenly on a logarithmic scale, since most happens early.  Set it on
    the estimator that iterates, and hand it to :func:`vicinal.report` with the fitted estimator.
    Needs scikit-learn 1.9 or newer, as all callbacks do.

    Attributes
    ----------
    frames : list of Recorded
        In the order of their iterations, without the end of the fit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import NCA
    >>> from vicinal.reporting import Recorder
    >>> X, y = load_iris(return_X_y=True)
    >>> recorder = Recorder()
    >>> model = NCA(2, alpha=0.01, max_iter=8).set_callbacks(recorder).fit(X[::2], y[::2])
    >>> [frame.iteration for frame in recorder.frames]
    [1, 2, 3, 5, 8]
    """

    def __init__(self) -> None:
        self.frames: list[Recorded] = []
        self._estimator: Any = None
        self._context: Any = None
        self._searching = False

    def __getstate__(self) -> dict[str, Any]:
        # The running fit belongs to its process.
        return {**self.__dict__, "_estimator": None, "_context": None}

    def setup(self, estimator: Any, context: Any) -> None:
        """Forget the frames of a former fit."""
        self.frames = []
        self._estimator, self._context, self._searching = estimator, context, False

    def on_fit_activity(self, estimator: Any, context: Any, activity: Any) -> None:
        """Note whether the iterations that follow belong to a search."""
        if context is self._context:
            self._searching = bool(activity.words)

    def wants_fitted_estimator(self, context: Any) -> bool:
        """Whether the map after the iteration that ends is to be kept."""
        return self._due(context) and not hasattr(self._estimator, "embedding_")

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Keep the map, or the points, if the iteration is due."""
        if not self._due(context):
            return
        iteration = _iteration(estimator)
        if self.frames and iteration <= self.frames[-1].iteration:  # another start has begun
            self.frames = []
        places = getattr(estimator, "embedding_", None)
        if places is not None:
            self.frames.append(Recorded(iteration, points=places.astype("float32")))
        elif fitted_estimator is not None:
            kept = copy.copy(fitted_estimator)
            for name in _NOT_KEPT:
                vars(kept).pop(name, None)
            self.frames.append(Recorded(iteration, estimator=kept))

    def teardown(self, estimator: Any, context: Any) -> None:
        """Let go of the estimator."""
        if context is self._context:
            self._estimator = self._context = None

    def _due(self, context: Any) -> bool:
        ours = self._context is not None and context.parent is self._context
        if not ours or self._searching:
            return False
        ratio = _RATIO_OF_POINTS if hasattr(self._estimator, "embedding_") else _RATIO
        return _on_schedule(_iteration(self._estimator), ratio)


def _iteration(estimator: Any) -> int:
    return int(estimator.history_["iteration"][-1])


def _on_schedule(iteration: int, ratio: float) -> bool:
    """Whether the iteration is one of the rounded powers of the ratio."""
    at = 1.0
    while round(at) < iteration:
        at *= ratio
    return round(at) == iteration
