"""The share of probability mass that lists leave out, for picks of one row or of k rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from vicinal._threads import n_threads, run
from vicinal.core.types import Array, Pairs
from vicinal.densities import Gaussian, Kernel
from vicinal.neighborhoods.parts import reference_rows
from vicinal.targets.labels import class_codes

_LOG2_E = math.log2(math.e)


class LeftOut(NamedTuple):
    """Share of the row sums that lists leave out: mean and maximum over some queries."""

    mean: float
    largest: float
    n_queries: int


def mass_left_out(
    Z: Array,
    codes: Array | None,
    pairs: Pairs,
    references: Array | None = None,
    kernel: Kernel | None = None,
    n_queries: int = 256,
    random_state: Any = None,
    mass: Array | None = None,
) -> LeftOut:
    r"""The share of :math:`\sum_{j \ne i} v_j \kappa(\|z_i - z_j\|)` that lists leave out.

    Exact for the sampled rows: each is compared with all references.  For a row without any
    reference within reach of the kernel the share is zero.

    Parameters
    ----------
    Z, codes, pairs, references
        The arguments of the neighbourhood's ``pairs``, and its result.
    kernel : Kernel, default=None
        None for the Gaussian one.
    n_queries : int, default=256
        Number of sampled rows; all rows if there are no more.
    random_state : int, RandomState or None, default=None
        Draws the sample.
    mass : array of shape (n,), default=None
        v, the weight of each row as a reference, at most 1; None for equal masses.

    Returns
    -------
    LeftOut
    """
    from vicinal.kernels import nca_lists

    kernel = Gaussian() if kernel is None else kernel
    references = reference_rows(references, len(Z)).astype(np.int32)
    rows = _sample(len(Z), n_queries, random_state)
    reference_mass = np.zeros(len(Z))
    reference_mass[references] = 1.0 if mass is None else mass[references]
    scale = kernel.coordinate_scale
    P = nca_lists.pack(Z, class_codes(codes, len(Z)), reference_mass, Z[references[0]], scale)
    d = Z.shape[1]
    first, last = pairs.indptr[rows], pairs.indptr[rows + 1]
    listed = _log2_row_sums(P, d, pairs.indices, first, last, rows, kernel)
    first, last = np.zeros_like(first), np.full_like(last, len(references))
    full = _log2_row_sums(P, d, references, first, last, rows, kernel)
    return _shares(listed, full)


def sets_left_out(
    Z: Array,
    pairs: Pairs,
    k: int,
    references: Array | None = None,
    n_queries: int = 256,
    random_state: Any = None,
) -> LeftOut:
    r"""The share of sets of k references that lists leave out ([Tarlow2013] section 4).

    The share of the sets that are not entirely in the list, weighted by
    :math:`\prod_{j \in s} e^{-\|z_i - z_j\|^2}`: one minus the ratio of the elementary symmetric
    polynomials :math:`e_k` over the list and over all references.  For k = 1 it equals
    :func:`mass_left_out`; for larger k it is larger, since the further members of a set are farther
    away than the first.

    Parameters
    ----------
    Z, pairs, references, n_queries, random_state
        As for :func:`mass_left_out`.
    k : int
        Number of references in a set, at most the number of other references.

    Returns
    -------
    LeftOut
        The share is 1 for a row whose list is shorter than k.
    """
    references = reference_rows(references, len(Z)).astype(np.int32)
    k = max(1, min(int(k), len(references) - 1))
    rows = _sample(len(Z), n_queries, random_state)
    allowed = np.zeros(len(Z), np.bool_)
    allowed[references] = True
    points = (Z - Z[references[0]]) * Z.dtype.type(math.sqrt(_LOG2_E))
    first, last = pairs.indptr[rows], pairs.indptr[rows + 1]
    listed = _log2_sets(points, pairs.indices, first, last, rows, allowed, k)
    first, last = np.zeros_like(first), np.full_like(last, len(references))
    return _shares(listed, _log2_sets(points, references, first, last, rows, allowed, k))


def _log2_sets(
    points: Array, indices: Array, first: Array, last: Array, rows: Array, allowed: Array, k: int
) -> Array:
    """log2 of the total weight of all sets of k, for lists from ``first`` to ``last``."""
    from vicinal.kernels import sets

    out = np.empty(len(rows))
    threads = n_threads()
    longest = int((last - first).max(initial=0))
    work = [sets.scratch(longest, k) for _ in range(threads)]

    def task(q: int, thread: int) -> None:
        sets.log2_elementary(
            points, indices, first, last, rows, allowed, k, out, q, min(q + 8, len(rows)),
            *work[thread],
        )  # fmt: skip

    run(task, range(0, len(rows), 8), threads)
    return out


def _sample(n: int, n_queries: int, random_state: Any) -> Array:
    if n_queries >= n:
        return np.arange(n)
    return np.sort(check_random_state(random_state).choice(n, n_queries, replace=False))


def _shares(listed: Array, full: Array) -> LeftOut:
    with np.errstate(invalid="ignore"):  # -inf minus -inf, if nothing is in reach
        share = 1.0 - np.exp2(np.where(np.isneginf(full), 0.0, listed - full))
    share = np.clip(share, 0.0, 1.0)
    return LeftOut(float(share.mean()), float(share.max(initial=0.0)), len(share))


def _log2_row_sums(
    P: Array, d: int, indices: Array, first: Array, last: Array, rows: Array, kernel: Kernel
) -> Array:
    """log2 of the kernel sums over own and other classes, for lists from ``first`` to ``last``."""
    from vicinal.kernels import nca_lists

    near, sums = np.empty((2, len(rows)), P.dtype), np.empty((2, len(rows)), P.dtype)
    longest = int((last - first).max(initial=0))
    threads = n_threads()
    work = [nca_lists.scratch(longest, P.dtype) for _ in range(threads)]

    def task(q: int, thread: int) -> None:
        nca_lists.nca_lists_sums(
            P, d, indices, first, last, rows, near, sums, q, min(q + 8, len(rows)),
            kernel.family, work[thread],
        )  # fmt: skip

    run(task, range(0, len(rows), 8), threads)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.logaddexp2(*np.where(
            sums > 0, np.log2(sums, dtype=np.float64) - nca_lists.energies(near, d, kernel.family),
            -np.inf,
        ))  # fmt: skip
