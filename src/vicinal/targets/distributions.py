"""Label distributions: the probability of each class for each row."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vicinal.core import checks
from vicinal.core.types import Array, Target
from vicinal.targets._checks import checked_distributions, checked_numbers, checked_weight, part_of


class LabelDistributions(Target):
    r"""A distribution over the classes for each row.

    Two rows match with the probability that labels drawn from both are the same,
    :math:`m_{ij} = \sum_c t_{ic} t_{jc}`.

    Parameters
    ----------
    T : array-like of shape (n, n_classes)
        Probabilities: not negative, each row summing to one (to 1e-4; rows are then divided by
        their sum).
    sample_weight : array-like of shape (n,), default=None
        Importance weights v: the mass of a row as a reference and its weight as a query.

    Attributes
    ----------
    values : float64 array of shape (n, n_classes)
        The distributions.
    strata : int array of shape (n,)
        The most probable class of each row.
    """

    values: Array
    strata: Any = None
    sample_weight: Array | None
    #: what the score of a prediction is called
    score_name: ClassVar[str] = "expected accuracy"

    def __init__(self, T: Any, sample_weight: Any = None) -> None:
        if np.ndim(T) == 1:
            raise ValueError(
                "The 'T' parameter of LabelDistributions must have shape (n, n_classes). "
                f"Got {np.shape(T)} instead."
            )
        values = checked_numbers(T, "T", "LabelDistributions")
        self.values = checked_distributions(values, "The 'T' parameter of LabelDistributions")
        self.strata = self.values.argmax(axis=1)
        self.sample_weight = checked_weight(sample_weight, len(self.values), "LabelDistributions")

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.double(self.values, 2, "values")
        n, n_classes = self.values.shape
        checks.need(n_classes >= 1, "there are no classes")
        checks.within(self.values, "distributions")
        checks.indices(self.strata, "strata", n, n_classes)
        checks.weights(self.sample_weight, n)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def chance(self) -> float:
        """The score of always naming the class that is most probable over all rows."""
        if not len(self):
            return 0.0
        return float(np.average(self.values, axis=0, weights=self.sample_weight).max())

    @property
    def contents(self) -> tuple[Array, ...]:
        """All arrays besides the weights."""
        return (self.values,)

    def take(self, rows: Any) -> LabelDistributions:
        """The distributions of some rows."""
        if rows is None:
            return self
        part = object.__new__(type(self))
        part.values, part.strata = self.values[rows], self.strata[rows]
        part.sample_weight = part_of(self.sample_weight, rows)
        return part
