"""The rows of an evaluation over pairs: points, weights, queries and references that count."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.core.points import check_points, check_rows, with_range
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.targets.labels import plain_mass, weights


def check_kernel(kernel: Kernel, owner: str) -> None:
    """Refuse kernels of finite range, and those with a background for each class."""
    if not kernel.reaches_everywhere or kernel.background:
        raise ValueError(
            f"The 'kernel' parameter of {owner} must reach everywhere and have no background: "
            f"Gaussian(), Student() or Laplace(). Got {kernel!r} instead."
        )


def prepare(
    Z: Any, target: Any, queries: Any, references: Any, pairs: Any, owner: str
) -> tuple[Array, Data, Array]:
    """The points as given, the rows with a positive mass or weight, and the weights of queries.

    The classes of the rows, if they have any, matter to the rates of random lists alone.
    """
    Z = check_points(Z)
    choose.check_lists(pairs, owner)
    if len(target) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows but there are targets for {len(target)}.")
    query_rows = check_rows(queries, len(Z), "queries", owner)
    reference_rows = check_rows(references, len(Z), "references", owner)
    weight = weights(target)
    mass = plain_mass(weight, reference_rows)
    reference_rows = reference_rows[mass[reference_rows] > 0]
    query_rows = query_rows[weight[query_rows] > 0]
    points = with_range(Z, mass[reference_rows]) if len(reference_rows) else Z
    codes = np.zeros(len(Z), dtype=np.intp) if target.strata is None else target.strata
    return Z, Data(points, codes, mass, query_rows, reference_rows), weight
