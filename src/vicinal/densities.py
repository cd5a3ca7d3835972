"""The kernels that a point can have: how fast its pull falls off with the distance.

Each is a density around its point once divided by its integral, so that a class is a mixture of
them ([Oneata2011] section 3.2).  ``u`` is the distance in the embedded space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Compact", "Gaussian", "Kernel", "Student"]


@dataclass(frozen=True)
class Gaussian:
    r""":math:`\kappa(u) = e^{-u^2}`, plain NCA ([Goldberger2005] eq. (1))."""

    family: ClassVar[int] = 0

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions."""
        return 0.5 * d * math.log(math.pi)


@dataclass(frozen=True)
class Student:
    r""":math:`\kappa(u) = (1 + u^2)^{-(d+1)/2}`: a heavy tail ([Oneata2011] section 6).

    The exponent grows with d: :math:`1 / (1 + u^2)` has no integral from two dimensions on.
    """

    family: ClassVar[int] = 1

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions."""
        return 0.5 * (d + 1) * math.log(math.pi) - math.lgamma(0.5 * (d + 1))


@dataclass(frozen=True)
class Compact:
    r""":math:`\kappa(u) = (1 - u^2)^2` up to u = 1 and nothing beyond ([Oneata2011] eq. (4.16))."""

    family: ClassVar[int] = 2

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions: 8 V_d / ((d + 2)(d + 4)).

        V_d is the volume of the unit ball; the 16/15 of [Oneata2011] section 4.6 is that of d = 1.
        """
        ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
        return math.log(8.0) + ball - math.log((d + 2.0) * (d + 4.0))


Kernel = Gaussian | Student | Compact
