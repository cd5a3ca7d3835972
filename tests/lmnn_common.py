"""Points with target neighbours, and comparisons, for the tests of LMNN."""

import numpy as np
import pytest
from knca_common import points

from vicinal import reference
from vicinal.objectives import lmnn
from vicinal.targets import TargetNeighbours

DISTANCES = ["squared", "chi2"]
each_distance = pytest.mark.parametrize("distance", DISTANCES)
#: unequal to one another and to what is the default
WEIGHTS = {"mu": 0.3, "margin": 2.5}


def histograms(rng, n, d, n_classes, scale=1.0):
    """None negative, a fifth of the entries zero; classes overlap."""
    Z, y = points(rng, n, d, n_classes)
    return scale * np.exp(0.5 * Z) * (rng.uniform(size=Z.shape) > 0.2), y


def some_targets(rng, y, k, missing=0.1):
    """Any other members of the class, near or not: impostors at every scale; some are missing."""
    J = np.full((len(y), k), -1)
    for i in range(len(y)):
        others = np.setdiff1d(np.flatnonzero(y == y[i]), [i])
        own = rng.permutation(others)[:k]
        J[i, : len(own)] = own
    J[rng.uniform(size=J.shape) < missing] = -1
    return J


def cloud(rng, n, d, n_classes, distance, k=3, scale=1.0, dtype=np.float64):
    """Points and their targets."""
    make = points if distance == "squared" else histograms
    Z, y = make(rng, n, d, n_classes, scale)
    return Z.astype(dtype), TargetNeighbours(y, some_targets(rng, y, k))


def distances(Z, distance):
    """All pairs."""
    Z = np.asarray(Z, dtype=np.float64)
    difference = Z[:, None] - Z
    if distance == "squared":
        return (difference**2).sum(axis=2)
    total = Z[:, None] + Z
    return 0.5 * np.sum(difference**2 / np.where(total > 0, total, 1.0), axis=2)


def brackets(Z, targets, margin, distance):
    """``margin + D(i, j) - D(i, l)`` of every triple that there is."""
    D, y = distances(Z, distance), targets.codes
    triples = []
    for i, row in enumerate(targets.neighbours):
        for j in row[row >= 0]:
            triples.append(margin + D[i, j] - D[i, y != y[i]])
    return np.concatenate(triples)


def evaluate(Z, targets, distance="squared", **settings):
    """At mu and margin that differ from each other, unless told otherwise."""
    return lmnn(Z, targets, distance=distance, **{**WEIGHTS, **settings})


def plain(Z, targets, distance="squared", **settings):
    """The same by loops."""
    settings = {**WEIGHTS, **settings}
    return reference.lmnn(Z, targets.codes, targets.neighbours, distance=distance, **settings)
