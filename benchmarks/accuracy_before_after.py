"""Whether the accuracy of a classifier has moved between two states of the library.

``VICINAL_DATA=FOLDER python benchmarks/accuracy_before_after.py BEFORE AFTER`` takes two folders
that hold ``vicinal`` (the ``src`` of two checkouts), fits each classifier to ten splits of the
eleven small sets in a process of its own for each, and prints the mean test accuracies in Markdown.
Both see the same rows, so the differences are paired.  ``--defaults`` looks at the defaults of NCA
set by set, and at the two changes that they consist of: on the small sets, on four made-up tables
with known faults, and on larger tables.  ``--scores FOLDER`` keeps each score, and goes on from
those that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SPLITS = 10
#: splits of a set are drawn from the same rows: 70 % to learn from and 30 % to test on
OVERLAP = 1 / SPLITS + 3 / 7

#: larger tables: rows in all; made-up ones have useless columns, wrong labels, or neither
LARGE = {"landsat": 6435, "usps9298": 9298, "covtype15120": 15_120, "magic": 12_000,
         "mnist": 10_000, "5,000 × 50, useless columns": 5000,
         "15,000 × 50, useless columns": 15_000, "7,000 × 20, wrong labels": 7000,
         "7,000 × 40, clean": 7000}  # fmt: skip
LARGE_SPLITS = 2
#: the columns of the table of defaults: what each is in the state before, and in the state after
DEFAULTS = {
    "before": {"before": {}},
    "after": {"scaled": {"alpha": "scaled"}, "question": {"sampling": "full"}, "after": {}},
}
RANKS = (None, 2)


def classifiers() -> dict[str, Any]:
    """The classifiers of the table over the small sets."""
    from vicinal import KNCA, LMNN, NCA
    from vicinal.samplers import MiniBatches

    return {
        "NCA()": NCA(),
        "NCA(2)": NCA(2),
        'NCA("auto", alpha=0.01)': NCA("auto", alpha=0.01, cv=3),
        "NCA on batches": NCA(alpha=0.01, sampling=MiniBatches(100), max_iter=100),
        'NCA(mapping="periodic")': NCA(mapping="periodic"),
        "KNCA(2)": KNCA(2),
        "LMNN()": LMNN(),
    }


def rows_of(name: str) -> tuple[Any, Any]:
    """The rows and labels of a set."""
    import numpy as np
    from reproduce.framework import protocol
    from reproduce.own.paired import subsample
    from reproduce.own.penalty_search import MADE
    from sklearn.datasets import make_classification

    if name in MADE:
        return MADE[name]()
    if name not in LARGE:
        return protocol.data(name)
    n = LARGE[name]
    if "useless" in name:
        return make_classification(
            n, 50, n_informative=12, n_redundant=0, n_classes=5, random_state=0
        )
    if "wrong" in name:
        return make_classification(
            n, 20, n_informative=3, n_redundant=2, flip_y=0.2, random_state=1
        )
    if "clean" in name:
        return make_classification(
            n, 40, n_informative=20, n_redundant=10, n_classes=6, class_sep=1.5, random_state=2
        )
    X, y = protocol.data(name)
    rows = subsample(len(y), n)
    return X[rows].astype(np.float64), y[rows]


def fits(kind: str) -> Iterator[tuple[str, str, int, Any]]:
    """The name of a classifier, of a set, the number of a split, and the classifier."""
    from reproduce.framework.protocol import SMALL
    from reproduce.own.penalty_search import MADE

    from vicinal import NCA

    if kind == "classifiers":
        for data in SMALL:
            for split in range(SPLITS):
                for name, model in classifiers().items():
                    yield name, data, split, model
        return
    for data in (*SMALL, *MADE, *LARGE):
        for split in range(LARGE_SPLITS if data in LARGE else SPLITS):
            for d in RANKS if data not in LARGE else RANKS[:1]:
                for name, parameters in DEFAULTS[kind].items():
                    if name != "question" or data in LARGE:  # else it is the default
                        yield f"{name}, {d}", data, split, NCA(d, **parameters)


def work(kind: str, path: Path) -> None:
    """Append the accuracies and times of one state of the library to a file."""
    from reproduce.framework.protocol import stratified

    warnings.simplefilter("ignore")
    lines = path.read_text().splitlines() if path.exists() else []
    done = {tuple(json.loads(line)[:3]) for line in lines}
    with path.open("a") as file:
        for name, data, split, model in fits(kind):
            if (name, data, split) not in done:
                X, y = rows_of(data)
                train, test = stratified(y, split)
                began = time.process_time()
                fitted = model.set_params(random_state=split).fit(X[train], y[train])
                took = time.process_time() - began
                accuracy = float(fitted.score(X[test], y[test]))
                print(json.dumps([name, data, split, accuracy, took]), file=file, flush=True)


def scores_of(states: dict[str, str], kinds: dict[str, str], scores: Path) -> Any:
    """What the libraries in two folders reach: state -> classifier -> set -> (splits, 2)."""
    import numpy as np

    running = []
    for state, folder in states.items():
        path = os.pathsep.join([folder, str(Path(__file__).parent)])
        command = [sys.executable, __file__, "--work", kinds[state], str(scores / f"{state}.jsonl")]
        running.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}))
    if any(process.wait() for process in running):
        raise SystemExit("A fit has failed: see above.")
    found: dict[str, Any] = {}
    for state in states:
        for line in (scores / f"{state}.jsonl").read_text().splitlines():
            name, data, _, accuracy, took = json.loads(line)
            sets = found.setdefault(state, {}).setdefault(name, {})
            sets.setdefault(data, []).append((100 * accuracy, took))
    return {
        state: {name: {d: np.array(v) for d, v in sets.items()} for name, sets in models.items()}
        for state, models in found.items()
    }


def _error(change: Any) -> float:
    """The standard error of a mean difference over the splits of a set."""
    overlap = 1 / len(change) + 3 / 7
    return float((change.var(ddof=1) * overlap) ** 0.5)


def report_classifiers(states: dict[str, str], scores: Path) -> str:
    """A row for each classifier: the means over all sets, and the change with its error."""
    import numpy as np

    found = scores_of(states, dict.fromkeys(states, "classifiers"), scores)
    lines = [
        "| classifier | before | after | change | sets where it moved by over two errors |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, sets in found["before"].items():
        a, b = (np.array([found[s][name][data][:, 0] for data in sets]) for s in states)
        change = b - a
        errors = np.array([_error(row) for row in change])
        by_set = zip(sets, change.mean(axis=1), errors, strict=True)
        moved = [data for data, mean, e in by_set if abs(mean) > 2 * e]
        error = np.sqrt(np.sum(errors**2)) / len(errors)
        lines.append(
            f"| `{name}` | {a.mean():.2f} | {b.mean():.2f} | {change.mean():+.2f} ± {error:.2f} "
            f"| {', '.join(moved) or 'none'} |"
        )
    return "\n".join(lines)


def report_defaults(states: dict[str, str], scores: Path) -> str:
    """A row for each set: the accuracy of each step from the old defaults to the new ones."""
    import numpy as np
    from reproduce.framework.protocol import SMALL
    from reproduce.own.penalty_search import MADE

    found = scores_of(states, {"before": "before", "after": "after"}, scores)
    groups = {"small sets": SMALL, "made-up": tuple(MADE), "larger tables": tuple(LARGE)}
    head = '| set | before | `alpha="scaled"` | `sampling="full"` | after | change | '
    lines = [f"{head}core seconds before | after |", "| --- " * 8 + "|"]
    for d in RANKS:
        for group, sets in groups.items():
            changes, errors, means = [], [], []
            for data in sets:
                old = found["before"][f"before, {d}"].get(data)
                new = {
                    name: found["after"].get(f"{name}, {d}", {}).get(data)
                    for name in DEFAULTS["after"]
                }
                if old is None or new["after"] is None:
                    continue
                if new["question"] is None:
                    new["question"] = new["after"]
                n = min(len(old), len(new["after"]))  # all, unless a run was stopped
                if n < 2:
                    continue
                steps = [part[:n] for part in (old, *new.values())]
                old, new["after"] = steps[0], steps[-1]
                change = new["after"][:, 0] - old[:, 0]
                changes.append(change.mean())
                errors.append(_error(change))
                means.append([part[:, 0].mean() for part in steps])
                cells = " | ".join(f"{mean:.1f}" for mean in means[-1])
                lines.append(
                    f"| {data}{', d = 2' if d else ''}, {n} splits | {cells} | {changes[-1]:+.1f} "
                    f"± {errors[-1]:.1f} | {old[:, 1].mean():.2f} "
                    f"| {new['after'][:, 1].mean():.2f} |"
                )
            if changes:
                cells = " | ".join(f"{mean:.2f}" for mean in np.mean(means, axis=0))
                error = np.sqrt(np.sum(np.square(errors))) / len(errors)
                lines.append(
                    f"| **{group}{', d = 2' if d else ''}, mean** | {cells} | "
                    f"**{np.mean(changes):+.2f} ± {error:.2f}** | | |"
                )
    return "\n".join(lines)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--defaults", action="store_true", help="the defaults of NCA, set by set")
    parser.add_argument("--scores", type=Path, help="a folder for the scores of single fits")
    options = parser.parse_args()
    states = {"before": options.before, "after": options.after}
    report = report_defaults if options.defaults else report_classifiers
    with TemporaryDirectory() as folder:
        scores = options.scores or Path(folder)
        scores.mkdir(parents=True, exist_ok=True)
        print(report(states, scores))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
