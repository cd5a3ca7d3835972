"""Numbers to predict: one or several for each row."""

from __future__ import annotations

from typing import Any, ClassVar

from vicinal.core import checks
from vicinal.core.types import Array, Target
from vicinal.targets._checks import checked_numbers, checked_weight, part_of


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
