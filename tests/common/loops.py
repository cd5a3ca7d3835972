"""A function to minimise, and a score that peaks during the minimisation."""

import numpy as np

CURVATURES = np.logspace(0, 3, 8)
START = np.linspace(2.0, 4.0, 8)


def fun(theta, batch=None):
    """A quadratic plus a quartic, minimum 0.25 at (1, ..., 1)."""
    away = theta - 1.0
    value = 0.25 + 0.5 * CURVATURES @ away**2 + 0.1 * np.sum(away**4)
    return float(value), CURVATURES * away + 0.4 * away**3


def monitor_peaking_at(loss):
    return lambda theta: -abs(fun(theta)[0] - loss)
