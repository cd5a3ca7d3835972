"""Histograms of three classes, and checks of their maps, for the tests of Chi2LMNN."""

import numpy as np
import pytest

unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
CONSTRAINTS = ["projection", "softmax"]
each_constraint = pytest.mark.parametrize("constraint", CONSTRAINTS)


def counts(rng, n=60, D=8, contrast=2.0):
    """Rows of three overlapping classes, each with higher counts in its own bins; no ties."""
    y = np.arange(n) % 3
    X = rng.poisson(1 + contrast * (np.arange(D) % 3 == y[:, None]))
    return X * rng.uniform(0.9, 1.1, X.shape), y


def as_histograms(X):
    total = X.sum(axis=1, keepdims=True)
    return np.where(total > 0, X / np.where(total > 0, total, 1), 1 / X.shape[1])


def assert_on_simplex(L, atol=1e-12):
    assert (L >= 0).all()
    np.testing.assert_allclose(L.sum(axis=0), 1.0, rtol=0, atol=atol)
