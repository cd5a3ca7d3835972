"""Dimensionality annealing: fade out the rows of a map one by one, [Oneata2011] section 3.3.6."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vicinal._validation import check_number, check_option, warn
from vicinal.core.evaluation import refresh
from vicinal.core.loop import Iteration, LoopStart, Recipe, limited, run_stage
from vicinal.core.points import to_host
from vicinal.core.problem import Problem
from vicinal.core.stopping import stop_rules
from vicinal.core.types import Array
from vicinal.maps import Linear
from vicinal.solvers import LBFGS
from vicinal.starts.first import FirstMap, learnt_from
from vicinal.starts.spectral import RCOND, ScaledRows
from vicinal.starts.starts import Given, resolve, same_parameters

_MOST_COMPONENTS = 64

#: ``A = descend(A, schedule, n_iter)``: run ``n_iter`` iterations for each row of ``schedule``,
#: which holds the penalties ``lambda_i`` of the squared norms of the rows of A.
Descend = Callable[[Array, Array, int], Array]


@dataclass(frozen=True, eq=False)  # `init` may be an array, which has no single boolean value
class Annealing:
    r"""A low-rank start from a map with more rows, faded out one at a time, least important first.

    [Oneata2011] algorithm 3.2: while there are more than d rows, one is selected, its penalty
    :math:`\lambda_i \|a_i\|^2` (eq. (3.26)) is raised in ``n_steps`` equal steps, each followed by
    ``n_iter`` iterations of L-BFGS over the whole map, and the row, now almost zero, is removed.
    The other rows thus take over gradually, whereas cutting the row off at once would end in the
    nearest local optimum.  The result is a start like any other: the estimator optimises from it to
    convergence, and ``max_iter`` counts only that optimisation.

    Removing a row takes at least ``n_steps * n_iter`` evaluations of the loss, and there are
    ``from_components`` - d rows to remove, so the start costs far more than the fit after it; with
    ``n_components = from_components`` there is nothing to remove, and the start is ``init``.
    Ctrl-C or a callback ends the annealing with a warning: the remaining extra rows are then cut
    off by the same rule, and the fit continues.  A diagonal map has no rows to remove: an error.

    Parameters
    ----------
    select : {"projected", "data", "norm"}, default="projected"
        The row to fade is the one with the least variance of the embedded data,
        :math:`\mathrm{var}(a_i^\top x)`; the least variance of the data in its direction,
        :math:`\mathrm{var}(a_i^\top x) / \|a_i\|^2` (for an identity, of a column); or the least
        norm :math:`\|a_i\|`.
    init : str, start or array of shape (from_components, D), default="auto"
        The map with more rows, in any form that an estimator's ``init`` takes, and scaled the same
        way.  ``Random(n_init=10)`` anneals ten times.
    n_steps : int, default=5
        How often the penalty of a row is raised.
    step : float, default=1.0
        Size of a raise, in units of the mean loss: the penalty of the row at its initial norm, so
        :math:`\lambda_i` grows by step / :math:`\|a_i\|^2`.
    n_iter : int, default=3
        Iterations after each raise.
    from_components : int, default=None
        Number of rows to begin with, from d to D.  None: the rows of ``init`` if it is an array,
        else D, but at most 64 (or d, if that is more): the first rows of ``init`` are its best,
        and removing every row of wide data one by one would take too long.
    """

    select: str = "projected"
    init: Any = "auto"
    n_steps: int = 5
    step: float = 1.0
    n_iter: int = 3
    from_components: int | None = None

    def __post_init__(self) -> None:
        check_option(self, "select", ("projected", "data", "norm"))
        if isinstance(self.init, Annealing) or (
            isinstance(self.init, str) and self.init == "annealing"
        ):
            raise ValueError(
                "The 'init' parameter of Annealing must be another start. Got "
                f"{self.init!r} instead."
            )
        check_number(self, "n_steps", 1, integer=True)
        check_number(self, "step", 0.0, open_ends=True)
        check_number(self, "n_iter", 1, integer=True)
        check_number(self, "from_components", 1, integer=True, or_else=(None,))

    def __eq__(self, other: object) -> bool:
        return same_parameters(self, other)

    def __hash__(self) -> int:
        return hash((self.select, self.n_steps, self.step, self.n_iter, self.from_components))

    @property
    def n_init(self) -> int:
        """Number of starts that the estimator runs; it keeps the best result."""
        return int(getattr(self.init, "n_init", 1))

    def around(self, first: FirstMap) -> AnnealedMap:
        """Wrap the maker of first parameters so that it uses this start."""
        return AnnealedMap(self, first)

    def n_rows(self, n_components: int, n_features: int) -> int:
        """Number of rows to begin with."""
        if self.from_components is None:
            array = self.init.array if isinstance(self.init, Given) else self.init
            if isinstance(array, (list, tuple)) or getattr(array, "ndim", 0) > 0:
                if len(array) < n_components:
                    raise ValueError(
                        f"The 'init' parameter of Annealing must be an array of {n_components} "
                        f"rows at least. Got {len(array)} instead."
                    )
                return len(array)
            return max(n_components, min(n_features, _MOST_COMPONENTS))
        if not n_components <= self.from_components <= n_features:
            raise ValueError(
                "The 'from_components' parameter of Annealing must be an int in "
                f"[{n_components}, {n_features}], from n_components to the number of features. "
                f"Got {self.from_components!r} instead."
            )
        return int(self.from_components)

    def reduce(
        self,
        A: Array,
        n_components: int,
        X: ScaledRows,
        descend: Descend,
        sample_weight: Array | None = None,
        on_removal: Callable[[Array], None] | None = None,
        resume: bool = True,
        on_interrupt: Callable[[], None] | None = None,
    ) -> Array:
        """Fade and remove rows until d are left, [Oneata2011] algorithm 3.2.

        Parameters
        ----------
        A : ndarray of shape (k, D)
            The map to begin with.
        n_components : int
            Rows d to keep.
        X : ScaledRows
            Centred and scaled data of shape (n, D).
        descend : callable
            ``A = descend(A, schedule, n_iter)``: some iterations for each row of ``schedule``,
            which holds the k penalties of the squared norms of the rows.
        sample_weight : ndarray of shape (n,), optional
            Weight of each row of X in the variances.
        on_removal : callable, optional
            Called with the map after each removal.
        resume : bool, default=True
            Whether an interrupt cuts off the extra rows, or is raised to the caller.
        on_interrupt : callable, optional
            Called if it cuts them off.

        Returns
        -------
        A : ndarray of shape (d, D)
        """
        interrupted = False
        while len(A) > n_components:
            try:
                row = int(np.argmin(self.importance(A, X, sample_weight)))
                if not interrupted and _moves_points(A, row, X, sample_weight):
                    schedule = np.zeros((self.n_steps, len(A)))
                    raises = np.arange(1, self.n_steps + 1)
                    schedule[:, row] = raises * self.step / (A[row] @ A[row])
                    A = descend(A, schedule, self.n_iter)
                A = np.delete(A, row, axis=0)
                if on_removal is not None:
                    on_removal(A)
            except KeyboardInterrupt:
                if interrupted or not resume:
                    raise
                interrupted = True
                if on_interrupt is not None:
                    on_interrupt()
                warn(
                    f"Annealing was stopped at {len(A)} rows: all but {n_components} are cut off, "
                    "and the fit begins."
                )
        return A

    def importance(self, A: Array, X: ScaledRows, sample_weight: Array | None = None) -> Array:
        """The criterion of ``select``, one number for each row of A; zero for a row of zeros."""
        squares = np.einsum("ij,ij->i", A, A)
        if self.select == "norm":
            return squares
        variances = _variances(A, X, sample_weight)
        if self.select == "projected":
            return variances
        return np.divide(variances, squares, out=np.zeros(len(A)), where=squares > 0.0)


@dataclass(frozen=True)
class AnnealedMap:
    """Makes the first parameters of a map by annealing a map with more rows."""

    annealing: Annealing
    first: FirstMap

    def __call__(self, problem: Problem, rng: np.random.RandomState, reporter: Any) -> Array:
        """The first theta; ``reporter`` is called at each iteration made for it."""
        annealing, first = self.annealing, self.first
        if not isinstance(problem.mapping, Linear):
            raise ValueError(
                f"The 'init' parameter of {first.owner} must be another start where 'mapping' is "
                f"{problem.mapping!r}, which has no rows to remove. Got {annealing!r} instead."
            )
        d = first.rank(problem)
        k = annealing.n_rows(d, problem.X.shape[1])
        wide = replace(first, start=resolve(annealing.init, "Annealing"), n_components=k)
        A = wide(problem.replace(mapping=Linear(k)), rng, reporter).reshape(k, -1)

        def removed(A: Array) -> None:
            if reporter.talks:
                loss = problem.replace(mapping=Linear(len(A))).value(A.ravel())
                reporter.say(f"annealing {len(A):5d} rows left {loss:14.8f}")

        A = annealing.reduce(
            A,
            d,
            problem.X,
            lambda A, schedule, n_iter: _descend(problem, reporter, A, schedule, n_iter),
            learnt_from(problem),
            removed,
            resume=not reporter.searching,
            on_interrupt=reporter.cut,
        )
        return problem.mapping.theta(A)

    def rescale(self, problem: Problem, theta: Array, rng: np.random.RandomState) -> Array:
        """Theta at the best of several scales."""
        return self.first.rescale(problem, theta, rng)


def _descend(problem: Problem, reporter: Any, A: Array, schedule: Array, n_iter: int) -> Array:
    """Run ``n_iter`` iterations for each row of ``schedule``, the penalties of the rows of A.

    Raises KeyboardInterrupt after an interrupt or when ``reporter``, which is called at each
    iteration, asks to stop: the few iterations since the last removal are not worth keeping.
    """
    # Always L-BFGS, whatever the solver of the fit: with so few iterations, each must count.
    solver, state, theta = LBFGS(), None, A.ravel()
    for row_weights in schedule:
        fun = problem.replace(
            mapping=Linear(len(A)),
            # [Oneata2011] eqs (3.26), (3.27): all entries of a row share its weight
            alpha=problem.alpha + np.repeat(row_weights, A.shape[1]),
        )
        if state is None:
            state = solver.init(fun, theta)
        else:  # keep the L-BFGS pairs: the penalty changed by one step only
            state = refresh(solver, fun, theta, state)

        def report(info: Iteration, at: Problem = fun) -> bool:
            return reporter(info, at)

        recipe = limited(Recipe(fun, solver, stop_rules(solver, tol=0.0)), n_iter)
        result = run_stage(recipe, LoopStart(state=state), on_iteration=report)
        if result.reason in ("interrupted", "callback"):
            raise KeyboardInterrupt(result.reason)
        theta, state = result.theta, result.state
    return theta.reshape(A.shape)


def _variances(A: Array, X: ScaledRows, sample_weight: Array | None) -> Array:
    Z = to_host(X.matmul(A.T))
    Z -= np.average(Z, axis=0, weights=sample_weight)
    return np.average(Z**2, axis=0, weights=sample_weight)


def _moves_points(A: Array, row: int, X: ScaledRows, sample_weight: Array | None) -> bool:
    """Whether removing this row would change the distances; if not, there is nothing to fade."""
    variances = _variances(A, X, sample_weight)
    return bool(variances[row] > RCOND * variances.max())
