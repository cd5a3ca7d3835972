"""Starts of free points: where each row is placed before the first iteration.

All have the usual small scale, at which no pair is repelled more than another: the standard
deviation of the first column is ``SCALE`` [KobakBerens2019].
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh

from vicinal._features import make_rows
from vicinal.core.types import Array
from vicinal.starts.spectral import orient
from vicinal.starts.starts import PCA

SCALE = 1e-4  # standard deviation of the first column
_WHOLE_TO = 200  # rows up to which all eigenvectors are computed
_JITTER = 1e-2  # of the first column's deviation: separates rows that the graph does not tell apart


def random_points(n: int, d: int, rng: np.random.RandomState) -> Array:
    """Independent normal coordinates."""
    return SCALE * rng.standard_normal((n, d))


def principal_points(X: Any, d: int, rng: np.random.RandomState) -> Array:
    """The first principal components of the rows; missing ones are random.

    The sign of a component makes the largest of its loadings positive.  ``rng`` is used only for
    missing components, so that the start of ordinary data does not depend on the seed.
    """
    features = make_rows(X, "global", limit_outliers=False)
    A = PCA(whiten=False)(features, None, d, np.random.RandomState(0))
    return _scaled(features.matmul(A.T), rng)


def spectral_points(W: Any, d: int, rng: np.random.RandomState) -> Array:
    """The first eigenvectors of the random walk over a symmetric graph, but for the constant one.

    Groups that no edge connects have one place each, so noise of a hundredth of the spread is
    added.

    Parameters
    ----------
    W : sparse array of shape (n, n)
        Symmetric weights of the edges, not negative.
    d : int
        Number of eigenvectors.
    rng : RandomState
        For the noise, and for missing eigenvectors.
    """
    n = W.shape[0]
    degree = np.asarray(W.sum(axis=1)).ravel()
    root = 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0))
    scale = sp.dia_array((root[None], [0]), shape=(n, n))
    walk = sp.csr_array(scale @ W @ scale)
    wanted = min(d + 1, n)
    if n <= max(_WHOLE_TO, 3 * wanted):
        vectors = np.linalg.eigh(walk.toarray())[1][:, ::-1][:, :wanted]
    else:
        start = np.random.RandomState(0).uniform(0.5, 1.5, n) / root  # near the constant one
        values, vectors = eigsh(walk, k=wanted, which="LA", v0=start, tol=1e-6)
        vectors = vectors[:, np.argsort(-values)]
    Z = np.zeros((n, d))
    Z[:, : wanted - 1] = orient((root[:, None] * vectors[:, 1:]).T).T
    Z = _scaled(Z, rng)
    return Z + _JITTER * random_points(n, d, rng)


def _scaled(Z: Array, rng: np.random.RandomState) -> Array:
    """Points of the usual scale; columns that do not vary are random."""
    Z = Z - Z.mean(axis=0)
    deviation = Z.std(axis=0)
    if deviation[0] > 0:
        Z *= SCALE / deviation[0]
    flat = Z.std(axis=0) <= 1e-9 * SCALE
    if flat.any():
        Z[:, flat] = random_points(len(Z), int(flat.sum()), rng)
    return Z
