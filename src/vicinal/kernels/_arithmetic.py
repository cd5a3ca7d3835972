"""Sums and products of non-negative weights, as plain numbers or as logarithms.

Kernels of k-subsets only add and multiply non-negative weights.  They are written once, and the
argument ``log`` selects the arithmetic: None for plain numbers, any int for base-2 logarithms,
which no product of weights can drive out of range.  Numba compiles one version for each, since the
types differ.
"""

from __future__ import annotations

from vicinal.kernels._jit import exp2, helper, log2, maximum, minimum

# log2(0).  Finite, since the compiler assumes that no NaN occurs, and -inf - (-inf) would be one.
# No real logarithm comes near it, and adding one to it does not change it.
NOTHING = -1e300
# Plain weights below this count as 0 when computing shares: their parts may have underflowed below
# the least normal number, 2**-1022.
LEAST = 2.0**-900
# exp2 is constant below this.
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
    """a b, or the sum of the logarithms, at least NOTHING."""
    if log is None:
        return a * b
    return maximum(a + b, NOTHING)


@helper
def share(part, whole, log):
    """part / whole as a plain number in [0, 1]; 0 if whole is nothing (plain: below ``LEAST``).

    In the log domain, shares below 2**-700 are 0.
    """
    if log is None:
        # a division, not a product with the inverse: whole / whole must be exactly 1
        return minimum(part / whole, 1.0) if whole >= LEAST else 0.0
    difference = minimum(part - whole, 0.0)
    there = whole > 0.5 * NOTHING and difference > _FLOOR
    return exp2(difference) if there else 0.0
