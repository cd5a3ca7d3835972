"""Converters for the steps that `vicinal.make_learner` puts before an estimator.

skl2onnx has its own, but those need operators that onnxruntime has for float32 only, and know
neither rare categories nor missing strings.  A missing string is an empty one here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from vicinal.learner.columns import is_missing
from vicinal.learner.dates import DateColumns
from vicinal.learner.text import TextColumns
from vicinal.learner.values import ColumnValues
from vicinal.onnx._writer import Writer, hand_over


class Converters(NamedTuple):
    """Functions by the type of a step: what ``skl2onnx.convert_sklearn`` takes."""

    shapes: dict[type, Any]
    graphs: dict[type, Any]


def converters(number: Any) -> Converters:
    """The converters; encoded columns become numbers of the type ``number`` of skl2onnx."""
    steps = {
        ColumnValues: _read,
        SimpleImputer: _filled,
        OneHotEncoder: _one_hot,
        OrdinalEncoder: _ordinal,
    }
    shapes: dict[type, Any] = {
        ColumnValues: lambda operator: _read_shape(operator, number),
        SimpleImputer: lambda operator: _imputed_shape(operator, number),
        OneHotEncoder: lambda operator: _encoded_shape(operator, number),
        OrdinalEncoder: lambda operator: _encoded_shape(operator, number),
        TextColumns: _refuse_text,
        DateColumns: _refuse_text,
    }
    graphs = {step: _graph_of(body, number) for step, body in steps.items()}
    return Converters(shapes, {**graphs, TextColumns: _refuse_text, DateColumns: _refuse_text})


def _graph_of(body: Any, number: Any) -> Any:
    dtype = np.float32 if number is FloatTensorType else np.float64

    def convert(scope: Any, operator: Any, container: Any) -> None:
        w = Writer(dtype, scope.get_unique_variable_name)
        strings = _holds_strings(operator)
        names = [
            variable.full_name
            if isinstance(variable.type, StringTensorType if strings else number)
            else w.op("Cast", variable.full_name, to=TensorProto.STRING if strings else w.element)
            for variable in operator.inputs
        ]
        X = names[0] if len(names) == 1 else w.op("Concat", *names, axis=1)
        w.name_output(body(w, X, operator.raw_operator, strings), operator.outputs[0].full_name)
        hand_over(w, container)

    return convert


def _holds_strings(operator: Any) -> bool:
    return any(isinstance(variable.type, StringTensorType) for variable in operator.inputs)


def _refuse_text(*arguments: Any) -> None:
    operator = next(one for one in arguments if hasattr(one, "raw_operator"))
    columns = [str(variable.raw_name) for variable in operator.inputs]
    text = isinstance(operator.raw_operator, TextColumns)
    kind, what = ("text", "finds the same words") if text else ("dates", "reads them")
    raise ValueError(
        f"to_onnx cannot convert columns of {kind}, {', '.join(columns)}: ONNX has no operator "
        f"that {what}. Leave them out: make_learner(X, y, drop={columns!r})."
    )


def _read_shape(operator: Any, number: Any) -> None:
    kind = StringTensorType if _holds_strings(operator) else number
    operator.outputs[0].type = kind([None, operator.raw_operator.n_features_in_])


def _imputed_shape(operator: Any, number: Any) -> None:
    fill = operator.raw_operator
    kind = StringTensorType if _holds_strings(operator) else number
    if fill.add_indicator and kind is StringTensorType:
        raise ValueError("to_onnx cannot convert SimpleImputer(add_indicator=True) for strings.")
    if kind is not StringTensorType and not is_missing(fill.missing_values):
        raise ValueError(
            "to_onnx can convert SimpleImputer with missing_values=nan. "
            f"Got {fill.missing_values!r} instead."
        )
    operator.outputs[0].type = kind([None, len(fill.get_feature_names_out())])


def _encoded_shape(operator: Any, number: Any) -> None:
    encoder = operator.raw_operator
    if getattr(encoder, "drop", None) is not None:
        raise ValueError(
            f"to_onnx can convert OneHotEncoder with drop=None. Got {encoder.drop!r} instead."
        )
    if _holds_strings(operator) and any("" in values for values in encoder.categories_):
        raise ValueError(
            "to_onnx cannot convert a column in which the empty string is a category: in ONNX it "
            "stands for a missing string."
        )
    if not _holds_strings(operator):
        _check_digits(encoder, np.float32 if number is FloatTensorType else np.float64)
    operator.outputs[0].type = number([None, len(encoder.get_feature_names_out())])


def _read(w: Writer, X: str, read: ColumnValues, strings: bool) -> str:
    """The graph of ``ColumnValues.transform``."""
    if strings and isinstance(read.missing, str):
        return w.op("Where", w.op("Equal", X, w.constant([""])), w.constant([read.missing]), X)
    return X if (read.units_ == 1.0).all() else w.op("Div", X, w.constant(read.units_))


def _check_digits(encoder: Any, dtype: Any) -> None:
    """Refuse categories that are other numbers, or the same, in the precision of the inputs."""
    largest = 2 ** (np.finfo(dtype).nmant + 1)  # of the whole numbers up to which all are there
    for values in encoder.categories_:
        known = [value for value in np.asarray(values).tolist() if not is_missing(value)]
        lost = [value for value in known if isinstance(value, int) and abs(value) > largest]
        if not lost and len({dtype(value) for value in known}) < len(known):
            lost = known
        if lost:
            raise ValueError(
                "to_onnx can convert columns of categories that are different numbers in "
                f"{np.dtype(dtype)}, the inputs' precision, and whole numbers up to {largest}. Got "
                f"{lost[:3]!r} instead: fit to the column as strings, X.astype({{column: str}})."
            )


def _filled(w: Writer, X: str, fill: SimpleImputer, strings: bool) -> str:
    """The graph of ``SimpleImputer.transform``."""
    values = fill.statistics_
    missing = w.op("Equal", X, w.constant(np.array([""]))) if strings else w.op("IsNaN", X)
    empty = [is_missing(value) for value in values]
    values = [0 if gone else value for value, gone in zip(values, empty, strict=True)]
    known = w.constant(np.array(values, dtype=object if strings else np.float64))
    filled = w.op("Where", missing, known, X)
    if any(empty) and not fill.keep_empty_features:  # columns without values are left out
        filled = w.gather(filled, np.flatnonzero(~np.array(empty)), axis=1)
    if not fill.add_indicator:
        return filled
    shown = w.gather(w.op("Cast", missing, to=w.element), fill.indicator_.features_, axis=1)
    return w.op("Concat", filled, shown, axis=1)


def _hits(w: Writer, X: str, column: int, values: Any, strings: bool) -> str:
    """Ones where a column has each of some values, (n, k); a missing value equals another."""
    x = w.gather(X, [column], axis=1)
    gone = [is_missing(value) for value in values]
    if strings:
        texts = ["" if lacks else str(value) for value, lacks in zip(values, gone, strict=True)]
        return w.op("Cast", w.op("Equal", x, w.constant(np.array([texts]))), to=w.element)
    hits = w.op("Cast", w.op("Equal", x, w.constant([np.array(values, float)])), to=w.element)
    if not any(gone):
        return hits
    lacking = w.op("Cast", w.op("IsNaN", x), to=w.element)
    return w.op("Add", hits, w.op("Mul", lacking, w.constant([np.array(gone, float)])))


def _one_hot(w: Writer, X: str, encoder: OneHotEncoder, strings: bool) -> str:
    """The graph of ``OneHotEncoder.transform``; an unknown value is a rare one, or none."""
    rare = getattr(encoder, "infrequent_categories_", [None] * len(encoder.categories_))
    blocks = []
    for column, (values, few) in enumerate(zip(encoder.categories_, rare, strict=True)):
        hits = _hits(w, X, column, values, strings)
        if few is not None and len(few):
            uncommon = np.isin(np.asarray(values, dtype=object), np.asarray(few, dtype=object))
            common = w.gather(hits, np.flatnonzero(~uncommon), axis=1)
            if encoder.handle_unknown == "infrequent_if_exist":
                others = w.op("Sub", w.constant(1.0), w.reduce("Sum", common, 1))
            else:
                others = w.reduce("Sum", w.gather(hits, np.flatnonzero(uncommon), axis=1), 1)
            hits = w.op("Concat", common, others, axis=1)
        blocks.append(hits)
    return blocks[0] if len(blocks) == 1 else w.op("Concat", *blocks, axis=1)


def _ordinal(w: Writer, X: str, encoder: OrdinalEncoder, strings: bool) -> str:
    """The graph of ``OrdinalEncoder.transform``; unknown values get the code for them, or NaN."""
    unknown = np.nan if encoder.unknown_value is None else encoder.unknown_value
    blocks = []
    for column, values in enumerate(encoder.categories_):
        hits = _hits(w, X, column, values, strings)
        codes = w.times_matrix(hits, np.arange(float(len(values)))[:, None])
        known = w.op("Greater", w.reduce("Sum", hits, 1), w.constant(0.0))
        blocks.append(w.op("Where", known, codes, w.constant(float(unknown))))
    return blocks[0] if len(blocks) == 1 else w.op("Concat", *blocks, axis=1)
