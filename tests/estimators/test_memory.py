"""The memory that a fit says it will take: within a quarter of what it takes, path by path.

NumPy tells `tracemalloc` of its arrays; `benchmarks/memory.py` measures whole processes.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from vicinal import NCA
from vicinal.neighbourhoods import Nearest
from vicinal.samplers import MiniBatches, StochasticQueries

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BATCHES = MiniBatches(600, clusters="random")
PATHS = {
    "exact": (NCA(16, sampling="full", max_iter=4, tol=1.0), "float32"),
    "integers": (NCA(4, sampling=BATCHES, max_iter=2), "int64"),
    "batches": (NCA(16, sampling=BATCHES, max_iter=2), "float32"),
    "queries": (NCA(16, sampling=StochasticQueries(50), max_iter=2), "float32"),
    "lists": (NCA(3, pairs=Nearest(40), max_iter=2), "float32"),
    "votes": (NCA(3, sampling=BATCHES, max_iter=2, rule="knn", n_neighbors="auto"), "float32"),
}


def table(n, dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.normal(size=(n, 40)) + rng.normal(size=(5, 40))[y]
    return (100 * X).astype(dtype), y


@pytest.mark.parametrize("path", PATHS)
def test_memory_is_stated_within_a_quarter(path):
    model, dtype = PATHS[path]
    model.set_params(random_state=0, alpha=3e-3)  # no search
    X, y = table(6000, dtype)
    model.fit(X[:1200], y[:1200])  # compiled
    stated = model.estimate_cost(X).memory_bytes
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.plan_.cost.memory_bytes == stated
    assert 0.75 * stated <= peak <= 1.25 * stated


def test_no_second_copy_of_the_rows_is_made():
    from vicinal._features import Features

    X, _ = table(6000, "float32")
    tracemalloc.start()
    try:
        Features(X, "standard")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.4 * X.size * 8
