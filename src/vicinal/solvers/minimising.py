"""Minimise any function by a solver: the loop of a fit, for a function of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vicinal.core.loop import Iteration, LoopStart, Recipe, limited, run_stage
from vicinal.core.stopping import TimeBudget, stop_rules
from vicinal.core.types import Array, Fun, Result, Sampler, Sampling, Solver, Source, Units

__all__ = ["minimise"]


def minimise(
    fun: Fun,
    theta: Array | None,
    solver: Solver,
    *,
    sampler: Sampler | None = None,
    source: Source | None = None,
    max_iter: int = 200,
    tol: float = 1e-5,
    unit: float = 1.0,
    slope_unit: float | None = None,
    state: Any = None,
    history: dict[str, list] | None = None,
    sampling: Sampling | None = None,
    monitor: Callable[[Array], float] | None = None,
    monitor_every: int = 1,
    n_iter_no_change: int = 10,
    patient: bool = False,
    max_seconds: float | None = None,
    on_iteration: Callable[[Iteration], Any] | None = None,
    random_state: int | np.random.RandomState | None = None,
) -> Result:
    r"""Minimise ``fun`` from ``theta`` by steps of ``solver``.

    Parameters
    ----------
    fun : callable
        ``value, grad = fun(theta, batch)``.  Where not every theta is allowed it has an attribute
        ``project``, the nearest one that is; only solvers whose ``projects`` is True keep to it.
    theta : ndarray of shape (n,) or None
        The start.  With ``state``, which knows where it stands, theta is not a start: None, or the
        ``Result.theta`` of the run taken up, which then stays the best until it is beaten (this
        needs its ``history`` too).
    solver : Solver
        A part with ``init`` and ``step``.
    sampler : Sampler or None
        Source of the batches.  None: all rows, always.
    source : Source or None
        The rows learnt from, which a sampler needs: how many, of which classes, and where.
    max_iter : int
        The most iterations of this call.
    tol : float
        Tolerance of the tests "gradient" and "loss" below.
    unit : float
        What counts as a loss of size one in these tests, u below.
    slope_unit : float or None
        The same for entries of the gradient; None: that of the loss.
    state : NamedTuple or None
        ``Result.state`` of a run to take up.
    history : dict of lists or None
        ``Result.history`` to continue (a copy is): its iteration numbers, seconds and evaluations.
    sampling : Sampling or None
        ``Result.sampling`` of a run to take up, with the same sampler: its place among the
        batches.  None: a new draw.
    monitor : callable or None
        ``score = monitor(theta)``, higher is better, on rows held out.
    monitor_every : int
        Ask the monitor at the start and every so many iterations, and once more where the run
        ends; the scores of the others are NaN.
    n_iter_no_change : int
        Patience: scores without a better one, or iterations without a lower loss.
    patient : bool
        Judge the loss over ``n_iter_no_change`` steps, whatever the solver: for functions that are
        flat far from their minimum.
    max_seconds : float or None
        Time for this call: no step is begun that would, if it took as long as the mean of those
        before it, end later.
    on_iteration : callable or None
        Called with an :class:`Iteration` after each row of the history (the start, iteration 0,
        among them); a true answer stops the run.
    random_state : int, RandomState or None
        For the sampler.

    Returns
    -------
    Result
        ``theta`` and ``value`` are those of the best score with a monitor, and else of the lowest
        loss (with changing batches, whose losses cannot be compared: the last).  ``state`` is the
        last one.  ``n_iter`` counts this call alone.  ``history`` has a row for the start, unless
        a state or history was given, and one for each iteration.  ``reason`` is one of

        - "gradient": :math:`\max|\nabla f| \le` tol · slope_unit, or, where ``fun`` projects,
          :math:`\max|P(\theta - \nabla f) - \theta| \le` tol · slope_unit (also in the history);
        - "loss": :math:`f_{old} - f_{new} \le \text{tol}\cdot\max(|f_{old}|, |f_{new}|, u)`, over
          one step of a solver with a line search; for the others, or if ``patient``, over the
          lowest losses of ``n_iter_no_change`` steps, none of which ends more than
          :math:`\sqrt{\text{tol}}\cdot\max(\ldots)` above the lowest;
        - "stalled": the solver finds no lower point; counts as converged only where the same is
          at most :math:`\sqrt{\text{tol}}` · slope_unit;
        - "early_stopping": the last ``n_iter_no_change`` scores were no better than the best;
        - "callback", "interrupted" (Ctrl-C), "max_iter", "time_budget", "non_finite" (a step came
          to a loss or gradient that is not finite, and is left out): not converged.

        The first three apply to a fixed batch only.  ``sampling`` is the place among the batches.

    Raises
    ------
    ValueError
        If the loss or its gradient is not finite at the start, if the solver cannot work with
        changing batches and the sampler changes them or not keep to the set that ``fun`` projects
        onto, or if theta or source is missing.
    KeyboardInterrupt
        Only in the very first evaluation, when there is nothing to keep yet.
    """
    units = Units(unit, relative_to_map=slope_unit is not None)
    rules = stop_rules(solver, tol=tol, units=units, patience=n_iter_no_change, flat_loss=patient)
    if max_seconds is not None:
        rules = (*rules, TimeBudget(max_seconds))
    recipe = Recipe(fun, solver, rules, sampler, source, monitor, monitor_every)
    map_size = None if slope_unit is None else unit / slope_unit
    begin = LoopStart(theta, state, history, sampling, map_size)
    return run_stage(
        limited(recipe, max_iter), begin, on_iteration=on_iteration, random_state=random_state
    )
