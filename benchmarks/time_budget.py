"""Seconds asked for by ``time_budget``, against the seconds that a fit takes.

    python benchmarks/time_budget.py
    python benchmarks/time_budget.py --rows 20000 --budgets 5      # a quick look
    python benchmarks/time_budget.py --fresh                       # compiled again in each process
    python benchmarks/time_budget.py --output                      # also results/time_budget.md

Each fit runs in a process of its own.  The time until the first evaluation has ended, compilation
included, cannot be cut: it stands next to the whole.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

from _common import add_output, facts, progress, read_options, table, write

N_FEATURES = 30
#: what is fitted, with the parameters of each
FITS: dict[str, str] = {
    "NCA()": "NCA()",
    "NCA(2)": "NCA(2)",
    "on all rows": "NCA(5, sampling='full')",
    "lists": "NCA(5, neighborhood='nearest')",
    "early stopping": "NCA(early_stopping=True)",
    "search": "NCA(5, alpha='auto')",
    "votes": "NCA(5, rule='knn', n_neighbors='auto')",
    "kNCA": "KNCA(5)",
    "LMNN": "LMNN(5)",
}


def rows(n: int) -> tuple[Any, Any]:
    """Ten normal classes that overlap, in float32."""
    import numpy as np

    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    centres = rng.normal(size=(10, N_FEATURES))
    return (centres[y] + 1.5 * rng.normal(size=(n, N_FEATURES))).astype(np.float32), y


def one_fit(words: str, n: int, budget: float) -> None:
    """Fit once, and print what it took as JSON."""
    import vicinal

    X, y = rows(n)
    model = eval(words, {name: getattr(vicinal, name) for name in vicinal.__all__})
    model.set_params(time_budget=budget, random_state=0)
    began = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    took = time.perf_counter() - began
    history = model.history_
    steps = history["seconds"][-1] - history["seconds"][0]
    print(json.dumps({"took": took, "steps": steps, "n_iter": model.n_iter_}))


def measured(words: str, n: int, budget: float, fresh: bool) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", words, "--rows", str(n)]
    command += ["--budgets", str(budget)]
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, NUMBA_CACHE_DIR=folder) if fresh else dict(os.environ)
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout
    return json.loads(said.splitlines()[-1])


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--budgets", type=float, nargs="+", default=[10.0, 30.0])
    parser.add_argument("--fits", nargs="+", default=list(FITS), choices=list(FITS))
    parser.add_argument("--fresh", action="store_true", help="compile again in each process")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    add_output(parser, "time_budget")
    options = read_options(parser)
    if options.one is not None:
        one_fit(options.one, options.rows, options.budgets[0])
        return
    cells = []
    for name in options.fits:
        for budget in options.budgets:
            progress(f"{name}, {budget:g} s")
            found = measured(FITS[name], options.rows, budget, options.fresh)
            cells.append(
                [f"`{FITS[name]}`", f"{budget:g}", f"{found['took']:.1f}",
                 f"{found['took'] / budget:.2f}", f"{found['steps']:.1f}", found["n_iter"]]
            )  # fmt: skip
            progress(" | ".join(map(str, cells[-1])))
    header = ["fit", "asked", "taken", "ratio", "of these, steps", "iterations"]
    title = f"# A time budget on {options.rows:,} × {N_FEATURES}"
    report = "\n\n".join([title, facts(), table(header, cells)])
    print(report, flush=True)
    write(report, options.output)


if __name__ == "__main__":
    main()
