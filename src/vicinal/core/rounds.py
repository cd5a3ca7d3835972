"""The iterations of a stage whose problem is refreshed every few iterations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vicinal import _clock
from vicinal.core.state import Round
from vicinal.core.stopping import MaxIterations, NearEdge
from vicinal.core.types import Array, Result

__all__ = ["refresh_loop"]


def refresh_loop(run: Any, theta: Array | None, refresh: Any) -> None:
    """Alternate between refreshes and iterations until the loss settles.

    Parameters
    ----------
    run : training
        The run whose stage has the `Refresh`; see ``stages.py``.
    theta : array or None
        The start, if the run has no solver state yet.
    refresh : Refresh
    """
    try:
        for result in _rounds(run, theta, refresh):
            run.result = result
    except KeyboardInterrupt:  # between two loops
        if not hasattr(run, "result"):
            raise
        run.result.reason, run.result.converged = "interrupted", False


def _rounds(run: Any, theta: Array | None, refresh: Any) -> Iterator[Result]:
    """The result after each refresh and its iterations."""
    stage, whole = run.stage, run.scorer
    top, top_score, stale = run.best, -np.inf, 0
    result: Result | None = None
    past: Round | None = run.round  # a round that was cut
    here: Array | None
    while True:
        if past is not None:
            here, top, top_score, stale = past.theta, past.top, past.top_score, past.stale
            generator = run.generator()
            refresh.restore(past.memory)
            run.set_generator(past.rng)
        else:
            here = theta if run.solver_state is None else run.solver_state.theta
        assert here is not None
        began, compiled = _clock.now(), _clock.compiled_seconds()
        before = refresh.memory(), run.generator()
        scored_by = run.scorer
        fixed, run.scorer = refresh.fix(whole, here)
        problem = fixed.replace(dtype=stage.problem.dtype)
        if top is not None and (top_score == -np.inf or run.scorer is not scored_by):
            # Re-score the best map: the run was resumed, or the scoring problem changed.
            top_score = run.score(top)
        fresh, settled = None if past is None else past.fresh, False
        if run.solver_state is not None and stage.fixed:
            run.refresh(problem, run.solver_state.theta)
            fresh = run.solver_state.value if past is None else fresh
        if fresh is not None:
            settled = refresh.settled(fresh, run.tol)
        if past is not None:
            done = run.history["iteration"][-1] - past.iteration
            run.set_generator(generator)
        else:
            done = 0
            last = 0 if run.history is None else run.history["iteration"][-1]
            run.round = Round(here, last, *before, fresh, top, top_score, stale)
            run.best = None
            if settled and result is not None:
                yield _settled(run, result)
                return
        past = None
        refreshed = _clock.now() - began - (_clock.compiled_seconds() - compiled)
        result = run.loop(theta, problem, refresh.length - done)
        steps = run.n_iter - run.before + done
        if problem.held_out is not None:  # keep the best of all rounds, by the same score
            score = run.score(result.theta)
            stale = 0 if score > top_score else stale + steps
            if top is None or score > top_score:
                top, top_score = result.theta, score
            result.theta = top
            if stale >= run.patience:
                result.reason, result.converged = "early_stopping", True
        yield result
        # converged, or near the edge of the trust region of the lists: refresh and continue
        again = result.reason in ("gradient", "loss", "stalled", NearEdge.name) and steps > 0
        if run.left <= 0 and result.reason == NearEdge.name:
            result.reason = MaxIterations.name
        if run.left <= 0 or (result.reason != "max_iter" and not again):
            return
        if not run.has_time(refreshed + 2.0 * (run.evaluation_seconds or 0.0)):
            return


def _settled(run: Any, result: Result) -> Result:
    """The result once refreshing no longer lowers the loss."""
    if run.stage.problem.held_out is None:
        result.theta, result.value = run.solver_state.theta, run.solver_state.value
    result.state, result.reason, result.converged = run.solver_state, "loss", True
    return result
