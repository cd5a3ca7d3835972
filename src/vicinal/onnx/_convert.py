"""Parsers, shapes and converters of our estimators, as skl2onnx asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx._parse import _parse_sklearn_classifier
from skl2onnx.common.data_types import (
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from skl2onnx.common.utils_classifier import get_label_classes
from sklearn.base import ClassifierMixin, RegressorMixin

from vicinal.estimators._classifier import NeighbourSearchMixin
from vicinal.models.soft import MatchModel
from vicinal.onnx._maps import check_map, embed, histograms, transform
from vicinal.onnx._models import n_outputs, predict
from vicinal.onnx._writer import Writer, hand_over

OUTPUTS = ("auto", "transform", "predict")
OPTIONS = {
    "output": list(OUTPUTS),
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [False, True],
}
TRANSFORM = "VicinalTransform"  # what a graph of transform is called in skl2onnx's registry
_FIRST_OPSET = 19  # reductions take their axes as inputs, and strings can be compared


def settled(model: Any, output: str) -> str:
    """What is converted, "transform" or "predict"; an error tells what cannot be."""
    name = type(model).__name__
    predicts = isinstance(model, NeighbourSearchMixin) and isinstance(
        model, ClassifierMixin | RegressorMixin
    )
    if output not in OUTPUTS:
        listed = ", ".join(map(repr, OUTPUTS))
        raise ValueError(
            f"The 'output' parameter of to_onnx must be one of {listed}. Got {output!r} instead."
        )
    check_map(getattr(model, "_map", None), name)
    if output == "transform" or (output == "auto" and not predicts):
        return "transform"
    if not predicts:
        raise ValueError(
            f"The 'output' parameter of to_onnx must be 'auto' or 'transform' for {name}, whose "
            f"predictions are not those of single rows. Got {output!r} instead."
        )
    if isinstance(model._model, MatchModel):
        if output == "auto":
            return "transform"
        raise ValueError(f"{name} predicts nothing after a fit to matches. Use output='transform'.")
    if model.rule == "draw":
        raise ValueError(
            f"to_onnx cannot convert the rule 'draw' of {name}, which draws classes at random. "
            "Set rule='posterior' first, or use output='transform'."
        )
    return "predict"


def parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The outputs of an estimator: points, or labels and probabilities, or numbers."""
    output = scope.get_options(model, {"output": "auto"})["output"]
    if id(model) in getattr(scope, "vicinal_transformers", ()):
        output = "transform"
    output = settled(model, output)
    if output == "predict" and isinstance(model, ClassifierMixin):
        asked = scope.get_options(model, {"zipmap": True})["zipmap"]
        if asked is True and _number_type(inputs) is DoubleTensorType:
            # ONNX has dictionaries of float32 only, and skl2onnx asks for them unasked
            scope.add_options(id(model), {"zipmap": False})
        return _parse_sklearn_classifier(scope, model, inputs, custom_parsers)
    kind = TRANSFORM if output == "transform" else f"Vicinal{type(model).__name__}"
    operator = scope.declare_local_operator(kind, model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("variable", _number_type(inputs)()))
    return operator.outputs


def set_shapes(operator: Any) -> None:
    """Types and shapes of the outputs."""
    model, number = operator.raw_operator, _number_type(operator.inputs)
    if operator.type == TRANSFORM:
        operator.outputs[0].type = number([None, int(model._n_features_out)])
        return
    if len(operator.outputs) == 2:
        labels = (
            StringTensorType
            if _labels(operator.scope_inst, model).dtype == object
            else Int64TensorType
        )
        operator.outputs[0].type = labels([None])
    operator.outputs[-1].type = number([None, n_outputs(model._model)])


def convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the graph of an estimator."""
    if container.target_opset < _FIRST_OPSET:
        raise ValueError(
            f"The 'target_opset' parameter of to_onnx must be an int in [{_FIRST_OPSET}, inf) for "
            f"{type(operator.raw_operator).__name__}. Got {container.target_opset} instead."
        )
    dtype = np.float32 if _number_type(operator.inputs) is FloatTensorType else np.float64
    writer = Writer(dtype, scope.get_unique_variable_name)
    model = operator.raw_operator
    X = _rows(writer, operator.inputs)
    if getattr(model, "normalize", False):
        X = histograms(writer, X)
    if operator.type == TRANSFORM:
        results = [transform(writer, X, model._map)]
    else:
        results = _prediction(writer, X, model, operator.scope_inst)
    for name, variable in zip(results, operator.outputs, strict=True):
        writer.name_output(name, variable.full_name)
    hand_over(writer, container)


def _prediction(w: Writer, X: str, model: Any, scope: Any) -> list[str]:
    model._set_voters()
    Z = embed(w, X, model._map)
    found = predict(w, Z.name, Z.moved, model._model, model.rule)
    if isinstance(model, ClassifierMixin):
        best = w.op("ArgMax", found, axis=1, keepdims=0)
        return [w.gather(w.constant(_labels(scope, model)), best), found]
    units = model._outputs
    found = w.op("Mul", found, w.constant(units.scale))
    return [w.op("Add", found, w.constant(units.shift))]


def _labels(scope: Any, model: Any) -> Any:
    """The classes as ONNX can hold them: integers, or strings as an array of objects."""
    classes = np.asarray(get_label_classes(scope, model))
    if classes.dtype.kind in "biu":
        largest = np.iinfo(np.int64).max
        if classes.max() > largest:
            raise ValueError(
                f"to_onnx can convert whole numbers as class labels up to {largest}, the largest "
                f"int64. Got {classes.max()} instead: fit to labels as strings, y.astype(str), or "
                "use output='transform'."
            )
        return classes.astype(np.int64)
    if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
        return classes.astype(np.int64)
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    raise ValueError(
        "to_onnx can convert class labels that are whole numbers or strings. Got "
        f"{classes[:3].tolist()!r} instead: fit to labels as strings, or use output='transform'."
    )


def _number_type(inputs: Any) -> Any:
    """float32 if all inputs are; else float64, also for integers."""
    single = all(isinstance(variable.type, FloatTensorType) for variable in inputs)
    return FloatTensorType if single else DoubleTensorType


def _rows(w: Writer, inputs: Any) -> str:
    """All inputs side by side."""
    number = FloatTensorType if w.element == TensorProto.FLOAT else DoubleTensorType
    names = [
        variable.full_name
        if isinstance(variable.type, number)
        else w.op("Cast", variable.full_name, to=w.element)
        for variable in inputs
    ]
    return names[0] if len(names) == 1 else w.op("Concat", *names, axis=1)
