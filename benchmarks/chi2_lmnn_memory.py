"""Seconds and peak memory of χ²-LMNN on many histograms of many bins.

    python benchmarks/chi2_lmnn_memory.py
    python benchmarks/chi2_lmnn_memory.py --quick       # few rows, to see that it runs
    python benchmarks/chi2_lmnn_memory.py --output      # also results/chi2_lmnn_memory.md

Ten classes of histograms, each a mixture of Dirichlet distributions; one fit for each number of
rows and components.  What all pairs of rows would take against it is arithmetic.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product
from typing import Any

import numpy as np
from _common import add_output, facts, progress, read_options, seconds, table, write
from _memory import give_back, measure, resident
from sklearn.exceptions import ConvergenceWarning

from vicinal import Chi2LMNN

N_CLASSES = 10
N_PARTS = 3  # of a class
N_TEST = 1000


def histograms(n: int, bins: int) -> tuple[Any, Any]:
    """Rows of float32 that sum to one, and their classes; made in blocks, to leave nothing over."""
    rng = np.random.default_rng(0)
    # bins that are rare are so in all classes, which overlap: impostors are many
    shape = 0.02 + rng.gamma(0.3, size=bins)
    shape = 0.25 * shape * np.exp(0.5 * rng.standard_normal((N_CLASSES * N_PARTS, bins)))
    y = rng.integers(0, N_CLASSES, n)
    part = N_PARTS * y + rng.integers(0, N_PARTS, n)
    X = np.empty((n, bins), np.float32)
    for first in range(0, n, 512):
        rows = slice(first, first + 512)
        draws = rng.gamma(shape[part[rows]])
        X[rows] = draws / draws.sum(axis=1, keepdims=True)
    return X, y


def fit_row(X: Any, y: Any, rank: int, max_iter: int) -> list[Any]:
    """One fit: seconds, memory beyond the input, what was learnt."""
    X, X_test, y, y_test = X[:-N_TEST], X[-N_TEST:], y[:-N_TEST], y[-N_TEST:]
    model = Chi2LMNN(rank, max_iter=max_iter, random_state=0)
    give_back()
    core = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # max_iter is small on purpose
        took, peak = measure(lambda: model.fit(X, y), resident())
    core = time.process_time() - core
    n, bins = X.shape
    memory = "" if peak is None else f"{peak / 2**20:.0f} MiB"
    return [
        f"{n:,}", bins, rank, f"{X.nbytes / 2**20:.0f} MiB", seconds(took), seconds(core),
        model.n_iter_, model.history_["n_evaluations"][-1], memory,
        f"{model.plan_.cost.memory_bytes / 2**20:.0f} MiB", f"{4 * n * n / 2**20:,.0f} MiB",
        f"{100 * model.score(X_test, y_test):.1f} %",
    ]  # fmt: skip


def fits(options: argparse.Namespace) -> str:
    """The table."""
    cells = []
    for n, rank in product(options.sizes, options.ranks):
        progress(f"{n:,} rows, r = {rank}")
        X, y = histograms(n + N_TEST, options.bins)
        cells.append(fit_row(X, y, rank, options.max_iter))
        progress(" | ".join(map(str, cells[-1])))  # what is there is not lost
    header = [
        "rows", "bins", "r", "input", "seconds", "core seconds", "iterations", "evaluations",
        "memory beyond the input", "as the plan says", "one N × N array", "test accuracy",
    ]  # fmt: skip
    notes = [
        f"`Chi2LMNN(r, max_iter={options.max_iter}, random_state=0)` on float32, {N_CLASSES} "
        f"classes of {N_PARTS} Dirichlet distributions each; compiled code at hand",
        "memory: the peak of what the process holds during `fit` less what it held before, the "
        "normalised copy of the rows among it",
        "one N × N array: what a single matrix of distances in float32 would take; a triple of "
        "rows is never stored",
        f"test accuracy: votes of three, {N_TEST:,} further rows",
    ]
    return table(header, cells, notes)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and bins")
    parser.add_argument("--sizes", nargs="+", type=int, help="default: 5000 10000")
    parser.add_argument("--ranks", nargs="+", type=int, help="default: 20")
    parser.add_argument("--bins", type=int, help="default: 800")
    parser.add_argument("--max-iter", type=int, default=10, help="iterations of a fit")
    add_output(parser, "chi2_lmnn_memory")
    options = read_options(parser, arguments)
    options.sizes = options.sizes or ((300,) if options.quick else (5000, 10_000))
    options.ranks = options.ranks or ((3,) if options.quick else (20,))
    options.bins = options.bins or (40 if options.quick else 800)
    return options


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the report."""
    options = parse(arguments)
    about = facts()
    if not options.quick:
        progress("compiling")
        X, y = histograms(4200 + N_TEST, 40)  # as many as have the start of large data
        fit_row(X, y, 3, 1)
    report = f"# χ²-LMNN: seconds and memory\n\n{about}\n\n{fits(options)}\n"
    print(report, flush=True)
    write(report, options.output)


if __name__ == "__main__":
    main()
