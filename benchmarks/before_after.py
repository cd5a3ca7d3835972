"""Two states of the library side by side, on the same work, in turns.

``python benchmarks/before_after.py BEFORE AFTER`` takes two folders that hold ``vicinal`` (the
``src`` of two checkouts). Each gets a process of its own; the two work in turns, and the least time
of each is compared, so that a busy moment does not decide. Prints a table in Markdown. On a machine
that others use, ``--cpu`` compares the time of the processor, and ``--rounds`` makes more turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings


def cases():
    """Names and functions: one evaluation with gradient above the dense engine's size, and fits."""
    import numpy as np
    from sklearn.datasets import load_digits

    from vicinal import KNCA, LMNN, NCA, Chi2LMNN
    from vicinal.objectives import knca, lmnn, nca

    try:
        from vicinal.neighborhoods import target_neighbors
        from vicinal.targets import TargetNeighbors

        nearest = {"neighborhood": "nearest"}
    except ImportError:  # a state in which the names were British
        from vicinal.neighbourhoods import target_neighbours as target_neighbors
        from vicinal.targets import TargetNeighbours as TargetNeighbors

        nearest = {"pairs": "nearest"}

    def points(n, d, dtype):
        rng = np.random.RandomState(0)
        y = rng.randint(10, size=n)
        return (rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(10, d))[y]).astype(dtype), y

    for n in (2000, 10_000):
        for d in (2, 10, 32):
            for dtype in ("float32", "float64"):
                Z, y = points(n, d, dtype)
                yield f"nca, {n} x {d}, {dtype}", lambda Z=Z, y=y: nca(Z, y)
    for d in (2, 10):
        Z, y = points(3000, d, "float32")
        yield f"knca k=5, 3000 x {d}, float32", lambda Z=Z, y=y: knca(Z, y, 5)
        Z, y = points(3000, d, "float64")
        targets = TargetNeighbors(y, target_neighbors(Z, y, 3))
        yield f"lmnn, 3000 x {d}, float64", lambda Z=Z, t=targets: lmnn(Z, t)
    X, y = load_digits(return_X_y=True)
    for model in (
        NCA(2, alpha=3e-3, max_iter=15, tol=0, random_state=0),
        NCA(2, alpha=3e-3, max_iter=15, tol=0, random_state=0, **nearest),
        KNCA(2, max_iter=5, tol=0, random_state=0),
        LMNN(2, max_iter=15, tol=0, random_state=0),
        Chi2LMNN(10, max_iter=8, tol=0, random_state=0),
    ):
        shown = repr(model).replace("pairs=", "neighborhood=").replace("\n", " ")
        yield f"{shown}.fit(digits)", lambda m=model: m.fit(X, y)


def work(clock, only):
    """Do each case once for each line that comes in; tell the seconds."""
    warnings.simplefilter("ignore")
    for name, function in cases():
        if only.lower() not in name.lower():
            continue
        function()  # compiled
        print(json.dumps(name), flush=True)
        for line in sys.stdin:
            if line.strip() == "next":
                break
            began = clock()
            function()
            print(clock() - began, flush=True)
    print("null", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs=2, help="two folders that hold vicinal")
    parser.add_argument("--cpu", action="store_true", help="time of the processor")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    clock = "process_time" if options.cpu else "perf_counter"
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "--work", clock, options.only],
            env={**os.environ, "PYTHONPATH": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in options.folders
    ]
    print("| | before, ms | after, ms | ratio |\n| --- | --- | --- | --- |")
    while True:
        names = [json.loads(worker.stdout.readline()) for worker in workers]
        if names[0] is None:
            break
        best = [float("inf")] * 2
        for _ in range(options.rounds):
            for i, worker in enumerate(workers):
                print("once", file=worker.stdin, flush=True)
                best[i] = min(best[i], float(worker.stdout.readline()))
        for worker in workers:
            print("next", file=worker.stdin, flush=True)
        before, after = (1e3 * seconds for seconds in best)
        print(f"| {names[0]} | {before:.1f} | {after:.1f} | {after / before:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(getattr(time, sys.argv[2]), sys.argv[3])
    else:
        main()
