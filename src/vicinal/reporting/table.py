"""What a page shows of each row: some of its cells, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.reporting.contents import Table

_COLUMNS = 12
_CHARACTERS = 40  # of a cell
_TEXT = 4_000_000  # characters of all cells together, about


def columns_of(X: Any, names: list[str]) -> list[str]:
    """The names of the columns of the table as it was given."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    D = X.shape[1] if hasattr(X, "shape") else len(X[0])
    return names if len(names) == D else [f"column {j}" for j in range(D)]


def table_of(
    parts: list[Any], columns: list[str], names: list[str], importances: Array | None
) -> Table:
    """The most important columns of all rows, as text.

    Parameters
    ----------
    parts : list
        Tables whose rows make up the points, in their order.
    columns : list of str
        The names of their columns.
    names : list of str
        The names of the features that the learner sees, after encoding.
    importances : array or None
        Their importances.
    """
    n = sum(len_of(X) for X in parts)
    most = int(np.clip(_TEXT // (8 * max(n, 1)), 1, _COLUMNS))
    weight = np.zeros(len(columns))
    if importances is not None:
        weight = _by_column(columns, names, importances)
    chosen = np.argsort(-weight, kind="stable")[:most]
    cells = [[text for X in parts for text in cells_of(X, int(j))] for j in chosen]
    return Table([columns[j] for j in chosen], cells)


def _by_column(columns: list[str], names: list[str], importances: Array) -> Array:
    """Importances of the columns as given: an encoded column has that of all its features."""
    if names == columns:
        return importances
    place = {column: j for j, column in enumerate(columns)}
    total = np.zeros(len(columns))
    for name, share in zip(names, importances, strict=True):
        at = place.get(name)
        cut = len(name)
        while at is None and cut > 0:  # one-hot columns are called column_category
            cut = name.rfind("_", 0, cut)
            at = place.get(name[: max(cut, 0)])
        if at is not None:
            total[at] += share
    return total


def len_of(X: Any) -> int:
    """Number of rows."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def cells_of(X: Any, j: int) -> list[str]:
    """A column as short texts."""
    if hasattr(X, "iloc"):
        values = X.iloc[:, j].tolist()
    elif hasattr(X, "columns"):
        values = X[X.columns[j]].to_list()
    elif sp.issparse(X):
        values = np.asarray(X[:, [j]].todense()).ravel().tolist()
    else:
        values = np.asarray(X, dtype=None if hasattr(X, "dtype") else object)[:, j].tolist()
    return [shortened(value) for value in values]


def shortened(value: Any) -> str:
    """A cell as text: numbers with five digits, long texts cut."""
    if value is None or value != value:
        return ""
    if isinstance(value, float | np.floating):
        return f"{value:.5g}"
    text = str(value)
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
