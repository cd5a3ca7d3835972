"""Rows match if their numbers are near to each other."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vicinal._validation import check_bool, check_number
from vicinal.core import checks
from vicinal.core.types import Array
from vicinal.targets.numbers import Numbers


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
