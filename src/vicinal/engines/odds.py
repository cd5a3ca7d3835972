"""Loss and slope from the odds of a wrong against a right decision.

`odds_loss` is computed where the sums of an engine lie: a backend whose sums are not on the host
registers its own for its engines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.types import Array


def _shares(odds: Array) -> tuple[Array, Array]:
    """Probabilities of right and wrong, from log2 of wrong : right."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp2(odds)), 1.0 / (1.0 + np.exp2(-odds))


def slopes(odds: Array, objective: str) -> Array:
    """Derivative of a row's loss by the natural log of its odds; 0 if it cannot be right."""
    p, wrong = _shares(odds)
    return p * wrong if objective == "accuracy" else np.where(odds < np.inf, wrong, 0.0)


def mean_loss(odds: Array, weight: Array, objective: str) -> tuple[float, Array, float]:
    """Mean loss, the weight of each row in it, adding up to one, and the weight of all of them.

    ``odds`` is log2 of wrong : right, inf where a row cannot be right: "accuracy" counts such a row
    as wrong, "log" leaves it out.
    """
    # sums, not dot products: the bits of BLAS depend on its number of threads
    counts = weight if objective == "accuracy" else weight * (odds < np.inf)
    total = counts.sum()
    if total <= 0:
        return 0.0, np.zeros_like(odds), 0.0
    if objective == "accuracy":
        return float(-np.sum(counts * _shares(odds)[0]) / total), counts / total, float(total)
    # log(1 + odds): exact where p -> 1, finite where p underflows
    minus_log_p = np.logaddexp2(0.0, np.where(counts > 0, odds, 0.0)) * np.log(2.0)
    return float(np.sum(counts * minus_log_p) / total), counts / total, float(total)


class OddsLoss(NamedTuple):
    """The mean loss of the queries, the weight of all that count, and its gradient by the points.

    ``left_out`` are the rows of Z that the loss leaves out, if it is "log".
    """

    value: float
    weight: float
    left_out: Array
    dZ: Any


@singledispatch
def odds_loss(
    engine: Any,
    weight: Array,
    more: Callable[[Array], Array] | None,
    kind: str,
    gradient: bool,
) -> OddsLoss:
    """The loss of an engine's sums over the other classes and over the own (`base.ClassSums`).

    ``weight`` (n,) is that of each row of Z as a query; ``more(rows)`` is added to log2 of the sums
    over the own class, None for nothing.
    """
    sums = engine.sums()
    own = sums.log2[1] if more is None else sums.log2[1] + more(sums.rows)
    with np.errstate(invalid="ignore"):  # inf - inf, where there is no own class
        odds = (sums.log2[0] - own) + (sums.shift[1] - sums.shift[0])
    left_out = np.isneginf(own)
    odds = np.where(left_out, np.inf, odds)
    value, counts, total = mean_loss(odds, weight[sums.rows], kind)
    dZ = None
    if gradient:
        # odds = sum over the other classes / sum over the own class
        slope = counts * slopes(odds, kind)
        dZ = engine.pull(sums, np.stack([slope, -slope]))
    return OddsLoss(value, total, sums.rows[left_out], dZ)
