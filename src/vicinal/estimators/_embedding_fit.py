"""The parameters of an embedding, and what a fit of one works with."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from vicinal import solvers
from vicinal._validation import check_bool, check_number, check_option, warn
from vicinal.core.method import Data
from vicinal.core.problem import Problem
from vicinal.core.stages import FitResult, Stage
from vicinal.core.state import FitState
from vicinal.core.stopping import advice_for
from vicinal.core.types import is_auto
from vicinal.estimators._exaggeration import make_stages
from vicinal.estimators._first_points import make_problem
from vicinal.estimators._resume import asked_of, fingerprint
from vicinal.targets import affinities
from vicinal.targets.build import resolve_sizes

__all__ = ["Fit", "Left", "check_parameters", "prepare", "warn_if_cut"]


class Fit(NamedTuple):
    """What a fit works with, and what it leaves for a later one."""

    X: Any
    problem: Problem
    perplexity: float
    stages: list[Stage]
    asked: Any
    data: str


class Left(NamedTuple):
    """Where a fit ended: ``warm_start`` goes on from there."""

    asked: Any
    data: str
    state: FitState
    cut: bool  # by an interrupt or a callback


class _NoLabels:
    strata = None


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


def prepare(estimator: Any, X: Any, mapping: Any) -> tuple[Fit, Left | None]:
    """The problem of a map, and the end of the last fit if this one goes on from there."""
    perplexity, k = resolve_sizes(
        X.shape[0], estimator.perplexity, estimator.k, estimator.metric, "KSNE"
    )
    asked, data, left = None, "", None
    if estimator.warm_start:
        asked, data = asked_of(estimator.get_params(deep=False)), fingerprint(Data(X, _NoLabels))
        left = getattr(estimator, "_left", None)
        if left is not None and (left.asked, left.data) != (asked, data):
            left = None
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
    return Fit(X, problem, perplexity, stages, asked, data), left


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
