"""The score on training rows beside that on held-out rows, at the end of a fit."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.fit.method import Method
from vicinal.fit.score import scores_of

_QUERIES = 1000  # most rows of either kind
_PAIRS = 5e7  # about how many pairs of rows may be compared
_WIDE = 0.1  # the scores part widely if they differ by more than this ...
_ERRORS = 3.0  # ... and by more than this many standard errors


class Scores(NamedTuple):
    """Mean scores of two kinds of rows, their standard errors, and what the score is called."""

    train: float
    held_out: float
    train_error: float
    held_out_error: float
    name: str = "accuracy"

    @property
    def part_widely(self) -> bool:
        """Whether the map suits the training rows far better than others."""
        gap = self.train - self.held_out
        error = np.hypot(self.train_error, self.held_out_error)
        return bool(gap > max(_WIDE, _ERRORS * error))

    def __str__(self) -> str:
        if self.name != "accuracy":
            return (
                f"{self.name} is {self.train:.3f} on the training rows and {self.held_out:.3f} on "
                "the held-out rows"
            )
        return (
            f"{100 * self.train:.1f} % of the training rows and {100 * self.held_out:.1f} % of the "
            "held-out rows are classified rightly"
        )


def compare(
    method: Method, problem: Problem, theta: Array, rule: str, searched: float | None = None
) -> Scores | None:
    """The scores of a map on rows it was learnt from and on others, against the same rows.

    Training rows that serve as queries are not among the references, so that a row is never its own
    neighbour.  If no rows were held out, the score of a search on its folds, ``searched``, takes
    their place; None without either.
    """
    if problem.held_out is None and searched is None:
        return None
    rng = np.random.RandomState(0)
    rows = problem.rows
    most = int(np.clip(_PAIRS / 2 / len(rows), 100, _QUERIES))
    held_out = rng.permutation([] if problem.held_out is None else problem.held_out)[:most]
    n_queries = min(len(held_out) or most, len(rows) // 4)
    chosen = rng.permutation(len(rows))[: max(1, n_queries)]
    references = np.delete(rows, chosen)
    name = problem.target.score_name

    def mean_score(queries: Array) -> tuple[float, float]:
        scores = scores_of(method, problem, theta, queries, references, rule)
        return float(np.mean(scores)), _error(scores)

    with warnings.catch_warnings(action="ignore"):  # of predictions that nobody asked for
        train, train_error = mean_score(rows[chosen])
        if problem.held_out is None:
            assert searched is not None
            return Scores(train, searched, train_error, train_error, name)
        other, other_error = mean_score(held_out)
        return Scores(train, other, train_error, other_error, name)


def _error(scores: Array) -> float:
    """Standard error of a mean; one right and one wrong row are added, so that it is not zero."""
    n, total = len(scores), float(np.sum(scores))
    mean = (total + 1) / (n + 2)
    squares = float(np.sum((scores - mean) ** 2)) + (1 - mean) ** 2 + mean**2
    return float(np.sqrt(squares / (n + 2) / n))
