"""Convergence of a fit, and how the scores of training and held-out rows part."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import History
from vicinal.reporting.scores import SHARE, figure, knn_scores, mean_and_error
from vicinal.reporting.spaces import Space

_QUERIES = 1000  # most rows of either kind that are scored after an iteration
_REFERENCES = 5000  # most training rows that they are compared with
_WIDE, _ERRORS = 0.05, 2.0  # scores part if they differ by more than this and this many errors


class Parting(NamedTuple):
    """Scores of rows that were learnt from and of others, after some iterations: with errors."""

    name: str
    iterations: list[int]
    train: list[tuple[float, float]]
    held_out: list[tuple[float, float]]

    @property
    def wide(self) -> bool:
        """Whether the map suits the training rows better than others, beyond chance."""
        (own, own_error), (other, other_error) = self.train[-1], self.held_out[-1]
        return own - other > max(_WIDE, _ERRORS * math.hypot(own_error, other_error))

    def sentences(self) -> list[str]:
        """What the two scores say, in words."""
        own, other = self.train[-1][0], self.held_out[-1][0]
        told = [
            "Some training rows are set apart as voters, and the 5 nearest of them predict other "
            f"rows. At the end their {self.name} is {figure(own, self.name)} for training rows and "
            f"{figure(other, self.name)} for held-out rows."
        ]
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
                f"({figure(top, self.name)}); early_stopping=True would have stopped near it."
            )
        return told


def parting_of(
    spaces: list[tuple[int, Space]], train: Array, test: Array, y: Array | None
) -> Parting | None:
    """The scores after some iterations; None without labels, held-out rows, or rows to compare."""
    if y is None or len(test) == 0 or len(train) < 8:
        return None
    rng = np.random.RandomState(0)
    most = max(1, min(_QUERIES, len(train) // 4, len(test)))
    train = rng.permutation(train)
    # Rows that are scored are not among the references, so that both kinds meet the same rows.
    references = np.sort(train[most:][:_REFERENCES])
    name, extremes = ("5-NN R²", ()) if y.dtype.kind == "f" else ("5-NN accuracy", SHARE)
    own, others = (
        [mean_and_error(knn_scores(space, references, rows, y), extremes) for _, space in spaces]
        for rows in (np.sort(train[:most]), np.sort(rng.permutation(test)[:_QUERIES]))
    )
    return Parting(name, [iteration for iteration, _ in spaces], own, others)


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
    after = f"after {n:,} {'iteration' if n == 1 else 'iterations'}"
    cut = any("did not converge" in message for message in messages)
    how = f"was cut {after}, before it converged" if cut else f"ended {after}"
    return f"The fit {how}; the loss fell from {loss[0]:.4g} to {min(loss):.4g}."
