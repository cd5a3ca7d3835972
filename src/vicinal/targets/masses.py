"""Masses of references and classes: sample weights, priors, shares of the background."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.targets.labels import Labels

_LIGHTEST = 1e-60  # smallest mass relative to the largest; sums cover that range besides the shifts


def weights(labels: Any) -> Array:
    """The weights of the rows, scaled to a maximum of 1, so that no sum overflows."""
    if labels.sample_weight is None:
        return np.ones(len(labels))
    return labels.sample_weight / (labels.sample_weight.max(initial=0.0) or 1.0)


def reference_mass(
    labels: Labels, weight: Array, rows: Array, beta: Array | None = None
) -> tuple[Array, Array, float]:
    """Mass of each row as a reference, with maximum 1; weight of each class; log2 of the scaling.

    The last is minus log2 of the number by which the masses were divided.
    """
    class_mass = class_sums(labels, weight, rows)
    mass = weight
    if labels.priors is not None:
        # p(c) times a density over the class: [Oneata2011] eq. (3.12), 1/N_c inside the sum
        per_class = np.divide(
            labels.priors, class_mass, out=np.zeros_like(class_mass), where=class_mass > 0
        )
        mass = weight * per_class[labels.codes]
    if beta is not None:
        mass = mass * (1.0 - beta)[labels.codes]
    largest = mass[rows].max(initial=0.0)
    if largest > 0:
        mass = mass / largest
    # masses that would vanish in the sums must not determine their shift
    mass = np.where(mass > _LIGHTEST, mass, 0.0)
    return mass, class_mass, -float(np.log2(largest or 1.0))


def background_mass(
    labels: Labels, beta: Array, class_mass: Array, codes: Array, others: Array, unit: float
) -> tuple[Array, Array]:
    """log2 of the factors of the normal densities: for each class, and for each query's own class.

    The factor is share times prior, in the unit of the engine's sums.  Empirical priors are masses,
    that of the own class without the query; given priors are constant, but zero for a class without
    other rows.
    """
    if labels.priors is None:
        prior, own = class_mass, others
    else:
        prior = np.where(class_mass > 0, labels.priors, 0.0)
        own = np.where(others > 0, labels.priors[codes], 0.0)
    with np.errstate(divide="ignore"):
        return np.log2(beta * prior) + unit, np.log2(beta[codes] * own) + unit


def class_sums(labels: Labels, weight: Array, rows: Array) -> Array:
    """Sum of a weight over some rows of each class."""
    sums = np.bincount(labels.codes[rows], weight[rows], minlength=len(labels.classes))
    return sums.astype(np.float64)  # bincount of no rows returns integers


def others_of_class(
    labels: Labels, weight: Array, query_rows: Array, reference_rows: Array, class_mass: Array
) -> Array:
    """Weight of the own class of each query, without the query if it is a reference."""
    left_out = np.zeros(len(labels))
    left_out[reference_rows] = weight[reference_rows]
    others = class_mass[labels.codes] - left_out
    # The heaviest row may be nearly all of its class: sum the rest instead of subtracting it.
    ascending = reference_rows[np.argsort(weight[reference_rows], kind="stable")]
    heaviest = np.full(len(labels.classes), -1)
    heaviest[labels.codes[ascending]] = ascending
    heaviest = heaviest[heaviest >= 0]
    light = weight.copy()
    light[heaviest] = 0.0
    others[heaviest] = class_sums(labels, light, reference_rows)[labels.codes[heaviest]]
    return others[query_rows]


def leave_one_out(total: Array, others: Array) -> Array:
    """log2 of the factor that turns the own class's density into one over the *other* members."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(others > 0, np.log2(total / others), 0.0)


def reference_masses(labels: Labels, references: Array | None) -> Array:
    """Mass of each row as a reference, with maximum 1."""
    rows = np.arange(len(labels)) if references is None else references
    return reference_mass(labels, weights(labels), rows)[0]


def plain_mass(weight: Array, rows: Array) -> Array:
    """Mass of each row as a reference, with maximum 1; none that would vanish in a sum."""
    mass = weight / (weight[rows].max(initial=0.0) or 1.0)
    return np.where(mass > _LIGHTEST, mass, 0.0)
