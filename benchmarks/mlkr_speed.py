"""MLKR beside metric-learn's: seconds and memory of an evaluation and of a fit.

    python benchmarks/mlkr_speed.py --metric-learn-python A/bin/python
    python benchmarks/mlkr_speed.py --quick             # small data, under a minute
    python benchmarks/mlkr_speed.py --output            # also benchmarks/results/mlkr_speed.md

metric-learn needs an environment of its own, made once::

    python3.11 -m venv A && A/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2

Without it vicinal runs alone.  Prints one report in markdown on standard output, and progress on
standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, commit, early_map, facts, progress, ratio, seconds, table, write
from _mlkr_worker import ITERATIONS
from sklearn.datasets import make_friedman1

WORKER = Path(__file__).with_name("_mlkr_worker.py")
SIZES, QUICK = ((1000, 10, 2), (1000, 10, 10), (4000, 20, 2)), ((1000, 10, 2),)
#: one thread each: threads that wait for each other would count as work of the processor
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run_once(python: str, method: str, task: str, folder: Path) -> dict[str, Any]:
    """One run in a fresh process."""
    command = [python, str(WORKER), method, task, str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD}
    )
    if done.returncode:
        raise RuntimeError(f"{method} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compete(pythons: dict[str, str], task: str, folder: Path, repeats: int) -> dict[str, Any]:
    """The least of some runs of each method, in turns, so that a drift hits them all."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    for turn in range(repeats):
        for method, python in pythons.items():
            progress(f"{task}: {method}, run {turn + 1}")
            found[method].append(run_once(python, method, task, folder))
    best = {}
    for method, answers in found.items():
        least = {
            key: min(answer[key] for answer in answers)
            for key in ("seconds", "processor", "memory")
        }
        best[method] = {**answers[-1], **least}
    return best


def cost(X: Any, y: Any, A: Any) -> float:
    """R² of each row predicted by the others, at a map."""
    from vicinal.objectives import mlkr

    return 1.0 - mlkr(X @ A.T, y, gradient=False)[0] / float(np.var(y))


def rows_of(
    size: tuple[int, int, int], pythons: dict[str, str], repeats: int
) -> tuple[list[list[str]], list[str]]:
    """The rows of one size, and the versions of the libraries."""
    n, n_features, d = size
    X, y = make_friedman1(n, n_features, noise=1.0, random_state=0)
    A = early_map(X, d)
    rows, versions = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "data.npz", X=X, y=y, A=A)
        for task in ("evaluation", "fit"):
            best = compete(pythons, task, folder, repeats)
            ours = best["vicinal"]
            for method, found in best.items():
                if task == "evaluation":
                    result = f"{found['value']:.6f}"
                else:
                    result = f"{cost(X, y, np.load(folder / f'{method}.npy')):.4f}"
                compared = "–" if method == "vicinal" else ratio(
                    found["processor"], ours["processor"]
                )  # fmt: skip
                rows.append([
                    f"{n:,} × {n_features} → {d}", task, method, seconds(found["seconds"]),
                    seconds(found["processor"]), compared, f"{found['memory'] / 2**20:,.1f} MiB",
                    result,
                ])  # fmt: skip
                if found["versions"]:
                    versions.append(f"{method}: {', '.join(found['versions'])}")
    return rows, versions


NOTES = (
    "Data: `make_friedman1(n, n_features, noise=1.0, random_state=0)`, columns and y as given, no "
    "penalty; both start from the same random map, which is used as given. float64; vicinal's fit "
    "begins in float32, as it does from 1,000 rows on, and ends in float64.",
    "evaluation: one value and gradient; the value is the sum of squared errors. fit: "
    f"{ITERATIONS} iterations of L-BFGS, each library's own; the result is R² of each row as "
    "predicted by the others, at the learnt map.",
    "Each run in a fresh process, in turns; the least of the repeats. Import, reading and "
    "compilation are not counted.",
    "ratio: of the processor's seconds, which a busy machine changes less; one thread each. "
    "memory: peak beyond the data.",
)


def report(options: argparse.Namespace) -> str:
    """The table and what is to be known about it."""
    pythons = {"vicinal": sys.executable}
    if options.metric_learn_python:
        pythons["metric-learn"] = options.metric_learn_python
    rows, versions = [], []
    for size in QUICK if options.quick else SIZES:
        new, used = rows_of(size, pythons, options.repeats)
        rows += new
        versions += used
    header = ["data → rank", "task", "method", "time", "processor", "ratio", "memory", "result"]
    left_out = [] if len(pythons) > 1 else ["metric-learn is left out: no interpreter was given."]
    return table(header, rows, [*NOTES, *dict.fromkeys(versions), *left_out])


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metric-learn-python", metavar="PATH", help="interpreter with it")
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each")
    add_output(parser, "mlkr_speed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run and print the report."""
    options = parse(arguments)
    origin = f"Computed at commit `{commit()}` by `python benchmarks/mlkr_speed.py`."
    text = "\n\n".join(["# MLKR beside metric-learn's", facts(), origin, report(options)])
    print(text)
    write(text, options.output)


if __name__ == "__main__":
    main()
