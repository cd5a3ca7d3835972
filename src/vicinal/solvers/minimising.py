"""Minimise any function with a solver, by the same loop as in a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vicinal.core.loop import Iteration, LoopStart, Recipe, limited, run_stage
from vicinal.core.stopping import TimeBudget, stop_rules
from vicinal.core.types import Array, Fun, Result, Sampler, Sampling, Solver, Source, Units


def minimize(
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
        ``value, grad = fun(theta, batch)``.  If theta is constrained, ``fun.project(theta)`` is
        the nearest allowed theta; only solvers whose ``projects`` is True respect it.
    theta : ndarray of shape (n,) or None
        The start.  With a ``state``, which holds its own theta: None, or the ``Result.theta`` of
        the resumed run, which then stays the best until a better one is found (this needs its
        ``history`` too).  With a `Result` as ``state``: None.
    solver : Solver
        A part with ``init`` and ``step``.
    sampler : Sampler or None
        Source of the batches.  None: every step sees all rows.
    source : Source or None
        The training rows; a sampler needs them.
    max_iter : int
        Largest number of iterations of this call.
    tol : float
        Tolerance of the tests "gradient" and "loss" below.
    unit : float
        The unit of the loss in these tests, u below.
    slope_unit : float or None
        The unit of the entries of the gradient; None: that of the loss.
    state : Result, NamedTuple or None
        A run to resume.  A `Result` is continued with all that it holds: history, position in the
        batches, best parameters and patience, as if the run had never stopped.  ``Result.state``,
        the state of the solver, is continued alone, or with the three parameters below.
    history : dict of lists or None
        ``Result.history`` to continue; it is copied.  Iteration numbers, seconds and evaluations
        go on from it.
    sampling : Sampling or None
        ``Result.sampling`` of a run to resume with the same sampler: its position in the sequence
        of batches.  None: a new draw.
    monitor : callable or None
        ``score = monitor(theta)`` on held-out rows; higher is better.
    monitor_every : int
        Call the monitor at the start, every ``monitor_every`` iterations, and at the end; the
        other scores are NaN.
    n_iter_no_change : int
        Patience: scores without a better one, or iterations without a lower loss.
    patient : bool
        Always compare losses over ``n_iter_no_change`` steps, whatever the solver: for functions
        that are flat far from their minimum.
    max_seconds : float or None
        Time limit for this call: no step begins that would end later if it took the mean time of
        the earlier steps.
    on_iteration : callable or None
        Called with an :class:`Iteration` after each row of the history, including the start
        (iteration 0); if it returns a true value, the run stops.
    random_state : int, RandomState or None
        For the sampler.

    Returns
    -------
    Result
        ``theta`` and ``value`` belong to the best score if there is a monitor, otherwise of the
        lowest loss (with changing batches, whose losses cannot be compared: the last).  ``state``
        is the last one.  ``n_iter`` counts this call alone.  ``history`` has a row for the start,
        unless a state or history was given, and one for each iteration.  ``reason`` is one of

        - "gradient": :math:`\max|\nabla f| \le` tol · slope_unit, or, if ``fun`` has ``project``,
          :math:`\max|P(\theta - \nabla f) - \theta| \le` tol · slope_unit (also in the history);
        - "loss": :math:`f_{old} - f_{new} \le \text{tol}\cdot\max(|f_{old}|, |f_{new}|, u)`, over
          one step of a solver with a line search; for other solvers, or if ``patient``, over the
          lowest losses of ``n_iter_no_change`` steps, none of which ends more than
          :math:`\sqrt{\text{tol}}\cdot\max(\ldots)` above the lowest;
        - "stalled": the solver finds no lower point; counts as converged only if the left-hand
          side of "gradient" is at most :math:`\sqrt{\text{tol}}` · slope_unit;
        - "early_stopping": the last ``n_iter_no_change`` scores were no better than the best;
        - "callback", "interrupted" (Ctrl-C), "max_iter", "time_budget", "non_finite" (the loss or
          gradient after a step was not finite; that step is discarded): not converged.

        The first three apply to a fixed batch only.  ``sampling`` is the position in the sequence
        of batches.

    Raises
    ------
    ValueError
        If the loss or its gradient is not finite at the start, if the solver needs a fixed batch
        but the sampler changes it, if the solver ignores the constraint of ``fun``, or if theta or
        source is missing.
    KeyboardInterrupt
        Only during the very first evaluation, when there is no result to keep yet.
    """
    units = Units(unit, relative_to_map=slope_unit is not None)
    rules = stop_rules(solver, tol=tol, units=units, patience=n_iter_no_change, flat_loss=patient)
    if max_seconds is not None:
        rules = (*rules, TimeBudget(max_seconds))
    recipe = Recipe(fun, solver, rules, sampler, source, monitor, monitor_every)
    map_size = None if slope_unit is None else unit / slope_unit
    begin = LoopStart(theta, state, history, sampling, map_size)
    if isinstance(state, Result):
        _check_alone(theta, history, sampling)
        last, pending = state, state.reason == "interrupted"
        begin = LoopStart(
            last.theta, last.state, last.history, last.sampling, map_size, last.window, last.best,
            pending,
        )  # fmt: skip
    return run_stage(
        limited(recipe, max_iter), begin, on_iteration=on_iteration, random_state=random_state
    )


def _check_alone(*others: Any) -> None:
    """Refuse parameters that a `Result` already holds."""
    names = ("theta", "history", "sampling")
    wrong = [name for name, other in zip(names, others, strict=True) if other is not None]
    if wrong:
        raise ValueError(
            f"The '{wrong[0]}' parameter of minimize must be None if 'state' is a Result, which "
            "holds it."
        )
