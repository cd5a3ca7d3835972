"""Fits one weakly supervised method in a process of its own; started by ``weak_speed.py``.

``python _weak_worker.py LIBRARY METHOD FOLDER`` reads the constraints from FOLDER/data.npz, writes
the learnt matrix to FOLDER/M.npy and prints one line of JSON: seconds of the processor and
iterations.  Runs in the environment of its library, so it needs nothing but NumPy and that.
"""

import importlib.metadata
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

#: of a fit that is to reach the minimum: what stops it is the limit of its time
MANY = 1_000_000


def vicinal(method, data):
    """The estimators, without scaling of the columns."""
    from vicinal import ITML, LSML, MMC, SDML

    bounds = data["bounds"].tolist()
    return {
        "ITML": ITML(bounds=bounds, scaling=None),
        "ITML, projections": ITML(bounds=bounds, scaling=None, solver="projections"),
        "MMC": MMC(scaling=None),
        "MMC, diagonal": MMC(diagonal=True, scaling=None),
        "SDML": SDML(float(data["balance"]), float(data["sparsity"]), scaling=None),
        "LSML": LSML(scaling=None),
    }[method]


def metric_learn(method, data):
    """The same of metric-learn, with its defaults."""
    from metric_learn import ITML, LSML, MMC, SDML, sdml
    from sklearn.covariance import graphical_lasso

    def without_start(*args, cov_init=None, **kwargs):  # which scikit-learn no longer takes
        return graphical_lasso(*args, **kwargs)

    sdml.graphical_lasso = without_start
    return {
        "ITML": ITML(),
        "ITML, projections": ITML(max_iter=MANY, tol=1e-6),
        "MMC": MMC(),
        "MMC, diagonal": MMC(diagonal=True),
        "SDML": SDML(float(data["balance"]), float(data["sparsity"])),
        "LSML": LSML(),
    }[method]


def main(library, method, folder):
    """Fit up to three times, if that is quick; the least time counts."""
    warnings.simplefilter("ignore")
    with np.load(folder / "data.npz") as stored:
        data = dict(stored)
    X, y = data["X"], data["y"]
    fitted = (X[data["quadruplets"]],) if method == "LSML" else (X[data["pairs"]], y)
    options = {}
    if library == "metric_learn" and method.startswith("ITML"):
        options = {"bounds": data["bounds"].copy()}
    took = []
    while len(took) < 3 and sum(took) < 2.0:
        model = globals()[library](method, data)
        began = time.process_time()
        model.fit(*fitted, **options)
        took.append(time.process_time() - began)
    np.save(folder / "M.npy", model.get_mahalanobis_matrix())
    n_iter = getattr(model, "n_iter_", None)
    answer = {"seconds": min(took), "n_iter": None if n_iter is None else int(n_iter)}
    names = ("metric-learn", "scikit-learn", "scipy", "numpy")
    print(json.dumps(answer | {"versions": [f"{n} {_version(n)}" for n in names if _version(n)]}))


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
