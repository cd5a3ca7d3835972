"""Class probabilities by NCA's stochastic neighbours, and their effective number."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from vicinal.core.points import check_points, with_range
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.targets import Labels
from vicinal.targets.labels import background_mass, class_sums, reference_mass, weights

_GAUSSIAN = Gaussian()


def nca_posterior(
    Z: Array,
    Z_reference: Array,
    y_reference: Any,
    kernel: Kernel = _GAUSSIAN,
    *,
    background: Array | None = None,
    log: bool = False,
) -> Array:
    """Class probabilities of new points, sum over each class of p_ij ([Oneata2011]_ eq. (3.25)).

    ``Z`` is (n, d); the result is (n, n_classes), in float64, rows summing to one.  With the
    shares ``background`` of :func:`nca` it is Bayes' rule over the densities of eq. (4.22).
    Without a background, a row with no reference in range of a compact kernel gets the class
    priors (if ``y_reference`` has none: the shares of the references' weight), with one warning
    for all such rows.  With ``log`` the result holds natural logarithms, which are finite where
    the probability of a class far away is zero in float64.

    From 1000 rows on, far references are left out that change no probability by more than 1e-9.
    From 2.7e8 pairs on, the sums of the Gaussian and of Laplace's kernel are computed in float32:
    probabilities then change by less than a thousandth of themselves (by 2e-7 where it was
    measured).
    """
    Z, Z_reference = check_points(Z), check_points(Z_reference, "Z_reference")
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
        from vicinal.objectives.background import check_background, with_background

        beta = check_background(background, len(labels.classes), "nca_posterior")
    mass, class_mass, unit = reference_mass(labels, weight, np.arange(len(labels)), beta)
    rows = np.flatnonzero(mass)
    if not len(rows):
        raise ValueError("At least one reference must have a positive weight.")
    Z_reference = with_range(Z_reference, mass[rows], Z)
    Z = Z.astype(Z_reference.dtype, copy=False)
    data = Data(Z_reference, labels.codes, mass, rows[:0], rows)
    backend = choose.backend(Z_reference, len(rows))
    sums = backend.sums_by_class if log else backend.leading_sums_by_class
    log_sums, minima = sums(Z, data, kernel, len(labels.classes))
    if beta is not None:
        unit += kernel.log_integral(Z.shape[1]) * np.log2(np.e)
        masses = background_mass(labels, beta, class_mass, rows[:0], np.empty(0), unit)[0]
        log_sums, minima = with_background(log_sums, minima, Z, data, weight, masses)
    nearest = minima.min(axis=1, keepdims=True)
    logits = log_sums - (minima - np.where(np.isinf(nearest), 0.0, nearest))
    alone = np.isinf(nearest[:, 0])
    if alone.any():
        with np.errstate(divide="ignore"):
            logits[alone] = np.log2(class_sums(labels, mass, rows))
        warnings.warn(
            f"{alone.sum()} of {len(Z)} rows have no reference in range of the compact kernel: "
            "they are given the class priors.",
            UserWarning,
            stacklevel=2,
        )
    logits -= logits.max(axis=1, keepdims=True)
    probabilities = np.exp2(logits)
    total = probabilities.sum(axis=1, keepdims=True)
    return np.log(2.0) * (logits - np.log2(total)) if log else probabilities / total


def nca_effective_n_neighbors(
    Z: Array,
    sample_weight: Array | None = None,
    Z_query: Array | None = None,
    kernel: Kernel = _GAUSSIAN,
) -> Array:
    r"""exp of the entropy of each point's choice among the others ([Goldberger2005]_ section 2).

    :math:`H_i = -\sum_j p_{ij}\log p_{ij}`: between 1, a hard nearest neighbour, and n - 1, no
    preference at all; 0 for a point without any other point (in range of a compact kernel).
    With weights, :math:`p_{ij} \propto v_j \kappa(d_{ij})`.  If ``Z_query`` is given, its rows
    choose among all n rows of Z instead: section 6's local K, between 1 and n.
    """
    # float64: called once, not at every step
    Z = check_points(Z).astype(np.float64, copy=False)
    new = None if Z_query is None else check_points(Z_query, "Z_query").astype(np.float64)
    if new is not None and new.shape[1] != Z.shape[1]:
        raise ValueError(f"Z_query has {new.shape[1]} columns but Z has {Z.shape[1]}.")
    n = len(Z)
    labels = Labels(np.zeros(n, dtype=int), sample_weight)
    mass, _, _ = reference_mass(labels, weights(labels), np.arange(n))
    rows = np.flatnonzero(mass)
    if not len(rows):
        return np.zeros(n if new is None else len(new))
    references = Z if len(rows) == n else Z[rows]
    backend = choose.backend(references, len(references))
    if new is None:
        places = np.where(mass > 0, np.cumsum(mass > 0) - 1, -1)
        return backend.entropies(Z, places, references, mass[rows], kernel)
    return backend.entropies(new, np.full(len(new), -1), references, mass[rows], kernel)
