"""fit = validate, start, descend, store: the frame of every method that learns from labels.

A method is a subclass with its parameters and ``_objective()``; see ``nca.py``.
"""

from __future__ import annotations

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
    check_folds,
    check_label_types,
    check_number,
    check_option,
    check_seed,
    check_weights,
    warn,
)
from vicinal.estimators._auto import DEFAULT_ALPHA, choose, forget_search
from vicinal.estimators._cost import Cost, exact_cost
from vicinal.estimators._metric import MahalanobisMixin
from vicinal.estimators._neighbours import NeighbourClassifierMixin, NeighbourRules
from vicinal.estimators._parts import Parts, leaves_open, resolve_parts
from vicinal.estimators._search import is_null
from vicinal.estimators._split import hold_out
from vicinal.estimators._start import first_theta, unscaled
from vicinal.problem import Problem
from vicinal.targets import Labels

__all__ = ["NeighbourMetric"]

_SINGLE_FROM = 1000  # training rows from which travelling in float32 pays for compiling it

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

    def _scale_objective(self) -> Callable[..., tuple[float, Array]]:
        """What chooses the scale of a start."""
        return self._objective()

    def _check_parameters(self) -> None:
        check_option(self, "scaling", ("standard", "global", None))
        check_option(self, "rule", ("posterior", "knn"))
        check_number(self, "alpha", 0.0, or_else=("auto",))
        check_folds(self, "cv")
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
        parts = resolve_parts(self, X.shape[1])
        self.__dict__.pop("effective_n_neighbors_", None)  # of the last fit
        if self.verbose:
            print(f"[{type(self).__name__}] {self._cost(X, parts)}")
        with single_threaded_blas():
            features = Features(X, self.scaling, labels.sample_weight)
            if not features.scale.any():
                raise ValueError(f"X has no column that varies: its {X.shape[1]} are constant.")
            train, held_out = None, None
            if self.early_stopping:
                train, held_out = hold_out(labels.codes, self.validation_fraction, rng)
            alpha = DEFAULT_ALPHA if leaves_open(self, "alpha") else self.alpha
            problem = Problem(
                features, labels, self._objective(), parts.mapping, alpha, train, held_out
            )
            searching = leaves_open(self, "alpha") or leaves_open(self, "n_components")
            report = IterationReporter(
                self,
                *given,
                max_iter=None if searching else self.max_iter * getattr(parts.start, "n_init", 1),
                reconstruction_attributes=lambda told: self._attributes(told, X, parts),
                metadata=None if sample_weight is None else {"sample_weight": sample_weight},
            )
            carried = None
            if searching:
                problem, parts, carried = self._settle(problem, parts, rng, report)
            else:
                forget_search(self)
            result, single = self._learn(problem, parts, rng, report, carried)
            self.history_ = result.history
            self.n_iter_ = max(1, result.n_iter)
            self.objective_ = problem.value(result.theta)
            self._store(X, problem, result.theta)
            if self.rule == "knn" and self._rules.asked != "local":
                _ = self.n_neighbors_  # chosen, and complained about, now
            if is_null(self._rules.Z):
                warn(
                    f"The penalty alpha={self.alpha_:g} has pressed the map to nothing: all rows "
                    "are in one place, and each consults all others. Decrease 'alpha'."
                )
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

    def _settle(
        self, problem: Problem, parts: Parts, rng: Any, report: IterationReporter
    ) -> tuple[Problem, Parts, Array | None]:
        """Put what a search has chosen in the place of "auto"; and a map to begin from."""
        choice = choose(self, problem, parts, rng, report)
        self.cv_results_, self._choice = choice.results, choice._replace(theta=None)
        if leaves_open(self, "n_components"):
            parts = parts._replace(mapping=maps.Linear(choice.d), d=choice.d)
        problem = problem.replace(mapping=parts.mapping, alpha=choice.alpha)
        return problem, parts, choice.theta

    def _learn(
        self,
        problem: Problem,
        parts: Parts,
        rng: Any,
        report: IterationReporter,
        carried: Array | None = None,
    ) -> tuple[Result, bool]:
        """Descend from each start; the best result, and whether it ended in float32.

        ``carried``, the map of a search, is one more start, and the first.
        """
        memory = getattr(self, "_memory", None) if self.warm_start else None
        shape = (parts.d, problem.X.shape[1])
        if (
            memory is not None
            and (memory.solver, memory.mapping) == (parts.solver, parts.mapping)
            and np.array_equal(memory.scale, problem.X.scale)
        ):
            return self._descend(problem, parts.solver, report, memory=memory)
        if self.warm_start and hasattr(self, "components_") and self.components_.shape == shape:
            theta = problem.mapping.theta(unscaled(self.components_, problem.X.scale))
            if theta.any():
                return self._descend(problem, parts.solver, report, theta)
        runs: list[tuple[Result, bool]] = []
        reason = None
        starts: list[Array | None] = [None] * getattr(parts.start, "n_init", 1)
        for given in starts if carried is None else [carried, *starts]:
            try:
                if given is None:
                    given = first_theta(self, parts, problem, rng, report)
                runs.append(self._descend(problem, parts.solver, report, given))
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

    def _attributes(self, told: _Told, X: Any, parts: Parts) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at this iteration."""
        info, problem = told.info, told.problem
        copy = type(self)(**self.get_params(deep=False))
        copy._store(X, problem, info.theta)
        names = ("classes_", "n_features_in_", "feature_names_in_", "cv_results_", "_choice")
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
        return attributes

    def _store(self, X: Any, problem: Problem, theta: Array) -> None:
        """What a fitted estimator needs, and what it was found with."""
        features = problem.X
        self.components_ = (problem.mapping.components(theta) * features.scale).astype(X.dtype)
        self.n_components_ = len(self.components_)
        self.alpha_ = float(np.min(problem.alpha))  # while annealing, rows have more of it
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
        return self._cost(X, resolve_parts(self, X.shape[1]))

    def _cost(self, X: Any, parts: Parts) -> Cost:
        itemsize = 4 if X.shape[0] >= _SINGLE_FROM else 8
        d = parts.d
        if isinstance(parts.start, initialise.Annealing):
            d = max(d, parts.start.n_rows(d, X.shape[1]))
        return exact_cost(X.shape[0], X.shape[1], d, itemsize, not sp.issparse(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
