"""Pairs and quadruplets drawn from class labels, for methods that learn from such constraints."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from vicinal._validation import check_label_types, warn
from vicinal.core.types import Array

_PER_CLASSES = 20  # [Davis2007] §5: 20 C² constraints for C classes
_LIST_UP_TO = 4  # times the number of pairs asked for: all pairs are listed, and some are picked


def pairs_from_labels(
    y: Any, n_constraints: int | None = None, *, unlabeled: Any = None, random_state: Any = None
) -> tuple[Array, Array]:
    """Draw pairs of rows of the same class, and as many of different classes.

    The first row of a pair is drawn uniformly, the second uniformly among the rows that it can be
    paired with, and no pair is drawn twice.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels.
    n_constraints : int, default=None
        Number of pairs of each kind.  None: 20 times the squared number of classes, or all there
        are if these are fewer.
    unlabeled : label, default=None
        The label of rows whose class is not known (NaN is allowed); they are in no pair.  None:
        every label is a class, negative ones too.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    pairs : int ndarray of shape (n_pairs, 2)
        Indices of rows; similar pairs come first.
    labels : int ndarray of shape (n_pairs,)
        +1 for pairs of the same class, -1 for the others.

    Examples
    --------
    >>> from vicinal.targets import pairs_from_labels
    >>> pairs, labels = pairs_from_labels(["a", "a", "b", "b"], 2, random_state=0)
    >>> pairs.shape, labels.tolist()
    ((4, 2), [1, 1, -1, -1])
    """
    classes = _Classes(y, unlabeled, "pairs_from_labels")
    n = classes.checked(n_constraints)
    rng = check_random_state(random_state)
    similar, dissimilar = classes.similar(n, rng), classes.dissimilar(n, rng)
    if n_constraints is not None and (fewest := min(len(similar), len(dissimilar))) < n:
        kind = "similar" if len(similar) == fewest else "dissimilar"
        warn(f"n_constraints={n}, but the labels give only {fewest} {kind} pairs: all are used.")
    labels = np.repeat([1, -1], [len(similar), len(dissimilar)])
    return np.concatenate([similar, dissimilar]), labels


def quadruplets_from_labels(
    y: Any, n_constraints: int | None = None, *, unlabeled: Any = None, random_state: Any = None
) -> Array:
    """Draw quadruplets (a, b, c, d): a and b are of one class, c and d of different classes.

    Each joins a similar and a dissimilar pair of :func:`pairs_from_labels`; it says that a and b
    should be nearer to each other than c and d.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels.
    n_constraints : int, default=None
        Number of quadruplets.  None: 20 times the squared number of classes.  If there are fewer
        pairs of one kind, they occur repeatedly; there are never more quadruplets than pairs of
        the more frequent kind.
    unlabeled : label, default=None
        The label of rows whose class is not known (NaN is allowed); they are in no quadruplet.
        None: every label is a class, negative ones too.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    quadruplets : int ndarray of shape (n_quadruplets, 4)
        Indices of rows.
    """
    classes = _Classes(y, unlabeled, "quadruplets_from_labels")
    n = classes.checked(n_constraints)
    rng = check_random_state(random_state)
    similar, dissimilar = classes.similar(n, rng), classes.dissimilar(n, rng)
    most = max(len(similar), len(dissimilar))
    if n_constraints is not None and most < n:
        warn(f"n_constraints={n}, but the labels give only {most} quadruplets of distinct pairs.")
    joined = [pairs[np.arange(most) % len(pairs)] for pairs in (similar, dissimilar)]
    return np.concatenate(joined, axis=1)


class _Classes:
    """The labelled rows, ordered by class."""

    def __init__(self, y: Any, unlabeled: Any, owner: str) -> None:
        check_label_types(y)
        labels = np.asarray(column_or_1d(y))
        known = np.ones(len(labels), dtype=bool)
        if unlabeled is not None:
            known = labels == labels if unlabeled != unlabeled else labels != unlabeled
        if labels.dtype.kind == "f" and not np.isfinite(labels[known]).all():
            raise ValueError(
                f"The labels y of {owner} hold NaN or infinity. If NaN marks rows without a "
                "label, pass unlabeled=numpy.nan."
            )
        names, codes = np.unique(labels[known], return_inverse=True)
        self.owner = owner
        self.rows = np.flatnonzero(known)[np.argsort(codes, kind="stable")]
        self.counts = np.bincount(codes, minlength=len(names))
        self.starts = np.cumsum(self.counts) - self.counts
        self.code = np.repeat(np.arange(len(names)), self.counts)
        if len(names) < 2:
            raise ValueError(
                f"{owner} needs labels of at least 2 classes, for pairs of different classes. "
                f"Got {len(names)} instead: {names.tolist()!r}."
            )
        if self.counts.max() < 2:
            raise ValueError(
                f"{owner} needs a class of at least 2 rows, for pairs of the same class. "
                f"Got {len(codes)} rows of {len(names)} classes instead."
            )

    def checked(self, n: Any) -> int:
        """The number of pairs of each kind that is wanted."""
        if n is None:
            return _PER_CLASSES * len(self.counts) ** 2
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(
                f"The 'n_constraints' parameter of {self.owner} must be an int in [1, inf) or "
                f"None. Got {n!r} instead."
            )
        return int(n)

    def similar(self, n: int, rng: np.random.RandomState) -> Array:
        """Up to n different pairs within classes: indices of rows, (n, 2)."""
        firsts = np.flatnonzero(self.counts[self.code] > 1)
        n_pairs = int(np.sum(self.counts * (self.counts - 1)) // 2)

        def draw(m: int) -> tuple[Array, Array]:
            a = firsts[rng.randint(len(firsts), size=m)]
            c = self.code[a]
            other = rng.randint(self.counts[c] - 1)  # among the others of the class
            b = self.starts[c] + other
            return a, b + (b >= a)

        def listed() -> tuple[Array, Array]:
            parts = [
                np.stack(np.triu_indices(count, 1)) + start
                for count, start in zip(self.counts, self.starts, strict=True)
            ]
            return tuple(np.concatenate(parts, axis=1))

        # A row is drawn uniformly, then one of the n_c - 1 others of its class.
        return self._distinct(n, n_pairs, draw, listed, 1.0 / np.maximum(self.counts - 1, 1), rng)

    def dissimilar(self, n: int, rng: np.random.RandomState) -> Array:
        """Up to n different pairs between classes: indices of rows, (n, 2)."""
        total = len(self.rows)
        n_pairs = int(total**2 - np.sum(self.counts**2)) // 2

        def draw(m: int) -> tuple[Array, Array]:
            a = rng.randint(total, size=m)
            c = self.code[a]
            b = rng.randint(total - self.counts[c])  # among the rows of all other classes
            return a, b + np.where(b >= self.starts[c], self.counts[c], 0)

        def listed() -> tuple[Array, Array]:
            ends = self.starts + self.counts
            parts = [
                np.stack(np.meshgrid(np.arange(s, e), np.arange(e, total))).reshape(2, -1)
                for s, e in zip(self.starts, ends, strict=True)
            ]
            return tuple(np.concatenate(parts, axis=1))

        return self._distinct(n, n_pairs, draw, listed, 1.0 / (total - self.counts), rng)

    def _distinct(
        self,
        n: int,
        n_pairs: int,
        draw: Callable[[int], tuple[Array, Array]],
        listed: Callable[[], tuple[Array, Array]],
        chance: Array,
        rng: np.random.RandomState,
    ) -> Array:
        """Draw without replacement: reject repeated pairs, or list all pairs if they are few.

        ``chance`` is that of a certain partner, for a row of each class.
        """
        total = len(self.rows)
        if n_pairs <= _LIST_UP_TO * n:
            a, b = listed()
            weight = chance[self.code[a]] + chance[self.code[b]]  # either may come first
            first = np.argsort(rng.exponential(size=len(a)) / weight)[:n]
            a, b = a[first], b[first]
        else:
            keys = np.empty(0, dtype=np.int64)
            while len(keys) < n:
                a, b = draw(n - len(keys))
                new = np.minimum(a, b).astype(np.int64) * total + np.maximum(a, b)
                keys = np.concatenate([keys, new])
                keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
            a, b = keys // total, keys % total
        return self.rows[np.stack([a, b], axis=1)]
