"""Lists of pairs that are fixed while a solver works and made anew every few iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal.core.problem import Problem
from vicinal.core.types import Array, Pairs
from vicinal.neighbourhoods.left_out import LeftOut

__all__ = ["RefreshLists", "no_longer_falls"]

_PATIENCE = 3  # rounds that may lead nowhere
_MUCH = 0.01  # of the mass of a row, to be left out
_TRUST = 0.25  # of the reach of a list: rows may move so far before they must be searched for anew


@dataclass
class RefreshLists:
    """Makes the lists of pairs anew every few iterations.

    Attributes
    ----------
    neighbourhood : Neighbourhood
        Makes the lists.
    left_out : callable
        ``left_out(Z, target, pairs, references)``: the shares that lists leave out, as
        :func:`vicinal.neighbourhoods.mass_left_out` has them.
    rng : RandomState
        Draws random lists.
    searches_lines : bool
        Whether the solver searches along lines: then rows may move a part of a list's reach only.
    report : dict of lists
        For each time: the number of pairs, the mean and the largest share of a row's mass that
        the lists leave out (on a sample of rows).
    """

    neighbourhood: Any
    left_out: Callable[..., LeftOut]
    rng: np.random.RandomState
    searches_lines: bool
    report: dict[str, list] = field(default_factory=dict)
    kept: Any = None
    losses: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Iterations from one time to the next."""
        return self.neighbourhood.refresh

    def fix(self, problem: Problem, theta: Array) -> tuple[Problem, Problem]:
        """The problem over lists made at theta, and the same over all pairs, to score by."""
        Z = problem.embed(theta)
        target: Any = problem.target
        pairs = self.neighbourhood.pairs(Z, target.codes, problem.train, self.rng)
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
            # A line search would soon find that rows outside of the lists do not push back.
            here = here.replace(trust=(Z, _TRUST * _typical_reach(Z, pairs)))
        return here, problem

    def settled(self, loss: float, tol: float) -> bool:
        """Whether the loss, over lists just made, no longer falls.

        Losses over random lists cannot tell: each is that of another draw.
        """
        if self.neighbourhood.draws:
            return False
        self.losses.append(loss)
        return no_longer_falls(self.losses, tol)

    def complaint(self) -> str | None:
        """What the user should know of the lists in the end."""
        left_out = self.report.get("mean_left_out", [0.0])[-1]
        if left_out <= _MUCH or self.neighbourhood.draws:
            return None
        return (
            f"The lists of {self.neighbourhood!r} leave out {100 * left_out:.3g} % of the weight "
            "of all that a row may pick: increase 'm', or 'radius' where there is one."
        )


def no_longer_falls(losses: list[float], tol: float, unit: float = 1.0) -> bool:
    """Whether the last few rounds have led nowhere."""
    if len(losses) <= _PATIENCE:
        return False
    best, before = min(losses), min(losses[:-_PATIENCE])
    return before - best <= tol * max(abs(before), unit)


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
