"""Class probabilities of new points: the chance that each class wins the vote of k neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.points import check_points, with_range
from vicinal.core.types import Array
from vicinal.engines import choose
from vicinal.objectives._votes import check_k, check_labels, check_vote, precision, usable_k


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
