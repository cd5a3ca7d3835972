r"""The kernels that a point can have: how fast its pull falls off with the distance.

Each is a density around its point once divided by its integral, so that a class is a mixture of
them ([Oneata2011] section 3.2).  ``u`` is the distance in the embedded space.

A kernel states what engines must know of it: its ``energy``, :math:`-\ln\kappa`, as a function of
the squared distance, with the derivative; the ``power(d)`` of :math:`1 + u^2` in it; whether it
``reaches_everywhere``; and the ``coordinate_scale`` of the compiled loops, which compute powers of
two.

>>> from vicinal.densities import resolve
>>> resolve("compact")
Compact(background=True, beta='count')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal._validation import check_bool, check_number, part_of
from vicinal.core.types import Array

__all__ = ["Compact", "Gaussian", "Kernel", "Student", "resolve"]


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    r""":math:`\kappa(u) = e^{-u^2}`, plain NCA ([Goldberger2005] eq. (1)).

    Parameters
    ----------
    background : bool, default=False
        Whether each class also has a normal distribution; see :class:`Compact`.
    beta : float in (0, 1), "count" or "em", default="count"
        The share of that distribution; see :class:`Compact`.
    """

    background: bool = False
    beta: float | str = "count"
    family: ClassVar[int] = 0
    #: whether no distance is out of its range
    reaches_everywhere: ClassVar[bool] = True
    #: what compiled loops multiply coordinates by: exp(-d²) = 2**-(scaled d²)
    coordinate_scale: ClassVar[float] = math.sqrt(math.log2(math.e))

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float:
        """The power of ``1 + u²`` in one over the kernel, 0 if it has none."""
        return 0.0

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances, and its derivative; None stands for ones."""
        return squared, None

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions."""
        return 0.5 * d * math.log(math.pi)


@dataclass(frozen=True, kw_only=True)
class Student:
    r""":math:`\kappa(u) = (1 + u^2)^{-(d+1)/2}`: a heavy tail ([Oneata2011] section 6).

    The exponent grows with d: :math:`1 / (1 + u^2)` has no integral from two dimensions on.

    Parameters
    ----------
    background : bool, default=False
        Whether each class also has a normal distribution; see :class:`Compact`.
    beta : float in (0, 1), "count" or "em", default="count"
        The share of that distribution; see :class:`Compact`.
    """

    background: bool = False
    beta: float | str = "count"
    family: ClassVar[int] = 1
    #: whether no distance is out of its range
    reaches_everywhere: ClassVar[bool] = True
    #: what compiled loops multiply coordinates by
    coordinate_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float:
        """The power of ``1 + u²`` in one over the kernel, 0 if it has none."""
        return 0.5 * (d + 1)

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances, and its derivative."""
        power = self.power(d)
        return power * np.log1p(squared), power / (1.0 + squared)

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions."""
        return 0.5 * (d + 1) * math.log(math.pi) - math.lgamma(0.5 * (d + 1))


@dataclass(frozen=True, kw_only=True)
class Compact:
    r""":math:`\kappa(u) = (1 - u^2)^2` up to u = 1 and nothing beyond ([Oneata2011] eq. (4.16)).

    A point out of the range of all others has no probability for its class, whose logarithm the
    objective "log" would need.  So by default a class also has a background, a normal
    distribution with the mean and the covariance of its embedded rows (section 4.6).

    Parameters
    ----------
    background : bool, default=True
        Whether there is one.  Without, only the objective "accuracy" is defined.
    beta : float in (0, 1), "count" or "em", default="count"
        Its share of the class: a number; "count", :math:`1 / (N_c + 1)`, so much as each of the
        points has; or "em", learnt for each class from there on, between rounds of the solver.
        EM makes the rows of a class likely, not the classes easy to tell apart: with classes that
        are nearly normal it leaves the kernels next to nothing.
    """

    background: bool = True
    beta: float | str = "count"
    family: ClassVar[int] = 2
    #: whether no distance is out of its range
    reaches_everywhere: ClassVar[bool] = False
    #: what compiled loops multiply coordinates by
    coordinate_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float:
        """The power of ``1 + u²`` in one over the kernel, 0 if it has none."""
        return 0.0

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances, inf out of range, and its derivative, there 0."""
        inside = squared < 1.0
        rest = np.where(inside, 1.0 - squared, 1.0)
        energy = np.where(inside, -2.0 * np.log(rest), np.inf)
        return energy, np.where(inside, 2.0 / rest, 0.0)

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions: 8 V_d / ((d + 2)(d + 4)).

        V_d is the volume of the unit ball; the 16/15 of [Oneata2011] section 4.6 is that of d = 1.
        """
        ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
        return math.log(8.0) + ball - math.log((d + 2.0) * (d + 4.0))


Kernel = Gaussian | Student | Compact

_BY_NAME: dict[str, type[Kernel]] = {"gaussian": Gaussian, "student": Student, "compact": Compact}


def _check(kernel: Kernel) -> None:
    check_bool(kernel, "background")
    check_number(kernel, "beta", 0, 1, open_ends=True, or_else=("count", "em"))


def resolve(kernel: Any, owner: str = "NCA") -> Kernel:
    """Turn a kernel's name into the part with its default parameters; pass a part through.

    Parameters
    ----------
    kernel : str or Kernel
        One of "gaussian", "student", "compact", or a part such as ``Compact(beta=0.1)``.
    owner : str
        The estimator named in the error message.

    Returns
    -------
    Kernel

    Raises
    ------
    ValueError
        If ``kernel`` is an unknown name.
    TypeError
        If ``kernel`` is neither a name nor a part (a class is not a part: call it).
    """
    kinds = Gaussian | Student | Compact
    return part_of(kernel, _BY_NAME, kinds, "kernel", owner, "kernel such as Compact(beta=0.1)")
