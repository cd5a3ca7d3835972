"""fit = validate, start, descend, store: the frame of every method that learns from labels.

A method is a subclass with its parameters, ``_objective`` and ``_make_rules``, and, where it
differs from what most have in common, others of the methods that head `NeighbourMetric`; see
``nca.py`` and ``knca.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from vicinal import maps, neighbourhoods, solvers
from vicinal._callback_support import CallbackSupportMixin, IterationReporter
from vicinal._features import Features
from vicinal._threads import single_threaded_blas
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
from vicinal.core.cost import Cost, Work
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Pairs, Result, Solver
from vicinal.densities import Kernel
from vicinal.estimators._auto import DEFAULT_ALPHA, choose, forget_search, scaled_alpha
from vicinal.estimators._descent import Outcome
from vicinal.estimators._learning import Learning, Told, judges
from vicinal.estimators._neighbours import NeighbourClassifierMixin
from vicinal.estimators._parts import Parts, leaves_open, resolve_parts
from vicinal.estimators._plan import Plan
from vicinal.estimators._rounds import Renewal, Rounds, frozen
from vicinal.estimators._search import ALPHAS, is_null
from vicinal.estimators._split import hold_out
from vicinal.estimators._start import first_theta
from vicinal.estimators._streaming import StreamMixin
from vicinal.models.votes import NeighbourRules
from vicinal.targets import Labels

__all__ = ["NeighbourMetric"]


_MOST_HELD_OUT = 2000  # rows, where steps do not look at all pairs
_MANY_ALONE = 0.1  # rows, of all, that a compact kernel may leave without company

_ADVICE = {
    "max_iter": "the {n} iterations of 'max_iter' were used up; increase 'max_iter' or 'tol'",
    "stalled": "the solver found no lower loss though the gradient is not small; "
    "check the data, or change 'solver', 'scaling' or 'alpha'",
    "callback": "a callback stopped it after {n} iterations",
    "interrupted": "it was interrupted after {n} iterations",
    "time_budget": "the {budget:g} seconds of 'time_budget' were used up after {n} iterations",
    "non_finite": "the loss became infinite or NaN; decrease the learning rate of 'solver' "
    "or increase 'alpha'",
}


class NeighbourMetric(CallbackSupportMixin, NeighbourClassifierMixin, StreamMixin, BaseEstimator):
    """Frame of the estimators; not public."""

    pairs: Any
    #: whether the objective can sum by trees
    _trees: ClassVar[bool] = True
    #: what ``alpha`` may be beside a number, and the path along which "auto" looks for it
    _named_alphas: ClassVar[tuple[str, ...]] = ("auto", "scaled")
    _alphas: ClassVar[tuple[float, ...]] = ALPHAS
    #: what ``scaling`` may be
    _scalings: ClassVar[tuple[str | None, ...]] = ("standard", "global", None)
    #: whether only some parameters of the map are allowed, and solvers must keep to them
    _constrained: ClassVar[bool] = False
    #: whether the loss is flat far from its minimum, and several steps must tell where that is
    _patient: ClassVar[bool] = False
    #: whether the targets of a row are other rows: then all are there while a start is scaled
    _targets_are_rows: ClassVar[bool] = False
    #: rows that choose the scale of a start
    _start_rows: ClassVar[int] = 1000
    #: what ``_store`` of the method stores beside that of the frame
    _stored: ClassVar[tuple[str, ...]] = ()
    #: attributes that are computed when first asked for
    _on_demand: ClassVar[tuple[str, ...]] = ()

    # What a method is asked for

    def _objective(self) -> Callable[..., tuple[float, Array]]:
        """``value, dZ = objective(Z, targets, queries=..., references=..., **options)``."""
        raise NotImplementedError

    def _make_rules(self, Z: Array, labels: Any, options: Mapping[str, Any]) -> NeighbourRules:
        """What classifies, of some projections; ``options`` are those the objective is told."""
        raise NotImplementedError

    def _scale_objective(self) -> Callable[..., tuple[float, Array]]:
        """What chooses the scale of a start."""
        return self._objective()

    def _features(self, X: Any, labels: Any, train: Array | None) -> Features:
        """The rows as the solver sees them; ``train`` are those to learn from, None for all."""
        return Features(X, self.scaling, labels.sample_weight)

    def _parts(self, n: int, n_features: int, sparse: bool) -> Parts:
        """What the parameters stand for, on data of this size."""
        return resolve_parts(self, n, n_features, sparse)

    def _first_theta(
        self,
        parts: Parts,
        problem: Problem,
        rng: np.random.RandomState,
        tell: Callable[[solvers.Iteration, Problem], bool],
        searching: bool = False,
        deadline: float | None = None,
    ) -> Array:
        """Where a descent begins; ``tell`` hears of iterations that are made for it."""
        return first_theta(self, parts, problem, rng, tell, searching)

    def _kernel(self) -> Kernel | None:
        """The kernel, where the method has a choice of them."""
        return None

    def _targets(self, codes: Array, weight: Array | None) -> Any:
        """What the objective is told of the rows."""
        return Labels(codes, weight, classes=np.arange(len(self.classes_)))

    def _options(self, targets: Any) -> dict[str, Any]:
        """What else the objective is told, in all of a fit; of the rows that are learnt from."""
        return {}

    def _aim(self, problem: Problem, theta: Array | None = None) -> Problem:
        """The problem with what its rows have to tell of the targets, before learning or at theta.

        For methods whose targets are found among the rows learnt from.
        """
        return problem

    def _warn_of(self, targets: Any, plan: Plan) -> None:
        """Warn of those of the rows to learn from that nothing can be learnt from."""

    def _neighbourhood(self) -> Any:
        """The lists or trees that ``pairs`` stands for; None for all pairs."""
        return neighbourhoods.resolve(self.pairs, type(self).__name__, trees=self._trees)

    def _left_out(
        self, Z: Array, targets: Any, pairs: Pairs, references: Array | None
    ) -> neighbourhoods.LeftOut:
        """What lists leave out of what the objective is made of; for methods that have lists."""
        raise NotImplementedError

    def _rounds(self, plan: Plan, rng: np.random.RandomState) -> Renewal | None:
        """What is renewed every few iterations, if anything."""
        return Rounds.of(plan, rng, self._left_out)

    def _solver(self) -> Solver:
        """What "auto" is on all rows."""
        return solvers.LBFGS()

    def _unit(self, problem: Problem) -> float:
        """What counts as a loss of size one, for ``tol``."""
        return 1.0

    def _reach(self, problem: Problem) -> float:
        """How far apart near rows should be at the start, where targets are rows."""
        return 1.0

    def _slope_unit(self, problem: Problem, theta: Array) -> float:
        """The same for entries of the gradient of a map of the size of theta."""
        return self._unit(problem)

    def _pressed(self, problem: Problem) -> str | None:
        """A complaint where the map has come to nothing."""
        if not is_null(self._rules.Z):
            return None
        return (
            f"The penalty alpha={self.alpha_:g} has pressed the map to nothing: all rows "
            "are in one place, and each consults all others. Decrease 'alpha'."
        )

    def _work(self) -> Work:
        """What a pair of rows costs."""
        return Work()

    # The frame

    def _check_parameters(self) -> None:
        check_option(self, "scaling", self._scalings)
        check_option(self, "rule", self._rule_names)
        check_number(self, "alpha", 0.0, or_else=self._named_alphas)
        check_folds(self, "cv")
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)
        check_number(self, "max_iter", 1, integer=True, or_else=("auto",))
        check_number(self, "time_budget", 0.0, open_ends=True, or_else=(None,))
        check_number(self, "tol", 0.0)
        check_number(self, "n_iter_no_change", 1, integer=True)
        check_number(self, "validation_fraction", 0.0, 1.0, open_ends=True)
        check_bool(self, "early_stopping")
        check_bool(self, "warm_start")
        check_number(self, "verbose", 0, integer=True, or_else=(True, False))

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        began = perf_counter()
        self._check_parameters()
        rng = check_seed(self)
        given = (X, y)
        X, labels = self._check_data(X, y, sample_weight)
        parts = self._parts(X.shape[0], X.shape[1], sp.issparse(X))
        self._forget("_stream", "n_samples_seen_")
        self.plan_ = parts.plan
        if self.verbose:
            print(f"[{type(self).__name__}] {parts.plan}")
        with single_threaded_blas():
            problem = self._problem(X, labels, parts, rng)
            self._warn_of(labels.take(problem.train), parts.plan)
            searching = leaves_open(self, "alpha") or leaves_open(self, "n_components")
            n_iter = parts.plan.max_iter * getattr(parts.start, "n_init", 1)
            report = IterationReporter(
                self,
                *given,
                max_iter=None if searching else n_iter,
                reconstruction_attributes=lambda told: self._attributes(told, X),
                metadata=None if sample_weight is None else {"sample_weight": sample_weight},
            )
            learning = Learning(self, rng, report, began)
            carried = None
            if searching:
                problem, parts, carried = self._settle(problem, parts, learning)
            else:
                forget_search(self)
            outcome = learning.learn(problem, parts, carried)
            result, problem = outcome.result, outcome.problem
            self.history_, self.rounds_ = result.history, outcome.rounds
            self.n_iter_ = max(1, result.n_iter)
            rows = None if parts.plan.exact else judges(problem, rng)
            facts: dict[str, float] = {}
            told = problem.replace(options={**problem.options, "report": facts})
            if rows is not None:  # an estimate: single precision will do
                told = told.replace(dtype=np.float32)
            self.objective_ = told.value(result.theta, rows)
            self._store(X, problem, result.theta)
            if self.rule == "knn" and self._rules.asked != "local":
                _ = self.n_neighbors_  # chosen, and complained about, now
        self._memory = outcome.memory if self.warm_start else None
        report.close()
        self._complain(outcome, facts.get("out_of_range", 0.0))
        return self

    def _forget(self, *names: str) -> None:
        """Take off what is left of the last fit."""
        for name in (*self._on_demand, *names):
            self.__dict__.pop(name, None)

    def _problem(self, X: Any, labels: Labels, parts: Parts, rng: Any) -> Problem:
        """The loss that is to be made small."""
        train, held_out = None, None
        if self.early_stopping:
            fraction = self.validation_fraction
            if not parts.plan.exact:  # scored often, against all rows, beside cheaper steps
                fraction = min(fraction, _MOST_HELD_OUT / len(labels))
            train, held_out = hold_out(labels.codes, fraction, rng)
        features = self._features(X, labels, train)
        if not features.scale.any():
            raise ValueError(f"X has no column that varies: its {X.shape[1]} are constant.")
        alpha = DEFAULT_ALPHA if leaves_open(self, "alpha") else self.alpha
        if isinstance(alpha, str):
            alpha = scaled_alpha(features, len(labels) if train is None else len(train))
        problem = Problem(
            features, labels, self._objective(), parts.mapping, alpha, train, held_out,
            options=self._options(labels.take(train)),
        )  # fmt: skip
        return self._aim(frozen(parts.plan, problem))

    def _complain(self, outcome: Outcome, out_of_range: float) -> None:
        """Warn of a map that came to nothing, and of a descent that did not arrive."""
        result = outcome.result
        if outcome.complaint is not None:
            warn(outcome.complaint)
        if out_of_range > _MANY_ALONE and outcome.problem.options.get("background") is None:
            warn(
                f"{100 * out_of_range:.3g} % of the rows have no other row in range of the compact "
                "kernel and are not learnt from: give the kernel a background, or 'init' a "
                "smaller scale."
            )
        pressed = self._pressed(outcome.problem)
        if pressed is not None:
            warn(pressed)
        if not result.converged:
            advice = _ADVICE[result.reason].format(n=result.n_iter, budget=self.time_budget)
            warn(
                f"{type(self).__name__} did not converge: {advice}. The best map so far is kept.",
                ConvergenceWarning,
            )

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
        return X, self._targets(codes, weight)

    def _named(self, chosen: Array) -> str:
        """Some of the classes, given by a mask, for a message."""
        names = self.classes_[chosen].tolist()
        return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")

    def _settle(
        self, problem: Problem, parts: Parts, learning: Learning
    ) -> tuple[Problem, Parts, Array | None]:
        """Put what a search has chosen in the place of "auto"; and a map to begin from."""
        choice = choose(self, problem, parts, learning)
        self.cv_results_, self._choice = choice.results, choice._replace(theta=None)
        if leaves_open(self, "n_components"):
            parts = parts._replace(mapping=maps.Linear(choice.d), d=choice.d)
        problem = problem.replace(mapping=parts.mapping, alpha=choice.alpha)
        return problem, parts, choice.theta

    def _attributes(self, told: Told, X: Any) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at this iteration."""
        info, problem = told.info, told.problem
        copy = type(self)(**self.get_params(deep=False))
        copy._store(X, problem, info.theta)
        names = ("classes_", "n_features_in_", "feature_names_in_", "cv_results_", "_choice")
        attributes = {
            name: getattr(self, name) for name in (*names, "plan_") if hasattr(self, name)
        }
        stored = ("components_", "n_components_", "alpha_", "_shift", "_scale", "_rules")
        attributes |= {name: getattr(copy, name) for name in (*stored, *self._stored)}
        attributes |= {"n_iter_": max(1, info.iteration), "objective_": info.loss}
        if self.warm_start and not told.searching:  # goes on as if it had never been cut
            history = {key: list(entries) for key, entries in info.history.items()}
            result = Result(
                info.theta, info.loss, info.iteration, False, "max_iter", info.state, history,
                info.sampling,
            )  # fmt: skip
            attributes["_memory"] = told.memory(result)
        return attributes

    def _store(self, X: Any, problem: Problem, theta: Array) -> None:
        """What a fitted estimator needs, and what it was found with."""
        features = problem.X
        self.components_ = (problem.mapping.components(theta) * features.scale).astype(X.dtype)
        self.n_components_ = len(self.components_)
        self.alpha_ = float(np.min(problem.alpha))  # while annealing, rows have more of it
        self._shift, self._scale = features.shift, features.scale
        self._rules = self._make_rules(self._project(X), problem.targets, problem.options)

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
        return self._parts(X.shape[0], X.shape[1], sp.issparse(X)).plan.cost

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
