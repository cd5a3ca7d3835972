"""Tasks that need a process of their own: ``python _workers.py TASK '{"json": "arguments"}'``.

The answer is one line of JSON on standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from _memory import give_back, measure, resident


def _data(source: str, n: int, n_features: int) -> tuple[Any, Any]:
    import numpy as np
    from _common import blobs

    if source == "synthetic":
        return blobs(n, n_features, dtype=np.float32)
    file = np.load(Path(os.environ["VICINAL_DATA"]) / "mnist.npz")
    rows = np.flatnonzero(file["is_train"])[:n]
    X = file["X"][rows].astype(np.float32)
    X /= 255
    return X, file["y"][rows]


def memory(source: str, n: int, n_features: int, d: int) -> dict[str, Any]:
    """vicinal in float32: the first pass, both passes, and a short fit."""
    import warnings

    import numpy as np
    from _common import ExactProblem, blobs, compile_kernels, early_map

    from vicinal import NCA

    warnings.simplefilter("ignore")  # three iterations do not converge
    compile_kernels()
    small_X, small_y = blobs(3200, 20, dtype=np.float32)  # enough rows to travel in float32
    NCA(2, alpha=3e-3, max_iter=1).fit(small_X, small_y)
    X, y = _data(source, n, n_features)
    A = early_map(X, d)
    fun, theta = ExactProblem(X, y, d, np.float32), A.ravel()
    tasks = {
        "value": lambda: fun.value(theta),
        "value, gradient": lambda: fun(theta),
        "fit": lambda: NCA(d, init=A, scaling=None, alpha=0.0, max_iter=3).fit(X, y),
    }
    give_back()
    baseline = resident()
    found = {name: measure(task, baseline) for name, task in tasks.items()}
    # the time again, when the first call is not the first to touch the data
    again = measure(tasks["value, gradient"], baseline)
    took, peak = found["value, gradient"]
    found["value, gradient"] = (min(took, again[0]), peak)
    return found


def sklearn_memory(n: int, n_features: int, d: int) -> dict[str, Any]:
    """scikit-learn's value and gradient; its mask of equal labels counts as memory too."""
    from _common import blobs, early_map
    from _evaluation import sklearn_function

    X, y = blobs(n, n_features)
    theta = early_map(X, d).ravel()
    sklearn_function(X[:200], y[:200])(theta)
    give_back()
    baseline = resident()
    return {"value, gradient": measure(lambda: sklearn_function(X, y)(theta), baseline)}


def first_use(environment: dict[str, str]) -> dict[str, Any]:
    """Seconds to import NCA and to fit it to wine."""
    began = time.perf_counter()
    from vicinal import NCA

    imported = time.perf_counter()
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    loaded = time.perf_counter()
    NCA().fit(X, y)
    return {"import": imported - began, "fit": time.perf_counter() - loaded}


if __name__ == "__main__":
    answer = {task.__name__: task for task in (memory, sklearn_memory, first_use)}[sys.argv[1]](
        **json.loads(sys.argv[2])
    )
    print(json.dumps(answer))
