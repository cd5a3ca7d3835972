"""Objectives as functions of embedded points: ``value, dZ = objective(Z, targets, ...)``."""

from vicinal.engines.cpu.impostors import Candidates
from vicinal.extras.background import background_weights
from vicinal.extras.em import em_background
from vicinal.objectives.knca import KNCALoss, knca
from vicinal.objectives.knca_rules import knca_posterior
from vicinal.objectives.lmnn import LMNNLoss, lmnn
from vicinal.objectives.nca import NCALoss, nca
from vicinal.objectives.nca_rules import nca_effective_n_neighbors, nca_posterior

__all__ = [
    "Candidates",
    "KNCALoss",
    "LMNNLoss",
    "NCALoss",
    "background_weights",
    "em_background",
    "knca",
    "knca_posterior",
    "lmnn",
    "nca",
    "nca_effective_n_neighbors",
    "nca_posterior",
]
