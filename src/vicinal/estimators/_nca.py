"""What NCA learns: its method, for class labels, label distributions or matches of rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from vicinal import densities, neighborhoods
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_rows, check_weights, shaped
from vicinal.core.points import to_host
from vicinal.core.stages import Refresh
from vicinal.core.types import Array, MatrixLike, Pairs, Weights, is_auto
from vicinal.densities import Kernel
from vicinal.fit.method import (
    ALPHAS,
    MORE_ALPHAS,
    Data,
    Method,
    RowNumbers,
    drop_weightless_rows,
    for_nonlinear_maps,
    method_of,
    warn_single_rows,
    warn_unmatched_rows,
)
from vicinal.fit.plan import Plan
from vicinal.models.posterior import NCAModel
from vicinal.models.soft import DistributionModel, MatchModel
from vicinal.neighborhoods import Neighborhood, mass_left_out
from vicinal.neighborhoods.refresh import RefreshBackground, refresh_lists
from vicinal.objectives import MatchLoss, NCALoss
from vicinal.targets import LabelDistributions, Labels, Matches
from vicinal.targets._checks import checked_distributions, checked_matches
from vicinal.targets.labels import plain_mass, reference_masses, weights

SoftTarget = LabelDistributions | Matches
#: the targets that are no class labels
SOFT = (LabelDistributions, Matches)


def nca_method(estimator: BaseEstimator, data: Data) -> Method:
    """The method of an NCA with these parameters, for labels or the soft target of the data."""
    name = type(estimator).__name__
    kernel = densities.resolve(estimator.kernel, name)
    neighbourhood = estimator.neighborhood
    neighbourhood = None if is_auto(neighbourhood) else neighborhoods.resolve(neighbourhood, name)
    densities.check_use(kernel, neighbourhood, estimator.objective, name)
    method = method_of(
        estimator,
        data,
        NCALoss(estimator.objective, kernel),
        make_model=partial(_make_model, estimator.n_neighbors),
        refresh=partial(_refresh, kernel),
        neighborhood=neighbourhood,
        has_trees=True,
        kernel=kernel,
        # Laplace's energies grow with the norm of the map, and the penalty with its square
        alphas=ALPHAS if kernel.smooth else MORE_ALPHAS,
        asks=isinstance(kernel, densities.Gaussian) and estimator.objective == "log",
        warn_unusable_rows=partial(warn_single_rows, data),
    )
    method = for_nonlinear_maps(method, data.n)
    if not isinstance(data.target, SOFT):
        return method
    _check_soft(estimator, kernel, neighbourhood)
    objective = MatchLoss(estimator.objective, kernel)
    return replace(
        method,
        objective=objective,
        make_model=partial(_soft_model, estimator.n_neighbors),
        has_trees=False,
        asks=False,
        cost=objective.cost(data.target),
        warn_unusable_rows=warn_unmatched_rows,
    )


def learns_beta(kernel: Kernel) -> bool:
    """Whether the background shares are learnt, between runs of the solver."""
    return kernel.background and kernel.beta in ("em", "gradient")


def _make_model(n_neighbors: int | str, Z: Array, labels: Labels, objective: Any) -> NCAModel:
    return NCAModel(Z, labels, n_neighbors, objective.kernel, objective.background)


def _refresh(kernel: Kernel, plan: Plan, seed: int) -> Refresh | None:
    """What is refreshed every few iterations: lists of pairs, background shares."""
    lists = refresh_lists(partial(_left_out, kernel), plan, seed)
    if not learns_beta(kernel):
        return lists
    return RefreshBackground(lists, plan.noisy)


def _left_out(
    kernel: Kernel, Z: Array, target: Labels, pairs: Pairs, references: Array | None
) -> neighborhoods.LeftOut:
    """The share of the sums that the lists leave out."""
    if isinstance(target, SOFT):  # without classes, masses are weights
        rows = np.arange(len(target)) if references is None else references
        codes, mass = None, plain_mass(weights(target), rows)
    else:
        codes, mass = target.codes, reference_masses(target, references)
    rng = np.random.RandomState(0)
    return mass_left_out(Z, codes, pairs, references, kernel, mass=mass, random_state=rng)


def is_matrix(y: ArrayLike | None) -> bool:
    """Whether y has two dimensions and two columns or more: label distributions."""
    try:
        shape = shaped(y).shape
    except ValueError:  # a ragged list
        return False
    return len(shape) == 2 and int(shape[1]) > 1


def soft_rows(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike | None,
    sample_weight: Weights,
    matches: MatrixLike | None,
) -> tuple[Data, RowNumbers]:
    """Checked rows of positive weight with label distributions or matches, and their numbers."""
    if matches is not None:
        return _matched_rows(estimator, X, y, sample_weight, matches)
    return _distributed_rows(estimator, X, y, sample_weight)


def soft_data(
    estimator: BaseEstimator, X: MatrixLike, y: ArrayLike | None, matches: MatrixLike | None
) -> Data:
    """Rows, which are not checked, with their label distributions or matches."""
    owner = f"{type(estimator).__name__}.estimate_cost"
    if matches is not None:
        return Data(X, Matches(_matches_of(matches, (X.shape[0],) * 2, owner)))
    target = _distributions_of(y, owner)
    return Data(X, target, np.arange(target.values.shape[1]))


def soft_scores(
    estimator: BaseEstimator, X: MatrixLike, y: ArrayLike | None, matches: MatrixLike | None
) -> Array | None:
    """How well each row is predicted, after a fit to matches or for label distributions.

    None for labels.
    """
    Z, owner = to_host(estimator._embedded(X)), f"{type(estimator).__name__}.score"
    model, rows = estimator._model, estimator._rows
    by_matches = isinstance(model, MatchModel)
    if by_matches != (matches is not None) or by_matches == (y is not None):
        wanted = "'matches' and no y" if by_matches else "y and no 'matches'"
        raise ValueError(
            f"{owner} takes {wanted} after a fit to {'matches' if by_matches else 'classes'}."
        )
    if by_matches:
        M = _matches_of(matches, (len(Z), rows.total), owner)
        with single_threaded_blas():
            return model.scores(
                Z, M if rows.numbers is None else M[:, rows.numbers], estimator.rule
            )
    if not is_matrix(y):
        return None
    T = _distributions_of(y, owner).values
    if T.shape != (len(Z), len(estimator.classes_)):
        raise ValueError(
            f"The matrix y of {owner} must have shape {(len(Z), len(estimator.classes_))}. "
            f"Got {T.shape} instead."
        )
    return T[np.arange(len(Z)), estimator._predicted(X)]


def check_labels(y: ArrayLike, owner: str) -> None:
    """Refuse label distributions."""
    if is_matrix(y):
        raise ValueError(
            f"The labels y of {owner} must be one-dimensional: a stream remembers some rows of "
            f"each class. Got shape {np.shape(y)} instead; fit takes label distributions."
        )


def _distributions_of(y: MatrixLike, owner: str) -> LabelDistributions:
    """Label distributions as a target; the error says how to make them from something else."""
    T = check_array(y.toarray() if sp.issparse(y) else y, dtype=np.float64, input_name="y")
    return LabelDistributions(checked_distributions(T, f"The matrix y of {owner}"))


def _distributed_rows(
    estimator: BaseEstimator, X: MatrixLike, y: ArrayLike | None, sample_weight: Weights
) -> tuple[Data, RowNumbers]:
    """Checked rows of positive weight with their label distributions, and their numbers."""
    name = type(estimator).__name__
    columns = getattr(y, "columns", None)  # of a data frame
    X, T = check_rows(estimator, X, y, multi_output=True, ensure_min_samples=2)
    T = _distributions_of(T, f"{name}.fit").values
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


def _matches_of(matches: MatrixLike | None, shape: tuple[int, int], owner: str) -> Any:
    """Matches of a shape as a sparse array, entries in [0, 1]; the error names the parameter."""
    return checked_matches(matches, shape, f"The 'matches' parameter of {owner}")


def _matched_rows(
    estimator: BaseEstimator,
    X: MatrixLike,
    y: ArrayLike | None,
    sample_weight: Weights,
    matches: MatrixLike | None,
) -> tuple[Data, RowNumbers]:
    """Checked rows of positive weight with their matches, and their numbers."""
    name = type(estimator).__name__
    if y is not None:
        raise ValueError(f"{name}.fit takes exactly one of y and 'matches'. Got both instead.")
    X = check_rows(estimator, X, ensure_min_samples=2)
    n = X.shape[0]
    M = _matches_of(matches, (n, n), f"{name}.fit")
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


def _check_soft(
    estimator: BaseEstimator, kernel: Kernel, neighbourhood: Neighborhood | None
) -> None:
    """Refuse, by name, what is defined for class labels alone."""
    name = type(estimator).__name__

    def refuse(parameter: str, allowed: str, why: str) -> None:
        raise ValueError(
            f"The {parameter!r} parameter of {name} must be {allowed} for label distributions and "
            f"matches: {why}. Got {estimator.get_params(deep=False)[parameter]!r} instead."
        )

    if not kernel.reaches_everywhere:
        why = "a row may have no match in range of a compact one"
        refuse("kernel", "'gaussian', 'student' or 'laplace'", why)
    if kernel.background:
        why = "a background is a distribution of a class"
        refuse("kernel", "'gaussian', 'student' or 'laplace' without a background", why)
    if estimator.priors is not None:
        refuse("priors", "None", "they are the probabilities of class labels")
    if neighbourhood is not None and not neighbourhood.makes_lists:
        refuse("neighborhood", "'auto', 'all' or 'nearest'", "trees sum over the rows of a class")
    if neighbourhood is not None and neighbourhood.draws:
        refuse(
            "neighborhood", "'auto', 'all' or 'nearest'", "random lists are drawn from each class"
        )


def _soft_model(n_neighbors: int | str, Z: Array, target: SoftTarget, objective: MatchLoss) -> Any:
    """The model that predicts from embedded rows with a soft target."""
    if isinstance(target, Matches):
        return MatchModel(Z, target, n_neighbors, objective.kernel)
    return DistributionModel(Z, target, n_neighbors, objective.kernel)
