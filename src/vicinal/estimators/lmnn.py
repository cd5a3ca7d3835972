"""LMNN as an estimator: target neighbours near, impostors beyond a margin."""

from __future__ import annotations

from typing import Any

from vicinal._callback_support import with_callbacks
from vicinal.estimators._cost import Work
from vicinal.estimators._margins import LargeMargin
from vicinal.estimators._metric import LearntMahalanobisMixin

__all__ = ["LMNN"]


class LMNN(LearntMahalanobisMixin, LargeMargin):
    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        k: int = 5,
        mu: float = 1.0,
        margin: float = 1.0,
        refresh_targets: int | None = None,
        mapping: Any = "linear",
        init: Any = "auto",
        solver: Any = "auto",
        alpha: float | str = 0.0,
        scaling: str | None = "standard",
        n_neighbors: int | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        cv: Any = 5,
        max_iter: int | str = "auto",
        tol: float = 1e-3,
        time_budget: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.mu = mu
        self.margin = margin
        self.refresh_targets = refresh_targets
        self.mapping = mapping
        self.init = init
        self.solver = solver
        self.alpha = alpha
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.time_budget = time_budget
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any) -> LMNN:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : LMNN
        """
        return self._fit(X, y)

    def _work(self) -> Work:
        # the search, an inner product in float32 for each pair; lists that are kept, and tiles
        return Work((1.0, 0.04), (1.0, 0.04), kept=2**26 + 2**25)
