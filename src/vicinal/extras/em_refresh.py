"""Learn the shares of the backgrounds, every few iterations of the solver."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.extras.background_shares import descend_background
from vicinal.extras.em import em_background
from vicinal.neighborhoods.refresh import RefreshLists, copied, no_longer_falls

_LENGTH = 10  # iterations of the solver between refreshes
_STEPS = 10


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
        return _LENGTH if self.lists is None else min(_LENGTH, self.lists.length)

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem with new shares and lists."""
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
            steps=_STEPS,
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
