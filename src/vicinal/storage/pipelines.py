"""Pipelines of `vicinal.make_learner`, and the usual ones of scikit-learn, as plain data, and back.

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
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.core.checks import need
from vicinal.storage.made_up import ROWS, frame, keys_of, made_up
from vicinal.storage.names import name_of


class _Kind(NamedTuple):
    """A class of a preparation: its module, its parameters, its public fitted attributes."""

    home: str
    parameters: set[str]
    fitted: tuple[str, ...]


_PARTS = {
    "ColumnValues": _Kind(
        "vicinal.learner.values", {"kind", "missing", "rescale", "decimals"}, ("units_",)
    ),
    "DateColumns": _Kind("vicinal.learner.dates", {"formats", "parts"}, ("origins_",)),
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
        {"drop", "handle_unknown", "max_categories", "sparse_output"},
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
_PARTS["PCA"] = _Kind(
    "sklearn.decomposition",
    {"n_components", "random_state", "svd_solver", "whiten"},
    ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "mean_",
     "noise_variance_", "n_samples_"),
)  # fmt: skip
#: classes of a ColumnTransformer, and its parameters
_TABLES = {
    "ColumnTransformer": "sklearn.compose",
    "Preparation": "vicinal.learner.preparation",
}
_TABLE = {"remainder", "sparse_threshold", "verbose_feature_names_out"}
_COUNTS = ("n_samples_seen_", "n_samples_")
_NA = ("pandas", "NA")  # pandas.NA in a file
_CELLS = 2**23  # entries of the largest made-up table
#: nearest neighbours of scikit-learn, made again from the rows that they keep
_NEIGHBORS = {
    "KNeighborsClassifier": KNeighborsClassifier,
    "KNeighborsRegressor": KNeighborsRegressor,
}
_OF_NEIGHBORS = {
    "algorithm",
    "leaf_size",
    "metric",
    "n_jobs",
    "n_neighbors",
    "p",
    "weights",
}


# To plain data


def to_fields(pipeline: Any) -> dict[str, Any]:
    """A fitted pipeline as plain data; one with other steps is refused by their names."""
    steps = [[name, _step_fields(name, step)] for name, step in pipeline.steps]
    name, last = pipeline.steps[-1]
    if not any(name_of(type(step)) for _, step in steps):
        raise TypeError(_refusal(name, last))
    fields: dict[str, Any] = {"steps": steps}
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
        "holds estimators of vicinal, alone, in pipelines of vicinal.make_learner, or with "
        f"{', '.join([*_PARTS, *_NEIGHBORS, 'ColumnTransformer'])}. Save the estimator of vicinal "
        "alone, or use joblib or skops for this pipeline."
    )


def _step_fields(name: str, step: Any) -> Any:
    """A step: as it is, if it is an estimator of vicinal or a word, otherwise as plain data."""
    if isinstance(step, str):
        return step
    if name_of(type(step)) is not None:
        check_is_fitted(step)
        return step
    if isinstance(step, ColumnTransformer):
        return _table_fields(name, step)
    if type(step).__name__ in _NEIGHBORS:
        return _neighbors_fields(step)
    part, names = _part_fields(name, step), getattr(step, "feature_names_in_", None)
    return {
        "part": part,
        "n_features_in": int(step.n_features_in_),
        "feature_names_in": None if names is None else list(names),
    }


def _table_fields(name: str, table: ColumnTransformer) -> dict[str, Any]:
    """A fitted ColumnTransformer as plain data."""
    kind = type(table).__name__
    if kind not in _TABLES or not isinstance(table.remainder, str):
        raise TypeError(_refusal(name, table))
    fitted = {name: (part, columns) for name, part, columns in table.transformers_}
    blocks = []
    for name, given, _ in table.transformers:
        part, columns = fitted[name]
        part = given if isinstance(given, str) else part
        blocks.append(
            {"name": name, "columns": _listed(columns, table), "part": _part_fields(name, part)}
        )
    names = getattr(table, "feature_names_in_", None)
    return {
        "kind": kind,
        "parameters": _parameters(table, _TABLE, ColumnTransformer(table.transformers)),
        "blocks": blocks,
        "n_features_in": int(table.n_features_in_),
        "feature_names_in": None if names is None else list(names),
    }


def _listed(columns: Any, table: ColumnTransformer) -> list[Any]:
    """Columns, however they were given, as a list of names or positions."""
    every = range(table.n_features_in_)
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        place = {name: j for j, name in enumerate(table.feature_names_in_)}
        end = None if columns.stop is None else place[columns.stop] + 1  # slices of names have it
        columns = slice(place.get(columns.start), end)
    if isinstance(columns, str | int | slice):
        columns = every[columns] if isinstance(columns, slice) else [columns]
    chosen = np.asarray(columns)
    return (np.flatnonzero(chosen) if chosen.dtype == bool else chosen).tolist()


def _part_fields(name: str, part: Any) -> Any:
    if isinstance(part, str):
        return part
    if isinstance(part, Pipeline):
        return [[key, _part_fields(key, step)] for key, step in part.steps]
    kind = type(part).__name__
    if kind not in _PARTS or not type(part).__module__.startswith(_PARTS[kind].home):
        raise TypeError(_refusal(name, part))
    check_is_fitted(part)
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
    known = isinstance(fields, dict) and fields.keys() - {"table"} == {"steps"}
    need(known, "a pipeline")
    need(isinstance(fields["steps"], list) and len(fields["steps"]) <= 64, "a pipeline has steps")
    steps: list[tuple[str, Any]] = []
    for key, step in fields["steps"]:
        need(isinstance(key, str), "steps have names")
        steps.append((key, _step(step)))
    ours = [step for _, step in steps if name_of(type(step)) is not None]
    need(bool(ours), "a pipeline has an estimator of vicinal")
    return Pipeline(steps) if "table" not in fields else _learner(steps, fields["table"])


def _step(fields: Any) -> Any:
    if not isinstance(fields, dict):
        ours = name_of(type(fields)) is not None and hasattr(fields, "get_params")
        need(ours or fields == "passthrough", "a step of a pipeline")
        return fields
    if "blocks" in fields:
        return _table(fields)
    if "neighbors" in fields:
        return _from_neighbors(fields)
    need(fields.keys() == {"part", "n_features_in", "feature_names_in"}, "a step of a pipeline")
    n, names = fields["n_features_in"], fields["feature_names_in"]
    need(type(n) is int and 1 <= n < 2**24, "n_features_in is out of range")
    block = {"name": "part", "columns": list(range(n)), "part": fields["part"]}
    alone = {"remainder": "drop", "sparse_threshold": 0.0, "verbose_feature_names_out": False}
    more = {"n_features_in": n, "feature_names_in": names, "parameters": alone}
    table = _table({"kind": "ColumnTransformer", "blocks": [block], **more})
    return table.transformers_[0][1]


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
    wanted = {"kind", "parameters", "blocks", "n_features_in", "feature_names_in"}
    need(isinstance(fields, dict) and fields.keys() == wanted, "a table of columns")
    parameters, n, names = (fields[k] for k in ("parameters", "n_features_in", "feature_names_in"))
    need(parameters.keys() == _TABLE, "parameters of a table")
    need(parameters["remainder"] in ("drop", "passthrough"), "the remainder of a table")
    need(fields["kind"] in _TABLES, "the kind of a table")
    need(type(n) is int and 1 <= n < 2**24, "n_features_in is out of range")
    need(names is None or len(names) == n, "names of columns")
    need(isinstance(fields["blocks"], list) and 0 < len(fields["blocks"]) <= 64, "blocks")
    blocks, states = [], []
    columns: list[Any] = [np.zeros(ROWS)] * n
    for block in fields["blocks"]:
        need(block.keys() == {"name", "columns", "part"}, "a block of columns")
        part, found = _part(block["part"])
        blocks.append((block["name"], part, block["columns"]))
        states.append(found)
        for place, j in enumerate(_positions(block["columns"], n, names)):
            columns[j] = made_up(found, place)
    n_rows = max(len(column) for column in columns)
    need(n_rows * n <= _CELLS, f"a table of {n_rows} categories and {n} columns is too large")
    # a column that is longer than another: its last value, which is none of the rare ones, again
    filled = [np.concatenate([a, np.repeat(a[-1:], n_rows - len(a))]) for a in columns]
    table = getattr(import_module(_TABLES[fields["kind"]]), fields["kind"])(blocks, **parameters)
    with warnings.catch_warnings(action="ignore"):  # about what is made up
        table.fit(frame(filled, names))
    fitted = {name: part for name, part, _ in table.transformers_}
    for (name, _, _), found in zip(blocks, states, strict=True):
        part = fitted[name]
        steps = [step for _, step in part.steps] if isinstance(part, Pipeline) else [part]
        steps = [] if not found else steps  # a word instead of a part
        for step, state in zip(steps, found, strict=True):
            for key, value in state.items():
                _restore(step, key, value)
    return table


def _positions(columns: Any, n: int, names: Any) -> list[int]:
    """The positions of the columns of a block."""
    need(isinstance(columns, list), "a block has columns")
    if names is not None and columns and isinstance(columns[0], str):
        place = {name: j for j, name in enumerate(names)}
        need(all(column in place for column in columns), "a block names columns of the table")
        return [place[column] for column in columns]
    need(all(type(column) is int and 0 <= column < n for column in columns), "columns of a block")
    return columns


def _part(fields: Any) -> tuple[Any, list[dict[str, Any]]]:
    """An unfitted part, and the fitted attributes of each of its steps."""
    if isinstance(fields, str):
        need(fields in ("drop", "passthrough"), "a part")
        return fields, []
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
    if name == "PCA":  # the rank may have been found from the values
        found["n_components"] = asked["n_components"]
        asked["n_components"] = len(found["components_"])
    return getattr(import_module(kind.home), name)(**asked), [found]


def _restore(part: Any, key: str, value: Any) -> None:
    """Set a fitted attribute, if it is numbers; any other must have come out as it was."""
    if key == "n_components":
        part.n_components = value
        return
    made = _attribute(part, key)
    if key in _COUNTS:  # one number, or one for each column with gaps
        need(np.asarray(value).dtype.kind in "iuf", "rows that a scaler has seen")
    elif _same(made, value):
        return
    else:
        what = f"{key!r} of {type(part).__name__} cannot be made again"
        need(_are_numbers(made, value) or _are_texts(made, value), what)
    setattr(part, key, value)


def _same(made: Any, value: Any) -> bool:
    """Whether attributes are equal, with the types of their arrays."""
    if isinstance(made, list):
        alike = isinstance(value, list) and len(made) == len(value)
        return alike and all(_same(a, b) for a, b in zip(made, value, strict=True))
    if isinstance(made, np.ndarray):
        alike = isinstance(value, np.ndarray) and made.dtype == value.dtype
        return (
            alike and made.shape == value.shape and keys_of(made.ravel()) == keys_of(value.ravel())
        )
    return type(made) is type(value) and made == value


def _are_numbers(made: Any, value: Any) -> bool:
    """Whether attributes are finite floats of one shape, of any precision, or lists of such."""
    if isinstance(made, list):
        alike = isinstance(value, list) and len(made) == len(value)
        return alike and all(
            _same(a, b) or _are_numbers(a, b) for a, b in zip(made, value, strict=True)
        )
    if isinstance(made, float) and isinstance(value, float):
        return bool(np.isfinite(value))
    arrays = isinstance(made, np.ndarray) and isinstance(value, np.ndarray)
    floats = arrays and made.dtype.kind == value.dtype.kind == "f" and made.shape == value.shape
    return floats and bool(np.isfinite(value).all())


def _are_texts(made: Any, value: Any) -> bool:
    """Whether attributes are arrays of one shape with text, such as the most frequent values."""
    arrays = isinstance(made, np.ndarray) and isinstance(value, np.ndarray)
    objects = arrays and made.dtype == value.dtype == object and made.shape == value.shape
    return objects and all(isinstance(text, str) for text in value.ravel())


# Nearest neighbours, both ways


def _neighbors_fields(model: Any) -> dict[str, Any]:
    """A fitted k-NN as plain data."""
    check_is_fitted(model)
    parameters = model.get_params()
    odd = [name for name, value in parameters.items() if callable(value) or isinstance(value, dict)]
    if odd:
        raise TypeError(
            f"The {odd[0]!r} parameter of {type(model).__name__} must be a name in a pipeline that "
            f"a model file can hold. Got {parameters[odd[0]]!r} instead."
        )
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list):
        raise TypeError("A model file cannot hold a KNeighborsClassifier with several outputs.")
    names = getattr(model, "feature_names_in_", None)
    return {
        "neighbors": type(model).__name__,
        "parameters": {name: parameters[name] for name in sorted(_OF_NEIGHBORS)},
        "X": model._fit_X,
        "y": model._y if classes is None else classes[model._y],
        "feature_names_in": None if names is None else list(names),
    }


def _from_neighbors(fields: Any) -> Any:
    """Invert `_neighbors_fields`: fit to the same rows."""
    keys = {"neighbors", "parameters", "X", "y", "feature_names_in"}
    need(fields.keys() == keys and fields["neighbors"] in _NEIGHBORS, "neighbours")
    asked, names = fields["parameters"], fields["feature_names_in"]
    need(
        isinstance(asked, dict) and asked.keys() == _OF_NEIGHBORS,
        "parameters of neighbours",
    )
    plain = all(isinstance(value, str | int | float | None) for value in asked.values())
    need(plain and isinstance(fields["y"], np.ndarray), "parameters of neighbours")
    model = _NEIGHBORS[fields["neighbors"]](**asked).fit(fields["X"], fields["y"])
    if names is not None:
        need(len(names) == model.n_features_in_, "names of columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
