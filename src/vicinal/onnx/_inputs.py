"""The inputs of ONNX models: their names and types, and their values from arrays and tables."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
from sklearn.pipeline import Pipeline

from vicinal.learner.columns import Column, is_frame, is_missing, numbers_of, read_columns
from vicinal.learner.preparation import columns_used

_DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT64: np.int64,
    TensorProto.STRING: object,
}
_NUMBERS = ("number", "bool")  # how columns of numbers are stored


def input_types(model: Any, X: Any) -> list[tuple[str, Any]]:
    """Names and types of the inputs, from some rows, or from the estimator alone."""
    if X is None:
        return [("X", _type_of(model)([None, _n_features(model)]))]
    if is_frame(X):
        used = columns_used(model) or {}
        names = [name for kind in ("numbers", "gaps", "codes") for name in used.get(kind, ())]
        return _types_of_columns(X, names)
    X = np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(
            "The 'X' parameter of to_onnx must be a table of numbers, or a data frame. "
            f"Got an array of shape {X.shape} and dtype {X.dtype} instead."
        )
    number = FloatTensorType if X.dtype == np.float32 else DoubleTensorType
    return [("X", number([None, X.shape[1]]))]


def _n_features(model: Any) -> int:
    if isinstance(model, Pipeline) and hasattr(model, "feature_names_in_"):
        raise ValueError(
            "The 'X' parameter of to_onnx must be a data frame for a pipeline that was fitted to "
            "one: a few of its rows tell the types of the columns. Got None instead."
        )
    return int(model.n_features_in_)


def _type_of(model: Any) -> Any:
    """The precision that an estimator was fitted in; that of a pipeline is not known."""
    learnt = getattr(model, "_map", None)
    dtype = getattr(getattr(learnt, "components", learnt), "dtype", np.float64)
    return FloatTensorType if dtype == np.float32 else DoubleTensorType


def _types_of_columns(X: Any, numbers: list[Any]) -> list[tuple[str, Any]]:
    """The types by what is stored; numbers also for text that a model reads as numbers."""
    columns = read_columns(X)
    single = all(c.values.dtype == np.float32 for c in columns if c.storage in _NUMBERS)
    number = FloatTensorType if single else DoubleTensorType
    return [
        (
            str(c.name),
            (number if c.storage in _NUMBERS or c.name in numbers else StringTensorType)([None, 1]),
        )
        for c in columns
    ]


def values_of(graph: ModelProto, X: Any) -> dict[str, Any]:
    """See `vicinal.onnx.feed`."""
    inputs = graph.graph.input
    dtypes = [_DTYPES[variable.type.tensor_type.elem_type] for variable in inputs]
    if not is_frame(X):
        return {inputs[0].name: np.ascontiguousarray(X, dtype=dtypes[0])}
    columns = {str(column.name): column for column in read_columns(X)}
    if len(inputs) == 1 and inputs[0].name not in columns:
        return {inputs[0].name: np.ascontiguousarray(X.to_numpy(), dtype=dtypes[0])}
    lacking = [variable.name for variable in inputs if variable.name not in columns]
    if lacking:
        raise ValueError(f"X must have the columns {lacking!r}, which the model asks for.")
    facts = {fact.key: fact.value for fact in graph.metadata_props}
    written: dict[str, str] = json.loads(facts.get("written", "{}"))
    return {
        variable.name: _values(columns[variable.name], dtype, written.get(variable.name, "."))
        for variable, dtype in zip(inputs, dtypes, strict=True)
    }


def _values(column: Column, dtype: Any, written: str) -> Any:
    """A column as an array of shape (n, 1); missing strings are empty.

    Numbers in text are read as they were in the fit: a few rows do not tell how they are written.
    """
    values: Any = column.values
    if dtype is object:
        column = column.without_gaps()
        values = ["" if is_missing(value) else str(value) for value in column.values]
    elif values.dtype.kind == "O":
        values = numbers_of(column, written)
    return np.array(values, dtype=dtype).reshape(-1, 1)
