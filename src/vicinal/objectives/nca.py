"""Neighbourhood components analysis: expected leave-one-out accuracy of stochastic neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array, Bounded, Pairs
from vicinal.densities import Compact, Gaussian, Kernel
from vicinal.engines.choose import Data, engine_for
from vicinal.engines.cpu.tiles import coordinate_scale
from vicinal.engines.points import check_points, check_rows, with_range
from vicinal.extras.background import Background, Normals, check_background
from vicinal.extras.trees import Trees
from vicinal.objectives._masses import (
    background_mass,
    leave_one_out,
    others_of_class,
    reference_mass,
    weights,
)
from vicinal.objectives._odds import check_objective, mean_loss, slopes, warn_lonely
from vicinal.targets import Labels

__all__ = ["nca"]

_GAUSSIAN = Gaussian()


def nca(
    Z: Array,
    y: Any,
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kernel: Kernel = _GAUSSIAN,
    pairs: Pairs | Bounded | None = None,
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
    pairs : Pairs or Bounded, default=None
        Lists of the rows that each row of Z may pick, as the parts of
        :mod:`vicinal.neighbourhoods` make them; None for all.  Only what is also among the
        references counts.  Which pairs there are is taken as given: the gradient is that of the
        sums over the lists.  ``Bounded(tolerance)`` sums far groups of references at once, by
        trees, so that every class density at a query (unless ``each_class``: its sum over its own
        class and that over all others) is within the relative tolerance ([Oneata2011]_ section
        4.4.3); the gradient is that of the sums so computed.  Where a look at a few queries tells
        that trees would take longer than all pairs, all pairs are summed, unless ``always``.
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
        computed one by one: the others are too far apart to change any sum in its last bit, in a
        group summed at once, or in no list.  With ``Bounded``, "engine" too: "tree" or "tiles".
        With a compact kernel "out_of_range", the share of the queries without any reference in
        range.

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
    Z = check_points(Z)
    labels = y if isinstance(y, Labels) else Labels(y)
    if len(labels) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows but there are {len(labels)} labels.")
    check_objective(objective, "nca")
    query_rows = check_rows(queries, len(Z), "queries")
    reference_rows = check_rows(references, len(Z), "references")
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

    Z = with_range(Z, mass[reference_rows])
    data = Data(Z, labels.codes, mass, query_rows, reference_rows)
    engine, query_rows, pulled_rows = engine_for(data, pairs, kernel)
    log_sums, minima = engine.sums()
    if report is not None:
        report["share_of_pairs"] = engine.share
        if isinstance(kernel, Compact):
            report["out_of_range"] = float(np.isneginf(log_sums).all(axis=0).mean())
        if isinstance(pairs, Bounded):
            report["engine"] = "tree" if isinstance(engine, Trees) else "tiles"
    rest, base = log_sums.copy(), -minima.astype(np.float64)
    if isinstance(pairs, Pairs) and pairs.log2_rates is not None:  # the sums are those of samples
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
    odds = np.where(lonely, np.inf, odds)
    value, counts = mean_loss(odds, weight[query_rows], objective)
    slope = counts * slopes(odds, objective)
    if objective == "log" and warn:
        warn_lonely(labels, query_rows[lonely])
    if not gradient:
        return value, dZ
    # dL/dd² is +slope p~_ij in the own class and -slope q~_ij in the others, with p~ and q~ the
    # softmax over either: docs/theory/nca.md shows this to be [Goldberger2005] eqs (5) and (7)
    empty = np.isneginf(log_sums)
    shift = np.where(empty, 0.0, minima).astype(Z.dtype)
    both = np.stack([-slope, slope])
    factor = both * np.exp2(-np.where(empty, 0.0, log_sums))
    if beta is not None:
        factor *= mixture.kernel_share
    largest = np.abs(factor).max(initial=0.0) or 1.0  # late in learning all slopes are tiny
    Gq, Gr = engine.pull(shift, factor / largest, Z.shape[1])
    largest = Z.dtype.type(2.0 / coordinate_scale(kernel) * largest)
    dZ[query_rows] = Gq.T * largest
    if Gr is not Gq:
        dZ[pulled_rows] += Gr.T * largest
    if beta is not None:
        # a derivative by the logarithm of a sum has the opposite sign of one by distances
        Gq, Gr = mixture.pull(-both)
        dZ[query_rows] += Gq.astype(dZ.dtype)
        dZ[reference_rows] += Gr.astype(dZ.dtype)
    return value, dZ


def _check_reaches(kernel: Kernel, objective: str, beta: Array | None) -> None:
    everywhere = beta is not None and (beta > 0).all()
    if objective == "log" and isinstance(kernel, Compact) and not everywhere:
        raise ValueError(
            "The 'log' objective of nca needs a kernel that reaches everywhere: with a compact one "
            "p_i can be 0, which has no logarithm. Use objective='accuracy' or a background."
        )
