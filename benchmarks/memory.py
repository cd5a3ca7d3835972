"""The memory that a fit says it will take, against the memory that it takes.

    python benchmarks/memory.py
    python benchmarks/memory.py --only lists trees       # some paths
    python benchmarks/memory.py --scale 0.1              # a tenth of the rows, to see that it runs
    python benchmarks/memory.py --output                 # also results/memory.md

Each path runs in a process of its own, after a small fit of the same kind, so that compiled code
and libraries are loaded.  The peak of resident memory over that after the data were made is set
against ``estimate_cost``.  The classes lie far apart, so that the exact objective leaves out most
pairs, and the fits make few steps: memory depends on neither.  Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
from _common import add_output, facts, progress, read_options, table, write
from _memory import give_back, measure, resident

_WARM_UP = 1500  # rows of the small fit


class Path(NamedTuple):
    """One way through the library: an estimator, and the shape of its data."""

    words: str
    n: int
    n_features: int
    dtype: str = "float32"


PATHS = {
    "exact, d = 2": Path("NCA(2, max_iter=3, tol=1.0, **EXACT)", 100_000, 20),
    "exact, d = 32": Path("NCA(32, max_iter=3, tol=1.0, **EXACT)", 60_000, 40),
    "exact, float64": Path("NCA(32, max_iter=3, tol=1.0, **EXACT)", 60_000, 80, "float64"),
    "integers": Path("NCA(5, max_iter=3, tol=1.0, **EXACT)", 60_000, 100, "int64"),
    "sparse": Path("NCA(10, max_iter=3, tol=1.0, **EXACT)", 60_000, 60, "sparse"),
    "small copy": Path("NCA(10, max_iter=3, tol=1.0, **EXACT)", 40_000, 100),
    "batches": Path("NCA(max_iter=3)", 300_000, 40),
    "wide batches": Path("NCA(max_iter=3)", 50_000, 600),
    "sub-sample": Path("NCA(10, sampling='subsample', max_iter=3)", 300_000, 40),
    "queries": Path("NCA(10, sampling=StochasticQueries(50), max_iter=2)", 300_000, 40),
    "early stopping": Path(
        "NCA(10, early_stopping=True, max_iter=3, tol=1.0, **EXACT)", 60_000, 40
    ),
    "lists": Path("NCA(3, neighborhood=Nearest(50), max_iter=2)", 100_000, 20),
    "lists, d = 10": Path("NCA(10, neighborhood=Nearest(50), max_iter=2)", 20_000, 20),
    "random lists": Path("NCA(5, neighborhood=RandomPairs(50), max_iter=2)", 100_000, 20),
    "trees": Path("NCA(3, neighborhood='tree', max_iter=1, init=FAR)", 100_000, 20),
    "compact": Path("NCA(3, kernel='compact', max_iter=3, tol=1.0, **EXACT)", 100_000, 20),
    "votes": Path("NCA(3, rule='knn', n_neighbors='auto', **FEW)", 200_000, 20),
    "kNCA": Path("KNCA(3, max_iter=3, tol=1.0, **EXACT)", 20_000, 20),
    "kNCA, lists": Path("KNCA(3, neighborhood=Nearest(50), max_iter=2)", 50_000, 20),
    "kNCA, batches": Path("KNCA(3, sampling=MiniBatches(2000), max_iter=2)", 200_000, 20),
    "LMNN": Path("LMNN(3, max_iter=1)", 20_000, 20),
    "LMNN, full rank": Path("LMNN(max_iter=1)", 10_000, 40),
    "χ²-LMNN": Path("Chi2LMNN(20, max_iter=1)", 5_000, 400),
    "χ²-LMNN, full rank": Path("Chi2LMNN(max_iter=1)", 5_000, 60),
}


def data(path: Path, n: int) -> tuple[Any, Any]:
    """Ten classes far apart, made in blocks, so that nothing is left over."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    centres = rng.normal(size=(10, path.n_features))
    kind = {"sparse": "float32"}.get(path.dtype, path.dtype)
    X = np.empty((n, path.n_features), kind)
    for first in range(0, n, 1024):
        rows = slice(first, first + 1024)
        block = centres[y[rows]] + 0.3 * rng.normal(size=(len(y[rows]), path.n_features))
        X[rows] = np.abs(block) if "Chi2" in path.words else 100 * block
    if "Chi2" in path.words:
        X /= X.sum(axis=1, keepdims=True)
    if path.dtype == "sparse":
        X[np.abs(X) < 60] = 0
        return sp.csr_matrix(X), y
    return X, y


def estimator(path: Path) -> Any:
    """The estimator of a path."""
    import vicinal
    from vicinal.neighborhoods import Nearest, RandomPairs
    from vicinal.samplers import MiniBatches, StochasticQueries

    rank = path.words.split("(")[1].split(",")[0]
    far = 20.0 * np.eye(int(rank) if rank.isdigit() else 1, path.n_features)
    names = {name: getattr(vicinal, name) for name in vicinal.__all__}
    names |= {"FAR": far, "Nearest": Nearest, "RandomPairs": RandomPairs}
    names["EXACT"] = {"init": far, "sampling": "full"}
    names["FEW"] = {"sampling": "subsample", "max_iter": 2}
    names |= {"MiniBatches": MiniBatches, "StochasticQueries": StochasticQueries}
    return eval(path.words, names).set_params(random_state=0)


def one(path: Path, scale: float) -> None:
    """Measure one path, and print the result as JSON."""
    warnings.simplefilter("ignore")
    estimator(path).fit(*data(path, _WARM_UP))
    X, y = data(path, int(path.n * scale))
    model = estimator(path)
    stated = model.estimate_cost(X).memory_bytes
    give_back()
    took, peak = measure(lambda: model.fit(X, y), resident())
    print(json.dumps({"stated": stated, "peak": peak, "took": took}))


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=list(PATHS), choices=list(PATHS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    add_output(parser, "memory")
    options = read_options(parser)
    if options.one is not None:
        one(PATHS[options.one], options.scale)
        return
    cells = []
    for name in options.only:
        progress(name)
        path = PATHS[name]
        command = [sys.executable, __file__, "--one", name, "--scale", str(options.scale)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(run.stdout.splitlines()[-1])
        stated, peak = found["stated"] / 2**20, found["peak"] / 2**20
        cells.append(
            [name, f"`{path.words}`", f"{int(path.n * options.scale):,} × {path.n_features}",
             path.dtype, f"{stated:.0f}", f"{peak:.0f}", f"{peak / stated:.2f}"]
        )  # fmt: skip
        progress(f"{cells[-1][-3:]} {found['took']:.1f} s")
    header = ["path", "estimator", "rows", "input", "stated, MiB", "taken, MiB", "taken / stated"]
    title = "# Memory beyond the input: stated and taken"
    report = "\n\n".join([title, facts(), table(header, cells)])
    print(report, flush=True)
    write(report, options.output)


if __name__ == "__main__":
    main()
