"""How much memory a fit takes beyond its input, path by path.

The figures are peaks: what is kept all along, plus the largest of the steps that follow each other.
`benchmarks/memory.py` measures them.  What depends on the data is not known beforehand:

- LMNN's lists of impostors are counted at the most they may hold, see `_margins.kept_bytes`;
- lists that trees keep are left out, and trees are counted where all pairs may take less time;
- a stage in float64 is counted, which a fit that ends by ``max_iter`` in float32 never begins: it
  takes down to 0.7 of what is stated.
"""

from __future__ import annotations

from typing import Any

from vicinal import _features
from vicinal._threads import n_threads
from vicinal.core.types import EvaluationSize
from vicinal.engines import choose

__all__ = ["converted_bytes", "fit_bytes"]

_FIXED = 1_200_000  # samples of rows that set a scale, scratch of the threads
_SEARCHING = 800_000  # results, and predictions, of a search
_CLASSES = 10  # where nobody has said how many there are
_BLOCK = 768  # rows and columns of a block of distances by BLAS,
_BLAS_FROM = 48  # from so many dimensions on
_STATISTICS = 220  # bytes of a row besides its coordinates: codes, order, masses, sums, factors
_QUERY_STATISTICS = 60  # the same for a loss of few rows against all
_COPIES = 5  # of the embedded points: themselves, sorted, their gradient twice, and one on the way
_VALUE_COPIES = 4  # the same for a loss without a gradient
_TREE_TO, _DISTANCES = 8, 2**19  # dimensions up to which a search uses a tree, else all distances
_FOUND = 20  # bytes of a neighbour while lists are made
_VOTES, _VOTE, _CHUNK = 50, 16, 2**25 // 3  # of n_neighbors="auto": candidates, bytes of each
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
    if size.searched_rows:  # each fold learns from all pairs of these rows
        few = size._replace(n=min(n, size.searched_rows))
        copy = 8 * few.n * D if few.n < n else 0
        steps.append(copy + _all_pairs(few, few.n, 8) + min(_SEARCHING, 1300 * n))
    if size.pair.company and not size.brings_matches:  # target neighbours are searched in the input
        steps.append(n_threads() * min(_DISTANCES, n * n) * 12)
    if size.chooses_votes:
        steps.append(n * (_VOTES + 8 * d + 32) + min(_CHUNK, n * _VOTES * _VOTE))
    if size.map is not None:
        kept += size.map.memory_bytes(n, n_threads())
    fixed = min(_FIXED, 2000 * n)
    return int(kept + max(steps) + fixed + n_threads() * min(1024, n) * D * 8)


def _evaluation(plan: Any, size: Any) -> float:
    """Memory of an evaluation of the objective."""
    n, D, d = size.n, size.n_features, size.n_components
    if n <= choose.DENSE_UP_TO:
        return size.pair.dense(_evaluated(size, n, 8))
    if plan.has_lists:
        length = min(plan.pairs.m, n) + getattr(plan.pairs, "own", 0)
        return _lists(size, length)
    # two stages, the second in float64, or one in float32
    itemsize = 8 if plan.sampling.fixed else size.itemsize
    rows = plan.rows_together(n)
    if rows < n:
        # the scale and the final loss come from all rows
        whole = n * (_VALUE_COPIES * d * size.itemsize + _QUERY_STATISTICS)
        embedded = min(rows * (1 + size.pair.company), n)
        batch = _all_pairs(size, embedded, itemsize)
        return embedded * D * 8 + max(whole + _blocks(size, itemsize), batch)
    if plan.sampling.fixed and plan.pairs is None:
        return _all_pairs(size, n, itemsize)
    queries = min(int(getattr(plan.sampling, "size", n)), n)
    more = _more(size, queries, itemsize) + _blocks(size, itemsize)
    if plan.pairs is None:
        return n * (_COPIES * d * itemsize + _QUERY_STATISTICS) + more
    return n * (_TREE_COPIES * d * itemsize + _STATISTICS) + more


def _all_pairs(size: Any, rows: int, itemsize: int) -> float:
    """Memory of an evaluation of the objective, with its gradient, over all pairs of some rows."""
    if rows <= choose.DENSE_UP_TO:
        return size.pair.dense(_evaluated(size, rows, 8))
    points = rows * (_COPIES * size.n_components * itemsize + _STATISTICS)
    return points + _more(size, rows, itemsize) + _blocks(size, itemsize)


def _blocks(size: Any, itemsize: int) -> int:
    """Memory of the distances that BLAS computes."""
    return n_threads() * _BLOCK**2 * itemsize if size.n_components >= _BLAS_FROM else 0


def _more(size: Any, rows: int, itemsize: int, listed: bool = False) -> float:
    """Memory that an objective takes besides the points."""
    if size.pair.more is None:
        return 0.0
    return size.pair.more(_evaluated(size, rows, itemsize)._replace(listed=listed))


def _evaluated(size: Any, rows: int, itemsize: int) -> EvaluationSize:
    """The size of an evaluation on some rows."""
    n_classes = size.n_classes or _CLASSES
    return EvaluationSize(rows, size.n_features, size.n_components, itemsize, n_classes)


def _lists(size: Any, length: int) -> float:
    """Memory of lists of pairs, of the search for them, and of an evaluation over them."""
    # here, because they load the compiler, which small data do not need
    from vicinal.engines.cpu.lists import n_lanes
    from vicinal.neighbourhoods.parts import SEARCHED

    n, d = size.n, size.n_components
    lanes = n_lanes(n, n, d, size.itemsize) * -(-d // 4) * 4 * size.itemsize
    evaluation = n * (lanes + _COPIES * d * size.itemsize + _STATISTICS)
    evaluation += _more(size, n, size.itemsize, listed=True)
    search = min(n, SEARCHED) * (length + 1) * _FOUND
    if d > _TREE_TO:  # all distances, in blocks
        search += n_threads() * _DISTANCES * 16
    # besides the lists, the points that they hold for, in float64, and those of the search
    return n * (4 * length + 24 * d) + max(search, evaluation)
