"""What is frozen while a solver works and renewed between its rounds: lists of pairs, betas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal import neighbourhoods
from vicinal._types import Array, Bounded, Pairs
from vicinal.estimators._plan import Plan
from vicinal.objectives import background_weights, em_background
from vicinal.problem import Problem

__all__ = ["Rounds", "frozen"]

_EM_LENGTH = 10  # iterations of the solver between steps of EM
_EM_STEPS = 10


def frozen(plan: Plan, problem: Problem) -> Problem:
    """The problem with the parts of its objective that hold for a whole fit."""
    options: dict[str, Any] = {"kernel": plan.kernel}
    if isinstance(plan.pairs, neighbourhoods.Tree):
        options["pairs"] = Bounded(plan.pairs.tolerance)
    if plan.kernel.background:
        options["background"] = background_weights(_counts(problem), plan.kernel.beta)
    return problem.replace(options=options)


def _counts(problem: Problem) -> Array:
    train: Any = slice(None) if problem.train is None else problem.train
    labels = problem.targets
    return np.bincount(labels.codes[train], minlength=len(labels.classes))


@dataclass
class Rounds:
    """Renews the lists of pairs, and the weights of the backgrounds, between rounds of a solver.

    Attributes
    ----------
    length : int
        Iterations to a round.
    report : dict of lists
        For each round: the number of pairs, the mean and the largest share of a row's mass that
        the lists leave out (on a sample of rows), and the background's weights.
    """

    plan: Plan
    rng: np.random.RandomState
    length: int
    report: dict[str, list] = field(default_factory=dict)
    beta: Array | None = None

    @classmethod
    def of(cls, plan: Plan, rng: np.random.RandomState) -> Rounds | None:
        """The rounds that a plan asks for, if any."""
        lengths = []
        if _has_lists(plan):
            lengths.append(plan.pairs.refresh)
        if _learns_beta(plan):
            lengths.append(_EM_LENGTH)
        return cls(plan, rng, min(lengths)) if lengths else None

    def freeze(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem of a round that begins at theta, and the same over all pairs, to judge by."""
        Z = problem.embed(theta)
        labels, references = problem.targets, problem.train
        judge = problem
        if _learns_beta(self.plan):
            before = problem.options["background"] if self.beta is None else self.beta
            self.beta = em_background(
                Z, labels, before, references, references, kernel=self.plan.kernel, steps=_EM_STEPS
            )
            judge = problem.replace(options={**problem.options, "background": self.beta})
            self._note("beta", self.beta)
        if not _has_lists(self.plan):
            return judge, judge
        pairs = self.plan.pairs.pairs(Z, labels.codes, references, self.rng)
        self._note_pairs(Z, labels.codes, pairs, references)
        return judge.replace(options={**judge.options, "pairs": pairs}), judge

    def _note_pairs(self, Z: Array, codes: Array, pairs: Pairs, references: Array | None) -> None:
        left_out = neighbourhoods.mass_left_out(
            Z, codes, pairs, references, self.plan.kernel, random_state=np.random.RandomState(0)
        )
        self._note("n_pairs", len(pairs.indices))
        self._note("mean_left_out", left_out.mean)
        self._note("max_left_out", left_out.largest)

    def _note(self, name: str, value: Any) -> None:
        self.report.setdefault(name, []).append(value)


def _has_lists(plan: Plan) -> bool:
    return plan.pairs is not None and not isinstance(plan.pairs, neighbourhoods.Tree)


def _learns_beta(plan: Plan) -> bool:
    return plan.kernel.background and plan.kernel.beta == "em"
