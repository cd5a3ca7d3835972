"""Accuracy on training rows beside that on held-out rows, at the end of a fit."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from vicinal.core.method import Method
from vicinal.core.problem import Problem
from vicinal.core.types import Array

__all__ = ["Accuracies", "compare"]

_QUERIES = 1000  # most rows of either kind
_PAIRS = 5e7  # about how many pairs of rows may be compared
_WIDE = 0.1  # the accuracies part widely if they differ by more than this ...
_ERRORS = 3.0  # ... and by more than this many standard errors


class Accuracies(NamedTuple):
    """Shares of rows classified rightly, and the numbers of rows they were measured on."""

    train: float
    held_out: float
    n_train: int
    n_held_out: int

    @property
    def part_widely(self) -> bool:
        """Whether the map suits the training rows far better than others."""
        gap = self.train - self.held_out
        error = np.hypot(_error(self.train, self.n_train), _error(self.held_out, self.n_held_out))
        return bool(gap > max(_WIDE, _ERRORS * error))

    def __str__(self) -> str:
        return (
            f"{100 * self.train:.1f} % of the training rows and {100 * self.held_out:.1f} % of the "
            "held-out rows are classified rightly"
        )


def compare(
    method: Method, problem: Problem, theta: Array, rule: str, searched: float | None = None
) -> Accuracies | None:
    """The accuracies of a map on rows it was learnt from and on others, against the same rows.

    Training rows that serve as queries are not among the references, so that a row is never its own
    neighbour.  If no rows were held out, the accuracy of a search on its folds, ``searched``, takes
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
    Z, target = problem.embed(theta), problem.target
    codes = target.strata
    assert codes is not None
    with warnings.catch_warnings(action="ignore"):  # of predictions that nobody asked for
        model = method.make_model(Z[references], target.take(references), problem.objective)

        def accuracy(queries: Array) -> float:
            best = model.probabilities(Z[queries], rule).argmax(axis=1)
            return float(np.mean(best == codes[queries]))

        train = accuracy(rows[chosen])
        if problem.held_out is None:
            assert searched is not None
            return Accuracies(train, searched, len(chosen), len(rows))
        return Accuracies(train, accuracy(held_out), len(chosen), len(held_out))


def _error(share: float, n: int) -> float:
    """Standard error of a share of n rows; not zero for a share of one."""
    share = (share * n + 1) / (n + 2)
    return float(np.sqrt(share * (1 - share) / n))
