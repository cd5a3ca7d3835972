"""Fits one class of one library in a process of its own; started by ``metric_learn_migration.py``.

``python _migration_worker.py LIBRARY CLASS FOLDER LIMIT`` reads the splits of FOLDER/data.npz and
prints one line of JSON: a score, seconds of the processor and peak memory of each fit that began
before LIMIT seconds of the processor were spent, or the error.  Runs in the environment of its
library, so it needs nothing but NumPy, scikit-learn and that.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

sys.path.insert(0, str(Path(__file__).parent))

from _memory import give_back, measure, resident

SEEDED = ("NCA", "LMNN", "MLKR", "RCA_Supervised", "ITML_Supervised", "MMC_Supervised",
          "SDML_Supervised", "LSML_Supervised")  # fmt: skip


def make(library, name):
    """The estimator with its defaults."""
    seed = {"random_state": 0} if name in SEEDED else {}
    if library == "metric-learn":
        import metric_learn

        return getattr(metric_learn, name)(**seed)
    import vicinal

    if library == "vicinal.compat":
        import vicinal.compat.metric_learn as compat

        return getattr(compat, name)(**seed)
    if name == "RCA_Supervised":
        return vicinal.RCA()
    if name.endswith("_Supervised"):
        learner = getattr(vicinal, name.removesuffix("_Supervised"))()
        return vicinal.FromLabels(learner, random_state=0)
    return getattr(vicinal, name)(**seed)


def score(model, numbers, X, y, X_test, y_test):
    """Accuracy, or R², of five neighbours in the learnt metric."""
    vote = (KNeighborsRegressor if numbers else KNeighborsClassifier)(5)
    return float(vote.fit(model.transform(X), y).score(model.transform(X_test), y_test))


def main(library, name, folder, limit):
    """All fits."""
    answer = {"versions": {}, "scores": [], "cpu": [], "peak": []}
    package = "metric-learn" if library == "metric-learn" else "vicinal"
    answer["versions"] = {p: version(p) for p in (package, "scikit-learn", "numpy")}
    with np.load(Path(folder) / "data.npz") as data:
        X, y, numbers, parts = data["X"], data["y"], bool(data["numbers"]), data["train"]
    try:
        if library != "metric-learn":  # compiles what larger tables need
            make(library, name).fit(X[parts[0]], y[parts[0]])
        for train in parts:
            if sum(answer["cpu"]) > float(limit):
                break
            model = make(library, name)
            give_back()
            began = time.process_time()
            _, peak = measure(lambda m=model, t=train: m.fit(X[t], y[t]), resident())
            answer["cpu"].append(time.process_time() - began)
            answer["peak"].append(peak)
            answer["scores"].append(score(model, numbers, X[train], y[train], X[~train], y[~train]))
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    return answer


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(*sys.argv[1:])))
