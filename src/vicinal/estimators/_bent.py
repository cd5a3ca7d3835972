"""How a map that bends is learnt: by Adam, on small batches.

Such a map can fit any training rows.  L-BFGS on all rows does so, and predicts new rows worse than
Adam on a few batches of them (docs/results/maps.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vicinal import maps, solvers
from vicinal.core.method import Method

__all__ = ["for_bent_maps"]

_RATE = 0.01  # of Adam on all rows, for columns of variance one
_ALPHAS = (1e-2, 3e-3, 1e-3)  # the penalty matters less than where the steps end
_BATCH = (64, 1024)  # rows: a quarter of all, within these limits


def for_bent_maps(method: Method, n_rows: int) -> Method:
    """The method with Adam on small batches, if its map bends; otherwise as it is."""
    if not maps.bends(method.mapping):
        return method
    batch = int(np.clip(n_rows // 4, *_BATCH))
    return replace(method, solver=solvers.Adam(_RATE), batch_size=batch, alphas=_ALPHAS)
