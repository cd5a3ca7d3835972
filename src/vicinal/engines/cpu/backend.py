"""Compiled loops over tiles of pairs and over lists, on all cores: the backend for larger data.

The functions are those of `base.Backend`.  Each imports what it needs when it is called, so that
a fit to small data, or one of another backend, does not load the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
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
from vicinal.targets import Affinities

#: least number of references, and most dimensions, of an index over them: 1.1 to 2.4 times as fast
#: as all pairs at 1,000 to 13,000 references, in 2 to 15 dimensions (nca_few_queries.md)
INDEX_FROM = 1000
INDEX_UP_TO = 32


def class_sums(data: Data, kernel: Kernel, pairs: Pairs | None = None) -> ClassSums:
    """See `base.Backend`."""
    from vicinal.engines.cpu.class_sums import CompiledSums, ListSums, prepare
    from vicinal.engines.cpu.tiles import Tiles

    if pairs is not None:
        return ListSums(data, kernel, pairs)
    queries, references, places, *rows = prepare(data, kernel)
    engine = Tiles(queries, references, places, kernel)
    return CompiledSums(engine, "tiles", data.Z, (rows[0], rows[1]), kernel)


def joint_sums(data: Data, kernel: Kernel) -> ClassSums:
    """As one class: tiles then leave out more of the far pairs, half the time on separate ones."""
    return class_sums(data._replace(codes=np.zeros_like(data.codes)), kernel)


def match_sums(data: Data, target: Any, kernel: Kernel, pairs: Pairs | None = None) -> MatchSums:
    """See `base.Backend`."""
    if pairs is not None:
        from vicinal.engines.cpu.listed_pairs import ListMatchSums

        return ListMatchSums(data, target, kernel, pairs)
    from vicinal.engines.cpu.matches import block_match_sums

    return block_match_sums(data, target, kernel)


def charged_sums(
    data: Data, charges: Array, kernel: Kernel, pairs: Pairs | None = None
) -> ChargedSums:
    """See `base.Backend`."""
    if pairs is not None:
        from vicinal.engines.cpu.listed_pairs import ListChargedSums

        return ListChargedSums(data, charges, kernel, pairs)
    from vicinal.engines.cpu.charged import BlockChargedSums

    return BlockChargedSums(data, charges, kernel)


def votes(data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> Votes:
    """See `base.Backend`."""
    from vicinal.engines.cpu.votes import CompiledVotes

    return CompiledVotes(data, k, unanimous, pairs)


def margins(triples: Triples, candidates: Any = None) -> Margins:
    """See `base.Backend`."""
    from vicinal.engines.cpu.margins import ListedMargins

    return ListedMargins(triples, candidates)


def make_index(
    Z: Array, codes: Array, rows: Array, kernel: Kernel, n_queries: int
) -> PairSource | None:
    """See `base.Backend`, and benchmarks/results/nca_few_queries.md."""
    n, d = len(rows), Z.shape[1]
    if kernel.reaches_everywhere or n < INDEX_FROM or d > INDEX_UP_TO or n_queries >= n:
        return None
    from vicinal.engines.cpu import ranges

    return ranges.make_index(Z, codes, rows)


def attraction(
    Z: Array,
    target: Affinities,
    kernel: str,
    kappa: float,
    rows: tuple[Array, Array] | None = None,
    gradient: bool = True,
) -> tuple[float, Array | None]:
    """See `base.Backend`; the lists of some rows are few, and left to NumPy."""
    if rows is not None:
        from vicinal.engines.dense.sets import attraction as of_some

        return of_some(Z, target, kernel, kappa, rows, gradient)
    from vicinal.engines.cpu.sets import attraction as of_all

    return of_all(Z, target, kernel, kappa, gradient)


def set_sums(
    Z: Array, k: int, kernel: str, kappa: float, query_rows: Array, reference_rows: Array,
    method: str = "auto",
) -> SetSums:  # fmt: skip
    """See `base.Backend`."""
    from vicinal.engines.set_sums import uses_grid

    n, d = Z.shape
    everything = len(query_rows) == len(reference_rows) == n
    if uses_grid(n, d, kernel, kappa, everything, method):
        from vicinal.engines.cpu.grid import GridSets

        return GridSets(Z, k)
    from vicinal.engines.cpu.sets import TileSets

    return TileSets(Z, k, kernel, kappa, query_rows, reference_rows)


def set_potential(Z: Array, k: int, kernel: str, kappa: float) -> SetPotential:
    """See `base.Backend`."""
    from vicinal.engines.cpu.potential import CompiledPotential, GridPotential
    from vicinal.engines.set_sums import uses_grid

    n, d = Z.shape
    if uses_grid(n, d, kernel, kappa):
        return GridPotential(Z, k)
    return CompiledPotential(Z, k, kernel, kappa)


def sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
) -> tuple[Array, Array]:
    """See `base.Backend`."""
    from vicinal.engines.cpu import class_sums

    return class_sums.sums_by_class(Z, data, kernel, n_classes, places)


def leading_sums_by_class(
    Z: Array, data: Data, kernel: Kernel, n_classes: int
) -> tuple[Array, Array]:
    """See `base.Backend`."""
    from vicinal.engines.cpu import class_sums_near

    return class_sums_near.leading_sums_by_class(Z, data, kernel, n_classes)


def kernel_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """See `base.Backend`."""
    from vicinal.engines.cpu import charged

    return charged.kernel_means(Z, Z_reference, charges, mass, kernel)


def entropies(Z: Array, places: Array, Z_reference: Array, mass: Array, kernel: Kernel) -> Array:
    """See `base.Backend`."""
    from vicinal.engines.cpu import class_sums

    return class_sums.entropies(Z, places, Z_reference, mass, kernel)


def win_shares(
    Z: Array, Z_reference: Array, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """See `base.Backend`."""
    from vicinal.engines.cpu import votes

    return votes.win_shares(Z, Z_reference, codes, n_classes, k, unanimous)


def chi2_rows(X: Array, Y: Array, same: bool) -> Array:
    """See `base.Backend`."""
    from vicinal.engines.cpu import margins

    return margins.chi2_rows(X, Y, same)


def nearest_histograms(X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
    """See `base.Backend`."""
    from vicinal.engines.cpu import margins

    return margins.nearest_histograms(X, Y, k, same)


def simplex_columns(L: Array, slack: float) -> Array:
    """See `base.Backend`."""
    from vicinal.engines.cpu import margins

    return margins.simplex_columns(L, slack)
