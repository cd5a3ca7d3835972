"""How much a search learns from: less for maps that cost more."""

from __future__ import annotations

from typing import Any, NamedTuple

from vicinal.core.problem import Problem
from vicinal.core.types import is_auto
from vicinal.fit.cost import Size, evaluation_seconds
from vicinal.fit.run import SEARCH_STEPS, Learning

__all__ = ["ROWS", "Effort", "search_effort"]

ROWS = 2000  # most rows that a search learns from
_SECONDS = 15.0  # on two reference cores: a longer search learns from less
_FOLDS = 5  # of cv=None
_EVALUATIONS = 1.2  # per step
#: candidates of a typical search, which ends when they no longer improve
_RANKS, _ALPHAS = 8, 4
#: rows, folds and steps of the runs, from the whole to the least
_LESS = ((2000, 5, 40), (2000, 3, 40), (1400, 3, 40), (1000, 3, 40), (700, 3, 30), (500, 3, 20))


class Effort(NamedTuple):
    """The size of a search: most rows, the ``cv`` of its folds, and most steps of each run."""

    n_rows: int
    cv: Any
    n_steps: int


def search_effort(learning: Learning, problem: Problem) -> Effort:
    """The effort of a search, by the cost of a row; it does not depend on the machine.

    Searches with matrices, and with maps that do not state their cost, always learn from 2,000
    rows.  With other maps fewer rows, folds and steps are used if the search would take longer
    than some 15 seconds on two cores.
    """
    config, method = learning.config, learning.method
    whole = Effort(ROWS, config.cv, SEARCH_STEPS)
    stated = getattr(problem.mapping, "cost", None)
    if stated is None:
        return whole
    n, D = len(problem.rows), problem.X.shape[1]
    runs = _RANKS * is_auto(config.n_components) + _ALPHAS * is_auto(config.alpha)
    size = Size(n, D, method.n_components, 4, True, method.cost, map=stated(D, 4))
    for rows, folds, steps in _LESS:
        cv: Any = config.cv
        if cv is None and folds < _FOLDS:
            cv = folds
        effort = Effort(rows, cv, steps)
        n_folds = cv if isinstance(cv, int) else folds
        seconds = evaluation_seconds(size, min(n, rows), threads=2)
        if runs * n_folds * steps * _EVALUATIONS * seconds <= _SECONDS:
            return effort
    return effort
