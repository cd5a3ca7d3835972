"""The parameter ``k`` of methods that learn from votes or targets of k rows."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from vicinal._validation import check_number, warn

__all__ = ["VotesOfK"]


class VotesOfK:
    """``k``, the number of rows in learning, beside ``n_neighbors``, that of voters in prediction.

    Other libraries have one parameter for both, called ``n_neighbors``.
    """

    k: int | None
    n_neighbors: Any
    #: what ``k=None`` means
    _default_k: ClassVar[int] = 5
    #: what k is the number of, for messages
    _k_counts: ClassVar[str]

    @property
    def _number(self) -> int:
        """The k to learn with."""
        return self._default_k if self.k is None else int(self.k)

    def _check_k(self) -> None:
        check_number(self, "k", 1, integer=True, or_else=(None,))

    def _warn_k_unset(self) -> None:
        """Warn if only the number of voters was set, and differs from k."""
        voters = self.n_neighbors
        if self.k is not None or not isinstance(voters, Integral) or voters == self._number:
            return
        name = type(self).__name__
        warn(
            f"n_neighbors={voters} of {name} is the number of voters in prediction alone; k, the "
            f"number of {self._k_counts} in learning, is {self._number}. Set k={voters} too, or "
            f"k={self._number} to keep it."
        )
