"""The columns of a table as numbers, by a `ColumnTransformer`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from vicinal.learner.columns import is_frame, is_polars
from vicinal.learner.dates import DateColumns
from vicinal.learner.errors import near
from vicinal.learner.kinds import Uses
from vicinal.learner.text import TextColumns
from vicinal.learner.values import ColumnValues


class Settings(NamedTuple):
    """How columns are prepared: the largest number of categories, the seed, whether to scale."""

    max_categories: int | None
    random_state: Any
    scale: bool


class Preparation(ColumnTransformer):
    """A ColumnTransformer for tables in which several columns may have one name.

    They get numbers: the second "u" is called "u 2".
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Preparation:
        """Fit all parts; see :class:`sklearn.compose.ColumnTransformer`."""
        self.fit_transform(X, y, **params)
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all parts, and join what they give."""
        return super().fit_transform(with_numbered_names(X), y, **params)

    def transform(self, X: Any, **params: Any) -> Any:
        """Join what the parts give."""
        return super().transform(with_numbered_names(X), **params)


def with_numbered_names(X: Any) -> Any:
    """A data frame whose columns have different names; any other table as it is."""
    if not is_frame(X) or is_polars(X) or X.columns.is_unique:
        return X
    return X.set_axis(numbered(list(X.columns)), axis=1)


def numbered(names: list[Any]) -> list[Any]:
    """Names with a number after those that were there before: "u", "u 2"."""
    taken, found = set(names), set()
    made = []
    for name in names:
        k, new = 2, name
        while new in found or (new != name and new in taken):
            new, k = f"{name} {k}", k + 1
        found.add(new)
        made.append(new)
    return made


def preparation(
    X: Any, uses: Uses, settings: Settings, dropped: bool = False
) -> Preparation | StandardScaler | None:
    """The step before the learner; None if X is an array of numbers without gaps."""
    X = with_numbered_names(X)
    if sp.issparse(X):  # centred columns would not be sparse
        return StandardScaler(with_mean=False) if settings.scale else None
    whole = uses.only_numbers and uses.complete and not (uses.dates or uses.left_out or dropped)
    if whole and not settings.scale and not is_frame(X):
        return None
    blocks = [
        ("numbers", _numbers(settings.scale, uses, uses.numbers), uses.numbers),
        ("gaps", _numbers(settings.scale, uses, uses.gaps), uses.gaps),
        ("dates", _dates(settings.scale, uses), list(uses.dates)),
        ("ordinal", _ordinal(settings.scale, uses.ordinal), list(uses.ordinal)),
        ("categories", _categories(settings, "strings", "missing"), uses.categories),
        ("codes", _categories(settings, "codes", np.nan), uses.codes),
        ("text", TextColumns(random_state=settings.random_state), uses.text),
    ]
    return Preparation(
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
    uses = {name: list(columns) for name, _, columns in prepare.transformers}
    ordinal = {}
    if "ordinal" in uses:
        levels = prepare.get_params()["ordinal__encode__categories"]
        ordinal = dict(zip(uses["ordinal"], map(list, levels), strict=True))
    used = {column for columns in uses.values() for column in columns}
    every = list(with_numbered_names(X).columns) if is_frame(X) else range(X.shape[1])
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


def written_of_columns(model: Any) -> dict[str, str]:
    """How numbers in text are written in each column, where it is not with a point and no unit."""
    prepare = model.steps[0][1] if isinstance(model, Pipeline) else None
    found: dict[str, str] = {}
    if isinstance(prepare, ColumnTransformer):
        for _, part, columns in prepare.transformers:
            reader = part.steps[0][1] if isinstance(part, Pipeline) else part
            if isinstance(reader, ColumnValues) and reader.decimals is not None:
                found.update(zip(map(str, columns), reader.decimals, strict=True))
    return found


def _ambiguous(uses: Uses) -> bool:
    """Whether a column has the name that an encoded one would get, so that names need a prefix."""
    names = [*uses.numbers, *uses.gaps, *uses.ordinal]
    encoded = [*uses.dates, *uses.categories, *uses.codes, *uses.text]
    starts = tuple([f"{name}_" for name in encoded] + ["missingindicator_"] * bool(uses.gaps))
    several = any(str(a) != str(b) and str(a).startswith(f"{b}_") for a in encoded for b in encoded)
    return several or any(str(name).startswith(starts) for name in names)


def _numbers(scale: bool, uses: Uses, columns: list[Any]) -> Pipeline:
    """Fill gaps with the median.  All columns are filled, since gaps may come at prediction."""
    indicator = columns is uses.gaps
    written = [uses.written.get(name, ".") for name in columns]
    usual = set(written) == {"."}
    read = ("read", ColumnValues(rescale=scale, decimals=None if usual else written))
    fill = SimpleImputer(strategy="median", keep_empty_features=True, add_indicator=indicator)
    steps = [("fill", fill), *_scaler(scale)]
    # With an indicator scaled before it is filled, so that its zeros and ones stay as they are.
    return Pipeline([read, *(reversed(steps) if indicator else steps)])


def _dates(scale: bool, uses: Uses) -> Pipeline:
    formats = [fmt for fmt, _ in uses.dates.values()]
    read = DateColumns(formats, [parts for _, parts in uses.dates.values()])
    fill = SimpleImputer(strategy="median", keep_empty_features=True)
    return Pipeline([("read", read), ("fill", fill), *_scaler(scale)])


def _ordinal(scale: bool, levels: dict[Any, list[Any]]) -> Pipeline:
    encode = OrdinalEncoder(
        categories=[
            np.array(order, dtype=object if isinstance(order[0], str) else None)
            for order in levels.values()
        ],
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
    )
    read = ColumnValues("objects", missing=None)  # none of the levels: filled afterwards
    fill = SimpleImputer(strategy="median")
    return Pipeline([("read", read), ("encode", encode), ("fill", fill), *_scaler(scale)])


def _scaler(scale: bool) -> list[tuple[str, Any]]:
    return [("scale", StandardScaler())] if scale else []


def _categories(settings: Settings, kind: str, missing: Any) -> Pipeline:
    """A missing value is a category of its own."""
    read = ColumnValues(kind, missing=missing)
    encode = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=settings.max_categories,
        sparse_output=False,
    )
    return Pipeline([("read", read), ("encode", encode)])


def check_new_rows(model: Any, X: Any) -> None:
    """Refuse a data frame that lacks columns that a pipeline of `make_learner` uses.

    scikit-learn's own error does not name them.  Other models and arrays are left to it.

    Parameters
    ----------
    model : Pipeline
        As `make_learner` builds it.
    X : data frame of pandas or polars
        The new rows; further columns do not matter.
    """
    used = columns_used(model)
    if used is None or not is_frame(X):
        return
    names = [name for columns in used.values() for name in columns]
    here = [str(name) for name in with_numbered_names(X).columns]
    missing = [name for name in names if isinstance(name, str) and name not in here]
    if not missing:
        return
    listed = ", ".join(map(repr, missing[:5])) + (", …" if len(missing) > 5 else "")
    raise ValueError(
        f"The table lacks {len(missing)} of the {len(names)} columns that the model was learnt "
        f"from: {listed}.{near(missing[0], here)}"
    )
