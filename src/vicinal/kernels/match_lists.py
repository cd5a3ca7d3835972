"""Soft matches and means of charges over candidate lists: each query visits its own list only.

Points are packed as in :mod:`vicinal.kernels.nca_lists`; a list is gathered into scratch, and all
arithmetic runs over contiguous arrays.  ``rates`` (3, n_queries) are factors of the masses: of
rows of other classes and of the own class, which lists may hold at different rates, and of rows
that a sparse matrix of matches names, which are always there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._blocks import steepen, to_energies
from vicinal.kernels._jit import helper, kernel, minimum
from vicinal.kernels.match_rows import (
    add_terms,
    from_degrees,
    from_energies,
    pair_weights,
    relative,
)
from vicinal.kernels.matches import DISTRIBUTIONS, HARD
from vicinal.kernels.mlkr import add_charges, charged_weights
from vicinal.kernels.nca_lists import gather, pull, within

#: the matches come from a sparse matrix; other kinds are those of `vicinal.kernels.matches`
SPARSE = 3


class Lists(NamedTuple):
    """Packed points, and the list of each query: ``indices[first[q]:last[q]]``.

    ``rows`` (n_queries,) are the rows of the queries; ``d`` are the dimensions.
    """

    P: NDArray
    d: int
    indices: NDArray
    first: NDArray
    last: NDArray
    rows: NDArray
    rates: NDArray


class Rows(NamedTuple):
    """What tells how well two rows match, for all rows.

    ``kind``, ``T`` (n, q) and ``limit`` are as in `matches.Matching`; SPARSE has ``columns`` and
    ``degrees`` in compressed rows, one for each query, and ``rest`` (n,), the factor of the mass of
    a row that a query does not match at all.
    """

    kind: int
    T: NDArray
    limit: float
    begin: NDArray
    columns: NDArray
    degrees: NDArray
    rest: NDArray


def scratch(length, n, dtype):
    """Scratch for one thread and lists up to ``length``: numbers, rows, and degrees by row."""
    return np.empty((9, length), dtype), np.empty(length, np.int32), np.zeros(n, dtype)


@helper
def _collect(lists, match, q, J, known, M):
    """The rows that query q visits, into J, their degrees into M; their number, -1 if one is wrong.

    The rows named by a sparse matrix come in any case; ``known`` is zero before and after.
    """
    listed = lists.indices[lists.first[q] : lists.last[q]]
    n, zero = len(listed), M.dtype.type(0)
    if not within(listed, lists.P.shape[0]):
        return -1
    for t in range(n):
        J[t] = listed[t]
    if match.kind != SPARSE:
        return n
    begin, end = match.begin[q], match.begin[q + 1]
    for a in range(begin, end):
        known[match.columns[a]] = match.degrees[a]
    for t in range(n):
        M[t] = known[J[t]]
        known[J[t]] = zero
    for a in range(begin, end):
        j = match.columns[a]
        if known[j] > 0:
            J[n], M[n] = j, known[j]
            known[j] = zero
            n += 1
    return n


@helper
def _masses(lists, q, J, n, D, others, V):
    """Squared distances D and masses V of the rows J of query q."""
    gather(lists.P, lists.d, J[:n], lists.rows[q], D, others, V)
    a, b = lists.rates[0, q], lists.rates[1, q]
    for t in range(n):
        V[t] = a * others[t] + b * V[t]


@helper
def _energies(D, V, E, n, power):
    """Energies E of the squared distances D; inf for rows without mass."""
    inf = E.dtype.type(np.inf)
    for t in range(n):
        E[t] = D[t]
    if power is not None:
        to_energies(E, n, power)
    for t in range(n):
        E[t] = E[t] if V[t] > 0 else inf


@helper
def _match(lists, match, q, J, n, V, U, M, R):
    """Energies U and the masses M and R of the matches of query q among the rows J."""
    i, zero = lists.rows[q], M.dtype.type(0)
    if match.kind == SPARSE:
        always = lists.rates[2, q] / lists.rates[1, q]
        for t in range(n):
            V[t] *= always if M[t] > 0 else match.rest[np.uint32(J[t])]
        from_degrees(M, V, U, R, n)
        return
    T, x = match.T, M if match.kind == DISTRIBUTIONS else U
    for t in range(n):
        x[t] = zero
    for k in range(T.shape[1]):
        a = T[i, k]
        if match.kind == DISTRIBUTIONS:
            if a > 0:
                for t in range(n):
                    x[t] += a * T[np.uint32(J[t]), k]
        else:
            for t in range(n):
                r = a - T[np.uint32(J[t]), k]
                x[t] += r * r
    if match.kind == DISTRIBUTIONS:
        from_degrees(M, V, U, R, n)
    else:
        from_energies(U, V, M, R, n, match.kind == HARD, match.limit)


@kernel
def match_lists_sums(lists, match, near, minima, sums, q0, q1, power, work, J, known):
    """Minima and shifted sums, (2, n_queries), of queries q0:q1; False if a row does not exist.

    The minima are less ``near`` (n_queries,), the energies of the nearest rows.
    """
    D, E, U, M, R, V = work[1], work[2], work[3], work[4], work[5], work[6]
    for q in range(q0, q1):
        n = _collect(lists, match, q, J, known, M)
        if n < 0:
            return False
        _masses(lists, q, J, n, D, work[7], V)
        _match(lists, match, q, J, n, V, U, M, R)
        _energies(D, V, E, n, power)
        minima[0, q] = minima[1, q] = low = E.dtype.type(np.inf)
        sums[0, q] = sums[1, q] = 0
        for t in range(n):
            low = minimum(low, E[t])
        near[q] = low
        if low == np.inf:
            continue
        relative(E, low, n)
        add_terms(E, U, M, R, V, n, minima, sums, q)
    return True


@kernel
def match_lists_grad(lists, match, near, shift, factor, Gq, Gr, q0, q1, power, work, J, known):
    """Add the pull of the pairs of queries q0:q1 to Gq, (n_queries, d'), and to Gr, (n, d')."""
    W, D, E, U = work[0], work[1], work[2], work[3]
    M, R, V = work[4], work[5], work[6]
    for q in range(q0, q1):
        if factor[0, q] == 0 and factor[1, q] == 0:
            continue
        n = _collect(lists, match, q, J, known, M)
        _masses(lists, q, J, n, D, work[7], V)
        _match(lists, match, q, J, n, V, U, M, R)
        _energies(D, V, E, n, power)
        relative(E, near[q], n)
        pair_weights(E, U, M, R, V, n, shift[0, q], shift[1, q], factor[0, q], factor[1, q], W)
        if power is not None:
            steepen(W, D, n, power)
        pull(lists.P, W, J[:n], lists.rows[q], Gq[q], Gr)


@helper
def _charges(Y, J, n, C):
    """C = the charges of the rows J, (q, n)."""
    for k in range(Y.shape[1]):
        for t in range(n):
            C[k, t] = Y[np.uint32(J[t]), k]


@kernel
def charged_lists_sums(lists, Y, minima, sums, totals, q0, q1, power, work, C):
    """Minima, shifted sums and totals of charges of queries q0:q1; False if a row is missing.

    ``Y`` are the charges (n, q), ``C`` is scratch (q, longest list).
    """
    D, E, V = work[1], work[2], work[6]
    for q in range(q0, q1):
        J = lists.indices[lists.first[q] : lists.last[q]]
        n = len(J)
        if not within(J, lists.P.shape[0]):
            return False
        _masses(lists, q, J, n, D, work[7], V)
        _energies(D, V, E, n, power)
        _charges(Y, J, n, C)
        add_charges(E, V, n, C, 0, minima, sums, totals, q, work[0])
    return True


@kernel
def charged_lists_grad(lists, Y, shift, offset, slopes, Gq, Gr, q0, q1, power, work, C):
    """Add the pull of the pairs of queries q0:q1 to Gq, (n_queries, d'), and to Gr, (n, d')."""
    W, D, E, V = work[0], work[1], work[2], work[6]
    for q in range(q0, q1):
        J = lists.indices[lists.first[q] : lists.last[q]]
        n = len(J)
        _masses(lists, q, J, n, D, work[7], V)
        _energies(D, V, E, n, power)
        _charges(Y, J, n, C)
        charged_weights(E, V, n, C, 0, shift[q], offset[q], slopes, q, W)
        if power is not None:
            steepen(W, D, n, power)
        pull(lists.P, W, J, lists.rows[q], Gq[q], Gr)
