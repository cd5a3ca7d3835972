"""The linear maps of Goldberger et al. section 4, each an array of shape (d, D) for raw columns.

Distances alone count, so no map centres.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestNeighbors

from vicinal import RCA

#: a direction with less than this share of the largest variance has no spread
_RCOND = 1e-10


def leave_one_out(Z: Any, y: Any, k: int = 1) -> float:
    """Share of rows whose k nearest, themselves left out, vote for their class."""
    neighbours = NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(return_distance=False)
    classes, codes = np.unique(y, return_inverse=True)
    votes = np.zeros((len(y), len(classes)))
    np.add.at(votes, (np.arange(len(y))[:, None], codes[neighbours]), 1)
    return float(np.mean(votes.argmax(axis=1) == codes))


def identity(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Euclidean distance of the columns as they are."""
    return np.eye(X.shape[1])


def standardised(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Euclidean distance of columns of unit variance; a constant one gets weight zero."""
    return np.diag(_one_over(X.std(axis=0)))


def whitened(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """S^(-1/2) up to a rotation, without the directions that have no spread."""
    scale = _one_over(X.std(axis=0))
    variance, V = _principal(X * scale)
    keep = variance > _RCOND * variance[0]
    return (V[:, keep] / np.sqrt(variance[keep])).T * scale


def pca(X: np.ndarray, y: np.ndarray, *, standard: bool = False) -> np.ndarray:
    """Two orthonormal directions of most variance, of raw or of standardised columns."""
    scale = _one_over(X.std(axis=0)) if standard else np.ones(X.shape[1])
    return _principal(X * scale)[1][:, :2].T * scale


def rca(X: np.ndarray, y: np.ndarray, d: int | None = None) -> np.ndarray:
    """S_W^(-1/2) up to a rotation, or the best d generalised eigenvectors of (S, S_W)."""
    return RCA(d).fit(X, y).components_


def lda(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two eigenvectors (one for two classes) of S_W^-1 S_B, of unit length.

    The length is that in standardised columns.  scikit-learn's own are scaled to S_W = I, which
    leaves nothing to do for RCA: the paper's "LDA" and "LDA followed by RCA" would be one.
    """
    scale = _one_over(X.std(axis=0))
    d = min(2, len(np.unique(y)) - 1)
    rows = LinearDiscriminantAnalysis().fit(X * scale, y).scalings_[:, :d].T
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * scale


def lda_then_rca(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """LDA, and in its two dimensions S_W^(-1/2)."""
    A = lda(X, y)
    return rca(X @ A.T, y) @ A


def _principal(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances, the largest first, and directions as columns."""
    variance, V = eigh(np.atleast_2d(np.cov(X, rowvar=False, ddof=0)))
    return variance[::-1], V[:, ::-1]


def _one_over(spread: np.ndarray) -> np.ndarray:
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
