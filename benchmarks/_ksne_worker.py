"""Fits one library's t-SNE in a process of its own; started by ``ksne_speed.py``.

``python _ksne_worker.py '{"tool": ..., "rows": ..., ...}'`` reads the rows from a file, writes the
embedding to another and prints one line of JSON: seconds, seconds of the processor and peak memory.
Runs in the environment of its library, so it needs nothing but NumPy and that.
"""

import importlib.metadata
import json
import sys
import time
import warnings

import numpy as np
from _memory import give_back, measure, resident

#: rows of vicinal's first, untimed fit, which compiles what the timed one calls
WARM_UP_ROWS = 6000


def vicinal(X, k, iterations, exaggerated, jobs):
    """With defaults, after a short fit that has everything compiled."""
    from threadpoolctl import threadpool_limits

    from vicinal import KSNE

    def fit(rows, iterations, exaggerated, init="auto"):
        with threadpool_limits(jobs):
            model = KSNE(
                k=k, max_iter=iterations, early_exaggeration_iter=exaggerated, init=init,
                random_state=0,
            ).fit(rows)  # fmt: skip
        return model.embedding_, model.n_iter_

    some = X[:WARM_UP_ROWS]
    # as wide as a finished picture: it is transformed in float32, and some points are far out
    wide = 40.0 * np.random.default_rng(0).standard_normal((len(some), 2))
    fit(some, 3, 1)
    fit(some, 3, 1, wide)
    fit(X[:1000], 3, 1)
    return lambda: fit(X, iterations, exaggerated)


def scikit_learn(X, k, iterations, exaggerated, jobs):
    """Its defaults but for the number of iterations, of which it exaggerates 250."""
    from sklearn.manifold import TSNE

    def fit():
        model = TSNE(max_iter=iterations, n_jobs=jobs, random_state=0)
        return model.fit_transform(X), model.n_iter_

    return fit


def open_tsne(X, k, iterations, exaggerated, jobs, method):
    """Its defaults, on this many jobs; by the FFT, by trees, or as it chooses itself ("auto")."""
    from openTSNE import TSNE

    def fit():
        model = TSNE(
            n_iter=iterations - exaggerated, early_exaggeration_iter=exaggerated, n_jobs=jobs,
            negative_gradient_method=method, random_state=0,
        )  # fmt: skip
        return np.asarray(model.fit(X)), iterations

    return fit


def main(tool, rows, out, k, iterations, exaggerated, jobs, method="fft"):
    """Measure one fit."""
    warnings.simplefilter("ignore")
    X = np.load(rows)
    if tool == "openTSNE":
        fit = open_tsne(X, k, iterations, exaggerated, jobs, method)
    else:
        fit = {"vicinal": vicinal, "scikit-learn": scikit_learn}[tool](
            X, k, iterations, exaggerated, jobs
        )
    found = {}

    def timed():
        found["Z"], found["iterations"] = fit()

    give_back()
    baseline, cpu = resident(), time.process_time()
    seconds, peak = measure(timed, baseline)
    cpu = time.process_time() - cpu
    np.save(out, found["Z"])
    return {
        "seconds": seconds, "cpu": cpu, "peak": peak, "iterations": int(found["iterations"]),
        "version": "" if tool == "vicinal" else importlib.metadata.version(tool),
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
