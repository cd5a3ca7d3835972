"""Fits one method of one library in a process of its own; started by ``methods_speed.py``.

``python _methods_worker.py LIBRARY METHOD FOLDER`` reads the arrays of FOLDER/data.npz, writes what
was learnt to FOLDER/result.npz and prints one line of JSON: seconds, seconds of the processor, peak
memory, iterations and versions.  Runs in the environment of its library, so it needs nothing but
NumPy and that.
"""

import importlib.metadata
import json
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _memory import give_back, measure, resident

#: seconds: a fit that takes less is a warm-up, and is done again
WARM_UP = 2.0
#: seconds after which a fit is not repeated, and the most repeats
ENOUGH, REPEATS = 4.0, 3
PACKAGES = ("metric-learn", "scikit-learn", "PyLMNN", "mlpack", "openTSNE", "scipy", "numpy")


def timed(fit):
    """Seconds, seconds of the processor and peak memory of one call."""
    give_back()
    baseline, cpu = resident(), time.process_time()
    seconds, peak = measure(fit, baseline)
    return seconds, time.process_time() - cpu, peak


def measured(make, data, compiles):
    """Fit to warm up, where that is quick or where something compiles; then measure.

    ``make(data)`` returns two functions: one fits, the other tells what was learnt.
    """
    fit, learnt = make(data)
    runs = [timed(fit)]
    if compiles or runs[0][0] < WARM_UP:
        runs = []
    while not runs or (len(runs) < REPEATS and sum(run[0] for run in runs) < ENOUGH):
        fit, learnt = make(data)
        runs.append(timed(fit))
    seconds, cpu, peaks = zip(*runs, strict=True)
    answer = {"seconds": statistics.median(seconds), "processor": statistics.median(cpu)}
    return answer | {"memory": peaks[0], "repeats": len(runs)}, learnt


def main(library, method, folder):
    """Measure, and write what was learnt."""
    if library == "vicinal":
        from _methods_ours import MAKERS
    else:
        from _methods_peers import MAKERS
    with np.load(folder / "data.npz") as stored:
        data = dict(stored)
    make = MAKERS[method] if library == "vicinal" else MAKERS[library][method]
    answer, learnt = measured(make, data, compiles=library == "vicinal")
    arrays = learnt(data)
    iterations = arrays.pop("iterations", None)
    np.savez(folder / "result.npz", **arrays)
    versions = [f"{name} {_version(name)}" for name in PACKAGES if _version(name)]
    answer |= {"iterations": None if iterations is None else int(iterations), "versions": versions}
    print(json.dumps(answer))


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # fits that are cut short, and calls that will be gone one day
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
