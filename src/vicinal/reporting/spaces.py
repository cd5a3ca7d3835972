"""Points before and after learning, and searches among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD

from vicinal import _search
from vicinal.core.types import Array
from vicinal.metrics import Chi2Index

_PRODUCTS = 4e11  # multiplications of a search, beyond which it looks at principal components
_LEADING = 50  # of them


@dataclass(frozen=True)
class Scaling:
    """Centres and scales columns as the training rows have them."""

    shift: Array
    scale: Array

    @classmethod
    def of(cls, X: Any) -> Scaling:
        """Of the training rows; constant columns get the scale zero."""
        if sp.issparse(X):
            mean = np.asarray(X.mean(axis=0)).ravel()
            square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
            mean = np.zeros_like(mean)  # a shift would fill the table
        else:
            mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        varies = deviation > 1e-10 * np.abs(mean)
        return cls(mean, np.divide(1.0, deviation, out=np.zeros_like(mean), where=varies))

    def __call__(self, X: Any, standard: bool) -> Any:
        """Centred rows, scaled if ``standard``, as float32: they are looked at, not learnt from."""
        scale = self.scale if standard else np.ones_like(self.scale)
        if sp.issparse(X):
            return sp.csr_matrix(X.multiply(scale)).astype(np.float32)
        return ((X - self.shift) * scale).astype(np.float32)


@dataclass(frozen=True)
class Space:
    """Points with a distance: Euclidean, or χ² of histograms."""

    points: Any
    chi2: bool = False

    def nearest(self, queries: Array, references: Array, k: int) -> tuple[Array, Array]:
        """Numbers and squared distances of the k nearest reference points of each query.

        No point is its own neighbour.  Places that stay empty hold -1 and infinity.
        """
        k_found = min(k + 1, len(references))
        if self.chi2:
            squared, near = Chi2Index(self.points[references]).kneighbors(
                self.points[queries], k_found
            )
        else:
            near, squared = _search.finder("exact", self.points[references])(
                self.points[queries], k_found
            )
        found = np.where(near >= 0, references[near], -1)
        own = found == queries[:, None]
        squared = np.where(own | (found < 0), np.inf, squared)
        order = np.argsort(squared, axis=1, kind="stable")[:, :k]
        squared = np.take_along_axis(squared, order, axis=1)
        found = np.where(np.isfinite(squared), np.take_along_axis(found, order, axis=1), -1)
        missing = k - found.shape[1]
        if missing > 0:
            found = np.pad(found, ((0, 0), (0, missing)), constant_values=-1)
            squared = np.pad(squared, ((0, 0), (0, missing)), constant_values=np.inf)
        return found, squared

    def quick(self, n_queries: int, n_references: int) -> tuple[Space, str]:
        """A space that can be searched in seconds, and what was left out of it, if anything."""
        D, sparse = self.points.shape[1], sp.issparse(self.points)
        if sparse and D <= _LEADING:
            return Space(self.points.toarray(), self.chi2), ""
        few = n_queries * n_references * D <= _PRODUCTS or D <= _LEADING
        if self.chi2 or (few and not sparse):
            return self, ""
        points, share = principal(self.points, _LEADING)
        note = (
            f"Old distances are those of the first {_LEADING} principal components "
            f"({100 * share:.0f} % of the variance)."
        )
        return Space(points), note


def principal(X: Any, d: int) -> tuple[Array, float]:
    """The first d principal components of points, and their share of the variance."""
    d_most = min(d, *X.shape)
    made: Any
    if sp.issparse(X):
        made = TruncatedSVD(min(d_most, X.shape[1] - 1), random_state=0)
    else:
        made = PCA(d_most, random_state=0)
    Z = made.fit_transform(X)
    share = float(np.sum(made.explained_variance_ratio_))
    if Z.shape[1] < d:
        Z = np.pad(Z, ((0, 0), (0, d - Z.shape[1])))
    return Z.astype(np.float32), share if np.isfinite(share) else 1.0
