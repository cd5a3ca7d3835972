"""Fits on small data: how long the first takes in a fresh process, and how long each after it.

A fit of NCA stands beside scikit-learn's, on the same standardised data with the same number of
components.  Each time is the least of several: what else runs on a machine only ever adds to it.

    python benchmarks/small_fits.py --data DIR [--repeats 5] [--out benchmarks/results/small_fits.md]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

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
start = time.perf_counter()
model = {name}(random_state=0).fit(X, y)
model.predict(X)
print(time.perf_counter() - start)
"""


def data(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows and labels of a data set."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"].astype(np.float64), file["y"]
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y


def model(method: str, d: int) -> object:
    """An estimator with d components and otherwise default parameters."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    import vicinal

    if method == "scikit-learn NCA":
        return NeighborhoodComponentsAnalysis(n_components=d, random_state=0)
    return getattr(vicinal, method)(n_components=d, random_state=0)


def warm_fit(method: str, X: np.ndarray, y: np.ndarray, d: int, repeats: int) -> tuple[float, int]:
    """Seconds of the fastest fit, and its iterations."""
    best, n_iter = np.inf, 0
    if method == "Chi2LMNN":  # histograms
        X = X - X.min(axis=0)
        X = (X + 1e-3) / (X + 1e-3).sum(axis=1)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            estimator = model(method, d)
            start = time.perf_counter()
            estimator.fit(X, y)
            best = min(best, time.perf_counter() - start)
            n_iter = int(np.max(estimator.n_iter_))
    return best, n_iter


def first_fit(name: str) -> float:
    """Seconds of fit and predict on wine in a fresh process with nothing in numba's cache."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _FIRST.format(name=name)],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)


def table(folder: Path, repeats: int) -> list[str]:
    lines = [
        "| data | N | D | d | " + " | ".join(METHODS) + " |",
        "|---|" + "---|" * (len(METHODS) + 3),
    ]
    for name in SETS:
        X, y = data(folder, name)
        for d in (2, X.shape[1]):
            cells = []
            for method in METHODS:
                seconds, n_iter = warm_fit(method, X, y, d, repeats)
                cells.append(f"{seconds:.3f} ({n_iter})")
            lines.append(f"| {name} | {len(X)} | {X.shape[1]} | {d} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the .npz files")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    lines = ["# Fits on small data", ""]
    lines += ["Seconds of a warm fit, the least of several, and in brackets its iterations.", ""]
    lines += table(args.data, args.repeats)
    lines += ["", "Seconds of the first `fit` and `predict` on wine in a fresh process, after the"]
    lines += ["imports, with an empty numba cache:", ""]
    lines += [f"- {name}: {min(first_fit(name) for _ in range(2)):.2f}" for name in METHODS[1:]]
    lines += ["", f"Load of the machine when it began: {load:.1f} on {os.cpu_count()} cores."]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
