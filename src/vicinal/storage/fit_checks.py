"""Checks of estimators that were read from a file, and of what they keep of their fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.storage.checks import (
    CHECKS,
    check_random_state,
    count,
    double,
    indices,
    need,
    number,
    one_of,
    real,
)

#: what an attribute of an estimator must be: beginnings of stable names
_KINDS = {
    "_map": "fitted.",
    "_model": "model.",
    "_rows": "rows.RowNumbers",
    "_outputs": "rows.Outputs",
    "_choice": "fit.Choice",
    "_resume": "fit.ResumeState",
    "_stream": "fit.Stream",
    "_picture": "model.Picture",
    "affinities_": "target.Affinities",
    "plan_": "fit.Plan",
}
_PLACES = 2**40  # rows of the longest stream


def check_object(name: str, value: Any) -> None:
    """Refuse an object whose fields do not fit together."""
    check = CHECKS.get(name) or _FIT_CHECKS.get(name)
    if check is None and name.startswith("state."):
        check = _solver_state
    if check is not None:
        try:
            check(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error


def check_estimator(model: Any) -> None:
    """Refuse an estimator whose attributes do not fit together."""
    found = vars(model)
    for key, kind in _KINDS.items():
        if found.get(key) is not None:
            one_of(found[key], key, kind)
    learnt, predictor = found.get("_map"), found.get("_model")
    if learnt is not None:
        _check_map(found, learnt)
    for key, ndim in (("components_", 2), ("embedding_", 2), ("_importances", 1)):
        if found.get(key) is not None:
            real(found[key], ndim, key)
    need(learnt is not None or "components_" not in found, "components_ without a map")
    if predictor is not None:
        need(learnt is not None, "a model without a map")
        need(predictor.Z.shape[1] == learnt.n_components, "map and model do not agree")
        _check_model(found, predictor)
    _check_names(found)
    if found.get("_picture") is not None:
        need(found["_picture"].Z.shape[1] == found.get("n_components_"), "n_components_")
    for key in ("learner_", "estimator_"):
        need(found.get(key) is None or hasattr(found[key], "get_params"), f"{key}: no estimator")


def _check_map(found: dict[str, Any], learnt: Any) -> None:
    linear = hasattr(learnt, "components")
    D = learnt.components.shape[1] if linear else learnt.features.shape[1]
    need(found.get("n_features_in_") == D, f"n_features_in_ must be {D}")
    need(found.get("n_components_", learnt.n_components) == learnt.n_components, "n_components_")
    need(linear or "components_" not in found, "components_ of a map that has none")
    if "components_" in found:
        real(found["components_"], 2, "components_", learnt.components.shape)


def _check_model(found: dict[str, Any], predictor: Any) -> None:
    n = len(predictor.Z)
    rows = found.get("_rows")
    if rows is not None:
        need(rows.total >= n, "there are more rows than were given")
        need(rows.numbers is None or len(rows.numbers) == n, "the numbers of the rows")
    if hasattr(predictor, "labels"):
        classes: Any = found.get("classes_")
        need(type(classes) is np.ndarray and classes.ndim == 1, "classes_ must be an array")
        need(len(classes) == predictor.n_outputs, "classes_ and labels do not agree")
    outputs = found.get("_outputs")
    if outputs is not None:
        need(hasattr(predictor, "numbers"), "numbers of a model without numbers")
        wide = np.size(outputs.shift) in (1, predictor.n_outputs)
        need(wide and np.size(outputs.scale) in (1, predictor.n_outputs), "the numbers' scale")


def _check_names(found: dict[str, Any]) -> None:
    if "n_features_in_" in found:
        count(found["n_features_in_"], "n_features_in_", 1)
    names = found.get("feature_names_in_")
    if names is not None:
        need(type(names) is np.ndarray and names.dtype == object and names.ndim == 1, "names")
        need(all(isinstance(name, str) for name in names.tolist()), "names must be strings")
        need(len(names) == found.get("n_features_in_"), "names of all features")


def _rng(state: Any) -> None:
    if state is not None:
        check_random_state(state)


def _vector(theta: Any, what: str = "theta", n: int | None = None) -> int:
    double(theta, 1, what, (n,), finite=False)
    return len(theta)


def _solver_state(state: Any) -> None:
    """All arrays of a solver have as many columns as there are parameters."""
    n = _vector(state.theta)
    for field in state:
        for array in field if isinstance(field, list | tuple) else [field]:
            if isinstance(array, np.ndarray) and array.ndim > 0:
                double(array, array.ndim, "the memory of a solver", finite=False)
                need(array.shape[-1] in (n, 0) or array.ndim == 1, "the memory of a solver")


def _fit_state(state: Any) -> None:
    count(state.stage, "stage", 0, 1000)
    one_of(state.part, "part", "solver.")
    one_of(state.solver, "solver", "state.")
    n = len(state.solver.theta)
    one_of(state.best, "best", "fit.Best")
    _vector(state.best.theta, "best", n)
    _history(state.history)
    for key, kind in (("sampling", "Sampling"), ("window", "Window"), ("round", "Round")):
        if getattr(state, key) is not None:
            one_of(getattr(state, key), key, f"fit.{kind}")
    if state.round is not None:
        _vector(state.round.theta, "theta", n)
    if state.left is not None:
        count(state.left, "left")


def _history(history: Any) -> None:
    need(isinstance(history, dict), "a history has columns")
    lengths = {len(column) if isinstance(column, list) else -1 for column in history.values()}
    need(len(lengths) <= 1 and -1 not in lengths, "the columns of a history are as long")


def _best(best: Any) -> None:
    _vector(best.theta)
    number(best.value, "value")


def _round(state: Any) -> None:
    _vector(state.theta)
    if state.top is not None:
        _vector(state.top, "top", len(state.theta))
    need(isinstance(state.memory, dict), "the memory of a refresh")


def _sampling(state: Any) -> None:
    count(state.seed, "seed", 0, 2**32 - 1)
    count(state.n_pass, "n_pass")
    count(state.position, "position")
    if state.theta is not None:
        _vector(state.theta)


def _resume(past: Any) -> None:
    count(past.seed, "seed", 0, 2**32 - 1)
    if past.plan is not None:
        one_of(past.plan, "plan", "fit.Plan")
    if past.mapping is not None:
        one_of(past.mapping, "mapping", "map.")
    double(past.scale, 1, "scale")
    if past.state is not None:
        one_of(past.state, "state", "fit.FitState")
    if past.before is not None:
        one_of(past.before, "before", "fitted.")
    need(isinstance(past.cut, bool) and isinstance(past.continues, bool), "cut must be a bool")
    count(past.n_starts, "n_starts")
    _path(past.path)
    need(isinstance(past.trials, dict), "the finished trials of a search")
    for trial in [trial for trials in past.trials.values() for trial in trials]:
        one_of(trial, "a trial", "fit.Trial")
    if past.best is not None:
        one_of(past.best, "best", "fit.BestRun")
    if past.collapsed is not None:
        one_of(past.collapsed, "collapsed", "fit.EndedRun")


def _path(path: Any) -> None:
    named = isinstance(path, tuple) and all(isinstance(name, str | int) for name in path)
    need(named, "the name of a run")


def _ended(ended: Any) -> None:
    _path(ended.path)
    _vector(ended.theta)
    one_of(ended.state, "state", "fit.FitState")


def _plan(plan: Any) -> None:
    if plan.solver is not None:
        one_of(plan.solver, "solver", "solver.")
    one_of(plan.sampling, "sampling", "sampler.")
    if plan.neighborhood is not None:
        one_of(plan.neighborhood, "neighborhood", "neighborhood.")
    if plan.kernel is not None:
        one_of(plan.kernel, "kernel", "kernel.")
    count(plan.max_iter, "max_iter")
    one_of(plan.cost, "cost", "fit.Cost")
    need(isinstance(plan.reason, str), "reason must be a string")


def _problem(problem: Any) -> None:
    one_of(problem.X, "X", "rows.Features")
    one_of(problem.mapping, "mapping", "map.")
    one_of(problem.objective, "objective", "loss.")
    one_of(problem.target, "target", "target.Labels")
    empty = (problem.train, problem.held_out, problem.pairs, problem.trust)
    need(all(part is None for part in empty), "the problem of a stream has no parts of rows")
    for alpha in np.atleast_1d(problem.alpha).tolist():
        number(alpha, "alpha", 0.0)
    need(problem.dtype in (np.float32, np.float64), "dtype of a problem")


def _loss(loss: Any) -> None:
    background = getattr(loss, "background", None)
    if background is not None:
        double(background, 1, "background")


def _reservoir(rows: Any) -> None:
    n = len(np.atleast_1d(rows.codes))
    indices(rows.codes, "codes", n, 2**31)
    indices(rows.numbers, "numbers", n, _PLACES)
    for key in ("weight", "_draws"):
        double(getattr(rows, key), 1, key, (n,))
    if sp.issparse(rows.X):
        need(rows.X.dtype in (np.float32, np.float64), "rows must be floats")
    elif rows.X is not None:
        real(rows.X, 2, "X")
    need((0 if rows.X is None else rows.X.shape[0]) == n, "rows and codes do not agree")
    count(rows.capacity, "capacity", 1)
    count(rows._n_added, "n_added", 0, _PLACES)
    need(isinstance(rows.by_class, bool), "by_class must be a bool")


def _stream(stream: Any) -> None:
    one_of(stream.plan, "plan", "fit.Plan")
    one_of(stream.problem, "problem", "fit.Problem")
    one_of(stream.reservoir, "reservoir", "fit.Reservoir")
    need(stream.plan.solver is not None, "a stream has a solver")
    n = _vector(stream.theta)
    if stream.state is not None:
        one_of(stream.state, "state", "state.")
        need(len(stream.state.theta) == n, "theta and state do not agree")
    count(stream.seed, "seed", 0, 2**32 - 1)
    n_classes = len(stream.problem.target.classes)
    need(len(np.atleast_1d(stream.n_seen)) == n_classes, "n_seen and classes do not agree")
    indices(stream.n_seen, "n_seen", n_classes, _PLACES)
    indices(stream.reservoir.codes, "codes", len(stream.reservoir.codes), n_classes)
    count(stream.n_queries, "n_queries", 1)
    count(stream.n_steps, "n_steps")
    need(isinstance(stream.settled, dict), "parameters that are settled")
    X = stream.reservoir.X
    need(X is None or X.shape[1] == stream.problem.X.shape[1], "columns of the reservoir")


_FIT_CHECKS: dict[str, Callable[[Any], None]] = {
    "fit.Best": _best,
    "fit.FitState": _fit_state,
    "fit.Round": _round,
    "fit.Sampling": _sampling,
    "fit.ResumeState": _resume,
    "fit.EndedRun": _ended,
    "fit.BestRun": lambda best: one_of(best.run, "run", "fit.EndedRun"),
    "fit.Plan": _plan,
    "fit.Problem": _problem,
    "fit.Reservoir": _reservoir,
    "fit.Stream": _stream,
    "loss.NCALoss": _loss,
}
