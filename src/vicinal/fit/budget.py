"""The time budget of a fit: what there is, and what the work after the last step will take.

A fit cannot end with its last step: batches need a correction of the scale, and every fit embeds
its rows and computes a final loss.  How long that takes is measured on a few rows before the first
step; the steps end so much earlier, and where there is little time the correction and the loss use
fewer rows, or the correction and the importances of features are left out.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vicinal import _clock
from vicinal.core.problem import Problem
from vicinal.core.types import Array

_PROBED = 64  # rows whose loss is timed
_CORRECTION, _FINAL = 0.15, 0.05  # shares of the budget that the two may take
_IMPORTANCES = 0.03  # share of the budget that is kept back for them
_DOUBLE = 3.0  # times as long as in float32 it takes to embed rows in float64
_MARGIN = 1.25  # predictions are rough
_EVALUATIONS = 13  # of the loss, for a correction of the scale to one per cent
_LEAST_EVALUATIONS = 5
_LEAST_ROWS = 100
_EMBEDDINGS = 3  # after the last step, besides those of the losses
_LEAST_EMBEDDINGS = 2 * _EMBEDDINGS  # with those that time a loss and a step


class Finish(NamedTuple):
    """Measured seconds: to embed all rows, and for the loss of one row against all others."""

    embed: float
    query: float

    def loss(self, rows: float) -> float:
        """Seconds for the loss of so many rows."""
        return self.embed + rows * self.query

    def rows_within(self, seconds: float) -> int:
        """How many rows' loss can be computed in that time."""
        return int(max(seconds - self.embed, 0.0) / max(self.query, 1e-9))


class Budget:
    """The time of one fit.

    Parameters
    ----------
    seconds : float or None
        ``time_budget``; None for no limit.
    began : float
        When the fit began, on the clock of ``_clock.now``.
    """

    def __init__(self, seconds: float | None, began: float) -> None:
        self.seconds, self.began = seconds, began
        #: what there was no time for, or not enough
        self.left_out: list[str] = []
        self._finish: Finish | None = None
        self._measured: Any = None

    def leave_out(self, what: str) -> None:
        """Note that something was left out, or not finished."""
        if what not in self.left_out:
            self.left_out.append(what)

    def deadline(self, share: float = 1.0) -> float | None:
        """When this share of the time is used up; None for no limit."""
        return None if self.seconds is None else self.began + share * self.seconds

    def measure(self, problem: Problem, theta: Array) -> None:
        """Time the loss of a few rows, unless that is known for problems of this size.

        If it is too late for any step, the loss counts as endless and is not timed.
        """
        size = (len(problem.rows), theta.size, problem.dtype)
        deadline = self.deadline()
        if deadline is None or self._measured == size:
            return
        self._finish, self._measured = Finish(0.0, math.inf), size
        began, compiled = _clock.now(), _clock.compiled_seconds()
        if began > deadline:
            return
        problem.embed(theta)
        embed = _clock.now() - began - (_clock.compiled_seconds() - compiled)
        self._finish = Finish(embed, math.inf)
        if _clock.now() + _LEAST_EMBEDDINGS * embed > deadline:
            return
        rows = problem.rows[:: max(1, len(problem.rows) // _PROBED)]
        problem.value(theta, rows[:2])  # compiles
        began = _clock.now()
        problem.value(theta, rows)
        loss = _clock.now() - began
        self._finish = Finish(embed, max(loss - embed, 0.0) / len(rows))

    def loss_seconds(self, rows: int) -> float | None:
        """Seconds for the loss of so many rows; None if that is not known."""
        return None if self._finish is None else self._finish.loss(rows)

    def passes_left(self) -> float:
        """How often all rows can be embedded in float64 before the deadline."""
        deadline = self.deadline()
        if deadline is None:
            return math.inf
        left = deadline - _clock.now()
        if self._finish is None or left <= 0.0:
            return math.inf if left > 0.0 else 0.0
        pass_seconds = self._finish.embed * (_DOUBLE if self._measured[2] == np.float32 else 1.0)
        return left / max(_MARGIN * pass_seconds, 1e-9)

    def correction(self, rows: int) -> tuple[int, int]:
        """Evaluations for a correction of the scale, and rows for each, of those wanted."""
        if self.seconds is None or self._finish is None:
            return _EVALUATIONS * 10, rows  # Brent's method stops by itself
        each = _CORRECTION * self.seconds / _EVALUATIONS
        affordable = self._finish.rows_within(each)
        if affordable >= _LEAST_ROWS:
            return _EVALUATIONS, min(rows, affordable)
        rows = min(rows, _LEAST_ROWS)
        count = int(_CORRECTION * self.seconds / max(self._finish.loss(rows), 1e-9))
        return int(np.clip(count, _LEAST_EVALUATIONS, _EVALUATIONS)), rows

    def loss_rows(self, rows: int) -> int:
        """For how many rows, of those wanted, there is time to compute a loss."""
        if self.seconds is None or self._finish is None:
            return rows
        affordable = self._finish.rows_within(_FINAL * self.seconds)
        return min(rows, max(affordable, _LEAST_ROWS))

    def reserve(
        self, correction_rows: int, loss_rows: int, losses: int = 1, importances: bool = False
    ) -> float:
        """Seconds to keep back for the work after the last step.

        Parameters
        ----------
        correction_rows : int
            Rows wanted for a correction of the scale; 0 if there is none.
        loss_rows : int
            Rows wanted for the final loss.
        losses : int, default=1
            How many such losses are computed.
        importances : bool, default=False
            Whether rows are embedded for the importances of features.
        """
        if self.seconds is None or self._finish is None:
            return 0.0
        finish, needed = self._finish, _EMBEDDINGS * self._finish.embed
        if correction_rows:
            count, rows = self.correction(correction_rows)
            needed += (count + 1) * finish.loss(rows)
        needed += losses * finish.loss(self.loss_rows(loss_rows))
        needed += importances * _IMPORTANCES * self.seconds
        return _MARGIN * needed
