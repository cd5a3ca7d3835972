"""From the power sums of weights to the sums over all sets of k: Newton's identities."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import kernel


@kernel
def newton(sums, error, rounding, first, last, log_total, coefficients, doubt, scratch):
    """log e_k of rows first:last, the coefficients of their marginals, and the error of log e_k.

    ``sums`` (k, n) are S_1, ..., S_k.  With S = S_1 and E_m = m! e_m / S^m, which is near 1 if no
    weight dominates, E_m = sum over r of (-1)^(r-1) (m-1)! / (m-r)! E_{m-r} S_r / S^r.  The
    marginals are the sum over m of c_m w^m, c_m = (-1)^(m-1) e_{k-m} / e_k.  As the derivative of
    log e_k by S_m is c_m / m, an error ``error[m] (1/4 + S_m) + rounding[m]`` of S_m becomes
    ``doubt`` (n,), inf if the identities cancel altogether.  ``scratch`` is (k + 1,).
    """
    k = sums.shape[0]
    log_factorial = 0.0
    for m in range(2, k + 1):
        log_factorial += np.log(float(m))
    for i in range(first, last):
        s = sums[0, i]
        scratch[0], scratch[k] = 1.0, 0.0
        if s > 0.0:
            for m in range(1, k + 1):
                total, falling, power = 0.0, 1.0, 1.0 / s
                for r in range(1, m + 1):
                    total += falling * scratch[m - r] * sums[r - 1, i] * power
                    falling *= r - m
                    power /= s
                scratch[m] = total
        if not scratch[k] > 0.0:
            log_total[i], doubt[i] = -np.inf, np.inf
            coefficients[:, i] = 0.0
            continue
        log_total[i] = k * np.log(s) - log_factorial + np.log(scratch[k])
        falling, uncertain = 1.0, 0.0
        for m in range(1, k + 1):
            falling *= (k - m + 1) / s
            c = falling * scratch[k - m] / scratch[k]
            size = error[m - 1] * (0.25 + sums[m - 1, i]) + rounding[m - 1]
            uncertain += abs(c) * size / m
            coefficients[m - 1, i] = c if m % 2 else -c
        doubt[i] = uncertain
