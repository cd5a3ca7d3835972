"""How much memory a fit takes beyond its input, path by path.

The figures are peaks: what is kept all along, plus the largest of the steps that follow each other.
`benchmarks/memory.py` measures them.  What depends on the data is not known beforehand: LMNN's
lists of impostors are counted as two per cent of all pairs, and those that trees keep are left out.
"""

from __future__ import annotations

from typing import Any

from vicinal import _features
from vicinal._threads import n_threads
from vicinal.engines import choose

__all__ = ["converted_bytes", "fit_bytes"]

_FIXED = 1_200_000  # samples of rows that set a scale, scratch of the threads
_DENSE = 8  # arrays of all pairs, on small data
_BLOCK = 768  # rows and columns of a block of distances by BLAS,
_BLAS_FROM = 48  # from so many dimensions on
_STATISTICS = 220  # bytes of a row besides its coordinates: codes, order, masses, sums, factors
_QUERY_STATISTICS = 60  # the same for a loss of few rows against all
_COPIES = 5  # of the embedded points: themselves, sorted, their gradient twice, and one on the way
_VALUE_COPIES = 4  # the same for a loss without a gradient
_TREE_TO, _DISTANCES = 8, 2**19  # dimensions up to which a search uses a tree, else all distances
_FOUND = 20  # bytes of a neighbour while lists are made
_VOTES, _VOTE, _CHUNK = 50, 24, 2**24  # of n_neighbors="auto": candidates, bytes of each search
_TREE_COPIES = 12  # of the points, for sums by trees: partial gradients, nodes and leaves


def converted_bytes(X: Any) -> int:
    """Bytes of the copy that is made of a table which does not hold float32 or float64."""
    dtype = getattr(X, "dtype", None)
    if dtype is None or (dtype.kind == "f" and dtype.itemsize in (4, 8)):
        return 0
    return 8 * int(X.shape[0]) * int(X.shape[1]) if not hasattr(X, "indptr") else 8 * int(X.nnz)


def fit_bytes(plan: Any, size: Any) -> int:
    """Peak of the memory of a fit beyond its input."""
    n, D, d = size.n, size.n_features, size.n_components
    kept = size.converted
    if size.dense and n * D * 8 <= _features.copy_limit():
        kept += n * D * 8
    steps = [_evaluation(plan, size)]
    if size.pair.more is not None:
        steps[0] += size.pair.more(n, D, d, size.itemsize)
    if size.pair.company:  # a search for target neighbours in the input
        steps.append(n_threads() * _DISTANCES * 12)
    if size.chooses_votes:
        steps.append(n * (_VOTES + 8 * d + 32) + min(_CHUNK, n * _VOTES * _VOTE))
    return int(kept + max(steps) + _FIXED + n_threads() * 1024 * D * 8)


def _evaluation(plan: Any, size: Any) -> float:
    """Memory of an evaluation of the objective."""
    n, D, d = size.n, size.n_features, size.n_components
    if n <= choose.DENSE_UP_TO:
        return _DENSE * 8 * n * n
    if plan.has_lists:
        return _lists(size, min(plan.pairs.m, n) + getattr(plan.pairs, "own", 0))
    # two stages, the second in float64, or one in float32
    itemsize = 8 if plan.sampling.fixed else size.itemsize
    blocks = n_threads() * _BLOCK**2 * itemsize if d >= _BLAS_FROM else 0
    rows = plan.rows_together(n)
    if rows < n:
        # the scale and the final loss come from all rows
        whole = n * (_VALUE_COPIES * d * size.itemsize + _QUERY_STATISTICS)
        batch = rows * (_COPIES * d * itemsize + _STATISTICS)
        return rows * D * 8 + max(whole, batch) + blocks
    statistics = _STATISTICS if plan.sampling.fixed else _QUERY_STATISTICS
    copies = _COPIES if plan.pairs is None else _TREE_COPIES
    return n * (copies * d * itemsize + statistics) + blocks


def _lists(size: Any, length: int) -> float:
    """Memory of lists of pairs, of the search for them, and of an evaluation over them."""
    # here, because they load the compiler, which small data do not need
    from vicinal.engines.cpu.lists import n_lanes
    from vicinal.neighbourhoods.parts import SEARCHED

    n, d = size.n, size.n_components
    lanes = n_lanes(n, n, d, size.itemsize) * -(-d // 4) * 4 * size.itemsize
    evaluation = n * (lanes + _COPIES * d * size.itemsize + _STATISTICS)
    search = min(n, SEARCHED) * (length + 1) * _FOUND
    if d > _TREE_TO:  # all distances, in blocks
        search += n_threads() * _DISTANCES * 16
    # besides the lists, the points that they hold for, in float64, and those of the search
    return n * (4 * length + 24 * d) + max(search, evaluation)
