"""Objectives as functions of embedded points: ``value, dZ = objective(Z, targets, ...)``."""

from vicinal.objectives.nca import nca

__all__ = ["nca"]
