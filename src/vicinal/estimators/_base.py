"""The base class of all estimators that learn a map by minimising an objective.

An estimator adds its parameters and their checks, ``_check_data``, which turns what the user gave
into rows and a target, and ``_method(data)``, which describes what to learn.  Those that learn from
labels build on ``_classifier.py``.  See ``nca.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import Tags

from vicinal import _clock
from vicinal._features import SCALINGS, of_each_row
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_bool, check_folds, check_number, check_option, shaped
from vicinal.core.points import to_host
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult
from vicinal.core.stopping import TimeUp
from vicinal.core.types import Array, File, Matrix, MatrixLike, Weights, is_auto
from vicinal.engines import cuda
from vicinal.fit.context import Budget, FitContext
from vicinal.fit.cost import Cost, Size, converted_bytes
from vicinal.fit.method import BY_ROWS, Config, Data, Method, without_search
from vicinal.fit.plan import (
    NOISY_RATE,
    Plan,
    check_gpu,
    make_plan,
    make_problem,
    noisy_plan,
    size_of,
)
from vicinal.fit.report import CallbackSupportMixin, IterationReport, IterationReporter, Reports
from vicinal.fit.resume import (
    STOPPED,
    ResumeState,
    check_same_fit,
    keeps_state,
    parameter_key,
    past_fit,
    restored_on_error,
    row_fingerprint,
    seed_of,
    take_over,
)
from vicinal.fit.run import best_of_starts, final_loss, if_stopped, last_theta, run, warn_of_run
from vicinal.fit.score import compare, importances_of, warn_overfit
from vicinal.fit.search import ROWS, Choice, choose, search_key
from vicinal.fit.stream import Stream
from vicinal.maps.fitted import FittedLinear, fitted_map

_FIT_PASSES = 4.0  # the importances may embed four times the number of training rows
#: attributes of the running fit that a checkpoint holds besides the map
_OF_THE_FIT = (
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "cv_results_",
    "_choice",
    "plan_",
    "_rows",
    "_outputs",
)


class MetricLearner(CallbackSupportMixin, BaseEstimator):
    """Learns a map; not public.

    An estimator that does not offer one of the shared parameters may set it as a class attribute,
    or leave it out: `Config` then has its default.
    """

    # what a fit sets
    _map: Any = None
    _model: Any = None
    _importances: Array | None = None
    _choice: Choice | None = None
    _resume: ResumeState | None = None
    _stream: Stream | None = None
    n_jobs: int | None = None
    #: whether a fit computes the importances of a nonlinear map, which takes a tenth of a second
    _tells_importances: bool = True
    #: allowed values of ``alpha`` besides numbers
    _named_alphas: ClassVar[tuple[str, ...]] = ("auto", "scaled")
    #: allowed values of ``scaling``
    _scalings: ClassVar[tuple[str | None, ...]] = SCALINGS
    #: attributes that `_store` of this estimator sets besides the common ones
    _stored: ClassVar[tuple[str, ...]] = ()

    def _method(self, data: Data) -> Method:
        """The method to learn from these rows."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        asked = self.get_params(deep=False)
        for name, check in self._shared_checks().items():
            if name in asked:
                check(self, name)

    def _shared_checks(self) -> dict[str, Callable[[Any, str], None]]:
        """The checks of the shared parameters; an estimator need not offer all of them."""
        return {
            "scaling": partial(check_option, options=self._scalings),
            "alpha": partial(check_number, low=0.0, or_else=self._named_alphas),
            "cv": check_folds,
            "max_iter": partial(check_number, low=1, integer=True, or_else=("auto",)),
            "time_budget": partial(check_number, low=0.0, open_ends=True, or_else=(None,)),
            "tol": partial(check_number, low=0.0, or_else=(None,)),
            "n_iter_no_change": partial(check_number, low=1, integer=True),
            "validation_fraction": partial(check_number, low=0.0, high=1.0, open_ends=True),
            "early_stopping": check_bool,
            "warm_start": check_bool,
            "n_jobs": partial(check_number, low=-1, integer=True, or_else=(None,)),
            "device": cuda.check_device,
            "verbose": partial(check_number, low=0, integer=True, or_else=(True, False)),
        }

    def _check_data(self, X: MatrixLike, y: ArrayLike | None, sample_weight: Weights) -> Data:
        """The validated rows of positive weight and their target; sets what the model refers to."""
        raise NotImplementedError

    def _fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None,
        sample_weight: Weights = None,
        *,
        resume_from: File | None = None,
        **more: Any,
    ) -> Self:
        """Validate, plan, learn, store: the sequence of every fit.

        ``more`` are arguments that the ``fit`` of one estimator takes, for its ``_check_data``.
        """
        began, resumes = _clock.now(), resume_from is not None
        passed = {"sample_weight": sample_weight, **more}
        given = (X, y, {name: value for name, value in passed.items() if value is not None} or None)
        with restored_on_error(self):
            self._check_parameters()
            if resumes:
                take_over(self, resume_from)
            config, past = Config.of(self), past_fit(self, resumes)
            asked = self.get_params(deep=False)
            seed = seed_of(self) if past is None else past.seed
            X, y = cuda.of_tensor(X, self), cuda.labels_of(y)
            data = self._check_data(X, y, sample_weight, **more)
            data = data._replace(X=cuda.on_device(data.X, self))
            method = self._method(data)
            check_gpu(method, asked.get("scaling"), data)
            config = without_search(config, method)
            size = self._size(data, method, X)
            plan = make_plan(method, config, size)
            leaves = self._state_before(plan, data, seed, resumes)
            if resumes:
                assert past is not None
                assert leaves is not None
                check_same_fit(self, past, leaves, resume_from)
                if not past.cut:
                    return self._report_ended(given)
            if past is not None and (leaves is None or not past.is_completed_by(leaves)):
                past = None  # it may be continued still: see `_learn`
            elif past is not None:
                leaves = leaves._replace(before=past.before)  # type: ignore[union-attr]
            self._forget("_stream", "n_samples_seen_")
            self.plan_ = plan
            reports, budget = Reports(method.name, self.verbose), Budget(config.time_budget, began)
            reports.say(plan)
            context = FitContext(method, config, plan, seed, reports, budget, counts_all=resumes)
            if past is not None:
                context = replace(context, record=past.record())
            with single_threaded_blas(), reports.watching_compilation():
                problem = make_problem(method, config, data, plan, seed)
                method.warn_unusable_rows(problem.target.take(problem.train), plan)
                # only now, so that callbacks see no fit that fails before it begins
                reports.report = self._reporter(given, data, context, leaves)
                choice = self._known_choice(problem, context, past)
                if choice is None:
                    choice = choose(problem, context, self.n_jobs)
                problem, context = self._apply_choice(choice, problem, context, size)
                result = self._learn(problem, context, past, leaves)
                reports.doing("computing the final loss")
                facts = self._store_result(data, context, result, leaves)
                scores = None
                if config.time_budget is None and result.reason != "interrupted":
                    searched = self._searched_score() if self.verbose else None
                    scores = compare(method, result.problem, result.theta, config.rule, searched)
            reports.close(result.reason)
            self._drop_unused_state()
            warn_of_run(method, config, result, facts, budget.left_out)
            if scores is not None:
                reports.say(scores)
                if result.problem.held_out is not None:
                    warn_overfit(method, scores, self.get_params(deep=False))
        return self

    def _report_ended(self, given: tuple[Any, Any, Any]) -> Self:
        """Tell the callbacks that the fit of a checkpoint had ended: nothing is left to do."""
        X, y, metadata = given
        IterationReporter(self, X, y, max_iter=0, metadata=metadata).close()
        self._drop_unused_state()
        return self

    def _drop_unused_state(self) -> None:
        """Forget the state of the fit, which callbacks have saved, unless a later fit uses it."""
        if not self.warm_start:
            self._resume = None

    def _state_before(self, plan: Plan, data: Data, seed: int, resumes: bool) -> ResumeState | None:
        """What this fit leaves for a later one, before its first run; None if none will need it."""
        if not keeps_state(self, resumes):
            return None
        parameters = parameter_key(self.get_params(deep=False))
        before = self._map if self.warm_start else None
        return ResumeState(parameters, row_fingerprint(data), seed, plan, plan.max_iter, before)

    def _reporter(
        self,
        given: tuple[Any, Any, Any],
        data: Data,
        context: FitContext,
        leaves: ResumeState | None,
    ) -> IterationReporter:
        """Reports this fit to the callbacks."""
        X, y, metadata = given
        n_iter = context.plan.max_iter * context.method.n_starts
        return IterationReporter(
            self,
            X,
            y,
            max_iter=None if context.config.searches else n_iter,
            reconstruction_attributes=lambda report: self._attributes(
                report, data, context, leaves
            ),
            metadata=metadata,
        )

    def _forget(self, *names: str) -> None:
        """Delete attributes of the last fit."""
        for name in names:
            self.__dict__.pop(name, None)

    def _known_choice(
        self, problem: Problem, context: FitContext, past: ResumeState | None
    ) -> Choice | None:
        """What a search would choose, if it is known: given, or chosen by an earlier fit."""
        config, choice = context.config, self._choice
        if not config.searches:
            self._forget("cv_results_", "_choice")
            return Choice(None, context.method.n_components, float(problem.alpha), {})
        key = search_key(self.get_params(deep=False), problem)
        if choice is not None and choice.key == key and (self.warm_start or past is not None):
            return choice
        self._forget("cv_results_", "_choice", "_resume")  # of another search
        return None

    def _apply_choice(
        self, choice: Choice, problem: Problem, context: FitContext, size: Size
    ) -> tuple[Problem, FitContext]:
        """The problem and its plan with "auto" replaced by what was chosen."""
        config, method = context.config, context.method
        plan = noisy_plan(context.plan, method, config, size) if choice.noisy else context.plan
        if plan is not context.plan:
            method = replace(method, relative_rate=NOISY_RATE)
            context = replace(context, plan=plan, method=method)
        how = [plan.reason]
        if config.alpha == BY_ROWS:
            how.append(f"alpha={float(problem.alpha):g} by the number of rows")
        if choice.how:
            how.append(choice.how)
        self.plan_ = plan._replace(reason="; ".join(how))
        if config.searches and not context.record.search_cut:
            key = search_key(self.get_params(deep=False), problem)
            self._choice = choice._replace(key=key)
        if choice.results:
            self.cv_results_ = choice.results
        mapping = problem.mapping
        if is_auto(config.n_components):
            assert mapping.with_rank is not None
            mapping = mapping.with_rank(choice.d)
        return problem.replace(mapping=mapping, alpha=choice.alpha), context

    def _learn(
        self,
        problem: Problem,
        context: FitContext,
        past: ResumeState | None,
        leaves: ResumeState | None,
    ) -> FitResult:
        """The result of the fit: it completes or continues the last one, or begins with a start.

        ``past`` is the fit that this one completes.
        """
        record = context.record
        if past is not None and past.state is not None and leaves is not None:
            state = past.state_for(leaves._replace(plan=context.plan))
            if past.continues:
                return run(context.of(past.path), problem, None, state)
            return best_of_starts(context, problem, state)
        if self.warm_start and leaves is not None and not record.n_starts:
            last = self._resume
            theta = last_theta(leaves.before, problem)
            if last is not None and last.is_continued_by(
                context.plan, problem.mapping, problem.X.scale
            ):
                record.continues = True
                left = last.steps_left(context.plan)
                return run(context.of(last.path), problem, None, last.state, left=left)
            if theta is not None:
                record.continues = True
                return run(context, problem, theta)
        return best_of_starts(context, problem)

    def _store_result(
        self, data: Data, context: FitContext, result: FitResult, leaves: ResumeState | None
    ) -> Mapping[str, float]:
        """Set the fitted attributes; return the facts of the last evaluation."""
        self.history_, self.rounds_ = result.history, result.rounds
        self.n_iter_ = max(1, result.n_iter)
        self.loss_, facts = final_loss(context, result.problem, result.theta)
        self._store(data.X, context.method, result.problem, result.theta)
        if self._tells_importances and not isinstance(self._map, FittedLinear):
            budget, fitted = context.budget, (result.problem, result.theta)
            try:
                self._importances = importances_of(*fitted, _FIT_PASSES, budget.passes_left())
            except TimeUp:
                budget.leave_out("feature_importances_")
        self._finish_model(context.deadline)
        self._resume = None
        if leaves is not None:
            cut = result.reason in STOPPED
            self._resume = leaves.at(result.problem, result.state, result.path, context.record, cut)
        return facts

    def _store(self, X: Matrix, method: Method, problem: Problem, theta: Array) -> None:
        """Set the attributes that a fitted estimator needs."""
        self._map = fitted_map(problem.mapping, theta, problem.X, X.dtype)
        self._forget("components_", "_importances")
        if isinstance(self._map, FittedLinear):
            self.components_ = self._map.components
        self.n_components_ = self._map.n_components
        self.alpha_ = float(np.min(problem.alpha))  # annealing raises it for some rows of the map
        Z = to_host(of_each_row(X, self._map.embed))
        self._model = method.make_model(Z, problem.target, problem.objective)

    def _finish_model(self, deadline: float | None) -> None:
        """Whatever the model chooses during the fit, so that its warnings appear there."""

    def _attributes(
        self,
        report: IterationReport,
        data: Data,
        context: FitContext,
        leaves: ResumeState | None,
    ) -> dict[str, Any]:
        """Fitted attributes as if the fit had stopped at this iteration."""
        info, problem, state = report.info, report.problem, None
        theta, value = info.theta, info.loss
        if report.snapshot is not None and not report.searching:
            theta, problem = if_stopped(context, problem, report.snapshot)
            value, _ = final_loss(context, problem, theta)
            state = report.snapshot.state()
        copy = type(self)(**self.get_params(deep=False))
        copy._store(data.X, context.method, problem, theta)
        attributes = {name: part for name, part in vars(self).items() if name in _OF_THE_FIT}
        stored = ("components_", "n_components_", "alpha_", "_map", "_model", *self._stored)
        attributes |= {name: copy.__dict__[name] for name in stored if name in copy.__dict__}
        attributes |= {"n_iter_": max(1, info.iteration), "loss_": value}
        if leaves is not None:
            path = () if state is None else report.path
            attributes["_resume"] = leaves.at(problem, state, path, context.record, cut=True)
        return attributes

    def _searched_score(self) -> float | None:
        """The best score that a search found on held-out rows; None without a search."""
        results = vars(self).get("cv_results_")
        return None if results is None else float(np.max(results["mean_test_score"]))

    def estimate_cost(self, X: MatrixLike, y: ArrayLike | None = None) -> Cost:
        """Estimate the memory and time of a fit to X without starting it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Class labels.  Only the number of classes counts: it decides how much memory
            votes of k neighbours take, and with very many classes the batches.  None stands for
            ten classes.  Numbers do not count.

        Returns
        -------
        cost : Cost
            ``memory_bytes`` beyond the input and approximate ``seconds_per_evaluation``; a fit
            needs one to two evaluations per iteration.

        Notes
        -----
        Memory is the peak, usually within a factor of two; time is rough.  LMNN and χ²-LMNN take
        less memory if there are few impostors.
        """
        counts = y is not None and is_classifier(self)
        return self._cost(Data(shaped(X), classes=np.unique(np.asarray(y)) if counts else None))

    def _cost(self, data: Data) -> Cost:
        """The cost of a fit to rows that are not checked."""
        method = self._method(data)
        return make_plan(method, Config.of(self), self._size(data, method, data.X)).cost

    @property
    def _chooses_votes(self) -> bool:
        """Whether the fit chooses the number of voters."""
        return False

    def _size(self, data: Data, method: Method, given: MatrixLike) -> Size:
        """The size that determines the cost, from the rows as they were given."""
        size = size_of(data, method, is_auto(self.n_components))
        config = without_search(Config.of(self), method)
        return size._replace(
            converted=converted_bytes(given),
            chooses_votes=self._chooses_votes,
            searched_rows=ROWS if config.searches else 0,
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
