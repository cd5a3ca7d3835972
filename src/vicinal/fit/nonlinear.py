"""How a map that bends is learnt: by Adam on small batches, with a penalty set by the rows.

Such a map can fit any training rows, and L-BFGS on all rows does so.  The noise of batches keeps it
from that.  docs/results/maps.md compares maps that are learnt on batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vicinal import maps, solvers
from vicinal.core.types import is_auto
from vicinal.fit.method import Config, Method

__all__ = ["BY_ROWS", "for_bent_maps", "penalty_by_rows", "without_search"]

BY_ROWS = "by rows"  #: ``alpha="auto"`` where the number of rows decides
_ALPHA = (1e-4, 1e-2)
_BATCH = (64, 1024)  # rows: a quarter of all, within these limits
_RATE = 0.01  # of Adam on all rows, for columns of variance one


def for_bent_maps(method: Method, n_rows: int) -> Method:
    """The method with Adam on small batches, if its map bends; otherwise as it is."""
    if not maps.bends(method.mapping):
        return method
    batch = int(np.clip(n_rows // 4, *_BATCH))
    return replace(method, solver=solvers.Adam(_RATE), batch_size=batch)


def without_search(config: Config, method: Method) -> Config:
    """The parameters of a fit; what `for_bent_maps` has changed needs no search for a penalty."""
    if is_auto(config.alpha) and isinstance(method.solver, solvers.Adam):
        return replace(config, alpha=BY_ROWS)
    return config


def penalty_by_rows(n_rows: int) -> float:
    """``1 / n``, within limits: a penalty of the sum of the losses that is always the same.

    Among the candidates of docs/results/maps.md, small tables take the strong penalties and large
    tables the weak ones.
    """
    return float(np.clip(1.0 / n_rows, *_ALPHA))
