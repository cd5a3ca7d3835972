"""Rows held out to score a map, once or in folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array

__all__ = [
    "TooFewRows",
    "classes_too_small",
    "hold_out",
    "stratified_folds",
]

_FOLDS = 5  # unless another number is asked for


class TooFewRows(ValueError):
    """No class has a row to hold out."""


def hold_out(
    codes: Array, fraction: float, rng: Any, asker: str = "early_stopping=True"
) -> tuple[Array, Array]:
    """Positions of the training rows and of the held-out rows, stratified by class.

    At least one row is held out, as near to the fraction as whole rows of each class allow.  Two
    rows of each class remain for training, so classes of one or two rows are never held out;
    scikit-learn's stratified splits refuse such data.
    """
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    size = np.array([len(rows) for rows in members])
    room = np.maximum(size - 2, 0)
    take = np.minimum((fraction * size).astype(int), room)
    missing = max(1, round(fraction * len(codes))) - int(take.sum())
    order = rng.permutation(len(size))  # random order among classes with equal remainders
    for c in order[np.argsort((take - fraction * size)[order], kind="stable")]:
        if missing > 0 and take[c] < room[c]:
            take[c] += 1
            missing -= 1
    if not take.any():
        raise classes_too_small(asker, members)
    rows = np.sort(np.concatenate([m[:k] for m, k in zip(members, take, strict=True)]))
    return np.setdiff1d(np.arange(len(codes)), rows), rows


def classes_too_small(asker: str, members: list[Array]) -> TooFewRows:
    """The error for a split without held-out rows."""
    largest = max(map(len, members))
    if len(members) == 1:
        return TooFewRows(
            f"{asker} needs at least 3 samples, one of them for scoring. Got {largest}."
        )
    return TooFewRows(
        f"{asker} needs a class of at least 3 samples, one of them for scoring. "
        f"The largest has {largest}."
    )


def stratified_folds(
    codes: Array, n_folds: int | None, rng: Any, owner: str
) -> list[tuple[Array, Array]]:
    """Positions of the training rows and of the held-out rows of each fold, by class in turn.

    None is five folds, or as many as there are rows to hold out.
    """
    members = [rng.permutation(np.flatnonzero(codes == c)) for c in np.unique(codes)]
    # every fold leaves at least two rows of each class
    most = _FOLDS if n_folds is None else n_folds
    usable = np.concatenate([part[: most * max(len(part) - 2, 0)] for part in members])
    if n_folds is None:
        n_folds = min(_FOLDS, len(usable))
    if len(usable) < 2:
        raise classes_too_small("'auto', besides any rows held out for early stopping,", members)
    if n_folds > len(usable):
        raise ValueError(
            f"The 'cv' parameter of {owner} must be an int in [2, {len(usable)}], the number of "
            f"rows that can be held out. Got {n_folds} instead."
        )
    fold = np.arange(len(usable)) % n_folds
    parts = [usable[fold == f] for f in range(n_folds)]
    return [(np.setdiff1d(np.arange(len(codes)), part), part) for part in parts]
