"""What is measured on a learnt map: scores of other rows, over-fitting, importances of features."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal._features import Features
from vicinal._threads import single_threaded_blas
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.stopping import TimeUp
from vicinal.core.types import Array, is_auto
from vicinal.fit.method import Method

_QUERIES = 1000  # most rows of either kind
_PAIRS = 5e7  # about how many pairs of rows may be compared
_WIDE = 0.1  # the scores part widely if they differ by more than this ...
_ERRORS = 3.0  # ... and by more than this many standard errors
_ROWS = 1000  # most rows whose entries are exchanged
_SECONDS = 0.1  # of one thread: so much may be spent on any fit
_PRODUCT = 0.5  # nanoseconds for each parameter of a map that does not state its cost
_ENTRIES = 2**22  # entries of the rows that are embedded at a time
_LEAST_LOG = math.log(0.01)
_EXCHANGED = 10_000  # entries that are exchanged for the importances of several maps


def scores_of(
    method: Method, problem: Problem, theta: Array, queries: Array, references: Array, rule: str
) -> Array:
    """The score of each query, predicted from the references alone; higher is better."""
    Z, target = problem.embed(theta), problem.target
    model = method.make_model(Z[references], target.take(references), problem.objective)
    return model.scores(Z[queries], target.between(queries, references), rule)


def log_probabilities_of(
    method: Method, problem: Problem, theta: Array, queries: Array, references: Array
) -> Array:
    """The log-probability of each query's class by the references, and whether it is the largest.

    No row counts as less probable than one in a hundred, so that a few cannot decide.
    """
    Z, target = problem.embed(theta), problem.target
    model: Any = method.make_model(Z[references], target.take(references), problem.objective)
    asked: Any = target.take(queries)
    found = model.log_probabilities(Z[queries], "posterior")
    right = found[np.arange(len(queries)), asked.codes]
    return np.stack([np.maximum(right, _LEAST_LOG), found.argmax(axis=1) == asked.codes])


def warn_overfit(method: Method, scores: Scores, parameters: dict[str, Any]) -> None:
    """Warn if the map suits the training rows far better than the held-out rows."""
    if not scores.part_widely:
        return
    advice = ["decrease 'n_components'"]
    if not is_auto(parameters.get("alpha", "auto")):
        advice.insert(0, "increase 'alpha'")
    warn(f"{method.name} over-fits: {scores}. To mend it, {' or '.join(advice)}.")


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


def exchange_importances(mapping: Any, theta: Array, rows: Array) -> Array:
    r"""How far embedded rows move if a single entry is exchanged, for each column.

    .. math::
        I_j = \frac{\sum_i \|\varphi(x_i) - \varphi(x_i + (x_{i'j} - x_{ij})\, e_j)\|^2}
                   {\sum_i (x_{i'j} - x_{ij})^2}

    where i' is the row after i.  For a linear map this is :math:`\sum_k A_{kj}^2`, exactly.

    Parameters
    ----------
    mapping : Map
    theta : array
        Its parameters.
    rows : array of shape (n, D)
        Scaled rows, in random order.

    Returns
    -------
    importances : array of shape (D,)
        Zero for a column that is constant in these rows.
    """
    n, D = rows.shape
    change = np.roll(rows, -1, axis=0) - rows
    moved, size = np.zeros(D), np.einsum("ij,ij->j", change, change)
    Z = mapping.forward(theta, Features.as_they_are(rows), np.float64)[0]
    # entries that an exchange does not change, as most of a sparse table, move nothing
    i, j = np.nonzero(change)
    step = max(1, _ENTRIES // D)
    for first in range(0, len(i), step):
        which, column = i[first : first + step], j[first : first + step]
        exchanged = rows[which]
        exchanged[np.arange(len(which)), column] += change[which, column]
        there = mapping.forward(theta, Features.as_they_are(exchanged), np.float64)[0]
        there -= Z[which]
        moved += np.bincount(column, np.einsum("ij,ij->i", there, there), D)
    return np.divide(moved, size, out=np.zeros(D), where=size > 0)


def importances_of(problem: Problem, theta: Array, passes: float, most: float = math.inf) -> Array:
    """The share of each feature in a learnt map, from a sample of the training rows.

    Parameters
    ----------
    problem : Problem
    theta : array
    passes : float
        How often as many rows may be embedded as there are training rows.  Where that takes less
        than a tenth of a second, so much time is spent.
    most : float, default=inf
        The same as a limit: where it is reached, fewer rows are exchanged.

    Raises
    ------
    TimeUp
        If ``most`` does not suffice for two rows.
    """
    rows, D = problem.rows, problem.X.shape[1]
    stated = problem.mapping.cost
    nanoseconds = _PRODUCT * theta.size if stated is None else stated(D, 8).nanoseconds
    n = int(max(passes * len(rows), 1e9 * _SECONDS / nanoseconds) / D)
    n = min(max(n, 2), _ROWS, len(rows))
    if most * len(problem.X) < n * D:
        n = int(most * len(problem.X) / D)
    if n < 2:
        raise TimeUp
    rows = np.random.RandomState(0).permutation(rows)[:n]  # the same for the same fit
    some = problem.X.take(rows)
    dense = np.concatenate([block for _, block in some.blocks()])
    with single_threaded_blas():
        found = exchange_importances(problem.mapping, theta, dense)
    return found / (found.sum() or 1.0)


class _AsMap:
    """A fitted map as a map of scaled rows, for `exchange_importances`."""

    def __init__(self, fitted: Any, shift: Array, scale: Array) -> None:
        self.fitted, self.shift, self.scale = fitted, shift, scale

    def forward(self, theta: Array, X: Any, dtype: Any) -> tuple[Array, None]:
        """Embed scaled rows."""
        return self.fitted.transform(X.X * self.scale + self.shift), None


def fitted_importances(fitted: Any, X: Any, seed: int) -> Array:
    """The share of each feature in any fitted map, from a sample of rows in the original columns.

    As in `importances_of`, features are measured in their deviations.
    """
    n = int(np.clip(_EXCHANGED // X.shape[1], 2, min(_ROWS, X.shape[0])))
    rows = rng_for(seed, "importances").permutation(X.shape[0])[:n]
    some = X[rows].toarray() if sp.issparse(X) else np.asarray(X[rows], dtype=np.float64)
    shift, scale = some.mean(axis=0), some.std(axis=0)
    scale[scale == 0.0] = 1.0
    found = exchange_importances(_AsMap(fitted, shift, scale), shift, (some - shift) / scale)
    return found / (found.sum() or 1.0)
