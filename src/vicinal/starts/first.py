"""The first parameters of a map: a start, at a scale that suits the objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._features import unscaled
from vicinal._validation import warn
from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.starts.scale import base_scale, scale_start
from vicinal.starts.starts import Auto, Given, Identity

__all__ = ["FirstMap"]


@dataclass(frozen=True)
class FirstMap:
    """Makes the first parameters of a problem's map, at a scale chosen on a sample of rows.

    Parameters
    ----------
    start : Start
        Gives a matrix, whose scale is not its business.
    n_components : int
    owner : str
        The estimator to name in an error.
    scale_objective : callable
        ``objective = scale_objective(objective)``: what judges the scale.
    suit : callable
        ``objective = suit(objective, target)``: settles what depends on the rows.
    n_rows : int
        Rows that choose the scale.
    """

    start: Any
    n_components: int
    owner: str
    scale_objective: Callable[[Any], Any]
    suit: Callable[[Any, Any], Any]
    n_rows: int = 1000

    def __call__(self, problem: Problem, rng: np.random.RandomState, teller: Any = None) -> Array:
        """The first theta; a map given by the user is taken as it is."""
        X, target, mapping, start = problem.X, problem.target, problem.mapping, self.start
        if not hasattr(mapping, "theta"):  # no matrix can be its start: it knows a better one
            return self._scaled(problem, mapping.start(X, rng), rng)  # type: ignore[attr-defined]
        if isinstance(start, Auto) and getattr(mapping, "weights_columns", False):
            start = Identity()  # weights of columns have nothing to rotate
        A = start(X, target.strata, self.rank(problem), rng, learnt_from(problem))
        if isinstance(start, Given):
            theta = mapping.theta(self._check_given(unscaled(A, X.scale), mapping))
            self._warn_out_of_range(problem, theta)
            return theta
        return self._scaled(problem, mapping.theta(A), rng)

    def rank(self, problem: Problem) -> int:
        """The rank of the problem's map, where a search tries several."""
        return int(getattr(problem.mapping, "n_components", self.n_components))

    def _scaled(self, problem: Problem, theta: Array, rng: np.random.RandomState) -> Array:
        """Theta times the best of some scales."""
        rows = problem.rows
        if len(rows) > self.n_rows:
            rows = np.sort(rng.permutation(rows)[: self.n_rows])
        objective = self.scale_objective(problem.objective)
        if getattr(problem.target, "refers_to_rows", False):  # few rows alone would have others
            whole = problem.replace(objective=objective)
            reach = float(np.sqrt(problem.objective.units.loss))
            base = base_scale(whole.embed(theta)[rows], rng) * reach
            return theta * scale_start(theta, lambda A: whole.value(A, rows), base)
        target = problem.target.take(rows)
        sample = problem.replace(
            X=problem.X.take(rows),
            target=target,
            train=None,
            objective=self.suit(objective, target),
            pairs=None,
        )
        base = base_scale(sample.embed(theta), rng)
        return theta * scale_start(theta, sample.value, base)

    def _check_given(self, A: Array, mapping: Any) -> Array:
        must = f"The 'init' parameter of {self.owner} must"
        if not A.any():
            raise ValueError(f"{must} give weight to a column that varies. Got none instead.")
        diagonal = getattr(mapping, "weights_columns", False)
        if diagonal and np.any(A - np.diag(np.diag(A))):
            raise ValueError(f"{must} be diagonal for a diagonal map. Got {A!r} instead.")
        return A

    def _warn_out_of_range(self, problem: Problem, theta: Array) -> None:
        """Warn of a given map with nothing to learn from; other starts have their scale chosen."""
        kernel: Any = getattr(problem.objective, "kernel", None)
        reaches = kernel is None or kernel.reaches_everywhere
        if not reaches and problem.replace(alpha=0.0).value(theta) == 0.0:
            warn(
                f"The 'init' parameter of {self.owner} puts every row out of range of all others "
                f"of its class: {kernel!r} has no gradient there. Scale it down, or give the "
                "kernel a background."
            )


def learnt_from(problem: Problem) -> Array | None:
    """The weights of the rows, zero for those held out: what scores a map must not start it."""
    weight = getattr(problem.target, "sample_weight", None)
    if problem.train is None:
        return weight
    learnt = np.zeros(len(problem.target))
    learnt[problem.train] = 1.0 if weight is None else weight[problem.train]
    return learnt
