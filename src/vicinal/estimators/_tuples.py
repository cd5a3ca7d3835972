"""Tuples of rows: pairs and quadruplets, formed or as indices into a ``preprocessor``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array, column_or_1d

from vicinal._validation import refuse_elsewhere
from vicinal.core.types import Array

__all__ = ["TupleLearnerMixin", "check_pair_labels", "check_tuples", "looked_up"]

_NAMES = {2: "pairs", 3: "triplets", 4: "quadruplets"}
_FLOATS = [np.float64, np.float32]


def check_tuples(
    owner: str, tuples: Any, size: int, preprocessor: Any = None, n_features: int | None = None
) -> Array:
    """Tuples of rows as numbers.

    Parameters
    ----------
    owner : str
        Name of the estimator, for messages.
    tuples : array-like of shape (n, size, n_features) or (n, size)
        Rows, or with a preprocessor their indices.
    size : int
        Number of rows in a tuple: 2 for pairs, 4 for quadruplets.
    preprocessor : array-like, sparse matrix, callable or None
        What the indices refer to: an array of rows, or a function from a vector of indices to an
        array of rows.
    n_features : int or None
        Required number of features; None: any.

    Returns
    -------
    tuples : float64 or float32 array of shape (n, size, n_features)
    """
    name = _NAMES[size]
    refuse_elsewhere(owner, tuples, name)
    tuples = check_array(
        tuples, ensure_2d=False, allow_nd=True, dtype=None, ensure_all_finite=False,
        ensure_min_samples=0, ensure_min_features=0, input_name=name,
    )  # fmt: skip
    indexed = tuples.ndim == 2 and preprocessor is not None
    if not (tuples.ndim == 3 or indexed) or tuples.shape[1] != size:
        features = "n_features" if n_features is None else n_features
        what = f"(n_{name}, {size}, {features})"
        if preprocessor is None:
            hint = " Indices of rows need a 'preprocessor'." if tuples.ndim == 2 else ""
        else:
            what, hint = f"{what}, or (n_{name}, {size}) for indices", ""
        raise ValueError(
            f"The {name} of {owner} must have shape {what}. Got {tuples.shape} instead.{hint}"
        )
    if len(tuples) == 0:
        raise ValueError(f"{owner} needs at least one of the {name}. Got none instead.")
    if indexed:
        tuples = looked_up(owner, tuples.ravel(), preprocessor).reshape(len(tuples), size, -1)
    tuples = check_array(tuples, allow_nd=True, dtype=_FLOATS, input_name=name)
    if tuples.shape[2] == 0 or n_features not in (None, tuples.shape[2]):
        expected = "at least one feature" if n_features is None else f"{n_features} features"
        raise ValueError(
            f"The rows in the {name} of {owner} must have {expected}. "
            f"Got {tuples.shape[2]} instead."
        )
    return tuples


def looked_up(owner: str, indices: Array, preprocessor: Any) -> Array:
    """The rows of a preprocessor with these indices, dense."""
    if callable(preprocessor):
        rows = preprocessor(indices)
    else:
        refuse_elsewhere(owner, preprocessor, "preprocessor")
        rows = check_array(preprocessor, accept_sparse="csr", dtype=None, ensure_all_finite=False)
        n = rows.shape[0]
        if indices.dtype.kind not in "iu":
            raise ValueError(
                f"Indices into the 'preprocessor' of {owner} must be ints. "
                f"Got {indices.dtype} instead."
            )
        outside = (indices < 0) | (indices >= n)
        if outside.any():
            raise ValueError(
                f"Indices into the 'preprocessor' of {owner}, which has {n} rows, must be in "
                f"[0, {n - 1}]. Got {indices[outside][0]} instead."
            )
        rows = rows[indices]
    rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    if rows.ndim != 2 or len(rows) != len(indices):
        raise ValueError(
            f"The 'preprocessor' of {owner} must turn {len(indices)} indices into an array of "
            f"shape ({len(indices)}, n_features). Got {rows.shape} instead."
        )
    return rows


def check_pair_labels(owner: str, y: Any, n: int, both: bool = False) -> Array:
    """The labels of n pairs as ints, +1 (similar) and -1; ``both`` asks for pairs of each kind."""
    if y is None:
        raise ValueError(
            f"{owner} requires y to be passed, but the target y is None. It must hold +1 for "
            "similar and -1 for dissimilar pairs."
        )
    labels = np.asarray(column_or_1d(y))
    if labels.shape != (n,):
        raise ValueError(
            f"The labels y of {owner} must have shape ({n},), one for each pair. "
            f"Got {labels.shape} instead."
        )
    wrong = ~np.isin(labels, (-1, 1)) if labels.dtype.kind in "iuf" else np.ones(n, dtype=bool)
    if wrong.any():
        raise ValueError(
            f"The labels y of {owner} must be +1 for similar and -1 for dissimilar pairs. "
            f"Got {labels[wrong][0]!r} instead."
        )
    if both and (labels == labels[0]).all():
        raise ValueError(
            f"{owner} needs similar (+1) and dissimilar (-1) pairs. "
            f"Got only pairs with label {int(labels[0]):+d} instead."
        )
    return labels.astype(np.int64)


class TupleLearnerMixin:
    """Distances of pairs that may be indices into ``preprocessor``; for learners from tuples.

    It stands before `MahalanobisMixin` or `LearntMetricMixin` among the bases.
    """

    #: array-like, sparse matrix, callable or None
    preprocessor: Any
    n_features_in_: int

    def _tuples(self, tuples: Any, size: int = 2, *, reset: bool = False) -> Array:
        """Checked tuples of rows; ``reset`` (in a fit) sets the number of features from them."""
        n_features = None if reset else self.n_features_in_
        tuples = check_tuples(type(self).__name__, tuples, size, self.preprocessor, n_features)
        if reset:
            self.n_features_in_ = tuples.shape[2]
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        return tuples

    def pair_distance(self, pairs: Any) -> Array:
        """Learnt distance of each pair.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of rows, or of indices into the ``preprocessor``.

        Returns
        -------
        distances : ndarray of shape (n_pairs,)
        """
        if hasattr(self, "n_features_in_"):  # else the learnt metric says that there is none
            pairs = self._tuples(pairs)
        return super().pair_distance(pairs)  # type: ignore[misc]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
