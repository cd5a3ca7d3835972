"""The nearest training rows: exact digits, bounded memory, the same bits for any thread count."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from common.checks import each_dtype
from scipy.spatial.distance import cdist
from sklearn import config_context

from vicinal.models import stored
from vicinal.models.votes import VotingModel
from vicinal.targets import Labels


def model(Z):
    return VotingModel(Z, Labels(np.arange(len(Z)) % 2), None, 3)


@each_dtype
@pytest.mark.parametrize("d", [2, 12])  # by a tree, by all distances
def test_far_from_the_origin_no_digit_is_lost(rng, dtype, d):
    Z = rng.normal(size=(300, d)).astype(dtype)
    moved = (Z.astype(np.float64) + 1000.0).astype(dtype)
    exact = cdist(moved.astype(np.float64), moved.astype(np.float64))
    np.fill_diagonal(exact, np.inf)
    distances, near = model(moved).nearest(None, 6)
    assert distances.dtype == dtype
    taken = np.take_along_axis(exact, near, axis=1)
    np.testing.assert_allclose(distances, taken, rtol=1e-5 if dtype == np.float32 else 1e-12)
    assert (np.diff(distances, axis=1) >= 0).all()
    if dtype == np.float64:
        np.testing.assert_array_equal(near, exact.argsort(axis=1)[:, :6])


@pytest.mark.parametrize("d", [2, 12])
def test_memory_is_bounded(rng, d):
    Z = rng.normal(size=(3000, d))
    tracemalloc.start()
    with config_context(working_memory=1):
        model(Z).nearest(None, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 35 * 2**20  # all distances would take 69 MiB


@pytest.mark.parametrize("own_search_from", [0, 2**24])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_the_first_of_equal_rows_vote(rng, monkeypatch, d, own_search_from):
    """Whatever the search finds, which depends on the number of queries."""
    monkeypatch.setattr(stored, "_OWN_SEARCH_FROM", own_search_from)
    Z = rng.normal(size=(30, d))[rng.integers(30, size=200)]
    Z[50] = 9.0  # with no equal
    Z_query = rng.normal(size=(40, d))
    exact = cdist(Z_query, Z).argsort(axis=1, kind="stable")
    for k in (1, 2, 5, 40, 200):
        np.testing.assert_array_equal(model(Z)._voters(Z_query, k), exact[:, :k])
