"""Accuracy of k-NN, boosted trees, forests, support vectors and networks on sixteen tables.

Only scikit-learn is measured here: the page about our maps reads these numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import Summary
from reproduce.own.classification_tables import SPLITS, TABLES, load, split_rows

__all__ = ["GRIDS", "NAMES", "PEERS", "scores_of"]

#: keys of the results, and titles of the columns
NAMES = {
    "k-NN": "k-NN",
    "boosting": "HistGradientBoosting",
    "forest": "RandomForest",
    "SVC": "SVC (RBF)",
    "network": "MLPClassifier",
}
#: those that the goal is about: the highest of their means
PEERS = ("boosting", "forest", "SVC", "network")

#: candidates of each method; of equally good ones the first is taken
GRIDS: dict[str, list[dict[str, Any]]] = {
    "k-NN": [{"n_neighbors": k} for k in (5, 1, 3, 7, 10, 15, 20, 30)],
    "boosting": [
        {"max_iter": 100},
        {"max_iter": 200},
        {"max_iter": 100, "min_samples_leaf": 5},
        {"max_iter": 100, "max_leaf_nodes": 8},
    ],
    "forest": [
        {"max_features": "sqrt"},
        {"max_features": 0.5},
        {"max_features": "sqrt", "min_samples_leaf": 3},
    ],
    # gamma as a multiple of 1 / (number of columns)
    "SVC": [{"C": C, "gamma": gamma} for C, gamma in product((1, 10), (1.0, 0.3, 3.0))],
    "network": [
        {"hidden_layer_sizes": hidden, "early_stopping": early}
        for hidden, early in product(((100,), (100, 100)), (True, False))
    ],
}


#: rows that a candidate learns from at most, and trees of a forest that is one, or is scored
MANY = 4000
TREES = {"choice": 100, "last": 300}


def jobs(splits: int | None) -> Iterator[Job]:
    """Every table and split; all methods within the job, on the same rows."""
    for split, name in product(range(splits or SPLITS), TABLES):
        yield {"data": name, "split": split}


def score_all(data: str, split: int) -> dict[str, Any]:
    """Test accuracy of every method, its parameters chosen on the rows held out for that."""
    X, y = load(data)
    rows = split_rows(y, split)
    found: dict[str, Any] = {"rows": len(y), "columns": X.shape[1], "classes": int(y.max()) + 1}
    learn = np.random.RandomState(split).permutation(rows.learn)[:MANY]
    for method, grid in GRIDS.items():
        began = time.process_time()
        inner = [
            _score(_model(method, each, X, split, "choice"), X, y, learn, rows.choose)
            for each in grid
        ]
        best = int(np.argmax(inner))
        middle = time.process_time()
        model = _model(method, grid[best], X, split, "last")
        found[method] = _score(model, X, y, rows.train, rows.test)
        found[f"chosen of {method}"] = best
        found[f"inner of {method}"] = inner
        found[f"cpu of {method}"] = time.process_time() - middle
        found[f"cpu of the choice of {method}"] = middle - began
    return found


def _score(model: Any, X: Any, y: Any, learn: Any, judge: Any) -> float:
    if "mlpclassifier" in getattr(model, "named_steps", ()):
        # its early stopping splits class by class, which takes two rows
        learn = learn[np.bincount(y[learn], minlength=y.max() + 1)[y[learn]] > 1]
    return float(model.fit(X[learn], y[learn]).score(X[judge], y[judge]))


def _model(method: str, parameters: dict[str, Any], X: Any, seed: int, fit: str) -> Any:
    """An unfitted model; all but the trees get standardised columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if method == "boosting":
        return HistGradientBoostingClassifier(random_state=seed, early_stopping=False, **parameters)
    if method == "forest":
        return RandomForestClassifier(TREES[fit], random_state=seed, n_jobs=1, **parameters)
    if method == "k-NN":
        model: Any = KNeighborsClassifier(**parameters)
    elif method == "SVC":
        model = SVC(C=parameters["C"], gamma=parameters["gamma"] / X.shape[1], cache_size=500)
    else:
        model = MLPClassifier(
            random_state=seed,
            n_iter_no_change=20,
            max_iter=200 if len(X) > 2000 else 1000,  # epochs; those of few rows have few steps
            **parameters,
        )
    return make_pipeline(StandardScaler(), model)


def scores_of(done: list[Done], name: str, method: str) -> Any:
    """Test accuracies of a method on a table, split by split."""
    here = sorted((e for e in done if e.job["data"] == name), key=lambda e: e.job["split"])
    return np.array([each.result[method] for each in here])


def parts(done: list[Done]) -> dict[str, Any]:
    """Accuracies, times, and what was chosen."""
    names = [name for name in TABLES if any(each.job["data"] == name for each in done)]
    means = {
        method: np.mean([scores_of(done, name, method) for name in names], axis=0)
        for method in NAMES
    }
    order = sorted(NAMES, key=lambda method: -means[method].mean())
    return {
        "finding": ", ".join(f"{NAMES[method]} {Summary(means[method]):.1f}" for method in order),
        "accuracies": _accuracies(done, names, means),
        "tables": _sizes(done, names),
        "seconds": _seconds(done, names),
        "chosen": _chosen(done),
        "n_splits": len({each.job["split"] for each in done}),
        "n_tables": len(names),
        "many": f"{MANY:,}",
        "trees": TREES["last"],
        "fewer_trees": TREES["choice"],
    }


def _accuracies(done: list[Done], names: list[str], means: dict[str, Any]) -> str:
    rows = []
    for name in names:
        found = {method: Summary(scores_of(done, name, method)) for method in NAMES}
        best = max(each.mean for each in found.values())
        cells = [
            f"**{each:.1f}**" if each.mean == best else f"{each:.1f}" for each in found.values()
        ]
        rows.append([name, *cells])
    rows.append(["**mean**", *(f"{Summary(values):.1f}" for values in means.values())])
    return table(["table", *NAMES.values()], rows)


def _sizes(done: list[Done], names: list[str]) -> str:
    rows = []
    for name in names:
        size = next(each.result for each in done if each.job["data"] == name)
        rows.append([name, *(f"{size[key]:,}" for key in ("rows", "columns", "classes"))])
    return table(["table", "rows", "columns", "classes"], rows)


def _seconds(done: list[Done], names: list[str]) -> str:
    """Seconds of a core for one fit and score with the chosen parameters."""
    rows = []
    for name in names:
        spent = [scores_of(done, name, f"cpu of {method}").mean() for method in NAMES]
        rows.append([name, *(f"{each:.2f}" for each in spent)])
    return table(["table", *NAMES.values()], rows)


def _chosen(done: list[Done]) -> str:
    """The candidates of each method, and how often each was taken."""
    lines = []
    for method, grid in GRIDS.items():
        counts = np.bincount([e.result[f"chosen of {method}"] for e in done], minlength=len(grid))
        words = [
            ", ".join(f"{key} {value}" for key, value in each.items()) + f" ({count})"
            for each, count in zip(grid, counts, strict=True)
        ]
        lines.append(f"{NAMES[method]}: {'; '.join(words)}")
    return bullets(*lines)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answer of the index."""
    names = [name for name in TABLES if any(each.job["data"] == name for each in done)]
    means = {
        method: Summary(np.mean([scores_of(done, name, method) for name in names], axis=0))
        for method in PEERS
    }
    first, second = sorted(means, key=lambda method: -means[method].mean)[:2]
    yield Claim(
        f"The best of scikit-learn's classifiers on {len(names)} tables, mean accuracy in per cent",
        "answer",
        f"{NAMES[first]} {means[first]:.1f}, then {NAMES[second]} {means[second]:.1f}",
    )


EXPERIMENTS = (
    Experiment(
        "table-peers",
        "scikit-learn's classifiers on sixteen tables, for comparison with learnt metrics",
        jobs,
        score_all,
        parts,
        claims=claims,
    ),
)
