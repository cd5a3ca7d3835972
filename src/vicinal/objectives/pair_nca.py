"""Neighbourhood components of pairs: rows with partners, without classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal.core.points import cast, check_points, check_rows, to_host, with_range, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, Units
from vicinal.densities import Gaussian
from vicinal.engines import choose
from vicinal.engines.base import Data, RowSums
from vicinal.targets.pairs import PairWeights

_KERNEL = Gaussian()


@dataclass(frozen=True)
class PairNCALoss(Objective):
    """The loss of :func:`pair_nca` as an object: ``Evaluation = loss(Z, target, ...)``.

    The target is a :class:`~vicinal.targets.PairWeights`.  All pairs of points share one
    normaliser, so the loss does not add over queries, and the loss of a batch is not an estimate
    of the loss of all rows.
    """

    units: ClassVar[Units] = Units(1.0)

    def __call__(
        self,
        Z: Array,
        target: PairWeights,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the pairs and its gradient by the points."""
        if pairs is not None:
            raise ValueError(
                "The 'pairs' parameter of PairNCALoss must be None, because its normaliser sums "
                f"over all pairs of points. Got {pairs!r} instead."
            )
        Z = check_points(Z)
        if len(target) != len(Z):
            raise ValueError(f"Z has {len(Z)} rows but there are targets for {len(target)}.")
        query_rows = check_rows(queries, len(Z), "queries", "pair_nca")
        reference_rows = check_rows(references, len(Z), "references", "pair_nca")
        chosen, weight = target.counted(query_rows, reference_rows)
        a, b = chosen.T
        total = float(weight.sum())
        if total <= 0:
            return Evaluation(0.0, zeros_like(Z) if gradient else None, {}, 0.0)
        weight = weight / total
        mass = np.ones(len(Z))
        data = Data(
            with_range(Z, mass), np.zeros(len(Z), np.intp), mass, query_rows, reference_rows
        )
        # one class of all rows: the sums over the own class are those over all other rows
        engine = choose.backend(data.Z, len(data.Z)).class_sums(data, _KERNEL)
        sums = engine.sums()
        log_sum, nearest, share = _over_rows(sums)
        host = to_host(Z)
        apart = host[a].astype(np.float64) - host[b]
        d2 = np.einsum("ij,ij->i", apart, apart)
        # [Goldberger2005] eq. (8); far points have huge distances, so their least is taken off
        # before anything is added up
        value = float(np.sum(weight * (d2 - nearest)) + log_sum)
        facts: dict[str, Any] = {"share_of_pairs": engine.share, "engine": engine.name}
        if not gradient:
            return Evaluation(value, None, facts, total)
        dZ = to_host(engine.pull(sums, np.stack([np.zeros_like(share), share])))
        dZ = dZ.astype(np.float64, copy=False)
        _add_attraction(dZ, a, b, 2.0 * weight[:, None] * apart)
        return Evaluation(value, cast(Z, dZ), facts, total)


def _over_rows(sums: RowSums) -> tuple[float, float, Array]:
    """``log S + nearest`` of the sum S over all rows, its shift, and the share of each row in S."""
    log2, shift = (np.asarray(part[1], np.float64) for part in (sums.log2, sums.shift))
    least = float(np.min(shift))
    with np.errstate(invalid="ignore"):  # inf - inf, of a row without any reference
        log2 = np.where(np.isinf(shift), -np.inf, log2 - (shift - least))
    terms = np.exp2(log2)
    total = terms.sum()
    return float(np.log(total)), least * float(np.log(2.0)), terms / total


def _add_attraction(dZ: Array, a: Array, b: Array, force: Array) -> None:
    """Add the force of each pair to its first point, and take it from its second one."""
    n = len(dZ)
    for c in range(dZ.shape[1]):
        dZ[:, c] += np.bincount(a, force[:, c], n) - np.bincount(b, force[:, c], n)


def pair_nca(
    Z: Array,
    pairs: Any,
    weights: Any = None,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    gradient: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean loss of pairs of points and its gradient with respect to the points.

    Each pair (a, b) is drawn from all ordered pairs of points, near ones being more likely, and
    the loss is the mean negative logarithm of this probability, [Goldberger2005]_ eq. (8):

    .. math:: -\frac{1}{\sum_{ab} w_{ab}} \sum_{ab} w_{ab} \log
              \frac{e^{-\|z_a - z_b\|^2}}{\sum_{c \ne d} e^{-\|z_c - z_d\|^2}} .

    The paper does not say whether the pairs of a point with itself are in the normaliser; here
    they are not.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 input is computed in float32 (small data: in float64), everything
        else in float64.
    pairs : int array of shape (m, 2) or PairWeights
        Positions in Z of the two points of each pair, in any order.
    weights : array-like of shape (m,), default=None
        Weight of each pair; None: ones, or the weights in the `PairWeights`.
    queries, references : int arrays, default=None
        Positions in Z; None for all.  A pair counts if one of its points is a query and the other
        a reference (half, unless it does so in both orders), and the normaliser sums over a query
        c and a reference d.  For held-out rows as queries and the training rows as references
        this is the loss of the pairs between them.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.
    report : dict, default=None
        Receives "share_of_pairs", the share of all (query, reference) pairs that were computed one
        by one.

    Returns
    -------
    value : float
        The mean loss; 0 if no pair counts.  It does not add over queries.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    The sums are those of :func:`nca` with one class for all rows: whole arrays in NumPy up to 500
    rows, and O(n d) memory beyond.
    """
    Z = check_points(Z)
    target = pairs
    if not isinstance(pairs, PairWeights):
        target = PairWeights(len(Z), pairs, weights)
    elif weights is not None:
        target = PairWeights(len(pairs), pairs.pairs, weights)
    value, dZ, facts, _ = PairNCALoss()(
        Z, target, queries=queries, references=references, gradient=gradient
    )
    if report is not None and "share_of_pairs" in facts:
        report["share_of_pairs"] = facts["share_of_pairs"]
    return value, zeros_like(Z) if dZ is None else dZ
