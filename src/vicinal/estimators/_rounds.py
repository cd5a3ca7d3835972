"""What is frozen while a solver works and renewed between its rounds: lists of pairs, betas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from vicinal import neighbourhoods
from vicinal.core.problem import Problem
from vicinal.core.types import Array, Pairs
from vicinal.densities import Kernel
from vicinal.estimators._plan import Plan
from vicinal.extras.trees import Bounded
from vicinal.objectives import background_weights, em_background

__all__ = ["Renewal", "Rounds", "frozen", "learns_beta", "no_longer_falls"]

_EM_LENGTH = 10  # iterations of the solver between steps of EM
_EM_STEPS = 10
_PATIENCE = 3  # rounds that may lead nowhere
_MUCH = 0.01  # of the mass of a row, to be left out
_TRUST = 0.25  # of the reach of a list: rows may move so far before they must be searched for anew


def frozen(plan: Plan, problem: Problem) -> Problem:
    """The problem with the parts of its objective that hold for a whole fit."""
    options: dict[str, Any] = dict(problem.options)
    options.pop("pairs", None)
    if isinstance(plan.pairs, neighbourhoods.Tree):
        tree = plan.pairs
        options["pairs"] = Bounded(tree.tolerance, tree.always, tree.each_class)
    if plan.kernel is not None:
        options["kernel"] = plan.kernel
    if plan.kernel is not None and plan.kernel.background:
        options["background"] = background_weights(_counts(problem), plan.kernel.beta)
    return problem.replace(options=options)


def _counts(problem: Problem) -> Array:
    train: Any = slice(None) if problem.train is None else problem.train
    labels = problem.targets
    return np.bincount(labels.codes[train], minlength=len(labels.classes))


class Renewal(Protocol):
    """What is frozen while a solver works, for ``length`` iterations, and then renewed.

    ``kept`` is what a fit that goes on from this one begins with; ``report`` has an entry for each
    round.
    """

    length: int
    report: dict[str, list]
    kept: Any

    def freeze(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem of a round that begins at theta, and the one to judge it by."""
        ...

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss, with all that is frozen just renewed, no longer falls."""
        ...

    def complaint(self) -> str | None:
        """What the user should know in the end."""
        ...


@dataclass
class Rounds:
    """Renews the lists of pairs, and the weights of the backgrounds, between rounds of a solver.

    Attributes
    ----------
    length : int
        Iterations to a round.
    left_out : callable
        ``left_out(Z, labels, pairs, references)``: the shares that lists leave out, as
        :func:`vicinal.neighbourhoods.mass_left_out` has them.
    report : dict of lists
        For each round: the number of pairs, the mean and the largest share of a row's mass that
        the lists leave out (on a sample of rows), and the background's weights.
    """

    plan: Plan
    rng: np.random.RandomState
    length: int
    left_out: Callable[..., neighbourhoods.LeftOut]
    report: dict[str, list] = field(default_factory=dict)
    kept: Array | None = None  # the weights of the backgrounds
    losses: list[float] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        plan: Plan,
        rng: np.random.RandomState,
        left_out: Callable[..., neighbourhoods.LeftOut],
    ) -> Rounds | None:
        """The rounds that a plan asks for, if any."""
        lengths = []
        if _has_lists(plan):
            lengths.append(plan.pairs.refresh)
        if learns_beta(plan.kernel):
            lengths.append(_EM_LENGTH)
        return cls(plan, rng, min(lengths), left_out) if lengths else None

    def freeze(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem of a round that begins at theta, and the same over all pairs, to judge by."""
        Z = problem.embed(theta)
        labels, references = problem.targets, problem.train
        judge = problem
        if learns_beta(self.plan.kernel):
            before = problem.options["background"] if self.kept is None else self.kept
            kernel: Any = self.plan.kernel
            self.kept = em_background(
                Z, labels, before, references, references, kernel=kernel, steps=_EM_STEPS
            )
            judge = problem.replace(options={**problem.options, "background": self.kept})
            self._note("beta", self.kept)
        if not _has_lists(self.plan):
            return judge, judge
        pairs = self.plan.pairs.pairs(Z, labels.codes, references, self.rng)
        self._note_pairs(Z, labels, pairs, references)
        here = judge.replace(options={**judge.options, "pairs": pairs})
        searches = self.plan.solver is not None and self.plan.solver.needs_fixed_batch
        if searches and isinstance(self.plan.pairs, neighbourhoods.Nearest):
            # A line search would soon find that rows outside of the lists do not push back.
            here = here.replace(trust=(Z, _TRUST * _typical_reach(Z, pairs)))
        return here, judge

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss, with all that is frozen just renewed, no longer falls.

        Losses over random lists cannot tell: each is that of another draw.
        """
        if self.plan.changes:
            return False
        self.losses.append(loss)
        return no_longer_falls(self.losses, tol)

    def complaint(self) -> str | None:
        """What the user should know of the lists in the end."""
        left_out = self.report.get("mean_left_out", [0.0])[-1]
        if left_out <= _MUCH or not isinstance(self.plan.pairs, neighbourhoods.Nearest):
            return None
        return (
            f"The lists of {self.plan.pairs!r} leave out {100 * left_out:.3g} % of the weight of "
            "all that a row may pick: increase 'm', or 'radius' where there is one."
        )

    def _note_pairs(self, Z: Array, labels: Any, pairs: Pairs, references: Array | None) -> None:
        left_out = self.left_out(Z, labels, pairs, references)
        self._note("n_pairs", len(pairs.indices))
        self._note("mean_left_out", left_out.mean)
        self._note("max_left_out", left_out.largest)

    def _note(self, name: str, value: Any) -> None:
        self.report.setdefault(name, []).append(value)


def no_longer_falls(losses: list[float], tol: float, unit: float = 1.0) -> bool:
    """Whether the last few rounds have led nowhere."""
    if len(losses) <= _PATIENCE:
        return False
    best, before = min(losses), min(losses[:-_PATIENCE])
    return before - best <= tol * max(abs(before), unit)


def _has_lists(plan: Plan) -> bool:
    return plan.pairs is not None and not isinstance(plan.pairs, neighbourhoods.Tree)


def learns_beta(kernel: Kernel | None) -> bool:
    """Whether the weights of the backgrounds are to be learnt between rounds."""
    return kernel is not None and kernel.background and kernel.beta == "em"


def _typical_reach(Z: Array, pairs: Pairs) -> float:
    """How far the farthest row of a list is: the median over some of the lists."""
    rows = np.arange(0, len(Z), max(1, len(Z) // 256))
    ends = pairs.indptr[rows + 1]
    rows, ends = rows[ends > pairs.indptr[rows]], ends[ends > pairs.indptr[rows]]
    reach = [
        np.max(np.sum((Z[pairs.indices[pairs.indptr[i] : end]] - Z[i]) ** 2, axis=1))
        for i, end in zip(rows, ends, strict=True)
    ]
    return float(np.sqrt(np.median(reach))) if reach else np.inf
