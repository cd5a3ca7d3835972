"""What choosing the penalty is worth, and what it costs: ``NCA()`` beside constants and a grid.

``python benchmarks/default_penalty.py --data DIR --out FILE`` prints tables of accuracies on rows
that no fit has seen.

- Inside the training rows: 70 % of a split are split again into 70 % and 30 %.
- Test rows: 70 % to learn from, 30 % to test.

Accuracies are in per cent, means over the splits.  CPU seconds are those of one fit, all threads
together, and include no compilation: each table is fitted once before.
"""

from __future__ import annotations

import argparse
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    make_blobs,
    make_classification,
    make_moons,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import NCA

GRID = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 0.0)
NAMED = "iris wine glass ionosphere ecoli pima spectf balance transfusion".split()
#: further tables, and the most rows to take of each
OTHER = {"yeast": 1484, "segment": 700, "landsat": 1000, "usps": 700, "magic": 1500,
         "covtype15120": 1200, "webcam": 295}  # fmt: skip
MADE: dict[str, Callable[[], Any]] = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "synthetic": lambda: make_classification(
        1500, 30, n_informative=12, n_redundant=0, n_classes=5, random_state=0
    ),
    "digits": lambda: tuple(part[:800] for part in load_digits(return_X_y=True)),
    "moons": lambda: make_moons(400, noise=0.25, random_state=0),
    "noisy": lambda: make_classification(
        400, 20, n_informative=3, n_redundant=2, flip_y=0.2, random_state=1
    ),
    "blobs": lambda: make_blobs(300, 5, centers=4, cluster_std=4.0, random_state=3),
}
FIRST = [*NAMED, "breast cancer", "synthetic"]


def table(name: str, folder: Path) -> tuple[Any, Any]:
    """The rows of a table, without classes of fewer than six rows, which cannot be split."""
    if name in MADE:
        X, y = MADE[name]()
    else:
        with np.load(folder / f"{name}.npz") as file:
            X, y = file["X"].astype(float), file["y"]
        rows = np.random.RandomState(0).permutation(len(y))[: OTHER.get(name, len(y))]
        X, y = X[rows], y[rows]
    keep = np.bincount(y)[y] >= 6
    return X[keep], y[keep]


def grid() -> Any:
    """All penalties, by fits as thorough as the final one."""
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return GridSearchCV(NCA(random_state=0), {"alpha": list(GRID)}, cv=folds)


MODELS: dict[str, Callable[[], Any]] = {
    "NCA()": lambda: NCA(random_state=0),
    "alpha=0.003": lambda: NCA(alpha=3e-3, random_state=0),
    "scaled": lambda: NCA(alpha="scaled", random_state=0),
    "early stopping": lambda: NCA(alpha=0.0, early_stopping=True, random_state=0),
    "full grid": grid,
    "forest": lambda: RandomForestClassifier(random_state=0),
    "5-NN": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
}


def measure(
    X: Any, y: Any, seeds: range, inside: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """Mean accuracy and mean CPU seconds of a fit, for each model."""
    scores: dict[str, list] = {name: [] for name in MODELS}
    seconds: dict[str, list] = {name: [] for name in MODELS}
    for seed in seeds:
        parts = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
        if inside:
            X_learn, y_learn = parts[0], parts[2]
            keep = np.bincount(y_learn)[y_learn] >= 3
            parts = train_test_split(
                X_learn[keep],
                y_learn[keep],
                test_size=0.3,
                random_state=seed,
                stratify=y_learn[keep],
            )
        X_learn, X_test, y_learn, y_test = parts
        for name, make in MODELS.items():
            began = time.process_time()
            model = make().fit(X_learn, y_learn)
            seconds[name].append(time.process_time() - began)
            scores[name].append(100 * model.score(X_test, y_test))
    return (
        {name: float(np.mean(values)) for name, values in scores.items()},
        {name: float(np.mean(values)) for name, values in seconds.items()},
    )


def report(title: str, names: list[str], folder: Path, seeds: range, inside: bool) -> list[str]:
    """A table of accuracies, one line for each data set, and the mean."""
    columns = ["table", "rows", *MODELS, "CPU s, `NCA()`", "grid"]
    lines = [f"## {title}", "", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    every, gaps = [], []
    for name in names:
        X, y = table(name, folder)
        NCA(random_state=0).fit(X, y)  # compiles
        scores, seconds = measure(X, y, seeds, inside)
        every.append(list(scores.values()))
        gaps.append((scores["NCA()"] - scores["full grid"], name))
        cells = " | ".join(f"{score:.1f}" for score in scores.values())
        lines.append(
            f"| {name} | {len(y)} | {cells} | {seconds['NCA()']:.2f} | {seconds['full grid']:.2f} |"
        )
        print(lines[-1], flush=True)
    cells = " | ".join(f"{score:.2f}" for score in np.mean(every, axis=0))
    least, worst = min(gaps)
    lines += [f"| **mean** |  | {cells} |  |  |", "",
              f"`NCA()` less the full grid: {np.mean([gap for gap, _ in gaps]):+.2f} points on the "
              f"mean; at worst {least:+.1f} ({worst}). {len(seeds)} splits.", ""]  # fmt: skip
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the data sets")
    parser.add_argument("--out", type=Path, help="file for the page")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--part", choices=["inside", "test", "both"], default="both")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = ["# The default penalty of NCA", "",
             f"*Printed by `benchmarks/default_penalty.py` at commit `{commit}`.*", ""]  # fmt: skip
    rest = [name for name in (*OTHER, *MADE) if name not in FIRST]
    seeds = range(options.splits)
    if options.part in ("inside", "both"):
        title = "Inside the training rows, the tables of the goal"
        lines += report(title, FIRST, options.data, seeds, inside=True)
        title = "Inside the training rows, other tables"
        lines += report(title, rest, options.data, seeds[:2], inside=True)
    if options.part in ("test", "both"):
        lines += report("Test rows", FIRST, options.data, seeds, inside=False)
    if options.out is not None:
        options.out.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
