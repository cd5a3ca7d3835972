"""Convergence of a fit, and how the scores of training and held-out rows part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import History
from vicinal.reporting.scores import SHARE, knn_scores, mean_and_error
from vicinal.reporting.spaces import Space

_QUERIES = 1000  # most rows of either kind that are scored after an iteration
_REFERENCES = 5000  # most training rows that they are compared with
_WIDE, _ERRORS = 0.05, 2.0  # scores part if they differ by more than this and so many errors


class Parting:
    """Scores of rows that were learnt from and of others, after some iterations."""

    def __init__(self, train: Array, test: Array, y: Array, name: str) -> None:
        rng = np.random.RandomState(0)
        most = max(1, min(_QUERIES, len(train) // 4, max(len(test), 1)))
        train = rng.permutation(train)
        self.name, self._y = name, y
        self._own, self._test = np.sort(train[:most]), np.sort(rng.permutation(test)[:_QUERIES])
        # Rows that are scored are not among the references, so that both kinds meet the same rows.
        self._references = np.sort(train[most:][:_REFERENCES])
        self.iterations: list[int] = []
        self.train: list[tuple[float, float]] = []
        self.held_out: list[tuple[float, float]] = []

    def add(self, iteration: int, space: Space) -> None:
        """Score the points after an iteration."""
        self.iterations.append(iteration)
        extremes = SHARE if self.name == "accuracy" else ()
        for queries, scores in ((self._own, self.train), (self._test, self.held_out)):
            found = knn_scores(space, self._references, queries, self._y)
            scores.append(mean_and_error(found, extremes))

    @property
    def wide(self) -> bool:
        """Whether the map suits the training rows better than others, beyond chance."""
        if not self.iterations:
            return False
        (own, own_error), (other, other_error) = self.train[-1], self.held_out[-1]
        return own - other > max(_WIDE, _ERRORS * math.hypot(own_error, other_error))

    def sentences(self) -> list[str]:
        """What the two scores say, in words."""
        if not self.iterations:
            return []
        own, other = self.train[-1][0], self.held_out[-1][0]
        figures = f"{_figure(own, self.name)} on training rows, {_figure(other, self.name)} on "
        told = [f"At the end the {self.name} is {figures}held-out rows, against the same rows."]
        if self.wide:
            told.append(
                "The map over-fits: it suits the rows that it was learnt from better than others. "
                "More rows, fewer dimensions or a larger penalty (alpha) may help."
            )
        best = int(np.argmax([mean for mean, _ in self.held_out]))
        (top, error), (last, other) = self.held_out[best], self.held_out[-1]
        if top - last > max(0.01, _ERRORS * math.hypot(error, other)):
            told.append(
                f"The held-out rows were predicted best after iteration {self.iterations[best]} "
                f"({_figure(top, self.name)}); early_stopping=True would have stopped near it."
            )
        return told


def parting_of(
    frames: list[tuple[int, Space]], train: Array, test: Array, y: Array | None, name: str
) -> Parting | None:
    """The scores after each frame; None without labels, held-out rows, or rows to compare with."""
    if y is None or len(test) == 0 or len(train) < 8:
        return None
    parting = Parting(train, test, y, name)
    for iteration, space in frames:
        parting.add(iteration, space)
    return parting


def history_of(learner: Any, parting: Parting | None, messages: list[str]) -> History | None:
    """The history of a fit, which gave these warnings; None if the method does not iterate."""
    history = getattr(learner, "history_", None)
    if not history or not history.get("loss"):
        return None
    iteration = [int(i) for i in history["iteration"]]
    loss = [float(value) for value in history["loss"]]
    scores = history.get("validation_score") or []
    held_out = [None if s is None or math.isnan(s) else -float(s) for s in scores]
    sentences = [_ending(learner, iteration, loss, messages)]
    told: dict[str, Any] = {}
    if parting is not None:
        sentences += parting.sentences()
        told = {
            "score_name": parting.name,
            "score_iteration": parting.iterations,
            "train_score": [mean for mean, _ in parting.train],
            "held_out_score": [mean for mean, _ in parting.held_out],
        }
    any_held_out = any(value is not None for value in held_out)
    return History(iteration, loss, held_out if any_held_out else [], sentences, **told)


def _ending(learner: Any, iteration: list[int], loss: list[float], messages: list[str]) -> str:
    n = int(getattr(learner, "n_iter_", iteration[-1]))
    times = "iteration" if n == 1 else "iterations"
    cut = any("did not converge" in message for message in messages)
    ended = f"The fit was cut after {n:,} {times}, before it converged" if cut else ""
    fell = f"the loss fell from {loss[0]:.4g} to {min(loss):.4g}"
    return f"{ended or f'The fit ended after {n:,} {times}'}; {fell}."


def _figure(score: float, name: str) -> str:
    return f"{score:.3f}" if name == "R²" else f"{100 * score:.1f} %"
