"""kNCA over all pairs, backward pass: from the slopes of each class to the pull of every pair.

Layout and names are those of :mod:`vicinal.kernels.knca`.
"""

from __future__ import annotations

from vicinal.kernels._blocks import pull_four
from vicinal.kernels._chunks import FAR, energies, in_reach
from vicinal.kernels._jit import exp2, helper, kernel, maximum, minimum


@helper
def _weigh(row, T, theta, powers, values, w, out):
    """Derivatives of the loss by a row of energies.

    ``w (b_0 - b_1 w + b_2 w² - ...)`` for every lane, with w its weight and the coefficients b in
    ``powers``.  Two degrees at a time, with so few arrays per loop that LLVM still checks them for
    overlap, and vectorises.
    """
    k, n = T.shape
    last, zero = T[k - 1], row.dtype.type(0)
    gap = row[0] - last[0]
    for i in range(n):
        gap = minimum(gap, row[i] - last[i])
        w[i] = exp2(minimum(theta[i] - row[i], zero))
    v = k - 2 - k % 2
    b, c = powers[k - 1], powers[maximum(k - 2, 0)]
    if k == 1:
        for i in range(n):
            out[i] = w[i] * b[i]
    elif k % 2:
        a = powers[v]
        for i in range(n):
            out[i] = a[i] - (c[i] - b[i] * w[i]) * w[i]
    else:
        for i in range(n):
            out[i] = c[i] - b[i] * w[i]
    while v > 2:
        v -= 2
        b, c = powers[v + 1], powers[v]
        for i in range(n):
            out[i] = c[i] - (b[i] - out[i] * w[i]) * w[i]
    if v == 2:
        b, c = powers[1], powers[0]
        for i in range(n):
            out[i] = (c[i] - (b[i] - out[i] * w[i]) * w[i]) * w[i]
    elif k > 1:
        for i in range(n):
            out[i] *= w[i]
    if gap > 0:
        return
    # members of T, and members as far away as its last, take their values from `values`
    for i in range(n):
        if row[i] <= last[i]:
            m = 0
            while m < k - 1 and T[m, i] < row[i]:
                m += 1
            # energies may have been rounded differently before: take the nearer of two
            if m > 0 and row[i] - T[m - 1, i] < T[m, i] - row[i]:
                m -= 1
            out[i] = values[m, i]


@kernel
def knca_pull(Zq, Zr, chunks, self_pos, T, theta, powers, values, Gq, Gr, first, last, room):
    """Add the pull between chunks first:last and tiles of queries to Gq and Gr (d, n).

    Parameters
    ----------
    Zq : (tiles, d, W) and self_pos : (tiles, W), the queries
    Zr, chunks : as in `knca_collect`
    T : (tiles, C, k, W) and theta : (tiles, C, W), results of `knca_collect`
    powers : (tiles, C, k, W) coefficients b_v of a polynomial in the weight w relative to theta; w
        times it is the derivative of the loss by the energy of a member that is not in T
    values : (tiles, C, k, W) the derivatives for the members in T
    Gq : (tiles, d, W)
    """
    rows, spare = room.rows, room.vectors[0]
    far = Zq.dtype.type(FAR[Zq.itemsize // 8])
    weights = rows[rows.shape[0] - 4 :]
    k, n = T.shape[2], T.shape[3]
    for t in range(Zq.shape[0]):
        Z, c = Zq[t], 0
        for q in range(first, last):
            while chunks.classes[c + 1] <= q:
                c += 1
            if not in_reach(Z, chunks.boxes, q, T[t, c, k - 1], chunks.reach, spare):
                continue
            j0, j1 = chunks.edges[q], chunks.edges[q + 1]
            energies(Z, Zr, self_pos[t], j0, j1, far, rows)
            for j in range(j0, j1, 4):
                for s in range(4):
                    if j + s < j1:
                        _weigh(
                            rows[j + s - j0], T[t, c], theta[t, c], powers[t, c], values[t, c],
                            spare, weights[s],
                        )  # fmt: skip
                    else:
                        for i in range(n):
                            weights[s, i] = 0
                pull_four(weights, Zr, Z, Gr, Gq[t], 0, j, j1, 0, n)
