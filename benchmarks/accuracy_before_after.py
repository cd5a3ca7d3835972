"""Whether the accuracy of a classifier has moved between two states of the library.

``VICINAL_DATA=FOLDER python benchmarks/accuracy_before_after.py BEFORE AFTER`` takes two folders
that hold ``vicinal`` (the ``src`` of two checkouts), fits each classifier to ten splits of the
eleven small sets in a process of its own for each, and prints the mean test accuracies in Markdown.
Both see the same rows, so the differences are paired.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

SPLITS = 10
#: splits of a set are drawn from the same rows: 70 % to learn from and 30 % to test on
OVERLAP = 1 / SPLITS + 3 / 7


def work() -> None:
    """Print the accuracies of one state of the library as JSON: classifier -> set -> splits."""
    warnings.simplefilter("ignore")
    from reproduce.framework import protocol

    from vicinal import KNCA, LMNN, NCA
    from vicinal.samplers import MiniBatches

    models = {
        "NCA()": NCA(),
        "NCA(2)": NCA(2),
        'NCA("auto", alpha=0.01)': NCA("auto", alpha=0.01, cv=3),
        "NCA on batches": NCA(alpha=0.01, sampling=MiniBatches(100), max_iter=100),
        'NCA(mapping="periodic")': NCA(mapping="periodic"),
        "KNCA(2)": KNCA(2),
        "LMNN()": LMNN(),
    }
    scores: dict[str, dict[str, list[float]]] = {name: {} for name in models}
    for data in protocol.SMALL:
        X, y = protocol.data(data)
        for split in range(SPLITS):
            train, test = protocol.stratified(y, split)
            for name, model in models.items():
                fitted = model.set_params(random_state=split).fit(X[train], y[train])
                accuracy = float(fitted.score(X[test], y[test]))
                scores[name].setdefault(data, []).append(accuracy)
    print(json.dumps(scores))


def scores_of(folder: str) -> dict[str, dict[str, list[float]]]:
    """What the library in a folder reaches."""
    path = os.pathsep.join([folder, str(Path(__file__).parent)])
    command = [sys.executable, __file__, "--work"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def main(before: str, after: str) -> None:
    """Print a row for each classifier: the means over all sets, and the change with its error."""
    import numpy as np

    first, second = scores_of(before), scores_of(after)
    print("| classifier | before | after | change | sets where it moved by over two errors |")
    print("| --- | --- | --- | --- | --- |")
    for name, sets in first.items():
        a, b = (np.array([scores[name][data] for data in sets]) * 100 for scores in (first, second))
        change = b - a
        errors = np.sqrt(change.var(axis=1, ddof=1) * OVERLAP)
        error = np.sqrt(np.sum(errors**2)) / len(errors)
        by_set = zip(sets, change.mean(axis=1), errors, strict=True)
        moved = [data for data, mean, e in by_set if abs(mean) > 2 * e]
        print(
            f"| `{name}` | {a.mean():.2f} | {b.mean():.2f} | {change.mean():+.2f} ± {error:.2f} "
            f"| {', '.join(moved) or 'none'} |"
        )


if __name__ == "__main__":
    if "--work" in sys.argv:
        work()
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("before")
        parser.add_argument("after")
        main(**vars(parser.parse_args()))
