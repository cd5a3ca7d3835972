"""Our estimators in skl2onnx's registry, so that pipelines with them can be converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from skl2onnx import update_registered_converter
from skl2onnx._parse import sklearn_parsers_map, update_registered_parser
from skl2onnx.common._registration import register_converter, register_shape_calculator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline

from vicinal.estimators.chi2_lmnn import Chi2LMNN
from vicinal.estimators.covariance import Covariance
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
from vicinal.estimators.rca import RCA
from vicinal.estimators.sdml import SDML
from vicinal.learner.preparation import Preparation
from vicinal.onnx._convert import OPTIONS, TRANSFORM, convert, parse, set_shapes

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
