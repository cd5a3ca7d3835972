"""Targets with numbers for each row: to predict, to compare, or shares of classes."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vicinal._validation import check_bool, check_number
from vicinal.core import checks
from vicinal.core.types import Array, Target
from vicinal.targets._checks import checked_distributions, checked_numbers, checked_weight, part_of


class Numbers(Target):
    """Numbers of the rows, for regression.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, q)
        Finite numbers, q for each row.
    sample_weight : array-like of shape (n,), default=None
        Importance weights v: the mass of a row as a reference and its weight as a query.

    Attributes
    ----------
    values : float64 array of shape (n, q)
        The numbers, as they were given.
    """

    values: Array
    sample_weight: Array | None
    #: what the score of a prediction is called
    score_name: ClassVar[str] = "R²"

    def __init__(self, y: Any, sample_weight: Any = None) -> None:
        self.values = checked_numbers(y, "y", type(self).__name__)
        self.sample_weight = checked_weight(sample_weight, len(self.values), type(self).__name__)

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.double(self.values, 2, "values")
        checks.need(self.values.shape[1] >= 1, "values must not be empty")
        checks.weights(self.sample_weight, len(self))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def contents(self) -> tuple[Array, ...]:
        """All arrays besides the weights."""
        return (self.values,)

    def take(self, rows: Any) -> Numbers:
        """The numbers of some rows."""
        if rows is None:
            return self
        part = object.__new__(type(self))
        vars(part).update(vars(self))
        part.values, part.sample_weight = self.values[rows], part_of(self.sample_weight, rows)
        return part


class NearNumbers(Numbers):
    r"""Numbers of the rows: two rows match by how near their numbers are.

    :math:`m_{ij} = e^{-\|y_i - y_j\|^2 / 2 s^2}` with the width s, or 1 where
    :math:`\|y_i - y_j\| \le s` and 0 elsewhere if ``hard`` ([Goldberger2005]_ section 5).

    Parameters
    ----------
    y : array-like of shape (n,) or (n, q)
        Finite numbers, q for each row.
    width : float
        The width s > 0; if ``hard``, 0 is allowed: equal numbers match.
    hard : bool, default=False
        Whether a match is all or nothing.
    sample_weight : array-like of shape (n,), default=None
        Importance weights v: the mass of a row as a reference and its weight as a query.

    Attributes
    ----------
    values : float64 array of shape (n, q)
        The numbers, as they were given.
    """

    width: float
    hard: bool
    score_name: ClassVar[str] = "R²"

    def __init__(self, y: Any, width: float, hard: bool = False, sample_weight: Any = None) -> None:
        super().__init__(y, sample_weight)
        self.width, self.hard = width, hard
        check_bool(self, "hard")
        if not (hard and width == 0):
            check_number(self, "width", 0.0, open_ends=True)
        self.width, self.hard = float(width), bool(hard)

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        super().check_fields()
        checks.within(self.width, "width")

    @property
    def contents(self) -> tuple[Array, ...]:
        """All arrays besides the weights."""
        return self.values, np.array([self.width, self.hard], dtype=np.float64)

    def energies(self, queries: Array, references: Array) -> Array:
        """:math:`-\\ln m_{ij}` of queries and references; inf where they do not match."""
        squared = np.zeros((len(queries), len(references)))
        for column in self.values.T:
            squared += np.square(column[queries][:, None] - column[references])
        if self.hard:
            return np.where(squared <= self.width**2, 0.0, np.inf)
        return squared / (2.0 * self.width**2)


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
