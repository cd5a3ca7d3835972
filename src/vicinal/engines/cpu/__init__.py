"""Engines over the compiled loops of `vicinal.kernels`, on all cores."""
