"""The method of NCA: what is learnt from class labels, and what from soft targets."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from vicinal import densities, maps, neighbourhoods, solvers, starts
from vicinal._features import make_rows
from vicinal._plugins import load
from vicinal.core.stages import Refresh
from vicinal.core.types import Array, Rows, is_auto
from vicinal.densities import Kernel
from vicinal.estimators._soft_targets import SOFT, check_soft, soft_model
from vicinal.fit.method import Data, Method
from vicinal.fit.penalty import ALPHAS, MORE_ALPHAS, for_nonlinear_maps
from vicinal.fit.plan import Plan
from vicinal.fit.warnings import collapse_warning, warn_single_rows, warn_unmatched_rows
from vicinal.models.posterior import NCAModel
from vicinal.neighbourhoods import mass_left_out
from vicinal.neighbourhoods.refresh import refresh_lists
from vicinal.objectives import MatchLoss, NCALoss
from vicinal.targets import Labels
from vicinal.targets.masses import plain_mass, reference_masses, weights

__all__ = ["learns_beta", "nca_method"]


def nca_method(estimator: Any, data: Data) -> Method:
    """The method of an NCA with these parameters, for labels or the soft target of the data."""
    name = type(estimator).__name__
    kernel = densities.resolve(estimator.kernel, name)
    start = starts.resolve(estimator.init, name)
    mapping, d = maps.resolve_rank(estimator, data.n_features, start)
    pairs = None if is_auto(estimator.pairs) else neighbourhoods.resolve(estimator.pairs, name)
    densities.check_use(kernel, pairs, estimator.objective, name)
    method = Method(
        name=name,
        objective=NCALoss(estimator.objective, kernel),
        mapping=mapping,
        n_components=d,
        start=starts.first_map(start, d, name),
        features=partial(_features, estimator.scaling),
        make_model=partial(_make_model, estimator.n_neighbors),
        solver=solvers.LBFGS(),
        refresh=partial(_refresh, kernel),
        pairs=pairs,
        has_trees=True,
        kernel=kernel,
        n_starts=int(getattr(start, "n_init", 1)),
        # Laplace's energies grow with the norm of the map, and the penalty with its square
        alphas=ALPHAS if kernel.smooth else MORE_ALPHAS,
        warn_unusable_rows=partial(warn_single_rows, data),
        collapse_warning=collapse_warning,
    )
    method = for_nonlinear_maps(method, data.n)
    if not isinstance(data.target, SOFT):
        return method
    check_soft(estimator, kernel, pairs)
    objective = MatchLoss(estimator.objective, kernel)
    return replace(
        method,
        objective=objective,
        make_model=partial(soft_model, estimator.n_neighbors),
        has_trees=False,
        cost=objective.cost(data.target),
        warn_unusable_rows=warn_unmatched_rows,
    )


def learns_beta(kernel: Kernel) -> bool:
    """Whether the background shares are learnt, between runs of the solver."""
    return kernel.background and kernel.beta in ("em", "gradient")


def _features(scaling: str | None, X: Any, target: Any, train: Array | None) -> Rows:
    return make_rows(X, scaling, target.sample_weight)


def _make_model(n_neighbors: Any, Z: Array, labels: Labels, objective: Any) -> NCAModel:
    return NCAModel(Z, labels, n_neighbors, objective.kernel, objective.background)


def _refresh(kernel: Kernel, plan: Plan, seed: int) -> Refresh | None:
    """What is refreshed every few iterations: lists of pairs, background shares."""
    lists = refresh_lists(partial(_left_out, kernel), plan, seed)
    if not learns_beta(kernel):
        return lists
    return load("vicinal.extras.em_refresh:RefreshBackground")(lists, plan.noisy)


def _left_out(
    kernel: Kernel, Z: Array, target: Any, pairs: Any, references: Array | None
) -> neighbourhoods.LeftOut:
    """The share of the sums that the lists leave out."""
    if isinstance(target, SOFT):  # without classes, masses are weights
        rows = np.arange(len(target)) if references is None else references
        codes, mass = None, plain_mass(weights(target), rows)
    else:
        codes, mass = target.codes, reference_masses(target, references)
    rng = np.random.RandomState(0)
    return mass_left_out(Z, codes, pairs, references, kernel, mass=mass, random_state=rng)
