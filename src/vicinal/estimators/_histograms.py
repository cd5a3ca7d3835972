"""Validation of histograms, and the learnt χ² distance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from vicinal._validation import check_rows
from vicinal.core.types import Array
from vicinal.estimators._metric import check_pairs, one_row

__all__ = ["HistogramMixin", "chi2", "histograms"]

_OFF = 1e-4  # allowed error of a sum that should be one: rounding, or few printed digits


def histograms(X: Any, normalize: bool) -> Any:
    """Rows as histograms: no negative entries, each row summing to one.

    With ``normalize`` rows are divided by their sums, and a row of zeros becomes uniform;
    otherwise a row that does not sum to one is refused.  A sparse X stays sparse.
    """
    sparse = sp.issparse(X)
    if X.min() < 0:
        lowest = np.asarray(X.min(axis=1).todense() if sparse else X.min(axis=1)).ravel()
        row = int(np.argmax(lowest < 0))
        raise ValueError(
            "Negative values in data passed to X: histograms have none. "
            f"Row {row} has {lowest[row]:g}."
        )
    if not normalize:
        _check_sums(_sums(X))
        return X
    # divide by the largest entry first: a sum could overflow
    top = np.asarray(X.max(axis=1).todense() if sparse else X.max(axis=1)).ravel()
    empty = top == 0
    if empty.any():
        X = _with_uniform(X, empty)
    X = _divided(X, np.where(empty, 1.0, top))
    return _divided(X, _sums(X))


def _sums(X: Any) -> Array:
    return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()


def _check_sums(total: Array) -> None:
    wrong = ~(np.abs(total - 1.0) <= _OFF)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            "Each row of X must sum to one if normalize=False, as a histogram does. "
            f"Row {row} sums to {total[row]:g}."
        )


def _divided(X: Any, by: Array) -> Any:
    """Each row divided by its own number, in the dtype of X."""
    if sp.issparse(X):
        X = X.copy()
        X.data = (X.data / np.repeat(by, np.diff(X.indptr))).astype(X.dtype, copy=False)
        return X
    return (X / by[:, None]).astype(X.dtype, copy=False)


def _with_uniform(X: Any, rows: Array) -> Any:
    if not sp.issparse(X):
        X = np.array(X)
        X[rows] = 1.0
        return X
    ones = sp.csr_array(
        (
            np.ones(int(rows.sum()) * X.shape[1], X.dtype),
            np.tile(np.arange(X.shape[1]), int(rows.sum())),
            np.concatenate([[0], np.cumsum(rows * X.shape[1])]),
        ),
        shape=X.shape,
    )
    return sp.csr_array(X) + ones


class HistogramMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Transform and χ² distances by ``components_`` (r, D), whose columns sum to one."""

    components_: Array
    normalize: bool

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _check_rows(self, X: Any) -> Any:
        check_is_fitted(self, "components_")
        return histograms(check_rows(self, X, reset=False), self.normalize)

    def transform(self, X: Any) -> Array:
        """Map histograms to histograms of r bins: ``H @ components_.T``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Histograms; H is X, with rows divided by their sums if ``normalize``.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Rows sum to one.
        """
        H = self._check_rows(X)
        return safe_sparse_dot(H, self.components_.T, dense_output=True)

    def get_metric(self) -> Callable[..., float]:
        """A function of two histograms, usable as ``metric`` in scikit-learn.

        Returns
        -------
        metric : callable
            ``metric(u, v, squared=False)``: the square root of χ² after the map, which satisfies
            the triangle inequality, or χ² itself.  It holds a copy of the map and does not change
            with later fits.
        """
        check_is_fitted(self, "components_")
        A, normalize = self.components_.copy(), bool(self.normalize)

        def metric(u: Any, v: Any, squared: bool = False) -> float:
            rows = np.stack([one_row(x, A.shape[1], A.dtype) for x in (u, v)])
            pair = histograms(rows, normalize) @ A.T
            d = float(chi2(pair[0], pair[1]))
            return d if squared else d**0.5

        return metric

    def pair_distance(self, pairs: Any) -> Array:
        """Learnt distance of each pair: the square root of χ² after the map, a metric.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Pairs of histograms.

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        check_is_fitted(self, "components_")
        D = self.components_.shape[1]
        pairs = check_pairs(pairs, D)
        H = histograms(pairs.reshape(-1, D), self.normalize) @ self.components_.T
        return np.sqrt(chi2(H[::2], H[1::2]))

    def pair_score(self, pairs: Any) -> Array:
        """Minus the learnt distance of each pair: the higher, the more alike."""
        return -self.pair_distance(pairs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def chi2(u: Array, v: Array) -> Array:
    """The χ² distances of corresponding rows of u and v."""
    total = u + v
    return 0.5 * np.sum((u - v) ** 2 / np.where(total > 0, total, 1.0), axis=-1)
