"""Time and memory of a fit, of a fit of an embedding, and of a prediction, before they are begun.

Whether they take seconds or hours, megabytes or gigabytes: times are rough, and memory, the peak
beyond the input, is usually within a factor of two (`benchmarks/memory.py` measures it).  What a
pair of rows takes, the objectives and maps state (`PairCost`, `MapCost`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator

from vicinal import _features
from vicinal._threads import n_threads
from vicinal.affinities.lengths import list_length
from vicinal.core.types import EvaluationSize, MapCost, MatrixLike, PairCost
from vicinal.engines import choose
from vicinal.engines.set_sums import set_sums_engine
from vicinal.starts.spectral import WIDE, basis_size

_PRODUCT = 0.15  # nanoseconds of one thread per entry of X and dimension
#: seconds of a pair on a GPU, and of each dimension: by differences, and by products
_GPU_PAIR, _GPU_DOT, _GPU_START = (0.4e-12, 0.3e-12), (1.4e-12, 2e-14), 3e-4
_GPU_SET = 1e-12  # for each of k neighbours: an estimate
_CLASSES = 10  # where nobody has said how many there are
_ROW = 220  # bytes of a query besides its coordinates; of other rows, and without gradient, 1/4
_COPIES = 5  # of the embedded points, with their gradients
_BLAS_FROM, _BLAS_BLOCK = 48, 768**2  # dimensions from which BLAS computes distances; a block
_GRADIENTS = 32  # of a nonlinear map: partial sums, and the memory of a solver
_VOTERS = 900  # bytes of a row while n_neighbors="auto" is chosen
_SEARCH = 2**23  # bytes of a thread that searches neighbours among distances to all rows
_LISTED_AT_ONCE, _NEIGHBOUR = 2**14, 20  # rows whose lists are searched at a time; bytes of a pair
#: kSNE's lists are this many times the minimum if they may leave out 5 %, 2 %, or less: mnist, usps
_LENGTHS = ((0.05, 1.05), (0.02, 2.2), (0.0, 3.5))
_ENTRY = 3e-9  # seconds of one thread for an entry of them
#: seconds of one thread for an evaluation above which exact sums must be asked for by name
MOST_SECONDS = 10.0
_ENGINES = {
    "dense": "all pairs in whole arrays",
    "tiles": "all pairs",
    "fft": "potentials on a grid",
    "gpu": "all pairs on a GPU",
}


class Size(NamedTuple):
    """The size that determines the cost of a fit."""

    n: int
    n_features: int
    n_components: int
    itemsize: int
    dense: bool
    pair: PairCost
    n_classes: int = 0  # if there are classes
    converted: int = 0  # bytes of a copy of the input in floating point
    chooses_votes: bool = False  # n_neighbors="auto", for which neighbours are searched
    searched_rows: int = 0  # most rows that a search for a penalty or a rank learns from
    brings_matches: bool = False  # a row of a batch brings all rows that match it
    map: MapCost | None = None  # of a nonlinear map that states it
    gpu: str = ""  # what computes the sums there, if the rows are on a GPU


class Cost(NamedTuple):
    """Memory beyond the input and time of one evaluation of the objective."""

    memory_bytes: int
    seconds_per_evaluation: float

    def __str__(self) -> str:
        return (
            f"about {self.memory_bytes / 2**20:.1f} MiB beyond the input and "
            f"{in_short(self.seconds_per_evaluation)} s for each evaluation"
        )


class PredictionCost(NamedTuple):
    """Memory beyond the input, and time, of a prediction."""

    memory_bytes: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"about {self.memory_bytes / 2**20:.1f} MiB beyond the input and {self.seconds:.2g} s"
        )


def in_short(seconds: float) -> str:
    """Two digits, and no exponent for long times: 150, not 1.5e+02."""
    rounded = float(f"{seconds:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10.0 else f"{rounded:g}"


def converted_bytes(X: MatrixLike) -> int:
    """Bytes of the copy that is made of a table which does not hold float32 or float64."""
    dtype = getattr(X, "dtype", None)
    if dtype is None or (dtype.kind == "f" and dtype.itemsize in (4, 8)):
        return 0
    return 8 * int(X.nnz if sp.issparse(X) else X.shape[0] * X.shape[1])


# A fit


def evaluation_seconds(
    size: Size,
    rows: int,
    queries: int | None = None,
    length: int | None = None,
    threads: int | None = None,
) -> float:
    """Seconds of one evaluation on some rows: O(n² d + n d D) if it is on all pairs of n rows.

    ``queries`` of the rows (None: all) are compared with all rows, or with lists of a length.
    """
    queries = rows if queries is None else queries
    if size.gpu:
        return gpu_seconds(size, rows * queries)
    if length is not None:  # the search for the lists is extra
        pairs: float = queries * length
        fixed, per_dimension = size.pair.listed
    else:
        pairs = rows * queries / (2 if queries == rows and size.pair.both_ways else 1)
        fixed, per_dimension = size.pair.single if size.itemsize == 4 else size.pair.double
    row = 2 * _PRODUCT * size.n_features * size.n_components
    if size.map is not None:
        row = size.map.nanoseconds
    nanoseconds = pairs * (fixed + per_dimension * size.n_components) + rows * row
    threads = n_threads() if threads is None else threads
    return float(np.round(nanoseconds * 1e-9 / threads, 6))


def gpu_seconds(size: Size, pairs: float) -> float:
    """Seconds of one evaluation on a GPU as measured on an H200, whichever it is."""
    d = size.n_components
    each = _GPU_PAIR[0] + _GPU_PAIR[1] * d if d <= 8 else _GPU_DOT[0] + _GPU_DOT[1] * d
    return float(np.round(pairs * each * size.pair.gpu_times + _GPU_START, 6))


def fit_cost(plan: Any, size: Size) -> Cost:
    """The cost of a fit by a plan."""
    n, (rows, queries) = size.n, plan.step(size.n)
    if rows < n:
        rows = min(rows * (1 + size.pair.company), n)
    length = min(plan.neighborhood.m, n) if plan.has_lists else None
    seconds = evaluation_seconds(size, rows, queries, length)
    return Cost(int(_fit_bytes(plan, size, rows, queries, length)), seconds)


def _fit_bytes(plan: Any, size: Size, rows: int, queries: int, length: int | None) -> float:
    """What is kept all along, and the largest of the steps that follow each other."""
    n, D, d, threads = size.n, size.n_features, size.n_components, n_threads()
    kept: float = size.converted + min(1_200_000, 2000 * n) + threads * min(1024, n) * D * 8
    if size.dense and n * D * 8 <= _features.copy_limit():
        kept += n * D * 8
    if size.map is not None:
        kept += min(threads * size.map.block, n) * size.map.row_bytes
        kept += 8 * _GRADIENTS * size.map.n_parameters
    # two stages, the second in float64, or one in float32
    itemsize = 8 if plan.sampling.fixed and length is None else size.itemsize
    loss = _COPIES * d * size.itemsize + _ROW / 4  # of a row, in the final loss
    loss = size.pair.pair_bytes * n if choose.is_small(n) else loss
    steps = [
        # the start: matrices of the columns, or a basis of very many
        60 * D**2 if D <= WIDE else 24 * (n + D) * basis_size(n, D, d),
        (8 * rows * D if rows < n else 0)
        + _evaluation_bytes(size, rows, queries, itemsize, length),
        n * loss,
    ]
    if size.searched_rows:  # each fold learns from all pairs of these rows
        few = min(n, size.searched_rows)
        steps.append(8 * few * (D if few < n else 0) + _evaluation_bytes(size, few, few, 8))
    if size.chooses_votes:
        steps.append(n * _VOTERS)
    if size.pair.company and not size.brings_matches:  # target neighbours are searched in the input
        steps.append(min(threads * _SEARCH, 12 * n * n))
    return kept + max(steps)


def _evaluation_bytes(
    size: Size, rows: int, queries: int, itemsize: int, length: int | None = None
) -> float:
    """Memory of an evaluation of the objective, with its gradient."""
    d, n_classes, copies = size.n_components, size.n_classes or _CLASSES, _COPIES
    listed = length is not None
    more = size.pair.more(EvaluationSize(queries, size.n_features, d, itemsize, n_classes, listed))
    if choose.is_small(rows):
        return size.pair.pair_bytes * rows**2 + more
    if d >= _BLAS_FROM:
        more += n_threads() * _BLAS_BLOCK * itemsize
    if length is not None:
        from vicinal.engines.cpu.lists import n_lanes  # loads the compiler

        copies += n_lanes(rows, queries, d, itemsize)
        # the lists, the points that they hold for, in float64, and the copies that the search makes
        more += rows * (4 * length + 24 * d) + min(rows, _LISTED_AT_ONCE) * length * _NEIGHBOUR
    return rows * (copies * d * itemsize + (_ROW if queries == rows else _ROW / 4)) + more


# A fit of an embedding


def engine_of(estimator: BaseEstimator, n: int) -> str:
    """The engine of the repulsion of kSNE: "dense", "tiles", "fft" or "gpu"."""
    if estimator.device not in (None, "cpu"):
        return "gpu"
    d, kappa = int(estimator.n_components), float(estimator.kappa)
    return set_sums_engine(n, d, estimator.kernel, kappa, True, estimator.method)


def _sums_cost(estimator: BaseEstimator, n: int) -> tuple[float, float]:
    """Seconds of one thread, and bytes, of the repulsion of n points.

    The time of a grid depends on how far the points are spread, here as in a finished picture, and
    that of exact sums on how many rows need the chain, here none with the Cauchy kernel and all
    with the Gaussian.
    """
    d, k = int(estimator.n_components), _k_of(estimator, n)
    engine, even, chain = engine_of(estimator, n), d + d % 2, estimator.kernel == "gaussian"
    if engine == "gpu":  # on a GPU the number of threads does not count
        return n_threads() * ((_GPU_SET * k + _GPU_PAIR[1] * d) * n * n + _GPU_START), 32.0 * n
    if engine == "fft":
        return 2.8e-6 * (k + 1) * n, 800.0 * (k + 1) * n
    if engine == "dense":
        return (2.5e-8 + 3e-9 * k) * n * n + 5e-4, 80.0 * n * n
    nanoseconds = (2.2 + 0.15 * k + 0.5 * even) * n * n
    nanoseconds += chain * (3.7 * n * n + 400.0 * k * k * n)
    return 1e-9 * nanoseconds, 8.0 * n * (12 * even + (6 + 9 * chain) * k + 6)


def _k_of(estimator: BaseEstimator, n: int) -> int:
    return min(int(estimator.k), max(1, n - 2))


def check_cost(estimator: BaseEstimator, n: int) -> None:
    """Refuse exact sums that take very long, unless they are asked for by name."""
    seconds = _sums_cost(estimator, n)[0]
    exact = engine_of(estimator, n) == "tiles" and estimator.method != "exact"
    if not exact or seconds <= MOST_SECONDS:
        return
    raise ValueError(
        f"KSNE with kernel={estimator.kernel!r}, kappa={estimator.kappa:g} and "
        f"n_components={estimator.n_components} compares all {n * n:.2g} pairs of {n} rows: about "
        f"{seconds / n_threads():.2g} s for each of the {estimator.max_iter} iterations. "
        "method='exact' accepts that; the fast way is for kernel='cauchy', kappa=0 and one or two "
        "components."
    )


def embedding_cost(estimator: BaseEstimator, X: MatrixLike) -> Cost:
    """Memory of a fit beyond its input, and seconds for each evaluation."""
    n, k, threads = int(X.shape[0]), _k_of(estimator, int(X.shape[0])), n_threads()
    seconds, work = _sums_cost(estimator, n)
    stretch = next(times for share, times in _LENGTHS if estimator.max_missing >= share)
    length = min(n - 1, int(stretch * list_length(n, float(estimator.perplexity), k)))
    if choose.is_small(n):
        making, threads = 120 * n * length, 1
    else:
        making = (12 * n + 24 * min(n, 4096)) * length + threads * max(_SEARCH, 800 * n)
    # lists both ways, the points, and copies of them in the solver and the loop
    using = 36 * n * length + 14 * 8 * n * int(estimator.n_components) + work
    seconds = (seconds + _ENTRY * 2 * n * length) / threads
    return Cost(int(converted_bytes(X) + max(making, using)), seconds)


def plan_in_words(estimator: BaseEstimator, X: MatrixLike, given: MatrixLike) -> str:
    """One line about what a fit will do, and what it needs; ``given`` is X before it was checked.

    X has been checked.
    """
    cost = embedding_cost(estimator, given if hasattr(given, "dtype") else X)
    return (
        f"{X.shape[0]} rows, repelled by {_ENGINES[engine_of(estimator, X.shape[0])]}, for at most "
        f"{estimator.max_iter} iterations. Needs {cost}."
    )


# A prediction


def prediction_cost(model: Any, rule: str, X: MatrixLike) -> PredictionCost:
    """The cost of predicting rows from a model, by what the model states."""
    m, (n, d), s, outputs = X.shape[0], model.Z.shape, model.Z.itemsize, model.n_outputs
    cost = model.cost(rule)
    compared = m * (cost.row_bytes + 2 * d * s + 80)
    limit = get_config()["working_memory"] * 2**20  # of the rows that are compared at a time
    memory = min(compared, limit) + m * (8 * outputs + d * s) + cost.fixed_bytes
    memory = max(memory, cost.entry_bytes * m * X.shape[1]) + converted_bytes(X)
    seconds = m * n * cost.nanoseconds * 1e-9 / n_threads()
    return PredictionCost(int(memory), float(np.round(seconds, 6)))
