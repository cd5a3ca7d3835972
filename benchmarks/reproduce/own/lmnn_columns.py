"""``LMNN`` where there are few rows for each column: what keeps it from over-fitting?"""

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
from reproduce.own.paired import figure, gain, present, scores, told_over_sets

#: counts of visual words, of which square roots are taken, and faces: more columns than rows
WIDE = ("webcam", "dslr", "amazon", "caltech10", "olivetti")
#: sets of which few rows are taken, so that there are this many columns for each
DRAWN = ("usps9298", "digits")
SHARES = (2.0, 1.0, 0.5, 0.25, 0.1)
LEAST, MOST, JUDGES = 60, 1500, 1000  # rows to learn from and to judge by
SPLITS = 10
FEWER = 50  # columns that PCA leaves
ALPHAS = (0.0, 1.0, 10.0, 30.0, 100.0, 300.0)
EUCLIDEAN, OWN, PLAIN, STOPPED = "Euclidean", "LMNN()", "alpha 0", "early stopping"
WAYS = {
    EUCLIDEAN: "five neighbours, nothing learnt",
    PLAIN: "`LMNN(alpha=0)`",
    OWN: "`LMNN()`",
    STOPPED: "`LMNN(alpha=0, early_stopping=True)`",
    "PCA": f"`PCA({FEWER})`, then `LMNN(alpha=0)`",
    "NCA": "`NCA()`",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, share and split; all ways within the job."""
    for split in range(splits or SPLITS):
        for name in WIDE:
            yield {"data": name, "split": split, "share": 0.0}
        for name, share in product(DRAWN, SHARES):
            if LEAST <= _n_rows(name, share) <= MOST:
                yield {"data": name, "split": split, "share": share}


#: columns of the sets that are drawn from
_COLUMNS = {"usps9298": 256, "digits": 64}


def _n_rows(name: str, share: float) -> int:
    return round(_COLUMNS[name] / share)


def rows_of(data: str) -> tuple[Any, Any]:
    """Rows on which Euclidean distances make sense, and labels."""
    X, y = protocol.data(data)
    X = X.astype(np.float64)
    if data in DRAWN:
        return X, y
    return (X / 255.0 if data == "olivetti" else np.sqrt(histograms(X))), y


def work(data: str, split: int, share: float) -> dict[str, Any]:
    """Accuracy of each way on rows that it has not learnt from."""
    from vicinal import LMNN, NCA

    X, y = rows_of(data)
    if data in DRAWN:
        n = _n_rows(data, share)
        learn, judge = train_test_split(
            np.arange(len(y)), train_size=n, stratify=y, random_state=split
        )
        judge = judge[:JUDGES]
    else:
        training, _ = folds(y, split)
        learn, judge = train_test_split(training, stratify=y[training], random_state=split)
    ways: dict[str, Any] = {
        OWN: LMNN(random_state=split),
        **{f"alpha {a:g}": LMNN(alpha=a, random_state=split) for a in ALPHAS},
    }
    if data not in DRAWN:
        fewer = PCA(min(FEWER, len(learn) - 1))
        ways |= {
            STOPPED: LMNN(alpha=0.0, early_stopping=True, random_state=split),
            "PCA": make_pipeline(fewer, LMNN(alpha=0.0, random_state=split)),
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
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, and the tables."""
    wide = [each for each in done if each.job["data"] in WIDE]
    names = present(WIDE, wide)
    n_splits = len({each.job["split"] for each in done})
    return {
        "finding": "\n".join(
            f"- against {words}: {told_over_sets(wide, OWN, way, names, tested=0.25)}."
            for way, words in WAYS.items()
            if way != OWN
        ),
        "table": _table(wide, names),
        "path": _path(done),
        "n_splits": n_splits,
        "fewer": FEWER,
        "judges": f"{JUDGES:,}",
    }


def _size(done: list[Done], **where: Any) -> str:
    """Rows and columns of some jobs; folds differ by a row."""
    here = [each.result for each in done if where.items() <= each.job.items()]
    return f"{np.mean([each['rows'] for each in here]):.0f} × {here[0]['columns']}"


def _table(done: list[Done], names: list[str]) -> str:
    rows = []
    for name in names:
        cells = []
        for way in WAYS:
            mean = Summary(list(scores(done, way, data=name).values()))
            gap = gain(done, OWN, way, 0.25, data=name)
            cells.append(f"{mean.mean:.1f}" + ("" if way == OWN else f" ({gap:+.1f})"))
        rows.append([name, _size(done, data=name), *cells])
    return table(["set", "rows × columns", *WAYS.values()], rows)


def _path(done: list[Done]) -> str:
    """Accuracy by penalty, the best of a row in bold."""
    cells = [(name, 0.0) for name in WIDE]
    cells += sorted(product(DRAWN, SHARES), key=lambda each: -each[1])
    rows = []
    for name, share in cells:
        where = {"data": name, "share": share}
        found = [list(scores(done, f"alpha {a:g}", **where).values()) for a in ALPHAS]
        if not all(found):
            continue
        means = [100 * float(np.mean(each)) for each in found]
        best = max(means)
        own = Summary(list(scores(done, OWN, **where).values()))
        shown = [f"**{mean:.1f}**" if mean == best else f"{mean:.1f}" for mean in means]
        gap = gain(done, OWN, PLAIN, 0.25, **where)
        rows.append([name, _size(done, **where), *shown, f"{own.mean:.1f}", f"{gap:+.1f}"])
    titles = [f"alpha = {a:g}" for a in ALPHAS]
    return table(["set", "rows × columns", *titles, "`LMNN()`", "against alpha = 0"], rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """What the penalty is worth, and against what else helps."""
    wide = [each for each in done if each.job["data"] in WIDE]
    names = present(WIDE, wide)
    for way in (PLAIN, "NCA", "PCA", STOPPED):
        told = figure(wide, OWN, way, names, tested=0.25)
        if told:
            yield Claim(f"More columns than rows: `LMNN()` against {WAYS[way]}", "answer", told)


EXPERIMENTS = (
    Experiment(
        "lmnn-columns",
        "LMNN where there are few rows for each column",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
