r"""Kernels: how the influence of a point falls off with distance.

Divided by its integral, each kernel is a density around its point, so a class is a mixture of them
([Oneata2011] section 3.2).  ``u`` is the distance in the embedded space.

A kernel states what engines need to know: its ``energy``, :math:`-\ln\kappa`, and the derivative as
functions of the squared distance; the ``power(d)`` by which the compiled loops tell kernels apart;
whether it ``reaches_everywhere``; whether it is ``smooth`` at distance zero; and the
``coordinate_scale`` of the compiled loops, which compute powers of two.

>>> from vicinal.densities import resolve
>>> resolve("compact")
Compact(background=True, beta='count')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal._public import listing as _listing
from vicinal._validation import check_bool, check_number, part_of
from vicinal.core.types import Array

__all__ = ["Compact", "Gaussian", "Kernel", "Laplace", "Student", "check_use", "resolve"]
__dir__ = _listing(__name__)


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    r""":math:`\kappa(u) = e^{-u^2}`, plain NCA ([Goldberger2005] eq. (1)).

    Parameters
    ----------
    background : bool, default=False
        Whether each class also has a normal distribution; see :class:`Compact`.
    beta : float in (0, 1), "count", "em" or "gradient", default="count"
        The share of that distribution; see :class:`Compact`.
    """

    background: bool = False
    beta: float | str = "count"
    family: ClassVar[int] = 0
    #: whether every distance is within range
    reaches_everywhere: ClassVar[bool] = True
    #: whether the derivative by the squared distance is bounded
    smooth: ClassVar[bool] = True
    #: factor of the coordinates in compiled loops: exp(-d²) = 2**-(scaled d²)
    coordinate_scale: ClassVar[float] = math.sqrt(math.log2(math.e))

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float | None:
        """None: the kernel has no power of ``1 + u²``; see `Student`."""
        return None

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances, and its derivative; None stands for ones."""
        return squared, None

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions."""
        return 0.5 * d * math.log(math.pi)


@dataclass(frozen=True, kw_only=True)
class Student:
    r""":math:`\kappa(u) = (1 + u^2)^{-(d+1)/2}`: a heavy tail ([Oneata2011] section 6).

    The exponent grows with d because the integral of :math:`1 / (1 + u^2)` is infinite from two
    dimensions on.

    Parameters
    ----------
    background : bool, default=False
        Whether each class also has a normal distribution; see :class:`Compact`.
    beta : float in (0, 1), "count", "em" or "gradient", default="count"
        The share of that distribution; see :class:`Compact`.
    """

    background: bool = False
    beta: float | str = "count"
    family: ClassVar[int] = 1
    #: whether every distance is within range
    reaches_everywhere: ClassVar[bool] = True
    #: whether the derivative by the squared distance is bounded
    smooth: ClassVar[bool] = True
    #: factor of the coordinates in compiled loops
    coordinate_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float | None:
        """The power of ``1 + u²`` in the reciprocal of the kernel."""
        return 0.5 * (d + 1)

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances, and its derivative."""
        power = 0.5 * (d + 1)
        return power * np.log1p(squared), power / (1.0 + squared)

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions."""
        return 0.5 * (d + 1) * math.log(math.pi) - math.lgamma(0.5 * (d + 1))


@dataclass(frozen=True, kw_only=True)
class Laplace:
    r""":math:`\kappa(u) = e^{-u}`: a tail between the Gaussian's and Student's ([Ye2024]).

    At distance zero it has a kink: the gradient with respect to a point is a unit vector times the
    weight of the pair, and the unit vector has no limit.  There it is defined as zero, so that
    duplicates have no effect on each other.

    Parameters
    ----------
    background : bool, default=False
        Whether each class also has a normal distribution; see :class:`Compact`.
    beta : float in (0, 1), "count", "em" or "gradient", default="count"
        The share of that distribution; see :class:`Compact`.
    """

    background: bool = False
    beta: float | str = "count"
    family: ClassVar[int] = 3
    #: whether every distance is within range
    reaches_everywhere: ClassVar[bool] = True
    #: whether the derivative by the squared distance is bounded
    smooth: ClassVar[bool] = False
    #: factor of the coordinates in compiled loops: exp(-d) = 2**-(scaled d)
    coordinate_scale: ClassVar[float] = math.log2(math.e)

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float | None:
        """0, which no power of ``1 + u²`` can be: the sign of this kernel in compiled loops."""
        return 0.0

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances, and its derivative, 0 at distance zero."""
        u = np.sqrt(np.maximum(squared, 0.0))  # rounding may give less than zero
        return u, np.divide(0.5, u, out=np.zeros_like(u), where=u > 0)

    def log_integral(self, d: int) -> float:
        r"""Logarithm of the integral over d dimensions.

        :math:`2 \pi^{d/2} \Gamma(d) / \Gamma(d/2)`, the unit sphere times that of
        :math:`u^{d-1} e^{-u}`.
        """
        sphere = math.log(2.0) + 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d)
        return sphere + math.lgamma(d)


@dataclass(frozen=True, kw_only=True)
class Compact:
    r""":math:`\kappa(u) = (1 - u^2)^2` up to u = 1 and zero beyond ([Oneata2011] eq. (4.16)).

    A point out of range of all others has probability zero, which has no logarithm for the
    objective "log".  So by default each class also has a background, a normal distribution with
    the mean and covariance of its embedded rows (section 4.6).

    Parameters
    ----------
    background : bool, default=True
        Whether there is one.  Without it, only the objective "accuracy" is defined.
    beta : float in (0, 1), "count", "em" or "gradient", default="count"
        The share of the background in its class: a number; "count", :math:`1 / (N_c + 1)`, the same
        share as each point has; "em" or "gradient", which start from "count" and are learnt for
        each class between runs of the solver.  EM makes the rows of a class likely, but need not
        separate the classes: if classes are nearly normal, it leaves almost no share to the
        kernels.  "gradient" lowers the objective itself ([Oneata2011] eq. (4.24)).
    """

    background: bool = True
    beta: float | str = "count"
    family: ClassVar[int] = 2
    #: whether every distance is within range
    reaches_everywhere: ClassVar[bool] = False
    #: whether the derivative by the squared distance is bounded
    smooth: ClassVar[bool] = True
    #: factor of the coordinates in compiled loops
    coordinate_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _check(self)

    def power(self, d: int) -> float | None:
        """None: the kernel has no power of ``1 + u²``; see `Student`."""
        return None

    def energy(self, squared: Array, d: int) -> tuple[Array, Array | None]:
        """``-ln kappa`` of squared distances (inf out of range), and its derivative (0 there)."""
        inside = squared < 1.0
        rest = np.where(inside, 1.0 - squared, 1.0)
        energy = np.where(inside, -2.0 * np.log(rest), np.inf)
        return energy, np.where(inside, 2.0 / rest, 0.0)

    def log_integral(self, d: int) -> float:
        """Logarithm of the integral over d dimensions: 8 V_d / ((d + 2)(d + 4)).

        V_d is the volume of the unit ball; the 16/15 in [Oneata2011] section 4.6 is for d = 1.
        """
        ball = 0.5 * d * math.log(math.pi) - math.lgamma(0.5 * d + 1.0)
        return math.log(8.0) + ball - math.log((d + 2.0) * (d + 4.0))

    def gaussian_scale(self, d: int) -> float:
        """The scale of a map at which the kernel is as wide as the Gaussian one at scale one.

        Over d dimensions the mean of u² is d / (d + 6), that of the Gaussian kernel d / 2.
        """
        return math.sqrt(2.0 / (d + 6.0))


Kernel = Gaussian | Student | Laplace | Compact

_BY_NAME: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "student": Student,
    "laplace": Laplace,
    "compact": Compact,
}


def _check(kernel: Kernel) -> None:
    check_bool(kernel, "background")
    check_number(kernel, "beta", 0, 1, open_ends=True, or_else=("count", "em", "gradient"))


def resolve(kernel: Any, owner: str = "NCA") -> Kernel:
    """The kernel with a given name and default parameters; a kernel object is returned unchanged.

    Parameters
    ----------
    kernel : str or Kernel
        One of "gaussian", "student", "laplace", "compact", or an object such as
        ``Compact(beta=0.1)``.
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
        If ``kernel`` is neither a name nor a kernel object (a class must be called first).
    """
    return part_of(kernel, _BY_NAME, Kernel, "kernel", owner, "kernel such as Compact(beta=0.1)")


def check_use(kernel: Kernel, neighborhood: Any, objective: str, name: str) -> None:
    """Reject a compact kernel with trees, and one without a background with the log objective."""
    trees = neighborhood is not None and not neighborhood.makes_lists
    if trees and not kernel.reaches_everywhere:
        raise ValueError(
            f"The 'neighborhood' parameter of {name} must be 'auto', 'all', 'nearest' or 'random' "
            f"where 'kernel' is {kernel!r}, which is zero beyond distance one. "
            f"Got {neighborhood!r} instead."
        )
    if not (kernel.reaches_everywhere or kernel.background) and objective == "log":
        raise ValueError(
            f"The 'kernel' parameter of {name} must reach everywhere, or have a background, where "
            "'objective' is 'log': a row with nothing in range has probability 0, which has no "
            f"logarithm. Got {kernel!r} instead. Or use objective='accuracy'."
        )
