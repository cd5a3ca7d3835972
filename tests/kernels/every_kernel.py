"""Runs every compiled kernel and prints, as JSON, a digest of what each job gave.

``python every_kernel.py [reverse]``: the jobs in order, or in reverse order.  Also printed: how
many signatures were compiled, how many loaded, and which kernels no job has called.
"""

import hashlib
import importlib
import json
import pkgutil
import sys
import warnings

import numpy as np
from numba.core.dispatcher import Dispatcher

from vicinal import kernels, neighborhoods
from vicinal.affinities import affinities
from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.cpu import ranges, tiles
from vicinal.engines.cpu.potential import GridPotential
from vicinal.metrics import Chi2Index, chi2_distances
from vicinal.objectives import (
    Candidates,
    knca,
    knca_posterior,
    ksne,
    lmnn,
    nca,
    nca_effective_n_neighbors,
    nca_posterior,
)
from vicinal.targets import Affinities, TargetNeighbors

choose.DENSE_UP_TO = 0
tiles.ORDER_FROM = 0
N = 700
JOBS = {}


def job(function):
    """Register a function of a dtype that returns arrays."""
    for dtype in (np.float32, np.float64):
        JOBS[f"{function.__name__} {np.dtype(dtype)}"] = lambda dtype=dtype: function(dtype)
    return function


def points(dtype, d=5, spread=1.0):
    """Points of three classes, in clusters so far apart that some tiles are left out."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    Z = spread * rng.standard_normal((N, d))
    Z[:, 0] += 40.0 * (np.arange(N) % 7)
    return Z.astype(dtype), y


def histograms(dtype):
    H = np.random.default_rng(1).random((N, 21)).astype(dtype)
    return H / H.sum(axis=1, keepdims=True)


@job
def gaussian(dtype):
    return nca(*points(dtype))


@job
def student(dtype):
    return nca(*points(dtype), kernel=Student())


@job
def laplace(dtype):
    Z, y = points(dtype, d=50)
    yield from nca(*points(dtype), kernel=Laplace())
    yield from nca(Z, y, kernel=Laplace())  # distances by products


@job
def compact(dtype):
    Z, y = points(dtype, spread=0.1)
    return nca(Z, y, "accuracy", kernel=Compact())


@job
def in_range(dtype):
    Z, y = points(dtype, spread=0.1)
    index = ranges.make_index(Z, y, np.arange(N))
    return nca(Z, y, "accuracy", kernel=Compact(), queries=np.arange(50), pairs=index)


@job
def by_class(dtype):
    Z, y = points(dtype)
    for kernel in (Gaussian(), Student(), Compact()):
        yield nca_posterior(Z[:300] * dtype(0.02), Z * dtype(0.02), y, kernel=kernel)


@job
def entropies(dtype):
    Z, _ = points(dtype)
    for kernel in (Gaussian(), Student(), Compact()):
        yield nca_effective_n_neighbors(Z * dtype(0.02), kernel=kernel)


@job
def nearest_lists(dtype):
    Z, y = points(dtype)
    lists = neighborhoods.Nearest(m=20, own=2).pairs(Z, y)
    yield lists.indices
    for kernel in (Gaussian(), Student(), Compact()):
        yield from nca(Z * dtype(0.1), y, "accuracy", kernel=kernel, pairs=lists)
    yield neighborhoods.mass_left_out(Z, y, lists, random_state=0)
    yield neighborhoods.sets_left_out(Z, lists, 3, random_state=0)


@job
def random_lists(dtype):
    Z, y = points(dtype)
    lists = neighborhoods.RandomPairs(m=20).pairs(Z, y, random_state=0)
    yield lists.indices
    yield from nca(Z, y, pairs=lists)


@job
def trees(dtype):
    Z, y = points(dtype)
    for kernel in (Gaussian(), Student()):
        for each_class in (False, True):
            pairs = neighborhoods.Tree(0.1, each_class, always=True).pairs(Z, y)
            yield from nca(Z, y, kernel=kernel, pairs=pairs)


@job
def votes(dtype):
    Z, y = points(dtype)
    lists = neighborhoods.Nearest(m=20).pairs(Z, y)
    for vote in ("majority", "all"):
        for scale in (dtype(0.05), dtype(30.0)):  # by sums, and by their logarithms
            yield from knca(scale * Z, y, 3, vote=vote)
            yield from knca(scale * Z, y, 3, vote=vote, pairs=lists)
            yield knca_posterior(scale * Z[:300], scale * Z, y, 3, vote)


@job
def margins(dtype):
    Z, y = points(dtype)
    targets = TargetNeighbors(y, neighborhoods.target_neighbors(Z, y, 3))
    candidates = Candidates()
    for scale in (0.05, 0.050001):  # the second time by the lists of the first
        yield from lmnn(Z * dtype(scale), targets, candidates=candidates)


@job
def chi2_margins(dtype):
    H, y = histograms(dtype), np.arange(N) % 3
    targets = TargetNeighbors(y, neighborhoods.target_neighbors(H, y, 3))
    return lmnn(H, targets, margin=0.05, distance="chi2")


@job
def sets(dtype):
    rng = np.random.default_rng(3)
    for d in (2, 5):
        Z, _ = points(dtype, d)
        Z[:5] *= dtype(1e4)  # far from all others: by the chain
        for k in (1, 4):
            lists = (np.arange(N)[:, None] + np.arange(1, 31)).astype(np.int32) % N
            P = Affinities(np.arange(N + 1) * 30, lists.ravel(), rng.random(30 * N), k, np.zeros(N))
            for kernel, kappa in (("cauchy", 0.0), ("gaussian", 0.0), ("cauchy", 0.1)):
                yield from ksne(Z, P, kernel, kappa=kappa)


@job
def affinities_of_rows(dtype):
    A = affinities(points(dtype)[0], 8.0, 3)
    return A.indices, A.marginals, A.entropy


@job
def sets_by_grid(dtype):
    lists = (np.arange(N)[:, None] + np.arange(1, 31)).astype(np.int32) % N
    for d, k in ((1, 1), (2, 4)):
        Z, _ = points(dtype, d)
        P = Affinities(np.arange(N + 1) * 30, lists.ravel(), np.ones(30 * N), k, np.zeros(N))
        yield from ksne(Z, P, method="fft")
        Z[0] = 1e6  # too far out for the grid
        yield from ksne(Z, P, method="fft")


@job
def sets_at_new_places(dtype):
    Z = points(dtype, 2)[0].astype(np.float64)
    for kernel, kappa in (("cauchy", 0.0), ("gaussian", 0.0), ("cauchy", 0.1)):
        yield from choose.backend(Z, len(Z)).set_potential(Z, 3, kernel, kappa)(Z[:50] + 0.1)
    yield from GridPotential(Z, 3)(Z[:50] + 0.1)


@job
def chi2_rows(dtype):
    H = histograms(dtype)
    yield chi2_distances(H)
    yield chi2_distances(H[:333], H)


@job
def chi2_nearest(dtype):
    H = histograms(dtype)
    yield from Chi2Index(H).kneighbors(H[:333], 5)
    yield from Chi2Index(H).kneighbors(n_neighbors=5)


@job
def simplex(dtype):
    L = np.random.default_rng(2).standard_normal((21, 50)).astype(dtype)
    yield choose.backend(L, L.size).simplex_columns(L, 0.0)


def digest(results):
    found = hashlib.sha256()
    for result in results:
        found.update(np.ascontiguousarray(result).tobytes())
    return found.hexdigest()


def compiled():
    """All kernels, by name."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__):
        names = vars(importlib.import_module(f"vicinal.kernels.{module.name}"))
        for name, function in names.items():
            if isinstance(function, Dispatcher) and hasattr(function._cache, "path"):
                found[f"{function.py_func.__module__}.{name}"] = function
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    names = list(JOBS)[:: -1 if "reverse" in sys.argv else 1]
    digests = {name: digest(JOBS[name]()) for name in names}
    every = compiled()
    stats = [function.stats for function in every.values()]
    print(
        json.dumps(
            {
                "digests": digests,
                "hits": sum(sum(each.cache_hits.values()) for each in stats),
                "misses": sum(sum(each.cache_misses.values()) for each in stats),
                "uncalled": [name for name, function in every.items() if not function.signatures],
            }
        )
    )
