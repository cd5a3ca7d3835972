"""Tarlow et al. figure 3: embeddings of wine for several k and both votes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import rows_70_30
from reproduce.framework.statistics import Summary
from reproduce.tarlow.common import (
    FAMILIES,
    LEARNERS,
    accuracies,
    findings,
    gap_outcome,
    grid,
    iterations_to,
    leave_one_out,
    points,
    ratio_words,
    same_start,
    words,
)

SPLITS = 10


TRAINING_K = (1, 3, 5, 10)


TEST_K = (1, 3, 5, 10)


#: the first is that of the picture: the paper names no penalty
ALPHAS = (0.0, 0.003)


MAX_ITER = 500


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; the picture shows the first split."""
    for alpha, split, method in product(ALPHAS, range(splits or SPLITS), grid(TRAINING_K)):
        yield {"data": "wine", "split": split, "alpha": alpha, **method}


def work(data: str, split: int, alpha: float, method: str, k: int) -> dict[str, Any]:
    """Accuracies, and for the first split the embedded rows."""
    X, y = stored(data)
    X = X.astype(float)
    train, test = rows_70_30(len(y), split)
    setting = {"alpha": alpha, "scaling": "standard"}
    start = same_start(X[train], y[train], 2, "pca", split, **setting)
    model = LEARNERS[method](
        k, 2, init=start, solver="lbfgs", sampling="full", max_iter=MAX_ITER, random_state=split,
        **setting,
    )  # fmt: skip
    Z = X @ model.fit(X[train], y[train]).components_.T
    result: dict[str, Any] = {
        "test": accuracies(Z[train], y[train], Z[test], y[test], TEST_K),
        "train": leave_one_out(Z[train], y[train], y[train], TEST_K),
        "iterations": int(model.n_iter_),
        "to 99 %": iterations_to(model.history_["loss"]),
    }
    if split == 0:
        centred = (Z - Z[train].mean(axis=0)) / np.abs(Z[train] - Z[train].mean(axis=0)).max()
        for where, rows in (("train", train), ("test", test)):
            result[f"Z {where}"] = np.round(centred[rows], 4).tolist()
            result[f"y {where}"] = y[rows].tolist()
    return result


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, a table for each penalty, and numbers of the protocol."""
    return {
        "finding": findings(claims(done)),
        "table": "\n\n".join(_table(done, alpha) for alpha in ALPHAS),
        **_protocol(done),
    }


def _of(done: list[Done], alpha: float, method: str, k: int, what: str = "test") -> Any:
    """Scores over the splits, test k in columns."""
    wanted = {"alpha": alpha, "method": method, "k": k}
    found = [e for e in done if all(e.job[key] == value for key, value in wanted.items())]
    return np.array([e.result[what] for e in sorted(found, key=lambda e: e.job["split"])])


def claims(done: list[Done]) -> Iterator[Claim]:
    """Generalisation by k, without a penalty, and speed of convergence."""
    largest = TRAINING_K[-1]
    nca = _of(done, ALPHAS[0], "NCA", 1)
    found = {}
    for vote in FAMILIES:
        scores = _of(done, ALPHAS[0], vote, largest)
        if len(scores) and len(scores) == len(nca):
            found[vote] = scores[:, -1] - nca[:, -1]
    if found:
        figure = "; ".join(f"{vote} {points(gap)} points" for vote, gap in found.items())
        says = f"wine, d = 2: kNCA (k = {largest}) is ahead of NCA on test rows, {largest}-NN"
        yield Claim(says, gap_outcome(*found.values()), figure)
    ratios = {alpha: logs for alpha in ALPHAS if (logs := _log_ratios(done, alpha)) is not None}
    if ratios:
        says = 'wine, d = 2: "majority" converges faster: iterations to 99 %, "all" / "majority"'
        figure = "; ".join(f"α = {alpha:g}: {ratio_words(e)}" for alpha, e in ratios.items())
        yield Claim(says, gap_outcome(*ratios.values()), figure)


def _log_ratios(done: list[Done], alpha: float) -> Any:
    """Log of the iterations of "all" over those of "majority", split by split, mean over k."""
    logs = []
    for k in TRAINING_K[1:]:
        one, other = (_of(done, alpha, vote, k, "to 99 %") for vote in FAMILIES)
        if len(one) and len(one) == len(other):
            logs.append(np.log(np.maximum(one, 1) / np.maximum(other, 1)))
    return np.mean(logs, axis=0) if logs else None


def draw(done: list[Done], folder: Path) -> None:
    """Four rows of panels, training rows above test rows for either vote; a column for each k."""
    from vicinal.plotting import scatter

    first = {(each.job["method"], each.job["k"]): each.result for each in done
             if each.job["split"] == 0 and each.job["alpha"] == ALPHAS[0]}  # fmt: skip
    plt = pyplot()
    figure, axes = plt.subplots(4, len(TRAINING_K), figsize=(10.4, 10.6), layout="constrained")
    for pair, vote in zip((axes[:2], axes[2:]), ("all", "majority"), strict=True):
        for column, k in zip(pair.T, TRAINING_K, strict=True):
            result = first.get(("NCA", 1) if k == 1 else (vote, k))
            for ax, where in zip(column, ("train", "test"), strict=True):
                if result is None:
                    ax.set_axis_off()
                    continue
                own = 100 * result[where][TEST_K.index(k)]
                title = f"{words(vote, k)}, {where}: {own:.1f} %"
                Z = np.array(result[f"Z {where}"])
                classes = np.unique(result["y train"])
                scatter(Z, result[f"y {where}"], ax, title=title, classes=classes, legend=False,
                        size=14.0)  # fmt: skip
                ax.title.set_fontsize(10)
                _frame(ax, np.array(result["Z train"] + result["Z test"]))
    picture(figure, folder, "tarlow-figure-3")


def _frame(ax: Any, Z: Any) -> None:
    """A square that holds all points."""
    low, high = Z.min(axis=0), Z.max(axis=0)
    half = 0.54 * float((high - low).max())
    (x, y) = 0.5 * (low + high)
    ax.set_aspect("equal", adjustable="box")
    ax.set(xlim=(x - half, x + half), ylim=(y - half, y + half))


def _table(done: list[Done], alpha: float) -> str:
    rows = []
    for method in grid(TRAINING_K):
        test, train = (_of(done, alpha, **method, what=what) for what in ("test", "train"))
        if len(test):
            shown = [_shown(test[:, column]) for column in range(len(TEST_K))]
            own = TEST_K.index(method["k"])
            steps = _of(done, alpha, **method, what="to 99 %")
            shown += [_shown(test[:, own]), _shown(train[:, own]), f"{steps.mean():.0f}"]
            rows.append([words(**method), *shown])
    header = ["learnt by", *(f"{k}-NN" for k in TEST_K), "k-NN, k as learnt", "training rows",
              "iterations to 99 %"]  # fmt: skip
    return f"**α = {alpha:g}**\n\n{table(header, rows)}" if rows else ""


def _shown(scores: Any) -> str:
    each = Summary(scores)
    return f"{each:.1f}"


def _protocol(done: list[Done]) -> dict[str, Any]:
    cut = sum(each.result["iterations"] >= MAX_ITER for each in done)
    n = len({each.job["split"] for each in done})
    return {"n": n, "max_iter": MAX_ITER, "cut": cut, "n_done": len(done)}


EXPERIMENTS = (
    Experiment(
        "tarlow-figure-3",
        "Tarlow et al. figure 3: embeddings of wine for several k and both votes",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z train", "Z test", "y train", "y test"),
        claims=claims,
    ),
)
