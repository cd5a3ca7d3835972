"""Which sums over all sets of k references kSNE uses."""

from __future__ import annotations

from vicinal.engines import choose

#: most rows for exact sums of kSNE: with more, interpolation is the faster way for a whole fit, see
#: benchmarks/results/ksne_small.md and ksne_engines.md
FFT_FROM = 1750


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
