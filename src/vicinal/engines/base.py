"""What an engine is: sums over pairs of rows first, their derivative second.

The two steps are separate on purpose.  Between them several devices or machines, each with some of
the references, can exchange what they found for the queries (`merge`); each then computes its part
of the gradient from the joint sums, and the parts add up.

There are three families.  `ClassSums` serves NCA, `Votes` kNCA and `Margins` LMNN.
:mod:`vicinal.engines.choose` is the only place that decides which engine is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.targets import TargetNeighbours

__all__ = [
    "ClassSums",
    "Data",
    "Hinges",
    "Margins",
    "PairSource",
    "RowSums",
    "Triples",
    "Votes",
    "merge",
]


class Data(NamedTuple):
    """Embedded points, and which of them are queries and references.

    ``Z`` is (n, d); ``codes`` and ``mass`` are (n,), the class of each row and what it weighs as a
    reference; ``query_rows`` and ``reference_rows`` are positions in Z.  A row is never its own
    reference.
    """

    Z: Array
    codes: Array
    mass: Array
    query_rows: Array
    reference_rows: Array


class RowSums(NamedTuple):
    r"""Kernel sums of each query over the other classes [0] and over its own class [1].

    The sum is :math:`\sum_j v_j \kappa(d_{ij}) = 2^{\mathrm{log2} - \mathrm{shift}}`; both arrays
    are (2, n_queries).  They stay apart because far from all references ``shift`` is huge and
    would swallow the digits of the logarithm.  An empty sum has ``log2`` = -inf and ``shift`` =
    inf.
    """

    log2: Array
    shift: Array


def merge(a: RowSums, b: RowSums) -> RowSums:
    """The sums over two sets of references together."""
    shift = np.minimum(a.shift, b.shift)
    base = np.where(np.isinf(shift), 0.0, shift)
    with np.errstate(divide="ignore"):
        total = sum(
            np.exp2(part.log2 - (np.where(np.isinf(part.shift), base, part.shift) - base))
            for part in (a, b)
        )
        return RowSums(np.log2(total), shift)


class ClassSums(Protocol):
    """Sums of a kernel over the classes, for NCA.

    ``query_rows`` are the rows of Z that the columns of the sums stand for, in that order.
    ``share`` is the share of the pairs that the last sums computed one by one, and ``name`` says
    which engine it is.
    """

    name: str
    query_rows: Array

    @property
    def share(self) -> float: ...

    def sums(self) -> RowSums:
        """The sums of each query."""
        ...

    def pull(self, sums: RowSums, slopes: Array) -> Array:
        """Derivative of ``sum(slopes * ln(sums))`` by the points, (n, d).

        ``slopes`` is (2, n_queries).  ``sums`` are those of `sums`, or those merged with the sums
        over other references: then this is the part of the engine's own references.
        """
        ...


class PairSource(Protocol):
    """What ``pairs=`` may be beside lists: an object that brings an engine of its own."""

    def engine(self, data: Data, kernel: Kernel) -> ClassSums:
        """What sums over the pairs."""
        ...


class Votes(Protocol):
    """Votes of k stochastic neighbours, for kNCA.

    What a query knows of its references, k numbers a class, is too much to keep for all queries of
    a large problem.  So `sums` is given the slope as a function of the odds, and an engine may
    finish a batch of queries before it begins the next.

    ``query_rows`` is as in `ClassSums`, ``log_domain`` the number of queries that had to be counted
    in logarithms.
    """

    name: str
    query_rows: Array

    @property
    def share(self) -> float: ...

    @property
    def log_domain(self) -> int: ...

    def sums(self, slope: Callable[[Array], Array] | None = None) -> Array:
        """log2 of lost : won sets of each query, inf where none can be won.

        ``slope`` is the derivative of a query's loss by the natural logarithm of its odds, None
        where no gradient is wanted.
        """
        ...

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times the sum of all losses, (n, d)."""
        ...


class Triples(NamedTuple):
    """What a margin loss is about: points, target neighbours, and who may be an impostor.

    ``Z`` is (n, d) and contiguous.  ``neighbours`` (n, k) are those target neighbours that count,
    of queries, among the references; -1 for none.  ``targets`` are all of them.  ``is_query`` and
    ``is_reference`` are masks over the rows.
    """

    Z: Array
    neighbours: Array
    targets: TargetNeighbours
    is_query: Array
    is_reference: Array
    mu: float
    margin: float
    chi2: bool


class Hinges(NamedTuple):
    """Distances to the target neighbours, hinges, and active triples (i, j, l): sums over all."""

    distances: float
    hinges: float
    n_impostors: int


class Margins(Protocol):
    """Hinges of target neighbours and impostors, for LMNN."""

    name: str

    @property
    def share(self) -> float: ...

    def sums(self, gradient: bool) -> Hinges:
        """The sums over all queries; a `pull` can follow only if ``gradient``."""
        ...

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times ``distances + mu * hinges``, (n, d)."""
        ...
