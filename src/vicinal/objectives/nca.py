"""Neighbourhood components analysis: expected leave-one-out accuracy of stochastic neighbours."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from vicinal._types import Array, Pairs
from vicinal.densities import Compact, Gaussian, Kernel
from vicinal.objectives._background import Background, Normals, check_background, join
from vicinal.objectives._lists import Lists
from vicinal.objectives._masses import (
    background_mass,
    class_sums,
    leave_one_out,
    others_of_class,
    reference_mass,
    weights,
)
from vicinal.objectives._tiles import Side, Tiles, coordinate_scale, side, worth_ordering
from vicinal.targets import Labels

__all__ = ["nca", "nca_effective_n_neighbors", "nca_posterior"]

_LARGEST = 1e100  # of a coordinate: its square times what exp2 puts for a vanishing power is 0
_LARGEST_32, _LIGHTEST_32 = 1e9, 1e-6  # beyond, float32 lacks the range: float64 does the work
_GAUSSIAN = Gaussian()


def nca(
    Z: Array,
    y: Any,
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kernel: Kernel = _GAUSSIAN,
    pairs: Pairs | None = None,
    background: Array | None = None,
    gradient: bool = True,
    warn: bool = True,
    report: dict[str, Any] | None = None,
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
    kernel : Kernel, default=Gaussian()
        What takes the place of :math:`e^{-u^2}`; see :mod:`vicinal.densities`.  What it says of
        a background is for estimators: here ``background`` alone decides.
    pairs : Pairs, default=None
        Lists of the rows that each row of Z may pick, as the parts of
        :mod:`vicinal.neighbourhoods` make them; None for all.  Only what is also among the
        references counts.  Which pairs there are is taken as given: the gradient is that of the
        sums over the lists.
    background : array of shape (n_classes,), default=None
        Share :math:`\beta_c` in [0, 1) of a normal distribution in the density of each class,
        :math:`p(z|c) = \beta_c N(z|\mu_c, \Sigma_c) + (1 - \beta_c) p_\kappa(z|c)`
        [Oneata2011]_ eq. (4.22), with the mean and covariance of the embedded references, the
        query included.  p_i is then the posterior of the own class, the query left out of
        :math:`p_\kappa` and of the prior.  None: no class has one.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.
    warn : bool, default=True
        Whether to warn of queries that "log" leaves out.
    report : dict, default=None
        Is given "share_of_pairs", the share of the pairs of a query and a reference that had to be
        computed: those too far apart to change any sum in its last bit are left out.

    Returns
    -------
    value : float
        The mean loss.  A query whose class has no other member among the references (or in its
        list) has p_i = 0: it counts as such for "accuracy", and is left out, with a warning, for
        "log".  So it is, for "accuracy", with a query that has none of its class in range of a
        compact kernel; "log" is refused for that kernel, unless there is a background.
    dZ : array of shape (n, d)
        Gradient, in the dtype of the computation.

    Notes
    -----
    Memory is O(n d); the pairs are visited twice, in tiles or list by list.  Of 4,000 rows or more
    in up to 32 dimensions, tiles too far apart to change any sum in its last bit are left out.
    The same bits come out for any number of threads.  References lighter than 1e-60 of the
    heaviest count as absent.  Points beyond 1e9, or masses that span more than a factor of 1e6,
    are computed in float64.
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
    weight = weights(labels)
    beta = None
    if background is not None:
        beta = check_background(background, len(labels.classes))
    _check_reaches(kernel, objective, beta)
    mass, class_mass, unit = reference_mass(labels, weight, reference_rows, beta)
    reference_rows = reference_rows[mass[reference_rows] > 0]
    query_rows = query_rows[weight[query_rows] > 0]
    dZ = np.zeros_like(Z)
    if not len(query_rows) or not len(reference_rows):
        return 0.0, dZ

    Z = _with_range(Z, mass[reference_rows])
    data = _Data(Z, labels.codes, mass, query_rows, reference_rows)
    engine, query_rows, pulled_rows = _engine(data, pairs, kernel)
    log_sums, minima = engine.log2_sums()
    if report is not None:
        report["share_of_pairs"] = engine.share
    rest, base = log_sums.copy(), -minima.astype(np.float64)
    if pairs is not None and pairs.log2_rates is not None:  # the sums are those of samples
        rest -= pairs.log2_rates[:, query_rows]
    codes_q = labels.codes[query_rows]
    if labels.priors is not None or beta is not None:
        others = others_of_class(labels, weight, query_rows, reference_rows, class_mass)
    if labels.priors is not None:
        rest[1] += leave_one_out(class_mass[codes_q], others)
    if beta is not None:
        reference_rows = reference_rows[np.argsort(labels.codes[reference_rows], kind="stable")]
        normals = Normals(
            Z[reference_rows], labels.codes[reference_rows], weight[reference_rows], len(beta)
        )
        unit += kernel.log_integral(Z.shape[1]) * np.log2(np.e)
        log2_mass = background_mass(labels, beta, class_mass, codes_q, others, unit)
        mixture = Background(normals, Z[query_rows], codes_q, *log2_mass)
        rest, base = mixture.join(rest, base)
    with np.errstate(invalid="ignore"):  # inf - inf, where there is no own class
        odds = np.subtract(*rest) + np.subtract(*base)
    lonely = np.isneginf(rest[1])
    value, slope = _loss(np.where(lonely, np.inf, odds), weight[query_rows], objective)
    if objective == "log" and warn:
        _warn_lonely(labels, query_rows[lonely])
    if not gradient:
        return value, dZ
    # dL/dd² is +slope p~_ij in the own class and -slope q~_ij in the others, with p~ and q~ the
    # softmax over either: docs/theory/nca.md shows this to be [Goldberger2005] eqs (5) and (7)
    empty = np.isneginf(log_sums)
    shift = np.where(empty, 0.0, minima).astype(Z.dtype)
    slopes = np.stack([-slope, slope])
    factor = slopes * np.exp2(-np.where(empty, 0.0, log_sums))
    if beta is not None:
        factor *= mixture.kernel_share
    largest = np.abs(factor).max(initial=0.0) or 1.0  # late in learning all slopes are tiny
    Gq, Gr = engine.gradient(shift, factor / largest, Z.shape[1])
    largest = Z.dtype.type(2.0 / coordinate_scale(kernel) * largest)
    dZ[query_rows] = Gq.T * largest
    if Gr is not Gq:
        dZ[pulled_rows] += Gr.T * largest
    if beta is not None:
        # a derivative by the logarithm of a sum has the opposite sign of one by distances
        Gq, Gr = mixture.gradient(-slopes)
        dZ[query_rows] += Gq.astype(dZ.dtype)
        dZ[reference_rows] += Gr.astype(dZ.dtype)
    return value, dZ


class _Data(NamedTuple):
    """Points, and which of them are queries and references."""

    Z: Array
    codes: Array
    mass: Array
    query_rows: Array
    reference_rows: Array


def _engine(data: _Data, pairs: Pairs | None, kernel: Kernel) -> tuple[Tiles | Lists, Array, Array]:
    """What sums over the pairs, with the rows of Z that its two sides stand for, in order."""
    if pairs is None:
        return _all_pairs(data, kernel)
    if not isinstance(pairs, Pairs):
        raise TypeError(
            f"The 'pairs' parameter of nca must be Pairs or None. Got {pairs!r} instead."
        )
    centre = _centre(data.Z[data.reference_rows])
    mass = np.zeros(len(data.Z))
    mass[data.reference_rows] = data.mass[data.reference_rows]
    engine = Lists(
        data.Z, data.codes, mass, data.query_rows, pairs, kernel, centre, coordinate_scale(kernel)
    )
    return engine, engine.rows, np.arange(len(data.Z))


def _all_pairs(data: _Data, kernel: Kernel) -> tuple[Tiles, Array, Array]:
    Z, codes, mass, query_rows, reference_rows = data
    centre, scale = _centre(Z[reference_rows]), coordinate_scale(kernel)
    ordered = worth_ordering(len(query_rows), len(reference_rows), Z.shape[1])
    R, order = side(
        Z[reference_rows], codes[reference_rows], mass[reference_rows], centre, scale, ordered
    )
    reference_rows = reference_rows[order]
    position = np.full(len(Z), -1)
    position[reference_rows] = np.arange(len(reference_rows))
    everything = len(query_rows) == len(reference_rows) == len(Z)
    if everything or np.array_equal(np.sort(query_rows), np.sort(reference_rows)):
        Q, query_rows = R, reference_rows
    else:
        Q, order = side(Z[query_rows], codes[query_rows], mass[query_rows], centre, scale, ordered)
        query_rows = query_rows[order]
    return Tiles(Q, R, position[query_rows], kernel), query_rows, reference_rows


def nca_posterior(
    Z: Array,
    Z_reference: Array,
    y_reference: Any,
    kernel: Kernel = _GAUSSIAN,
    *,
    background: Array | None = None,
) -> Array:
    """Class probabilities of new points, sum over each class of p_ij ([Oneata2011]_ eq. (3.25)).

    ``Z`` is (n, d); the result is (n, n_classes), in float64, rows summing to one.  With the
    shares ``background`` of :func:`nca` it is Bayes' rule over the densities of eq. (4.22).
    Without, a row with no reference in range of a compact kernel gets the priors of the classes
    (their shares of the references' weight, where ``y_reference`` has none), with one warning for
    all such rows.
    """
    Z, Z_reference = _check_points(Z), _check_points(Z_reference, "Z_reference")
    labels = y_reference if isinstance(y_reference, Labels) else Labels(y_reference)
    if len(labels) != len(Z_reference):
        raise ValueError(
            f"Z_reference has {len(Z_reference)} rows but there are {len(labels)} labels."
        )
    if Z.shape[1] != Z_reference.shape[1]:
        raise ValueError(f"Z has {Z.shape[1]} columns but Z_reference has {Z_reference.shape[1]}.")
    weight = weights(labels)
    beta = None
    if background is not None:
        beta = check_background(background, len(labels.classes), "nca_posterior")
    mass, class_mass, unit = reference_mass(labels, weight, np.arange(len(labels)), beta)
    rows = np.flatnonzero(mass)
    if not len(rows):
        raise ValueError("At least one reference must have a positive weight.")
    Z_reference = _with_range(Z_reference, mass[rows], Z)
    Z = Z.astype(Z_reference.dtype, copy=False)
    centre = _centre(Z_reference[rows])
    scale = coordinate_scale(kernel)
    ordered = worth_ordering(len(Z), len(rows), Z.shape[1])
    R, order = side(Z_reference[rows], labels.codes[rows], mass[rows], centre, scale, ordered)
    rows = rows[order]
    ones = np.ones(len(Z))
    Q, order = side(Z, np.zeros(len(Z), dtype=int), ones, centre, scale, ordered)
    nobody = np.full(len(Z), -1)
    log_sums = np.full((len(Z), len(labels.classes)), -np.inf)
    minima = np.full(log_sums.shape, np.inf)
    for c in np.unique(R.codes):
        first, last = np.searchsorted(R.codes, [c, c + 1])
        points = np.ascontiguousarray(R.Z[:, first:last])
        members = Side(points, R.mass[first:last], R.codes[first:last], R.d, ordered)
        everything = np.stack([np.zeros(len(Z), dtype=int), np.full(len(Z), last - first)])
        sums = Tiles(Q, members, nobody, kernel).log2_sums(everything)
        log_sums[order, c], minima[order, c] = sums[0][1], sums[1][1]
    if beta is not None:
        normals = Normals(Z_reference[rows], R.codes, weight[rows], len(beta))
        unit += kernel.log_integral(Z.shape[1]) * np.log2(np.e)
        nothing = np.empty(0, dtype=int)
        terms = normals.log2_densities(Z)
        terms += background_mass(labels, beta, class_mass, nothing, nothing, unit)[0]
        log_sums, base, _ = join(log_sums, -minima, terms)
        minima = np.where(np.isneginf(log_sums), np.inf, -base)
    nearest = minima.min(axis=1, keepdims=True)
    logits = log_sums - (minima - np.where(np.isinf(nearest), 0.0, nearest))
    alone = np.isinf(nearest[:, 0])
    if alone.any():
        with np.errstate(divide="ignore"):
            logits[alone] = np.log2(class_sums(labels, mass, rows))
        warnings.warn(
            f"{alone.sum()} of {len(Z)} rows have no reference in range of the compact kernel: "
            "their probabilities are those of the classes.",
            UserWarning,
            stacklevel=2,
        )
    probabilities = np.exp2(logits - logits.max(axis=1, keepdims=True))
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def nca_effective_n_neighbors(
    Z: Array,
    sample_weight: Array | None = None,
    Z_query: Array | None = None,
    kernel: Kernel = _GAUSSIAN,
) -> Array:
    r"""exp of the entropy of each point's choice among the others ([Goldberger2005]_ section 2).

    :math:`H_i = -\sum_j p_{ij}\log p_{ij}`: between 1, a hard nearest neighbour, and n - 1, no
    preference at all; 0 for a point that has no other, or none in range of a compact kernel.
    With weights, :math:`p_{ij} \propto v_j \kappa(d_{ij})`.  The rows of ``Z_query``, where given,
    choose among all n rows of Z instead: section 6's local K, between 1 and n.
    """
    # float64: asked for once, not at every step
    Z = _check_points(Z).astype(np.float64, copy=False)
    new = None if Z_query is None else _check_points(Z_query, "Z_query").astype(np.float64)
    if new is not None and new.shape[1] != Z.shape[1]:
        raise ValueError(f"Z_query has {new.shape[1]} columns but Z has {Z.shape[1]}.")
    n = len(Z)
    labels = Labels(np.zeros(n, dtype=int), sample_weight)
    mass, _, _ = reference_mass(labels, weights(labels), np.arange(n))
    rows = np.flatnonzero(mass)
    if not len(rows):
        return np.zeros(n if new is None else len(new))
    centre, scale = _centre(Z[rows]), coordinate_scale(kernel)
    # one class: the rows keep their order
    R, _ = side(Z[rows], labels.codes[rows], mass[rows], centre, scale)
    if new is None:
        Q = R if len(rows) == n else side(Z, labels.codes, mass, centre, scale)[0]
        self_pos = np.where(mass > 0, np.cumsum(mass > 0) - 1, -1)
    else:
        Q, _ = side(new, np.zeros(len(new), dtype=int), np.ones(len(new)), centre, scale)
        self_pos = np.full(len(new), -1)
    engine = Tiles(Q, R, self_pos, kernel)
    log_s, minima = (part[1] for part in engine.log2_sums())
    alone = np.isneginf(log_s)
    shift = np.where(alone, 0.0, minima)
    log_s = np.where(alone, 0.0, log_s)
    # H = log S + mean of e, both from the shifted sum s: log2 s + (sum of 2**(m - e)(e - m)) / s
    entropy = log_s + engine.energy(shift) / np.exp2(log_s)
    if labels.sample_weight is not None:  # - mean of log v: no mass is above 1, all terms are >= 0
        surprise = R._replace(mass=-R.mass * np.log2(R.mass))
        Q, R = (surprise if Q is R else Q), surprise
        entropy += np.exp2(Tiles(Q, R, self_pos, kernel).log2_sums()[0][1] - log_s)
    return np.where(alone, 0.0, np.exp2(entropy))


def _check_reaches(kernel: Kernel, objective: str, beta: Array | None) -> None:
    everywhere = beta is not None and (beta > 0).all()
    if objective == "log" and isinstance(kernel, Compact) and not everywhere:
        raise ValueError(
            "The 'log' objective of nca needs a kernel that reaches everywhere: with a compact one "
            "p_i can be 0, which has no logarithm. Use objective='accuracy' or a background."
        )


def _check_points(Z: Any, name: str = "Z") -> Array:
    Z = np.asarray(Z)
    if Z.dtype not in (np.float32, np.float64):
        Z = Z.astype(np.float64)
    if Z.ndim != 2 or Z.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, d) with d >= 1. Got {Z.shape} instead.")
    if not np.isfinite(Z).all():
        raise ValueError(f"{name} must be finite. Got NaN or infinity.")
    if _extent(Z) > _LARGEST:
        raise ValueError(f"{name} must lie within ±{_LARGEST:g}. Got {_extent(Z):g}.")
    return Z


def _extent(Z: Array) -> float:
    return max(float(Z.max(initial=0.0)), -float(Z.min(initial=0.0)))


def _with_range(Z: Array, mass: Array, also: Array | None = None) -> Array:
    """Z, in float64 where its distances or the masses are beyond what float32 can span."""
    largest = max(_extent(Z), 0.0 if also is None else _extent(also))
    beyond = largest > _LARGEST_32 or mass.min() < _LIGHTEST_32
    return Z.astype(np.float64) if beyond else Z


def _centre(Z: Array) -> Array:
    """A point amid the rows: a mean would follow far outliers, and float32 lose the others."""
    return np.median(Z[:: 1 + len(Z) // 256], axis=0)


def _check_rows(rows: Any, n: int, name: str, owner: str = "nca") -> Array:
    if rows is None:
        return np.arange(n)
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(f"The {name!r} parameter of {owner} must be a vector of row positions.")
    if rows.size and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(
            f"The {name!r} parameter of {owner} must lie in [0, {n - 1}]. "
            f"Got {rows.min()}..{rows.max()} instead."
        )
    if len(np.unique(rows)) != len(rows):
        raise ValueError(f"The {name!r} parameter of {owner} must not repeat a row.")
    return rows.astype(np.intp)


def _loss(odds: Array, weight: Array, objective: str) -> tuple[float, Array]:
    """Mean loss, and what multiplies the two softmaxes in its derivative by d².

    ``odds`` is log2 of wrong : right, inf where there is no right.
    """
    with np.errstate(over="ignore"):
        p = 1.0 / (1.0 + np.exp2(odds))
        wrong = 1.0 / (1.0 + np.exp2(-odds))
    # sums, not dot products: those of BLAS differ with its number of threads
    counts = weight if objective == "accuracy" else weight * (odds < np.inf)
    total = counts.sum()
    if total <= 0:
        return 0.0, np.zeros_like(p)
    if objective == "accuracy":
        return float(-np.sum(counts * p) / total), counts * p * wrong / total
    # log1p of the odds, in either direction: exact where p -> 1 and finite where p underflows
    minus_log_p = np.logaddexp2(0.0, np.where(counts > 0, odds, 0.0)) * np.log(2.0)
    return float(np.sum(counts * minus_log_p) / total), counts * wrong / total


def _warn_lonely(labels: Labels, rows: Array) -> None:
    if len(rows):
        names = labels.classes[np.unique(labels.codes[rows])].tolist()
        shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        warnings.warn(
            f"{len(rows)} rows have no other member of their class to pick and are left out of "
            f"the log objective: classes {shown}.",
            UserWarning,
            stacklevel=3,
        )
