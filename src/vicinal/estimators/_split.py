"""Held-out rows for early stopping."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._types import Array

__all__ = ["hold_out"]


def hold_out(codes: Array, fraction: float, rng: Any) -> tuple[Array, Array]:
    """Positions of the rows to learn from and of those to judge by, class by class.

    Two rows of each class stay to learn from, so a class of one or two is never held out, where
    scikit-learn's stratified splits refuse the data.
    """
    held_out = []
    for c in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == c))
        exact = fraction * len(members)
        count = int(exact) + (rng.uniform() < exact - int(exact))
        held_out.append(members[: min(count, max(0, len(members) - 2))])
    rows = np.sort(np.concatenate(held_out))
    if not len(rows):
        raise ValueError(
            f"early_stopping=True with validation_fraction={fraction} leaves no row to judge by "
            f"among {len(codes)}. Increase 'validation_fraction' or use early_stopping=False."
        )
    return np.setdiff1d(np.arange(len(codes)), rows), rows
