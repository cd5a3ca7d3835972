"""fit = validate, start, descend, store: the frame of every method that learns from labels.

A method is a subclass with its parameters and ``_objective()``; see ``nca.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal import initialise, maps, solvers
from vicinal._callback_support import CallbackSupportMixin, IterationReporter
from vicinal._features import Features
from vicinal._threads import single_threaded_blas
from vicinal._types import Array, Result
from vicinal._validation import check_bool, check_classes, check_number, check_option, check_weights
from vicinal.estimators._cost import Cost, exact_cost
from vicinal.estimators._metric import MahalanobisMixin
from vicinal.estimators._neighbours import NeighbourRules
from vicinal.estimators._split import hold_out
from vicinal.problem import Problem
from vicinal.targets import Labels

__all__ = ["NeighbourMetric"]

_DEFAULT_COMPONENTS = 32
_SINGLE_FROM = 3000  # training rows from which travelling in float32 pays for compiling it
_START_ROWS = 1000  # rows that choose the scale of a start

_ADVICE = {
    "max_iter": "the {n} iterations of 'max_iter' were used up; increase 'max_iter' or 'tol'",
    "stalled": "the solver found no lower loss though the gradient is not small; "
    "check the data, or change 'solver', 'scaling' or 'alpha'",
    "callback": "a callback stopped it after {n} iterations",
    "interrupted": "it was interrupted after {n} iterations",
    "non_finite": "the loss became infinite or NaN; decrease the learning rate of 'solver' "
    "or increase 'alpha'",
}


class _Memory(NamedTuple):
    """What ``warm_start`` goes on from: the last state, in the space the solver saw."""

    solver: Any
    state: Any
    single: bool
    theta: Array
    history: dict[str, list]
    scale: Array


class NeighbourMetric(CallbackSupportMixin, MahalanobisMixin, ClassifierMixin, BaseEstimator):
    """Frame of the estimators; not public."""

    _rules: NeighbourRules

    def _objective(self) -> Callable[..., tuple[float, Array]]:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_option(self, "scaling", ("standard", "global", None))
        check_option(self, "rule", ("posterior", "knn"))
        check_number(self, "alpha", 0.0)
        check_number(self, "n_neighbors", 1, integer=True, or_else=("auto",))
        check_number(self, "max_iter", 1, integer=True)
        check_number(self, "tol", 0.0)
        check_number(self, "n_iter_no_change", 1, integer=True)
        check_number(self, "validation_fraction", 0.0, 1.0, open_ends=True)
        check_bool(self, "early_stopping")
        check_bool(self, "warm_start")
        check_number(self, "verbose", 0, integer=True, or_else=(True, False))

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        self._check_parameters()
        given = (X, y)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        weight = check_weights(sample_weight, len(y))
        if weight is not None and not weight.all():  # a row of weight zero is not there
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        self.classes_, codes = check_classes(y, type(self).__name__)
        labels = Labels(codes, weight, self.priors, classes=np.arange(len(self.classes_)))
        d = self._check_components(X.shape[1])
        rng = check_random_state(self.random_state)
        self.__dict__.pop("effective_n_neighbors_", None)
        if self.verbose:
            print(f"[{type(self).__name__}] {self._cost(X, d)}")
        with single_threaded_blas():
            mapping = maps.resolve(self.mapping, d, type(self).__name__)
            features = Features(X, self.scaling, weight)
            train, held_out = None, None
            if self.early_stopping:
                train, held_out = hold_out(codes, self.validation_fraction, rng)
            problem = Problem(
                features, labels, self._objective(), mapping, self.alpha, train, held_out
            )
            report = IterationReporter(
                self,
                *given,
                max_iter=self.max_iter + 1,
                reconstruction_attributes=lambda info: self._attributes(info, X, problem),
                metadata=None if sample_weight is None else {"sample_weight": sample_weight},
            )
            result = self._learn(problem, d, rng, report)
            self.history_ = result.history
            self.n_iter_ = max(1, result.n_iter)
            self.objective_ = problem(result.theta)[0]
            self._store(X, problem, result.theta)
        report.close()
        if not result.converged:
            advice = _ADVICE[result.reason].format(n=result.n_iter)
            warnings.warn(
                f"{type(self).__name__} did not converge: {advice}. The best map so far is kept.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _check_components(self, n_features: int) -> int:
        if isinstance(self.mapping, str) and self.mapping == "diagonal":
            check_number(
                self, "n_components", n_features, n_features, integer=True, or_else=(None,)
            )
            return n_features
        check_number(self, "n_components", 1, n_features, integer=True, or_else=(None,))
        return self.n_components or min(n_features, _DEFAULT_COMPONENTS)

    def _learn(self, problem: Problem, d: int, rng: Any, report: IterationReporter) -> Result:
        """Descend from each start, and return the best of them."""
        name = type(self).__name__
        solver = solvers.resolve(self.solver, name)
        memory = getattr(self, "_memory", None) if self.warm_start else None
        if memory is not None and self._can_go_on(memory, solver, problem, d):
            result = self._descend(problem, solver, report, memory=memory)
        elif self.warm_start and hasattr(self, "components_") and self.components_.shape == (
            d, problem.X.shape[1]
        ):  # fmt: skip
            start = _unscaled(self.components_, problem.X.scale)
            result = self._descend(problem, solver, report, theta=problem.mapping.theta(start))
        else:
            start = initialise.resolve(self.init, name)
            results = []
            for _ in range(getattr(start, "n_init", 1)):
                theta = self._start(start, problem, d, rng)
                results.append(self._descend(problem, solver, report, theta=theta))
                if results[-1].reason in ("callback", "interrupted"):
                    break
            result = min(results, key=lambda result: self._judge(problem, result))
        return result

    def _can_go_on(self, memory: _Memory, solver: Any, problem: Problem, d: int) -> bool:
        return (
            memory.solver == solver
            and memory.theta.size == problem.mapping.theta(np.zeros((d, problem.X.shape[1]))).size
            and np.array_equal(memory.scale, problem.X.scale)
        )

    @staticmethod
    def _judge(problem: Problem, result: Result) -> float:
        if problem.held_out is None:
            return result.value
        return -problem.validation_score(result.theta)

    def _start(self, start: Any, problem: Problem, d: int, rng: Any) -> Array:
        """The first theta: of a scale chosen on a sample, unless the user gave the map."""
        X, labels, mapping = problem.X, problem.targets, problem.mapping
        if isinstance(start, initialise.Auto) and isinstance(mapping, maps.Diagonal):
            start = initialise.Identity()  # weights of columns have nothing to rotate
        if isinstance(start, initialise.Given):
            return mapping.theta(_unscaled(start(X, labels.codes, d, rng), X.scale))
        A = start(X, labels.codes, d, rng, labels.sample_weight)
        theta = mapping.theta(A)
        rows = np.arange(len(X)) if problem.train is None else problem.train
        if len(rows) > _START_ROWS:
            rows = np.sort(rng.permutation(rows)[:_START_ROWS])
        sample = problem.replace(X=X.take(rows), targets=labels.take(rows), train=None)

        def loss(scaled: Array) -> float:
            with warnings.catch_warnings():  # a sample may well hold one row of a class
                warnings.simplefilter("ignore", UserWarning)
                return sample.value(scaled)

        base = initialise.base_scale(sample.embed(theta), rng)
        return theta * initialise.scale_start(theta, loss, base)

    def _descend(
        self,
        problem: Problem,
        solver: Any,
        report: IterationReporter,
        theta: Array | None = None,
        memory: _Memory | None = None,
    ) -> Result:
        """Travel in float32 where that pays, and arrive in float64."""
        n = len(problem.X) if problem.train is None else len(problem.train)
        single = n >= _SINGLE_FROM if memory is None else memory.single
        state = history = None
        past = 0
        while True:
            fun = problem.replace(dtype=np.float32) if single else problem
            if memory is not None:
                state = solvers.refresh(solver, fun, memory.state.theta, memory.state)
                theta, history, memory = memory.theta, memory.history, None
            result = solvers.minimise(
                fun,
                theta,
                solver,
                state=state,
                history=history,
                max_iter=self.max_iter - past,
                tol=max(self.tol, 1e-5) if single else self.tol,
                monitor=None if problem.held_out is None else fun.validation_score,
                n_iter_no_change=self.n_iter_no_change,
                on_iteration=lambda info: self._tell(info) or report(info),
            )
            past += result.n_iter
            result.n_iter = past
            over = result.reason in ("max_iter", "callback", "interrupted", "early_stopping")
            if not single or over or past >= self.max_iter:
                self._memory = _Memory(
                    solver, result.state, single, result.theta, result.history, problem.X.scale
                )
                return result
            single = False
            # the memory of the solver stays good: only the last digits of the loss change
            state = solvers.refresh(solver, problem, result.theta, result.state)
            theta, history = None, result.history

    def _tell(self, info: Any) -> bool:
        if self.verbose:
            score = "" if np.isnan(info.validation_score) else f" {info.validation_score:12.6f}"
            print(
                f"[{type(self).__name__}] {info.iteration:5d} {info.loss:14.8f} "
                f"{info.grad_norm:10.2e}{score} {info.seconds:9.2f}s"
            )
        return False

    def _attributes(self, info: Any, X: Any, problem: Problem) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at ``info``."""
        copy = type(self)(**self.get_params(deep=False))
        copy.classes_ = self.classes_
        copy._store(X, problem, info.theta)
        names = ("components_", "classes_", "n_neighbors_", "_rules", "_centre")
        names += ("n_features_in_", "feature_names_in_")
        attributes = {name: getattr(copy, name, getattr(self, name, None)) for name in names}
        attributes |= {"n_iter_": max(1, info.iteration), "objective_": info.loss}
        return {name: value for name, value in attributes.items() if value is not None}

    def _store(self, X: Any, problem: Problem, theta: Array) -> None:
        dtype = X.dtype
        features = problem.X
        components = problem.mapping.components(theta) * features.scale
        self.components_ = components.astype(dtype)
        # Projections are compared around the origin: an offset would cost digits.
        self._centre = (features.shift @ components.T).astype(dtype)
        Z = safe_sparse_dot(X, self.components_.T, dense_output=True) - self._centre
        self._rules = NeighbourRules(Z, problem.targets, self.n_neighbors)
        self.n_neighbors_ = self._rules.n_neighbors

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities by the ``rule``: posterior of the model, or shares of the votes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to one.
        """
        check_is_fitted(self, "components_")
        X = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )
        Z = safe_sparse_dot(X, self.components_.T, dense_output=True) - self._centre
        with single_threaded_blas():
            return self._rules.posterior(Z) if self.rule == "posterior" else self._rules.votes(Z)

    def predict(self, X: Any) -> Array:
        """The class of highest probability under the ``rule``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def estimate_cost(self, X: Any) -> Cost:
        """Memory and time that a fit to X will take, without starting it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input, and, roughly, ``seconds_per_evaluation``; a fit
            takes one to two evaluations an iteration.
        """
        X = X if hasattr(X, "shape") else np.asarray(X)
        return self._cost(X, self._check_components(X.shape[1]))

    def _cost(self, X: Any, d: int) -> Cost:
        itemsize = 4 if X.shape[0] >= _SINGLE_FROM else 8
        return exact_cost(X.shape[0], X.shape[1], d, itemsize, not sp.issparse(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _unscaled(components: Array, scale: Array) -> Array:
    """A map of the raw columns as the solver sees it; columns of weight zero stay at zero."""
    return np.divide(components, scale, out=np.zeros(np.shape(components)), where=scale > 0)
