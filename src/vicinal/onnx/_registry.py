"""Our estimators in skl2onnx's registry, and from an estimator or a pipeline to an ONNX model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import skl2onnx
from onnx import ModelProto, helper
from skl2onnx import update_registered_converter
from skl2onnx._parse import sklearn_parsers_map, update_registered_parser
from skl2onnx.common._registration import register_converter, register_shape_calculator
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.estimators.chi2_lmnn import Chi2LMNN
from vicinal.estimators.covariance import RCA, Covariance
from vicinal.estimators.from_labels import FromLabels
from vicinal.estimators.itml import ITML
from vicinal.estimators.knca import KNCA
from vicinal.estimators.ksne import KSNE
from vicinal.estimators.lfda import LFDA
from vicinal.estimators.lmnn import LMNN
from vicinal.estimators.lsml import LSML
from vicinal.estimators.mcml import MCML
from vicinal.estimators.mlkr import MLKR
from vicinal.estimators.mmc import MMC
from vicinal.estimators.nca import NCA
from vicinal.estimators.nca_regressor import NCARegressor
from vicinal.estimators.pair_nca import PairNCA
from vicinal.estimators.sdml import SDML
from vicinal.estimators.vote import MetricVote, MetricVoteRegressor
from vicinal.learner.preparation import Preparation, written_of_columns
from vicinal.onnx._convert import OPTIONS, TRANSFORM, convert, parse, set_shapes, settled
from vicinal.onnx._inputs import input_types
from vicinal.onnx._preparation import converters

ESTIMATORS: tuple[type, ...] = (
    Chi2LMNN,
    Covariance,
    FromLabels,
    ITML,
    KNCA,
    KSNE,
    LFDA,
    LMNN,
    LSML,
    MCML,
    MLKR,
    MMC,
    MetricVote,
    MetricVoteRegressor,
    NCA,
    NCARegressor,
    PairNCA,
    RCA,
    SDML,
)
_done = False


def register_all() -> None:
    """See `vicinal.onnx.register`."""
    global _done
    if _done:
        return
    for estimator in ESTIMATORS:
        update_registered_converter(
            estimator,
            f"Vicinal{estimator.__name__}",
            set_shapes,
            convert,
            parser=parse,
            options=OPTIONS,
        )
    register_converter(TRANSFORM, convert, options=OPTIONS)
    register_shape_calculator(TRANSFORM, set_shapes)
    for container in (Pipeline, FeatureUnion, ColumnTransformer):
        update_registered_parser(container, _noting_transformers(sklearn_parsers_map[container]))
    update_registered_parser(Preparation, sklearn_parsers_map[ColumnTransformer])
    _done = True


def _noting_transformers(inner: Callable[..., Any]) -> Callable[..., Any]:
    """The parser of a container, after it has noted which of its parts only transform."""

    def parse_container(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
        noted = scope.__dict__.setdefault("vicinal_transformers", set())
        noted.update(id(part) for part in _transformers(model, id(model) in noted))
        return inner(scope, model, inputs, custom_parsers=custom_parsers)

    return parse_container


def _transformers(model: Any, transforms: bool) -> Iterator[Any]:
    """The parts of a container whose ``transform`` is used; ``transforms``: its own is, too."""
    if isinstance(model, Pipeline):
        parts = [part for _, part in model.steps]
        yield from parts if transforms else parts[:-1]
    elif isinstance(model, FeatureUnion):
        yield from (part for _, part in model.transformer_list)
    else:
        yield from (part for _, part, _ in model.transformers_)


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
    if written := written_of_columns(model):  # for `feed`
        facts["written"] = json.dumps(written, ensure_ascii=False)
    return facts
