"""Small made-up tables that give the parts of a pipeline the structure that they had."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from vicinal.core.checks import need
from vicinal.core.types import Array

_COLUMNS = 2**16  # of the widest data frame
ROWS = 2  # of the smallest table


def made_up(steps: list[dict[str, Any]], place: int) -> Array:
    """Values that give each part of a block the structure that it had for one of its columns."""
    gap, dtype, n_rows = False, np.float64, ROWS
    for state in steps:
        if "categories_" in state:
            return _categories(state, place)
        if "words_" in state:
            return _texts(state["words_"][place], state["components_"][place])
        if "origins_" in state:
            return np.array([datetime(2000, 1, 1)] * ROWS, dtype=object)
        if "noise_variance_" in state:  # a rank needs as many rows, and some solvers one more
            n_rows = len(state["components_"]) + 1
        if "statistics_" in state:
            texts = np.asarray(state["statistics_"])
            if texts.dtype == object and len(steps) == 1:
                return np.array([texts[place]] * ROWS, dtype=object)
            gap |= state["indicator_"] is not None and bool(np.isin(place, state["indicator_"]))
            found = np.asarray(state["statistics_"]).dtype
            dtype = found.type if found.kind == "f" else np.float64
    # different values, so that the scaler has something to scale
    return np.array([np.nan if gap else 1.0] + [0.0] * (max(n_rows, ROWS) - 1), dtype=dtype)


def _texts(words: Any, components: Any) -> Array:
    """All words twice, since a word must occur in two rows, and rows for as many components."""
    known = isinstance(words, list) and all(isinstance(word, str) for word in words)
    need(known and len(words) > 0, "words of a text")
    n_rows = 1
    if components is not None:
        need(isinstance(components, np.ndarray) and components.ndim == 2, "components of a text")
        n_rows = min(len(components), len(words))
    return np.array([" ".join(words)] * ROWS + [""] * n_rows, dtype=object)


def _categories(state: dict[str, Any], place: int) -> Array:
    """Each category once, and those that are not rare once more."""
    known, rare = state["categories_"][place], state.get("infrequent_categories_")
    need(isinstance(known, np.ndarray) and known.ndim == 1 and len(known) > 0, "categories")
    need(known.dtype.kind in "OfiubU", "categories must be numbers or strings")
    rows = [known]
    if rare is not None and rare[place] is not None:
        need(isinstance(rare[place], np.ndarray), "rare categories must be an array")
        keys = set(keys_of(rare[place]))
        rows.append(known[[key not in keys for key in keys_of(known)]])
    return np.concatenate(rows * 2 if len(known) < ROWS else rows)


def keys_of(values: Array) -> list[Any]:
    """What is equal for equal values of one type; NaN is equal to NaN."""
    return [
        "NaN" if isinstance(value, float) and value != value else (type(value), value)
        for value in values.tolist()
    ]


def frame(columns: list[Array], names: Any) -> Any:
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
