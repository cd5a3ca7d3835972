"""The columns of a table as numbers, by a `ColumnTransformer`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from vicinal.learner.columns import ColumnValues, is_frame, read_columns
from vicinal.learner.errors import ColumnError, near
from vicinal.learner.kinds import Uses, is_number
from vicinal.learner.text import TextColumns


class Settings(NamedTuple):
    """How columns are prepared: the largest number of categories, the seed, whether to scale."""

    max_categories: int | None
    random_state: Any
    scale: bool


def preparation(
    X: Any, uses: Uses, settings: Settings, dropped: bool = False
) -> ColumnTransformer | StandardScaler | None:
    """The step before the learner; None if X is an array of numbers without gaps."""
    if sp.issparse(X):  # centred columns would not be sparse
        return StandardScaler(with_mean=False) if settings.scale else None
    untouched = uses.only_numbers and uses.complete and not settings.scale and not dropped
    if untouched and not is_frame(X):
        return None
    blocks = [
        ("numbers", _numbers(settings, indicator=False), uses.numbers),
        ("gaps", _numbers(settings, indicator=True), uses.gaps),
        ("ordinal", _ordinal(uses.ordinal, settings), list(uses.ordinal)),
        ("categories", _categories(settings, "missing"), uses.categories),
        ("codes", _categories(settings, np.nan), uses.codes),
        ("text", TextColumns(random_state=settings.random_state), uses.text),
    ]
    return ColumnTransformer(
        [(name, part, _located(X, columns)) for name, part, columns in blocks if columns],
        sparse_threshold=0.0,
        verbose_feature_names_out=_ambiguous(uses),
    )


def _located(X: Any, names: list[Any]) -> list[Any]:
    """Columns as a `ColumnTransformer` takes them: a number is a position to it, not a name."""
    if not is_frame(X) or all(isinstance(name, str) for name in X.columns):
        return names
    positions = {name: j for j, name in enumerate(X.columns)}
    return [positions[name] for name in names]


def options_of(prepare: ColumnTransformer, X: Any) -> dict[str, Any]:
    """The options of `make_learner` by which the columns of X are used as by this step."""
    blocks = {name: (part, list(columns)) for name, part, columns in prepare.transformers}
    uses = {name: columns for name, (_, columns) in blocks.items()}
    ordinal = {}
    if "ordinal" in blocks:
        encode = blocks["ordinal"][0].named_steps["encode"]
        levels = (list(order) for order in encode.categories)
        ordinal = dict(zip(uses["ordinal"], levels, strict=True))
    used = {column for columns in uses.values() for column in columns}
    every = list(X.columns) if is_frame(X) else range(X.shape[1])
    return {
        "numeric": uses.get("numbers", []) + uses.get("gaps", []),
        "categorical": uses.get("categories", []) + uses.get("codes", []),
        "ordinal": ordinal,
        "text": uses.get("text", []),
        "drop": [column for column in every if column not in used],
    }


def columns_used(model: Any) -> dict[str, list[Any]] | None:
    """The columns of a table that a pipeline of `make_learner` uses, by what they are used as.

    None if it has no step that prepares columns: it uses all of them as numbers.
    """
    prepare = model.steps[0][1] if isinstance(model, Pipeline) else None
    if not isinstance(prepare, ColumnTransformer):
        return None
    return {name: list(columns) for name, _, columns in prepare.transformers}


def _ambiguous(uses: Uses) -> bool:
    """Whether a column has the name that an encoded one would get, so that names need a prefix."""
    names = [*uses.numbers, *uses.gaps, *uses.ordinal]
    encoded = [*uses.categories, *uses.codes, *uses.text]
    starts = tuple([f"{name}_" for name in encoded] + ["missingindicator_"] * bool(uses.gaps))
    several = any(str(a) != str(b) and str(a).startswith(f"{b}_") for a in encoded for b in encoded)
    return several or any(str(name).startswith(starts) for name in names)


def _numbers(settings: Settings, indicator: bool) -> Pipeline:
    """Fill gaps with the median.  All columns are filled, since gaps may come at prediction."""
    read = ("read", ColumnValues(rescale=settings.scale))
    fill = SimpleImputer(strategy="median", keep_empty_features=True, add_indicator=indicator)
    if not settings.scale:
        return Pipeline([read, ("fill", fill)])
    # With an indicator scaled before it is filled, so that its zeros and ones stay as they are.
    steps = [("fill", fill), ("scale", StandardScaler())]
    return Pipeline([read, *(reversed(steps) if indicator else steps)])


def _ordinal(levels: dict[Any, list[Any]], settings: Settings) -> Pipeline:
    encode = OrdinalEncoder(
        categories=[_array(order) for order in levels.values()],
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
    )
    read = ColumnValues(numbers=False, missing=None)  # none of the levels: filled afterwards
    steps = [("read", read), ("encode", encode), ("fill", SimpleImputer(strategy="median"))]
    return Pipeline([*steps, ("scale", StandardScaler())] if settings.scale else steps)


def _array(levels: list[Any]) -> Any:
    return np.array(levels, dtype=object if isinstance(levels[0], str) else None)


def _categories(settings: Settings, missing: Any) -> Pipeline:
    """A missing value is a category of its own."""
    read = ColumnValues(numbers=False, missing=missing)
    return Pipeline([("read", read), ("encode", _one_hot(settings))])


def _one_hot(settings: Settings) -> OneHotEncoder:
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=settings.max_categories,
        sparse_output=False,
    )


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
    listed = ", ".join(map(repr, missing[:5])) + (", …" if len(missing) > 5 else "")
    raise ValueError(
        f"The table lacks {len(missing)} of the {len(names)} columns that the model was learnt "
        f"from: {listed}.{near(missing[0], here)}"
    )
