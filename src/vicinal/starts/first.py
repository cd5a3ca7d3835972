"""The first parameters of a map: a start, at a scale that suits the objective.

NCA's kernel has a width, so a start needs a scale as well.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from vicinal._features import unscaled
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.stopping import Timed, TimeUp
from vicinal.core.types import Array
from vicinal.starts.last_layer import start_rows, theta_of_features
from vicinal.starts.starts import Auto, Given, Identity

_SAMPLE = 500
#: rows closer than this share of the largest coordinate are duplicates up to rounding
_DUPLICATE = 1e-13
#: root mean square distance, in units of the kernel, below which all neighbours are about equal
_FLAT = 0.5


@dataclass(frozen=True)
class FirstMap:
    """Makes the first parameters of a problem's map, at a scale chosen on a sample of rows.

    Parameters
    ----------
    start : Start
        Gives a matrix of any scale.
    n_components : int
    owner : str
        The estimator to name in an error.
    n_rows : int
        Number of rows in the sample that chooses the scale.
    """

    start: Any
    n_components: int
    owner: str
    n_rows: int = 1000

    def __call__(self, problem: Problem, rng: np.random.RandomState, reporter: Any = None) -> Array:
        """The first theta; a map given by the user is not rescaled."""
        X, target, start = problem.X, problem.target, self.start
        mapping: Any = problem.mapping
        until = None if reporter is None else reporter.deadline
        if mapping.start_from is not None:
            return self._from_last_layer(problem, rng, until)
        if mapping.theta is None:  # it cannot start from a matrix
            return self.rescale(problem, mapping.start(X, rng), rng, until)
        if isinstance(start, Auto) and mapping.weights_columns:
            start = Identity()  # column weights cannot rotate
        self._check_classes(start, target.strata)
        A = start(X, target.strata, self.rank(problem), rng, learnt_from(problem))
        if isinstance(start, Given):
            theta = mapping.theta(self._check_given(unscaled(A, X.scale), mapping))
            self._warn_out_of_range(problem, theta)
            return theta
        return self.rescale(problem, mapping.theta(A), rng, until)

    def _from_last_layer(
        self, problem: Problem, rng: np.random.RandomState, until: float | None
    ) -> Array:
        """The first theta of a nonlinear map: the start is a matrix of its last layer's columns.

        An array of the user is a matrix of the features themselves.
        """
        mapping: Any = problem.mapping
        rows, start, d = start_rows(problem, rng), self.start, self.rank(problem)
        X = problem.X if len(rows) == len(problem.X) else problem.X.take(rows)
        strata, weight = problem.target.strata, learnt_from(problem)
        codes = None if strata is None else strata[rows]
        self._check_classes(start, codes)
        if isinstance(start, Given):
            A = self._check_given(unscaled(start(X, codes, d, rng), X.scale), mapping)
            theta = theta_of_features(mapping, X, A, rng, self.owner)
            self._warn_out_of_range(problem, theta)
            return theta
        columns, theta_of = mapping.start_from(X, rng)
        A = start(columns, codes, d, rng, None if weight is None else weight[rows])
        return self.rescale(problem, theta_of(A), rng, until)

    def rank(self, problem: Problem) -> int:
        """The rank of the problem's map, since a search may try several."""
        return int(problem.mapping.rank or self.n_components)

    def rescale(
        self,
        problem: Problem,
        theta: Array,
        rng: np.random.RandomState,
        until: float | None = None,
    ) -> Array:
        """Theta at the best of several scales, penalty included; of fewer if ``until`` is near."""
        rows = problem.rows
        if len(rows) > self.n_rows:
            rows = np.sort(rng.permutation(rows)[: self.n_rows])
        objective, factor = problem.objective.for_start(self.rank(problem))
        reach = 1.0
        if problem.target.refers_to_rows:  # a sample would have other targets
            scorer, queries = problem.replace(objective=objective), rows
            Z = scorer.embed(theta)[rows]
            reach = float(np.sqrt(problem.objective.units.loss))
        else:
            target = problem.target.take(rows)
            scorer, queries = (
                problem.replace(
                    X=problem.X.take(rows),
                    target=target,
                    train=None,
                    objective=objective.suited_to(target),
                    pairs=None,
                ),
                None,
            )
            Z = scorer.embed(theta)

        def loss(s: float, batch: None = None) -> float:
            return scorer.score(scorer.scaled(theta, s), queries).value

        best = scale_start(
            1.0,
            loss if until is None else Timed(loss, until),
            base_scale(Z, rng) * reach,
            floor=_FLAT * spread_scale(Z) * reach,
        )
        return scorer.scaled(theta, factor * best)

    def _check_classes(self, start: Any, codes: Array | None) -> None:
        if codes is None and getattr(start, "needs_classes", False):
            raise ValueError(
                f"The 'init' parameter of {self.owner} must be 'auto', 'pca', 'whiten', "
                "'identity', 'random' or another start that needs no classes, because the rows "
                f"have none. Got {start!r} instead."
            )

    def _check_given(self, A: Array, mapping: Any) -> Array:
        must = f"The 'init' parameter of {self.owner} must"
        if not A.any():
            raise ValueError(f"{must} give weight to a column that varies. Got none instead.")
        diagonal = mapping.weights_columns
        if diagonal and np.any(A - np.diag(np.diag(A))):
            raise ValueError(f"{must} be diagonal for a diagonal map. Got {A!r} instead.")
        return A

    def _warn_out_of_range(self, problem: Problem, theta: Array) -> None:
        """Warn if a given map has no gradient; the scale of other starts is chosen."""
        kernel: Any = getattr(problem.objective, "kernel", None)
        reaches = kernel is None or kernel.reaches_everywhere or kernel.background
        if not reaches and problem.replace(alpha=0.0).value(theta) == 0.0:
            warn(
                f"The 'init' parameter of {self.owner} puts every row out of range of all others "
                f"of its class: {kernel!r} has no gradient there. Scale it down, or give the "
                "kernel a background."
            )


def learnt_from(problem: Problem) -> Array | None:
    """The weights of the rows, zero for held-out rows, which must not influence the start."""
    weight = problem.target.sample_weight
    if problem.train is None:
        return weight
    learnt = np.zeros(len(problem.target))
    learnt[problem.train] = 1.0 if weight is None else weight[problem.train]
    return learnt


def base_scale(Z: Array, rng: np.random.RandomState) -> float:
    r"""Scale at which nearest neighbours in a sample are at a distance of about one.

    .. math:: s = \bigl(\mathrm{median}_{i}\ \min_{j \ne i} \|z_i - z_j\|^2\bigr)^{-1/2}

    over a sample of at most 500 rows.  A median of nearest distances ignores far outliers;
    duplicates are skipped, since their distance says nothing about scale.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Embedded rows.
    rng : RandomState
        Draws the sample.

    Returns
    -------
    float
        Positive and finite; 1.0 if all rows are equal.
    """
    Z = np.asarray(Z, dtype=np.float64)
    if len(Z) > _SAMPLE:
        Z = Z[np.sort(rng.permutation(len(Z))[:_SAMPLE])]
    Z = Z - np.median(Z, axis=0)
    largest = np.abs(Z).max(initial=0.0)
    if not (np.isfinite(largest) and largest > np.finfo(float).tiny):
        return 1.0
    # After division by the largest coordinate the squares neither overflow nor all vanish; cdist
    # subtracts before it squares, so a far outlier costs no digits, as with dot products.
    Z = Z / largest
    d2 = cdist(Z, Z, "sqeuclidean")
    d2[d2 <= _DUPLICATE**2] = np.inf
    nearest = d2.min(axis=1)
    return float(1.0 / (np.sqrt(np.median(nearest[np.isfinite(nearest)])) * largest))


def spread_scale(Z: Array) -> float:
    r"""Scale at which the rows are at a distance of one from their centre, root mean square.

    .. math:: s = \bigl(\mathrm{mean}_{i}\ \|z_i - \bar z\|^2\bigr)^{-1/2}

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Embedded rows.

    Returns
    -------
    float
        Positive and finite; 1.0 if all rows are equal.
    """
    Z = np.asarray(Z, dtype=np.float64)
    Z = Z - Z.mean(axis=0)
    largest = np.abs(Z).max(initial=0.0)
    if not (np.isfinite(largest) and largest > np.finfo(float).tiny):
        return 1.0
    return float(1.0 / (np.sqrt(np.mean(np.sum((Z / largest) ** 2, axis=1))) * largest))


def scale_start(
    A: Any,
    loss: Callable[[Any], float],
    base: float = 1.0,
    *,
    ratio: float = 2.0,
    n_steps: int = 3,
    floor: float | None = None,
) -> float:
    """Choose s so that ``loss(s A)`` is lowest on a geometric grid.

    ``s = base * ratio^k`` for k = -n_steps, ..., n_steps.  The grid is bounded above on purpose:
    the accuracy objective may keep improving towards a hard nearest neighbour, where its gradient
    vanishes.  Below, it continues while the loss falls: if the rows of a class are much closer
    than the classes, the loss is flat over many powers of two, and a penalty that is not balanced
    by it would shrink the map to zero.  A loss that is not finite never wins; among equal losses
    the s nearest to ``base`` wins.  If ``loss`` raises `TimeUp`, the best s so far is taken.

    Parameters
    ----------
    A : ndarray of shape (d, D)
        A start of any scale.
    loss : callable
        ``loss(A)``, the objective at a map.
    base : float, default=1.0
        Middle of the grid, from `base_scale` of the rows embedded by A.
    ratio : float, default=2.0
        Ratio of adjacent grid points.
    n_steps : int, default=3
        Steps on either side; the loss is evaluated ``2 n_steps + 1`` times.
    floor : float, default=None
        No scale below it is tried beyond the grid: there all neighbours are about equal.  None:
        the smallest scale of the grid.

    Returns
    -------
    float
        The best s.
    """
    steps = sorted(range(-n_steps, n_steps + 1), key=lambda k: (abs(k), k))
    best, least = base, np.inf
    with suppress(TimeUp):
        for k in steps:
            s = base * ratio**k
            value = float(loss(s * A))
            if value < least:  # False for nan
                best, least = s, value
        smallest = base * ratio**-n_steps
        while floor is not None and best == smallest and smallest / ratio >= floor:
            smallest /= ratio
            value = float(loss(smallest * A))
            if value < least:
                best, least = smallest, value
    return best


def repair_scale(
    loss: Callable[[float], float],
    *,
    most: float = 4.0,
    tol: float = 0.01,
    max_evaluations: int = 500,
) -> float:
    """The best factor for a learnt map, between ``1 / most`` and ``most``.

    For a map learnt from some of the rows, among which distances are larger than among all rows
    ([Oneata2011] section 4.1).  Uses Brent's method on the logarithm of the factor.  If ``loss``
    raises `TimeUp`, the best factor so far is taken.

    Parameters
    ----------
    loss : callable
        ``loss(s)`` of the map times s, on all rows or on some queries against all rows.
    most : float, default=4.0
        The largest factor; its inverse is the smallest.
    tol : float, default=0.01
        Relative precision of the factor.
    max_evaluations : int, default=500
        Evaluations of the loss at most; the best factor of those is taken.

    Returns
    -------
    float
        1.0 if no other factor is better.
    """
    bounds = (-np.log(most), np.log(most))
    tried: list[tuple[float, float]] = []  # losses and factors

    def loss_at(factor: float) -> float:
        tried.append((loss(factor), factor))
        return tried[-1][0]

    with suppress(TimeUp):
        loss_at(1.0)
        found = minimize_scalar(
            lambda x: loss_at(float(np.exp(x))),
            bounds=bounds,
            method="bounded",
            options={"xatol": tol, "maxiter": max_evaluations},
        )
        tried[1:] = [(found.fun, float(np.exp(found.x)))]
    # the first of those that are equally good, and of those that are not finite
    return min(tried, key=lambda pair: pair[0], default=(0.0, 1.0))[1]


def n_starts(start: Any) -> int:
    """How often a fit begins again with a start, which may be any function."""
    return int(getattr(start, "n_init", 1))


def first_map(start: Any, *args: Any, **kwargs: Any) -> Any:
    """The function that makes the first parameters of a map from this start: see `FirstMap`."""
    first = FirstMap(start, *args, **kwargs)
    return start.around(first) if hasattr(start, "around") else first
