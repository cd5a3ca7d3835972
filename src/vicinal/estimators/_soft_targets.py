"""Label distributions and matches in place of class labels: their checks, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from vicinal._validation import check_rows, check_weights
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.estimators._neighbours import RowNumbers, drop_weightless_rows
from vicinal.fit.method import Data
from vicinal.models.soft import DistributionModel, MatchModel
from vicinal.targets import LabelDistributions, Matches
from vicinal.targets._checks import checked_distributions, checked_matches

__all__ = [
    "SOFT",
    "SoftTarget",
    "check_labels",
    "check_soft",
    "distributed_rows",
    "distributions_of",
    "is_matrix",
    "matched_rows",
    "matches_of",
    "soft_model",
]

SoftTarget = LabelDistributions | Matches
#: the targets that are no class labels
SOFT = (LabelDistributions, Matches)


def is_matrix(y: Any) -> bool:
    """Whether y has two dimensions and two columns or more: label distributions."""
    try:
        shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    except ValueError:  # a ragged list
        return False
    return len(shape) == 2 and int(shape[1]) > 1


def check_labels(y: Any, owner: str) -> None:
    """Refuse label distributions."""
    if is_matrix(y):
        raise ValueError(
            f"The labels y of {owner} must be one-dimensional: a stream remembers some rows of "
            f"each class. Got shape {np.shape(y)} instead; fit takes label distributions."
        )


def distributions_of(y: Any, owner: str) -> LabelDistributions:
    """Label distributions as a target; the error says how to make them from something else."""
    T = check_array(y.toarray() if sp.issparse(y) else y, dtype=np.float64, input_name="y")
    return LabelDistributions(checked_distributions(T, f"The matrix y of {owner}"))


def distributed_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Data, RowNumbers]:
    """Checked rows of positive weight with their label distributions, and their numbers."""
    name = type(estimator).__name__
    columns = getattr(y, "columns", None)  # of a data frame
    X, T = check_rows(estimator, X, y, multi_output=True, ensure_min_samples=2)
    T = distributions_of(T, f"{name}.fit").values
    weight = check_weights(sample_weight, len(T))
    rows, X, T, weight = drop_weightless_rows(X, T, weight)
    if (T == T[0]).all():
        raise ValueError(
            f"{name} needs rows of different label distributions. Got {len(T)} rows of the same."
        )
    if (np.count_nonzero(T, axis=0) < 2).all():
        raise ValueError(
            f"{name} needs a class that has a positive probability in at least 2 samples. Got "
            f"{len(T)} samples without any class in common instead."
        )
    classes = np.arange(T.shape[1]) if columns is None else np.asarray(list(columns))
    return Data(X, LabelDistributions(T, weight), classes), rows


def matches_of(matches: Any, shape: tuple[int, int], owner: str) -> Any:
    """Matches of a shape as a sparse array, entries in [0, 1]; the error names the parameter."""
    return checked_matches(matches, shape, f"The 'matches' parameter of {owner}")


def matched_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, matches: Any
) -> tuple[Data, RowNumbers]:
    """Checked rows of positive weight with their matches, and their numbers."""
    name = type(estimator).__name__
    if y is not None:
        raise ValueError(f"{name}.fit takes exactly one of y and 'matches'. Got both instead.")
    X = check_rows(estimator, X, ensure_min_samples=2)
    n = X.shape[0]
    M = matches_of(matches, (n, n), f"{name}.fit")
    weight = check_weights(sample_weight, n)
    rows, X, kept, weight = drop_weightless_rows(X, np.arange(n), weight)
    if len(kept) < n:
        M = M[kept][:, kept]
    target = Matches(M, weight)
    if not target.counts.any():
        raise ValueError(
            f"The 'matches' parameter of {name}.fit must match at least one row with another row "
            "of positive weight. Got none."
        )
    return Data(X, target), rows


def check_soft(estimator: Any, kernel: Kernel, pairs: Any) -> None:
    """Refuse, by name, what is defined for class labels alone."""
    name = type(estimator).__name__

    def refuse(parameter: str, allowed: str, why: str) -> None:
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {allowed} for label distributions and "
            f"matches: {why}. Got {getattr(estimator, parameter)!r} instead."
        )

    if not kernel.reaches_everywhere:
        why = "a row may have no match in range of a compact one"
        refuse("kernel", "'gaussian', 'student' or 'laplace'", why)
    if kernel.background:
        why = "a background is a distribution of a class"
        refuse("kernel", "'gaussian', 'student' or 'laplace' without a background", why)
    if estimator.priors is not None:
        refuse("priors", "None", "they are the probabilities of class labels")
    if pairs is not None and not pairs.makes_lists:
        refuse("pairs", "'auto', 'all' or 'nearest'", "trees sum over the rows of a class")
    if pairs is not None and pairs.draws:
        refuse("pairs", "'auto', 'all' or 'nearest'", "random lists are drawn from each class")


def soft_model(n_neighbors: Any, Z: Array, target: SoftTarget, objective: Any) -> Any:
    """The model that predicts from embedded rows with a soft target."""
    if isinstance(target, Matches):
        return MatchModel(Z, target, n_neighbors, objective.kernel)
    return DistributionModel(Z, target, n_neighbors, objective.kernel)
