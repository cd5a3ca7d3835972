"""Points, lists and comparisons for the tests of kNCA."""

import sys

import numpy as np
import pytest

from vicinal import reference
from vicinal.core.types import Pairs

VOTES = ["majority", "all"]
OBJECTIVES = ["log", "accuracy"]
each_vote = pytest.mark.parametrize("vote", VOTES)
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def points(rng, n, d, n_classes, scale=1.0):
    """Overlapping classes whose members are spread over the rows."""
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return scale * (rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n_classes, d))[y]), y


def separate(rng, n, n_classes, gap):
    """Classes on a line, `gap` apart, each within about one unit: a map late in learning."""
    y = np.arange(n) % n_classes
    Z = 0.4 * rng.standard_normal((n, 2))
    Z[:, 0] += gap * y
    return Z, y


def assert_close(got, expected, rtol):
    """Values relative to themselves, gradients to the largest entry."""
    (value, dZ), (value_expected, dZ_expected) = got, expected
    assert value == pytest.approx(value_expected, rel=rtol, abs=1e-14 * rtol)
    size = np.abs(dZ_expected).max()
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + 1e-30)


def assert_same_bits(got, expected):
    assert got[0] == expected[0]
    np.testing.assert_array_equal(got[1], expected[1])


def set_threads(monkeypatch, threads):
    """That many, for every module that asks."""
    for name, module in list(sys.modules.items()):
        if name.startswith("vicinal.engines.") and hasattr(module, "n_threads"):
            monkeypatch.setattr(module, "n_threads", lambda: threads)


def lists_of(rows, log2_rates=None):
    """`Pairs` of one list for each row of Z."""
    indptr = np.cumsum([0, *map(len, rows)])
    return Pairs(indptr, np.concatenate(rows).astype(np.int32), log2_rates)


def all_rows(n):
    return lists_of([np.arange(n)] * n)


def plain_lists(Z, y, k, vote, objective, pairs, queries=None, references=None):
    """The plain formula query by query, each with its own list as references."""
    n = len(Z)
    queries = np.arange(n) if queries is None else queries
    references = np.arange(n) if references is None else references
    k = min(k, len(references) - bool(np.isin(queries, references).any()))
    total, dZ, counting = 0.0, np.zeros(Z.shape), 0
    for i in queries:
        rows = pairs.indices[pairs.indptr[i] : pairs.indptr[i + 1]]
        rows = np.setdiff1d(rows[np.isin(rows, references)], [i])
        own = 0.0
        if len(rows) >= k:
            mass = None
            if pairs.log2_rates is not None:
                mass = np.exp2(-pairs.log2_rates[(y == y[i]).astype(int), i])
            args = (Z, y, k, vote), ([i], rows, mass)
            own = reference.knca(*args[0], "accuracy", *args[1])[0]
        if own < 0:
            value, gradient = reference.knca(*args[0], objective, *args[1])
            total, dZ = total + value, dZ + gradient
        counting += own < 0 or objective == "accuracy"
    return (total / counting, dZ / counting) if counting else (0.0, dZ)
