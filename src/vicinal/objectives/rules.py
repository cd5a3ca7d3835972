"""Class probabilities and shares of matches for new points, by the rules that objectives learn."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.points import check_points, with_range
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.objectives._votes import check_k, check_labels, check_vote, precision, usable_k
from vicinal.targets import Labels
from vicinal.targets.labels import background_mass, class_sums, plain_mass, reference_mass, weights

_GAUSSIAN = Gaussian()
_LOG2_E = math.log2(math.e)
_COORDINATES = 2**20  # of the pairs that are compared at a time


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
    if not mass.any():
        raise ValueError("At least one reference must have a positive weight.")
    n_classes = len(labels.classes)
    log_sums, minima = posterior_sums(Z, Z_reference, labels.codes, mass, kernel, n_classes, log)
    if beta is not None:
        unit += kernel.log_integral(Z.shape[1]) * np.log2(np.e)
        nothing, rows = np.empty(0, dtype=np.intp), np.flatnonzero(mass)
        masses = background_mass(labels, beta, class_mass, nothing, np.empty(0), unit)[0]
        Z_reference = with_range(Z_reference, mass[rows], Z)
        Z = Z.astype(Z_reference.dtype, copy=False)
        data = Data(Z_reference, labels.codes, mass, nothing, rows)
        log_sums, minima = with_background(log_sums, minima, Z, data, weight, masses)
    return probabilities(log_sums, minima, class_sums(labels, mass, np.arange(len(mass))), log)


def posterior_sums(
    Z: Array,
    Z_reference: Array,
    codes: Array,
    mass: Array,
    kernel: Kernel,
    n_classes: int,
    log: bool = False,
) -> tuple[Array, Array]:
    """log2 of the kernel sums of points over each class, and their shifts: (n, n_classes).

    They can be merged with the sums over other references (`engines.base.merge`).
    """
    rows = np.flatnonzero(mass)
    if not len(rows):
        nothing = np.full((len(Z), n_classes), np.inf)
        return -nothing, nothing
    Z_reference = with_range(Z_reference, mass[rows], Z)
    Z = Z.astype(Z_reference.dtype, copy=False)
    backend = choose.backend(Z_reference, len(rows))
    sums = backend.sums_by_class if log else backend.leading_sums_by_class
    return sums(Z, Data(Z_reference, codes, mass, rows[:0], rows), kernel, n_classes)


def probabilities(log2: Array, shift: Array, priors: Array, log: bool = False) -> Array:
    """Class probabilities from the sums over each class; the priors where all sums are empty."""
    nearest = shift.min(axis=1, keepdims=True)
    logits = log2 - (shift - np.where(np.isinf(nearest), 0.0, nearest))
    alone = np.isinf(nearest[:, 0])
    if alone.any():
        with np.errstate(divide="ignore"):
            logits[alone] = np.log2(priors)
        warnings.warn(
            f"{alone.sum()} of {len(log2)} rows have no reference in range of the compact kernel: "
            "they are given the class priors.",
            UserWarning,
            stacklevel=3,
        )
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp2(logits)
    total = shares.sum(axis=1, keepdims=True)
    return np.log(2.0) * (logits - np.log2(total)) if log else shares / total


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


def knca_posterior(
    Z: Array,
    Z_reference: Array,
    y_reference: Any,
    k: int = 5,
    vote: str = "majority",
) -> Array:
    """Probability that each class wins the vote of k stochastic neighbours, for new points.

    Parameters
    ----------
    Z : array of shape (n, d)
        New points.
    Z_reference : array of shape (n_references, d)
    y_reference : array-like of shape (n_references,) or Labels
        Classes of the references, without weights or priors.
    k, vote
        As in :func:`knca`.

    Returns
    -------
    probabilities : array of shape (n, n_classes), float64
        Exact win probabilities, normalised over the classes since ties have no winner.
        If no set of k references has a winner, all classes with references are equally likely.
    """
    Z, Z_reference = check_points(Z), check_points(Z_reference, "Z_reference")
    labels = check_labels(y_reference, len(Z_reference), "knca_posterior", "Z_reference")
    check_k(k, "knca_posterior")
    unanimous = check_vote(vote, "knca_posterior")
    if Z.shape[1] != Z_reference.shape[1]:
        raise ValueError(f"Z has {Z.shape[1]} columns but Z_reference has {Z_reference.shape[1]}.")
    if not len(Z_reference):
        raise ValueError("Z_reference must have at least one row. Got 0.")
    n_classes = len(labels.classes)
    if not len(Z):
        return np.zeros((0, n_classes))
    k = usable_k(k, len(Z_reference), gradient=False)
    Z_reference = precision(with_range(Z_reference, np.ones(1), Z), k)
    Z = Z.astype(Z_reference.dtype, copy=False)
    backend = choose.backend(Z_reference, len(Z_reference))
    return backend.win_shares(Z, Z_reference, labels.codes, n_classes, k, unanimous)


def nca_matched_shares(
    Z: Array,
    Z_reference: Array,
    matches: Any,
    sample_weight: Array | None = None,
    kernel: Kernel = _GAUSSIAN,
) -> Array:
    r"""The share of matches among the picks of new points, :math:`\sum_j m_{ij} p_{ij}`.

    ``Z`` is (n, d), ``Z_reference`` (n_references, d), and ``matches`` a sparse matrix or an array
    of shape (n, n_references) with entries in [0, 1].  With weights,
    :math:`p_{ij} \propto v_j \kappa(d_{ij})`.  The result is (n,), in float64.
    """
    # float64: called once, not at every step
    Z = check_points(Z).astype(np.float64, copy=False)
    Z_reference = check_points(Z_reference, "Z_reference").astype(np.float64, copy=False)
    n, d = Z_reference.shape
    if Z.shape[1] != d:
        raise ValueError(f"Z has {Z.shape[1]} columns but Z_reference has {d}.")
    M = sp.csr_array(matches)
    if M.shape != (len(Z), n):
        raise ValueError(f"matches must have shape {(len(Z), n)}. Got {M.shape} instead.")
    if not len(Z):
        return np.zeros(0)
    mass = plain_mass(np.ones(n) if sample_weight is None else sample_weight, np.arange(n))
    rows = np.flatnonzero(mass)
    data = Data(Z_reference, np.zeros(n, dtype=np.intp), mass, rows[:0], rows)
    backend = choose.backend(Z_reference, len(rows))
    log2, shift = (part[:, 0] for part in backend.sums_by_class(Z, data, kernel, 1))
    query = np.repeat(np.arange(len(Z)), np.diff(M.indptr))
    share = np.zeros(len(Z))
    with np.errstate(divide="ignore"):  # weights of zero
        log2_mass = np.log2(mass)
    size = max(1, _COORDINATES // d)
    for first in range(0, M.nnz, size):
        part = slice(first, first + size)
        i, j = query[part], M.indices[part]
        energy, _ = kernel.energy(np.sum((Z[i] - Z_reference[j]) ** 2, axis=1), d)
        picked = np.exp2(log2_mass[j] - (_LOG2_E * energy - shift[i]) - log2[i])
        share += np.bincount(i, M.data[part] * picked, minlength=len(Z))
    return np.clip(share, 0.0, 1.0)
