"""scikit-learn estimators: thin interfaces over the parts."""

from vicinal.estimators.knca import KNCA
from vicinal.estimators.nca import NCA
from vicinal.estimators.rca import RCA

__all__ = ["KNCA", "NCA", "RCA"]
