"""Warnings: of rows that nothing is learnt from, collapsed maps, and how a fit has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal._validation import warn
from vicinal.core.stages import FitResult
from vicinal.core.stopping import advice_for
from vicinal.core.types import Array, is_auto
from vicinal.fit.method import Config, Data, Method
from vicinal.fit.overfit import Scores
from vicinal.fit.plan import Plan
from vicinal.fit.trials import is_collapsed
from vicinal.objectives._votes import SAFE_K, can_win, large_k, usable_votes
from vicinal.targets import LabelDistributions, Labels, Matches

_MANY_ALONE = 0.1  # warn above this share of rows with no neighbour in range


def collapse_warning(Z: Array, problem: Any) -> str | None:
    """The warning for a map that the penalty has shrunk to zero, or None."""
    if not is_collapsed(Z):
        return None
    return (
        f"The map has collapsed under the penalty alpha={float(np.min(problem.alpha)):g}: all rows "
        "are mapped to nearly the same point. Decrease 'alpha'."
    )


def warn_single_rows(data: Data, labels: Labels, plan: Plan) -> None:
    """Warn of classes whose rows have no other row of their class to pick."""
    lonely = np.bincount(labels.codes) < 2
    if labels.priors is not None:
        lonely |= labels.priors == 0.0
    if lonely.any():
        warn(
            "Rows of these classes have no other row of their class to pick, because they are the "
            f"only one or their prior is zero: {data.names(lonely)}. As queries they add nothing "
            "to the objective."
        )


def warn_unmatched_rows(target: LabelDistributions | Matches, plan: Plan) -> None:
    """Warn of rows that match no other row."""
    if isinstance(target, Matches):
        alone = target.counts == 0
    else:  # all classes that are possible for such a row are impossible for all others
        possible = target.values > 0
        alone = ~(possible & (np.count_nonzero(possible, axis=0) > 1)).any(axis=1)
    if alone.any():
        warn(
            f"{alone.sum()} of {len(alone)} rows match no other row. As queries they add nothing "
            "to the objective."
        )


def warn_no_voters(
    data: Data, name: str, asked: int, vote: str, labels: Labels, plan: Plan
) -> None:
    """Warn of classes whose rows cannot win a vote of k."""
    counts = labels.counts
    k = usable_votes(counts, asked, vote)
    if k < asked:
        others = len(labels) - 1
        why = "no row could win a vote of that many"
        if others < asked:
            why = f"a row has only {others} others to pick"
        warn(f"The 'k' parameter of {name} is {asked}, but {why}: k={k} is used.")
    if k > SAFE_K:
        warn(large_k(k))
    able = can_win(counts, k, vote)
    if not able.all():
        warn(
            f"Rows of these classes have too few others of their class to win any vote of "
            f"k={k} by vote={vote!r}: {data.names(~able)}. As queries they add nothing "
            "to the objective."
        )
    rows = plan.rows_together(len(labels))
    thin = able & ~can_win(counts * rows // len(labels), k, vote)
    if thin.any():
        warn(
            f"Of {rows} rows at a time, as drawn by {plan.sampling!r}, these classes usually have "
            f"too few rows to win a vote of k={k}, so that little is learnt about them: "
            f"{data.names(thin)}. Use larger batches, or sampling='stochastic', in which all rows "
            "may be picked."
        )


def warn_of_run(
    method: Method, config: Config, result: FitResult, facts: dict[str, Any], left_out: list[str]
) -> None:
    """Warn of what the run complained of, of rows out of range, or if it did not converge.

    Also of what a time budget left too little time for.
    """
    if left_out:
        warn(
            f"The {config.time_budget:g} seconds of 'time_budget' were not enough for "
            f"{' and '.join(left_out)}: increase 'time_budget'."
        )
    if result.complaint is not None:
        warn(result.complaint)
    alone = facts.get("out_of_range", 0.0)
    if alone > _MANY_ALONE and not method.kernel.background:
        warn(
            f"{100 * alone:.3g} % of the rows have no other row in range of the compact "
            "kernel and do not contribute: give the kernel a background, or scale 'init' down."
        )
    if not result.converged:
        advice = advice_for(result.reason).format(n=result.n_iter, budget=config.time_budget)
        warn(
            f"{method.name} did not converge: {advice}. The best map so far is kept.",
            ConvergenceWarning,
        )


def warn_overfit(method: Method, scores: Scores, parameters: dict[str, Any]) -> None:
    """Warn if the map suits the training rows far better than the held-out rows."""
    if not scores.part_widely:
        return
    advice = ["decrease 'n_components'"]
    if not is_auto(parameters.get("alpha", "auto")):
        advice.insert(0, "increase 'alpha'")
    warn(f"{method.name} over-fits: {scores}. To mend it, {' or '.join(advice)}.")
