"""A learning problem and passes over its rows, for tests of samplers and solvers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.targets import Labels

__all__ = ["D", "make_problem", "one_pass", "random_states"]

D = 4


def make_problem(rng, n=90, split=True, sparse=False, objective="log", **kwargs):
    """NCA to two dimensions on n rows of three classes, of which 15 may be held out."""
    y = np.arange(n) % 3
    X = rng.standard_normal((n, D)) + 2.0 * rng.standard_normal((3, D))[y]
    if split:
        rows = rng.permutation(n)
        kwargs |= {"train": np.sort(rows[: n - 15]), "held_out": rows[n - 15 :]}
    fun = NCALoss(objective)
    features = Features(sp.csr_matrix(X) if sparse else X, "standard")
    return Problem(features, Labels(y), fun, Linear(2), alpha=0.01, **kwargs)


def random_states(*seeds):
    return [np.random.RandomState(seed) for seed in seeds]


def one_pass(sampler, source, theta=None, seed=0):
    """The batches of the first pass of a run."""
    first, second = random_states(seed, seed + 1)
    return sampler.dealer(source, first)(theta, second)
