"""Points with labels, target neighbours and candidate lists; plain sums over the lists."""

from __future__ import annotations

import formulas
import numpy as np
import pytest

from vicinal.core.types import Pairs
from vicinal.objectives import lmnn
from vicinal.targets import TargetNeighbors

VOTES = ["majority", "all"]
OBJECTIVES = ["log", "accuracy"]
DISTANCES = ["squared", "chi2"]
each_vote = pytest.mark.parametrize("vote", VOTES)
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)
each_distance = pytest.mark.parametrize("distance", DISTANCES)
#: parameters of LMNN, different from each other and from the defaults
WEIGHTS = {"mu": 0.3, "margin": 2.5}


def points(rng, n, d, n_classes, scale=1.0):
    """Overlapping classes, rows in random order."""
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return scale * (rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n_classes, d))[y]), y


def histograms(rng, n, d, n_classes, scale=1.0):
    """Non-negative rows of overlapping classes; a fifth of the entries are zero."""
    Z, y = points(rng, n, d, n_classes)
    return scale * np.exp(0.5 * Z) * (rng.uniform(size=Z.shape) > 0.2), y


def separate(rng, n, n_classes, gap):
    """Classes on a line, `gap` apart, each about one unit wide: a map late in training."""
    y = np.arange(n) % n_classes
    Z = 0.4 * rng.standard_normal((n, 2))
    Z[:, 0] += gap * y
    return Z, y


def lattice(rng, scale, n_classes=3):
    """Points with near-ties at any scale, so that the gradient never vanishes."""
    grid = np.array([[i, j] for i in range(4) for j in range(4)], dtype=float)
    y = {
        2: np.array([0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0]),
        3: np.array([0, 1, 2, 0, 0, 2, 1, 1, 0, 1, 0, 2, 1, 0, 2, 0]),
    }[n_classes]
    return scale * grid + 0.3 * min(scale, 1 / scale) * rng.standard_normal(grid.shape), y


# Target neighbours


def some_targets(rng, y, k, missing=0.1):
    """Random members of the class, so that impostors exist at every scale; some are missing."""
    J = np.full((len(y), k), -1)
    for i in range(len(y)):
        others = np.setdiff1d(np.flatnonzero(y == y[i]), [i])
        own = rng.permutation(others)[:k]
        J[i, : len(own)] = own
    J[rng.uniform(size=J.shape) < missing] = -1
    return J


def cloud(rng, n, d, n_classes, distance, k=3, scale=1.0, dtype=np.float64):
    """Points and their target neighbours."""
    make = points if distance == "squared" else histograms
    Z, y = make(rng, n, d, n_classes, scale)
    return Z.astype(dtype), TargetNeighbors(y, some_targets(rng, y, k))


def distances(Z, distance):
    """Distances of all pairs."""
    Z = np.asarray(Z, dtype=np.float64)
    difference = Z[:, None] - Z
    if distance == "squared":
        return (difference**2).sum(axis=2)
    total = Z[:, None] + Z
    return 0.5 * np.sum(difference**2 / np.where(total > 0, total, 1.0), axis=2)


def brackets(Z, targets, margin, distance):
    """``margin + D(i, j) - D(i, l)`` of every triple."""
    D, y = distances(Z, distance), targets.codes
    triples = []
    for i, row in enumerate(targets.neighbors):
        for j in row[row >= 0]:
            triples.append(margin + D[i, j] - D[i, y != y[i]])
    return np.concatenate(triples)


def away_from_kinks(rng, distance, scale):
    """Points with some positive brackets, and with no bracket close to zero."""
    for _ in range(200):
        Z, targets = cloud(rng, 12, 3, 3, distance, k=2, scale=scale)
        if distance == "chi2":
            Z += 0.1 * scale  # the derivative at zero is one-sided
        inside = brackets(Z, targets, WEIGHTS["margin"], distance)
        unit = scale**2 if distance == "squared" else scale
        if np.abs(inside).min() > 1e-4 * unit and 0.2 < np.mean(inside > 0):
            return Z, targets
    raise AssertionError("kinks everywhere")


def evaluate(Z, targets, distance="squared", **settings):
    """LMNN with the parameters ``WEIGHTS``, unless given."""
    return lmnn(Z, targets, distance=distance, **{**WEIGHTS, **settings})


def plain(Z, targets, distance="squared", **settings):
    """The same by the loops of `formulas`."""
    settings = {**WEIGHTS, **settings}
    return formulas.lmnn(Z, targets.codes, targets.neighbors, distance=distance, **settings)


# Candidate lists


def lists_of(rows, log2_rates=None):
    """`Pairs` from one list for each row of Z."""
    indptr = np.cumsum([0, *map(len, rows)])
    return Pairs(indptr, np.concatenate(rows).astype(np.int32), log2_rates)


def all_rows(n):
    """Every row in every list, including the row itself."""
    return lists_of([np.arange(n)] * n)


def some_lists(rng, n, shortest, longest):
    """Lists of several lengths, one of them empty, some with the row itself."""
    rows = [rng.permutation(n)[: rng.integers(shortest, longest + 1)] for _ in range(n)]
    rows[3] = rows[3][:0]
    return lists_of(rows)


def over_lists(loss, pairs, n, queries=None, references=None, weight=None, *, log, least=1):
    """A mean loss computed query by query, each with its own list as references.

    ``loss(i, rows)`` returns value and gradient of one query, None if it cannot be right: such a
    query counts as zero, or is left out if the loss is a logarithm.  The same holds for a query
    with fewer than `least` rows to pick from.
    """
    queries = np.arange(n) if queries is None else queries
    references = np.arange(n) if references is None else references
    weight = np.ones(n) if weight is None else weight
    total, dZ, counting = 0.0, 0.0, 0.0
    for i in queries:
        rows = pairs.indices[pairs.indptr[i] : pairs.indptr[i + 1]]
        rows = np.setdiff1d(rows[np.isin(rows, references)], [i])
        own = loss(i, rows) if len(rows) >= least else None
        if own is not None:
            total, dZ = total + weight[i] * own[0], dZ + weight[i] * own[1]
        counting += weight[i] * (own is not None or not log)
    return (total / counting, dZ / counting) if counting else (0.0, dZ)


def plain_lists(Z, y, k, vote, objective, pairs, queries=None, references=None):
    """kNCA by the reference formula, each query with its own list as references."""
    n = len(Z)
    queries = np.arange(n) if queries is None else queries
    references = np.arange(n) if references is None else references
    k = min(k, len(references) - bool(np.isin(queries, references).any()))

    def loss(i, rows):
        mass = None
        if pairs.log2_rates is not None:
            mass = np.exp2(-pairs.log2_rates[(y == y[i]).astype(int), i])
        if formulas.knca(Z, y, k, vote, "accuracy", [i], rows, mass)[0] == 0:
            return None
        return formulas.knca(Z, y, k, vote, objective, [i], rows, mass)

    log = objective == "log"
    value, dZ = over_lists(loss, pairs, n, queries, references, log=log, least=k)
    return value, dZ + np.zeros(Z.shape)
