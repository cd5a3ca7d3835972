"""What a first fit compiles: kernels, their argument types, and the seconds that each takes.

    python benchmarks/compile_times.py                   # all estimators, on scikit-learn's digits
    python benchmarks/compile_times.py NCA KNCA --least 0.2

Every estimator is fitted in a process of its own, on one thread and with an empty cache.  Seconds
are those of the processor, which other programs on the machine lengthen less than those on the
clock.  ``whole`` counts what a function calls and is compiled within it, ``own`` does not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

ESTIMATORS = ("NCA", "KNCA", "LMNN", "Chi2LMNN")


def listen() -> list[dict[str, Any]]:
    """A list that fills with what numba compiles from now on."""
    from numba.core import event

    records: list[dict[str, Any]] = []
    inside: list[list[float]] = []  # when each function in work began, and what its callees took

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            inside.append([time.thread_time(), 0.0])

        def on_end(self, event: Any) -> None:
            began, callees = inside.pop()
            whole = time.thread_time() - began
            if inside:
                inside[-1][1] += whole
            function = event.data["dispatcher"].py_func
            records.append(
                {
                    "name": f"{function.__module__.rpartition('.')[2]}.{function.__name__}",
                    "types": ", ".join(map(short, event.data["args"])),
                    "whole": whole,
                    "own": whole - callees,
                    "depth": len(inside),
                }
            )

    event.register("numba:compile", Listener())
    return records


def short(kind: Any) -> str:
    """The type of an argument, as briefly as can be."""
    from numba import types

    if isinstance(kind, types.Array):
        frozen = "" if kind.mutable else " read-only"
        return f"{kind.dtype}[{kind.ndim}{kind.layout}]{frozen}"
    if isinstance(kind, types.BaseNamedTuple):
        return f"{kind.instance_class.__name__}({', '.join(sorted(set(map(short, kind))))})"
    return str(kind)


def fit(name: str) -> dict[str, Any]:
    """Fit in this process; the seconds, and what was compiled."""
    from sklearn.datasets import load_digits

    import vicinal

    X, y = load_digits(return_X_y=True)
    if name == "Chi2LMNN":
        X = X / X.sum(axis=1, keepdims=True)
    records = listen()
    began = time.process_time()
    getattr(vicinal, name)().fit(X, y)
    return {"fit": time.process_time() - began, "records": records}


def in_a_new_process(name: str) -> dict[str, Any]:
    """The same with an empty cache, on one thread."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--inside", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def report(name: str, result: dict[str, Any], least: float) -> None:
    """Print what takes this many seconds at least, the longest first."""
    records = result["records"]
    compiling = sum(record["own"] for record in records)
    print(f"\n{name}: {result['fit']:.1f} s, of which {compiling:.1f} s compile ", end="")
    print(f"{len(records)} functions\n\n   own  whole  function, argument types")
    for record in sorted(records, key=lambda record: -record["own"]):
        if record["own"] >= least:
            start = "" if record["depth"] else "* "  # what Python calls
            print(f"{record['own']:6.2f} {record['whole']:6.2f}  {start}{record['name']}", end="")
            print(f"  {record['types'][:160]}")


def main() -> None:
    """Read the command line, fit, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("estimators", nargs="*", default=ESTIMATORS, metavar="ESTIMATOR")
    parser.add_argument("--least", type=float, default=0.1, help="seconds to be listed")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(fit(options.inside)))
        return
    for name in options.estimators:
        report(name, in_a_new_process(name), options.least)


if __name__ == "__main__":
    main()
