"""The best of the runs from several starts; a fit that was cut goes on where it was."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from vicinal import _clock
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult
from vicinal.core.state import FitState
from vicinal.core.types import Array

__all__ = ["STOPPED", "Ended", "best_of_starts"]

#: reasons that end a fit before its time
STOPPED = ("callback", "interrupted", "time_budget")


class Ended(NamedTuple):
    """The result of a run without its problem: plain data, as `FitState` is."""

    theta: Array
    value: float
    n_iter: int
    converged: bool
    reason: str
    state: FitState
    rounds: dict[str, list]
    complaint: str | None

    @classmethod
    def of(cls, result: FitResult) -> Ended:
        """The result without its problem."""
        rounds = {name: list(entries) for name, entries in result.rounds.items()}
        return cls(
            result.theta,
            result.value,
            result.n_iter,
            result.converged,
            result.reason,
            result.state,
            rounds,
            result.complaint,
        )

    def result(self, problem: Problem) -> FitResult:
        """The result, with its problem."""
        return FitResult(*self[:5], self.state.history, self.state, problem, *self[6:])


class BestStart(NamedTuple):
    """The best run so far, its loss, and how many starts have been run."""

    n_done: int
    loss: float
    ended: Ended


def best_of_starts(learning: Any, problem: Problem) -> FitResult:
    """The result with the lowest loss."""
    n_starts = learning.method.n_starts
    record, reason, took = learning.record, None, 0.0  # took: seconds for a start
    if not learning.searching:
        learning.reports.expect(n_starts * learning.plan.max_iter)

    def one() -> FitResult:
        nonlocal took
        began = _clock.now()
        theta = record.step("start", partial(learning.start, problem))
        took = _clock.now() - began
        return learning.run(problem, theta)

    best: BestStart | None = record.take("best")
    result: FitResult | None = None  # that of the best, unless an earlier fit has found it
    for number in range(0 if best is None else best.n_done, n_starts):
        if best is not None and learning.is_late(took):
            reason = "time_budget"
            learning.journal.mark_cut(learning.journal.here())
            break
        try:
            new = record.step("one", one, keep=False)
        except KeyboardInterrupt:
            if best is None:
                raise
            reason = "interrupted"
            learning.journal.mark_cut(learning.journal.here())
            break
        reason = new.reason
        loss = learning.loss_of(new) if n_starts > 1 else new.value
        if best is None or loss < best.loss:
            best, result = BestStart(number + 1, loss, Ended.of(new)), new
        best = best._replace(n_done=number + 1)
        if reason in STOPPED:
            break
        if n_starts > 1:
            record.put("best", best)
    assert best is not None
    if result is None:
        result = learning.rebuilt(problem, best.ended)
    if reason in STOPPED:
        result.reason, result.converged = reason, False
    return result
