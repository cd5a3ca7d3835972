"""Sums and products of positive weights, as they are or as their logarithms.

Kernels of k-subsets only ever add and multiply weights that are not negative.  They are written
once, and the argument ``log`` chooses the arithmetic: None for plain numbers, any int for base-2
logarithms, which no product of weights can drive out of range.  Numba compiles one version for
each, since the types differ.
"""

from __future__ import annotations

from vicinal.kernels._jit import exp2, helper, log2, maximum, minimum

__all__ = [
    "LEAST", "NOTHING", "add", "add_products", "nothing", "one", "share", "times",
]  # fmt: skip

# log2(0).  Finite, as the compiler may assume that no NaN occurs: -inf - (-inf) would be one.  No
# logarithm that is meant comes near it, and adding one to it does not change it.
NOTHING = -1e300
# Plain weights below this count as 0 where shares are taken: their parts may have been lost below
# the least normal number, 2**-1022.
LEAST = 2.0**-900
# Where exp2 stops falling.
_FLOOR = -700.0


@helper
def nothing(log):
    """The weight 0."""
    if log is None:
        return 0.0
    return NOTHING


@helper
def one(log):
    """The weight 1."""
    if log is None:
        return 1.0
    return 0.0


@helper
def add(a, b, log):
    """a + b, or log2(2**a + 2**b)."""
    if log is None:
        return a + b
    return maximum(a, b) + log2(1.0 + exp2(minimum(a, b) - maximum(a, b)))


@helper
def times(a, b, log):
    """a b, or the sum of the logarithms, which stops at NOTHING."""
    if log is None:
        return a * b
    return maximum(a + b, NOTHING)


@helper
def share(part, whole, log):
    """part / whole as a plain number in [0, 1]; 0 if whole is nothing (plain: below ``LEAST``).

    In the log domain what is below 2**-700 is 0.
    """
    if log is None:
        # a division, not a product with the inverse: all of a whole is exactly 1
        return minimum(part / whole, 1.0) if whole >= LEAST else 0.0
    difference = minimum(part - whole, 0.0)
    there = whole > 0.5 * NOTHING and difference > _FLOOR
    return exp2(difference) if there else 0.0


@helper
def add_products(out, origin, sign, first, last, X, a, b, Y, low, W, log):
    """Add coefficients of the product of two polynomials to rows of ``out``.

        out[origin + sign t] += sum_{m=a}^{min(b, t - low)} X[m] Y[t - m],  t = first, ..., last

    Four terms to a sweep over the lanes, to read and write ``out`` a quarter as often.

    Parameters
    ----------
    out : (n, >= W) array that overlaps neither X nor Y; in-out
    X, Y : (n, >= W) arrays, one row for each degree
    a, b : degrees of X that count
    low : lowest degree of Y that counts
    """
    for t in range(first, last + 1):
        r, m, end = origin + sign * t, a, min(b, t - low) + 1
        while m + 4 <= end:
            n = t - m
            for i in range(W):
                x, y = times(X[m, i], Y[n, i], log), times(X[m + 1, i], Y[n - 1, i], log)
                z, w = times(X[m + 2, i], Y[n - 2, i], log), times(X[m + 3, i], Y[n - 3, i], log)
                # not in a function of its own: LLVM finds it too long to inline, and a loop with a
                # call is not vectorised
                if log is None:
                    out[r, i] = (out[r, i] + x) + (y + z) + w
                else:
                    top = maximum(maximum(x, y), maximum(maximum(z, w), out[r, i]))
                    two = exp2(x - top) + exp2(y - top)
                    rest = exp2(z - top) + exp2(w - top) + exp2(out[r, i] - top)
                    out[r, i] = top + log2(two + rest)
            m += 4
        n = t - m
        if m + 2 <= end:
            for i in range(W):
                two = add(times(X[m, i], Y[n, i], log), times(X[m + 1, i], Y[n - 1, i], log), log)
                out[r, i] = add(out[r, i], two, log)
            m, n = m + 2, n - 2
        if m < end:
            for i in range(W):
                out[r, i] = add(out[r, i], times(X[m, i], Y[n, i], log), log)
