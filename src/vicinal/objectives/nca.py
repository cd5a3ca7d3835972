"""Neighbourhood components analysis: expected leave-one-out accuracy of stochastic neighbours."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from vicinal._types import Array
from vicinal.objectives import _tiles
from vicinal.targets import Labels

__all__ = ["nca", "nca_effective_n_neighbors", "nca_posterior"]


def nca(
    Z: Array,
    y: Any,
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    gradient: bool = True,
) -> tuple[float, Array]:
    r"""Mean loss of stochastic nearest neighbours and its gradient with respect to the points.

    A query i picks reference j with probability
    :math:`p_{ij} = e^{-\|z_i - z_j\|^2} / \sum_{k \ne i} e^{-\|z_i - z_k\|^2}`
    [Goldberger2005]_ eq. (1) and is right with probability
    :math:`p_i = \sum_{j : y_j = y_i} p_{ij}` eq. (2).  The loss is the mean over the queries of
    :math:`-p_i` ("accuracy", eq. (3)) or of :math:`-\log p_i` ("log", eq. (6)).

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 is computed in float32, everything else in float64.
    y : array-like of shape (n,) or Labels
        Class labels; :class:`vicinal.targets.Labels` adds sample weights and class priors.
    objective : {"log", "accuracy"}, default="log"
        Which loss.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.

    Returns
    -------
    value : float
        The mean loss.  A query whose class has no other member among the references has
        p_i = 0: it counts as such for "accuracy", and is left out, with a warning, for "log".
    dZ : array of shape (n, d)
        Gradient, in the dtype of the computation.

    Notes
    -----
    Memory is O(n d); the pairs are visited in tiles, twice.  The same bits come out for any
    number of threads.
    """
    Z = _check_points(Z)
    labels = y if isinstance(y, Labels) else Labels(y)
    if len(labels) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows but there are {len(labels)} labels.")
    if objective not in ("log", "accuracy"):
        raise ValueError(
            "The 'objective' parameter of nca must be 'log' or 'accuracy'. "
            f"Got {objective!r} instead."
        )
    query_rows = _check_rows(queries, len(Z), "queries")
    reference_rows = _check_rows(references, len(Z), "references")
    weight = np.ones(len(Z)) if labels.sample_weight is None else labels.sample_weight
    mass, class_mass = _reference_mass(labels, weight, reference_rows, Z.dtype)
    reference_rows = reference_rows[mass[reference_rows] > 0]
    query_rows = query_rows[weight[query_rows] > 0]
    dZ = np.zeros_like(Z)
    if not len(query_rows) or not len(reference_rows):
        return 0.0, dZ

    centre = Z[reference_rows].mean(axis=0)
    R, order = _tiles.side(Z[reference_rows], labels.codes[reference_rows], mass[reference_rows],
                           centre)  # fmt: skip
    reference_rows = reference_rows[order]
    position = np.full(len(Z), -1)
    position[reference_rows] = np.arange(len(reference_rows))
    if np.array_equal(np.sort(query_rows), np.sort(reference_rows)):
        Q, query_rows = R, reference_rows
    else:
        Q, order = _tiles.side(Z[query_rows], labels.codes[query_rows], mass[query_rows], centre)
        query_rows = query_rows[order]
    self_pos = position[query_rows]

    log_sums, minima = _tiles.log2_sums(Q, R, self_pos)
    correction = _leave_one_out(labels, weight, query_rows, self_pos, class_mass)
    value, slope = _loss(log_sums, correction, weight[query_rows], objective)
    if objective == "log":
        _warn_lonely(labels, query_rows, log_sums)
    if not gradient:
        return value, dZ
    # dL/dd² is +slope p~_ij in the own class and -slope q~_ij in the others, with p~ and q~ the
    # softmax over either: docs/theory/nca.md shows this to be [Goldberger2005] eqs (5) and (7)
    shift = np.where(np.isfinite(log_sums), minima, 0.0).astype(Z.dtype)
    factor = np.stack([-slope, slope]) * np.exp2(
        -np.where(np.isfinite(log_sums), log_sums, 0.0) - shift
    )
    largest = np.abs(factor).max(initial=0.0) or 1.0  # late in learning all slopes are tiny
    Gq, Gr = _tiles.gradient(Q, R, self_pos, shift, factor / largest, Z.shape[1])
    scale = Z.dtype.type(2.0 / _tiles.LOG2_SCALE * largest)
    dZ[query_rows] = Gq.T * scale
    if Gr is not Gq:
        dZ[reference_rows] += Gr.T * scale
    return value, dZ


def nca_posterior(Z: Array, Z_reference: Array, y_reference: Any) -> Array:
    """Class probabilities of new points, sum over each class of p_ij ([Oneata2011]_ eq. (3.25)).

    ``Z`` is (n, d); the result is (n, n_classes), in float64, rows summing to one.
    """
    Z_reference = _check_points(Z_reference)
    Z = _check_points(Z).astype(Z_reference.dtype, copy=False)
    labels = y_reference if isinstance(y_reference, Labels) else Labels(y_reference)
    weight = np.ones(len(labels)) if labels.sample_weight is None else labels.sample_weight
    rows = np.arange(len(labels))
    mass, _ = _reference_mass(labels, weight, rows, Z_reference.dtype)
    rows = rows[mass > 0]
    centre = Z_reference[rows].mean(axis=0)
    R, _ = _tiles.side(Z_reference[rows], labels.codes[rows], mass[rows], centre)
    ones = np.ones(len(Z))
    Q, _ = _tiles.side(Z, np.zeros(len(Z), dtype=int), ones, centre)
    nobody = np.full(len(Z), -1)
    logits = np.full((len(Z), len(labels.classes)), -np.inf)
    for c in np.unique(R.codes):
        first, last = np.searchsorted(R.codes, [c, c + 1])
        members = _tiles.Side(np.ascontiguousarray(R.Z[:, first:last]), R.mass[first:last],
                              R.codes[first:last])  # fmt: skip
        everything = np.stack([np.zeros(len(Z), dtype=int), np.full(len(Z), last - first)])
        logits[:, c] = _tiles.log2_sums(Q, members, nobody, everything)[0][1]
    probabilities = np.exp2(logits - logits.max(axis=1, keepdims=True))
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def nca_effective_n_neighbors(Z: Array, sample_weight: Array | None = None) -> Array:
    r"""exp of the entropy of each point's choice among the others ([Goldberger2005]_ section 2).

    :math:`H_i = -\sum_j p_{ij}\log p_{ij}`: between 1, a hard nearest neighbour, and n - 1, no
    preference at all.  With weights, a choice among masses: :math:`p_{ij} \propto v_j e^{-d^2}`
    and the entropy is relative to those masses' mean.
    """
    Z = _check_points(Z)
    n = len(Z)
    labels = Labels(np.zeros(n, dtype=int), sample_weight)
    weight = np.ones(n) if labels.sample_weight is None else labels.sample_weight
    mass, _ = _reference_mass(labels, weight, np.arange(n), Z.dtype)
    points, order = _tiles.side(Z, labels.codes, mass, Z.mean(axis=0))
    log_sums, minima = _tiles.log2_sums(points, points, np.arange(n))
    shift = np.where(np.isfinite(minima[1]), minima[1], 0).astype(Z.dtype)
    # H = log S + mean of d², both from the shifted sum s: log2 s + (sum of 2**(m - d²)(d² - m)) / s
    log_s = np.where(np.isfinite(log_sums[1]), log_sums[1] + shift, 0.0)
    entropy = log_s + _tiles.energy(points, shift) / np.exp2(log_s)
    result = np.empty(n)
    result[order] = np.exp2(entropy)
    return result


def _check_points(Z: Any) -> Array:
    Z = np.asarray(Z)
    if Z.dtype not in (np.float32, np.float64):
        Z = Z.astype(np.float64)
    if Z.ndim != 2 or Z.shape[1] == 0:
        raise ValueError(f"Z must have shape (n, d) with d >= 1. Got {Z.shape} instead.")
    if not np.isfinite(Z).all():
        raise ValueError("Z must be finite. Got NaN or infinity.")
    return Z


def _check_rows(rows: Any, n: int, name: str) -> Array:
    if rows is None:
        return np.arange(n)
    rows = np.asarray(rows)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(f"The {name!r} parameter of nca must be a vector of row positions.")
    if rows.size and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(
            f"The {name!r} parameter of nca must lie in [0, {n - 1}]. "
            f"Got {rows.min()}..{rows.max()} instead."
        )
    if len(np.unique(rows)) != len(rows):
        raise ValueError(f"The {name!r} parameter of nca must not repeat a row.")
    return rows.astype(np.intp)


def _reference_mass(
    labels: Labels, weight: Array, rows: Array, dtype: Any
) -> tuple[Array, Array]:
    """Mass of each row as a reference, the largest being 1, and the weight of each class."""
    class_mass = np.bincount(labels.codes[rows], weight[rows], minlength=len(labels.classes))
    mass = weight
    if labels.priors is not None:
        # p(c) times a density over the class: [Oneata2011] eq. (3.12), 1/N_c inside the sum
        per_class = np.divide(
            labels.priors, class_mass, out=np.zeros_like(class_mass), where=class_mass > 0
        )
        mass = weight * per_class[labels.codes]
    largest = mass[rows].max(initial=0.0)
    if largest > 0:
        mass = mass / largest
    # what would be lost in the sums anyhow must not set their shift
    return np.where(mass > np.finfo(dtype).tiny * 1e8, mass, 0.0), class_mass


def _leave_one_out(
    labels: Labels, weight: Array, query_rows: Array, self_pos: Array, class_mass: Array
) -> Array:
    """log2 of the factor that makes the own class' density one over the *other* members."""
    if labels.priors is None:
        return np.zeros(len(query_rows))
    total = class_mass[labels.codes[query_rows]]
    others = total - np.where(self_pos >= 0, weight[query_rows], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(others > 0, np.log2(total / others), 0.0)


def _loss(
    log_sums: Array, correction: Array, weight: Array, objective: str
) -> tuple[float, Array]:
    """Mean loss, and what multiplies the two softmaxes in its derivative by d²."""
    log_other, log_own = log_sums[0], log_sums[1] + correction
    with np.errstate(over="ignore", invalid="ignore"):
        odds = np.where(np.isneginf(log_own), np.inf, log_other - log_own)  # log2 wrong : right
        p = 1.0 / (1.0 + np.exp2(odds))
        wrong = 1.0 / (1.0 + np.exp2(-odds))
    counts = weight if objective == "accuracy" else weight * np.isfinite(log_own)
    total = counts.sum()
    if total <= 0:
        return 0.0, np.zeros_like(p)
    if objective == "accuracy":
        return float(-(counts @ p) / total), counts * p * wrong / total
    # log1p of the odds, in either direction: exact where p -> 1 and finite where p underflows
    minus_log_p = np.logaddexp2(0.0, np.where(counts > 0, odds, 0.0)) * np.log(2.0)
    return float((counts @ minus_log_p) / total), counts * wrong / total


def _warn_lonely(labels: Labels, query_rows: Array, log_sums: Array) -> None:
    lonely = np.isneginf(log_sums[1])
    if lonely.any():
        names = labels.classes[np.unique(labels.codes[query_rows[lonely]])].tolist()
        shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        warnings.warn(
            f"{lonely.sum()} rows have no other member of their class to pick and are left out of "
            f"the log objective: classes {shown}.",
            UserWarning,
            stacklevel=3,
        )
