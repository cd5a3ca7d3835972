"""Rows for these tests, and dask arrays of them; tasks that die, and tasks that dawdle."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import cloudpickle
import dask.array as da
import numpy as np

# workers cannot import this file
cloudpickle.register_pickle_by_value(sys.modules[__name__])

RAGGED = (0.16, 0.07, 0.21, 0.02, 0.19, 0.11, 0.14)


def rows(n=3000, D=12, n_classes=5, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = 1.2 * rng.normal(size=(n_classes, D))[y] + rng.normal(size=(n, D))
    return (X * np.linspace(0.5, 3, D) + 2).astype(dtype), y


def ragged(n, shares=RAGGED):
    """Eight blocks of unequal lengths."""
    lengths = [int(share * n) for share in shares]
    return (*lengths, n - sum(lengths))


def lazy(X, lengths=None):
    lengths = ragged(len(X)) if lengths is None else lengths
    return da.from_array(X, chunks=(lengths, *((D,) for D in X.shape[1:])))


def dies_once(marker, function, *args):
    """The task kills its worker at the first call, and only then."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*args)


def dawdles(function, *args):
    time.sleep(random.random() * 0.03)
    return function(*args)


def through(monkeypatch, wrap):
    """Each task is begun as ``wrap(function, args)`` says: another function, and its arguments."""
    from vicinal.dask._cluster import Cluster

    submit = Cluster.submit

    def wrapped(self, function, *args):
        function, args = wrap(function, args)
        return submit(self, function, *args)

    monkeypatch.setattr(Cluster, "submit", wrapped)
