"""From an estimator or a pipeline to an ONNX model."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import skl2onnx
from onnx import ModelProto, helper
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.onnx._convert import settled
from vicinal.onnx._inputs import input_types
from vicinal.onnx._preparation import converters
from vicinal.onnx._registry import ESTIMATORS, register_all


def converted(
    model: Any, X: Any, output: str, zipmap: bool, target_opset: int | None
) -> ModelProto:
    """See `vicinal.onnx.to_onnx`."""
    register_all()
    _check_bool(zipmap)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if type(last) in ESTIMATORS:
        check_is_fitted(last)
    options: dict[int, dict[str, Any]] = {id(last): {}}
    if type(last) in ESTIMATORS:
        options[id(last)]["output"] = settled(last, output)
    else:
        _check_last(model, last, output)
    types = input_types(model, X)
    if zipmap and not _is_single(types):
        raise ValueError(
            "The 'zipmap' parameter of to_onnx must be False for inputs in float64: ONNX has "
            "dictionaries of float32 only. Got True instead."
        )
    if is_classifier(last):
        options[id(last)]["zipmap"] = zipmap
    steps = converters(FloatTensorType if _is_single(types) else DoubleTensorType)
    graph = skl2onnx.convert_sklearn(
        model,
        name=type(last).__name__,
        initial_types=types,
        target_opset=target_opset,
        options={key: value for key, value in options.items() if value},
        custom_conversion_functions=steps.graphs,
        custom_shape_calculators=steps.shapes,
    )
    helper.set_model_props(graph, _metadata(model, last))
    return graph


def _is_single(types: list[tuple[str, Any]]) -> bool:
    """Whether all numbers are in float32, and there are some."""
    kinds = {type(kind) for _, kind in types}
    return FloatTensorType in kinds and DoubleTensorType not in kinds


def _check_bool(zipmap: Any) -> None:
    if not isinstance(zipmap, bool):
        raise ValueError(
            f"The 'zipmap' parameter of to_onnx must be True or False. Got {zipmap!r} instead."
        )


def _check_last(model: Any, last: Any, output: str) -> None:
    """Refuse what cannot be converted, or an output that the last step does not have."""
    if not isinstance(model, Pipeline):
        raise TypeError(
            "The 'model' parameter of to_onnx must be a fitted estimator of vicinal or a Pipeline. "
            f"Got {model!r} instead."
        )
    if output == "auto" or (output == "predict" and hasattr(last, "predict")):
        return
    raise ValueError(
        "The 'output' parameter of to_onnx must be 'auto' for a pipeline that ends with "
        f"{type(last).__name__}. Got {output!r} instead."
    )


def _metadata(model: Any, last: Any) -> dict[str, str]:
    """What a reader of the file may want to know."""
    facts = {
        "vicinal_version": sys.modules["vicinal"].__version__,
        "estimator": type(last).__name__,
    }
    for name, owner in (("classes", last), ("feature_names", model), ("threshold", last)):
        value = getattr(owner, {"feature_names": "feature_names_in_"}.get(name, f"{name}_"), None)
        if value is not None:
            facts[name] = json.dumps(np.asarray(value).tolist(), ensure_ascii=False)
    return facts
