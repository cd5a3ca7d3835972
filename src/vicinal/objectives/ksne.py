"""kSNE and kt-SNE: embedded points choose the same neighbourhoods of k as the rows do."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from vicinal.core.points import cast, check_points, check_rows, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, Units
from vicinal.engines import choose
from vicinal.objectives._votes import check_k
from vicinal.targets import Affinities

KERNELS = ("cauchy", "gaussian")
METHODS = ("auto", "exact", "fft")


@dataclass(frozen=True)
class KSNELoss(Objective):
    """The loss of :func:`ksne` as an object: ``Evaluation = loss(Z, affinities, ...)``.

    Parameters
    ----------
    k : int, default=5
        Size of the neighbourhoods, that of the affinities; reduced where a query has fewer
        references to pick from.
    kernel : {"cauchy", "gaussian"}, default="cauchy"
        kt-SNE or kSNE.
    kappa : float, default=0.0
        Constant that is added to every weight (Uni-SNE).
    exaggeration : float, default=1.0
        Factor of the attraction.
    method : {"auto", "exact", "fft"}, default="auto"
        How the repulsion is computed.

    Notes
    -----
    An evaluation reports the facts "chain_rows" (the number of queries whose sets were summed by a
    chain, because Newton's identities lose their digits), "sum_error" (the estimated relative error
    of interpolated sums over sets, 0 if they are exact), "engine", "share_of_pairs" (1 if all
    pairs were computed, 0 if they were interpolated) and "left_out" (the number of queries without
    any reference, which do not count), and whatever else the engine tells.
    """

    k: int = 5
    kernel: str = "cauchy"
    kappa: float = 0.0
    exaggeration: float = 1.0
    method: str = "auto"
    units: ClassVar[Units] = Units(1.0)
    columns: ClassVar[tuple[str, ...]] = ("chain_rows", "sum_error")

    def __post_init__(self) -> None:
        check_k(self.k, "KSNELoss")
        _check_choice(self.kernel, KERNELS, "kernel")
        _check_choice(self.method, METHODS, "method")
        _check_number(self.kappa, "kappa", "[0, inf)")
        _check_number(self.exaggeration, "exaggeration", "(0, inf)")

    def __call__(
        self,
        Z: Array,
        target: Affinities,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the queries and its gradient by the points."""
        Z = check_points(Z)
        _check_affinities(target, len(Z), self.k)
        if pairs is not None:
            raise TypeError(
                f"The 'pairs' parameter of ksne must be None: the affinities have lists of their "
                f"own. Got {pairs!r} instead."
            )
        query_rows = check_rows(queries, len(Z), "queries", "ksne")
        reference_rows = check_rows(references, len(Z), "references", "ksne")
        # of each query, which is never its own reference
        available = np.full(len(query_rows), len(reference_rows) - 1)
        if references is not None or queries is not None:
            available = len(reference_rows) - np.isin(query_rows, reference_rows, kind="table")
        facts: dict[str, Any] = {"chain_rows": 0.0, "sum_error": 0.0, "share_of_pairs": 0.0}
        facts["left_out"] = int(np.count_nonzero(available < 1))
        query_rows, available = query_rows[available > 0], available[available > 0]
        if not len(query_rows):
            return Evaluation(0.0, zeros_like(Z) if gradient else None, facts, 0.0)
        n, sizes = len(query_rows), np.minimum(int(self.k), available)
        rows = None if queries is None and references is None else (query_rows, reference_rows)
        backend = choose.backend(Z, len(Z))
        pull, attraction = backend.attraction(Z, target, self.kernel, self.kappa, rows, gradient)
        total, dZ = 0.0, None if attraction is None else (self.exaggeration / n) * attraction
        for k in sorted({int(sizes.min()), int(sizes.max())}):  # two, if references are so few
            some, chain_rows = query_rows[sizes == k], facts["chain_rows"]
            engine = backend.set_sums(
                Z, k, self.kernel, self.kappa, some, reference_rows, self.method
            )
            total += float(np.sum(engine.sums()))
            if dZ is not None:
                dZ = dZ + engine.pull(np.full(len(some), 1.0 / n))
            facts.update(engine.facts, engine=engine.name)
            facts["chain_rows"] += chain_rows
        # [Tarlow2013] eq. (11); less the entropy of the target it is the divergence
        value = (self.exaggeration * pull + total) / n
        value -= float(np.mean(target.entropy[query_rows]))
        return Evaluation(value, None if dZ is None else cast(Z, dZ), facts, float(n))


def _check_choice(value: Any, choices: tuple[str, ...], name: str) -> None:
    if value not in choices:
        raise ValueError(
            f"The {name!r} parameter of KSNELoss must be one of {', '.join(map(repr, choices))}. "
            f"Got {value!r} instead."
        )


def _check_number(value: Any, name: str, interval: str) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= value < np.inf or (value == 0 and interval[0] == "("):
        raise ValueError(
            f"The {name!r} parameter of KSNELoss must be a float in {interval}. "
            f"Got {value!r} instead."
        )


def _check_affinities(target: Any, n: int, k: int) -> None:
    if not isinstance(target, Affinities):
        raise TypeError(
            f"The 'affinities' parameter of ksne must be Affinities. Got {target!r} instead."
        )
    if len(target) != n:
        raise ValueError(f"Z has {n} rows, but there are targets for {len(target)}.")
    if target.k != k:
        raise ValueError(
            f"The 'k' parameter of KSNELoss must be that of the affinities, {target.k}. "
            f"Got {k} instead."
        )


def ksne(
    Z: Array,
    affinities: Affinities,
    kernel: str = "cauchy",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kappa: float = 0.0,
    exaggeration: float = 1.0,
    method: str = "auto",
    gradient: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Divergence between neighbourhoods of k rows and of k points, and its gradient.

    A query i picks a set s of k references with probability

    .. math:: q_i(s) = \frac{\prod_{j \in s} w_{ij}}{e_k(w_i)}, \qquad
        w_{ij} = e^{-\delta_{ij}} + \kappa, \qquad
        e_k(w_i) = \sum_{|s| = k} \prod_{j \in s} w_{ij}

    with :math:`\delta_{ij} = \|z_i - z_j\|^2` for the kernel "gaussian" (kSNE, [Tarlow2013]_
    section 6) and :math:`\log(1 + \|z_i - z_j\|^2)` for "cauchy" (kt-SNE).  The loss is the mean
    over the queries of

    .. math:: -a \sum_j p^k_{ij} \log w_{ij} + \log e_k(w_i) - H_i,

    eq. (11), with the marginals :math:`p^k_{ij}` of the affinities, the exaggeration a, and the
    entropy H_i of the target's sets.  If a = 1 and no references are left out it is the mean
    Kullback-Leibler divergence of the sets.  The derivative by :math:`\delta_{ij}` is
    :math:`(a p^k_{ij} - q^k_{ij}) (w_{ij} - \kappa) / w_{ij}` over the number of queries, where
    :math:`q^k_{ij}` is the probability that j is in s.  With k = 1 this is SNE and t-SNE with
    normalised rows.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  Everything is computed in float64.
    affinities : Affinities
        Marginals of the target's sets.  Their k is the size of the neighbourhoods; for a query that
        has fewer references to pick from, sets of that number are compared with the marginals of k.
    kernel : {"cauchy", "gaussian"}, default="cauchy"
        How weights fall with the distance.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference; marginals of other rows do not count.
    kappa : float, default=0.0
        Constant that is added to every weight, Uni-SNE's background.
    exaggeration : float, default=1.0
        Factor of the attraction.
    method : {"auto", "exact", "fft"}, default="auto"
        How the sums over all pairs are computed: exactly, in time O(k n²), or by interpolation,
        in time O(k n), which is for the Cauchy kernel in one or two dimensions, without a constant
        and with all rows.  "auto" interpolates where it can and where it is faster.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes half the time.
    report : dict, default=None
        Receives the facts of the evaluation, see :class:`KSNELoss`.

    Returns
    -------
    value : float
        The mean loss.  A query without any reference is left out.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Up to 500 rows, NumPy computes whole arrays of pairs and nothing is compiled.  Beyond that,
    memory is O(n d).  docs/theory/ksne.md derives the scheme.  The result is the same, to the bit,
    for any number of threads.
    """
    _check_affinities(affinities, len(check_points(Z)), getattr(affinities, "k", 0))
    loss = KSNELoss(affinities.k, kernel, kappa, exaggeration, method)
    value, dZ, facts, _ = loss(
        Z, affinities, queries=queries, references=references, gradient=gradient
    )
    if report is not None:
        report.update(facts)
    return value, zeros_like(check_points(Z)) if dZ is None else dZ
