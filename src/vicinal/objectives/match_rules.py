"""The share of matching rows among NCA's stochastic neighbours of new points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.points import check_points
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.targets.labels import plain_mass

_GAUSSIAN = Gaussian()
_LOG2_E = math.log2(math.e)
_COORDINATES = 2**20  # of the pairs that are compared at a time


def nca_matched_shares(
    Z: Array,
    Z_reference: Array,
    matches: Any,
    sample_weight: Array | None = None,
    kernel: Kernel = _GAUSSIAN,
) -> Array:
    r"""The share of matches among the picks of new points, :math:`\sum_j m_{ij} p_{ij}`.

    ``Z`` is (n, d), ``Z_reference`` (n_references, d), and ``matches`` a sparse matrix or an array
    of shape (n, n_references) with entries in [0, 1].  With weights,
    :math:`p_{ij} \propto v_j \kappa(d_{ij})`.  The result is (n,), in float64.
    """
    # float64: called once, not at every step
    Z = check_points(Z).astype(np.float64, copy=False)
    Z_reference = check_points(Z_reference, "Z_reference").astype(np.float64, copy=False)
    n, d = Z_reference.shape
    if Z.shape[1] != d:
        raise ValueError(f"Z has {Z.shape[1]} columns but Z_reference has {d}.")
    M = sp.csr_array(matches)
    if M.shape != (len(Z), n):
        raise ValueError(f"matches must have shape {(len(Z), n)}. Got {M.shape} instead.")
    if not len(Z):
        return np.zeros(0)
    mass = plain_mass(np.ones(n) if sample_weight is None else sample_weight, np.arange(n))
    rows = np.flatnonzero(mass)
    data = Data(Z_reference, np.zeros(n, dtype=np.intp), mass, rows[:0], rows)
    backend = choose.backend(Z_reference, len(rows))
    log2, shift = (part[:, 0] for part in backend.sums_by_class(Z, data, kernel, 1))
    query = np.repeat(np.arange(len(Z)), np.diff(M.indptr))
    share = np.zeros(len(Z))
    with np.errstate(divide="ignore"):  # weights of zero
        log2_mass = np.log2(mass)
    size = max(1, _COORDINATES // d)
    for first in range(0, M.nnz, size):
        part = slice(first, first + size)
        i, j = query[part], M.indices[part]
        energy, _ = kernel.energy(np.sum((Z[i] - Z_reference[j]) ** 2, axis=1), d)
        picked = np.exp2(log2_mass[j] - (_LOG2_E * energy - shift[i]) - log2[i])
        share += np.bincount(i, M.data[part] * picked, minlength=len(Z))
    return np.clip(share, 0.0, 1.0)
