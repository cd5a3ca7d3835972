"""The fast methods of Oneață's chapters 4 and 5 as estimators, and maps kept on the way down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from reproduce.oneata.common import EARLY, PLAIN, OwnScale, random_start
from vicinal import NCA, samplers
from vicinal.densities import Compact

#: the kernel of section 4.5, without the background of section 4.6
COMPACT = Compact(background=False)


#: section 5.3: sub-sampling, mini-batches, stochastic learning, and that with the compact kernel;
#: the scale stays as learnt from few rows, as in the thesis
_SETTINGS: dict[str, dict[str, Any]] = {
    "SS": {
        "sampling": samplers.Subsample(3000, correct_scale=False),
        "solver": "cg",
        "max_iter": 200,
    },
    "MB": {
        "sampling": samplers.MiniBatches(2000, clusters="rpc", correct_scale=False),
        "solver": "sgd",
        "max_iter": 1000,
        **EARLY,
    },
    "SL": {"sampling": samplers.StochasticQueries(50), "solver": "sgd", "max_iter": 1000, **EARLY},
}


_SETTINGS["SL CS"] = {**_SETTINGS["SL"], "kernel": COMPACT}


def thesis(method: str, d: int, seed: int, **changes: Any) -> NCA:
    """A method of the thesis: accuracy objective, no penalty, RCA start at its own scale."""
    settings = {**PLAIN, **_SETTINGS[method], "init": OwnScale("rca"), **changes}
    return NCA(d, random_state=seed, **settings)


def rows_and_split(name: str, split: int) -> tuple[Any, Any, Any, Any]:
    """Rows in float32, labels, and 70 % of the rows to learn from (the official ones of mnist)."""
    from reproduce.framework import protocol

    X, y = protocol.data(name)
    official = name in ("mnist", "landsat")
    train, test = protocol.official(name) if official else protocol.rows_70_30(len(y), split)
    return X.astype(np.float32), y, train, test


def start(words: str, X: Any, y: Any, d: int, seed: int) -> Any:
    """A map to begin from.

    "rca" has the scale of its own formula; "random" is ``randn / sqrt(D)`` on the standardised
    columns, which gives coordinates a spread of about one; "close" is ``0.01 randn``, which puts
    all rows in one another's reach.
    """
    if words == "rca":
        # no step: so lax a tolerance is met at the start
        still = NCA(d, **PLAIN, init=OwnScale("rca"), solver="lbfgs", sampling="full", tol=1e300)
        return still.fit(X, y).components_
    size = {"random": X.shape[1] ** -0.5, "close": 0.01}[words]
    return random_start(X.astype(np.float64), d, seed, size)


class Keeper:
    """A callback that keeps the maps of some iterations of the final fit, counted from 1."""

    def __init__(self, at: Iterable[int]) -> None:
        self.at, self.maps = frozenset(at), {}
        self._estimator: Any = None
        self._fit: Any = None
        self._searching = False

    def setup(self, estimator: Any, context: Any) -> None:
        """Note the estimator and the task of the whole fit."""
        self._estimator, self._fit, self._searching = estimator, context, False

    def on_fit_activity(self, estimator: Any, context: Any, activity: Any) -> None:
        """Note whether the iterations that follow belong to a search."""
        if context is self._fit:
            self._searching = bool(activity.words)

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to note."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to clean up."""

    def wants_fitted_estimator(self, context: Any) -> bool:
        """Whether the iteration that ends is one to keep."""
        if self._fit is None or context.parent is not self._fit or self._searching:
            return False
        return self._iteration() in self.at

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Keep the map when it is due."""
        if fitted_estimator is not None and self.wants_fitted_estimator(context):
            self.maps[self._iteration()] = np.array(fitted_estimator.components_, np.float64)

    def _iteration(self) -> int:
        """Of the final fit: the numbers of tasks count those of a search, too."""
        return int(self._estimator.history_["iteration"][-1])
