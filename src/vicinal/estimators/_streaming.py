"""``partial_fit``: the checks of a batch, the first batch, and what is stored after each."""

from __future__ import annotations

from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from vicinal._callback_support import IterationReporter
from vicinal._features import unscaled
from vicinal._threads import single_threaded_blas
from vicinal._validation import (
    check_declared_classes,
    check_label_types,
    check_seed,
    check_weights,
)
from vicinal.core.types import Array
from vicinal.estimators._auto import forget_search
from vicinal.estimators._learning import Learning
from vicinal.estimators._online import AtStep, begin, check_settled

__all__ = ["StreamMixin"]


class StreamMixin:
    """Learning from a stream, for the estimators of `NeighbourMetric`."""

    #: parameters of the method that the first batch settles, beside those that all have
    _settled: ClassVar[tuple[str, ...]] = ()
    #: whether the objective takes weights of rows
    _weighs: ClassVar[bool] = True
    verbose: int
    components_: Array
    rounds_: dict[str, list]
    _memory: Any
    _check_parameters: Any
    _forget: Any
    _parts: Any
    _problem: Any
    _store: Any
    _targets: Any

    def _needs_all_rows(self) -> list[tuple[str, bool, str]]:
        """Parameters of the method that a stream may not be able to honour.

        Each with whether it can, and why not.
        """
        return []

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any = None) -> Any:
        """Go on with a stream, or begin one with the first batch."""
        self._check_parameters()
        check_settled(self)
        first = not hasattr(self, "_stream")
        X, codes, weight = self._check_batch(X, y, classes, sample_weight, first)
        with single_threaded_blas():
            if first:
                self._begin_stream(X, codes, weight)
            stream = self._stream
            steps = []
            for at in stream.learn(X, codes, weight):
                steps.append(at)
                if self.verbose:
                    told = f"{at.iteration:5d} {at.loss:14.8f} {at.grad_norm:10.2e}"
                    print(f"[{type(self).__name__}] {told} {at.seconds:9.2f}s")
            self.history_ = dict(
                zip(AtStep._fields, map(list, zip(*steps, strict=True)), strict=True)
            )
            self.n_iter_, self.objective_ = stream.n_steps, steps[-1].loss
            self.n_samples_seen_ += len(codes)
            self._forget()
            # the posterior and the votes are those of the rows that are remembered
            memory = stream.remembered()
            self._store(memory.X.X, memory, stream.theta)
        return self

    def _check_batch(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, first: bool
    ) -> tuple[Any, Array, Array]:
        check_label_types(y)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], reset=first
        )
        self.classes_ = check_declared_classes(self, classes, y, first)
        weight = check_weights(sample_weight, len(y))
        weight = np.ones(len(y)) if weight is None else weight
        seen = weight > 0
        return X[seen], np.searchsorted(self.classes_, y[seen]), weight[seen]

    def _begin_stream(self, X: Any, codes: Array, weight: Array) -> None:
        rng = check_seed(self)
        parts = self._parts(X.shape[0], X.shape[1], sp.issparse(X))
        labels = self._targets(codes, weight if self._weighs else None)
        if len(np.unique(codes)) < 2:
            raise ValueError(
                f"The first batch of {type(self).__name__}.partial_fit must hold rows of at least "
                f"2 classes, to start from. Got {self.classes_[np.unique(codes)].tolist()!r} alone."
            )
        forget_search(self)
        problem = self._problem(X, labels, parts, rng)
        learning = Learning(self, rng, IterationReporter(self, max_iter=None), perf_counter())
        shape = (parts.d, X.shape[1])
        theta = None
        if getattr(self, "components_", np.empty(0)).shape == shape:  # of a fit before
            theta = problem.mapping.theta(unscaled(self.components_, problem.X.scale))
        if theta is None or not theta.any():
            theta = learning.start(problem, parts)
        self.rounds_, self._memory = {}, None
        # later batches find more rows remembered: what holds for the size of this one ends here
        problem = problem.replace(options={})
        self._stream = begin(self, parts.plan, problem, theta, rng)
        self.plan_, self.n_samples_seen_ = self._stream.plan, 0
        if self.verbose:
            print(f"[{type(self).__name__}] {self.plan_}")
