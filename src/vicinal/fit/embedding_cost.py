"""What a fit of an embedding costs, before it is begun."""

from __future__ import annotations

from typing import Any

from vicinal._threads import n_threads
from vicinal.engines.set_sums import SetSumsCost, set_sums_cost
from vicinal.fit.memory import converted_bytes
from vicinal.fit.plan import Cost
from vicinal.targets.build import affinities_bytes
from vicinal.targets.lengths import list_length

__all__ = ["check_cost", "embedding_cost", "engine_of", "plan_in_words"]

_LENGTH = 3  # times as long as at least are lists that leave out 1 %: of mnist, 351 rows
_ENTRY = 3e-9  # seconds of one thread for an entry of the lists
#: seconds of one thread for an evaluation above which exact sums must be asked for by name
MOST_SECONDS = 10.0
_ARRAYS = 14  # of the solver and the loop, as large as the picture
_IN_WORDS = {
    "dense": "all pairs in whole arrays",
    "tiles": "all pairs",
    "fft": "potentials on a grid",
}


def engine_of(estimator: Any, n: int) -> str:
    """The engine of the repulsion: "dense", "tiles" or "fft"."""
    return _sums_cost(estimator, n).engine


def _sums_cost(estimator: Any, n: int) -> SetSumsCost:
    d, k = int(estimator.n_components), min(int(estimator.k), max(1, n - 2))
    kappa = float(estimator.kappa)
    return set_sums_cost(n, d, k, estimator.kernel, kappa, estimator.method)


def check_cost(estimator: Any, n: int) -> None:
    """Refuse exact sums that take very long, unless they are asked for by name."""
    engine, seconds, _ = _sums_cost(estimator, n)
    if engine != "tiles" or estimator.method == "exact" or seconds <= MOST_SECONDS:
        return
    raise ValueError(
        f"KSNE with kernel={estimator.kernel!r}, kappa={estimator.kappa:g} and "
        f"n_components={estimator.n_components} compares all {n * n:.2g} pairs of {n} rows: about "
        f"{seconds / n_threads():.2g} s for each of the {estimator.max_iter} iterations. "
        "method='exact' accepts that; the fast way is for kernel='cauchy', kappa=0 and one or two "
        "components."
    )


def embedding_cost(estimator: Any, X: Any) -> Cost:
    """Memory of a fit beyond its input, and seconds for each evaluation."""
    n, d = int(X.shape[0]), int(estimator.n_components)
    k, threads = min(int(estimator.k), max(1, n - 2)), n_threads()
    engine, seconds, work = _sums_cost(estimator, n)
    length = min(n - 1, _LENGTH * list_length(n, float(estimator.perplexity), k))
    making = affinities_bytes(n, length, k, threads)
    # the lists, and both ways: an index and a number for each entry
    kept = 12 * n * length + (24 * n * length if engine != "dense" else 0)
    points = 8 * n * d * _ARRAYS
    seconds = seconds + _ENTRY * 2 * n * length
    memory = converted_bytes(X) + max(making, kept + points + work)
    return Cost(int(memory), seconds if engine == "dense" else seconds / threads)


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
