"""Starts for the optimisation, under the name they have in the public interface."""

from vicinal.starts import *  # noqa: F403
from vicinal.starts import __all__  # noqa: F401
