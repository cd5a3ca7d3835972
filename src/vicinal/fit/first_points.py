"""The start of an embedding, and the problem that is minimised from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal import maps
from vicinal._features import check_varies, make_rows, unscaled
from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.objectives.ksne import KSNELoss
from vicinal.starts import PCA, Random
from vicinal.starts.last_layer import start_rows, theta_of_features
from vicinal.starts.points import principal_points, random_points, spectral_points
from vicinal.targets import Affinities

_NAMES = ("auto", "pca", "spectral", "random")
_GIVEN = ("precomputed", "precomputed_affinities")


def short_indices(X: Any) -> Any:
    """A sparse table whose indices have 32 bits if that is enough: some metrics take no others."""
    if not sp.issparse(X) or X.indices.dtype == np.int32 or max(X.nnz, *X.shape) >= 2**31:
        return X
    parts = X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return type(X)(parts, shape=X.shape)


def given_metric(metric: Any) -> bool:
    """Whether X holds distances or weights, no rows."""
    return isinstance(metric, str) and metric in _GIVEN


def check_init(estimator: Any, X: Any) -> Any:
    """The name of the start, or the start as an array."""
    init, given = estimator.init, given_metric(estimator.metric)
    if isinstance(init, str) and init in _NAMES:
        if init == "auto":
            return "spectral" if given else "pca"
        why = ""
        if init == "pca" and given:
            why = f"metric={estimator.metric!r}: without rows there are no principal components"
        if init == "spectral" and learns_map(estimator):
            why = f"mapping={estimator.mapping!r}: the eigenvectors of a graph have no map"
        if why:
            raise ValueError(
                f"The 'init' parameter of KSNE must be another start if {why}. Got {init!r} "
                "instead."
            )
        return init
    return _given_init(estimator, X)


def _given_init(estimator: Any, X: Any) -> Array:
    """The start that was given as an array: places, or the matrix of a map."""
    init, d = estimator.init, int(estimator.n_components)
    shape, axes = (X.shape[0], d), "(n_samples, n_components)"
    if learns_map(estimator):
        shape, axes = (d, X.shape[1]), "(n_components, n_features)"
    try:
        start = np.array(init, dtype=np.float64)
    except (TypeError, ValueError):
        start = np.empty(0)
    if start.shape == shape and np.isfinite(start).all():
        return start
    got = repr(init) if start.ndim < 2 else f"an array of shape {start.shape}"
    if start.shape == shape:
        got = "entries that are not finite"
    raise ValueError(
        f"The 'init' parameter of KSNE must be one of {', '.join(map(repr, _NAMES))} or a finite "
        f"array of shape {shape}, {axes}. Got {got} instead."
    )


def learns_map(estimator: Any) -> bool:
    """Whether the rows are embedded by a map, and not placed freely."""
    return not (isinstance(estimator.mapping, str) and estimator.mapping == "points")


def check_mapping(estimator: Any, X: Any) -> Any:
    """The map of the estimator, which may be that of free points."""
    n, n_features = X.shape
    asked = int(estimator.n_components)
    if not learns_map(estimator):
        return maps.Points(n, asked)
    mapping: Any = maps.resolve(estimator.mapping, asked, "KSNE", ("points",))
    if given_metric(estimator.metric):
        raise ValueError(
            "The 'mapping' parameter of KSNE must be 'points' if "
            f"metric={estimator.metric!r}: without rows there is nothing to map. "
            f"Got {estimator.mapping!r} instead."
        )
    maps.check_start(estimator, mapping)
    if mapping.rank is None and mapping.with_rank is not None:
        mapping = mapping.with_rank(asked)
    d = n_features if mapping.weights_columns else mapping.rank or asked
    most = d if maps.bends(mapping) else n_features
    if d != asked or d > most:
        wanted = f"{d}" if d <= most else f"an int in [1, {most}]"
        raise ValueError(
            f"The 'n_components' parameter of KSNE must be {wanted} if 'mapping' is "
            f"{estimator.mapping!r} and there are {n_features} features. Got {asked} instead."
        )
    return mapping


def make_problem(estimator: Any, mapping: Any, X: Any, target: Affinities) -> Problem:
    """The divergence of the picture from the affinities, as a function of the parameters."""
    loss = KSNELoss(
        target.k,
        estimator.kernel,
        float(estimator.kappa),
        float(estimator.exaggeration),
        estimator.method,
    )
    if isinstance(mapping, maps.Points):
        return Problem(maps.Positions(np.arange(len(target))), target, loss, mapping)
    features = make_rows(X, "global", limit_outliers=False)
    check_varies(features)
    return Problem(features, target, loss, mapping)


def first_theta(problem: Problem, init: Any, X: Any, d: int, rng: np.random.RandomState) -> Array:
    """The first parameters of the problem."""
    mapping, target = problem.mapping, problem.target
    assert isinstance(target, Affinities)
    if not isinstance(mapping, maps.Points):
        return _first_map(problem, init, d, rng)
    if not isinstance(init, str):
        return init.ravel()
    if init == "pca":
        return principal_points(X, d, rng).ravel()
    if init == "spectral":
        return spectral_points(target.symmetric, d, rng).ravel()
    return random_points(len(target), d, rng).ravel()


def _first_map(problem: Problem, init: Any, d: int, rng: np.random.RandomState) -> Array:
    """The first parameters of a map; of a named start, the first component has deviation one."""
    mapping: Any = problem.mapping
    bends = mapping.start_from is not None
    if not isinstance(init, str):
        A = unscaled(init, problem.X.scale)
        if bends:
            return theta_of_features(mapping, problem.X, A, rng, "KSNE")
        return mapping.theta(A)
    if not bends and mapping.start is not None:
        return mapping.start(problem.X, rng)
    start = Random() if init == "random" else PCA(whiten=False)
    if bends:
        columns, theta_of = mapping.start_from(problem.X.take(start_rows(problem, rng)), rng)
    else:
        columns, theta_of = problem.X, mapping.theta
    theta = theta_of(start(columns, None, d, rng))
    size = float(problem.embed(theta)[:, 0].std())
    return problem.scaled(theta, 1.0 / size) if size > 0 else theta
