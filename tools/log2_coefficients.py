"""Print the polynomials for the logarithm that ``vicinal/kernels/_jit.py`` holds.

``log2(m) = s P(s²)`` with ``s = (m - 1) / (m + 1)`` for m in [sqrt(1/2), sqrt(2)].  P interpolates
the series ``2 / ln 2 (1 + s²/3 + s⁴/5 + ...)`` at Chebyshev nodes, in exact fractions.
"""

from __future__ import annotations

from fractions import Fraction
from math import cos, pi, sqrt

import numpy as np

_LN2 = Fraction(693147180559945309417232121458176568, 10**36)
#: the largest s², at both ends of the interval
LARGEST = ((sqrt(2.0) - 1.0) / (sqrt(2.0) + 1.0)) ** 2


def series(t: Fraction) -> Fraction:
    """P(t), far more precise than float64."""
    return 2 / _LN2 * sum(t**k / (2 * k + 1) for k in range(25))


def coefficients(degree: int) -> list[float]:
    """Coefficients of P, lowest first."""
    n = degree + 1
    nodes = [Fraction(LARGEST / 2 * (1 + cos(pi * (i + 0.5) / n))) for i in range(n)]
    divided = [series(t) for t in nodes]  # Newton's divided differences, in place
    for order in range(1, n):
        for i in range(n - 1, order - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (nodes[i] - nodes[i - order])
    powers = [divided[-1]]
    for i in range(n - 2, -1, -1):  # times (t - node), plus the next difference
        shifted = [Fraction(0), *powers]
        powers = [s - nodes[i] * p for s, p in zip(shifted, [*powers, Fraction(0)], strict=True)]
        powers[0] += divided[i]
    return [float(p) for p in powers]


def main() -> None:
    """Print both sets of coefficients with their largest relative error."""
    for dtype, degree in ((np.float32, 3), (np.float64, 7)):
        c = np.array(coefficients(degree)).astype(dtype)
        t = [Fraction(LARGEST * i / 500) for i in range(501)]
        error = max(
            abs(sum(Fraction(float(v)) * x**k for k, v in enumerate(c)) / series(x) - 1) for x in t
        )
        print(dtype.__name__, f"degree {degree}, largest relative error {float(error):.1e}")
        print("   ", ", ".join(repr(float(v)) for v in c))


if __name__ == "__main__":
    main()
