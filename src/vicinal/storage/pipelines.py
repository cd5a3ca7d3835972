"""The pipelines of `vicinal.make_learner` as plain data, and back.

scikit-learn's objects have private attributes, which change from release to release.  A file has
their parameters and public fitted attributes alone.  To make the objects again, they are fitted to
a small made-up table that gives each part the structure that it had: the same categories, the same
rare ones among them, gaps in the same columns, the same words.  Then the attributes that are
numbers are set; all others must have come out as they were.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.core.checks import need
from vicinal.core.types import Array
from vicinal.storage.names import name_of


class _Kind(NamedTuple):
    """A class of a preparation: its module, its parameters, its public fitted attributes."""

    home: str
    parameters: set[str]
    fitted: tuple[str, ...]


_PARTS = {
    "ColumnValues": _Kind(
        "vicinal.learner.columns", {"numbers", "missing", "rescale"}, ("units_",)
    ),
    "SimpleImputer": _Kind(
        "sklearn.impute",
        {"missing_values", "strategy", "fill_value", "add_indicator", "keep_empty_features"},
        ("statistics_", "indicator_"),
    ),
    "StandardScaler": _Kind(
        "sklearn.preprocessing",
        {"with_mean", "with_std"},
        ("mean_", "var_", "scale_", "n_samples_seen_"),
    ),
    "OneHotEncoder": _Kind(
        "sklearn.preprocessing",
        {"handle_unknown", "max_categories", "sparse_output"},
        ("categories_", "infrequent_categories_"),
    ),
    "OrdinalEncoder": _Kind(
        "sklearn.preprocessing", {"categories", "handle_unknown", "unknown_value"}, ("categories_",)
    ),
    "TextColumns": _Kind(
        "vicinal.learner.text",
        {"n_components", "max_words", "random_state"},
        ("words_", "idf_", "components_"),
    ),
}
_TABLE = {"sparse_threshold", "verbose_feature_names_out"}  # parameters of a ColumnTransformer
_NA = ("pandas", "NA")  # pandas.NA in a file
_CELLS = 2**23  # entries of the largest made-up table
_COLUMNS = 2**16  # of the widest data frame
_ROWS = 2  # of the smallest


# To plain data


def to_fields(pipeline: Any) -> dict[str, Any]:
    """A fitted pipeline of `make_learner` as plain data; any other is refused by name."""
    steps = []
    for name, step in pipeline.steps[:-1]:
        if not isinstance(step, ColumnTransformer):
            raise TypeError(_refusal(name, step))
        steps.append([name, _table_fields(step)])
    name, learn = pipeline.steps[-1]
    if name_of(type(learn)) is None:
        raise TypeError(_refusal(name, learn))
    check_is_fitted(learn)
    fields = {"steps": steps, "name": name, "learn": learn}
    if hasattr(pipeline, "left_out_"):
        fields["table"] = {
            "task": pipeline.task,
            "learnt": pipeline.task_,
            "notes": list(pipeline.notes_),
            "left_out": [[column, why] for column, why in pipeline.left_out_.items()],
            "target": pipeline.target_name_,
        }
    from_fields(fields)  # so that a file that was written can also be read
    return fields


def _refusal(name: str, step: Any) -> str:
    return (
        f"Pipeline step {name!r} is a {type(step).__name__}, which a model file cannot hold: it "
        "holds estimators of vicinal and pipelines of vicinal.make_learner. Save the estimator of "
        "vicinal alone, or use joblib or skops for this pipeline."
    )


def _table_fields(table: ColumnTransformer) -> dict[str, Any]:
    """A fitted ColumnTransformer as plain data."""
    check_is_fitted(table)
    fitted = {name: part for name, part, _ in table.transformers_}
    blocks = [
        {"name": name, "columns": list(columns), "part": _part_fields(name, fitted[name])}
        for name, _, columns in table.transformers
    ]
    names = getattr(table, "feature_names_in_", None)
    return {
        "parameters": _parameters(table, _TABLE, ColumnTransformer(table.transformers)),
        "blocks": blocks,
        "n_features_in": int(table.n_features_in_),
        "feature_names_in": None if names is None else list(names),
    }


def _part_fields(name: str, part: Any) -> Any:
    if isinstance(part, Pipeline):
        return [[key, _part_fields(key, step)] for key, step in part.steps]
    kind = type(part).__name__
    if kind not in _PARTS or not type(part).__module__.startswith(_PARTS[kind].home):
        raise TypeError(_refusal(name, part))
    asked = _parameters(part, _PARTS[kind].parameters, type(part)())
    if type(asked.get("missing_values")).__name__ == "NAType":
        asked["missing_values"] = _NA
    fitted = {key: _attribute(part, key) for key in _PARTS[kind].fitted}
    return {"kind": kind, "parameters": asked, "fitted": fitted}


def _parameters(part: Any, stored: set[str], defaults: Any) -> dict[str, Any]:
    """The parameters that a file has; others than their defaults are refused."""
    for key in part.get_params(deep=False).keys() - stored:
        value, default = getattr(part, key), getattr(defaults, key)
        if not (value is default or value == default):
            raise TypeError(
                f"The {key!r} parameter of {type(part).__name__} must be {default!r} in a pipeline "
                f"that a model file can hold. Got {value!r} instead."
            )
    return {key: getattr(part, key) for key in sorted(stored)}


def _attribute(part: Any, key: str) -> Any:
    """A fitted attribute as plain data: of the indicator of gaps, the columns that it has."""
    if key == "infrequent_categories_":
        return list(part.infrequent_categories_) if part.max_categories is not None else None
    if key == "indicator_":
        return part.indicator_.features_ if part.add_indicator else None
    return getattr(part, key)


# From plain data


def from_fields(fields: Any) -> Pipeline:
    """Invert `to_fields`; the fields may come from any file."""
    known = isinstance(fields, dict) and fields.keys() - {"table"} == {"steps", "name", "learn"}
    need(known, "a pipeline")
    learn, name = fields["learn"], fields["name"]
    need(isinstance(name, str) and name_of(type(learn)) is not None, "a pipeline ends in vicinal")
    need(hasattr(learn, "get_params"), "a pipeline ends with an estimator")
    need(isinstance(fields["steps"], list) and len(fields["steps"]) <= 4, "a pipeline has steps")
    steps: list[tuple[str, Any]] = []
    for key, table in fields["steps"]:
        need(isinstance(key, str), "steps have names")
        steps.append((key, _table(table)))
    steps.append((name, learn))
    return Pipeline(steps) if "table" not in fields else _learner(steps, fields["table"])


def _learner(steps: list[tuple[str, Any]], table: Any) -> Pipeline:
    """A pipeline that remembers what was done with its table."""
    keys = {"task", "learnt", "notes", "left_out", "target"}
    need(isinstance(table, dict) and table.keys() == keys, "what was done with a table")
    tasks, notes, left_out = ("classes", "numbers", "none"), table["notes"], table["left_out"]
    need(table["task"] in (None, *tasks) and table["learnt"] in tasks, "the task of a learner")
    need(isinstance(notes, list) and all(isinstance(note, str) for note in notes), "notes")
    pairs = isinstance(left_out, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str) for pair in left_out
    )
    need(pairs, "columns that are left out")
    need(table["target"] is None or isinstance(table["target"], str), "the name of the label")
    made = import_module("vicinal.learner.pipeline").Learner(
        steps, task=table["task"], left_out={column: why for column, why in left_out}, notes=notes
    )
    made.task_, made.left_out_, made.notes_ = table["learnt"], dict(made.left_out), list(notes)
    made.target_name_ = table["target"]
    return made


def _table(fields: Any) -> ColumnTransformer:
    """A ColumnTransformer as it was once fitted."""
    wanted = {"parameters", "blocks", "n_features_in", "feature_names_in"}
    need(isinstance(fields, dict) and fields.keys() == wanted, "a table of columns")
    parameters, n, names = (fields[k] for k in ("parameters", "n_features_in", "feature_names_in"))
    need(parameters.keys() == _TABLE, "parameters of a table")
    need(type(n) is int and 1 <= n < 2**24, "n_features_in is out of range")
    need(names is None or len(names) == n, "names of columns")
    need(isinstance(fields["blocks"], list) and 0 < len(fields["blocks"]) <= 64, "blocks")
    blocks, states = [], []
    columns: list[Any] = [np.zeros(_ROWS)] * n
    for block in fields["blocks"]:
        need(block.keys() == {"name", "columns", "part"}, "a block of columns")
        part, found = _part(block["part"])
        blocks.append((block["name"], part, block["columns"]))
        states.append(found)
        for place, j in enumerate(_positions(block["columns"], n, names)):
            columns[j] = _made_up(found, place)
    n_rows = max(len(column) for column in columns)
    need(n_rows * n <= _CELLS, f"a table of {n_rows} categories and {n} columns is too large")
    # a column that is longer than another: its last value, which is none of the rare ones, again
    filled = [np.concatenate([a, np.repeat(a[-1:], n_rows - len(a))]) for a in columns]
    table = ColumnTransformer(blocks, **parameters)
    with warnings.catch_warnings(action="ignore"):  # about what is made up
        table.fit(_frame(filled, names))
    fitted = {name: part for name, part, _ in table.transformers_}
    for (name, _, _), found in zip(blocks, states, strict=True):
        part = fitted[name]
        steps = [step for _, step in part.steps] if isinstance(part, Pipeline) else [part]
        for step, state in zip(steps, found, strict=True):
            for key, value in state.items():
                _restore(step, key, value)
    return table


def _positions(columns: Any, n: int, names: Any) -> list[int]:
    """The positions of the columns of a block."""
    need(isinstance(columns, list) and len(columns) > 0, "a block has columns")
    if names is not None and isinstance(columns[0], str):
        place = {name: j for j, name in enumerate(names)}
        need(all(column in place for column in columns), "a block names columns of the table")
        return [place[column] for column in columns]
    need(all(type(column) is int and 0 <= column < n for column in columns), "columns of a block")
    return columns


def _part(fields: Any) -> tuple[Any, list[dict[str, Any]]]:
    """An unfitted part, and the fitted attributes of each of its steps."""
    if isinstance(fields, list):
        need(1 <= len(fields) <= 8, "steps of a block")
        need(all(isinstance(step, dict) for _, step in fields), "a pipeline in a pipeline")
        made = [(key, *_part(step)) for key, step in fields]
        return Pipeline([(key, part) for key, part, _ in made]), [found for *_, (found,) in made]
    need(isinstance(fields, dict) and fields.keys() == {"kind", "parameters", "fitted"}, "a part")
    name, asked, found = fields["kind"], dict(fields["parameters"]), dict(fields["fitted"])
    need(isinstance(name, str) and name in _PARTS, f"{str(name)[:40]!r} is no part of a pipeline")
    kind = _PARTS[name]
    need(asked.keys() <= kind.parameters, f"unknown parameters of {name}")
    need(found.keys() == set(kind.fitted), f"fields of {name}")
    if asked.get("missing_values") == _NA:
        asked["missing_values"] = import_module("pandas").NA
    return getattr(import_module(kind.home), name)(**asked), [found]


def _made_up(steps: list[dict[str, Any]], place: int) -> Array:
    """Values that give each part of a block the structure that it had for one of its columns."""
    gap, dtype = False, np.float64
    for state in steps:
        if "infrequent_categories_" in state:
            return _categories(state, place)
        if "categories_" in state:
            known = state["categories_"][place]
            need(isinstance(known, np.ndarray) and len(known) > 0, "categories of a column")
            return np.array([known[0]] * _ROWS, dtype=object)
        if "words_" in state:
            return _texts(state["words_"][place], state["components_"][place])
        if "statistics_" in state:
            gap |= state["indicator_"] is not None and bool(np.isin(place, state["indicator_"]))
            found = np.asarray(state["statistics_"]).dtype
            dtype = found.type if found.kind == "f" else np.float64
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
    known, rare = state["categories_"][place], state["infrequent_categories_"]
    need(isinstance(known, np.ndarray) and known.ndim == 1 and len(known) > 0, "categories")
    need(known.dtype.kind in "OfiubU", "categories must be numbers or strings")
    rows = [known]
    if rare is not None and rare[place] is not None:
        need(isinstance(rare[place], np.ndarray), "rare categories must be an array")
        keys = set(_keys(rare[place]))
        rows.append(known[[key not in keys for key in _keys(known)]])
    return np.concatenate(rows * 2 if len(known) < _ROWS else rows)


def _keys(values: Array) -> list[Any]:
    """What is equal for equal values of one type; NaN is equal to NaN."""
    return [
        "NaN" if isinstance(value, float) and value != value else (type(value), value)
        for value in values.tolist()
    ]


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


def _restore(part: Any, key: str, value: Any) -> None:
    """Set a fitted attribute, if it is numbers; any other must have come out as it was."""
    made = _attribute(part, key)
    if key == "n_samples_seen_":  # one number, or one for each column with gaps
        need(np.asarray(value).dtype.kind in "iuf", "rows that a scaler has seen")
    elif _same(made, value):
        return
    else:
        what = f"{key!r} of {type(part).__name__} cannot be made again"
        need(_are_numbers(made, value), what)
    setattr(part, key, value)


def _same(made: Any, value: Any) -> bool:
    """Whether attributes are equal, with the types of their arrays."""
    if isinstance(made, list):
        alike = isinstance(value, list) and len(made) == len(value)
        return alike and all(_same(a, b) for a, b in zip(made, value, strict=True))
    if isinstance(made, np.ndarray):
        alike = isinstance(value, np.ndarray) and made.dtype == value.dtype
        return alike and made.shape == value.shape and _keys(made.ravel()) == _keys(value.ravel())
    return type(made) is type(value) and made == value


def _are_numbers(made: Any, value: Any) -> bool:
    """Whether attributes are finite floats of one shape, of any precision, or lists of such."""
    if isinstance(made, list):
        alike = isinstance(value, list) and len(made) == len(value)
        return alike and all(
            _same(a, b) or _are_numbers(a, b) for a, b in zip(made, value, strict=True)
        )
    arrays = isinstance(made, np.ndarray) and isinstance(value, np.ndarray)
    floats = arrays and made.dtype.kind == value.dtype.kind == "f" and made.shape == value.shape
    return floats and bool(np.isfinite(value).all())
