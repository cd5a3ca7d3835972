"""The limit that exponentials and multiply-adds set, measured, and the share of it reached.

Counting, for one unordered pair of points (N² / 2 of them) in d dimensions, both passes:

- 2 exponentials, one in each pass (one serves both directions of a pair);
- the squared distance in each pass: a subtraction and a multiply-add per dimension, 2 · 2d;
- the pull on both points: a subtraction and two multiply-adds per dimension, 3d;
- some 6 more: the minimum for row and column, the sum for row and column, the pair's weight.

Each of those is counted as one multiply-add.  With inner products in place of differences a
distance takes d and the pull 2d, together 4d in place of 7d: a lower count for large d, at the
price of digits, given against it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import joblib
import numpy as np
from _common import Options, progress, seconds, table
from _evaluation import DOUBLE, SINGLE, evaluation_times

from vicinal.kernels._jit import exp2, kernel, multiply_add

_LENGTH = 1024  # numbers: 4 or 8 KiB, well inside the first-level cache
_CHAIN = 32  # multiply-adds on each number between load and sum
_OTHER = 6


@kernel
def _exponentials(x, rounds, step):
    """Sum of 2**(x - shift) over an array in L1, ``rounds`` times with another shift."""
    total = shift = x.dtype.type(0)
    for _ in range(rounds):
        for j in range(x.shape[0]):
            total += exp2(shift - x[j])
        shift -= step
    return total


@kernel
def _multiply_adds(x, rounds, a, b):
    """_CHAIN multiply-adds for each number of an array in L1, ``rounds`` times.

    The chain of one number is dependent; the processor overlaps those of several vectors.
    """
    total = x.dtype.type(0)
    for _ in range(rounds):
        for j in range(x.shape[0]):
            t = x[j]
            for _ in range(_CHAIN):
                t = multiply_add(t, a, b)
            total += t
        b = b + a
    return total


def _nanoseconds(kernel: Any, arguments: tuple, operations: int, target: float) -> float:
    """Nanoseconds per operation with all cores at work at once: the best of five."""
    threads = joblib.cpu_count()
    x = np.linspace(0.0, 20.0, _LENGTH).astype(arguments[0])
    rest = [x.dtype.type(value) for value in arguments[1:]]
    kernel(x, 1, *rest)  # compile
    began = perf_counter()
    kernel(x, 200, *rest)
    rounds = max(200, int(200 * target / (perf_counter() - began)))
    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            began = perf_counter()
            for job in [pool.submit(kernel, x, rounds, *rest) for _ in range(threads)]:
                job.result()
            best = min(best, perf_counter() - began)
    return best / (threads * rounds * _LENGTH * operations) * 1e9


def throughput(target: float = 0.2) -> dict[str, tuple[float, float]]:
    """Nanoseconds per exponential and per multiply-add, all cores together, by precision."""
    found = {}
    for name in (SINGLE, DOUBLE):
        exponential = _nanoseconds(_exponentials, (name, 1e-3), 1, target)
        fused = _nanoseconds(_multiply_adds, (name, 0.999, 1e-3), _CHAIN, target)
        found[name] = exponential, fused
    return found


def limit_seconds(n: int, d: int, rates: tuple[float, float], per_dimension: int = 7) -> float:
    """The least time of one value-and-gradient by the counting at the top of this file."""
    exponential, fused = rates
    return n * n / 2 * (2 * exponential + (per_dimension * d + _OTHER) * fused) * 1e-9


def limit_section(options: Options) -> str:
    """Rates of the two operations, and how near the objective comes to what they allow."""
    n = 2000 if options.quick else 60_000
    target = 0.02 if options.quick else 0.2
    progress("limit: rates of exponentials and multiply-adds")
    before = throughput(target)
    times = {d: evaluation_times(n, d, options)[0] for d in ((2, 5) if options.quick else (2, 32))}
    progress("limit: the rates again")
    after = throughput(target)
    rates = {name: tuple(map(min, before[name], after[name])) for name in before}
    pairs = [p for name in rates for p in zip(before[name], after[name], strict=True)]
    drift = max(max(pair) / min(pair) for pair in pairs)
    speeds = table(
        ["precision", "ns per exponential", "ns per multiply-add"],
        [[name, f"{pair[0]:.3f}", f"{pair[1]:.4f}"] for name, pair in rates.items()],
        [f"All {joblib.cpu_count()} cores at once, arrays in the first-level cache, the kernels' "
         f"own exponential; the better of before and after (they differed by {drift:.2f}×)."],
    )  # fmt: skip
    rows = []
    for d, measured in times.items():
        for name in (SINGLE, DOUBLE):
            if name in measured:
                limit = limit_seconds(n, d, rates[name])
                by_products = limit_seconds(n, d, rates[name], per_dimension=4)
                best = measured[name].best
                rows.append(
                    [f"{n:,}", d, name, seconds(limit), seconds(best), f"{limit / best:.0%}",
                     f"{seconds(by_products)}, {by_products / best:.0%}"]
                )  # fmt: skip
    notes = [
        "Counted for each of the N²/2 pairs: 2 exponentials; the squared distance in both passes, "
        "2 · 2d; the pull on both points, 3d; and 6 more (minima, sums, weight). Each of those "
        "7d + 6 is taken for one multiply-add.",
        "By products: 4d + 6, distances and pull written as inner products, which lose digits. "
        "A stricter limit where d is large.",
        "The least measured time (X → A → value and dA, D = 50) is compared with the limit.",
    ]
    header = ["N", "d", "precision", "limit", "measured", "share reached", "limit by products"]
    return speeds + "\n\n" + table(header, rows, notes)
