"""fit = validate, start, descend, store: the frame of every method that learns from labels.

A method is a subclass with its parameters and ``_objective()``; see ``nca.py``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from vicinal import initialise, maps, solvers
from vicinal._callback_support import CallbackSupportMixin, IterationReporter
from vicinal._features import Features
from vicinal._threads import single_threaded_blas
from vicinal._types import Array, Map, Result, Solver
from vicinal._validation import (
    check_bool,
    check_classes,
    check_label_types,
    check_number,
    check_option,
    check_seed,
    check_weights,
    warn,
)
from vicinal.estimators._anneal import anneal
from vicinal.estimators._cost import Cost, exact_cost
from vicinal.estimators._metric import MahalanobisMixin
from vicinal.estimators._neighbours import NeighbourClassifierMixin, NeighbourRules
from vicinal.estimators._search import ALPHAS, Search, Stopped, Trial, cross_validation, ranks
from vicinal.estimators._split import hold_out
from vicinal.problem import Problem
from vicinal.targets import Labels

__all__ = ["NeighbourMetric"]

_DEFAULT_COMPONENTS = 32
_DEFAULT_ALPHA = 3e-3  # where a search has nothing to say yet
_SINGLE_FROM = 1000  # training rows from which travelling in float32 pays for compiling it
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


class _Parts(NamedTuple):
    """What the parameters stand for, once the number of features is known."""

    mapping: Map
    d: int
    start: Any
    solver: Solver


class _Memory(NamedTuple):
    """What ``warm_start`` goes on from: the last run, and the space its solver saw."""

    solver: Solver
    mapping: Map
    scale: Array
    single: bool
    result: Result


class _Told(NamedTuple):
    """What the callbacks are told of: an iteration, where it was made and in which precision."""

    history: dict[str, list]
    info: solvers.Iteration
    problem: Problem
    single: bool
    searching: bool = False


class NeighbourMetric(
    CallbackSupportMixin, MahalanobisMixin, NeighbourClassifierMixin, BaseEstimator
):
    """Frame of the estimators; not public."""

    def _objective(self) -> Callable[..., tuple[float, Array]]:
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_option(self, "scaling", ("standard", "global", None))
        check_option(self, "rule", ("posterior", "knn"))
        check_number(self, "alpha", 0.0, or_else=("auto",))
        check_number(self, "cv", 2, integer=True)
        check_number(self, "n_neighbors", 1, integer=True, or_else=("auto", "local"))
        check_number(self, "max_iter", 1, integer=True)
        check_number(self, "tol", 0.0)
        check_number(self, "n_iter_no_change", 1, integer=True)
        check_number(self, "validation_fraction", 0.0, 1.0, open_ends=True)
        check_bool(self, "early_stopping")
        check_bool(self, "warm_start")
        check_number(self, "verbose", 0, integer=True, or_else=(True, False))

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        self._check_parameters()
        rng = check_seed(self)
        given = (X, y)
        X, labels = self._check_data(X, y, sample_weight)
        parts = self._resolve(X.shape[1])
        self.__dict__.pop("effective_n_neighbors_", None)  # of the last fit
        if self.verbose:
            print(f"[{type(self).__name__}] {self._cost(X, parts.d)}")
        with single_threaded_blas():
            features = Features(X, self.scaling, labels.sample_weight)
            if not features.scale.any():
                raise ValueError(f"X has no column that varies: its {X.shape[1]} are constant.")
            train, held_out = None, None
            if self.early_stopping:
                train, held_out = hold_out(labels.codes, self.validation_fraction, rng)
            alpha = _DEFAULT_ALPHA if self._leaves_open("alpha") else self.alpha
            problem = Problem(
                features, labels, self._objective(), parts.mapping, alpha, train, held_out
            )
            searching = self._leaves_open("alpha") or self._leaves_open("n_components")
            report = IterationReporter(
                self,
                *given,
                max_iter=None if searching else self.max_iter * getattr(parts.start, "n_init", 1),
                reconstruction_attributes=lambda told: self._attributes(told, X, parts),
                metadata=None if sample_weight is None else {"sample_weight": sample_weight},
            )
            if searching:
                problem, parts = self._choose(problem, parts, rng, report)
            else:
                self.__dict__.pop("cv_results_", None)  # of an earlier fit
            result, single = self._learn(problem, parts, rng, report)
            self.history_ = result.history
            self.n_iter_ = max(1, result.n_iter)
            self.objective_ = problem.value(result.theta)
            self._store(X, problem, result.theta)
            if self.rule == "knn" and self._rules.asked != "local":
                _ = self.n_neighbors_  # chosen, and complained about, now
        self._memory = None
        if self.warm_start:
            self._memory = _Memory(parts.solver, parts.mapping, features.scale, single, result)
        report.close()
        if not result.converged:
            advice = _ADVICE[result.reason].format(n=result.n_iter)
            warn(
                f"{type(self).__name__} did not converge: {advice}. The best map so far is kept.",
                ConvergenceWarning,
            )
        return self

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Labels]:
        """The rows that count, and what is known of them; sets ``classes_``."""
        check_label_types(y)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2
        )
        weight = check_weights(sample_weight, len(y))
        if weight is not None and not weight.all():  # a row of weight zero is not there
            X, y, weight = X[weight > 0], y[weight > 0], weight[weight > 0]
        self.classes_, codes = check_classes(y, type(self).__name__)
        labels = Labels(codes, weight, self.priors, classes=np.arange(len(self.classes_)))
        lonely = np.bincount(codes) < 2
        if labels.priors is not None:
            lonely |= labels.priors == 0.0
        if lonely.any():
            names = self.classes_[lonely].tolist()
            shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
            warn(
                "Rows of these classes have no other row of their class to pick, being the only "
                f"one or of prior zero: {shown}. As queries they add nothing to the objective."
            )
        return X, labels

    def _resolve(self, n_features: int) -> _Parts:
        name = type(self).__name__
        mapping = maps.resolve(self.mapping, n_features, name)
        start, solver = initialise.resolve(self.init, name), solvers.resolve(self.solver, name)
        if isinstance(mapping, maps.Diagonal):
            check_number(self, "n_components", 1, integer=True, or_else=(None,))
            if self.n_components not in (None, n_features):
                warn(
                    f"n_components={self.n_components} has no effect on a diagonal map: it has "
                    f"one component for each of the {n_features} features."
                )
            return _Parts(mapping, n_features, start, solver)
        by_name = isinstance(self.mapping, str)
        others = (None, "auto") if by_name else (None,)
        check_number(self, "n_components", 1, n_features, integer=True, or_else=others)
        if by_name:
            d = min(n_features, _DEFAULT_COMPONENTS)
            if self.n_components is not None and not self._leaves_open("n_components"):
                d = int(self.n_components)
            return _Parts(maps.resolve(self.mapping, d, name), d, start, solver)
        d = getattr(mapping, "n_components", self.n_components or n_features)
        if d > n_features or self.n_components not in (None, d):
            raise ValueError(
                f"The 'mapping' parameter of {name} must have n_components="
                f"{self.n_components or f'1..{n_features}'}. Got {mapping!r} instead."
            )
        return _Parts(mapping, d, start, solver)

    def _leaves_open(self, name: str) -> bool:
        value = getattr(self, name)
        return isinstance(value, str) and value == "auto"

    def _choose(
        self, problem: Problem, parts: _Parts, rng: Any, report: IterationReporter
    ) -> tuple[Problem, _Parts]:
        """Settle what "auto" leaves open, by cross-validation on the rows to learn from."""
        n_features = problem.X.shape[1]
        asked = (self.n_components, self.alpha, n_features)
        d, alpha = parts.d, problem.alpha
        if self.warm_start and getattr(self, "_asked", None) == asked:
            d, alpha = self.n_components_, self.alpha_
        else:
            # a copy: the fit to come is that of the parameters chosen, to the last bit
            search = self._search(problem, parts, copy.deepcopy(rng), report)
            try:
                if self._leaves_open("n_components"):
                    d = ranks(n_features, parts.d)[0]  # if nothing comes of it
                    d = search.rank(ranks(n_features, parts.d), alpha, maps.Linear)
                    search.folds = [fold.replace(mapping=maps.Linear(d)) for fold in search.folds]
                if self._leaves_open("alpha") and not search.stopped:
                    alpha = search.alpha(ALPHAS, d)
            except Stopped as stopped:
                if stopped.args == ("interrupted",) and not search.trials:
                    raise KeyboardInterrupt from None  # there is nothing to keep yet
            if search.stopped:
                warn(
                    f"The search of {type(self).__name__} was stopped before its end: "
                    f"n_components={d} and alpha={alpha:g} are what it had come to.",
                    ConvergenceWarning,
                )
            self.cv_results_ = search.results()
        self._asked = asked
        if self._leaves_open("n_components"):
            parts = parts._replace(mapping=maps.Linear(d), d=d)
        return problem.replace(mapping=parts.mapping, alpha=alpha), parts

    def _search(
        self, problem: Problem, parts: _Parts, rng: Any, report: IterationReporter
    ) -> Search:
        def learn(fold: Problem, last: Array | None) -> Array:
            d = getattr(fold.mapping, "n_components", parts.d)
            theta = self._start(parts._replace(d=d, mapping=fold.mapping), fold, rng)
            # a map that was pressed to nothing has no gradient to leave it by
            if last is not None and fold.value(last) < fold.value(theta):
                theta = last
            # the fold judges the end of the descent, not each step of it
            fold = fold.replace(held_out=None)
            result, _ = self._descend(fold, parts.solver, report, theta, searching=True)
            if result.reason in ("callback", "interrupted"):
                raise Stopped(result.reason)
            return result.theta

        def score(fold: Problem, theta: Array) -> float:
            Z, labels = fold.embed(theta), fold.targets
            rules = NeighbourRules(Z[fold.train], labels.take(fold.train), self.n_neighbors)
            best = rules.probabilities(Z[fold.held_out], self.rule).argmax(axis=1)
            judges = labels.take(fold.held_out)
            return float(np.average(best == judges.codes, weights=judges.sample_weight))

        def tell(trial: Trial) -> None:
            if self.verbose:
                values = ", ".join(f"{name}={value:g}" for name, value in trial.parameters.items())
                print(f"[{type(self).__name__}] {values}: held-out accuracy {trial.mean:.4f}")

        return Search(cross_validation(problem, self.cv, rng), learn, score, tell)

    def _learn(
        self, problem: Problem, parts: _Parts, rng: Any, report: IterationReporter
    ) -> tuple[Result, bool]:
        """Descend from each start; the best result, and whether it ended in float32."""
        memory = getattr(self, "_memory", None) if self.warm_start else None
        shape = (parts.d, problem.X.shape[1])
        if (
            memory is not None
            and (memory.solver, memory.mapping) == (parts.solver, parts.mapping)
            and np.array_equal(memory.scale, problem.X.scale)
        ):
            return self._descend(problem, parts.solver, report, memory=memory)
        if self.warm_start and hasattr(self, "components_") and self.components_.shape == shape:
            theta = problem.mapping.theta(_unscaled(self.components_, problem.X.scale))
            if theta.any():
                return self._descend(problem, parts.solver, report, theta)
        runs: list[tuple[Result, bool]] = []
        reason = None
        for _ in range(getattr(parts.start, "n_init", 1)):
            try:
                theta = self._start(parts, problem, rng)
                runs.append(self._descend(problem, parts.solver, report, theta))
            except KeyboardInterrupt:
                if not runs:
                    raise
                reason = "interrupted"
            else:
                reason = runs[-1][0].reason
            if reason in ("callback", "interrupted"):
                break
        result, single = min(runs, key=lambda run: self._judge(problem, run[0]))
        if reason in ("callback", "interrupted"):
            result.reason, result.converged = reason, False
        return result, single

    @staticmethod
    def _judge(problem: Problem, result: Result) -> float:
        if problem.held_out is None:
            return result.value
        return -problem.validation_score(result.theta)

    def _start(self, parts: _Parts, problem: Problem, rng: Any) -> Array:
        """The first theta: of a scale chosen on a sample, unless the user gave the map."""
        X, labels, mapping, start = problem.X, problem.targets, problem.mapping, parts.start
        if isinstance(start, initialise.Auto) and isinstance(mapping, maps.Diagonal):
            start = initialise.Identity()  # weights of columns have nothing to rotate
        weight = labels.sample_weight
        if problem.train is not None:  # what judges the map must not choose its start
            learnt_from = np.zeros(len(labels))
            learnt_from[problem.train] = 1.0 if weight is None else weight[problem.train]
            weight = learnt_from
        if isinstance(start, initialise.Annealing):
            return self._anneal(start, parts, problem, rng, weight)
        A = start(X, labels.codes, parts.d, rng, weight)
        if isinstance(start, initialise.Given):
            return mapping.theta(self._check_given(_unscaled(A, X.scale), mapping))
        theta = mapping.theta(A)
        rows = np.arange(len(X)) if problem.train is None else problem.train
        if len(rows) > _START_ROWS:
            rows = np.sort(rng.permutation(rows)[:_START_ROWS])
        sample = problem.replace(X=X.take(rows), targets=labels.take(rows), train=None)
        base = initialise.base_scale(sample.embed(theta), rng)
        return theta * initialise.scale_start(theta, sample.value, base)

    def _anneal(
        self, start: initialise.Annealing, parts: _Parts, problem: Problem, rng: Any, weight: Any
    ) -> Array:
        """The first theta, of a map with more rows whose least ones are faded out."""
        name = type(self).__name__
        if not isinstance(parts.mapping, maps.Linear):
            raise ValueError(
                f"The 'init' parameter of {name} must be another start where 'mapping' is "
                f"{self.mapping!r}, which has no rows to remove. Got {self.init!r} instead."
            )
        k = start.n_rows(parts.d, problem.X.shape[1])
        inner = initialise.resolve(start.init, type(start).__name__)
        wide = _Parts(maps.Linear(k), k, inner, parts.solver)
        theta = self._start(wide, problem.replace(mapping=wide.mapping), rng)
        A = wide.mapping.components(theta)
        A = anneal(start, A, parts.d, problem, weight, name if self.verbose else None)
        return parts.mapping.theta(A)

    def _check_given(self, A: Array, mapping: Map) -> Array:
        must = f"The 'init' parameter of {type(self).__name__} must"
        if not A.any():
            raise ValueError(f"{must} give weight to a column that varies. Got none instead.")
        if isinstance(mapping, maps.Diagonal) and np.any(A - np.diag(np.diag(A))):
            raise ValueError(f"{must} be diagonal for a diagonal map. Got {A!r} instead.")
        return A

    def _descend(
        self,
        problem: Problem,
        solver: Solver,
        report: IterationReporter,
        theta: Array | None = None,
        memory: _Memory | None = None,
        searching: bool = False,
    ) -> tuple[Result, bool]:
        """Travel in float32 where that pays, and arrive in float64."""
        n = len(problem.X) if problem.train is None else len(problem.train)
        single = n >= _SINGLE_FROM
        state, history, past = None, None, 0
        if memory is not None:
            single, last = memory.single, memory.result
            fun = problem.replace(dtype=np.float32) if single else problem
            state = solvers.refresh(solver, fun, last.state.theta, last.state)
            theta, history = last.theta, last.history
        while True:
            fun = problem.replace(dtype=np.float32) if single else problem
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
                on_iteration=partial(
                    self._tell, report=report, problem=problem, single=single, searching=searching
                ),
            )
            past += result.n_iter
            result.n_iter = past
            over = ("max_iter", "callback", "interrupted", "early_stopping")
            if not single or result.reason in over:
                return result, single
            try:
                # the memory of the solver stays good: only the last digits of the loss change
                state = solvers.refresh(solver, problem, result.theta, result.state)
            except KeyboardInterrupt:
                result.reason, result.converged = "interrupted", False
                return result, single
            single, theta, history = False, None, result.history

    def _tell(
        self,
        info: solvers.Iteration,
        report: IterationReporter,
        problem: Problem,
        single: bool,
        searching: bool,
    ) -> bool:
        """Print and report an iteration; whether a callback asks to stop."""
        history = info.history
        if searching:  # the losses of a search are not those of the fit
            history = {**history, "loss": [math.nan]}
        elif self.verbose:
            score = "" if np.isnan(info.validation_score) else f" {info.validation_score:12.6f}"
            print(
                f"[{type(self).__name__}] {info.iteration:5d} {info.loss:14.8f} "
                f"{info.grad_norm:10.2e}{score} {info.seconds:9.2f}s"
            )
        # the start is iteration 0: callbacks count from 1
        if info.iteration == 0:
            return False
        stop = report(_Told(history, info, problem, single, searching))
        return stop or report.stopped  # what was asked of the search holds for the fit too

    def _attributes(self, told: _Told, X: Any, parts: _Parts) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at this iteration."""
        info, problem = told.info, told.problem
        copy = type(self)(**self.get_params(deep=False))
        copy._store(X, problem, info.theta)
        names = ("classes_", "n_features_in_", "feature_names_in_", "cv_results_")
        attributes = {name: getattr(self, name) for name in names if hasattr(self, name)}
        stored = ("components_", "n_components_", "alpha_", "_shift", "_rules")
        attributes |= {name: getattr(copy, name) for name in stored}
        attributes |= {"n_iter_": max(1, info.iteration), "objective_": info.loss}
        if self.warm_start and not told.searching:  # goes on as if it had never been cut
            history = {key: list(entries) for key, entries in info.history.items()}
            result = Result(
                info.theta, info.loss, info.iteration, False, "max_iter", info.state, history
            )
            attributes["_memory"] = _Memory(
                parts.solver, problem.mapping, problem.X.scale, told.single, result
            )
            attributes["_asked"] = getattr(self, "_asked", None)
        return attributes

    def _store(self, X: Any, problem: Problem, theta: Array) -> None:
        """What a fitted estimator needs, and what it was found with."""
        features = problem.X
        self.components_ = (problem.mapping.components(theta) * features.scale).astype(X.dtype)
        self.n_components_ = len(self.components_)
        self.alpha_ = float(problem.alpha)
        self._shift = features.shift
        self._rules = NeighbourRules(self._project(X), problem.targets, self.n_neighbors)

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
        return self._cost(X, self._resolve(X.shape[1]).d)

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
