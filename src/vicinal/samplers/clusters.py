"""Two cheap clusterings into groups of bounded size.

References
----------
[Oneata2011] alg. 4.2 and 4.3; [Gonzalez1985] (farthest point clustering).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from vicinal._features import Features
from vicinal.core.types import Array

_BLOCK = 8192  # rows of the input copied at a time
_DRAWS = 8  # attempts to draw two rows at different points
_SMALL = 0.1  # share of the batch size; clusters with fewer rows join another cluster


class PointSet(Protocol):
    """Points to cluster."""

    def __len__(self) -> int: ...

    def row(self, i: int) -> Array:
        """One point."""

    def onto(self, rows: Array, direction: Array) -> Array:
        """Inner products of some points with a direction."""

    def squared_distances(self, point: Array) -> Array:
        """Squared distances from all points to one."""


class EmbeddedPoints:
    """An array of points."""

    def __init__(self, Z: Array) -> None:
        self.Z = Z

    def __len__(self) -> int:
        return len(self.Z)

    def row(self, i: int) -> Array:
        return self.Z[i]

    def onto(self, rows: Array, direction: Array) -> Array:
        # einsum, here and below: the bits of BLAS depend on its number of threads
        return np.einsum("ij,j->i", self.Z[rows], direction)

    def squared_distances(self, point: Array) -> Array:
        away = self.Z - point
        return np.einsum("ij,ij->i", away, away)


class InputRows:
    """Rows of the scaled input, copied at most one block at a time."""

    def __init__(self, n_rows: int, take: Callable[[Any], Any]) -> None:
        self.n_rows, self.take = n_rows, take
        self._norms: Array | None = None

    def __len__(self) -> int:
        return self.n_rows

    def row(self, i: int) -> Array:
        return _dense(self.take(np.array([i])))[0]

    def onto(self, rows: Array, direction: Array) -> Array:
        blocks = [rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK)]
        return np.concatenate([_product(self.take(block), direction) for block in blocks])

    def squared_distances(self, point: Array) -> Array:
        n = self.n_rows  # slices, which need not be copies
        blocks = [slice(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]
        if self._norms is None:
            dense = (_dense(self.take(block)) for block in blocks)
            self._norms = np.concatenate([np.einsum("ij,ij->i", part, part) for part in dense])
        products = np.concatenate([_product(self.take(block), point) for block in blocks])
        return np.maximum(self._norms - 2.0 * products + np.sum(point**2), 0.0)


def _dense(part: Features) -> Array:
    return part.columns_times(np.ones(part.shape[1]))


def _product(part: Features, direction: Array) -> Array:
    # in the precision of the input, without conversion: precise enough for clusters
    return part.matmul(direction[:, None], part.X.dtype)[:, 0].astype(np.float64)


@np.errstate(over="ignore", invalid="ignore")  # points near the largest float still get a cluster
def recursive_projection(
    cloud: PointSet, rows: Array, size: int, rng: np.random.RandomState
) -> list[Array]:
    """Halve ``rows`` until no part has more than ``size`` rows ([Oneata2011] alg. 4.3).

    Each cut is at the median along the line through two random rows.  Cuts are made by rank, so
    that duplicates are halved too; every cluster has at least half of ``size`` rows, rounded down,
    unless there were fewer to begin with.
    """
    done, waiting = [], [rows]
    while waiting:
        rows = waiting.pop()
        if len(rows) <= size:
            done.append(np.sort(rows))
            continue
        direction = _random_direction(cloud, rows, rng)
        middle = len(rows) // 2
        order = np.argpartition(cloud.onto(rows, direction), middle)
        waiting += [rows[order[middle:]], rows[order[:middle]]]
    return done


def _random_direction(cloud: PointSet, rows: Array, rng: np.random.RandomState) -> Array:
    """From one random row to another, different one; zero if none is found."""
    for _ in range(_DRAWS):
        first, second = rng.randint(len(rows)), rng.randint(len(rows) - 1)
        second += second >= first  # two distinct rows
        direction = cloud.row(rows[second]) - cloud.row(rows[first])
        if direction.any():
            break
    return direction


@np.errstate(over="ignore", invalid="ignore")
def farthest_point(
    cloud: PointSet, size: int, rng: np.random.RandomState, codes: Array | None = None
) -> list[Array]:
    """Clusters of at most ``size`` rows around centres far from each other.

    [Oneata2011] alg. 4.2 with ceil(n / size) centres, in O(n) for each.  The clusters may be
    very uneven: small ones, and those without two rows of one class, join the cluster of the
    nearest centre; large ones are halved by :func:`recursive_projection`.
    """
    n = len(cloud)
    centre = rng.randint(n)
    centres, owner = [cloud.row(centre)], np.zeros(n, dtype=int)
    nearest = cloud.squared_distances(centres[0])
    nearest[centre] = 0.0  # exactly: rounding must not make it a centre again
    for k in range(1, -(-n // size)):
        centre = int(np.argmax(nearest))
        if nearest[centre] == 0.0:
            break  # fewer distinct points than clusters
        centres.append(cloud.row(centre))
        distance = cloud.squared_distances(centres[-1])
        distance[centre] = 0.0
        closer = distance < nearest
        owner[closer], nearest[closer] = k, distance[closer]
    order = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[order], np.arange(1, len(centres)))
    groups = _join_small(np.split(order, edges), np.array(centres), size, codes)
    return [part for group in groups for part in recursive_projection(cloud, group, size, rng)]


def _join_small(groups: list[Array], centres: Array, size: int, codes: Array | None) -> list[Array]:
    """Merge clusters too small to learn from into the cluster of the nearest centre."""
    clusters = dict(enumerate(groups))
    small = {k for k, rows in clusters.items() if _is_small(rows, size, codes)}
    while small and len(clusters) > 1:
        smallest = min(small, key=lambda k: (len(clusters[k]), k))
        rows = clusters.pop(smallest)
        small.discard(smallest)
        others = np.array(list(clusters))
        away = centres[others] - centres[smallest]
        nearest = int(others[np.argmin(np.einsum("ij,ij->i", away, away))])
        clusters[nearest] = np.concatenate([clusters[nearest], rows])
        if not _is_small(clusters[nearest], size, codes):
            small.discard(nearest)
    return list(clusters.values())


def _is_small(rows: Array, size: int, codes: Array | None) -> bool:
    if len(rows) < max(2, _SMALL * size):
        return True
    return codes is not None and len(np.unique(codes[rows])) == len(rows)
