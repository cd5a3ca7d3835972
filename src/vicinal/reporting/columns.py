"""What a page shows of columns: their importance to the learnt metric, and their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.learner.errors import number_text
from vicinal.plotting._fitted import readable
from vicinal.reporting.contents import Metric, Table
from vicinal.reporting.spaces import Scaling

_LISTED = 200  # features whose importances are listed
_IN_MATRIX = 20  # features of the heat map at most
_LEAST_IN_MATRIX = 6  # and at least
_SHOWN_SHARE = 0.95  # of the importances, which the heat map shows
_PARTS = 4  # features of an encoded column that are named
_COLUMNS = 12  # of the table of cells
_CHARACTERS = 40  # of a cell
_TEXT = 4_000_000  # characters of all cells together, about


def names_of(model: Any, learner: Any, D: int) -> list[str]:
    """Names of the columns that the learner sees; a gap is named after its column."""
    if len(getattr(model, "steps", [])) > 1:
        return [readable(str(name)) for name in model[:-1].get_feature_names_out()]
    named = getattr(learner, "feature_names_in_", None)
    return [f"column {j}" for j in range(D)] if named is None else [str(name) for name in named]


def importances_of(learner: Any, scaling: Scaling) -> Array | None:
    """The share of each feature in the metric; None if the method has no such shares."""
    A = getattr(learner, "components_", None)
    if A is not None:
        found = np.sum(_by_deviations(A, scaling) ** 2, axis=0)
    elif hasattr(learner, "feature_importances_"):
        found = np.asarray(learner.feature_importances_, np.float64)
        if getattr(learner, "scaling", None) is None:  # it learnt from columns as they are
            found = _by_deviations(np.sqrt(found), scaling) ** 2
    else:
        return None
    return found / (found.sum() or 1.0)


def metric_of(
    learner: Any, names: list[str], columns: list[str], importances: Array | None, scaling: Scaling
) -> Metric | None:
    """Importances by column of the table, the most important first, and the matrix by feature.

    ``names`` are the features that the learner sees, ``columns`` those of the table.
    """
    if importances is None:
        return None
    place = _places(columns, names)
    if place is None:  # features that belong to no column
        columns, place = names, list(range(len(names)))
    total = np.zeros(len(columns))
    np.add.at(total, place, importances)
    used = np.unique(place)
    listed = used[np.argsort(-total[used], kind="stable")][:_LISTED]
    parts = [_parts(columns[j], j, place, names, importances) for j in listed]
    note = (
        "The importance of a column is its share in the squared distance of two rows, where all "
        "features differ by one standard deviation."
    )
    if any(parts):
        note += " An encoded column has the importances of all its features together."
    if len(used) > _LISTED:
        note += f" The {_LISTED} most important of {len(used):,} columns are listed."
    matrix, in_matrix = None, []
    order = np.argsort(-importances, kind="stable")
    most = 1 + int(np.searchsorted(np.cumsum(importances[order]), _SHOWN_SHARE))
    chosen = order[: min(max(most, _LEAST_IN_MATRIX), _IN_MATRIX)]
    A = getattr(learner, "components_", None)
    if A is not None and len(names) > 1:
        A = _by_deviations(A, scaling)[:, chosen]
        matrix, in_matrix = A.T @ A, [names[j] for j in chosen]
    return Metric(
        [columns[j] for j in listed], total[listed], matrix, in_matrix, note,
        parts if any(parts) else [],
    )  # fmt: skip


def _parts(column: str, j: int, place: list[int], names: list[str], importances: Array) -> str:
    """The features of an encoded column with their shares, the largest first."""
    own = [i for i, at in enumerate(place) if at == j]
    if len(own) < 2:
        return ""
    own.sort(key=lambda i: -importances[i])
    texts = []
    for i in own[:_PARTS]:
        short = names[i].removeprefix(column).strip(" _") or names[i]
        texts.append(f"{short} {100 * importances[i]:.1f} %")
    more = f", and {len(own) - _PARTS} more" if len(own) > _PARTS else ""
    return ", ".join(texts) + more


def _places(columns: list[str], names: list[str]) -> list[int] | None:
    """The column that each feature comes from: the longest one that its name begins with."""
    known = {column: j for j, column in enumerate(columns)}
    found = []
    for name in names:
        whole = name.partition("__")[2] if name not in known and "__" in name else name
        start = whole
        while start and start not in known:  # encoded columns are called column_category
            cut = max(start.rfind("_"), start.rfind(" "))
            start = start[:cut] if cut > 0 else ""
        if start not in known:
            return None
        found.append(known[start])
    return found


def columns_of(X: Any) -> list[str]:
    """The names of the columns of a table."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    return [f"column {j}" for j in range(X.shape[1])]


def _by_deviations(A: Array, scaling: Scaling) -> Array:
    """The map for features that are measured in standard deviations."""
    scale = scaling.scale
    return np.asarray(A, np.float64) * np.divide(
        1.0, scale, out=np.zeros_like(scale), where=scale > 0
    )


def table_of(parts: list[Any], names: list[str], importances: Array | None) -> Table:
    """The most important columns of all rows, as text.

    Parameters
    ----------
    parts : list
        Tables whose rows make up the points, in their order.
    names : list of str
        The names of the features that the learner sees, after encoding.
    importances : array or None
        Their importances.
    """
    D, columns = parts[0].shape[1], columns_of(parts[0])
    if len(names) == D and not hasattr(parts[0], "columns"):
        columns = names
    most = _TEXT // (8 * max(1, sum(X.shape[0] for X in parts)))
    weight, place = np.zeros(D), _places(columns, names)
    if importances is not None and place is not None:
        np.add.at(weight, place, importances)
    chosen = np.argsort(-weight, kind="stable")[: int(np.clip(most, 1, _COLUMNS))]
    cells = [[_cell(value) for X in parts for value in _values(X, int(j))] for j in chosen]
    return Table([columns[j] for j in chosen], cells)


def _values(X: Any, j: int) -> list[Any]:
    """A column as Python's own values."""
    if hasattr(X, "iloc"):
        return X.iloc[:, j].tolist()
    if hasattr(X, "columns"):
        return X[X.columns[j]].to_list()
    return (X[:, [j]].toarray() if sp.issparse(X) else np.asarray(X)[:, [j]]).ravel().tolist()


def _cell(value: Any) -> str:
    """A cell as text: numbers with five digits, long texts cut."""
    if value is None or value != value:
        return ""
    if isinstance(value, float | np.floating):
        return number_text(float(value), 5)
    text = str(value)
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
