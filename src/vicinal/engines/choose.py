"""The choice of the engine, for learning and for prediction; no other module makes it.

Up to ``DENSE_UP_TO`` rows, NumPy computes whole arrays and nothing is compiled; beyond that,
compiled loops run over tiles of pairs.  The choice depends only on the size of the problem, never
on what is cached or installed, so the same input gives the same bits everywhere.  The size is the
number of embedded rows for learning, and the number of references for prediction, so that the
prediction for a row does not depend on how many rows are predicted.  Candidate lists always use the
compiled loops; a pair object with a method ``engine`` (`base.PairSource`) chooses its own engine.

Tests of the compiled loops on tiny data set ``DENSE_UP_TO`` to 0.
"""

from __future__ import annotations

from typing import Any

from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.engines import (
    dense,
    dense_margins,
    dense_matches,
    dense_means,
    dense_sets,
    dense_votes,
)
from vicinal.engines.base import (
    ChargedSums,
    ClassSums,
    Data,
    Margins,
    MatchSums,
    PairSource,
    SetPotential,
    SetSums,
    Triples,
    Votes,
)
from vicinal.engines.dense_potential import DensePotential
from vicinal.targets import Affinities, Labels

__all__ = [
    "DENSE_UP_TO", "FFT_FROM", "all_pairs", "attraction", "charged_sums",
    "check_lists", "chi2_rows", "class_sums", "entropies", "few_terms", "is_small",
    "kernel_means", "make_index", "margins", "match_sums", "nearest_histograms", "set_potential",
    "set_sums", "set_sums_engine", "simplex_columns", "sums_by_class", "votes",
    "win_shares",
]  # fmt: skip

#: largest number of rows left to NumPy, see benchmarks/results/small_fits.md
DENSE_UP_TO = 500
#: least number of references, and most dimensions, of an index over them: 1.1 to 2.4 times as fast
#: as all pairs at 1,000 to 13,000 references, in 2 to 15 dimensions (nca_few_queries.md)
INDEX_FROM = 1000
INDEX_UP_TO = 32
#: most rows for exact sums of kSNE: with more, interpolation is the faster way early and late in a
#: fit, see benchmarks/results/ksne_engines.md
FFT_FROM = 2000
_CHI2_TERMS = 8  # most bins at DENSE_UP_TO rows; more bins with fewer rows


def is_small(n_rows: int) -> bool:
    """Whether NumPy handles that many rows."""
    return n_rows <= DENSE_UP_TO


# Compiled engines are imported only when needed: small data do not load numba.


def class_sums(
    data: Data, kernel: Kernel, pairs: Pairs | PairSource | None = None, owner: str = "nca"
) -> ClassSums:
    """The engine that sums a kernel over the classes, for NCA and MCML."""
    if pairs is None:
        return all_pairs(data, kernel)
    if isinstance(pairs, Pairs):
        from vicinal.engines.cpu.class_sums import ListSums

        return ListSums(data, kernel, pairs)
    if hasattr(pairs, "engine"):
        return pairs.engine(data, kernel)
    raise TypeError(
        f"The 'pairs' parameter of {owner} must be Pairs, Bounded or None. Got {pairs!r} instead."
    )


def all_pairs(data: Data, kernel: Kernel) -> ClassSums:
    """The engine that sums over all pairs."""
    if is_small(len(data.Z)):
        return dense.DenseSums(data, kernel)
    from vicinal.engines.cpu.class_sums import TileSums

    return TileSums(data, kernel)


def match_sums(data: Data, target: Any, kernel: Kernel, pairs: Pairs | None = None) -> MatchSums:
    """The engine that sums a kernel over references that match, for NCA with soft matches."""
    if isinstance(target, Labels):
        return class_sums(data, kernel, pairs)
    if pairs is not None:
        from vicinal.engines.cpu.listed_pairs import ListMatchSums

        return ListMatchSums(data, target, kernel, pairs)
    if is_small(len(data.Z)):
        return dense_matches.DenseMatchSums(data, target, kernel)
    from vicinal.engines.cpu.matches import BlockMatchSums

    return BlockMatchSums(data, target, kernel)


def charged_sums(
    data: Data, charges: Array, kernel: Kernel, pairs: Pairs | None = None
) -> ChargedSums:
    """The engine that averages the charges (n, q) of the references, for MLKR."""
    if pairs is not None:
        from vicinal.engines.cpu.listed_pairs import ListChargedSums

        return ListChargedSums(data, charges, kernel, pairs)
    if is_small(len(data.Z)):
        return dense_matches.DenseChargedSums(data, charges, kernel)
    from vicinal.engines.cpu.charged import BlockChargedSums

    return BlockChargedSums(data, charges, kernel)


def make_index(
    Z: Array, codes: Array, rows: Array, kernel: Kernel, n_queries: int
) -> PairSource | None:
    """An index of some rows, for many evaluations with few queries each; None if it saves no time.

    See benchmarks/results/nca_few_queries.md.
    """
    n, d = len(rows), Z.shape[1]
    if kernel.reaches_everywhere or is_small(len(Z)) or n < INDEX_FROM or d > INDEX_UP_TO:
        return None
    if n_queries >= n:
        return None
    from vicinal.engines.cpu import ranges

    return ranges.make_index(Z, codes, rows)


def check_lists(pairs: Any, owner: str) -> None:
    """Raise unless ``pairs`` is candidate lists or None."""
    if pairs is not None and not isinstance(pairs, Pairs):
        raise TypeError(
            f"The 'pairs' parameter of {owner} must be Pairs or None. Got {pairs!r} instead."
        )


def votes(data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> Votes:
    """The engine that counts the votes of k neighbours, for kNCA."""
    if pairs is None and is_small(len(data.Z)):
        return dense_votes.DenseVotes(data, k, unanimous)
    from vicinal.engines.cpu.sweep import CompiledVotes

    return CompiledVotes(data, k, unanimous, pairs)


def margins(triples: Triples, candidates: Any = None) -> Margins:
    """The engine that finds the hinges of target neighbours and impostors, for LMNN."""
    small = few_terms(*triples.Z.shape) if triples.chi2 else is_small(len(triples.Z))
    if small:
        return dense_margins.DenseMargins(triples)
    from vicinal.engines.cpu.margins import ListedMargins

    return ListedMargins(triples, candidates)


def attraction(
    Z: Array,
    target: Affinities,
    kernel: str,
    kappa: float,
    rows: tuple[Array, Array] | None = None,
    gradient: bool = True,
) -> tuple[float, Array | None]:
    """The sum of ``-p_ij log w_ij`` and its gradient by Z, in float64.

    ``rows`` are queries and references, None for all; the lists of some rows are few, and left to
    NumPy.
    """
    if rows is not None or is_small(len(Z)):
        return dense_sets.attraction(Z, target, kernel, kappa, rows, gradient)
    from vicinal.engines.cpu.attraction import attraction

    return attraction(Z, target, kernel, kappa, gradient)


def set_sums(
    Z: Array,
    k: int,
    kernel: str,
    kappa: float,
    query_rows: Array,
    reference_rows: Array,
    method: str = "auto",
) -> SetSums:
    """The engine that sums over all sets of k references, for kSNE.

    ``method`` is "exact", "fft", or "auto" for the one that `set_sums_engine` names.
    """
    n, d = Z.shape
    everything = len(query_rows) == len(reference_rows) == n
    arguments = Z, k, kernel, kappa, query_rows, reference_rows
    engine = set_sums_engine(n, d, kernel, kappa, everything, method)
    if engine == "fft":
        from vicinal.engines.cpu.grid import GridSets

        return GridSets(Z, k)
    if engine == "dense":
        return dense_sets.DenseSets(*arguments)
    from vicinal.engines.cpu.sets import TileSets

    return TileSets(*arguments)


def set_sums_engine(
    n: int, d: int, kernel: str, kappa: float, everything: bool = True, method: str = "auto"
) -> str:
    """The engine of kSNE for n points: "dense", "tiles" or "fft".

    Interpolation is for the Cauchy kernel without a constant, in one or two dimensions, with all
    rows as queries and references (``everything``).
    """
    fits = kernel == "cauchy" and kappa == 0 and d <= 2 and everything
    if method == "fft":
        if not fits:
            raise ValueError(
                "method='fft' of KSNE needs the kernel 'cauchy' without a constant, one or two "
                "dimensions, and all rows as queries and references. "
                f"Got the kernel {kernel!r}, kappa={kappa:g}, {d} dimensions"
                f"{'' if everything else ' and some of the rows'} instead."
            )
        return "fft"
    if method == "auto" and fits and n > FFT_FROM:
        return "fft"
    return "dense" if is_small(n) else "tiles"


def set_potential(Z: Array, k: int, kernel: str, kappa: float) -> SetPotential:
    """The engine that sums over all sets of k of the points Z, as seen from other places."""
    engine = set_sums_engine(len(Z), Z.shape[1], kernel, kappa)
    if engine == "dense":
        return DensePotential(Z, k, kernel, kappa)
    from vicinal.engines.cpu.potential import CompiledPotential, GridPotential

    if engine == "fft":
        return GridPotential(Z, k)
    return CompiledPotential(Z, k, kernel, kappa)


def sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """log2 of the kernel sums of points over each class, and their shifts: (n, n_classes).

    As in `base.RowSums`.  Only the references of ``data`` are used.  ``places`` gives, for a point
    that is a row of ``data.Z``, that row, which the point never picks (-1, or None: no row).
    """
    if is_small(len(data.reference_rows)):
        return dense.class_sums(Z, data, kernel, n_classes, places)
    from vicinal.engines.cpu.class_sums import sums_by_class

    return sums_by_class(Z, data, kernel, n_classes, places)


def leading_sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int
) -> tuple[Array, Array]:
    """As `sums_by_class`, with the digits that class probabilities need.

    What adds less than 1e-9 to the sum over all classes may be left out, so that the sum over a
    class far away may be empty; very many pairs are summed in float32.
    """
    if is_small(len(data.reference_rows)):
        return dense.class_sums(Z, data, kernel, n_classes, None)
    from vicinal.engines.cpu.class_sums_near import leading_sums_by_class

    return leading_sums_by_class(Z, data, kernel, n_classes)


def kernel_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """The mean of the references' charges (r, q), weighted by the kernel and the masses: (n, q).

    For kernels that reach everywhere: the weights are computed relative to the nearest reference,
    so that a point far from all of them has a mean too.  The bits of a point's mean do not depend
    on the other points below 48 dimensions; from there on, products of matrices have the distances.
    """
    if is_small(len(Z_reference)):
        return dense_means.kernel_means(Z, Z_reference, charges, mass, kernel)
    from vicinal.engines.cpu.kernel_means import kernel_means

    return kernel_means(Z, Z_reference, charges, mass, kernel)


def entropies(Z: Array, places: Array, Z_reference: Array, mass: Array, kernel: Kernel) -> Array:
    """exp of the entropy of each point's choice among the references, 0 if there are none.

    ``places`` are the positions of the points among the references, -1 for other points; masses
    are in (0, 1].
    """
    arguments = Z, places, Z_reference, mass, kernel
    if is_small(len(Z_reference)):
        return dense.entropies(*arguments)
    from vicinal.engines.cpu.class_sums import entropies

    return entropies(*arguments)


def win_shares(
    Z: Array, Z_reference: Array, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """Chance that each class wins the vote of k references, given no tie: (n, n_classes)."""
    arguments = Z, Z_reference, codes, n_classes, k, unanimous
    if is_small(len(Z_reference)):
        return dense_votes.win_shares(*arguments)
    from vicinal.engines.cpu.sweep import win_shares

    return win_shares(*arguments)


def few_terms(n: int, n_bins: int) -> bool:
    """Whether the histograms are few, and have few bins: every term of χ² has a division."""
    return is_small(n) and n * n * n_bins <= _CHI2_TERMS * DENSE_UP_TO**2


def chi2_rows(X: Array, Y: Array, same: bool) -> Array:
    """Chi-squared distances between all rows of X and Y, in their dtype."""
    if few_terms(*Y.shape):
        return dense_margins.chi2_rows(X, Y).astype(X.dtype, copy=False)
    from vicinal.engines.cpu.histograms import chi2_rows

    return chi2_rows(X, Y, same)


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """Distances and positions of the k nearest rows of Y, nearest first."""
    if few_terms(*Y.shape):
        distances, near = dense_margins.nearest_histograms(X, Y, k, same)
        return distances.astype(X.dtype, copy=False), near
    from vicinal.engines.cpu.histograms import nearest_histograms

    return nearest_histograms(X, Y, k, same)


def simplex_columns(L: Array, slack: float) -> Array:
    """The matrix nearest to L, (r, D), whose columns are on the probability simplex."""
    if L.size <= DENSE_UP_TO**2:  # as many entries as the largest small data have pairs
        return dense_margins.simplex_columns(L, slack)
    from vicinal.engines.cpu.columns import simplex_columns

    return simplex_columns(L, slack)
