r"""The search for :math:`t_0` of a falling rate, scored on held-out rows ([Oneata2011] §5.3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vicinal._validation import warn
from vicinal.core.types import Array, Fun, Result, Sampler, Solver, Source
from vicinal.solvers._line_search import first_rate
from vicinal.solvers.minimising import minimize
from vicinal.solvers.schedules import InverseTime

_SCALE = np.logspace(-1.0, 3.0, 9)  # [Oneata2011] §5.3.2: "from 0.1 to 1000"
_RAISES = (10.0, 100.0, 1000.0)  # of an eta0 that was not given
_GROWN = 10.0  # growth of theta that shows that the start was too small
_FINER = 4  # candidates of the second search, on a linear scale
_RUNGS = (0.25, 0.5, 1.0)  # shares of the steps after which half of the candidates is dropped


@dataclass
class _Candidate:
    eta0: float
    t0: float
    solver: Solver
    run: Result
    n_steps: int = 0
    score: float = -math.inf


def tune_t0(
    fun: Fun,
    theta: Array,
    solver: Any,
    monitor: Callable[[Array], float],
    *,
    sampler: Sampler | None = None,
    source: Source | None = None,
    n_steps: int = 100,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Any, dict[str, list]]:
    r"""Search :math:`t_0` of the rate :math:`\eta_0 / (t + t_0)` by short runs.

    Candidates on an exponential scale are tried, nine from 0.1 to 1000 or, if :math:`\eta_0` was
    not given, seven from 1 to 1000; then four on a linear scale around the best.  Each begins at
    ``theta`` and sees the same batches; after a quarter and after half of the steps the worse half
    of them is dropped (the runs of the others continue), so that all together make about
    ``7 * n_steps`` steps.  A candidate loses if it becomes not finite, or scores below the start.

    Where :math:`\eta_0` was not given, the first step moves theta by no more than its own norm:
    :math:`\eta_0 / t_0 \le \|\theta\| / \|\nabla f\|`.  A longer one may end at a map so large that
    each row picks its nearest neighbour alone; there the gradient of the accuracy objective
    vanishes, and no later step leads back.  However small :math:`t_0`, the moves sum to no more
    than about :math:`\eta_0 \log t` gradients.  So if the lowest :math:`t_0` wins and theta has
    grown tenfold, theta was too small, and the search is repeated with ten times :math:`\eta_0`
    and :math:`t_0` from ten times as much on, as long as that scores better: the first step stays
    as it was, and the rate falls later.

    Parameters
    ----------
    fun : callable
        ``value, grad = fun(theta, batch)``.
    theta : ndarray of shape (n,)
        The start.
    solver : Solver
        A dataclass with a ``learning_rate``: an ``InverseTime``, whose ``eta0`` is kept, or None,
        for :math:`\eta_0 = \|\theta\| / \|\nabla f\|` on the first batch (with
        :math:`\|\theta\| = 1` if theta is zero).
    monitor : callable
        ``score = monitor(theta)`` on held-out rows; higher is better.
    sampler, source : as in :func:`~vicinal.solvers.minimize`
    n_steps : int
        Steps of the longest runs, at least 4.
    random_state : int, RandomState or None
        For the sampler.

    Returns
    -------
    solver : Solver
        The solver with the best ``InverseTime``.
    tried : dict of lists
        One entry for each candidate after each part of its run, in the order tried: "stage"
        ("start", "exponential", "linear"), "eta0", "t0", "n_steps" and "score".

    Raises
    ------
    KeyboardInterrupt
        If interrupted; there is no partial result.
    """
    _check(solver, n_steps)
    data: dict[str, Any] = {"sampler": sampler, "source": source}
    first = minimize(fun, theta, solver, max_iter=0, random_state=random_state, **data)
    eta0, start = _eta0(solver, first), _score(monitor, first)
    tried: dict[str, list] = {"stage": [], "eta0": [], "t0": [], "n_steps": [], "score": []}
    _note(tried, "start", math.nan, math.nan, 0, start)

    def race(stage: str, eta0: float, values: Any) -> _Candidate:
        """The best of some candidates by successive halving; below the start's score all lose."""
        field = everyone = [
            _Candidate(eta0, t0, replace(solver, learning_rate=InverseTime(eta0, t0)), first)
            for t0 in map(float, values)
        ]
        for share in _RUNGS:
            for candidate in field:
                _advance(candidate, fun, round(share * n_steps), monitor, data)
                _note(tried, stage, eta0, candidate.t0, candidate.n_steps, candidate.score)
            alive = [one for one in field if one.score >= start]
            field = sorted(alive, key=_rank, reverse=True)[: -(-len(field) // 2)]
        return max(field or everyone, key=_rank)

    least = 1.0 if solver.learning_rate is None else _SCALE[0]
    best = race("exponential", eta0, _scale_from(least))
    for raised in _RAISES if solver.learning_rate is None else ():
        if best.t0 > least or _size(best.run) < _GROWN * _size(first):
            break
        rival = race("exponential", raised * eta0, _scale_from(raised))
        if _rank(rival) <= _rank(best):
            break
        best, least = rival, raised
    if best.score >= start:
        factor = _SCALE[1] / _SCALE[0]
        low, high = np.clip([best.t0 / factor, best.t0 * factor], least, _SCALE[-1])
        finer = race("linear", best.eta0, np.linspace(low, high, _FINER + 2)[1:-1])
        best = max(best, finer, key=_rank)
    else:
        warn(
            f"No t0 from {least:g} to {_SCALE[-1]:g} scored better on the held-out rows than "
            f"the start, within {n_steps} steps: t0={best.t0:g} is used."
        )
    return best.solver, tried


def _scale_from(least: float) -> Array:
    """The part of the exponential scale that is not below ``least``."""
    return _SCALE[_SCALE > 0.99 * least]


def _rank(candidate: _Candidate) -> tuple[float, float]:
    """By score; among equals, the candidate with the lower rates wins."""
    return candidate.score, candidate.t0


def _advance(
    candidate: _Candidate,
    fun: Fun,
    n_steps: int,
    monitor: Callable[[Array], float],
    data: dict[str, Any],
) -> None:
    """Continue the run of a candidate up to step ``n_steps``, and score it there."""
    last = candidate.run
    result = minimize(
        fun,
        None,
        candidate.solver,
        state=last.state,
        sampling=last.sampling,
        max_iter=n_steps - candidate.n_steps,
        tol=0.0,
        **data,
    )
    if result.reason == "interrupted":
        raise KeyboardInterrupt
    candidate.run, candidate.n_steps = result, n_steps
    failed = result.reason == "non_finite"
    candidate.score = -math.inf if failed else _score(monitor, result)


def _size(result: Result) -> float:
    return float(np.linalg.norm(result.state.theta))


def _score(monitor: Callable[[Array], float], result: Result) -> float:
    """The score of the last parameters, not of the best so far: a run must end well."""
    score = float(monitor(result.state.theta))
    return -math.inf if math.isnan(score) else score


def _eta0(solver: Any, first: Result) -> float:
    if solver.learning_rate is not None:
        return solver.learning_rate.eta0
    eta0 = first_rate(first.state.theta, first.state.grad, 1.0)
    if eta0 == 0.0:
        raise ValueError(
            "The gradient of the first batch is zero, so eta0 cannot be chosen. Give the solver "
            "a learning_rate=InverseTime(eta0, t0)."
        )
    return eta0


def _note(tried: dict[str, list], *row: Any) -> None:
    for entries, entry in zip(tried.values(), row, strict=True):
        entries.append(entry)


def _check(solver: Any, n_steps: int) -> None:
    rate = getattr(solver, "learning_rate", 0.0)
    if not (rate is None or isinstance(rate, InverseTime)) or not _takes_schedules(solver):
        raise ValueError(
            "The 'solver' parameter of tune_t0 must have learning_rate=None or an InverseTime, as "
            f"SGD() has. Got {solver!r} instead."
        )
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 4:
        raise ValueError(
            "The 'n_steps' parameter of tune_t0 must be an int in [4, inf). "
            f"Got {n_steps!r} instead."
        )


def _takes_schedules(solver: Any) -> bool:
    try:
        replace(solver, learning_rate=InverseTime(1.0, 1.0))
    except (TypeError, ValueError):
        return False
    return True
