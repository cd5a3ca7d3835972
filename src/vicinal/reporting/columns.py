"""What a page shows of columns: their importance to the learnt metric, and their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.reporting.contents import Metric, Table
from vicinal.reporting.spaces import Scaling

_LISTED = 200  # features whose importances are listed
_IN_MATRIX = 40  # features of the heat map
_COLUMNS = 12  # of the table of cells
_CHARACTERS = 40  # of a cell
_TEXT = 4_000_000  # characters of all cells together, about


def names_of(model: Any, learner: Any, D: int) -> list[str]:
    """Names of the columns that the learner sees; a gap is named after its column."""
    if len(getattr(model, "steps", [])) > 1:
        return [_readable(str(name)) for name in model[:-1].get_feature_names_out()]
    named = getattr(learner, "feature_names_in_", None)
    return [f"column {j}" for j in range(D)] if named is None else [str(name) for name in named]


def _readable(name: str) -> str:
    """scikit-learn's name of the column that says where values are missing, in words."""
    block, mark, column = name.partition("missingindicator_")
    return f"{block}{column} missing" if mark else name


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
    learner: Any, names: list[str], importances: Array | None, scaling: Scaling
) -> Metric | None:
    """Importances, most important feature first, and the matrix of the most important ones."""
    if importances is None:
        return None
    order = np.argsort(-importances, kind="stable")
    listed, chosen = order[:_LISTED], order[:_IN_MATRIX]
    note = (
        "The importance of a feature is its share in the squared distance of two rows, where all "
        "features differ by one standard deviation."
    )
    if len(order) > _LISTED:
        note += f" The {_LISTED} most important of {len(order):,} features are listed."
    matrix, in_matrix = None, []
    A = getattr(learner, "components_", None)
    if A is not None and len(names) > 1:
        A = _by_deviations(A, scaling)[:, chosen]
        matrix, in_matrix = A.T @ A, [names[j] for j in chosen]
        note += " The matrix is that of the metric, in standard deviations of the features."
    return Metric([names[j] for j in listed], importances[listed], matrix, in_matrix, note)


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
    D = parts[0].shape[1]
    columns = names if len(names) == D else [f"column {j}" for j in range(D)]
    if hasattr(parts[0], "columns"):
        columns = [str(name) for name in parts[0].columns]
    most = _TEXT // (8 * max(1, sum(X.shape[0] for X in parts)))
    weight = np.zeros(D)
    if importances is not None:
        weight = _by_column(columns, names, importances)
    chosen = np.argsort(-weight, kind="stable")[: int(np.clip(most, 1, _COLUMNS))]
    cells = [[_cell(value) for X in parts for value in _values(X, int(j))] for j in chosen]
    return Table([columns[j] for j in chosen], cells)


def _by_column(columns: list[str], names: list[str], importances: Array) -> Array:
    """Importances of the columns as given: an encoded column has that of all its features."""
    if names == columns:
        return importances
    place = {column: j for j, column in enumerate(columns)}
    total = np.zeros(len(columns))
    for name, share in zip(names, importances, strict=True):
        known = name
        while known and known not in place:  # one-hot columns are called column_category
            known = known.rpartition("_")[0]
        if known in place:
            total[place[known]] += share
    return total


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
        return f"{value:.5g}"
    text = str(value)
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"
