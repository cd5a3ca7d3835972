"""Rows held out to score a map, once or in folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.targets.labels import class_codes

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


def cross_validation(problem: Problem, cv: Any, rng: Any, owner: str = "NCA") -> list[Problem]:
    """One problem for each fold: trained on all other rows, with that fold held out.

    If ``cv`` is a number, the folds take rows from each class in turn, and leave two of it for
    training: classes of one or two rows are never held out.  None is five folds, or as many as
    there are rows to hold out.  Any other ``cv`` of scikit-learn splits the training rows.
    """
    rows = problem.rows
    strata = problem.target.strata
    codes = None if strata is None else strata[rows]
    if cv is None or isinstance(cv, int | np.integer):
        n_folds = None if cv is None else int(cv)
        folds = stratified_folds(class_codes(codes, len(rows)), n_folds, rng, owner)
    else:
        splitter = check_cv(cv, codes, classifier=codes is not None)
        folds = list(splitter.split(np.zeros((len(rows), 1)), codes))
        _check_positions(folds, len(rows), owner)
    return [
        problem.replace(train=np.sort(rows[train]), held_out=np.sort(rows[held_out]))
        for train, held_out in folds
    ]


def _check_positions(folds: list[tuple[Array, Array]], n: int, owner: str) -> None:
    last = max(int(np.max(part, initial=0)) for fold in folds for part in map(np.asarray, fold))
    if last >= n:
        raise ValueError(
            f"The 'cv' parameter of {owner} must split the {n} rows that the search learns from: "
            "not those of weight zero, nor those held out for early stopping. "
            f"Got a split with row {last} instead."
        )


def search_rows(problem: Problem, rng: np.random.RandomState, most: int) -> Array:
    """The rows that a search learns from: all training rows, or a sample of at most so many.

    If a sample would leave only a few rows of each class, it consists of some whole classes.  A
    target whose rows belong together otherwise may have ``draw(rows, size, rng)``.
    """
    rows = problem.rows
    if len(rows) <= most:
        return rows
    if problem.target.draw is not None:
        return problem.target.draw(rows, most, rng)
    codes = class_codes(problem.target.strata, len(problem.X))
    classes = np.unique(codes[rows])
    if len(classes) > most // 10:
        chosen, size = rng.permutation(classes), np.bincount(codes[rows])
        last = int(np.searchsorted(np.cumsum(size[chosen]), most))
        rows = rows[np.isin(codes[rows], chosen[: max(2, last)])]
    return np.sort(rng.permutation(rows)[:most])
