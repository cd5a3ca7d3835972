"""Parameter checks for votes of k neighbours, and the k and precision that can be used."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np

from vicinal.core.points import double
from vicinal.core.types import Array
from vicinal.targets import Labels

#: largest k (with a small margin) at which no gradient loses all its digits, by the same bound
SAFE_K = 40
_SINGLE_UP_TO = 15  # largest k at which float32 keeps enough digits, docs/theory/knca.md (i)


def check_vote(vote: str, owner: str) -> bool:
    """Whether the vote must be unanimous."""
    if vote not in ("majority", "all"):
        raise ValueError(
            f"The 'vote' parameter of {owner} must be 'majority' or 'all'. Got {vote!r} instead."
        )
    return vote == "all"


def check_k(k: Any, owner: str) -> None:
    """Raise unless k is a positive integer."""
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise ValueError(
            f"The 'k' parameter of {owner} must be an int in [1, inf). Got {k!r} instead."
        )


def check_labels(y: Any, n: int, owner: str, points: str = "Z") -> Labels:
    """Labels without weights or priors: a weighted vote of k neighbours is a different model."""
    labels = y if isinstance(y, Labels) else Labels(y)
    if len(labels) != n:
        raise ValueError(f"{points} has {n} rows but there are {len(labels)} labels.")
    for name, part in (("sample_weight", labels.sample_weight), ("priors", labels.priors)):
        if part is not None:
            raise ValueError(
                f"The labels of {owner} must not have {name}: all votes count equally."
            )
    return labels


def usable_k(k: int, available: int, warn: bool = True, gradient: bool = True) -> int:
    """k, or with a warning the number of rows available if that is smaller."""
    if k > available and warn:
        warnings.warn(
            f"k={k} is more than the {available} rows that a query can pick; k={available} is "
            "used.",
            UserWarning,
            stacklevel=3,
        )
    k = min(int(k), available)
    if k > SAFE_K and warn and gradient:
        warnings.warn(large_k(k), UserWarning, stacklevel=3)
    return k


def large_k(k: int) -> str:
    """The warning for a k above ``SAFE_K``."""
    return (
        f"k={k} is more than {SAFE_K}: gradients lose digits, and above about 60 all of them, in "
        "classes with few more than k members close together."
    )


def precision(Z: Any, k: int) -> Any:
    """Z, converted to float64 if float32 has too few digits for sets of k."""
    return double(Z) if k > _SINGLE_UP_TO else Z


def usable_votes(counts: Array, k: int, vote: str) -> int:
    """The largest number of voters, up to k, with which a row of some class can win."""
    for fewer in range(min(k, int(counts.sum()) - 1), 1, -1):
        if can_win(counts, fewer, vote).any():
            return fewer
    return 1


def can_win(counts: Array, k: int, vote: str) -> Array:
    """For each class, whether its rows have k other rows among which the class wins.

    More own votes leave fewer to the other classes and let each of these have more.  So it is best
    to use all own votes that there are, up to k.
    """
    own = np.minimum(counts - 1, k)
    if vote == "all":
        return own == k
    values, at = np.unique(own, return_inverse=True)
    room = np.array([np.minimum(counts, votes - 1).sum() for votes in values])[at]
    room -= np.minimum(counts, own - 1)
    return (own >= 1) & (room >= k - own)
