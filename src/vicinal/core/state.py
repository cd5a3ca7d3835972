"""The state of a training run, from which warm starts, checkpoints and model files resume.

A :class:`FitState` is plain data, which `storage.codec` writes without pickle.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vicinal.core import checks
from vicinal.core.types import Array, Sampling


class Best(NamedTuple):
    """The best parameters of a run so far: highest score, or lowest loss if there are no scores."""

    theta: Array
    value: float
    score: float = -np.inf


class Window(NamedTuple):
    """What the stop rules of a loop compare the newest iteration with.

    Parameters
    ----------
    first : float
        The loss at the start of the loop.
    since : int
        Number of rows of the history before the first step of the loop.
    top_score, top_iteration : float, int
        The best score so far, and when it was reached.
    scored : bool
        Whether the newest iteration was scored, other than because it was the last.
    map_size : float
        The largest entry of the map, in which gradients are measured.
    """

    first: float
    since: int
    top_score: float
    top_iteration: int
    scored: bool
    map_size: float


class Round(NamedTuple):
    """Where a run stands between two refreshes.

    The problem of the round is not stored: it is made again from what is stored here.

    Parameters
    ----------
    theta : array
        The parameters at the refresh that began the round.
    iteration : int
        The number of the last iteration before it.
    memory : dict
        The memory of the `Refresh` before it.
    fresh : float or None
        The loss right after it, if losses can be compared.
    top, top_score : array or None, float
        The best parameters of all rounds before, by their held-out score.
    stale : int
        Iterations without a better score.
    """

    theta: Array
    iteration: int
    memory: dict[str, Any]
    fresh: float | None
    top: Array | None
    top_score: float
    stale: int


class FitState(NamedTuple):
    """The state of a run after any iteration.

    Parameters
    ----------
    stage : int
        Number of the current stage.
    part : Solver
        The solver of that stage, with its learning rate.
    solver : NamedTuple
        The state of the solver; its ``theta`` are the current parameters.
    sampling : Sampling or None
        The position in the sequence of batches.
    best : Best
        The best parameters so far.
    history : dict of lists
        One row for each iteration.
    window : Window
        What the stop rules compare with.
    round : Round or None
        The position between two refreshes, in a stage that has a `Refresh`.
    left : int or None
        Number of iterations that the run may still make.
    """

    stage: int
    part: Any
    solver: Any
    sampling: Sampling | None
    best: Best
    history: dict[str, list]
    window: Window
    round: Round | None = None
    left: int | None = None

    def check_fields(self) -> None:
        """Refuse parameters of different lengths."""
        thetas = [self.solver.theta, self.best.theta]
        if self.round is not None:
            thetas += [self.round.theta] + ([] if self.round.top is None else [self.round.top])
        for theta in thetas:
            checks.double(theta, 1, "theta", (len(self.solver.theta),), finite=False)
