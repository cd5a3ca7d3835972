"""Objectives as functions of embedded points: ``value, dZ = objective(Z, targets, ...)``."""

from vicinal.engines.cpu.impostors import Candidates
from vicinal.extras.background import background_weights
from vicinal.extras.em import em_background
from vicinal.objectives._losses import KNCALoss, LMNNLoss, NCALoss
from vicinal.objectives._masses import reference_masses
from vicinal.objectives.knca import knca
from vicinal.objectives.knca_rules import knca_posterior
from vicinal.objectives.lmnn import lmnn
from vicinal.objectives.nca import nca
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
    "reference_masses",
]
