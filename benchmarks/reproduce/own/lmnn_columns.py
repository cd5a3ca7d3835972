"""``LMNN`` where a table has more columns than rows: what keeps it from over-fitting?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import Summary
from reproduce.olsen.common import folds, histograms
from reproduce.own.paired import gain, over_sets, present, scores, told

#: counts of visual words, of which square roots are taken, and faces
SETS = ("webcam", "dslr", "amazon", "caltech10", "olivetti")
SPLITS = 10
FEWER = 50  # columns that PCA leaves
EUCLIDEAN, OWN, STOPPED = "Euclidean", "LMNN()", "early stopping"
WAYS = {
    EUCLIDEAN: "five neighbours, nothing learnt",
    OWN: "`LMNN()`",
    STOPPED: "`LMNN(early_stopping=True)`",
    "penalty 1": "`LMNN(alpha=1)`",
    "PCA": f"`PCA({FEWER})`, then `LMNN()`",
    "NCA": "`NCA()`",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and fold; all ways within the job."""
    for split, name in product(range(splits or SPLITS), SETS):
        yield {"data": name, "split": split}


def rows_of(data: str) -> tuple[Any, Any]:
    """Rows on which Euclidean distances make sense, and labels."""
    X, y = protocol.data(data)
    X = X.astype(np.float64)
    return (X / 255.0 if data == "olivetti" else np.sqrt(histograms(X))), y


def work(data: str, split: int) -> dict[str, Any]:
    """Accuracy of each way on a quarter of the training rows of a fold of the other pages."""
    from vicinal import LMNN, NCA

    X, y = rows_of(data)
    training, _ = folds(y, split)
    learn, judge = train_test_split(training, stratify=y[training], random_state=split)
    ways = {
        OWN: LMNN(random_state=split),
        STOPPED: LMNN(early_stopping=True, random_state=split),
        "penalty 1": LMNN(alpha=1.0, random_state=split),
        "PCA": make_pipeline(PCA(min(FEWER, len(learn) - 1)), LMNN(random_state=split)),
        "NCA": NCA(random_state=split),
    }
    result: dict[str, Any] = {
        "rows": len(learn),
        "columns": X.shape[1],
        EUCLIDEAN: knn(X[learn], y[learn], X[judge], y[judge], 5),
    }
    for name, model in ways.items():
        model.fit(X[learn], y[learn])
        result[name] = float(model.score(X[judge], y[judge]))
        result[f"{name}, training"] = float(model.score(X[learn], y[learn]))
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, and a table."""
    names = present(SETS, done)
    n_splits = len({each.job["split"] for each in done})
    return {
        "finding": "\n".join(
            f"- {words} beside `LMNN()`: {told(over_sets(done, way, OWN, names), n_splits)}."
            for way, words in WAYS.items()
            if way != OWN
        ),
        "table": _table(done, names),
        "n_splits": n_splits,
        "fewer": FEWER,
    }


def _table(done: list[Done], names: list[str]) -> str:
    rows = []
    for name in names:
        size = next(each.result for each in done if each.job["data"] == name)
        cells = []
        for way in WAYS:
            mean = Summary(list(scores(done, way, data=name).values()))
            gap = gain(done, way, OWN, data=name)
            cells.append(f"{mean.mean:.1f}" + ("" if way == OWN else f" ({gap:+.1f})"))
        rows.append([name, f"{size['rows']} × {size['columns']}", *cells])
    return table(["set", "rows × columns", *WAYS.values()], rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """What helps."""
    names = present(SETS, done)
    for way in ("NCA", "PCA", STOPPED, "penalty 1"):
        found = over_sets(done, way, OWN, names)
        if found:
            says = f"More columns than rows: {WAYS[way]} less `LMNN()`, 5 sets"
            yield Claim(says, "answer", f"{found:+.1f} points")


EXPERIMENTS = (
    Experiment(
        "lmnn-columns",
        "LMNN where a table has more columns than rows",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
