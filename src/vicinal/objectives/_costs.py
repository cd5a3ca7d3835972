"""What a pair of rows costs in soft matches and in MLKR, for the plan of a fit.

Nanoseconds of one thread, measured by benchmarks/match_speed.py; a pair serves one of its rows.
"""

from __future__ import annotations

import math
from functools import partial

from vicinal.core.types import EvaluationSize, PairCost
from vicinal.targets import LabelDistributions, Labels, Matches, NearNumbers, Numbers

__all__ = ["match_cost", "mlkr_cost"]


def match_cost(target: LabelDistributions | Matches | NearNumbers | Labels | None) -> PairCost:
    """The cost of a pair of rows that match to a degree; None: by one number."""
    if isinstance(target, Labels):
        return PairCost()
    if isinstance(target, Matches):
        return PairCost(
            (1.3, 0.23), (2.5, 0.43), (27.0, 3.0), both_ways=False, dense=_six_arrays,
            company=math.ceil(target.counts.mean()) if len(target) else 0,
            more=partial(_matrix_bytes, len(target.data) / max(1, len(target))),
        )  # fmt: skip
    columns = 1 if target is None else target.values.shape[1]
    more = partial(_row_bytes, columns)
    if isinstance(target, LabelDistributions):
        return PairCost(
            (1.9 + 0.1 * columns, 0.23), (3.6 + 0.2 * columns, 0.43), (15.0 + 1.5 * columns, 3.0),
            both_ways=False, dense=_six_arrays, more=more,
        )  # fmt: skip
    fixed = (1.2, 2.2) if target is not None and target.hard else (1.6, 3.8)
    single, double = (
        (constant + each * columns, per_dimension)
        for constant, each, per_dimension in zip(fixed, (0.1, 0.3), (0.22, 0.44), strict=True)
    )
    listed = (16.0 + 2.0 * columns, 3.0)
    return PairCost(single, double, listed, both_ways=False, dense=_six_arrays, more=more)


def mlkr_cost(target: Numbers | None) -> PairCost:
    """The cost of a pair of rows whose numbers predict each other; None: one number each."""
    q = 1 if target is None else target.values.shape[1]
    single, double, listed = (1.0 + 0.12 * q, 0.23), (2.0 + 0.28 * q, 0.43), (10.0 + 2.0 * q, 3.0)
    return PairCost(single, double, listed, both_ways=False, more=partial(_row_bytes, q))


def _six_arrays(size: EvaluationSize) -> float:
    return 6.0 * 8 * size.n**2


def _row_bytes(columns: int, size: EvaluationSize) -> float:
    """Memory of the numbers of each row: in float64, and twice in the precision of the points."""
    return size.n * columns * (2 * 8 + 2 * size.itemsize)


def _matrix_bytes(matches: float, size: EvaluationSize) -> float:
    """Memory of a matrix of so many matches a row: in the order of the engine, and on the way."""
    return size.n * (matches * (4 + size.itemsize + 12) + 24)
