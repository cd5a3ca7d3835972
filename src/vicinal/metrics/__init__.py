"""Measures of an embedding, and distances between histograms."""

from vicinal._public import listing as _listing
from vicinal.metrics.chi2 import Chi2Index, chi2_distances
from vicinal.metrics.embedding import (
    continuity,
    knn_accuracy,
    neighbor_recall,
    r_nx_auc,
    r_nx_curve,
    rank_correlation,
    trustworthiness,
)

__all__ = [
    "Chi2Index",
    "chi2_distances",
    "continuity",
    "knn_accuracy",
    "neighbor_recall",
    "r_nx_auc",
    "r_nx_curve",
    "rank_correlation",
    "trustworthiness",
]
__dir__ = _listing(__name__)
