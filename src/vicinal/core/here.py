"""Where a running training stands, for those who watch it."""

from __future__ import annotations

from typing import Any

from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.state import Best, FitState

__all__ = ["Here"]


class Here:
    """A training after an iteration: its state, and what it would return if it stopped now.

    Parameters
    ----------
    training : training
        The run; see ``stages.py``.
    info : Iteration
        Its newest iteration.
    """

    def __init__(self, training: Any, info: Iteration) -> None:
        self._training, self._info = training, info
        self._best = info.best if info.best is not None else Best(info.theta, info.loss)

    def __call__(self) -> FitState:
        """The state from which the training can be resumed."""
        info = self._info
        history = {key: list(entries) for key, entries in info.history.items()}
        memory = info.window, self._best
        return self._training.state(info.state, info.sampling, memory, history, pending=True)

    @property
    def scorer(self) -> Problem:
        """The problem over all pairs, in float64."""
        return self._training.scorer

    def best(self) -> Best:
        """The parameters that the training would return."""
        training, info, best = self._training, self._info, self._best
        if training.stage.problem.held_out is None:
            return best
        if info.window is not None and not info.window.scored:  # the last iteration is scored
            scorer = self.scorer.replace(dtype=training.problem.dtype)
            score = scorer.validation_score(info.theta)
            best = Best(info.theta, info.loss, score) if score > best.score else best
        rounds = training.round
        if rounds is None or rounds.top is None or training.score(best.theta) > rounds.top_score:
            return best
        return best._replace(theta=rounds.top)
