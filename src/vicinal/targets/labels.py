"""Class labels with sample weights and class priors, and the masses that follow from them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vicinal.core import checks
from vicinal.core.types import Array, Target

#: smallest mass relative to the largest; sums cover that range besides the shifts
_LIGHTEST = 1e-60


class Labels(Target):
    """Class labels of the rows, with sample weights and class priors.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any type that can be sorted.
    sample_weight : array-like of shape (n,), default=None
        Importance weights v: the mass of a row as a reference and its weight as a query.
    priors : None, "uniform" or array-like of shape (n_classes,), default=None
        Class priors p(c) of the density view, in the order of ``classes`` (None: empirical, which
        is plain NCA).
    classes : array-like, default=None
        The sorted classes, if not all of them need occur in ``y``.
    """

    classes: Array
    codes: Array
    sample_weight: Array | None
    priors: Array | None

    def __init__(
        self,
        y: Any,
        sample_weight: Any = None,
        priors: Any = None,
        classes: Any = None,
    ) -> None:
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(
                f"The labels must be one-dimensional. Got {y.ndim} dimensions instead."
            )
        if classes is None:
            self.classes, self.codes = np.unique(y, return_inverse=True)
        else:
            self.classes = np.asarray(classes)
            self.codes = np.searchsorted(self.classes, y)
            unknown = self.classes.take(self.codes, mode="clip") != y
            if unknown.any():
                raise ValueError(f"The label {y[unknown][0]!r} is not among the classes.")
        self.sample_weight = None
        if sample_weight is not None:
            self.sample_weight = np.asarray(sample_weight, dtype=np.float64)
            if self.sample_weight.shape != y.shape:
                raise ValueError(
                    f"sample_weight must have shape {y.shape}. "
                    f"Got {self.sample_weight.shape} instead."
                )
            if not (np.isfinite(self.sample_weight).all() and (self.sample_weight >= 0).all()):
                raise ValueError("sample_weight must be finite and not negative.")
        self.priors = check_priors(priors, len(self.classes), "Labels")

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        n, n_classes = len(self.codes), len(self.classes)
        checks.need(self.classes.ndim == 1, "classes must have one axis")
        checks.indices(self.codes, "codes", n, n_classes)
        checks.weights(self.sample_weight, n)
        checks.weights(self.priors, n_classes, "priors")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def counts(self) -> Array:
        """Rows of each class."""
        return np.bincount(self.codes, minlength=len(self.classes))

    @property
    def strata(self) -> Array:
        """The class codes, for stratified splits."""
        return self.codes

    #: what the score of a prediction is called
    score_name: ClassVar[str] = "accuracy"

    @property
    def chance(self) -> float:
        """The score of a prediction that knows the classes alone: the share of the largest one."""
        mass = np.bincount(self.codes, self.sample_weight)
        return float(mass.max() / mass.sum())

    def take(self, rows: Array | slice | None) -> Labels:
        """The labels of some rows, with the same classes and priors."""
        if rows is None:
            return self
        part = object.__new__(type(self))
        part.classes, part.priors = self.classes, self.priors
        part.codes = self.codes[rows]
        part.sample_weight = None if self.sample_weight is None else self.sample_weight[rows]
        return part


def class_codes(codes: Array | None, n: int) -> Array:
    """The class codes; for rows without classes, one class of all n rows."""
    return np.zeros(n, dtype=np.intp) if codes is None else codes


def check_priors(priors: Any, n_classes: int, owner: str) -> Array | None:
    """The priors as probabilities, or None for the empirical ones; an error names the owner."""
    if priors is None:
        return None
    if isinstance(priors, str):
        if priors != "uniform":
            raise ValueError(
                f"The 'priors' parameter of {owner} must be None, 'uniform' or an array of "
                f"{n_classes} probabilities. Got {priors!r} instead."
            )
        return np.full(n_classes, 1.0 / n_classes)
    try:
        p = np.asarray(priors, dtype=np.float64)
    except (TypeError, ValueError):  # not numbers, or a ragged array
        p = np.empty(0)
    if p.shape != (n_classes,) or not np.isfinite(p).all() or (p < 0).any() or p.sum() <= 0:
        raise ValueError(
            f"The 'priors' parameter of {owner} must hold {n_classes} probabilities, none negative "
            f"and not all zero. Got {priors!r} instead."
        )
    return p / p.sum()


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
