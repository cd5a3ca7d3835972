"""Objectives as functions of embedded points: ``value, dZ = objective(Z, targets, ...)``."""

from vicinal.objectives.nca import nca, nca_effective_n_neighbors, nca_posterior

__all__ = ["nca", "nca_effective_n_neighbors", "nca_posterior"]
