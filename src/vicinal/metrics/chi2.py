"""Distances between histograms: all pairs, and nearest-neighbour search."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array

from vicinal.core.types import Array
from vicinal.engines import choose


def chi2_distances(X: Any, Y: Any = None) -> Array:
    r"""Chi-squared distances between all pairs of rows.

    .. math:: \chi^2(x, y) = \frac12 \sum_f \frac{(x_f - y_f)^2}{x_f + y_f}

    A term with :math:`x_f + y_f = 0` is 0.  Between rows that sum to one the distance is at most 1,
    and its square root is a metric.  It is -1/2 times scikit-learn's ``additive_chi2_kernel``,
    which runs on one thread and does not return float32.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Histograms: dense, no entry negative.  They need not sum to one.
    Y : array-like of shape (m, d), default=None
        None means X; the distances are then exactly symmetric, and 0 on the diagonal.

    Returns
    -------
    distances : ndarray of shape (n, m)
        float32 if both X and Y are, otherwise float64.  No array of size n m d is made.

    Raises
    ------
    ValueError
        If an entry is negative or not finite; the message names the row.

    References
    ----------
    [OlsenPetersen] section 2.1, [Kedem2012]

    Examples
    --------
    >>> from vicinal.metrics import chi2_distances
    >>> chi2_distances([[0.5, 0.5], [1.0, 0.0]]).round(3)
    array([[0.   , 0.333],
           [0.333, 0.   ]])
    """
    X = _histograms(X, "X")
    same = Y is None
    Y = X if same else _histograms(Y, "Y")
    _check_width(Y, X.shape[1], "Y", "X")
    X, Y = _alike(X, Y)
    return choose.backend(Y, choose.histogram_rows(*Y.shape)).chi2_rows(X, Y, same)


class Chi2Index:
    """Nearest-neighbour search among histograms, with scikit-learn's interface.

    All pairs are compared, but only the nearest are kept: no block of distances is ever made,
    whatever the ``working_memory``.

    Parameters
    ----------
    points : array-like of shape (m, d)
        Histograms: dense, no entry negative.  float32 stays float32.
    """

    def __init__(self, points: Any) -> None:
        self.points = _histograms(points, "points")

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> tuple[Array, Array] | Array:
        """The nearest points of each row, nearest first.

        Parameters
        ----------
        X : array-like of shape (n, d), default=None
            Query rows.  None: the points themselves; a point is then not its own neighbour.
        n_neighbors : int, default=5
            k; at most the number of points, or of other points if X is None.
        return_distance : bool, default=True

        Returns
        -------
        distances : ndarray of shape (n, k)
            Only if ``return_distance``.
        neighbours : int64 ndarray of shape (n, k)
            Positions of the points.  At equal distances the smallest position comes first.
        """
        Y, same = self.points, X is None
        most = len(Y) - same
        if not isinstance(n_neighbors, Integral) or not 1 <= n_neighbors <= most:
            raise ValueError(
                f"The 'n_neighbors' parameter of Chi2Index must be an int in [1, {most}]. "
                f"Got {n_neighbors!r} instead."
            )
        X = Y if same else _histograms(X, "X")
        _check_width(X, Y.shape[1], "X", "the points")
        X, Y = _alike(X, Y)
        backend = choose.backend(Y, choose.histogram_rows(*Y.shape))
        distances, near = backend.nearest_histograms(X, Y, int(n_neighbors), same)
        return (distances, near) if return_distance else near


def _histograms(X: Any, name: str) -> Array:
    X = check_array(X, dtype=[np.float64, np.float32], order="C", input_name=name)
    if X.min() < 0:
        row = int(np.argmax(X.min(axis=1) < 0))
        raise ValueError(
            f"{name} must hold histograms without negative entries. Row {row} has {X[row].min():g}."
        )
    return X


def _check_width(X: Array, d: int, name: str, other: str) -> None:
    if X.shape[1] != d:
        raise ValueError(
            f"{name} must have as many columns as {other}, {d}. Got {X.shape[1]} instead."
        )


def _alike(X: Array, Y: Array) -> tuple[Array, Array]:
    dtype = np.result_type(X, Y)
    return X.astype(dtype, copy=False), Y.astype(dtype, copy=False)
