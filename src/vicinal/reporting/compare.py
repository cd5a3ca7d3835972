"""Which comparison a report makes: on held-out rows, by cross-validation, or without labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.estimators._pairs import TupleLearnerMixin
from vicinal.reporting.folds import FOLDS, by_folds, can_fold
from vicinal.reporting.points import Points
from vicinal.reporting.scores import Comparison, by_split, kept_neighbours
from vicinal.reporting.spaces import Space, principal
from vicinal.reporting.subject import Part, learns_labels, name_of

_TESTED = 3_000  # most held-out rows that are scored
_FOLDED = 5_000  # most rows of a cross-validation
_FOLDED_AGAIN = 2_000  # most rows, where it is not known how long a fit takes
_SECONDS = 60.0  # of a cross-validation, about

Tell = Callable[[str], None]


def compare(
    points: Points, estimator: Any, whole: Part, split: bool, seconds: float | None, tell: Tell
) -> Comparison | None:
    """Score the learnt metric beside others, on rows that it was not learnt from.

    Small tables are cross-validated.  Large ones, and fits that take long, are scored on the
    held-out rows of one split.

    Parameters
    ----------
    points : Points
    estimator : estimator
        As it was given; its clones are fitted in the folds.
    whole : Part
        All rows that may be learnt from.
    split : bool
        Whether rows for testing were given: no others are scored then.
    seconds : float or None
        Limit for a cross-validation.
    tell : callable
        Called with a few words.
    """
    learner = points.fitted.learner
    name = name_of(learner)
    if not learns_labels(learner):
        return _without_labels(points, name)
    if points.y is None or isinstance(learner, TupleLearnerMixin):
        return None
    limit = _SECONDS if seconds is None else seconds
    plain = not points.after.chi2 and not sp.issparse(whole.X)
    foldable = plain and whole.y is not None and can_fold(whole.y, points.kind)
    if foldable and not split:
        took = points.fitted.seconds
        quick = took is not None and FOLDS * took <= limit and len(whole) <= _FOLDED
        if quick or len(points.test) == 0:
            tell(f"cross-validating in {FOLDS} folds")
            rows = _sample(len(whole), _FOLDED if quick else _FOLDED_AGAIN)
            part = whole if len(rows) == len(whole) else whole.take(rows)
            d = points.after.points.shape[1]
            with warnings.catch_warnings(action="ignore"):  # of fits that nobody looks at
                found = by_folds(
                    estimator, part, points.kind, name, d, points.images, None if quick else limit
                )
            if part is not whole:
                told = (
                    f"A sample of {len(part):,} of {len(whole):,} rows was scored, so scores are "
                )
                found = replace(found, note=f"{found.note} {told}lower than those of all rows.")
            return found
    if len(points.test) == 0:
        return None
    tell("comparing with other distances")
    tested = points.test[_sample(len(points.test), _TESTED)]
    return by_split(points.before, points.after, points.train, tested, points.y, name)


def _without_labels(points: Points, name: str) -> Comparison | None:
    """The share of neighbours that a picture keeps; None for too few points."""
    if points.n < 4:
        return None
    picture = Space(principal(points.before.points, points.after.points.shape[1])[0])
    quick = points.before.quick(2000, points.n)[0]
    return kept_neighbours(quick, picture, points.after, name)


def _sample(n: int, most: int) -> Any:
    return np.sort(np.random.RandomState(0).permutation(n)[:most])
