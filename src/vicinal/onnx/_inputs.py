"""The inputs of ONNX models: their names and types, and their values from arrays and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType
from sklearn.pipeline import Pipeline

__all__ = ["input_types", "values_of"]

_DTYPES = {
    TensorProto.FLOAT: np.float32,
    TensorProto.DOUBLE: np.float64,
    TensorProto.INT64: np.int64,
    TensorProto.STRING: object,
}


def input_types(model: Any, X: Any) -> list[tuple[str, Any]]:
    """Names and types of the inputs, from some rows, or from the estimator alone."""
    if X is None:
        return [("X", _type_of(model)([None, _n_features(model)]))]
    if _is_frame(X):
        return _types_of_columns(X)
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


def _types_of_columns(X: Any) -> list[tuple[str, Any]]:
    names = [str(name) for name in X.columns]
    numeric = {name: _is_numeric(X[name]) for name in X.columns}
    single = all(str(X[name].dtype).lower() == "float32" for name in X.columns if numeric[name])
    number = FloatTensorType if single else DoubleTensorType
    return [
        (name, (number if numeric[column] else StringTensorType)([None, 1]))
        for name, column in zip(names, X.columns, strict=True)
    ]


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def _is_numeric(column: Any) -> bool:
    """Whether a column of pandas or polars holds numbers; booleans count as such."""
    if hasattr(column.dtype, "is_numeric"):
        return bool(column.dtype.is_numeric()) or str(column.dtype) == "Boolean"
    return getattr(column.dtype, "kind", "O") in "biuf"


def values_of(graph: ModelProto, X: Any) -> dict[str, Any]:
    """See `vicinal.onnx.feed`."""
    inputs = graph.graph.input
    dtypes = [_DTYPES[variable.type.tensor_type.elem_type] for variable in inputs]
    if not _is_frame(X):
        return {inputs[0].name: np.ascontiguousarray(X, dtype=dtypes[0])}
    if len(inputs) == 1 and inputs[0].name not in list(X.columns):
        return {inputs[0].name: np.ascontiguousarray(X.to_numpy(), dtype=dtypes[0])}
    columns = {str(column): X[column] for column in X.columns}
    lacking = [variable.name for variable in inputs if variable.name not in columns]
    if lacking:
        raise ValueError(f"X must have the columns {lacking!r}, which the model asks for.")
    return {
        variable.name: _column(columns[variable.name], dtype)
        for variable, dtype in zip(inputs, dtypes, strict=True)
    }


def _column(values: Any, dtype: Any) -> Any:
    """A column as an array of shape (n, 1)."""
    return np.asarray(values.to_numpy(), dtype=dtype).reshape(-1, 1)
