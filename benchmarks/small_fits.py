"""Fits on small data: how long the first takes in a fresh process, and how long each after it.

A fit of NCA stands next to scikit-learn's, on the same standardised data with the same number of
components.  Each time is the least of several: what else runs on a machine only ever adds to it.

    VICINAL_DATA=... python benchmarks/small_fits.py
    python benchmarks/small_fits.py --sets iris wine     # those that need no folder
    python benchmarks/small_fits.py --output             # also benchmarks/results/small_fits.md
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from typing import NamedTuple

import numpy as np
from _common import add_output, facts, progress, read_options, table, write
from threadpoolctl import threadpool_limits

SETS = ("iris", "wine", "glass", "ecoli")
METHODS = ("scikit-learn NCA", "NCA", "KNCA", "LMNN", "Chi2LMNN")

_FIRST = """
import sys, time
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler
import scipy.spatial, sklearn.neighbors
import vicinal
from vicinal import {name}
X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X) if {name!r} != "Chi2LMNN" else X / X.sum(axis=1)[:, None]
start, worked = time.perf_counter(), time.process_time()
model = {name}(random_state=0).fit(X, y)
model.predict(X)
print(time.perf_counter() - start, time.process_time() - worked)
"""


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows and labels of a data set."""
    from vicinal import datasets

    X, y = datasets.load(name, return_X_y=True)
    X = np.asarray(X, dtype=np.float64)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y


def model(method: str, d: int) -> object:
    """An estimator with d components and otherwise default parameters."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    import vicinal

    if method == "scikit-learn NCA":
        return NeighborhoodComponentsAnalysis(n_components=d, random_state=0)
    return getattr(vicinal, method)(n_components=d, random_state=0)


class Fit(NamedTuple):
    """Seconds of the fastest of some fits, by the clock and of the processor, and iterations."""

    wall: float
    cpu: float
    n_iter: int

    def __str__(self) -> str:
        return f"{self.wall:.3f} / {self.cpu:.3f} ({self.n_iter})"


def warm_fit(method: str, X: np.ndarray, y: np.ndarray, d: int, repeats: int) -> Fit:
    """Fit several times with BLAS on one thread, as on a machine that has other things to do."""
    wall = cpu = np.inf
    n_iter = 0
    if method == "Chi2LMNN":  # histograms
        X = X - X.min(axis=0)
        X = (X + 1e-3) / (X + 1e-3).sum(axis=1)[:, None]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            estimator = model(method, d)
            begun, worked = time.perf_counter(), time.process_time()
            estimator.fit(X, y)
            wall = min(wall, time.perf_counter() - begun)
            cpu = min(cpu, time.process_time() - worked)
            n_iter = int(np.max(estimator.n_iter_))
    return Fit(wall, cpu, n_iter)


def first_fit(name: str) -> tuple[float, float]:
    """Seconds, by the clock and of the processor, of fit and predict on wine in a fresh process.

    Numba's cache is empty, and the imports are done.
    """
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _FIRST.format(name=name)],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def fits(names: list[str], repeats: int) -> str:
    """The table of warm fits."""
    lines = []
    for name in names:
        X, y = data(name)
        for d in (2, X.shape[1]):
            cells = [str(warm_fit(method, X, y, d, repeats)) for method in METHODS]
            lines.append([name, str(len(X)), str(X.shape[1]), str(d), *cells])
            progress(" | ".join(lines[-1]))
    return table(["data", "N", "D", "d", *METHODS], lines)


def first_fits() -> str:
    """A line for each method."""
    lines = []
    for name in METHODS[1:]:
        wall, cpu = map(min, zip(*(first_fit(name) for _ in range(2)), strict=True))
        lines.append(f"- {name}: {wall:.2f} by the clock, {cpu:.2f} of the processor")
    return "\n".join(lines)


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of data sets")
    add_output(parser, "small_fits")
    options = read_options(parser)
    parts = [
        "# Fits on small data",
        facts(),
        "Seconds of a warm fit by the clock and of the processor, each the least of several, "
        "with BLAS on one thread; in brackets the iterations.",
        fits(options.sets, options.repeats),
        "Seconds of the first `fit` and `predict` on wine in a fresh process, after the imports, "
        "with an empty numba cache:",
        first_fits(),
    ]
    text = "\n\n".join(parts)
    print(text)
    write(text, options.output)


if __name__ == "__main__":
    main()
