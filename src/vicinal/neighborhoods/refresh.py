"""What is refreshed every few iterations: lists of pairs, and the shares of backgrounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from vicinal.core.problem import Problem
from vicinal.core.seeds import rng_for
from vicinal.core.types import Array, Pairs
from vicinal.neighborhoods.left_out import LeftOut

_PATIENCE = 3  # refreshes without a lower loss before training stops
_PATIENCE_NEAR_EDGE = 6  # the same if a line search may have cut the rounds short
_MUCH = 0.01  # Warn if lists leave out more than this share of a row's mass.
_SHARES_KEPT = 10  # iterations of the solver between refreshes of the shares
_SHARE_STEPS = 10
_TRUST = 0.25  # Rows may move by this share of a list's reach before the next refresh.


@dataclass
class RefreshLists:
    """Refreshes the lists of pairs every few iterations.

    Attributes
    ----------
    neighbourhood : Neighborhood
        Makes the lists.
    left_out : callable
        ``left_out(Z, target, pairs, references)``: the shares that lists leave out, as
        from :func:`vicinal.neighborhoods.mass_left_out`.
    seed : int
        Of the random lists.
    searches_lines : bool
        Whether the solver has a line search: then rows may move by a share of a list's reach only.
    report : dict of lists
        For each refresh: the number of pairs, and the mean and largest share of a row's mass that
        the lists leave out (on a sample of rows).
    """

    neighbourhood: Any
    left_out: Callable[..., LeftOut]
    seed: int
    searches_lines: bool
    report: dict[str, list] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Most iterations between refreshes."""
        return self.neighbourhood.refresh

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem over lists made at theta, and the problem over all pairs for scoring."""
        Z = problem.embed(theta)
        target = problem.target
        rng = rng_for(self.seed, "lists", len(self.report.get("n_pairs", ())))
        pairs = self.neighbourhood.pairs(Z, target.strata, problem.train, rng)
        left_out = self.left_out(Z, target, pairs, problem.train)
        row = {
            "n_pairs": len(pairs.indices),
            "mean_left_out": left_out.mean,
            "max_left_out": left_out.largest,
        }
        for name, value in row.items():
            self.report.setdefault(name, []).append(value)
        here = problem.replace(pairs=pairs)
        if self.searches_lines and not self.neighbourhood.draws:
            # A line search would exploit that rows outside the lists do not push back.
            here = here.replace(trust=(Z, _TRUST * _typical_reach(Z, pairs)))
        return here, problem

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss right after each refresh no longer falls.

        Losses over random lists cannot show this: each comes from another draw.
        """
        if self.neighbourhood.draws:
            return False
        self.losses.append(loss)
        patience = _PATIENCE_NEAR_EDGE if self.searches_lines else _PATIENCE
        return no_longer_falls(self.losses, tol, patience=patience)

    def complaint(self) -> str | None:
        """A warning if the last lists leave out much, or None."""
        left_out = self.report.get("mean_left_out", [0.0])[-1]
        if left_out <= _MUCH or self.neighbourhood.draws:
            return None
        advice = "increase 'm', or 'radius' if it is set."
        if getattr(self.neighbourhood, "min_probability", None) is not None:
            advice = "lower 'min_probability', or " + advice
        return (
            f"The lists of {self.neighbourhood!r} leave out {100 * left_out:.3g} % of the "
            f"probability of the neighbours: {advice}"
        )

    def memory(self) -> dict[str, Any]:
        """The losses after each refresh, and the report."""
        return {"losses": list(self.losses), "report": copied(self.report)}

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from the memory of an earlier run."""
        self.losses, report = list(memory["losses"]), copied(memory["report"])
        self.report.clear()
        self.report.update(report)


@dataclass
class RefreshBackground:
    """Makes some steps on the shares of the backgrounds, and refreshes lists, if there are any.

    The kernel of the objective says how: by EM, or by the gradient of the objective itself, so that
    solver and refresh take turns in lowering the same loss.

    Attributes
    ----------
    lists : RefreshLists or None
        Lists of pairs, rebuilt at the same times.
    noisy : bool
        Whether losses cannot be compared with each other.
    report : dict of lists
        For each refresh: ``beta``, the shares, and what the lists report.
    kept : array or None
        The shares.
    """

    lists: RefreshLists | None = None
    noisy: bool = False
    report: dict[str, list] = field(default_factory=dict)
    kept: Array | None = None
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.lists is not None:
            self.lists.report = self.report

    @property
    def length(self) -> int:
        """Iterations between refreshes."""
        return _SHARES_KEPT if self.lists is None else min(_SHARES_KEPT, self.lists.length)

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem with new shares and lists."""
        from vicinal.objectives.background_shares import descend_background, em_background

        objective: Any = problem.objective
        before = objective.background if self.kept is None else self.kept
        learn: Any = em_background
        if objective.kernel.beta == "gradient":
            learn = partial(descend_background, objective=objective.kind)
        self.kept = learn(
            problem.embed(theta),
            problem.target,
            before,
            problem.train,
            problem.train,
            kernel=objective.kernel,
            steps=_SHARE_STEPS,
        )
        self.report.setdefault("beta", []).append(self.kept)
        problem = problem.replace(objective=replace(objective, background=self.kept))
        return (problem, problem) if self.lists is None else self.lists.fix(problem, theta)

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss after a refresh has stopped falling."""
        if self.noisy:
            return False
        self.losses.append(loss)
        return no_longer_falls(self.losses, tol)

    def complaint(self) -> str | None:
        """A warning about the lists, or None."""
        return None if self.lists is None else self.lists.complaint()

    def memory(self) -> dict[str, Any]:
        """The shares, the losses after each refresh, and the report."""
        return {"kept": self.kept, "losses": list(self.losses), "report": copied(self.report)}

    def restore(self, memory: dict[str, Any]) -> None:
        """Continue from the memory of an earlier run."""
        self.kept, self.losses = memory["kept"], list(memory["losses"])
        self.report.clear()  # the lists report to the same dict
        self.report.update(copied(memory["report"]))


def copied(report: dict[str, list]) -> dict[str, list]:
    """A report whose lists no longer grow."""
    return {name: list(entries) for name, entries in report.items()}


def no_longer_falls(
    losses: list[float], tol: float, unit: float = 1.0, patience: int = _PATIENCE
) -> bool:
    """Whether the last few refreshes have not lowered the loss."""
    if len(losses) <= patience:
        return False
    best, before = min(losses), min(losses[:-patience])
    return before - best <= tol * max(abs(before), unit)


def _typical_reach(Z: Array, pairs: Pairs) -> float:
    """The distance to the farthest row of a list: the median over some of the lists."""
    rows = np.arange(0, len(Z), max(1, len(Z) // 256))
    ends = pairs.indptr[rows + 1]
    rows, ends = rows[ends > pairs.indptr[rows]], ends[ends > pairs.indptr[rows]]
    reach = [
        np.max(np.sum((Z[pairs.indices[pairs.indptr[i] : end]] - Z[i]) ** 2, axis=1))
        for i, end in zip(rows, ends, strict=True)
    ]
    return float(np.sqrt(np.median(reach))) if reach else np.inf


def refresh_lists(left_out: Callable[..., LeftOut], plan: Any, seed: int) -> RefreshLists | None:
    """What refreshes the lists of a plan; None for a plan without lists."""
    if not plan.has_lists:
        return None
    searches = plan.solver is not None and plan.solver.needs_fixed_batch
    return RefreshLists(plan.neighborhood, left_out, seed, searches)
