"""Targets of embeddings: marginals of sets of k rows, over lists of some rows."""

from __future__ import annotations

import numpy as np
from formulas import set_marginals

from vicinal.targets import Affinities


def some_affinities(n, k, seed=0, spread=1.5):
    """Lists of 3 k + 2 rows at random, or of all; sets of fewer than k if there are not so many."""
    rng = np.random.default_rng([n, k, seed])
    m = min(3 * k + 2, max(n - 1, 0))
    indices = np.empty((n, m), np.int32)
    for i in range(n):
        others = rng.choice(n - 1, m, replace=False)
        indices[i] = np.sort(others + (others >= i))
    log_w = spread * rng.standard_normal((n, m))
    size = min(k, m)
    marginals, log_total = set_marginals(log_w, size) if m else (log_w, np.zeros(n))
    entropy = log_total - np.sum(marginals * log_w, axis=1)
    return Affinities(np.arange(n + 1) * m, indices.ravel(), marginals.ravel(), k, entropy)
