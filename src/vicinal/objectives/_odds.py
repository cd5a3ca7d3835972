"""Loss and slope from the odds of a wrong against a right decision; rows left out of the loss."""

from __future__ import annotations

import warnings

import numpy as np

from vicinal.core.types import Array
from vicinal.targets import Labels


def check_kind(kind: str, name: str, owner: str) -> None:
    """Raise unless ``kind`` is one of the two losses."""
    if kind not in ("log", "accuracy"):
        raise ValueError(
            f"The {name!r} parameter of {owner} must be 'log' or 'accuracy'. Got {kind!r} instead."
        )


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


def warn_left_out(
    labels: Labels,
    rows: Array,
    why: str = "no other member of their class",
    loss: str = "the log objective",
) -> None:
    """Warn about the rows that a loss leaves out."""
    if len(rows):
        names = labels.classes[np.unique(labels.codes[rows])].tolist()
        shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
        warnings.warn(
            f"{len(rows)} rows have {why} to pick and are left out of {loss}: classes {shown}.",
            UserWarning,
            stacklevel=3,
        )
