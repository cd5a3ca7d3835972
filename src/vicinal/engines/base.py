"""The protocols of engines: first sums over pairs of rows, then their derivative.

The two steps are separate on purpose.  Between them, several devices or machines, each with part of
the references, can exchange their sums for the queries (`merge`); each then computes its part of
the gradient from the joint sums, and the parts add up.

There are six families.  `ClassSums` serves NCA and MCML, `MatchSums` NCA with soft matches,
`ChargedSums` MLKR, `Votes` kNCA, `Margins` LMNN, and `SetSums` kSNE.  A `Backend` has engines of
all families, for points of one type; :mod:`vicinal.engines.choose` is the only place that chooses
it.  Sums are arrays of the host, one column for each query; a gradient is where the points are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.targets import Affinities, TargetNeighbors

_LEAST_POWER = -500.0  # log2 of a sum that may be added up as it is


class Data(NamedTuple):
    """Embedded points, and which of them are queries and references.

    ``Z`` is (n, d), wherever it lies; ``codes`` and ``mass`` are (n,), the class of each row and
    its weight as a reference; ``query_rows`` and ``reference_rows`` are positions in Z.  A row is
    never its own reference.
    """

    Z: Any
    codes: Array
    mass: Array
    query_rows: Array
    reference_rows: Array


class RowSums(NamedTuple):
    r"""Kernel sums of each query over the other classes [0] and over its own class [1].

    The sum is :math:`\sum_j v_j \kappa(d_{ij}) = 2^{\mathrm{log2} - \mathrm{shift}}`; both arrays
    are (2, n_queries).  They are kept separate because far from all references ``shift`` is huge,
    and adding it would lose the digits of ``log2``.  An empty sum has ``log2`` = -inf and
    ``shift`` = inf.

    ``rows`` (n_queries,) are the queries, as rows of Z: an engine sorts them as suits its own
    references, so two engines may have the columns in different orders.
    """

    log2: Array
    shift: Array
    rows: Array

    def take(self, columns: Array | slice) -> RowSums:
        """Some of the columns."""
        return RowSums(self.log2[..., columns], self.shift[..., columns], self.rows[columns])


def columns_of(rows: Array, wanted: Array) -> Array | slice:
    """The columns of sums of the queries ``rows`` that put them into the order ``wanted``."""
    if rows is wanted or np.array_equal(rows, wanted):
        return slice(None)
    order, places = np.argsort(rows), np.argsort(wanted)
    if not np.array_equal(rows[order], wanted[places]):
        raise ValueError(
            "Engines must have the same queries for their sums to be merged. Got "
            f"{len(rows)} and {len(wanted)} queries, and those of one engine alone are the rows "
            f"{np.setxor1d(rows, wanted)[:5].tolist()}. Make each part of the data by "
            "data._replace(reference_rows=part)."
        )
    columns = np.empty_like(order)
    columns[places] = order
    return columns


def merge(a: RowSums, b: RowSums) -> RowSums:
    """The sums over the union of two disjoint sets of references, in the order of ``a.rows``."""
    b = b.take(columns_of(b.rows, a.rows))
    shift = np.minimum(a.shift, b.shift)
    base = np.where(np.isinf(shift), 0.0, shift)
    log2 = [part.log2 - (np.where(np.isinf(part.shift), base, part.shift) - base)
            for part in (a, b)]  # fmt: skip
    # the digits that a huge shift has lost are in `log2`, which may then be too small for a power
    top = np.maximum(*log2)
    top = np.where(np.isfinite(top) & (top < _LEAST_POWER), top, 0.0)
    with np.errstate(divide="ignore"):
        return RowSums(top + np.log2(sum(np.exp2(part - top) for part in log2)), shift, a.rows)


def exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum, and what the rounding took off; NaN where the sum is infinite."""
    total = a + b
    with np.errstate(invalid="ignore"):
        part = total - a
        return total, (a - (total - part)) + (b - part)


class ClassSums(Protocol):
    """Sums of a kernel over the classes, for NCA and MCML.

    ``share`` is the share of the pairs that the last call of `sums` computed one by one, ``name``
    is the name of the engine.
    """

    name: str

    @property
    def share(self) -> float: ...

    def sums(self) -> RowSums:
        """The sums of each query."""
        ...

    def pull(self, sums: RowSums, slopes: Array) -> Any:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d).

        ``slopes`` is (2, n_queries), with the columns of ``sums``.  ``sums`` is the result of
        `sums`, or that result merged with the sums over other references: then only the part of the
        engine's own references is returned.
        """
        ...


class MatchSums(ClassSums, Protocol):
    """Sums of a kernel over references that match to a degree, for NCA with soft matches.

    As `ClassSums`, with the degree :math:`m_{ij}` in place of equal classes: a reference counts
    with :math:`1 - m_{ij}` in the sum over what does not match [0], and with :math:`m_{ij}` in the
    sum over what matches [1].  A sum over all references would lose the digits of either.
    """


class Means(NamedTuple):
    """Means of charges over the references of each query, weighted by the kernel.

    ``log2`` and ``shift`` (n_queries,) are those of the sum of the weights, and ``rows`` are the
    queries, as in `RowSums`; ``means`` (n_queries, q) are the means, 0 for a query without any
    reference.
    """

    log2: Array
    shift: Array
    means: Array
    rows: Array

    def take(self, queries: Array | slice) -> Means:
        """The means of some of the queries."""
        return Means(*(part[queries] for part in self))


def merge_means(a: Means, b: Means) -> Means:
    """The means over the union of two disjoint sets of references, in the order of ``a.rows``."""
    b = b.take(columns_of(b.rows, a.rows))
    total = merge(*(RowSums(part.log2, part.shift, part.rows) for part in (a, b)))
    means = np.zeros_like(a.means)
    for part in (a, b):
        here = np.isfinite(part.shift)
        share = np.zeros(len(here))
        share[here] = np.exp2(
            (part.log2[here] - total.log2[here]) - (part.shift[here] - total.shift[here])
        )
        means += share[:, None] * part.means
    return Means(total.log2, total.shift, means, a.rows)


class ChargedSums(Protocol):
    """Means of the charges of the references, for kernel regression (MLKR).

    ``share`` and ``name`` are as in `ClassSums`.
    """

    name: str

    @property
    def share(self) -> float: ...

    def sums(self) -> Means:
        """The sum of the weights, and the means of the charges, of each query."""
        ...

    def pull(self, sums: Means, slopes: Array) -> Any:
        """Derivative of ``sum(slopes * means)`` by the points, (n, d).

        ``slopes`` is (n_queries, q), with the rows of ``sums``.  ``sums`` is the result of `sums`,
        or that result merged with the means over other references: then only the part of the
        engine's own references is returned.
        """
        ...


class PairSource(Protocol):
    """Alternative to lists for ``pairs=``: an object with an engine of its own."""

    def engine(self, data: Data, kernel: Kernel) -> ClassSums:
        """The engine that sums over the pairs."""
        ...


class Votes(Protocol):
    """Votes of k stochastic neighbours, for kNCA.

    The class summaries of a query, k numbers for each class, need too much memory to keep for all
    queries of a large problem.  So `sums` takes the slope as a function of the odds, and an engine
    may finish one batch of queries before it begins the next.

    ``query_rows`` are the rows of Z that the odds belong to, in that order; ``log_domain`` is the
    number of queries whose votes were counted in logarithms.
    """

    name: str
    query_rows: Array

    @property
    def share(self) -> float: ...

    @property
    def log_domain(self) -> int: ...

    def sums(self, slope: Callable[[Array], Array] | None = None) -> Array:
        """log2 of lost : won sets of each query, inf where none can be won.

        ``slope`` is the derivative of a query's loss by the natural logarithm of its odds; None if
        no gradient is needed.
        """
        ...

    def pull(self, weight: float) -> Any:
        """Gradient of the weight times the sum of all losses, (n, d)."""
        ...


class Triples(NamedTuple):
    """The input of a margin loss: points, target neighbours and possible impostors.

    ``Z`` is (n, d).  ``neighbors`` (n, k) are the target neighbours that count:
    those of queries, among the references; -1 for none.  ``targets`` are all target neighbours.
    ``is_query`` and ``is_reference`` are masks over the rows; ``weight`` of the dtype of ``Z`` is
    how much each row counts as an impostor, 0 for rows that are no references.
    """

    Z: Array
    neighbors: Array
    targets: TargetNeighbors
    is_query: Array
    is_reference: Array
    weight: Array
    mu: float
    margin: float
    chi2: bool


class Hinges(NamedTuple):
    """Sums over all queries: distances to target neighbours, hinges, active triples (i, j, l).

    Hinges and triples count with the weight of their impostor.
    """

    distances: float
    hinges: float
    n_impostors: int


class Margins(Protocol):
    """Hinges of target neighbours and impostors, for LMNN."""

    name: str

    @property
    def share(self) -> float: ...

    def sums(self, gradient: bool) -> Hinges:
        """The sums over all queries; `pull` may be called only after ``gradient=True``."""
        ...

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times ``distances + mu * hinges``, (n, d)."""
        ...


class SetSums(Protocol):
    """Sums over all sets of k references, for kSNE.

    ``facts`` are figures about the last call of `sums`, such as "chain_rows": the number of queries
    that were computed by the chain over all references, ``name`` is the name of the engine.
    """

    name: str
    facts: dict[str, float]

    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each query."""
        ...

    def pull(self, factors: Array) -> Any:
        """The gradient by Z of the sum of ``factors`` times the `sums`, which come first."""
        ...


class SetPotential(Protocol):
    """Sums over all sets of k of fixed points, seen from any place: what places new rows."""

    def __call__(self, places: Array) -> tuple[Array, Array]:
        """The log of the total weight at each place (m,), and its gradient by the place (m, d).

        The result of a place does not depend on the other places.
        """
        ...


class Backend(Protocol):
    """The engines for points of one type, and what predicts from such points: a module.

    A backend need not have all of them: what it leaves out, its points cannot be used for.
    """

    # Learning.  ``pairs`` are candidate lists, or None for all pairs.

    def class_sums(self, data: Data, kernel: Kernel, pairs: Pairs | None = None) -> ClassSums:
        """Sums of a kernel over the classes, for NCA."""

    def joint_sums(self, data: Data, kernel: Kernel) -> ClassSums:
        """The same where only the sum over all classes counts, in either of two parts, for MCML."""

    def match_sums(
        self, data: Data, target: Any, kernel: Kernel, pairs: Pairs | None = None
    ) -> MatchSums:
        """Sums of a kernel over references that match, for NCA with soft matches."""

    def charged_sums(
        self, data: Data, charges: Array, kernel: Kernel, pairs: Pairs | None = None
    ) -> ChargedSums:
        """Means of the charges (n, q) of the references, for MLKR."""

    def votes(self, data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> Votes:
        """The votes of k neighbours, for kNCA."""

    def margins(self, triples: Triples, candidates: Any = None) -> Margins:
        """Hinges of target neighbours and impostors, for LMNN."""

    def attraction(
        self,
        Z: Any,
        target: Affinities,
        kernel: str,
        kappa: float,
        rows: tuple[Array, Array] | None = None,
        gradient: bool = True,
    ) -> tuple[float, Any]:
        """The sum of ``-p_ij log w_ij`` and its gradient by Z, in float64, for kSNE.

        ``rows`` are queries and references, None for all.
        """

    def set_sums(
        self,
        Z: Any,
        k: int,
        kernel: str,
        kappa: float,
        query_rows: Array,
        reference_rows: Array,
        method: str = "auto",
    ) -> SetSums:
        """Sums over all sets of k references, for kSNE.

        ``method`` is "exact", "fft", or "auto" for the faster one (`set_sums.uses_grid`).
        """

    def make_index(
        self, Z: Array, codes: Array, rows: Array, kernel: Kernel, n_queries: int
    ) -> PairSource | None:
        """An index of some rows, for many evaluations with few queries; None if it saves no time.

        See `choose.class_sums` for its use.
        """

    # Prediction.  Row i of a result belongs to the point Z[i], and does not depend on the others.

    def sums_by_class(
        self, Z: Array, data: Data, kernel: Kernel, n_classes: int, places: Array | None = None
    ) -> tuple[Array, Array]:
        """log2 of the kernel sums of points over each class, and their shifts: (n, n_classes).

        As in `RowSums`.  Only the references of ``data`` are used.  ``places`` gives, for a point
        that is a row of ``data.Z``, that row, which the point never picks (-1, or None: no row).
        """

    def leading_sums_by_class(
        self, Z: Array, data: Data, kernel: Kernel, n_classes: int
    ) -> tuple[Array, Array]:
        """As `sums_by_class`, with the digits that class probabilities need.

        What adds less than 1e-9 to the sum over all classes may be left out, so that the sum over a
        class far away may be empty; very many pairs are summed in float32.
        """

    def kernel_means(
        self, Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
    ) -> Array:
        """The mean of the references' charges (r, q), weighted by the kernel and masses: (n, q).

        For kernels that reach everywhere: the weights are computed relative to the nearest
        reference, so that a point far from all of them has a mean too.  The bits of a point's mean
        do not depend on the other points below 48 dimensions; from there on, products of matrices
        have the distances.
        """

    def entropies(
        self, Z: Array, places: Array, Z_reference: Array, mass: Array, kernel: Kernel
    ) -> Array:
        """exp of the entropy of each point's choice among the references, 0 if there are none.

        ``places`` are the positions of the points among the references, -1 for other points; masses
        are in (0, 1].
        """

    def win_shares(
        self, Z: Array, Z_reference: Array, codes: Array, n_classes: int, k: int, unanimous: bool
    ) -> Array:
        """Chance that each class wins the vote of k references, given no tie: (n, n_classes)."""

    def set_potential(self, Z: Array, k: int, kernel: str, kappa: float) -> SetPotential:
        """Sums over all sets of k of the points Z, as seen from other places."""

    # Histograms, and maps on the simplex.

    def chi2_rows(self, X: Array, Y: Array, same: bool) -> Array:
        """Chi-squared distances between all rows of X and Y, in their dtype."""

    def nearest_histograms(self, X: Array, Y: Array, k: int, same: bool) -> tuple[Array, Array]:
        """Distances and positions of the k nearest rows of Y, nearest first."""

    def simplex_columns(self, L: Array, slack: float) -> Array:
        """The matrix nearest to L, (r, D), whose columns are on the probability simplex."""
