"""What the learnt metric weighs."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import Metric
from vicinal.reporting.spaces import Scaling

_LISTED = 200  # features whose importances are listed
_IN_MATRIX = 40  # features of the heat map


def names_of(model: Any, learner: Any, D: int) -> list[str]:
    """Names of the columns that the learner sees; a gap is named after its column."""
    steps = getattr(model, "steps", [])
    if len(steps) > 1:
        return [_readable(str(name)) for name in model[:-1].get_feature_names_out()]
    named = getattr(learner, "feature_names_in_", None)
    return [f"column {j}" for j in range(D)] if named is None else [str(name) for name in named]


def importances_of(learner: Any, scaling: Scaling) -> Array | None:
    """The share of each feature in the metric; None if the method has no such shares."""
    A = getattr(learner, "components_", None)
    if A is not None:
        found = np.sum(_by_deviations(A, scaling) ** 2, axis=0)
    elif hasattr(learner, "feature_importances_"):
        found = np.asarray(learner.feature_importances_, np.float64)
        if getattr(learner, "scaling", None) is None:  # it learnt from columns as they are
            found = _by_deviations(np.sqrt(found), scaling) ** 2
    else:
        return None
    return found / (found.sum() or 1.0)


def metric_of(
    learner: Any, names: list[str], importances: Array | None, scaling: Scaling
) -> Metric | None:
    """Importances, most important feature first, and the matrix of the most important ones."""
    if importances is None:
        return None
    order = np.argsort(-importances, kind="stable")
    listed = order[:_LISTED]
    note = (
        "The importance of a feature is its share in the squared distance of two rows, where all "
        "features differ by one standard deviation."
    )
    if len(order) > _LISTED:
        note += f" The {_LISTED} most important of {len(order):,} features are listed."
    matrix, in_matrix = None, []
    A = getattr(learner, "components_", None)
    if A is not None and len(names) > 1:
        chosen = order[:_IN_MATRIX]
        A = _by_deviations(A, scaling)[:, chosen]
        matrix, in_matrix = A.T @ A, [names[j] for j in chosen]
        note += " The matrix is that of the metric, in standard deviations of the features."
    return Metric([names[j] for j in listed], importances[listed], matrix, in_matrix, note)


def _by_deviations(A: Array, scaling: Scaling) -> Array:
    """The map for features that are measured in standard deviations."""
    factor = np.divide(
        1.0, scaling.scale, out=np.zeros_like(scaling.scale), where=scaling.scale > 0
    )
    return np.asarray(A, np.float64) * factor


def _readable(name: str) -> str:
    """scikit-learn's name of the column that says where values are missing, in words."""
    block, mark, column = name.partition("missingindicator_")
    return f"{block}{column} missing" if mark else name
