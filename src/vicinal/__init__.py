"""Metric learning from labelled neighbours.

Every public name loads on first use: ``import vicinal`` itself imports and compiles nothing.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "ITML",
    "KNCA",
    "KSNE",
    "LFDA",
    "LMNN",
    "LSML",
    "MCML",
    "MLKR",
    "MMC",
    "NCA",
    "RCA",
    "SDML",
    "TRUSTED_TYPES",
    "Chi2LMNN",
    "Covariance",
    "FromLabels",
    "MetricVote",
    "MetricVoteRegressor",
    "NCARegressor",
    "PairNCA",
    "affinities",
    "callbacks",
    "compat",
    "datasets",
    "densities",
    "load",
    "make_learner",
    "maps",
    "metrics",
    "model_selection",
    "neighborhoods",
    "objectives",
    "onnx",
    "plotting",
    "report",
    "reporting",
    "samplers",
    "save",
    "solvers",
    "starts",
    "storage",
    "targets",
    "to_onnx",
    "torch",
]

#: where each class, function and list lives; every other public name is a submodule
_HOMES = {
    "Chi2LMNN": "vicinal.estimators.chi2_lmnn",
    "Covariance": "vicinal.estimators.covariance",
    "FromLabels": "vicinal.estimators.from_labels",
    "ITML": "vicinal.estimators.itml",
    "KNCA": "vicinal.estimators.knca",
    "KSNE": "vicinal.estimators.ksne",
    "LFDA": "vicinal.estimators.lfda",
    "LMNN": "vicinal.estimators.lmnn",
    "LSML": "vicinal.estimators.lsml",
    "MCML": "vicinal.estimators.mcml",
    "MLKR": "vicinal.estimators.mlkr",
    "MMC": "vicinal.estimators.mmc",
    "MetricVote": "vicinal.estimators.vote",
    "MetricVoteRegressor": "vicinal.estimators.vote",
    "NCA": "vicinal.estimators.nca",
    "NCARegressor": "vicinal.estimators.nca_regressor",
    "PairNCA": "vicinal.estimators.pair_nca",
    "RCA": "vicinal.estimators.covariance",
    "SDML": "vicinal.estimators.sdml",
    "TRUSTED_TYPES": "vicinal.storage.names",
    "make_learner": "vicinal.learner.build",
    "report": "vicinal.reporting.make",
    "load": "vicinal.storage.model",
    "save": "vicinal.storage.model",
    "to_onnx": "vicinal.onnx.export",
}

if _TYPE_CHECKING:
    from vicinal import (
        affinities,
        callbacks,
        compat,
        datasets,
        densities,
        maps,
        metrics,
        model_selection,
        neighborhoods,
        objectives,
        onnx,
        plotting,
        reporting,
        samplers,
        solvers,
        starts,
        storage,
        targets,
        torch,
    )
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
    from vicinal.learner.build import make_learner
    from vicinal.onnx.export import to_onnx
    from vicinal.reporting.make import report
    from vicinal.storage.model import load, save
    from vicinal.storage.names import TRUSTED_TYPES


def __getattr__(name: str) -> object:
    if name.upper() == "TSNE":
        # of an AttributeError, ``from vicinal import TSNE`` would not show the message
        importing = _sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
        raise (ImportError if importing else AttributeError)(
            f"vicinal has no {name}: t-SNE, each row normalised by itself, is KSNE with k=1. Write "
            "vicinal.KSNE(n_components=2, k=1, perplexity=30).fit_transform(X)."
        )
    if name not in __all__:
        raise AttributeError(f"module 'vicinal' has no attribute {name!r}")
    home = _HOMES.get(name)
    value = getattr(_import_module(home), name) if home else _import_module(f"vicinal.{name}")
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
