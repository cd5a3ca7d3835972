"""kSNE and kt-SNE: pictures of unlabelled data with neighbourhoods of k."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from vicinal import solvers
from vicinal._callback_support import CallbackSupportMixin, IterationReporter, with_callbacks
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_bool, check_number, check_option, check_rows, warn
from vicinal.core.method import Data
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult, Stage, train
from vicinal.core.state import FitState
from vicinal.core.stopping import advice_for
from vicinal.core.types import Array, is_auto
from vicinal.estimators._embedding_cost import check_cost, embedding_cost, plan_in_words
from vicinal.estimators._exaggeration import divergence, make_stages
from vicinal.estimators._first_points import (
    check_init,
    first_theta,
    given_metric,
    learns_map,
    make_problem,
    short_indices,
)
from vicinal.estimators._plan import Cost
from vicinal.estimators._resume import asked_of, fingerprint, generator
from vicinal.estimators._rollback import unchanged_on_error
from vicinal.estimators._telling import IterationReport, Reports
from vicinal.maps.fitted import FittedLinear, fitted_map
from vicinal.models.picture import Picture, Target
from vicinal.targets import affinities
from vicinal.targets.build import check_table, resolve_sizes

__all__ = ["KSNE"]


class _Fit(NamedTuple):
    """What a fit works with, and what it leaves for a later one."""

    X: Any
    problem: Problem
    perplexity: float
    stages: list[Stage]
    asked: Any
    data: str


class _Left(NamedTuple):
    """Where a fit ended: ``warm_start`` goes on from there."""

    asked: Any
    data: str
    state: FitState
    cut: bool  # by an interrupt or a callback


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
        max_missing: float = 0.01,
        mapping: Any = "points",
        init: Any = "auto",
        early_exaggeration: float | str = "auto",
        early_exaggeration_iter: int = 250,
        exaggeration: float = 1.0,
        max_iter: int = 750,
        learning_rate: float | str = "auto",
        solver: Any = "auto",
        n_iter_without_progress: int = 300,
        min_grad_norm: float = 1e-7,
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
        self.max_missing = max_missing
        self.mapping = mapping
        self.init = init
        self.early_exaggeration = early_exaggeration
        self.early_exaggeration_iter = early_exaggeration_iter
        self.exaggeration = exaggeration
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.solver = solver
        self.n_iter_without_progress = n_iter_without_progress
        self.min_grad_norm = min_grad_norm
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
            Rows; or, of shape (n_samples, n_samples), distances or weights: see ``metric``.
        y : object, default=None
            Ignored: labels are never needed.

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
            As in `fit`.
        y : object, default=None
            Ignored.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_components)
        """
        return self.fit(X).embedding_

    def transform(self, X: Any) -> Array:
        """Place rows in the finished picture, each by itself.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; or, of shape (n_samples, n_training_samples), their distances to the training
            rows, or weights: see ``metric``.

        Returns
        -------
        embedding : ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "embedding_")
        X = short_indices(check_rows(self, X, reset=False))
        with single_threaded_blas():
            return self._map.transform(X) if self._picture is None else self._picture.places(X)

    def estimate_cost(self, X: Any) -> Cost:
        """Memory and time of a fit on this data, before it is begun.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input and approximate ``seconds_per_evaluation``, of which
            each iteration needs one.
        """
        self._check_parameters()
        return embedding_cost(self, X if hasattr(X, "shape") else np.asarray(X))

    @unchanged_on_error
    def _fit(self, X: Any) -> KSNE:
        """Validate, affinities, start, stages, train, store."""
        given = X
        self._check_parameters()
        X = short_indices(check_rows(self, X, ensure_min_samples=2))
        X = check_table(X, self.metric)
        init, rng = check_init(self, X), generator(self, None)
        check_cost(self, X.shape[0])
        reports = Reports(type(self).__name__, self.verbose)
        reports.say(plan_in_words(self, X, given))
        with single_threaded_blas(), reports.watching_compilation():
            fit, left = self._prepare(X, reports)
            reports.report = IterationReporter(
                self,
                given,
                max_iter=self.max_iter,
                reconstruction_attributes=lambda report: self._attributes(fit, report),
            )
            theta, state, n_iter = None, None, self.max_iter
            if left is None:
                reports.doing("preparing the start")
                theta = first_theta(fit.problem, init, X, self.n_components, rng)
            else:
                state = left.state
                n_iter -= state.history["iteration"][-1] if left.cut else 0
            result = train(
                fit.stages,
                theta,
                state,
                max_iter=max(0, n_iter),
                on_iteration=self._on_iteration(reports),
                random_state=rng,
            )
            self._store(fit, result)
        reports.close(result.reason)
        self._warn(result)
        return self

    def _prepare(self, X: Any, reports: Reports) -> tuple[_Fit, _Left | None]:
        """The problem, and the end of the last fit if this one goes on from there."""
        perplexity, k = resolve_sizes(X.shape[0], self.perplexity, self.k, self.metric)
        asked, data = asked_of(self.get_params(False)), fingerprint(Data(X, _NoLabels))
        left: _Left | None = getattr(self, "_left", None)
        if not self.warm_start or left is None or (left.asked, left.data) != (asked, data):
            left = None
        target = affinities(
            X,
            perplexity,
            k,
            metric=self.metric,
            metric_params=self.metric_params,
            max_missing=self.max_missing,
        )
        problem = make_problem(self, X, target)
        stages = make_stages(problem, self)
        return _Fit(X, problem, perplexity, stages, asked, data), left

    def _on_iteration(self, reports: Reports) -> Any:
        """Reports each iteration; callbacks find the picture at hand in ``embedding_``."""
        report = reports.on_iteration()
        watched = bool(getattr(self, "_skl_callbacks", ()))

        def on_iteration(info: Any, problem: Problem, here: Any) -> bool:
            if watched:
                self.embedding_ = problem.embed(info.theta)
            return report(info, problem, here)

        return on_iteration

    def _store(self, fit: _Fit, result: FitResult) -> None:
        """Set the fitted attributes."""
        self.history_, self.n_iter_ = result.history, max(1, result.n_iter)
        self.__dict__.pop("components_", None)
        self.__dict__.update(self._fitted(fit, result.theta, result.problem, result.value))
        self._left = None
        if self.warm_start:
            cut = result.reason in ("interrupted", "callback")
            self._left = _Left(fit.asked, fit.data, result.state, cut)

    def _attributes(self, fit: _Fit, report: IterationReport) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at this iteration."""
        assert report.here is not None
        best = report.here.best()
        attributes = self._fitted(fit, best.theta, report.problem, best.value)
        attributes["n_iter_"] = max(1, report.info.iteration)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                attributes[name] = getattr(self, name)
        if self.warm_start:
            attributes["_left"] = _Left(fit.asked, fit.data, report.here(), True)
        return attributes

    def _fitted(self, fit: _Fit, theta: Array, problem: Problem, value: float) -> dict[str, Any]:
        """The attributes of a picture with these parameters."""
        target: Any = problem.target
        length = int(np.diff(target.indptr).max())
        found: dict[str, Any] = {
            "n_components_": int(self.n_components),
            "kl_divergence_": divergence(problem, theta, value),
            "learning_rate_": getattr(fit.stages[-1].solver, "learning_rate", None),
            "k_": target.k,
            "perplexity_": fit.perplexity,
            "affinities_": target,
            "_map": None,
            "_picture": None,
        }
        if learns_map(self):
            learnt = found["_map"] = fitted_map(problem.mapping, theta, problem.X, fit.X.dtype)
            found["embedding_"] = learnt.transform(fit.X)
            if isinstance(learnt, FittedLinear):
                found["components_"] = learnt.components
            return found
        Z = found["embedding_"] = problem.embed(theta).astype(fit.X.dtype)
        made = Target(self.metric, self.metric_params or {}, fit.perplexity, target.k, length + 1)
        found["_picture"] = Picture(fit.X, Z, made, self.kernel, float(self.kappa))
        return found

    def _warn(self, result: FitResult) -> None:
        """Warn if the fit was cut short; ``max_iter`` iterations are what was asked for."""
        if not result.converged and result.reason != "max_iter":
            advice = advice_for(result.reason).format(n=result.n_iter)
            warn(
                f"KSNE did not converge: {advice}. The best picture so far is kept.",
                ConvergenceWarning,
            )

    def _check_parameters(self) -> None:
        check_number(self, "n_components", 1, integer=True)
        check_number(self, "k", 1, integer=True)
        check_option(self, "kernel", ("cauchy", "gaussian"))
        check_number(self, "perplexity", 1.0)
        check_number(self, "kappa", 0.0)
        check_number(self, "max_missing", 0.0, 0.5)
        check_number(self, "early_exaggeration", 1.0, or_else=("auto",))
        check_number(self, "early_exaggeration_iter", 0, integer=True)
        check_number(self, "exaggeration", 0.0, open_ends=True)
        check_number(self, "max_iter", 1, integer=True)
        check_number(self, "learning_rate", 0.0, open_ends=True, or_else=("auto",))
        check_number(self, "n_iter_without_progress", 1, integer=True)
        check_number(self, "min_grad_norm", 0.0)
        check_option(self, "method", ("auto", "exact", "fft"))
        if not (isinstance(self.metric, str) or callable(self.metric)):
            raise ValueError(
                "The 'metric' parameter of KSNE must be a str or a callable. "
                f"Got {self.metric!r} instead."
            )
        if self.metric_params is not None and not isinstance(self.metric_params, dict):
            raise ValueError(
                "The 'metric_params' parameter of KSNE must be a dict or None. "
                f"Got {self.metric_params!r} instead."
            )
        if not is_auto(self.solver):
            solvers.resolve(self.solver, "KSNE")
            if not is_auto(self.learning_rate):
                raise ValueError(
                    "The 'learning_rate' parameter of KSNE must be 'auto' if 'solver' is given, "
                    f"which has its own. Got {self.learning_rate!r} instead."
                )
        check_bool(self, "warm_start")
        check_number(self, "verbose", 0, integer=True, or_else=(True, False))

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = given_metric(self.metric)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _NoLabels:
    strata = None
