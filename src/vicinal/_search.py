"""Nearest-neighbour searches behind one function: trees, brute force, faiss."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import KDTree
from sklearn.metrics import euclidean_distances
from threadpoolctl import threadpool_limits

from vicinal._threads import block_edges, n_threads, run, single_threaded_blas
from vicinal.core.types import Array

# Measured for the 100 nearest of 50,000 standard normal points: a tree takes 0.4 times as long as
# brute force in 5 dimensions and 6 times as long in 10.  SciPy's tree takes 0.44 times as long as
# scikit-learn's in 5 dimensions and 0.8 times in 10.
_TREE_TO = 8
_QUERIES = 256  # of a tree, answered at a time; an interrupt waits for them
_FAISS_FROM, _FAISS_ABOVE_D = 50_000, 5
_PAIRS = 2**19  # distances per block and thread: 4 MB
_FILTER_FROM = 2000  # points from which inner products in float32 come first
# Products with few rows are slow: this many queries are compared at a time, fewer with more points.
_FILTER_QUERIES, _FILTER_PAIRS = 64, 2**23  # 32 MB
_MANY = 64  # times k: a block with more candidates than that for each query is compared exactly
_EXACT_TO = 10_000  # number of references up to which faiss compares all
# Searched cells of the inverted file, out of 2 sqrt(n): of the 100 nearest of 50,000 standard
# normal points 100 % were found in 5 dimensions, 99 % in 10 and 85 % in 20.
_PROBES = 64

#: positions of the k nearest points of each query, nearest first (-1: none); squared distances
Find = Callable[[Array, int], tuple[Array, Array]]


def finder(search: str, points: Array) -> Find:
    """A search among the rows of ``points``: "auto", "exact", "tree", "brute" or "faiss".

    See `resolved`; only "brute" accepts a sparse table.
    """
    return {"tree": _tree, "brute": _brute, "faiss": _faiss}[resolved(search, points)](points)


@singledispatch
def nearest_elsewhere(points: Any, queries: Any, k: int, itself: bool) -> tuple[Array, Array]:
    """Distances and positions of the k nearest of points that lie elsewhere, nearest first.

    With ``itself`` the queries are the points, of which none is its own neighbour.
    """
    raise TypeError(f"There is no search among points of the type {type(points).__name__}.")


def resolved(search: str, points: Array) -> str:
    """What a search is: "tree", "brute" or "faiss".

    "exact" is the faster of "tree" and "brute".  "auto" is faiss where that is installed and there
    are many rows, else "exact"; a sparse table is searched by brute force.
    """
    if search not in ("auto", "exact"):
        return search
    n, d = points.shape
    if sp.issparse(points):
        return "brute"
    large = n > _FAISS_FROM and d > _FAISS_ABOVE_D
    if search == "auto" and large and find_spec("faiss") is not None:
        return "faiss"
    return "tree" if d <= _TREE_TO else "brute"


def _tree(points: Array) -> Find:
    """A k-d tree, on our own threads.

    SciPy's (``workers``) do not stop at an interrupt and write on into arrays that have been freed.
    """
    tree = KDTree(points)

    def find(queries: Array, k: int) -> tuple[Array, Array]:
        n, nearest = queries.shape[0], np.arange(1, k + 1)
        near, found = np.empty((n, k), np.int64), np.empty((n, k))

        def task(first: int, thread: int) -> None:
            rows = slice(first, min(first + _QUERIES, n))
            found[rows], near[rows] = tree.query(queries[rows], nearest)
            np.square(found[rows], out=found[rows])

        run(task, range(0, n, _QUERIES), n_threads())
        return near, found

    return find


def _brute(points: Array) -> Find:
    """All distances, in blocks of fixed sizes.

    scikit-learn's parallel search would choose among equally distant points differently on one
    thread than on two.
    """
    centre = _centre(points)
    points = points if sp.issparse(points) else points - centre
    few = sp.issparse(points) or len(points) < _FILTER_FROM
    closest = None if few else _Filter(points)

    def find(queries: Array, k: int) -> tuple[Array, Array]:
        n = queries.shape[0]
        near, found = np.empty((n, k), np.int64), np.empty((n, k))
        size = max(1, _PAIRS // points.shape[0])
        if closest is not None:
            size = max(size, min(_FILTER_QUERIES, _FILTER_PAIRS // points.shape[0]))

        def task(first: int, thread: int) -> None:
            rows = slice(first, min(first + size, n))
            block = queries[rows] if sp.issparse(queries) else queries[rows] - centre
            some = None if closest is None else closest(block, k)
            if some is None:
                some = _nearest(euclidean_distances(block, points, squared=True), k)
            near[rows], found[rows] = some

        with single_threaded_blas():
            run(task, range(0, n, size), n_threads())
        return near, found

    return find


class _Filter:
    """The nearest of many points: by float32 inner products first, and then exactly.

    Measured for the 6 nearest of 25,000 points in 10 dimensions: 0.2 times as long as exact
    distances to all of them; of 6,000 points in 784 dimensions: 0.4 times.
    """

    def __init__(self, points: Array) -> None:
        self.points = points
        largest = float(np.abs(points).max(initial=0.0))
        self.scale = 1.0 / largest if largest > 0 else 1.0
        self.single = self._scaled(points)
        norm = np.einsum("ij,ij->i", self.single, self.single, dtype=np.float64)
        self.norm, self.largest = norm.astype(np.float32), float(norm.max(initial=0.0))
        # rounding errors of the products and of the points
        self.error = (points.shape[1] + 8) * float(np.finfo(np.float32).eps)

    def _scaled(self, points: Array) -> Array:
        return np.multiply(points, self.scale, dtype=points.dtype).astype(np.float32)

    def __call__(self, queries: Array, k: int) -> tuple[Array, Array] | None:
        """Positions and squared distances of the k nearest; None if the filter is no use."""
        n, groups = len(self.points), 16 * k
        if 4 * groups > n:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            block = self._scaled(queries)
            own = np.einsum("ij,ij->i", block, block, dtype=np.float64)
            if not own.max(initial=0.0) < 1e30:  # far out, or not finite
                return None
        s = (-2.0 * block) @ self.single.T
        s += self.norm  # squared distances less that of the query to the centre
        # k groups hold a point no farther than this, so the k-th nearest is no farther either
        least = s[:, : n - n % groups].reshape(len(s), -1, groups).min(axis=1)
        bound = np.partition(least, k - 1, axis=1)[:, k - 1]
        bound += (4.0 * self.error * (own + self.largest)).astype(np.float32)
        flat = np.flatnonzero(s <= bound[:, None])  # ten times as fast as np.nonzero
        if len(flat) > _MANY * k * len(s):
            return None
        i, j = np.divmod(flat, n)
        difference = queries[i].astype(np.float64) - self.points[j]
        d2 = np.einsum("ij,ij->i", difference, difference)
        order = np.lexsort((j, d2, i))
        first = np.searchsorted(i, np.arange(len(s)))
        chosen = order[first[:, None] + np.arange(k)]
        return j[chosen], d2[chosen]


def _centre(points: Array) -> Array:
    """A centre of the points: distances from inner products lose digits far from the origin."""
    if sp.issparse(points):
        return np.zeros(points.shape[1])
    return points[: 1 + len(points) // 4].mean(axis=0)


def _nearest(d2: Array, k: int) -> tuple[Array, Array]:
    """The k smallest of each row, sorted; ties keep their order."""
    near = np.argpartition(d2, k - 1, axis=1)[:, :k] if k < d2.shape[1] else None
    if near is None:
        near = np.tile(np.arange(d2.shape[1]), (len(d2), 1))
    near = np.sort(near, axis=1)
    found = np.take_along_axis(d2, near, axis=1)
    order = np.argsort(found, axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(found, order, axis=1)


def _faiss(points: Array) -> Find:
    """An inverted file; the bits do not depend on the threads, since each block runs on one."""
    faiss = _import_faiss()
    centre = _centre(points)
    n, d = points.shape
    points = np.ascontiguousarray(points - centre, dtype=np.float32)
    index = faiss.IndexFlatL2(d)
    if n > _EXACT_TO:
        cells = int(2 * np.sqrt(n))
        index = faiss.IndexIVFFlat(index, d, cells)
        index.cp.max_points_per_centroid = 64
        index.nprobe = min(_PROBES, cells)
    with threadpool_limits(1):
        index.train(points)
        index.add(points)

    def find(queries: Array, k: int) -> tuple[Array, Array]:
        queries = np.ascontiguousarray(queries - centre, dtype=np.float32)
        near, d2 = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        edges = block_edges(len(queries), 1024)
        threads = min(n_threads(), len(edges) - 1)

        def task(block: int, thread: int) -> None:
            faiss.omp_set_num_threads(1)  # applies to this thread only
            part = slice(edges[block], edges[block + 1])
            index.search(queries[part], k, D=d2[part], I=near[part])

        with threadpool_limits(1):
            run(task, range(len(edges) - 1), threads)
        return near, d2

    return find


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "search='faiss' needs the package faiss-cpu: pip install faiss-cpu"
        ) from error
    return faiss
