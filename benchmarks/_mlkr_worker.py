"""Runs one library's MLKR in a process of its own; started by ``mlkr_speed.py``.

``python _mlkr_worker.py METHOD TASK FOLDER`` reads X, y and a start A from FOLDER/data.npz and
prints one line of JSON.  TASK is "evaluation", one value and gradient at A, or "fit", a number of
iterations of L-BFGS from A.  Runs in the environment of its library, so it needs nothing but NumPy
and that.
"""

import importlib.metadata
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _memory import give_back, measure, resident

ITERATIONS = 30


def metric_learn(task, X, y, A):
    """SciPy's L-BFGS-B on whole arrays of pairs; float64."""
    from metric_learn import MLKR

    model = MLKR(n_components=len(A), init=A, max_iter=ITERATIONS)
    if task == "evaluation":
        model.n_iter_ = 0
        return lambda: model._loss(A.ravel(), X, y)
    return lambda: model.fit(X, y).components_


def vicinal(task, X, y, A):
    """Its own L-BFGS on blocks of pairs."""
    from vicinal import MLKR
    from vicinal.objectives import mlkr

    if task == "evaluation":

        def evaluate():
            value, dZ = mlkr(X @ A.T, y)
            return len(X) * value, len(X) * dZ.T @ X

        return evaluate
    model = MLKR(len(A), init=A, scaling=None, alpha=0.0, max_iter=ITERATIONS, tol=None)
    return lambda: model.fit(X, y).components_


METHODS = {
    "vicinal": (vicinal, ()),  # the report has its versions
    "metric-learn": (metric_learn, ("metric-learn", "scikit-learn", "numpy")),
}


def main(method, task, folder):
    """Run once for compilation and allocation, then timed; memory at its peak over the data."""
    with np.load(folder / "data.npz") as data:
        X, y, A = data["X"], data["y"], data["A"]
    make, packages = METHODS[method]
    if method == "vicinal" or task == "evaluation":
        some = slice(0, max(1200, len(X) // 10))  # so many that the compiled loops run
        make(task, X[some], y[some], A)()
    work, answer = make(task, X, y, A), []
    give_back()
    baseline, cpu = resident(), time.process_time()
    seconds, peak = measure(lambda: answer.append(work()), baseline)
    found = {"seconds": seconds, "processor": time.process_time() - cpu, "memory": peak}
    if task == "evaluation":
        found["value"] = float(answer[0][0])
    else:
        np.save(folder / f"{method}.npy", answer[0])
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    print(json.dumps({**found, "versions": versions}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # a few iterations do not converge
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
