"""What a fit leaves for a later one that continues it, and how that one knows that it may."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal._validation import check_seed
from vicinal.core.journal import Cut
from vicinal.core.method import Data
from vicinal.core.points import to_host
from vicinal.core.problem import Problem
from vicinal.core.state import FitState
from vicinal.core.types import Array
from vicinal.estimators._plan import Plan

__all__ = ["Resumable", "asked_of", "fingerprint", "generator", "schedule_length"]

#: parameters that affect only the length of a training run and its output
_IRRELEVANT = ("max_iter", "tol", "n_iter_no_change", "time_budget", "verbose")


class Resumable(NamedTuple):
    """What ``warm_start`` continues from: the state of the last run, its map and its scaling.

    Parameters
    ----------
    plan : Plan
    mapping : Map
    scale : array
        The scales of the columns.
    state : FitState or None
        The state of the run whose map was kept; None if the fit was cut before any run.
    asked : tuple or None
        The parameters of the estimator, as `asked_of` gives them.
    data : str or None
        The `fingerprint` of the training rows.
    rng : tuple or None
        The state of the random generator at the beginning of the fit.
    cut : Cut or None
        Where the fit was cut, if it was: the next one completes it.
    before : fitted map or None
        The map of the estimator before the fit.
    """

    plan: Plan
    mapping: Any
    scale: Array
    state: FitState | None
    asked: Any = None
    data: str | None = None
    rng: Any = None
    cut: Cut | None = None
    before: Any = None

    def fits(self, plan: Plan, mapping: Any, scale: Array) -> bool:
        """Whether a fit can continue the last run."""
        if self.state is None:
            return False
        # the remaining fields of a plan (length, cost) may differ
        alike = self.plan[:4] == plan[:4] and self.mapping == mapping
        return alike and np.array_equal(self.scale, scale) and self.steps_left(plan) > 0

    def steps_left(self, plan: Plan) -> int:
        """Iterations to run: those requested, or the rest of an interrupted schedule."""
        if plan.solver is not None:
            return plan.max_iter
        assert self.state is not None
        return schedule_length(self.state.part) - self.state.history["iteration"][-1]

    def at(self, problem: Problem, state: FitState | None, cut: Cut | None) -> Resumable:
        """The same fit after a run of this problem."""
        changes = {"mapping": problem.mapping, "scale": problem.X.scale}
        return self._replace(state=state, cut=cut, **changes)

    def completed_by(self, new: Resumable) -> bool:
        """Whether a new fit can complete this one: it was cut, and the rows are the same."""
        return self.cut is not None and self.plan[:4] == new.plan[:4] and self.data == new.data

    def cut_for(self, plan: Plan) -> Cut:
        """Where a fit by this plan goes on.

        If ``max_iter`` has changed, the run that was cut makes so many more iterations.
        """
        cut = self.cut
        assert cut is not None
        if cut.state is None or plan.solver is None or plan.max_iter == self.plan.max_iter:
            return cut
        return cut._replace(state=cut.state._replace(left=plan.max_iter))


def asked_of(parameters: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The parameters that the result of a fit depends on, except its length, as text."""
    return tuple(
        # the text of a generator is its address; its state at the beginning is kept apart
        (key, "RandomState" if isinstance(value, np.random.RandomState) else repr(value))
        for key, value in parameters.items()
        if key not in _IRRELEVANT
    )


def fingerprint(data: Data) -> str:
    """A checksum of the rows and their target.

    A target has its classes and weights, and ``contents``: arrays that are neither.
    """
    X, target = to_host(data.X), data.target
    parts = (
        (X.data, X.indices, X.indptr) if sp.issparse(X) else (X.T if X.flags.f_contiguous else X,)
    )
    weight = getattr(target, "sample_weight", None)
    found = 0
    for part in (*parts, target.strata, weight, *getattr(target, "contents", ())):
        if part is not None:
            found = zlib.crc32(np.ascontiguousarray(part).view(np.uint8).data, found)
    return f"{X.shape} {X.dtype} {found:08x}"


def generator(estimator: Any, past: Resumable | None) -> np.random.RandomState:
    """The random generator of a fit: where that of the resumed fit began, if there is one."""
    if past is not None and past.rng is not None:
        rng = np.random.RandomState()
        rng.set_state(past.rng)
        return rng
    rng = check_seed(estimator)
    if estimator.random_state is None:  # NumPy's own generator, from which others draw as well
        rng = np.random.RandomState(rng.randint(2**31 - 1))
    return rng


def schedule_length(solver: Any) -> int:
    """Number of steps in the schedule of a planned solver."""
    return int(solver.learning_rate.n_steps)
