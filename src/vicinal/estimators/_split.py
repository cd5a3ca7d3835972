"""Held-out rows to judge a map by."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array

__all__ = ["hold_out", "too_small_to_judge"]


def hold_out(
    codes: Array, fraction: float, rng: Any, asker: str = "early_stopping=True"
) -> tuple[Array, Array]:
    """Positions of the rows to learn from and of those to judge by, class by class.

    One row at least, as near to the fraction as whole rows of each class allow.  Two rows of each
    class stay to learn from, so a class of one or two is never held out, where scikit-learn's
    stratified splits refuse the data.
    """
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    size = np.array([len(rows) for rows in members])
    room = np.maximum(size - 2, 0)
    take = np.minimum((fraction * size).astype(int), room)
    missing = max(1, round(fraction * len(codes))) - int(take.sum())
    order = rng.permutation(len(size))  # who of equals gives one more is left to chance
    for c in order[np.argsort((take - fraction * size)[order], kind="stable")]:
        if missing > 0 and take[c] < room[c]:
            take[c] += 1
            missing -= 1
    if not take.any():
        raise too_small_to_judge(asker, members)
    rows = np.sort(np.concatenate([m[:k] for m, k in zip(members, take, strict=True)]))
    return np.setdiff1d(np.arange(len(codes)), rows), rows


def too_small_to_judge(asker: str, members: list[Array]) -> ValueError:
    """The error of a split that leaves nothing to judge by."""
    largest = max(map(len, members))
    return ValueError(
        f"{asker} needs a class of at least 3 samples, one of them to judge by. "
        f"The largest has {largest}."
    )
