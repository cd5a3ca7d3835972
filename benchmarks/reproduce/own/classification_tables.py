"""Tables with classes, and splits of 64/16/20, that the maps and their peers share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as peers
from sklearn.model_selection import train_test_split

from reproduce.framework import protocol

__all__ = ["SPLITS", "TABLES", "Split", "load", "split_rows"]

SPLITS = 10
#: small ones first
TABLES = (
    "iris",
    "wine",
    "glass",
    "spectf",
    "ecoli",
    "ionosphere",
    "breast cancer",
    "balance",
    "transfusion",
    "pima",
    "yeast",
    "digits",
    "segment",
    "landsat",
    "covtype15120",
    "magic",
)
#: classes with fewer rows than this are one stratum: a part might get none of their rows
_RARE = 5


class Split(NamedTuple):
    """Positions of the rows to learn from, to choose parameters by, and to score."""

    learn: Any
    choose: Any
    test: Any

    @property
    def train(self) -> Any:
        """All rows but those scored: 80 %."""
        return np.sort(np.concatenate([self.learn, self.choose]))


def load(name: str) -> tuple[Any, Any]:
    """Rows in float64, and the classes as integers from 0."""
    if name in ("breast cancer", "digits"):
        X, y = getattr(peers, f"load_{name.replace(' ', '_')}")(return_X_y=True)
    else:
        X, y = protocol.data(name)
    return np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1]


def split_rows(y: Any, seed: int) -> Split:
    """64 % of the rows to learn from, 16 % to choose by, 20 % to score, class by class."""
    strata = _strata(y)
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.2, stratify=strata, random_state=seed
    )
    learn, choose = train_test_split(
        train, test_size=0.2, stratify=strata[train], random_state=seed
    )
    return Split(np.sort(learn), np.sort(choose), np.sort(test))


def _strata(y: Any) -> Any:
    """The classes, the rare ones as one; with the largest class if that is still too small."""
    counts = np.bincount(y)
    rare = counts[y] < _RARE
    strata = np.where(rare, -1, y)
    if 0 < rare.sum() < _RARE - 1:
        strata[rare] = counts.argmax()
    return strata
