"""The parameters of an embedding, and what a fit of one works with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal import solvers
from vicinal._validation import check_bool, check_number, check_option, warn
from vicinal.affinities import affinities
from vicinal.affinities.build import resolve_sizes
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult, Stage
from vicinal.core.stopping import advice_for
from vicinal.core.types import Array, is_auto
from vicinal.fit.exaggeration import divergence, make_stages
from vicinal.fit.first_points import learns_map, make_problem
from vicinal.fit.method import Data
from vicinal.fit.resume import (
    ResumeState,
    check_same_fit,
    keeps_state,
    parameter_key,
    past_fit,
    row_fingerprint,
)
from vicinal.maps.fitted import FittedLinear, fitted_map
from vicinal.models.picture import Picture, Target


class Fit(NamedTuple):
    """What a fit works with."""

    X: Any
    problem: Problem
    perplexity: float
    stages: list[Stage]


class _NoLabels:
    strata = sample_weight = None
    contents: tuple[Any, ...] = ()


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that no data would make right."""
    check_number(estimator, "n_components", 1, integer=True)
    check_number(estimator, "k", 1, integer=True)
    check_option(estimator, "kernel", ("cauchy", "gaussian"))
    check_number(estimator, "perplexity", 1.0)
    check_number(estimator, "kappa", 0.0)
    check_number(estimator, "max_missing", 0.0, 0.5)
    check_number(estimator, "early_exaggeration", 1.0, or_else=("auto",))
    check_number(estimator, "early_exaggeration_iter", 0, integer=True)
    check_number(estimator, "exaggeration", 0.0, open_ends=True)
    check_number(estimator, "max_iter", 1, integer=True)
    check_number(estimator, "learning_rate", 0.0, open_ends=True, or_else=("auto",))
    check_number(estimator, "n_iter_without_progress", 1, integer=True)
    check_number(estimator, "min_grad_norm", 0.0)
    check_option(estimator, "method", ("auto", "exact", "fft"))
    if not (isinstance(estimator.metric, str) or callable(estimator.metric)):
        raise ValueError(
            "The 'metric' parameter of KSNE must be a str or a callable. "
            f"Got {estimator.metric!r} instead."
        )
    if estimator.metric_params is not None and not isinstance(estimator.metric_params, dict):
        raise ValueError(
            "The 'metric_params' parameter of KSNE must be a dict or None. "
            f"Got {estimator.metric_params!r} instead."
        )
    if not is_auto(estimator.solver):
        solvers.resolve(estimator.solver, "KSNE")
        if not is_auto(estimator.learning_rate):
            raise ValueError(
                "The 'learning_rate' parameter of KSNE must be 'auto' if 'solver' is given, "
                f"which has its own. Got {estimator.learning_rate!r} instead."
            )
    check_bool(estimator, "warm_start")
    check_number(estimator, "verbose", 0, integer=True, or_else=(True, False))


def state_before(estimator: Any, X: Any, seed: int, resumes: bool) -> ResumeState | None:
    """What a fit leaves for a later one, before its first iteration; None if none will need it."""
    if not keeps_state(estimator, resumes):
        return None
    parameters = parameter_key(estimator.get_params(deep=False))
    rows = row_fingerprint(Data(X, _NoLabels))
    return ResumeState(parameters, rows, seed, None, int(estimator.max_iter))


def fit_to_continue(
    estimator: Any, leaves: ResumeState | None, resume_from: Any
) -> ResumeState | None:
    """The last fit of the estimator, or that of a checkpoint, which must be of these rows."""
    past = past_fit(estimator, resume_from is not None)
    if past is None or leaves is None:
        return None
    if resume_from is not None:
        check_same_fit(estimator, past, leaves, resume_from)
    return past if past.rows == leaves.rows else None


def iterations_left(past: ResumeState | None, max_iter: int) -> int:
    """How many iterations a fit makes: all, or those that a fit that was cut has left."""
    if past is None or not past.cut or past.state is None:
        return max_iter
    if past.max_iter == max_iter and past.state.left is not None:
        return past.state.left
    return max(0, max_iter - past.state.history["iteration"][-1])


def prepare(estimator: Any, X: Any, mapping: Any) -> Fit:
    """The problem of a map and its stages."""
    perplexity, k = resolve_sizes(
        X.shape[0], estimator.perplexity, estimator.k, estimator.metric, "KSNE"
    )
    target = affinities(
        X,
        perplexity,
        k,
        metric=estimator.metric,
        metric_params=estimator.metric_params,
        max_missing=estimator.max_missing,
    )
    problem = make_problem(estimator, mapping, X, target)
    stages = make_stages(problem, estimator)
    return Fit(X, problem, perplexity, stages)


def learnt_attributes(
    estimator: Any, fit: Fit, theta: Array, problem: Problem, value: float
) -> dict[str, Any]:
    """The attributes of a picture with these parameters."""
    target: Any = problem.target
    length = int(np.diff(target.indptr).max())
    found: dict[str, Any] = {
        "n_components_": int(estimator.n_components),
        "kl_divergence_": divergence(problem, theta, value),
        "learning_rate_": getattr(fit.stages[-1].solver, "learning_rate", None),
        "k_": target.k,
        "perplexity_": fit.perplexity,
        "affinities_": target,
        "_map": None,
        "_picture": None,
    }
    if learns_map(estimator):
        learnt = found["_map"] = fitted_map(problem.mapping, theta, problem.X, fit.X.dtype)
        found["embedding_"] = learnt.transform(fit.X)
        if isinstance(learnt, FittedLinear):
            found["components_"] = learnt.components
        return found
    Z = found["embedding_"] = problem.embed(theta).astype(fit.X.dtype)
    options = estimator.metric_params or {}
    made = Target(estimator.metric, options, fit.perplexity, target.k, length + 1)
    found["_picture"] = Picture(fit.X, Z, made, estimator.kernel, float(estimator.kappa))
    return found


def warn_if_cut(estimator: Any, result: FitResult) -> None:
    """Warn if the fit was cut short; ``max_iter`` iterations are what was asked for."""
    if result.converged or result.reason == "max_iter":
        return
    advice = advice_for(result.reason).format(n=result.n_iter)
    if result.reason == "non_finite":  # that of the metric learners names their 'alpha'
        rate = "'learning_rate'" if is_auto(estimator.solver) else "the rate of 'solver'"
        advice = f"the loss became infinite or NaN; decrease {rate} or 'early_exaggeration'"
    warn(
        f"KSNE did not converge: {advice}. The best picture so far is kept.",
        ConvergenceWarning,
    )
