"""Which engine computes: the only place where that is decided, for learning and for prediction.

Up to ``DENSE_UP_TO`` rows whole arrays in NumPy do, and nothing is compiled; beyond, compiled
loops over tiles of pairs.  The choice depends on the size of the problem alone, never on what is
cached or installed, so that the same input gives the same bits everywhere.  For learning the size
is the number of embedded rows, for prediction the number of references: no row's answer depends on
how many others are asked for.  Candidate lists are always computed by compiled loops; a pair object
with a method ``engine`` (`base.PairSource`) chooses for itself.

A test that is about the compiled loops on tiny data sets ``DENSE_UP_TO`` to 0.
"""

from __future__ import annotations

from typing import Any

from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.engines import dense, dense_margins, dense_votes
from vicinal.engines.base import ClassSums, Data, Margins, PairSource, Triples, Votes

__all__ = [
    "DENSE_UP_TO",
    "all_pairs",
    "check_lists",
    "chi2_rows",
    "class_sums",
    "entropies",
    "is_small",
    "margins",
    "nearest_histograms",
    "simplex_columns",
    "sums_by_class",
    "votes",
    "win_shares",
]

#: rows up to which NumPy computes, see benchmarks/results/small_fits.md
DENSE_UP_TO = 500


def is_small(n_rows: int) -> bool:
    """Whether so many rows are left to NumPy."""
    return n_rows <= DENSE_UP_TO


# The compiled engines are imported when they are needed: small data do without numba.


def class_sums(data: Data, kernel: Kernel, pairs: Pairs | PairSource | None = None) -> ClassSums:
    """What sums a kernel over the classes: for NCA."""
    if pairs is None:
        return all_pairs(data, kernel)
    if isinstance(pairs, Pairs):
        from vicinal.engines.cpu.class_sums import ListSums

        return ListSums(data, kernel, pairs)
    if hasattr(pairs, "engine"):
        return pairs.engine(data, kernel)
    raise TypeError(
        f"The 'pairs' parameter of nca must be Pairs, Bounded or None. Got {pairs!r} instead."
    )


def all_pairs(data: Data, kernel: Kernel) -> ClassSums:
    """What sums over all pairs."""
    if is_small(len(data.Z)):
        return dense.DenseSums(data, kernel)
    from vicinal.engines.cpu.class_sums import TileSums

    return TileSums(data, kernel)


def check_lists(pairs: Any, owner: str) -> None:
    """Refuse what is neither candidate lists nor None."""
    if pairs is not None and not isinstance(pairs, Pairs):
        raise TypeError(
            f"The 'pairs' parameter of {owner} must be Pairs or None. Got {pairs!r} instead."
        )


def votes(data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> Votes:
    """What counts the votes of k neighbours: for kNCA."""
    if pairs is None and is_small(len(data.Z)):
        return dense_votes.DenseVotes(data, k, unanimous)
    from vicinal.engines.cpu.sweep import Sweep

    return Sweep(data, k, unanimous, pairs)


def margins(triples: Triples, candidates: Any = None) -> Margins:
    """What finds the hinges of target neighbours and impostors: for LMNN."""
    if is_small(len(triples.Z)):
        return dense_margins.DenseMargins(triples)
    from vicinal.engines.cpu.margins import ListedMargins

    return ListedMargins(triples, candidates)


def sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """log2 of the kernel's sums of points over each class, and their shifts: (n, n_classes).

    As in `base.RowSums`.  Only the references of ``data`` are used; ``places`` are the rows of
    ``data.Z`` that the points are, and so never pick (-1, or None: none).
    """
    if is_small(len(data.reference_rows)):
        return dense.class_sums(Z, data, kernel, n_classes, places)
    from vicinal.engines.cpu.class_sums import sums_by_class

    return sums_by_class(Z, data, kernel, n_classes, places)


def entropies(Z: Array, places: Array, Z_reference: Array, mass: Array, kernel: Kernel) -> Array:
    """exp of the entropy of each point's choice among the references, 0 where it has none.

    ``places`` are the positions of the points among the references, -1 for none; the masses are in
    (0, 1].
    """
    arguments = Z, places, Z_reference, mass, kernel
    if is_small(len(Z_reference)):
        return dense.entropies(*arguments)
    from vicinal.engines.cpu.class_sums import entropies

    return entropies(*arguments)


def win_shares(
    Z: Array, Z_reference: Array, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """Chance of each class to win the vote of k references, ties left out: (n, n_classes)."""
    arguments = Z, Z_reference, codes, n_classes, k, unanimous
    if is_small(len(Z_reference)):
        return dense_votes.win_shares(*arguments)
    from vicinal.engines.cpu.sweep import win_shares

    return win_shares(*arguments)


def chi2_rows(X: Array, Y: Array, same: bool) -> Array:
    """Chi-squared distances of all pairs of rows, in the dtype of X and Y."""
    if is_small(len(Y)):
        return dense_margins.chi2_rows(X, Y).astype(X.dtype, copy=False)
    from vicinal.engines.cpu.histograms import chi2_rows

    return chi2_rows(X, Y, same)


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """Distances and positions of the k nearest rows of Y, nearest first."""
    if is_small(len(Y)):
        distances, near = dense_margins.nearest_histograms(X, Y, k, same)
        return distances.astype(X.dtype, copy=False), near
    from vicinal.engines.cpu.histograms import nearest_histograms

    return nearest_histograms(X, Y, k, same)


def simplex_columns(L: Array, slack: float) -> Array:
    """The nearest matrix to L, (r, D), with columns on the probability simplex."""
    if L.size <= DENSE_UP_TO**2:  # as many entries as small data have pairs
        return dense_margins.simplex_columns(L, slack)
    from vicinal.engines.cpu.columns import simplex_columns

    return simplex_columns(L, slack)
