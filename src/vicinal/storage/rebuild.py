"""A fitted ColumnTransformer from public attributes alone.

It is fitted to a small made-up table that gives each part the structure that it had: the same
categories, the same rare ones among them, gaps in the same columns, the same words.  Then the
public fitted attributes are set, and compared with those of the file where they cannot be set.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from vicinal.core.checks import need
from vicinal.core.types import Array

_CELLS = 2**23  # entries of the largest made-up table
_COLUMNS = 2**16  # of the widest data frame
_ROWS = 2  # of the smallest


def rebuild(
    table: ColumnTransformer, states: list[tuple[list[int], Any]], n: int, names: Any
) -> ColumnTransformer:
    """Fit a ColumnTransformer as it was once fitted.

    Parameters
    ----------
    table : ColumnTransformer
        Unfitted.
    states : list of (positions, found)
        For each block the positions of its columns, and the fitted attributes of its part: a dict,
        or a list of dicts for a pipeline.
    n : int
        Number of columns.
    names : list of str or None
        Their names.
    """
    columns: list[Any] = [np.zeros(_ROWS)] * n
    for positions, found in states:
        for place, j in enumerate(positions):
            columns[j] = _column(found if isinstance(found, list) else [found], place)
    n_rows = max(len(column) for column in columns)
    need(n_rows * n <= _CELLS, f"a table of {n_rows} categories and {n} columns is too large")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what is made up
        table.fit(_frame([_filled(column, n_rows) for column in columns], names))
    fitted = {name: part for name, part, _ in table.transformers_}
    for (name, _, columns_of), (_, found) in zip(table.transformers, states, strict=True):
        part = fitted[name]
        parts = [step for _, step in part.steps] if isinstance(part, Pipeline) else [part]
        steps = found if isinstance(found, list) else [found]
        for step, state in zip(parts, steps, strict=True):
            _SETTERS[state["kind"]](step, state, len(columns_of))
    return table


def _column(steps: list[dict[str, Any]], place: int) -> Array:
    """Values that give each part of a block the structure that it had for one of its columns."""
    for state in steps:
        if state["kind"] == "OneHotEncoder":
            return _categories(state, place)
        if state["kind"] == "OrdinalEncoder":
            known = state["categories_"][place]
            need(isinstance(known, np.ndarray) and len(known) > 0, "categories of a column")
            return np.array([known[0]] * _ROWS, dtype=object)
        if state["kind"] == "TextColumns":
            return _texts(state["words_"][place], state["components_"][place])
    imputers = [state for state in steps if state["kind"] == "SimpleImputer"]
    dtype = np.float64
    gap = False
    for state in imputers:
        found = np.asarray(state["statistics_"])
        dtype = found.dtype.type if found.dtype.kind == "f" else np.float64
        gap |= bool(np.isin(place, state.get("missing_in_fit", [])))
    # different values, so that the scaler has something to scale
    return np.array([np.nan if gap else 1.0, 0.0], dtype=dtype)


def _texts(words: Any, components: Any) -> Array:
    """All words twice, since a word must occur in two rows, and rows for as many components."""
    known = isinstance(words, list) and all(isinstance(word, str) for word in words)
    need(known and len(words) > 0, "words of a text")
    n_rows = 1
    if components is not None:
        need(isinstance(components, np.ndarray) and components.ndim == 2, "components of a text")
        n_rows = min(len(components), len(words))
    return np.array([" ".join(words)] * _ROWS + [""] * n_rows, dtype=object)


def _categories(state: dict[str, Any], place: int) -> Array:
    """Each category once, and those that are not rare once more."""
    known = state["categories_"][place]
    need(isinstance(known, np.ndarray) and known.ndim == 1 and len(known) > 0, "categories")
    need(known.dtype.kind in "OfiubU", "categories must be numbers or strings")
    rare = state.get("infrequent_categories_", [None] * (place + 1))[place]
    rows = [known]
    if rare is not None:
        need(isinstance(rare, np.ndarray), "rare categories must be an array")
        rows.append(known[~_among(known, rare)])
    return np.concatenate(rows * 2 if len(known) < _ROWS else rows)


def _among(values: Array, others: Array) -> Array:
    """Which values are among others; NaN is equal to NaN."""
    keys = {_key(other) for other in others.tolist()}
    return np.array([_key(value) in keys for value in values.tolist()], dtype=bool)


def _key(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and value != value else (type(value), value)


def _filled(column: Array, n_rows: int) -> Array:
    """The column with more rows: its last value, which is none of the rare ones, again."""
    return np.concatenate([column, np.repeat(column[-1:], n_rows - len(column))])


def _frame(columns: list[Array], names: Any) -> Any:
    """The table: a data frame, or an array where numbers have no names."""
    numbers = {column.dtype for column in columns}
    if names is None and len(numbers) == 1 and numbers <= {np.dtype("f4"), np.dtype("f8")}:
        return np.column_stack(columns)
    need(len(columns) <= _COLUMNS, f"a table of {len(columns)} columns is too large")
    try:
        return _in_pandas(columns, names)
    except ImportError:
        if names is None:
            return np.column_stack([column.astype(object) for column in columns])
    import polars

    return polars.DataFrame(dict(zip(names, columns, strict=True)))


def _in_pandas(columns: list[Array], names: Any) -> Any:
    import pandas

    labels = list(range(len(columns))) if names is None else names
    series = [pandas.Series(column, dtype=column.dtype) for column in columns]
    return pandas.concat(series, axis=1).set_axis(labels, axis=1)


def _set_units(part: Any, state: dict[str, Any], n: int) -> None:
    found = state["units_"]
    floats = isinstance(found, np.ndarray) and found.dtype == np.float64 and found.shape == (n,)
    need(floats and bool((np.isfinite(found) & (found > 0)).all()), "units of columns")
    part.units_ = found


def _set_imputer(part: Any, state: dict[str, Any], n: int) -> None:
    found = state["statistics_"]
    need(isinstance(found, np.ndarray) and found.shape == (n,), "statistics of an imputer")
    need(found.dtype.kind in "fO", "statistics of an imputer must be numbers or strings")
    # scikit-learn makes float64 of all frames of polars
    alike = found.dtype.kind == part.statistics_.dtype.kind
    need(alike, "statistics of an imputer have another type")
    part.statistics_ = found
    if part.add_indicator:
        same = np.array_equal(part.indicator_.features_, state["missing_in_fit"])
        need(same, "the gaps of an imputer cannot be made again")


def _set_scaler(part: Any, state: dict[str, Any], n: int) -> None:
    for key in ("mean_", "var_", "scale_"):
        found = state[key]
        floats = isinstance(found, np.ndarray) and found.dtype == np.float64
        need(
            floats and found.shape == (n,) and bool(np.isfinite(found).all()), f"{key} of a scaler"
        )
        setattr(part, key, found)
    seen = state["n_samples_seen_"]
    need(isinstance(seen, int | float | np.number | np.ndarray), "rows that a scaler has seen")
    part.n_samples_seen_ = seen


def _compare_categories(part: Any, state: dict[str, Any], n: int) -> None:
    found = state["categories_"]
    need(isinstance(found, list) and len(found) == n, "categories of each column")
    pairs = [(list(part.categories_), found)]
    if "infrequent_categories_" in state:
        pairs.append((list(part.infrequent_categories_), state["infrequent_categories_"]))
    for made, wanted in pairs:
        need(isinstance(wanted, list) and len(made) == len(wanted), "categories of each column")
        same = all(_same(a, b) for a, b in zip(made, wanted, strict=True))
        need(same, "the categories of an encoder cannot be made again")


def _same(made: Array | None, wanted: Any) -> bool:
    if made is None or wanted is None:
        return made is wanted
    if not isinstance(wanted, np.ndarray) or made.dtype != wanted.dtype:
        return False
    return [_key(v) for v in made.tolist()] == [_key(v) for v in wanted.tolist()]


def _set_words(part: Any, state: dict[str, Any], n: int) -> None:
    words, idf, components = (state[key] for key in ("words_", "idf_", "components_"))
    need(len(words) == len(idf) == len(components) == n, "words of each column")
    for made, known, weight, matrix in zip(part.components_, words, idf, components, strict=True):
        m = len(known)
        need(isinstance(weight, np.ndarray) and weight.shape == (m,), "weights of words")
        need(weight.dtype == np.float64 and bool(np.isfinite(weight).all()), "weights of words")
        need((made is None) == (matrix is None), "the reduction of a text")
        if matrix is not None:
            floats = isinstance(matrix, np.ndarray) and matrix.dtype == np.float64
            need(floats and matrix.shape == made.shape, "the reduction of a text")
            need(bool(np.isfinite(matrix).all()), "the reduction of a text")
    need(part.words_ == words, "the words of a text cannot be made again")
    part.words_, part.idf_, part.components_ = words, idf, components


_SETTERS: dict[str, Any] = {
    "ColumnValues": _set_units,
    "SimpleImputer": _set_imputer,
    "StandardScaler": _set_scaler,
    "OneHotEncoder": _compare_categories,
    "OrdinalEncoder": _compare_categories,
    "TextColumns": _set_words,
}
