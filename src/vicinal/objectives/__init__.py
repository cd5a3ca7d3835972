"""Objectives as functions of embedded points: ``value, dZ = objective(Z, targets, ...)``."""

from typing import TYPE_CHECKING, Any

from vicinal._public import listing as _listing
from vicinal.engines.cpu.impostors import Candidates
from vicinal.objectives.knca import KNCALoss, knca
from vicinal.objectives.knca_rules import knca_posterior
from vicinal.objectives.ksne import KSNELoss, ksne
from vicinal.objectives.lmnn import LMNNLoss, lmnn
from vicinal.objectives.matches import MatchLoss, nca_matches
from vicinal.objectives.mcml import MCMLLoss, mcml
from vicinal.objectives.mlkr import MLKRLoss, mlkr
from vicinal.objectives.nca import NCALoss, nca
from vicinal.objectives.nca_rules import nca_effective_n_neighbors, nca_posterior
from vicinal.objectives.pair_nca import PairNCALoss, pair_nca

if TYPE_CHECKING:
    from vicinal.objectives.background import background_weights
    from vicinal.objectives.background_shares import (
        background_gradient,
        descend_background,
        em_background,
    )

__all__ = [
    "Candidates",
    "KNCALoss",
    "KSNELoss",
    "LMNNLoss",
    "MCMLLoss",
    "MLKRLoss",
    "MatchLoss",
    "NCALoss",
    "PairNCALoss",
    "background_gradient",
    "background_weights",
    "descend_background",
    "em_background",
    "knca",
    "knca_posterior",
    "ksne",
    "lmnn",
    "mcml",
    "mlkr",
    "nca",
    "nca_effective_n_neighbors",
    "nca_matches",
    "nca_posterior",
    "pair_nca",
]
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    """The functions of backgrounds, which are imported on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vicinal.objectives import background, background_shares

    return getattr(background if hasattr(background, name) else background_shares, name)
