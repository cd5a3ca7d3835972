"""What the votes of annotators are worth beside the label that most of them gave, and their price.

``python benchmarks/soft_labels.py --data DIR [--output]``.  Each training row is labelled by five
simulated annotators who err with a probability of its own, drawn from a Beta distribution with the
mean that the table states.  An error is another class at random ("any class"), or the class of the
nearest row of another class ("look-alike"), as where annotators confuse what looks alike.  ``NCA``
learns from the shares of the votes, from the label with most votes (ties by chance), or from the
true labels; all test rows have their true labels.  All models choose their penalty.

Differences are paired by split, with their standard errors.  Seconds are CPU time of a fit, all
threads together; each model is fitted once before, so that nothing is compiled.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, facts, progress, read_options, table, write
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from vicinal import NCA

ANNOTATORS, TRAINING, TEST, RANK = 5, 600, 1500, 10
ERRORS = (0.2, 0.4)
KINDS = ("any class", "look-alike")
TABLES = ["digits", "landsat"]  # or any other .npz in the folder
LEARNT_FROM = ("true labels", "majority", "votes")


def rows_of(name: str, folder: Path) -> tuple[Any, Any]:
    """The rows of a table, and their classes from 0 on."""
    if name == "digits":
        return load_digits(return_X_y=True)
    with np.load(folder / f"{name}.npz") as file:
        X, y = file["X"].astype(float), file["y"]
    return X, np.unique(y, return_inverse=True)[1]


def look_alikes(X: Any, y: Any) -> Any:
    """The class of the nearest row of another class, for each row."""
    Z = StandardScaler().fit_transform(X)
    near = NearestNeighbors(n_neighbors=len(X)).fit(Z).kneighbors(Z, return_distance=False)
    other = y[near] != y[:, None]
    return y[near[np.arange(len(y)), other.argmax(axis=1)]]


def votes_on(X: Any, y: Any, kind: str, error: float, rng: Any) -> Any:
    """How many annotators give each class to each row, (n, n_classes)."""
    n_classes = int(y.max()) + 1
    rate = rng.beta(2 * error, 2 * (1 - error), size=len(y))
    rival = look_alikes(X, y)
    votes = np.zeros((len(y), n_classes))
    for _ in range(ANNOTATORS):
        wrong = rival
        if kind == "any class":
            wrong = (y + rng.randint(1, n_classes, size=len(y))) % n_classes
        label = np.where(rng.uniform(size=len(y)) < rate, wrong, y)
        votes[np.arange(len(y)), label] += 1
    return votes


def one_split(X: Any, y: Any, n: int, kind: str, error: float, seed: int) -> dict[str, Any]:
    """Accuracy, Brier score and CPU seconds of each model, and how many majorities are wrong."""
    rng = np.random.RandomState(seed)
    rows = rng.permutation(len(y))[: n + TEST]
    X_learn, X_test, y_learn, y_test = train_test_split(
        X[rows], y[rows], train_size=n, random_state=seed, stratify=y[rows]
    )
    votes = votes_on(X_learn, y_learn, kind, error, rng)
    most = (votes + 1e-3 * rng.uniform(size=votes.shape)).argmax(axis=1)
    targets = dict(zip(LEARNT_FROM, (y_learn, most, votes / ANNOTATORS), strict=True))
    found: dict[str, Any] = {"wrong": 100 * np.mean(most != y_learn)}
    for name, target in targets.items():
        began = time.process_time()
        model = NCA(RANK, random_state=0).fit(X_learn, target)
        seconds = time.process_time() - began
        P = np.zeros((len(y_test), votes.shape[1]))
        P[:, model.classes_] = model.predict_proba(X_test)
        right = np.eye(votes.shape[1])[y_test]
        accuracy = 100 * np.mean(P.argmax(axis=1) == y_test)
        found[name] = accuracy, np.mean(np.sum((P - right) ** 2, axis=1)), seconds
    return found


def difference(one: Any, other: Any, digits: int) -> str:
    """The mean paired difference and its standard error."""
    gap = np.asarray(one) - np.asarray(other)
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    return f"{gap.mean():+.{digits}f} ± {error:.{digits}f}"


def report(folder: Path, n: int, splits: int, names: list[str]) -> str:
    """The table, and a sentence that sums it up."""
    lines, gaps, ratios = [], [], []
    for name in names:
        X, y = rows_of(name, folder)
        one_split(X, y, n, KINDS[0], ERRORS[0], 99)  # compiles
        for kind in KINDS:
            for error in ERRORS:
                done = [one_split(X, y, n, kind, error, seed) for seed in range(splits)]
                accuracy, brier, seconds = (
                    {model: [split[model][i] for split in done] for model in LEARNT_FROM}
                    for i in range(3)
                )
                ratio = np.mean(seconds["votes"]) / np.mean(seconds["majority"])
                gap = np.subtract(accuracy["votes"], accuracy["majority"])
                gaps.append(gap.mean())
                ratios.append(ratio)
                lines.append([
                    name, kind, error, f"{np.mean([split['wrong'] for split in done]):.1f}",
                    *(f"{np.mean(accuracy[model]):.1f}" for model in LEARNT_FROM),
                    difference(accuracy["votes"], accuracy["majority"], 1),
                    difference(brier["votes"], brier["majority"], 3),
                    f"{np.mean(seconds['majority']):.1f}", f"{ratio:.1f}",
                ])  # fmt: skip
                progress(" ".join(map(str, lines[-1])))
    header = ["table", "errors", "rate", "wrong majorities, %", *LEARNT_FROM,
              "votes − majority", "Brier score", "CPU s, majority", "votes / majority"]  # fmt: skip
    notes = [
        "Accuracies on test rows in per cent. A Brier score is a squared error: lower is better.",
        "A prediction from votes is what annotators would say, errors included, and the Brier "
        "score asks for the truth: it is often worse where the accuracy is better.",
        f"Votes less majority: {np.mean(gaps):+.2f} points on the mean of {len(gaps)} settings, "
        f"from {min(gaps):+.1f} to {max(gaps):+.1f}; better in {sum(g > 0 for g in gaps)}.",
        f"A fit to votes takes {np.mean(ratios):.1f} times the CPU time of a fit to labels, from "
        f"{min(ratios):.1f} to {max(ratios):.1f}.",
    ]
    return table(header, lines, notes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(), help="folder with the data sets")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--quick", action="store_true", help="two splits of a few digits")
    add_output(parser, "soft_labels")
    options = read_options(parser)
    warnings.simplefilter("ignore")
    n, splits, names = TRAINING, options.splits, options.tables
    if options.quick:
        n, splits, names = 60, 2, ["digits"]
    method = " ".join(__doc__.partition("``.  ")[2].partition("\n\n")[0].split())
    page = "\n\n".join([
        "# Votes of annotators, or the label that most of them gave",
        f"{facts()}\n- {n} training rows, up to {TEST} test rows, "
        f"{ANNOTATORS} annotators, `NCA({RANK})`, {splits} splits",
        method.replace("``", "`"),
        report(options.data, n, splits, names),
    ])  # fmt: skip
    print(page)
    write(page, options.output)


if __name__ == "__main__":
    main()
