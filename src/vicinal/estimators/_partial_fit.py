"""``partial_fit``: the checks of a batch, the first batch, and the attributes set after each."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from vicinal import _clock, maps, starts
from vicinal._features import Features
from vicinal._threads import single_threaded_blas
from vicinal._validation import (
    check_declared_classes,
    check_label_types,
    check_rows,
    check_weights,
    scaled_weights,
)
from vicinal.core.points import to_host
from vicinal.core.types import Array, is_auto
from vicinal.estimators._labelled import LabelledLearner
from vicinal.estimators._neighbours import RowNumbers
from vicinal.fit.budget import Budget
from vicinal.fit.context import FitContext
from vicinal.fit.importances import importances_of
from vicinal.fit.method import Config, Data, Method
from vicinal.fit.plan import make_plan
from vicinal.fit.problem import last_theta, make_problem, size_of
from vicinal.fit.report import Reports, heading, line_of
from vicinal.fit.resume import seed_of, unchanged_on_error
from vicinal.fit.run import first_theta
from vicinal.fit.stream import Stream, StreamStep, begin_stream, check_settled, first_run
from vicinal.maps.fitted import FittedLinear, FittedMap

__all__ = ["StreamLearner"]

_PASSES = 0.5  # the importances of features may embed so many times the remembered rows


class StreamLearner(LabelledLearner):
    """A `LabelledLearner` that can learn from a stream; not public."""

    #: parameters of the method that must not change after the first batch
    _settled: ClassVar[tuple[str, ...]] = ()
    #: whether the objective accepts sample weights
    _takes_weights: ClassVar[bool] = True
    _stream: Stream
    n_samples_seen_: int

    def _needs_all_rows(self) -> list[tuple[str, bool, str]]:
        """Parameters of the method that may need all rows.

        Each as its name, whether a stream supports its value, and why not.
        """
        return []

    @unchanged_on_error
    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any = None) -> Any:
        """Continue a stream, or begin one with the first batch."""
        self._check_parameters()
        check_settled(self)
        first = not hasattr(self, "_stream")
        X, codes, weight = self._check_batch(X, y, classes, sample_weight, first)
        weighs = scaled_weights(weight) if self._takes_weights else None
        target = self._target(codes, weighs, len(self.classes_))
        data = Data(X, target, self.classes_)
        with nullcontext() if first else warnings.catch_warnings(action="ignore"):  # warn once
            method = self._method(data)
        reports = Reports(method.name, self.verbose)
        with single_threaded_blas(), reports.watching_compilation():
            if first:
                self._begin_stream(data, method, reports)
            stream = self._stream = self._stream.copy()  # if a step fails, none was made
            steps: list[StreamStep] = []
            reports.say(heading())
            for step in stream.learn(method, X, codes, weight):
                steps.append(step)
                reports.say(line_of(step))
            self.history_ = dict(
                zip(StreamStep._fields, map(list, zip(*steps, strict=True)), strict=True)
            )
            self.n_iter_, self.objective_ = stream.n_steps, steps[-1].loss
            self.n_samples_seen_ += len(codes)
            # posterior and votes use the rows in the reservoir
            remembered = stream.remembered(method)
            self._rows = RowNumbers(stream.reservoir.numbers, self.n_samples_seen_)
            self._store(remembered.X.X, method, remembered, stream.theta)
            if not isinstance(self._map, FittedLinear):
                self._importances = importances_of(remembered, stream.theta, _PASSES)
        return self

    def _check_batch(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, first: bool
    ) -> tuple[Any, Array, Array]:
        check_label_types(y)
        X, y = check_rows(self, to_host(X), y, reset=first)
        self.classes_ = check_declared_classes(self, classes, y, first)
        weight = check_weights(sample_weight, len(y), scaled=False)  # also against other batches
        weight = np.ones(len(y)) if weight is None else weight
        seen = weight > 0
        return X[seen], np.searchsorted(self.classes_, y[seen]), weight[seen]

    def _begin_stream(self, data: Data, method: Method, reports: Reports) -> None:
        config, seed = Config.of(self), seed_of(self)
        plan = make_plan(method, config, size_of(data, method))
        present = np.unique(data.target.codes)
        if len(present) < 2:
            raise ValueError(
                f"The first batch of {method.name}.partial_fit must hold rows of at least "
                f"2 classes. Got {self.classes_[present].tolist()!r} alone."
            )
        self._forget("cv_results_", "_choice")
        problem = make_problem(method, config, data, plan, seed)
        if is_auto(config.alpha):  # a search needs all rows
            alpha = getattr(self, "alpha_", problem.alpha)  # as an earlier fit has chosen it
            problem = problem.replace(alpha=alpha)
        # an array is used as given, and a map that bends would learn the few rows by heart
        if not isinstance(starts.resolve(self.init, method.name), starts.Given):
            if not maps.bends(method.mapping):
                method = replace(method, coarse=first_run)
        context = FitContext(method, config, plan, seed, reports, Budget(None, _clock.now()))
        last = getattr(self, "_map", None)  # of an earlier fit
        theta = last_theta(last, problem)
        if theta is not None and isinstance(last, FittedMap):
            # parameters of a nonlinear map cannot be adapted to other units of the columns
            problem = problem.replace(X=Features.scaled_as(last.features, data.X))
        if theta is None:
            theta = first_theta(context, problem)
        self.rounds_, self._resume = {}, None
        self._stream = begin_stream(self, plan, problem, theta, seed)
        if is_auto(config.alpha):
            plan, told = self._stream.plan, f"alpha={problem.alpha:g}, as a search needs all rows"
            self._stream.plan = plan._replace(reason=f"{plan.reason}; {told}")
        self.plan_, self.n_samples_seen_ = self._stream.plan, 0
        reports.say(str(self.plan_))
