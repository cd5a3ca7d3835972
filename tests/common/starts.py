"""Common code of both test files of the starts: a stand-in for the data, and plain formulas."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from vicinal.starts import LDA, PCA, RCA, Auto, Identity, Random, Whiten

SPECTRAL = [PCA(), PCA(whiten=False), Whiten(), LDA(), RCA(), Auto()]
PARTS = [Identity(), Random(), *SPECTRAL]


class Rows:
    """The minimal interface of the data for a start: centred and scaled rows in blocks."""

    def __init__(self, X, block_size=64, scaling=True):
        X = np.asarray(X, dtype=np.float64)
        constant = np.ptp(X, axis=0) == 0
        X = X - X.mean(axis=0)
        X[:, constant] = 0.0
        if scaling:
            X = X / np.where(constant, 1.0, X.std(axis=0))
        self.X, self.shape, self.block_size = X, X.shape, block_size

    def blocks(self):
        for start in range(0, len(self.X), self.block_size):
            rows = slice(start, min(start + self.block_size, len(self.X)))
            yield rows, self.X[rows]

    def matmul(self, B):
        return self.X @ B

    def rmatmul(self, V):
        return self.X.T @ V


# The functions have other names than the fixtures, or test arguments would shadow the imports.
@pytest.fixture(name="rng")
def random_state():
    """The random state of starts, instead of the generator of the other tests."""
    return np.random.RandomState(0)


@pytest.fixture(name="clean", params=[load_wine, load_iris], ids=["wine", "iris"])
def clean_rows(request):
    X, y = request.param(return_X_y=True)
    return Rows(X), y


def plain_scatter(X, y, v=None):
    """S and S_W, term by term."""
    v = np.ones(len(X)) if v is None else v
    mean = np.average(X, axis=0, weights=v)
    S = sum(w * np.outer(x - mean, x - mean) for x, w in zip(X, v, strict=True))
    S_W = np.zeros_like(S)
    for c in np.unique(y):
        mean_c = np.average(X[y == c], axis=0, weights=v[y == c])
        for x, w in zip(X[y == c], v[y == c], strict=True):
            S_W += w * np.outer(x - mean_c, x - mean_c)
    return S / v.sum(), S_W / v.sum()


def projector(A):
    """Orthogonal projector onto the row space."""
    return np.linalg.pinv(A) @ A
