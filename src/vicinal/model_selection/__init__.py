"""Comparisons of methods by cross-validation, and parameter searches for the margin methods."""

from vicinal._public import listing as _listing
from vicinal.model_selection._compare import compare_methods
from vicinal.model_selection._comparison import Comparison, MethodScores
from vicinal.model_selection._margin_search import margin_search

__all__ = ["Comparison", "MethodScores", "compare_methods", "margin_search"]
__dir__ = _listing(__name__)
