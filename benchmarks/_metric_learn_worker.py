"""Runs metric-learn's NCA in its own environment; started by ``_peers.py``.

``python _metric_learn_worker.py FOLDER`` reads jobs (JSON) from standard input and writes the
answers (JSON) to standard output.  Needs nothing but metric-learn.
"""

import json
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from metric_learn import NCA

MAX_ITER = 50


def evaluation(X, y, A):
    """Median seconds of value and gradient, and the value (a sum, to minimise)."""
    model = NCA()
    model.n_iter_ = 1
    mask = y[:, np.newaxis] == y[np.newaxis, :]
    samples = []
    while len(samples) < 6 and sum(samples) < 6.0:
        began = time.perf_counter()
        value, _ = model._loss_grad_lbfgs(A.ravel(), X, mask, -1.0)
        samples.append(time.perf_counter() - began)
    return {"seconds": statistics.median(samples[1:] or samples), "value": float(value)}


def fit(X, y, A):
    """Seconds of a fit from A, and the map it ends at."""
    samples = []
    while len(samples) < 3 and sum(samples) < 4.0:
        model = NCA(n_components=A.shape[0], init=A, max_iter=MAX_ITER)
        began = time.perf_counter()
        model.fit(X, y)
        samples.append(time.perf_counter() - began)
    return {
        "seconds": statistics.median(samples),
        "iterations": int(model.n_iter_),
        "components": model.components_.tolist(),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answers = []
    for job in json.load(sys.stdin):
        with np.load(Path(sys.argv[1]) / job["file"]) as data:
            work = {"evaluation": evaluation, "fit": fit}[job["what"]]
            answers.append(work(data["X"], data["y"], data["A"]))
    json.dump(answers, sys.stdout)
