"""The kinds of loss, and the warning about rows that one leaves out."""

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
