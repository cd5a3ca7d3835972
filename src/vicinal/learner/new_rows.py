"""New rows for a pipeline that is fitted: has the table the columns, and numbers in them?"""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from vicinal.learner.columns import is_frame, read_columns
from vicinal.learner.errors import ColumnError
from vicinal.learner.kinds import is_number


def check_new_rows(model: Any, X: Any) -> None:
    """Refuse a data frame that a pipeline of `make_learner` cannot use, before it is used.

    scikit-learn's own errors name neither the column nor the row.  Other models and arrays are left
    to it.

    Parameters
    ----------
    model : Pipeline
        As `make_learner` builds it.
    X : data frame of pandas or polars
        The new rows; further columns do not matter.

    Raises
    ------
    ValueError
        If X lacks a column that is used.
    ColumnError
        If a column has words where the model needs numbers.
    """
    prepare = getattr(model, "named_steps", {}).get("prepare")
    if not isinstance(prepare, ColumnTransformer) or not is_frame(X):
        return
    blocks = {name: list(columns) for name, _, columns in prepare.transformers}
    _check_present([name for names in blocks.values() for name in names], X)
    numbers = [name for block in ("numbers", "gaps") for name in blocks.get(block, ())]
    errors = []
    for column in read_columns(X[numbers]) if numbers and isinstance(numbers[0], str) else ():
        words = [not is_number(value) for value in column.present]
        if column.storage not in ("number", "bool") and any(words):
            row = column.row_of(int(np.flatnonzero(words)[0]))
            remedies = [("na", "to read that value as missing")]
            problem = "must hold numbers for this model"
            errors.append(ColumnError(column.name, problem, remedies, row, column.values[row]))
    if errors:
        raise ColumnError.all_of(errors)


def _check_present(names: list[Any], X: Any) -> None:
    here = [str(name) for name in X.columns]
    missing = [name for name in names if isinstance(name, str) and name not in here]
    if not missing:
        return
    near = difflib.get_close_matches(missing[0], here, n=1, cutoff=0.6)
    hint = f" Is it {near[0]!r}?" if near else ""
    listed = ", ".join(map(repr, missing[:5])) + (", …" if len(missing) > 5 else "")
    raise ValueError(
        f"The table lacks {len(missing)} of the {len(names)} columns that the model was learnt "
        f"from: {listed}.{hint}"
    )
