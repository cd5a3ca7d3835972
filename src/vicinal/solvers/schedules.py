"""Learning rates that depend on the step: ``rate = schedule(t)``, t = 0 at the first step.

A solver accepts any such callable; these are frozen dataclasses, so that solvers that hold them
can be compared, printed and pickled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vicinal._validation import check_part

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    """The same rate at every step.

    Parameters
    ----------
    rate : float
    """

    rate: float

    def __post_init__(self) -> None:
        check_part(self, "rate")

    def __call__(self, t: int) -> float:
        return self.rate


@dataclass(frozen=True)
class InverseTime:
    r"""A rate that falls with the inverse of the time, [Oneata2011] §5.3.2.

    .. math:: \eta_t = \frac{\eta_0}{t + t_0}

    Its sum is infinite and the sum of its squares is finite, as stochastic approximation requires.
    With larger :math:`t_0` the rate begins lower and falls later; :func:`~vicinal.solvers.tune_t0`
    searches for a good one.

    Parameters
    ----------
    eta0, t0 : float
    """

    eta0: float
    t0: float

    def __post_init__(self) -> None:
        check_part(self, "eta0")
        check_part(self, "t0")

    def __call__(self, t: int) -> float:
        return self.eta0 / (t + self.t0)


@dataclass(frozen=True)
class Cosine:
    r"""A rate that falls along half a cosine, for runs whose length is known.

    .. math:: \eta_t = \text{floor} + \frac{\text{rate} - \text{floor}}{2}
              \Bigl(1 + \cos\frac{\pi \min(t, n)}{n}\Bigr)

    Parameters
    ----------
    rate : float
        Rate of the first step.
    n_steps : int
        n; from step n on the rate stays at ``floor``.
    floor : float
        Lowest rate, at most ``rate``.
    """

    rate: float
    n_steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_part(self, "rate")
        check_part(self, "n_steps", low=1, kind=int, closed=True)
        check_part(self, "floor", closed=True)
        if self.floor > self.rate:
            raise ValueError(
                f"The 'floor' parameter of Cosine must be at most rate={self.rate!r}. "
                f"Got {self.floor!r} instead."
            )

    def __call__(self, t: int) -> float:
        share = min(t, self.n_steps) / self.n_steps
        return self.floor + (self.rate - self.floor) * 0.5 * (1.0 + math.cos(math.pi * share))


def check_rate(part: Any, name: str = "learning_rate") -> None:
    """Refuse a learning rate of ``part`` that is neither a positive number nor a schedule."""
    value = getattr(part, name)
    if callable(value) and not isinstance(value, type):
        return
    try:
        check_part(part, name)
    except ValueError:
        raise ValueError(
            f"The {name!r} parameter of {type(part).__name__} must be a number in (0, inf) or a "
            f"schedule such as Cosine(0.02, 400). Got {value!r} instead."
        ) from None


def rate_at(rate: float | Schedule, t: int) -> float:
    """The rate of step ``t``, from a number or a schedule."""
    return rate(t) if callable(rate) else rate
