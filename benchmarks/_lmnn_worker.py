"""Fits one library's LMNN in a process of its own; started by ``lmnn_speed.py``.

``python _lmnn_worker.py METHOD FOLDER K`` reads X and y from FOLDER/data.npz, writes the embedded
rows to FOLDER/METHOD.npy and prints one line of JSON: seconds, seconds of the processor, iterations
and versions.  Runs in the environment of its library, so it needs nothing but NumPy and that.
"""

import importlib.metadata
import json
import sys
import time
import types
import warnings
from functools import partial
from pathlib import Path

import numpy as np

#: rows of vicinal's first, untimed fit: as many as it takes to go the way of a larger table
WARM_UP_ROWS = 3200


def metric_learn(k):
    """Gradient descent with a growing and halving step, all impostors; float64."""
    from metric_learn import LMNN

    model = LMNN(n_neighbors=k, random_state=0)
    return model.fit, lambda X: (model.transform(X), int(model.n_iter_))


def pylmnn(k):
    """L-BFGS of SciPy on the square of the hinge, at most 50 iterations; float64."""
    # the package imports a search for parameters, whose library is old and large, and not used here
    methods = types.ModuleType("GPyOpt.methods")
    methods.BayesianOptimization = None
    sys.modules |= {"GPyOpt": types.ModuleType("GPyOpt"), "GPyOpt.methods": methods}
    from pylmnn import LargeMarginNearestNeighbor

    model = LargeMarginNearestNeighbor(n_neighbors=k, random_state=0)
    return model.fit, lambda X: (model.transform(X), int(model.n_iter_))


def mlpack(k, **limits):
    """L-BFGS on the k nearest impostors of each row, until the gradient vanishes; float64."""
    import mlpack

    answer = {}

    def fit(X, y):
        answer.update(mlpack.lmnn(
            input_=X, labels=y, k=k, optimizer="lbfgs", copy_all_inputs=True, **limits
        ))  # fmt: skip

    # its matrices have a point per column: what comes back is the transpose of the map
    return fit, lambda X: (X @ answer["output"], None)


def vicinal(k):
    """As it comes, after a fit on a slice that has everything compiled."""
    from vicinal import LMNN

    model = LMNN(k=k, random_state=0)
    return model.fit, lambda X: (model.transform(X), int(model.n_iter_))


METHODS = {
    "vicinal": (vicinal, ()),  # the report has its versions
    "metric-learn": (metric_learn, ("metric-learn", "scikit-learn", "numpy")),
    "PyLMNN": (pylmnn, ("PyLMNN", "scipy", "numpy")),
    "mlpack": (mlpack, ("mlpack", "numpy")),
    # by default up to 100,000: on digits it was not done after two minutes of a busy machine
    "mlpack-25": (partial(mlpack, max_iterations=25), ("mlpack", "numpy")),
}


def main(method, folder, k):
    """Fit, write the embedded rows, and say how long it took."""
    with np.load(folder / "data.npz") as data:
        X, y = data["X"], data["y"]
    make, packages = METHODS[method]
    if method == "vicinal":
        make(k)[0](X[:WARM_UP_ROWS], y[:WARM_UP_ROWS])
    fit, result = make(k)
    wall, cpu = time.perf_counter(), time.process_time()
    fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    Z, iterations = result(X)
    np.save(folder / f"{method}.npy", Z)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    print(json.dumps({
        "seconds": wall, "processor": cpu, "iterations": iterations, "versions": versions,
    }))  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of calls that newer releases will not know
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
