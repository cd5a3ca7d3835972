"""What is no part of a fit has the same bits on any number of threads, too.

The parts of a fit are tested over their own lists, in the other files of this folder.
"""

from __future__ import annotations

import numpy as np
import pytest
from common.checks import set_threads
from threadpoolctl import threadpool_limits

from vicinal.affinities import affinities
from vicinal.densities import Compact
from vicinal.engines.cpu.trees import Bounded
from vicinal.maps import project_columns
from vicinal.models.votes import VotingModel
from vicinal.neighborhoods import target_neighbors
from vicinal.objectives import descend_background, em_background, nca
from vicinal.targets import Labels

BETA = np.array([0.3, 0.05, 0.7])


def points(rng, n, d=2):
    """Points of three classes, with ties."""
    y = np.arange(n) % 3
    Z = rng.standard_normal((n, d)) + rng.standard_normal((3, d))[y]
    Z[n // 2 :] = Z[: n - n // 2]
    return Z, y


def nearest(rng, d):
    Z = points(rng, 700, d)[0]
    return VotingModel(Z, Labels(np.arange(700) % 2), None, 3).nearest(Z[:200], 5)


def of_affinities(rng, metric):
    found = affinities(rng.standard_normal((1300, 9)), 8.0, 5, metric=metric)
    return found.indices, found.marginals, found.entropy, found.missing


def by_trees(rng):
    Z, y = points(rng, 900, 4)
    return nca(Z.astype(np.float32), y, pairs=Bounded(0.05, always=True))


COMPUTED = {
    "projection onto the simplex": lambda rng: project_columns(rng.standard_normal((700, 900))),
    "background by EM": lambda rng: em_background(*points(rng, 2500), BETA),
    "background by descent": lambda rng: descend_background(
        *points(rng, 1500), BETA, kernel=Compact()
    ),
    "nca with a background": lambda rng: nca(*points(rng, 2500, 7), "log", background=BETA),
    "nca by trees": by_trees,
    "nearest by a tree": lambda rng: nearest(rng, 3),
    "nearest by all distances": lambda rng: nearest(rng, 12),
    "target neighbours": lambda rng: target_neighbors(*points(rng, 700, 5), 3),
    "affinities": lambda rng: of_affinities(rng, "euclidean"),
    "affinities by another metric": lambda rng: of_affinities(rng, "manhattan"),
}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
def test_thread_count_agnosticism(compute, monkeypatch, global_random_seed):
    answers = []
    for threads in (1, 2, 3):
        set_threads(monkeypatch, threads)
        with threadpool_limits(min(threads, 2)):
            found = compute(np.random.default_rng(global_random_seed))
        answers.append(found if isinstance(found, tuple) else (found,))
    for other in answers[1:]:
        for part, expected in zip(other, answers[0], strict=True):
            np.testing.assert_array_equal(part, expected)
