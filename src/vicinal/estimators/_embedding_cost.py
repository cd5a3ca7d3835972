"""What a fit of an embedding costs, before it is begun."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import n_threads
from vicinal.engines import choose
from vicinal.estimators._memory import converted_bytes
from vicinal.estimators._plan import Cost
from vicinal.targets.build import affinities_bytes
from vicinal.targets.lengths import list_length

__all__ = ["check_cost", "embedding_cost", "engine_of", "plan_in_words"]

# Nanoseconds of one thread for a pair of rows, with its attraction: fixed, for each member of a
# set, for each dimension.  Measured at 4,000 rows on an AVX2 machine.
_CAUCHY, _GAUSSIAN = (1.5, 0.25, 1.2), (6.0, 1.4, 1.2)
_DENSE = (25.0, 15.0, 0.0)  # the same for whole arrays in NumPy
# Nanoseconds for each row and for each node of the grid, for each of k + 1 potentials.
_ROW, _NODE = 600.0, 50.0
_LENGTH = 3  # times as long as at least are lists that leave out 1 %: of mnist, 351 rows
_ENTRY = 3.0  # nanoseconds for an entry of the lists
#: seconds of one thread for an evaluation above which exact sums must be asked for by name
MOST_SECONDS = 10.0
_ARRAYS = 14  # of the solver and the loop, as large as the picture
_DENSE_ARRAYS = 6  # of all pairs, besides one for each member of a set
_IN_WORDS = {
    "dense": "all pairs in whole arrays",
    "tiles": "all pairs",
    "fft": "potentials on a grid",
}


def engine_of(estimator: Any, n: int) -> str:
    """The engine of the repulsion: "dense", "tiles" or "fft"."""
    d, kappa = int(estimator.n_components), float(estimator.kappa)
    return choose.set_sums_engine(n, d, estimator.kernel, kappa, True, estimator.method)


def check_cost(estimator: Any, n: int) -> None:
    """Refuse exact sums that take very long, unless they are asked for by name."""
    engine = engine_of(estimator, n)
    if engine != "tiles" or estimator.method == "exact":
        return
    seconds = _pair_seconds(estimator, n, engine)
    if seconds <= MOST_SECONDS:
        return
    raise ValueError(
        f"KSNE with kernel={estimator.kernel!r}, kappa={estimator.kappa:g} and "
        f"n_components={estimator.n_components} compares all {n * n:.2g} pairs of {n} rows: about "
        f"{seconds / n_threads():.2g} s for each of the {estimator.max_iter} iterations. "
        "method='exact' accepts that; the fast way is for kernel='cauchy', kappa=0 and one or two "
        "components."
    )


def _pair_seconds(estimator: Any, n: int, engine: str) -> float:
    fixed, member, dimension = _CAUCHY if estimator.kernel == "cauchy" else _GAUSSIAN
    if engine == "dense":
        fixed, member, dimension = _DENSE
    return 1e-9 * n * n * (fixed + member * estimator.k + dimension * estimator.n_components)


def _width(n: int) -> float:
    """How wide a picture of n rows becomes, roughly."""
    return 200.0 * (n / 10_000.0) ** 0.4


def embedding_cost(estimator: Any, X: Any) -> Cost:
    """Memory of a fit beyond its input, and seconds for each evaluation."""
    n, d, k = int(X.shape[0]), int(estimator.n_components), int(estimator.k)
    k = min(k, max(1, n - 2))
    engine, threads = engine_of(estimator, n), n_threads()
    length = min(n - 1, _LENGTH * list_length(n, float(estimator.perplexity), k))
    making = affinities_bytes(n, length, k, threads)
    # the lists, and both ways: an index and a number for each entry
    kept = 12 * n * length + (24 * n * length if engine != "dense" else 0)
    points = 8 * n * d * _ARRAYS
    entries = _ENTRY * 2 * n * length
    if engine == "fft":
        from vicinal.engines.cpu.grid import grid_bytes

        work = grid_bytes(np.full(d, _width(n)), k) + 16 * (k + 6) * n
        nodes = work / (16 * (2 * k + 3))
        seconds = 1e-9 * ((k + 1) * (_ROW * n + _NODE * nodes) + entries) / threads
    elif engine == "dense":
        work, seconds = 8 * n * n * (_DENSE_ARRAYS + k), _pair_seconds(estimator, n, engine)
    else:
        work = 8 * n * (3 * k + 16)
        seconds = _pair_seconds(estimator, n, engine) / threads
    memory = converted_bytes(X) + max(making, kept + points + work)
    return Cost(int(memory), float(seconds))


def plan_in_words(estimator: Any, X: Any, given: Any) -> str:
    """One line about what a fit will do, and what it needs; ``given`` is X before it was checked.

    X has been checked.
    """
    engine = _IN_WORDS[engine_of(estimator, X.shape[0])]
    cost = embedding_cost(estimator, given if hasattr(given, "dtype") else X)
    return (
        f"{X.shape[0]} rows, repelled by {engine}, for at most {estimator.max_iter} iterations. "
        f"Needs {cost}."
    )
