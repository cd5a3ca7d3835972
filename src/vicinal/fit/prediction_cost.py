"""How much memory and time a prediction takes, rule by rule.

The figures come from `tracemalloc`, and from runs on two threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config

from vicinal._threads import n_threads
from vicinal.engines import choose
from vicinal.engines.dense.means import BLOCK as MEANS_BLOCK
from vicinal.models.posterior import NCAModel
from vicinal.models.regression import RegressionModel, kernel_means_bytes
from vicinal.models.vote_of_k import KNCAModel
from vicinal.models.votes import Chi2VotingModel

__all__ = ["PredictionCost", "prediction_cost"]

_SCRATCH = 300_000  # of the threads
_REFERENCE = 88  # bytes of a training row, besides its coordinates
_ROW = 76  # bytes of a row, besides its coordinates and classes
_DENSE_BYTES = 2_700_000  # of the arrays of pairs that a few training rows take
_VOTE, _SHARE, _VOTING_ROW = 24, 16, 54  # bytes of a voter, of a class, of a row under rule="knn"
_HISTOGRAM = 16  # bytes of a bin, while histograms are normalised and mapped
_PAIR = 32  # bytes of a pair of rows in kernel regression
_TREE_UP_TO = 15  # dimensions up to which votes use a tree
_NEIGHBOURS_AUTO = 50  # voters, if their number is not known yet


class PredictionCost(NamedTuple):
    """Memory beyond the input, and time, of a prediction."""

    memory_bytes: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"about {self.memory_bytes / 2**20:.1f} MiB beyond the input and {self.seconds:.2g} s"
        )


def prediction_cost(
    model: Any, rule: str, shape: tuple[int, int], converted: int
) -> PredictionCost:
    """The cost of predicting rows of a shape from a model; ``converted``: bytes of their copy."""
    m = shape[0]
    if isinstance(model, RegressionModel) and rule != "knn":
        memory, nanoseconds = _kernel_means(model, m)
    elif rule == "knn" or not isinstance(model, NCAModel | KNCAModel):
        memory, nanoseconds = _votes(model, m)
    elif isinstance(model, KNCAModel):
        memory, nanoseconds = _votes_of_k(model, m)
    else:
        memory, nanoseconds = _posterior(model, m)
    if isinstance(model, Chi2VotingModel):  # before they vote, rows are normalised
        memory = max(memory, _HISTOGRAM * m * shape[1])
    return PredictionCost(int(converted + memory), float(np.round(nanoseconds * 1e-9, 6)))


def _at_a_time(m: int, row_bytes: int) -> int:
    """Rows that scikit-learn's ``working_memory`` allows at a time."""
    return min(m, max(1, int(get_config()["working_memory"] * 2**20 // row_bytes)))


def _posterior(model: NCAModel, m: int) -> tuple[float, float]:
    """Bytes and nanoseconds of sums over all training rows, of which far ones are left out."""
    (n, d), s, C = model.Z.shape, model.Z.itemsize, model.n_outputs
    rows = _at_a_time(m, 24 * C)
    whole = m * (8 * C + d * s) if rows < m else 0
    memory = rows * (C * (16 + 4 * s) + 1.75 * d * s + _ROW) + whole
    if choose.is_small(n):
        return memory + _DENSE_BYTES, m * n * (12.0 + 1.2 * d)
    memory += n * (1.75 * d * s + _REFERENCE) + _SCRATCH
    return memory, m * n * (2.0 + 0.15 * d) * (1.0 if s == 4 else 1.5) / n_threads()


def _votes_of_k(model: KNCAModel, m: int) -> tuple[float, float]:
    """Bytes and nanoseconds of a count of the votes of k stochastic neighbours."""
    (n, d), s, C, k = model.Z.shape, model.Z.itemsize, model.n_outputs, model.k
    rows = _at_a_time(m, 24 * C)
    memory = rows * (8 * C + 2.0 * d * s + 96) + (m * (8 * C + d * s) if rows < m else 0)
    if choose.is_small(n):
        return memory + 2.2 * _DENSE_BYTES, m * n * 12.0 * (k + d / 4)
    from vicinal.engines.cpu.lanes import tiling_of  # loads the compiler
    from vicinal.engines.cpu.sweep import counting_bytes

    lanes = tiling_of(rows, C, k, s).lanes
    threads = min(n_threads(), -(-rows // lanes))
    memory += n * (2.0 * d * s + 56) + counting_bytes(C, k, lanes, threads, s)
    return memory, m * n * (3.0 + 1.2 * k + 0.27 * d) / n_threads()


def _kernel_means(model: RegressionModel, m: int) -> tuple[float, float]:
    """Bytes and nanoseconds of means over all training rows."""
    (n, d), s, q = model.Z.shape, model.Z.itemsize, model.n_outputs
    threads = n_threads()
    each = kernel_means_bytes(model.Z, q)
    rows = _at_a_time(m, each)
    whole = m * (d * s + 16 * q)  # the embedded rows, and what comes back
    if choose.is_small(n):
        pairs = min(rows * n, threads * max(n, MEANS_BLOCK))
        return whole + _PAIR * pairs, m * n * (12.0 + 1.5 * d + 2.0 * q) / threads
    memory = whole + rows * each + n * (each + _REFERENCE) + _SCRATCH
    return memory, m * n * (1.0 + 0.2 * d + 0.3 * q) * (1.0 if s == 4 else 1.5) / threads


def _votes(model: Any, m: int) -> tuple[float, float]:
    """Bytes and nanoseconds of a search for the nearest training rows, and of their votes."""
    (n, d), C = model.Z.shape, model.n_outputs
    k = model.settled_n_neighbors or min(_NEIGHBOURS_AUTO, n)
    rows = _at_a_time(m, 32 * k + 8 * C)
    memory = rows * (_VOTE * k + _SHARE * C + _VOTING_ROW) + 3.2 * m * d
    memory += m * 8 * C if rows < m else 0
    if isinstance(model, Chi2VotingModel):
        return memory, 2.0 * m * n * d / n_threads()
    if d > _TREE_UP_TO:
        return memory, m * n * (1.0 + 0.2 * d) / n_threads()
    return memory, m * (1000.0 + 250.0 * k) * (1.0 + 0.25 * d)
