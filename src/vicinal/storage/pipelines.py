"""The pipelines of `vicinal.make_learner` as plain data, and back.

scikit-learn's objects have private attributes, which change from release to release.  A file has
their parameters and public fitted attributes alone; `rebuild` makes fitted objects of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.core.checks import need
from vicinal.storage.names import name_of
from vicinal.storage.rebuild import rebuild

#: parts of a preparation: where they live, their parameters, their public fitted attributes
_PARTS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "ColumnValues": ("vicinal.learner.columns", ("numbers", "missing", "rescale"), ("units_",)),
    "SimpleImputer": (
        "sklearn.impute",
        ("missing_values", "strategy", "fill_value", "add_indicator", "keep_empty_features"),
        ("statistics_",),
    ),
    "StandardScaler": (
        "sklearn.preprocessing",
        ("with_mean", "with_std"),
        ("mean_", "var_", "scale_", "n_samples_seen_"),
    ),
    "OneHotEncoder": (
        "sklearn.preprocessing",
        ("handle_unknown", "max_categories", "sparse_output"),
        ("categories_",),
    ),
    "OrdinalEncoder": (
        "sklearn.preprocessing",
        ("categories", "handle_unknown", "unknown_value"),
        ("categories_",),
    ),
    "TextColumns": (
        "vicinal.learner.text",
        ("n_components", "max_words", "random_state"),
        ("words_", "idf_", "components_"),
    ),
}
_TABLE = ("sparse_threshold", "verbose_feature_names_out")
_NA = ("pandas", "NA")  # pandas.NA in a file


def is_pipeline(model: Any) -> bool:
    """Whether this is a pipeline of scikit-learn."""
    return isinstance(model, Pipeline)


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
    _check_others(table, (*_TABLE, "transformers"))
    fitted = {name: part for name, part, _ in table.transformers_}
    blocks = [
        {"name": name, "columns": list(columns), "part": _part_fields(name, fitted[name])}
        for name, _, columns in table.transformers
    ]
    names = getattr(table, "feature_names_in_", None)
    return {
        "parameters": {key: getattr(table, key) for key in _TABLE},
        "blocks": blocks,
        "n_features_in": int(table.n_features_in_),
        "feature_names_in": None if names is None else list(names),
    }


def _part_fields(name: str, part: Any) -> Any:
    if isinstance(part, Pipeline):
        return [[key, _part_fields(key, step)] for key, step in part.steps]
    kind = type(part).__name__
    home, parameters, attributes = _PARTS.get(kind, ("", (), ()))
    if not type(part).__module__.startswith(home or "?"):
        raise TypeError(_refusal(name, part))
    _check_others(part, parameters)
    found = {key: getattr(part, key) for key in attributes}
    if kind == "OneHotEncoder" and part.max_categories is not None:
        found["infrequent_categories_"] = list(part.infrequent_categories_)
    if kind == "SimpleImputer" and part.add_indicator:
        found["missing_in_fit"] = part.indicator_.features_
    asked = {key: getattr(part, key) for key in parameters}
    if type(asked.get("missing_values")).__name__ == "NAType":
        asked["missing_values"] = _NA
    return {"kind": kind, "parameters": asked, "fitted": found}


def _check_others(part: Any, stored: tuple[str, ...]) -> None:
    """Refuse parameters that a file does not have, unless they are at their defaults."""
    defaults = type(part)([]) if isinstance(part, ColumnTransformer) else type(part)()
    for key, value in part.get_params(deep=False).items():
        default = getattr(defaults, key)
        if key not in stored and not (value is default or value == default):
            raise TypeError(
                f"The {key!r} parameter of {type(part).__name__} must be {default!r} in a pipeline "
                f"that a model file can hold. Got {value!r} instead."
            )


def from_fields(fields: Any) -> Pipeline:
    """Invert `to_fields`; the fields may come from any file."""
    need(isinstance(fields, dict) and fields.keys() == {"steps", "name", "learn"}, "a pipeline")
    learn, name = fields["learn"], fields["name"]
    need(isinstance(name, str) and name_of(type(learn)) is not None, "a pipeline ends in vicinal")
    need(hasattr(learn, "get_params"), "a pipeline ends with an estimator")
    need(isinstance(fields["steps"], list) and len(fields["steps"]) <= 4, "a pipeline has steps")
    steps: list[tuple[str, Any]] = []
    for key, table in fields["steps"]:
        need(isinstance(key, str), "steps have names")
        steps.append((key, _table(table)))
    return Pipeline([*steps, (name, learn)])


def _table(fields: Any) -> ColumnTransformer:
    wanted = {"parameters", "blocks", "n_features_in", "feature_names_in"}
    need(isinstance(fields, dict) and fields.keys() == wanted, "a table of columns")
    parameters, n, names = (fields[k] for k in ("parameters", "n_features_in", "feature_names_in"))
    need(parameters.keys() == set(_TABLE), "parameters of a table")
    need(type(n) is int and 1 <= n < 2**24, "n_features_in is out of range")
    if names is not None:
        strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
        need(strings and len(set(names)) == len(names) == n, "names of columns")
    blocks, states = [], []
    need(isinstance(fields["blocks"], list) and 0 < len(fields["blocks"]) <= 64, "blocks")
    for block in fields["blocks"]:
        need(block.keys() == {"name", "columns", "part"}, "a block of columns")
        positions = _positions(block["columns"], n, names)
        part, found = _part(block["part"])
        blocks.append((block["name"], part, block["columns"]))
        states.append((positions, found))
    transformer = ColumnTransformer(blocks, **parameters)
    return rebuild(transformer, states, n, names)


def _positions(columns: Any, n: int, names: Any) -> list[int]:
    """The positions of the columns of a block."""
    need(isinstance(columns, list) and len(columns) > 0, "a block has columns")
    if names is not None and isinstance(columns[0], str):
        place = {name: j for j, name in enumerate(names)}
        need(all(column in place for column in columns), "a block names columns of the table")
        return [place[column] for column in columns]
    need(all(type(column) is int and 0 <= column < n for column in columns), "columns of a block")
    return columns


def _part(fields: Any) -> tuple[Any, Any]:
    """An unfitted part, and its fitted attributes: a dict, or a list of them for a pipeline."""
    if isinstance(fields, list):
        need(1 <= len(fields) <= 8, "steps of a block")
        made = [(key, *_part(step)) for key, step in fields]
        need(all(isinstance(found, dict) for _, _, found in made), "a pipeline in a pipeline")
        return Pipeline([(key, part) for key, part, _ in made]), [found for *_, found in made]
    need(isinstance(fields, dict) and fields.keys() == {"kind", "parameters", "fitted"}, "a part")
    kind, asked, found = fields["kind"], dict(fields["parameters"]), dict(fields["fitted"])
    need(isinstance(kind, str) and kind in _PARTS, f"{str(kind)[:40]!r} is no part of a pipeline")
    home, parameters, attributes = _PARTS[kind]
    need(asked.keys() <= set(parameters), f"unknown parameters of {kind}")
    more = {"OneHotEncoder": {"infrequent_categories_"}, "SimpleImputer": {"missing_in_fit"}}
    extra = found.keys() - set(attributes)
    need(set(attributes) <= found.keys() and extra <= more.get(kind, set()), f"fields of {kind}")
    if asked.get("missing_values") == _NA:
        asked["missing_values"] = import_module("pandas").NA
    return getattr(import_module(home), kind)(**asked), {"kind": kind, **found}
