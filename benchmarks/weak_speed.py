"""ITML, MMC, SDML and LSML beside metric-learn's: seconds, and the value that each reaches.

    python benchmarks/weak_speed.py --metric-learn-python A/bin/python
    python benchmarks/weak_speed.py --quick             # wine alone
    python benchmarks/weak_speed.py --output            # also benchmarks/results/weak_speed.md

metric-learn needs an environment of its own, made once::

    python3.11 -m venv A && A/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2

Both get the same constraints on the same standardised columns, and every result is measured by the
same formula, so that times can be compared at what they reach.  Prints one report in markdown on
standard output, and progress on standard error.
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
from _common import add_output, commit, facts, progress, ratio, seconds, table, write
from sklearn.datasets import load_digits, load_wine, make_classification
from sklearn.preprocessing import scale

from vicinal.targets import pairs_from_labels, quadruplets_from_labels

WORKER = Path(__file__).with_name("_weak_worker.py")
METHODS = ("ITML", "ITML, projections", "MMC", "MMC, diagonal", "SDML", "LSML")
SPARSITY = 0.01


def tables_of(quick: bool) -> dict[str, tuple[Any, Any, int | None]]:
    """Rows, labels and number of constraints by name; None: 20 C²."""
    X, y = load_wine(return_X_y=True)
    tables = {"wine": (X, y, None)}
    if not quick:
        X, y = load_digits(return_X_y=True)
        tables["digits"] = (X[:, X.std(axis=0) > 0], y, None)
        made = make_classification(
            5000, 30, n_informative=10, n_classes=4, n_clusters_per_class=1, random_state=0
        )
        tables["synthetic"] = (*made, 5000)
    return tables


def constraints(X: Any, y: Any, n: int | None) -> dict[str, Any]:
    """What both libraries are told."""
    X = scale(X)
    pairs, labels = pairs_from_labels(y, n, random_state=0)
    differ = (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)
    pairs, labels = pairs[differ], labels[differ]
    quadruplets = quadruplets_from_labels(y, n, random_state=0)
    x = X[pairs[:, 0]] - X[pairs[:, 1]]
    lowest = np.linalg.eigvalsh((x.T * labels) @ x)[0]
    sample = X[np.random.RandomState(0).randint(len(X), size=(100_000, 2))]
    squares = np.sum((sample[:, 0] - sample[:, 1]) ** 2, axis=1)
    return {
        "X": X, "pairs": pairs, "y": labels, "quadruplets": quadruplets, "sparsity": SPARSITY,
        "bounds": np.percentile(squares[squares > 0], (5, 95)),
        "balance": min(0.5, -0.5 / lowest) if lowest < 0 else 0.5,
    }  # fmt: skip


def value(method: str, M: Any, data: dict[str, Any]) -> float:
    """The objective of a method at M (docs/theory); the same for both libraries."""
    X, pairs, y = data["X"], data["pairs"], data["y"]

    def squared(at: Any) -> Any:
        x = X[at[:, 0]] - X[at[:, 1]]
        return np.maximum(np.einsum("ij,ij->i", x @ M, x), 0.0)

    if method.startswith("MMC"):
        return np.mean(squared(pairs[y > 0])) / np.mean(np.sqrt(squared(pairs[y < 0]))) ** 2
    divergence = np.trace(M) - np.linalg.slogdet(M)[1] - len(M)
    if method.startswith("ITML"):
        r = squared(pairs) / np.where(y > 0, *data["bounds"])
        r[y * (r - 1.0) <= 0.0] = 1.0
        return divergence + np.sum(r - np.log(r) - 1.0)
    if method == "SDML":
        off = np.abs(M).sum() - np.abs(np.diag(M)).sum()
        return divergence + data["balance"] * (y @ squared(pairs)) + data["sparsity"] * off
    near, far = (np.sqrt(squared(data["quadruplets"][:, at])) for at in ([0, 1], [2, 3]))
    return divergence + np.mean(np.maximum(near - far, 0.0) ** 2)


def fit_once(
    python: str, library: str, method: str, data: dict[str, Any], limit: float
) -> dict[str, Any]:
    """One fit in a fresh process on one thread: the worker's answer and the value, or why not."""
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", **data)
        command = [python, str(WORKER), library, method, folder]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=limit,
                env=environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"trouble": f"over {limit:g} s"}
        if done.returncode:
            words = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            return {"trouble": f"failed: {words[:120].replace('|', '/')}"}
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer | {"value": value(method, np.load(Path(folder) / "M.npy"), data)}


def rows_of(name: str, data: dict[str, Any], pythons: dict[str, str], limit: float) -> list[Any]:
    """The lines of one table of data."""
    rows = []
    size = f"{name} ({len(data['pairs']):,} × {data['X'].shape[1]})"
    for method in METHODS:
        found = {}
        for library, python in pythons.items():
            progress(f"{size}: {method} of {library}")
            found[library] = fit_once(python, library, method, data, limit)
        best = min((f["value"] for f in found.values() if "value" in f), default=np.nan)
        for library, answer in found.items():
            shown = library.replace("_", "-")
            if "trouble" in answer:
                rows.append([size, method, shown, answer["trouble"], "–", "–", "–", "–"])
                continue
            own = found["vicinal"].get("seconds", np.nan)
            excess = (answer["value"] - best) / abs(best)
            rows.append([
                size, method, shown, seconds(answer["seconds"]),
                "–" if library == "vicinal" else ratio(answer["seconds"], own),
                f"{answer['value']:.6g}", f"{excess:.1e}" if excess > 0 else "0",
                "–" if answer["n_iter"] is None else answer["n_iter"],
            ])  # fmt: skip
    return rows


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--metric-learn-python", metavar="PATH", help="Python with metric-learn")
    parser.add_argument("--quick", action="store_true", help="wine alone")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which to give up")
    add_output(parser, "weak_speed")
    options = parser.parse_args()
    pythons = {"vicinal": sys.executable}
    notes = [
        "Size: number of pairs × features. The columns are standardised, and both libraries get "
        "the same pairs and quadruplets, drawn from the labels, and the same bounds, balance and "
        f"sparsity ({SPARSITY}); γ = 1, prior and start the identity; all else as each library has "
        "it by default.",
        "seconds: of the processor, on one thread, each in a fresh process without its imports; "
        "the least of up to three fits. A process is given up after "
        f"{options.limit:g} s. ratio: to vicinal's fit of the same line.",
        "value: the objective of the method at the learnt matrix, by one formula for both "
        "(docs/theory); excess: over the better of the two, as a share.",
        "ITML is vicinal's default, L-BFGS, beside metric-learn's default, which ends when a sweep "
        "changes the multipliers by less than 0.1 %. *ITML, projections*: vicinal's projections "
        "with its default tolerance, beside metric-learn's with tol=1e-6 and no limit of sweeps.",
        "metric-learn's SDML passes an argument that scikit-learn has removed; it is left out "
        "here, or every fit would fail.",
    ]
    if options.metric_learn_python:
        pythons["metric_learn"] = options.metric_learn_python
    else:
        notes.append("metric-learn is left out: no --metric-learn-python was given.")
    rows = []
    for name, (X, y, n) in tables_of(options.quick).items():
        rows += rows_of(name, constraints(X, y, n), pythons, options.limit)
    header = ("data", "method", "library", "seconds", "ratio", "value", "excess", "iterations")
    about = f"{facts()}\n- commit `{commit()}`"
    report = f"# Pairs and quadruplets beside metric-learn\n\n{about}\n\n"
    report += table(header, rows, notes)
    print(report)
    write(report, options.output)


if __name__ == "__main__":
    main()
