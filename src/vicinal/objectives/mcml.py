"""Maximally collapsing metric learning: the ideal is every class at one point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vicinal.core.points import cast, check_points, check_rows, to_host, with_range, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, Pairs, Units
from vicinal.densities import Gaussian
from vicinal.engines import choose
from vicinal.engines.base import Data, PairSource, RowSums, merge
from vicinal.objectives._odds import warn_left_out
from vicinal.targets import Labels
from vicinal.targets.labels import others_of_class, reference_mass, weights

_GAUSSIAN = Gaussian()
_LN2 = np.log(2.0)


class _Rows(NamedTuple):
    """The queries that count, the references, and their masses.

    ``mass`` is (n,): the weight of each row as a reference, 0 if it is none.  ``weight`` and
    ``own`` are (n,) too, and hold for queries: their weight in the sum, and the mass of the other
    references of their class.
    """

    labels: Labels
    queries: Array
    references: Array
    mass: Array
    weight: Array
    own: Array
    left_out: Array


@dataclass(frozen=True)
class MCMLLoss(Objective):
    """The loss of :func:`mcml` as an object: ``Evaluation = loss(Z, labels, ...)``.

    Notes
    -----
    It never warns.  An evaluation reports the facts "share_of_pairs", "engine" and "left_out" (the
    number of queries without a reference of their class).
    """

    units: ClassVar[Units] = Units(1.0)

    def __call__(
        self,
        Z: Array,
        target: Labels,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: Pairs | PairSource | None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean divergence of the queries and its gradient by the points."""
        return self.evaluate(Z, target, queries, references, pairs, gradient)[0]

    def evaluate(
        self,
        Z: Array,
        target: Any,
        queries: Array | None,
        references: Array | None,
        pairs: Pairs | PairSource | None,
        gradient: bool,
    ) -> tuple[Evaluation, Array]:
        """The evaluation, and the queries that the loss leaves out."""
        Z = check_points(Z)
        rows = _prepare(Z, target, queries, references)
        if not len(rows.queries):
            return Evaluation(0.0, zeros_like(Z) if gradient else None, {}, 0.0), rows.left_out
        points = with_range(Z, rows.mass[rows.references])
        data = Data(points, rows.labels.codes, rows.mass, rows.queries, rows.references)
        if pairs is None:  # only the sum over all classes counts
            engine = choose.backend(points, len(points)).joint_sums(data, _GAUSSIAN)
        else:  # lists of random rows have a sampling rate for either part
            engine = choose.class_sums(data, _GAUSSIAN, pairs, "mcml")
        sums = engine.sums()
        total, parts, empty = _joined(sums)
        rows, total_weight = _without_empty_lists(rows, sums.rows, empty)
        weight = rows.weight[rows.queries]
        attraction, d_attraction = _attraction(to_host(Z), rows, gradient)
        # The mean distance within the class and the shift of the sum may be huge, and cancel.
        divergence = (attraction - total.shift * _LN2) + total.log2 * _LN2
        divergence -= np.log(rows.own[rows.queries])
        if pairs is None:  # exact sums: what is below zero is a rounding error
            divergence = np.maximum(divergence, 0.0)
        value = float(np.sum(weight * divergence))
        facts: dict[str, Any] = {
            "share_of_pairs": engine.share,
            "engine": engine.name,
            "left_out": len(rows.left_out),
        }
        dZ = None
        if gradient:
            dZ = cast(Z, d_attraction + to_host(engine.pull(sums, weight * parts)))
        return Evaluation(value, dZ, facts, total_weight), rows.left_out


def _prepare(Z: Array, target: Any, queries: Array | None, references: Array | None) -> _Rows:
    """The rows with a positive mass or weight, and the queries whose class has no other row."""
    labels = target if isinstance(target, Labels) else Labels(target)
    if len(labels) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows but there are {len(labels)} labels.")
    if labels.priors is not None:
        raise ValueError("mcml takes no class priors. Got Labels with 'priors'.")
    query_rows = check_rows(queries, len(Z), "queries", "mcml")
    reference_rows = check_rows(references, len(Z), "references", "mcml")
    weight = weights(labels)
    given, class_mass, _ = reference_mass(labels, weight, reference_rows)
    reference_rows = reference_rows[given[reference_rows] > 0]
    mass = np.zeros(len(Z))
    mass[reference_rows] = given[reference_rows]
    query_rows = query_rows[weight[query_rows] > 0]
    own = np.zeros(len(Z))
    own[query_rows] = others_of_class(labels, weight, query_rows, reference_rows, class_mass)
    # masses are divided by the largest one
    own /= weight[reference_rows].max(initial=0.0) or 1.0
    alone = own[query_rows] <= 0
    left_out, query_rows = query_rows[alone], query_rows[~alone]
    return _Rows(labels, query_rows, reference_rows, mass, weight, own, left_out)


def _without_empty_lists(rows: _Rows, queries: Array, empty: Array) -> tuple[_Rows, float]:
    """The queries in the order of the engine, with weights that add up to one; what they added to.

    Those whose list holds no reference are left out, by a weight of zero.
    """
    weight = np.zeros_like(rows.weight)
    weight[queries] = np.where(empty, 0.0, rows.weight[queries])
    left_out = np.concatenate([rows.left_out, queries[empty]])
    total = float(weight.sum())
    kept = rows._replace(
        queries=queries, weight=weight / (total or 1.0), left_out=np.sort(left_out)
    )
    return kept, total


def _joined(sums: RowSums) -> tuple[RowSums, Array, Array]:
    """The sums over all classes, the share of either of the two sums in them, and which are empty.

    The shares are (2, n_queries).  An empty sum is replaced by one.
    """
    other, own = (RowSums(sums.log2[i], sums.shift[i], sums.rows) for i in (0, 1))
    total = merge(other, own)
    empty = np.isneginf(total.log2)
    log2, shift = (np.where(empty, 0.0, part) for part in (total.log2, total.shift))
    total = RowSums(log2, shift, total.rows)
    shift = np.where(np.isinf(sums.shift), total.shift, sums.shift)
    return total, np.exp2(sums.log2 - total.log2 - (shift - total.shift)), empty


def _attraction(Z: Array, rows: _Rows, gradient: bool) -> tuple[Array, Array]:
    """Mean squared distance of each query to its class, and the derivative of the weighted sum.

    With the mean m and the scatter Q of the references of a class of mass V, the sum of
    ``v_j |z_i - z_j|²`` is ``V |z_i - m|² + Q``: no pair of rows is visited.
    """
    codes, q, r = rows.labels.codes, rows.queries, rows.references
    n_classes = len(rows.labels.classes)
    V = np.bincount(codes[r], rows.mass[r], n_classes)
    # Relative to the heaviest row of the class, no digits are lost to a common offset, nor to a row
    # of nearly all of the mass, which is close to the mean.
    heaviest = np.zeros(n_classes, dtype=np.intp)
    ascending = r[np.argsort(rows.mass[r], kind="stable")]
    heaviest[codes[ascending]] = ascending
    C = Z.astype(np.float64) - Z[heaviest][codes]
    C -= _class_means(C, codes, r, rows.mass, V)[codes]
    squares = np.einsum("ij,ij->i", C, C)
    Q = np.bincount(codes[r], rows.mass[r] * squares[r], n_classes)
    own = rows.own[q]
    means = (V[codes[q]] * squares[q] + Q[codes[q]]) / own
    dZ = np.zeros_like(C)
    if gradient:
        pull = np.zeros(len(Z))
        pull[q] = rows.weight[q] / own
        total = np.bincount(codes[q], pull[q], n_classes)
        middle = _class_means(C, codes, q, pull, total)
        dZ += 2.0 * (pull * V[codes])[:, None] * C
        dZ += 2.0 * (rows.mass * total[codes])[:, None] * (C - middle[codes])
    return means, dZ


def _class_means(C: Array, codes: Array, rows: Array, mass: Array, total: Array) -> Array:
    """Weighted means of some rows of each class; 0 for a class without mass."""
    # bincount adds in the order of the rows: the bits do not depend on the threads of BLAS
    sums = [np.bincount(codes[rows], mass[rows] * c[rows], len(total)) for c in C.T]
    return np.transpose(sums) / np.where(total > 0, total, 1.0)[:, None]


def mcml(
    Z: Array,
    y: Any,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    pairs: Pairs | PairSource | None = None,
    gradient: bool = True,
    warn: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean divergence of stochastic neighbours from ideal ones, and its gradient by the points.

    A query i picks reference j with probability
    :math:`p_{ij} = e^{-\|z_i - z_j\|^2} / \sum_{k \ne i} e^{-\|z_i - z_k\|^2}`.  If all rows of a
    class were at one point, and the classes far apart, it would pick each of the
    :math:`N_c - 1` other rows of its class with :math:`p^0_{ij} = 1 / (N_c - 1)`.  The loss is the
    mean over the queries of the divergence from that ideal [Globerson2005]_

    .. math:: \mathrm{KL}(p^0_i \| p_i) = \frac{1}{N_c - 1} \sum_{j \ne i : y_j = y_i}
              \|z_i - z_j\|^2 + \log \sum_{k \ne i} e^{-\|z_i - z_k\|^2} - \log (N_c - 1) \ge 0 ,

    which is convex in :math:`A^\top A` for linear maps :math:`z = A x`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 input is computed in float32 (small data: in float64), everything
        else in float64.
    y : array-like of shape (n,) or Labels
        Class labels; :class:`vicinal.targets.Labels` adds sample weights v: the mass of a row as a
        reference, in both distributions, and its weight as a query.  Priors are refused.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference.
    pairs : Pairs or Bounded, default=None
        Lists of the rows over which the sum under the logarithm goes, or trees that compute it
        within a tolerance, as for :func:`nca`; None for all.  The first term, the mean over the
        class, needs no lists: it is always exact.  Over lists that leave much out the loss may
        become negative.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.
    warn : bool, default=True
        Whether to warn about queries that are left out.
    report : dict, default=None
        Receives "share_of_pairs", the share of all (query, reference) pairs that were computed one
        by one; with ``Bounded`` also "engine".

    Returns
    -------
    value : float
        The mean divergence.  A query whose class has no other member among the references, or
        whose list has no reference, is left out, with a warning.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    The mean over the class takes O(n d), by the means and scatters of the classes; the sums under
    the logarithm take as much time and memory as :func:`nca`.  The result is the same, to the bit,
    for any number of threads.
    """
    labels = y if isinstance(y, Labels) else Labels(y)
    (value, dZ, facts, _), left_out = MCMLLoss().evaluate(
        Z, labels, queries, references, pairs, gradient
    )
    if report is not None:
        names = ["share_of_pairs", *(["engine"] if hasattr(pairs, "engine") else [])]
        report.update((name, facts[name]) for name in names if name in facts)
    if warn:
        warn_left_out(labels, left_out, loss="the loss of mcml")
    return value, zeros_like(check_points(Z)) if dZ is None else dZ
