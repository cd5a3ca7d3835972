"""Print the polynomials for 2**r on [-1/2, 1/2] that ``vicinal/kernels/_jit.py`` holds.

Least squares of the relative error on Chebyshev nodes, reweighted a few times (Lawson's iteration)
to minimise the largest error.  The constant is fixed at 1: sums are multiplied by 2**0 once per
tile, and an error there would accumulate.
"""

from __future__ import annotations

from fractions import Fraction
from math import cos, pi

import numpy as np


def exp2_exact(x: float) -> Fraction:
    """2**x for |x| <= 1/2 from its series, far more precise than float64."""
    ln2 = Fraction(693147180559945309417232121458176568, 10**36)
    term, total = Fraction(1), Fraction(1)
    for k in range(1, 40):
        term = term * ln2 * Fraction(x) / k
        total += term
    return total


def coefficients(degree: int, n_nodes: int = 400, rounds: int = 60) -> np.ndarray:
    """Coefficients, lowest first, that nearly minimise the largest relative error."""
    nodes = np.array([0.5 * cos(pi * (i + 0.5) / n_nodes) for i in range(n_nodes)])
    # fit the small remainder after the Taylor polynomial, so that rounding does not matter
    taylor = [float(Fraction(1))]
    ln2 = Fraction(693147180559945309417232121458176568, 10**36)
    value = Fraction(1)
    for k in range(1, degree + 1):
        value = value * ln2 / k
        taylor.append(float(value))
    exact = [exp2_exact(x) for x in nodes]
    remainder = np.array(
        [
            float((e - sum(Fraction(c) * Fraction(x) ** k for k, c in enumerate(taylor))) / e)
            for x, e in zip(nodes, exact, strict=True)
        ]
    )
    basis = np.vander(nodes, degree + 1, increasing=True)[:, 1:] / np.exp2(nodes)[:, None]
    weight = np.ones(n_nodes)
    for _ in range(rounds):
        root = np.sqrt(weight)[:, None]
        fit = np.linalg.lstsq(basis * root, remainder * root[:, 0], rcond=None)[0]
        error = np.abs(remainder - basis @ fit)
        weight *= error / error.max() + 1e-12
        weight /= weight.sum()
    return np.array(taylor) + np.append(0.0, fit)


def main() -> None:
    """Print both sets of coefficients with their largest relative error."""
    for dtype, degree in ((np.float32, 5), (np.float64, 10)):
        c = coefficients(degree).astype(dtype)
        x = np.linspace(-0.5, 0.5, 20001)
        value = np.polynomial.polynomial.polyval(x, c.astype(np.float64))
        error = np.abs(value / np.exp2(x) - 1).max()
        print(dtype.__name__, f"degree {degree}, largest relative error {error:.1e}")
        print("   ", ", ".join(repr(float(v)) for v in c))


if __name__ == "__main__":
    main()
