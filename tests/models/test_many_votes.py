"""Votes for many rows: our own search finds the voters that scikit-learn's does."""

import numpy as np
import pytest

from vicinal.models import stored, votes
from vicinal.targets import Labels


@pytest.mark.parametrize("d", [3, 12])
@pytest.mark.parametrize("n_neighbors", [4, "auto"])
def test_votes_by_either_search(rng, monkeypatch, d, n_neighbors):
    Z, queries = rng.standard_normal((2500, d)), rng.standard_normal((300, d))
    labels = Labels(rng.integers(0, 3, 2500))
    results = []
    for limit in (np.inf, 1):
        monkeypatch.setattr(stored, "_OWN_SEARCH_FROM", limit)
        model = votes.NeighbourModel(Z, labels, n_neighbors)
        results.append((model.n_neighbors, model.votes(queries)))
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])
