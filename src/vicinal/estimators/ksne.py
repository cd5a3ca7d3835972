"""kSNE and kt-SNE: pictures of unlabelled data with neighbourhoods of k."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from vicinal._callback_support import CallbackSupportMixin, IterationReporter, with_callbacks
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_bool, check_number, check_option, check_rows, warn
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult, train
from vicinal.core.stopping import advice_for
from vicinal.core.types import Array
from vicinal.estimators._dense_affinities import affinities
from vicinal.estimators._exaggeration import learning_rates, make_stages
from vicinal.estimators._resume import generator
from vicinal.estimators._rollback import unchanged_on_error
from vicinal.estimators._telling import Reports
from vicinal.maps import Points, Positions
from vicinal.objectives.ksne import KSNELoss
from vicinal.starts.points import principal_points, random_points, spectral_points

__all__ = ["KSNE"]

_ENDED = ("max_iter",)  # reasons that are no failure: so many iterations were asked for


class KSNE(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Embed rows so that they choose the same neighbourhoods of k as in the data."""

    def __init__(
        self,
        n_components: int = 2,
        k: int = 5,
        *,
        kernel: str = "cauchy",
        perplexity: float = 30.0,
        kappa: float = 0.0,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        init: Any = "auto",
        early_exaggeration: float = 12.0,
        early_exaggeration_iter: int = 250,
        exaggeration: float = 1.0,
        max_iter: int = 750,
        learning_rate: float | str = "auto",
        n_iter_without_progress: int = 300,
        min_grad_norm: float = 1e-7,
        solver: Any = "auto",
        method: str = "auto",
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.kernel = kernel
        self.perplexity = perplexity
        self.kappa = kappa
        self.metric = metric
        self.metric_params = metric_params
        self.init = init
        self.early_exaggeration = early_exaggeration
        self.early_exaggeration_iter = early_exaggeration_iter
        self.exaggeration = exaggeration
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.n_iter_without_progress = n_iter_without_progress
        self.min_grad_norm = min_grad_norm
        self.solver = solver
        self.method = method
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> KSNE:
        """Embed the rows of X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self : KSNE
        """
        return self._fit(X)

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Embed the rows of X and return their places.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X).embedding_

    @unchanged_on_error
    def _fit(self, X: Any) -> KSNE:
        """Validate, affinities, start, stages, train, store."""
        given = X
        self._check_parameters()
        X = check_rows(self, X, ensure_min_samples=2)
        rng = generator(self, None)
        reports = Reports(type(self).__name__, self.verbose)
        with single_threaded_blas(), reports.watching_compilation():
            reports.report = IterationReporter(
                self, given, max_iter=self.max_iter, reconstruction_attributes=None
            )
            k = self._usable_k(X.shape[0])
            reports.doing("computing the affinities")
            target = affinities(X, k, self.perplexity, self.metric, self.metric_params)
            problem = self._problem(target)
            theta = self._start(X, target, rng)
            rates = learning_rates(self, len(target), k)
            result = train(
                make_stages(problem, self, rates),
                theta.ravel(),
                max_iter=self.max_iter,
                on_iteration=self._on_iteration(reports),
                random_state=rng,
            )
            self._store(X, problem, rates, result)
        reports.close(result.reason)
        self._warn(result)
        return self

    def _check_parameters(self) -> None:
        check_number(self, "n_components", 1, integer=True)
        check_number(self, "k", 1, integer=True)
        check_option(self, "kernel", ("cauchy", "gaussian"))
        check_number(self, "perplexity", 1.0)
        check_number(self, "kappa", 0.0)
        check_number(self, "early_exaggeration", 1.0)
        check_number(self, "early_exaggeration_iter", 0, integer=True)
        check_number(self, "exaggeration", 0.0, open_ends=True)
        check_number(self, "max_iter", 1, integer=True)
        check_number(self, "learning_rate", 0.0, open_ends=True, or_else=("auto",))
        check_number(self, "n_iter_without_progress", 1, integer=True)
        check_number(self, "min_grad_norm", 0.0)
        check_option(self, "method", ("auto", "exact", "fft"))
        check_bool(self, "warm_start")
        check_number(self, "verbose", 0, integer=True, or_else=(True, False))

    def _usable_k(self, n: int) -> int:
        """The size of the neighbourhoods, less than asked for if there are too few rows."""
        most = max(1, n - 2)
        if self.k <= most:
            return int(self.k)
        warn(
            f"The 'k' parameter of KSNE is {self.k}, but with {n} rows neighbourhoods of more than "
            f"{most} tell nothing, because all rows choose all others: k={most} is used."
        )
        return most

    def _problem(self, target: Any) -> Problem:
        n, loss = (
            len(target),
            KSNELoss(
                target.k, self.kernel, float(self.kappa), float(self.exaggeration), self.method
            ),
        )
        return Problem(Positions(np.arange(n)), target, loss, Points(n, self.n_components))

    def _start(self, X: Any, target: Any, rng: np.random.RandomState) -> Array:
        n, d = X.shape[0], self.n_components
        init = self.init
        if isinstance(init, str) and init == "auto":
            init = "spectral" if self.metric == "precomputed" else "pca"
        if isinstance(init, str) and init == "pca":
            return principal_points(X, d, rng)
        if isinstance(init, str) and init == "spectral":
            return spectral_points(target.symmetric, d, rng)
        if isinstance(init, str) and init == "random":
            return random_points(n, d, rng)
        return np.array(init, dtype=np.float64)

    def _on_iteration(self, reports: Reports) -> Any:
        report = reports.on_iteration()

        def on_iteration(info: Any, problem: Problem, here: Any) -> bool:
            self.embedding_ = problem.embed(info.theta)  # callbacks read it
            return report(info, problem, here)

        return on_iteration

    def _store(
        self, X: Any, problem: Problem, rates: tuple[float, float], result: FitResult
    ) -> None:
        target: Any = problem.target
        n, d = len(target), self.n_components
        self.embedding_ = result.theta.reshape(n, d).astype(X.dtype)
        self.n_components_ = d
        self.kl_divergence_ = result.value
        self.n_iter_ = max(1, result.n_iter)
        self.history_ = result.history
        self.learning_rate_ = rates[1]
        self.k_ = target.k
        self.affinities_ = target

    def _warn(self, result: FitResult) -> None:
        """Warn if the fit was cut short."""
        if not result.converged and result.reason not in _ENDED:
            advice = advice_for(result.reason).format(n=result.n_iter)
            warn(
                f"KSNE did not converge: {advice}. The best picture so far is kept.",
                ConvergenceWarning,
            )

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
