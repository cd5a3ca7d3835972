"""Which sums over all sets of k references kSNE uses, and what an evaluation takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vicinal.engines import choose

__all__ = ["FFT_FROM", "SetSumsCost", "set_sums_cost", "set_sums_engine", "uses_grid"]

#: most rows for exact sums of kSNE: with more, interpolation is the faster way early and late in a
#: fit, see benchmarks/results/ksne_engines.md
FFT_FROM = 2000


class SetSumsCost(NamedTuple):
    """An engine of kSNE, and what an evaluation takes: seconds of one core, and bytes."""

    engine: str
    core_seconds: float
    memory_bytes: int


def uses_grid(
    n: int, d: int, kernel: str, kappa: float, everything: bool = True, method: str = "auto"
) -> bool:
    """Whether potentials on a grid are interpolated; ``method`` may ask for it.

    That is for the Cauchy kernel without a constant, in one or two dimensions, with all rows as
    queries and references (``everything``).
    """
    fits = kernel == "cauchy" and kappa == 0 and d <= 2 and everything
    if method == "fft" and not fits:
        raise ValueError(
            "method='fft' of KSNE needs the kernel 'cauchy' without a constant, one or two "
            "dimensions, and all rows as queries and references. "
            f"Got the kernel {kernel!r}, kappa={kappa:g}, {d} dimensions"
            f"{'' if everything else ' and some of the rows'} instead."
        )
    return method == "fft" or (method == "auto" and fits and n > FFT_FROM)


def set_sums_engine(
    n: int, d: int, kernel: str, kappa: float, everything: bool = True, method: str = "auto"
) -> str:
    """The engine of kSNE for n points on the host: "dense", "tiles" or "fft"."""
    if uses_grid(n, d, kernel, kappa, everything, method):
        return "fft"
    return "dense" if choose.is_small(n) else "tiles"


def set_sums_cost(
    n: int, d: int, k: int, kernel: str, kappa: float, method: str = "auto"
) -> SetSumsCost:
    """What an evaluation of n points with all rows takes, with its gradient.

    Roughly: the time of a grid goes by how far the points are spread, here as in a finished
    picture, and the time of exact sums by how many rows need the chain, here none of those with the
    Cauchy kernel and all of those with the Gaussian.
    """
    engine = set_sums_engine(n, d, kernel, kappa, True, method)
    even = d + d % 2
    if engine == "fft":
        from vicinal.engines.cpu.grid_points import grid_bytes

        memory = grid_bytes(np.full(d, 2.0 * n ** (1 / d)), k) + 16 * (k + 6) * n
        return SetSumsCost(engine, 2.8e-6 * (k + 1) * n, memory)
    if engine == "dense":
        return SetSumsCost(engine, (2.5e-8 + 3e-9 * k) * n * n + 5e-4, 80 * n * n)
    nanoseconds = (2.2 + 0.15 * k + 0.5 * even) * n * n
    memory = 8 * n * (12 * even + 6 * k + 6)
    if kernel == "gaussian":
        nanoseconds += 1.2 * n * n + n * (2.5 * n + 400.0 * k * k)
        memory += 8 * n * 9 * k
    return SetSumsCost(engine, 1e-9 * nanoseconds, memory)
