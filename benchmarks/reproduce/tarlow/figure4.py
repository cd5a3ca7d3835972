"""Tarlow et al. figure 4: usps in two dimensions, with some of the training labels resampled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import rows_70_30
from reproduce.framework.statistics import Summary
from reproduce.tarlow.common import (
    FAMILIES,
    LEARNERS,
    accuracies,
    colour,
    grid,
    leave_one_out,
    same_start,
    words,
)

NOISES = (0.0, 0.25, 0.5)


TEST_K = (*range(1, 16), 20, 30, 40, 50)


SHOWN_K = (1, 3, 5, 9, 15, 30, 50)


MAX_ITER = 200


ALPHA = 1e-3


#: accuracies over the splits, test k in columns, by noise and by method and k
Scores = dict[float, dict[tuple[str, int], Any]]


SPLITS = 3  # the paper: 10


#: the training k of the paper's kind first, so that a run cut short has whole panels
TRAINING_K = ((1, 5, 10), (3, 15))


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where noise=0.5 method=all alpha=None`` takes some."""
    for ks, split in product(TRAINING_K, range(splits or SPLITS)):
        for noise, method in product(NOISES, grid(ks)):
            if method["k"] in ks:
                yield {"data": "usps9298", "split": split, "noise": noise, **method}
    # is it the penalty that keeps NCA from learning the noise?
    for split, method in product(range(splits or SPLITS), grid(TRAINING_K[0])):
        where = {"data": "usps9298", "split": split, "noise": max(NOISES)}
        yield {**where, **method, "alpha": 0.0}


def work(
    data: str,
    split: int,
    noise: float,
    method: str,
    k: int,
    alpha: float = ALPHA,
    rows: int | None = None,
) -> dict[str, Any]:
    """Accuracies against the true labels, of votes by the labels that were learnt from."""
    X, y = stored(data)
    X = X.astype(np.float32)
    train, test = rows_70_30(len(y), split)
    train, test = train[:rows], test[:rows]
    labels = resampled(y[train], noise, split)
    # pixels share a unit; start and penalty were chosen for NCA on training rows of mnist
    setting = {"alpha": alpha, "scaling": "global"}
    start = same_start(X[train], labels, 2, "pca", split, **setting)
    model = LEARNERS[method](
        k, 2, init=start, solver="lbfgs", sampling="full", random_state=split, **setting
    )
    A = model.fit(X[train], labels).components_
    Z = X @ A.T
    return {
        "test": accuracies(Z[train], labels, Z[test], y[test], TEST_K),
        "train": leave_one_out(Z[train], labels, y[train], TEST_K),
        "iterations": int(model.n_iter_),
        "loss": float(model.objective_),
        "rows": len(train),
    }


def resampled(y: Any, share: float, seed: int) -> Any:
    """Labels of which a share is drawn anew, uniformly: one in ten of those stays as it was."""
    rng = np.random.RandomState(1000 + seed)
    rows = rng.permutation(len(y))[: round(share * len(y))]
    labels = np.array(y)
    labels[rows] = rng.choice(np.unique(y), len(rows))
    return labels


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, tables by noise, the paper's claims, and numbers of the protocol."""
    free = [each for each in done if "alpha" in each.job]
    done = [each for each in done if "alpha" not in each.job]
    test, train = _scores(done, "test"), _scores(done, "train")
    return {
        "finding": _finding(test),
        "by_noise": "\n\n".join(_table(test[noise], train[noise], noise) for noise in test),
        **_claims(test),
        **_without_penalty(free),
        **_protocol(done),
    }


def _scores(done: list[Done], what: str) -> Scores:
    """Of the splits that all methods of a noise level have in common."""
    found: dict[float, dict[tuple[str, int], dict[int, Any]]] = {}
    for each in done:
        by_method = found.setdefault(each.job["noise"], {})
        key = each.job["method"], each.job["k"]
        by_method.setdefault(key, {})[each.job["split"]] = each.result[what]
    scores: Scores = {}
    for noise in sorted(found):
        common = set.intersection(*(set(splits) for splits in found[noise].values()))
        order = sorted(found[noise], key=lambda key: (list(LEARNERS).index(key[0]), key[1]))
        if common:
            scores[noise] = {
                key: np.array([found[noise][key][split] for split in sorted(common)])
                for key in order
            }
    return scores


def _column(k: int) -> int:
    return TEST_K.index(k)


def _best(scores: dict[tuple[str, int], Any], vote: str, test_k: int) -> tuple[int, Any]:
    """The training k of a vote with the highest mean at a test k, and its scores."""
    ks = [k for method, k in scores if method == vote]
    k = max(ks, key=lambda k: scores[vote, k][:, _column(test_k)].mean())
    return k, scores[vote, k][:, _column(test_k)]


def _gap(one: Any, other: Any) -> str:
    each = Summary(np.asarray(one) - np.asarray(other))
    return f"{each:+.1f}" if len(one) > 1 else f"{each.mean:+.1f}"


def _finding(test: Scores) -> str:
    parts = []
    for noise, scores in test.items():
        text = []
        if ("NCA", 1) in scores:
            nca = scores["NCA", 1]
            text.append(
                f"NCA {100 * nca[:, _column(1)].mean():.1f} % with 1 and "
                f"{100 * nca[:, _column(15)].mean():.1f} % with 15 voters"
            )
            for vote in FAMILIES:
                if (vote, 10) in scores:
                    gap = _gap(scores[vote, 10][:, _column(15)], nca[:, _column(15)])
                    text.append(f"{vote} (k = 10) {gap} points from it with 15")
        if text:
            parts.append(f"at {100 * noise:g} % resampled labels {', '.join(text)}")
    return "Test accuracy against the true labels: " + "; ".join(parts) + "."


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt = pyplot()
    test = _scores([each for each in done if "alpha" not in each.job], "test")
    figure, axes = plt.subplots(
        1, len(test), figsize=(4.2 * len(test), 4.4), layout="constrained", squeeze=False
    )
    for ax, (noise, scores) in zip(axes[0], test.items(), strict=True):
        for key in [key for key in scores if key[1] in (1, 3, 5, 10)]:
            values = 100 * scores[key]
            mean = values.mean(axis=0)
            ax.plot(TEST_K, mean, color=colour(*key), label=words(*key))
            if len(values) > 1:
                error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                ax.fill_between(TEST_K, mean - error, mean + error, color=colour(*key), alpha=0.15)
        ax.set(xlabel="k at test time", title=f"{100 * noise:g} % of the labels resampled")
        plain_frame(ax)
    axes[0, 0].set_ylabel("test accuracy, per cent")
    picture(figure, folder, "tarlow-figure-4")


def _table(test: dict[tuple[str, int], Any], train: dict[Any, Any], noise: float) -> str:
    header = ["learnt by", *(f"{k}-NN" for k in SHOWN_K), "training rows, 15-NN"]
    rows = []
    for key, scores in test.items():
        cells = [_shown(scores[:, _column(k)]) for k in SHOWN_K]
        rows.append([words(*key), *cells, _shown(train[key][:, _column(15)])])
    n = len(next(iter(test.values())))
    return f"**{100 * noise:g} % of the training labels resampled, {n} splits**\n\n" + table(
        header, rows
    )


def _shown(scores: Any) -> str:
    each = Summary(scores)
    return f"{each:.1f}" if len(scores) > 1 else f"{each.mean:.1f}"


def _claims(test: Scores) -> dict[str, Any]:
    """Paired differences, one row for each claim and method."""
    rows: list[list[Any]] = []

    def add(words: str, gap: Any) -> None:
        cells = []
        for scores in test.values():
            try:
                cells.append(_gap(*gap(scores)))
            except (KeyError, ValueError):  # not run
                cells.append(None)
        if any(cells):
            rows.append([words, *cells])

    methods = list(dict.fromkeys(key for scores in test.values() for key in scores))
    for key in methods:
        add(
            f"{words(*key)}: 15-NN − 1-NN",
            lambda s, key=key: (s[key][:, _column(15)], s[key][:, _column(1)]),
        )
    for key in methods:
        for k in (1, 5, 15) if key[0] != "NCA" else ():
            add(
                f"{words(*key)} − NCA, {k}-NN",
                lambda s, key=key, k=k: (s[key][:, _column(k)], s["NCA", 1][:, _column(k)]),
            )
    for k in sorted({k for method, k in methods if method == "all"}):
        for voters in (1, 15):
            add(
                f"all − majority, k = {k}, {voters}-NN",
                lambda s, k=k, v=voters: (
                    s["all", k][:, _column(v)], s["majority", k][:, _column(v)]
                ),
            )  # fmt: skip
    for vote in FAMILIES:
        add(
            f"{vote}, best k − NCA, 15-NN",
            lambda s, vote=vote: (_best(s, vote, 15)[1], s["NCA", 1][:, _column(15)]),
        )
    return {
        "claims": table(["difference in points", *(f"{100 * noise:g} %" for noise in test)], rows)
    }


def _without_penalty(free: list[Done]) -> dict[str, Any]:
    """The same without a penalty, which the paper does not mention."""
    test, train = _scores(free, "test"), _scores(free, "train")
    tables = [_table(test[noise], train[noise], noise) for noise in test]
    if not tables:
        return {}
    words = (
        f"The paper mentions no penalty on the map. With α = 0 in place of {ALPHA:g}, and all else "
        "the same:"
    )
    return {"without_penalty": words, "without_penalty_tables": "\n\n".join(tables)}


def _protocol(done: list[Done]) -> dict[str, Any]:
    cut = sum(each.result["iterations"] >= MAX_ITER for each in done)
    seconds = [each.seconds for each in done]
    return {
        "n_rows": f"{max(each.result['rows'] for each in done):,}",
        "max_iter": MAX_ITER,
        "cut": cut,
        "n_done": len(done),
        "median_seconds": f"{np.median(seconds):.0f}",
        "max_seconds": f"{max(seconds):.0f}",
    }


EXPERIMENTS = (
    Experiment(
        "tarlow-figure-4",
        "Tarlow et al. figure 4: usps in two dimensions, with some training labels resampled",
        jobs,
        work,
        parts,
        draw,
    ),
)
