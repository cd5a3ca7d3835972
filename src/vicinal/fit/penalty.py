"""The penalty of a map: its values, its unit, and how nonlinear maps are learnt.

A nonlinear map can fit any training rows, and L-BFGS on all rows does so.  The noise of small
batches keeps it from that, and the number of rows sets its penalty.  docs/results/maps.md compares
maps that are learnt on batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vicinal import maps, solvers
from vicinal.core.types import Rows, is_auto
from vicinal.fit.method import Config, Method

#: the values of alpha="auto", from a strong penalty to a weak one, for columns of variance one
ALPHAS = (0.1, 0.03, 0.01, 3e-3, 1e-3)
#: the same down to weaker ones, for losses on which a penalty weighs more
MORE_ALPHAS = (*ALPHAS, 3e-4, 1e-4)
DEFAULT_ALPHA = 3e-3  # used if a search has no result
BY_ROWS = "by rows"  #: ``alpha="auto"`` where the number of rows decides
_ALPHA = (1e-4, 1e-2)
_BATCH = (64, 1024)  # rows: a quarter of all, within these limits
_RATE = 0.01  # of Adam on all rows, for columns of variance one


def for_nonlinear_maps(method: Method, n_rows: int) -> Method:
    """The method with Adam on small batches, if its map is nonlinear; otherwise as it is."""
    if not maps.bends(method.mapping):
        return method
    batch = int(np.clip(n_rows // 4, *_BATCH))
    return replace(method, solver=solvers.Adam(_RATE), batch_size=batch)


def without_search(config: Config, method: Method) -> Config:
    """The parameters of a fit: a nonlinear map needs no search for a penalty."""
    if is_auto(config.alpha) and isinstance(method.solver, solvers.Adam):
        return replace(config, alpha=BY_ROWS)
    return config


def penalty_by_rows(n_rows: int) -> float:
    """``1 / n``, within limits: a penalty of the sum of the losses that is always the same.

    Among the candidates of docs/results/maps.md, small tables take the strong penalties and large
    tables the weak ones.
    """
    return float(np.clip(1.0 / n_rows, *_ALPHA))


def default_alpha(method: Method) -> float:
    """The penalty used if a search has no result, for columns of variance one."""
    alphas = method.alphas
    return DEFAULT_ALPHA if not alphas or DEFAULT_ALPHA in alphas else alphas[len(alphas) // 2]


def scaled_alpha(method: Method, features: Rows, n: int) -> float:
    """The penalty for ``alpha="scaled"``, which grows with the number of columns per row."""
    n_columns = int(np.count_nonzero(features.scale))
    return method.scaled_alpha(n_columns, n) * alpha_unit(features)


def alpha_unit(features: Rows) -> float:
    """The unit of penalties: one, or the mean variance of columns that are not scaled."""
    if features.scaling == "standard" or not np.isfinite(features.total_variance):
        return 1.0
    return float(features.total_variance / np.count_nonzero(features.scale))
