"""Tables of numbers to predict: real ones that packages of the registry carry, and Friedman's."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn import datasets as peers

from vicinal import datasets

__all__ = ["REAL", "TABLES", "load"]

_ROWS = 500  # of the tables that are made up


def _housing() -> tuple[Any, Any]:
    bunch = datasets.load("housing")
    return bunch.data, bunch.target


def _diabetes() -> tuple[Any, Any]:
    return peers.load_diabetes(return_X_y=True)


def _auto_mpg() -> tuple[Any, Any]:
    from mlxtend.data import autompg_data

    X, y = autompg_data()
    return X[:, :7], y  # the last column, the name of the car, is not a number


def _star98() -> tuple[Any, Any]:
    from statsmodels.datasets import star98

    table = star98.load_pandas()
    counts = table.endog.to_numpy()  # pupils above and below the national median
    # the first twelve columns; the others are products of these
    return table.exog.to_numpy()[:, :12], counts[:, 0] / counts.sum(axis=1)


#: the real tables: where they come from, and what is to be predicted
REAL: dict[str, tuple[Callable[[], tuple[Any, Any]], str]] = {
    "housing": (_housing, "median price of a house in 1,000 $, which the data cut at 50"),
    "diabetes": (_diabetes, "progression of the disease (scikit-learn)"),
    "auto mpg": (_auto_mpg, "miles per gallon of a car (mlxtend)"),
    "star98": (_star98, "share of a district's pupils above the median (statsmodels)"),
}
_MADE: dict[str, Callable[[], tuple[Any, Any]]] = {
    "friedman1": lambda: peers.make_friedman1(_ROWS, noise=1.0, random_state=0),
    "friedman2": lambda: peers.make_friedman2(_ROWS, noise=125.0, random_state=0),
    "friedman3": lambda: peers.make_friedman3(_ROWS, noise=0.1, random_state=0),
}
TABLES = (*REAL, *_MADE)


@lru_cache(maxsize=2)
def load(name: str) -> tuple[Any, Any]:
    """Rows and numbers of a table, in float64."""
    make = REAL[name][0] if name in REAL else _MADE[name]
    X, y = make()
    return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
