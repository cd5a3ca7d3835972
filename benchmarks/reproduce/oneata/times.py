"""Oneață's time against accuracy on the large sets (figure 5.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.machine import cores_and_others, machine_words
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import summary
from reproduce.oneata.fast import rows_and_split, thesis
from reproduce.oneata.judging import Gap, Level, NoLoss, claim, n_splits, outcome
from reproduce.oneata.large import in_short

SPLITS = {"usps": 3, "magic": 3, "mnist": 1}


#: methods: words, colour, mark, and the score that is shown, as in the thesis
METHODS = {
    "SS": ("SS (3,000 rows)", "#56B4E9", "s", "1-NN"),
    "MB": ("MB (clusters of 2,000)", "#0072B2", "s", "NCA"),
    "SL": ("SL (50 queries)", "#6A3D9A", "s", "NCA"),
    "SL CS": ("SL, compact kernel", "#CC79A7", "s", "NCA"),
    "defaults": ("vicinal, defaults", "#D55E00", "o", "NCA"),
    "RCA": ("RCA", "#009E73", "^", "1-NN"),
    "LDA": ("LDA", "#000000", "^", "1-NN"),
    "PCA": ("PCA", "#999999", "^", "1-NN"),
}


THESIS, LINEAR = ("SS", "MB", "SL", "SL CS"), ("RCA", "LDA", "PCA")


#: points by which similar scores may differ
SIMILAR = 1.0


#: rows of the fit that compiles what is measured
FEW = 2500


def jobs(splits: int | None) -> Iterator[Job]:
    """The quick ones first, so that a report can be had early."""
    for name, usual in SPLITS.items():
        for method, split in product(METHODS, range(min(splits or usual, usual))):
            yield {"data": name, "method": method, "split": split}


def work(data: str, method: str, split: int) -> dict[str, Any]:
    """Seconds of the fit, and test scores."""
    machine = cores_and_others()
    X, y, train, test = rows_and_split(data, split)
    few = train[np.random.RandomState(0).permutation(len(train))[:FEW]]
    _model(method, data, split, quick=True).fit(X[few], y[few])  # compiles what it needs
    model = _model(method, data, split)
    rows, labels = X[train], y[train]
    began, worked = time.perf_counter(), time.process_time()
    model.fit(rows, labels)
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    found = {
        "seconds": seconds,
        "cpu": cpu,
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "5-NN": knn(Z, y[train], Z_test, y[test], 5),
        **machine,
    }
    if hasattr(model, "plan_"):
        found["NCA"] = float(model.score(X[test], y[test]))
        found["plan"] = str(model.plan_)
        found["alpha"] = float(model.alpha_)
    return {**found, "iterations": int(getattr(model, "n_iter_", 0))}


def _model(method: str, data: str, seed: int, quick: bool = False) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    from vicinal import NCA, RCA

    short: dict[str, Any] = {"max_iter": 2} if quick else {}
    if method == "RCA":
        return RCA(5)
    if method == "LDA":
        # two classes have one direction
        return LinearDiscriminantAnalysis(n_components=1 if data == "magic" else 5)
    if method == "PCA":
        return PCA(5, random_state=seed)
    if method == "defaults":
        return NCA(5, random_state=seed, **short)
    return thesis(method, 5, seed, **short)


def parts(done: list[Done]) -> dict[str, Any]:
    """Pictures and the means."""
    rows = []
    for name, (method, (words, *_)) in product(SPLITS, METHODS.items()):
        where = {"data": name, "method": method}
        runs = _runs(done, name, method)
        if runs:
            spent = _seconds(float(np.mean([run["seconds"] for run in runs])))
            scores = [
                summary(done, key, **where) if key in runs[0] else None
                for key in ("NCA", "1-NN", "5-NN")
            ]
            rows.append([name, words, spent, *scores, len(runs)])
    head = ["set", "method", "seconds", "NCA rule", "1-NN", "5-NN", "splits"]
    plans = [
        f"{name}: {runs[0]['plan']}" for name in SPLITS if (runs := _runs(done, name, "defaults"))
    ]
    return {
        "finding": bullets(*_findings(done)),
        "table": table(head, rows),
        "machine": machine_words(done),
        "plan_lines": bullets(*plans),
    }


def _runs(done: list[Done], name: str, method: str) -> list[Any]:
    return [
        each.result for each in done if (each.job["data"], each.job["method"]) == (name, method)
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.2g}"


def _gap(done: list[Done], first: str, second: str, name: str) -> Gap | None:
    """By how many points a method is ahead of another, each by the score that is shown."""
    found: list[dict[int, float]] = []
    for method in (first, second):
        score = METHODS[method][-1]
        found.append(
            {
                each.job["split"]: 100 * each.result[score]
                for each in done
                if (each.job["data"], each.job["method"]) == (name, method)
            }
        )
    both = sorted(found[0].keys() & found[1].keys())
    if not both:
        return None
    gaps = [found[0][split] - found[1][split] for split in both]
    error = float(np.std(gaps, ddof=1) / len(gaps) ** 0.5) if len(gaps) > 1 else 0.0
    return Gap(float(np.mean(gaps)), error, len(gaps))


def _mean(done: list[Done], name: str, method: str) -> float:
    """Of the score that is shown."""
    return float(np.mean([run[METHODS[method][-1]] for run in _runs(done, name, method)]))


def _findings(done: list[Done]) -> Iterator[str]:
    """vicinal's defaults beside the best of the thesis's methods, set by set."""
    for name in SPLITS:
        run = [method for method in THESIS if _runs(done, name, method)]
        if not run or not _runs(done, name, "defaults"):
            continue
        best = max(run, key=lambda method: _mean(done, name, method))
        took = [
            _seconds(float(np.mean([r["seconds"] for r in _runs(done, name, method)])))
            for method in ("defaults", best)
        ]
        own = f"`NCA(5)` has {100 * _mean(done, name, 'defaults'):.1f} % in {took[0]} s"
        yield (
            f"{name}: {own}. The most accurate of the thesis's {len(run)} methods here is "
            f"{METHODS[best][0]}, which takes {took[1]} s; `NCA(5)` less that method: "
            f"{_gap(done, 'defaults', best, name)} points"
        )


def claims(done: list[Done]) -> Iterator[Claim]:
    """The remarks of section 5.3.4."""
    leads = {}
    for name in SPLITS:
        gaps = [_gap(done, *pair, name) for pair in product(THESIS, LINEAR)]
        known = [each for each in gaps if each is not None]
        if known:
            leads[name] = min(known)
    yield from claim(
        "All NCA variants are more accurate than PCA, LDA and RCA (least lead)",
        outcome(leads.values()),
        in_short(leads),
    )
    behind = {name: each for name in SPLITS if (each := _gap(done, "SS", "SL", name))}
    says = [
        outcome([each], NoLoss(SIMILAR) if name == "magic" else lambda gap: -gap.sign())
        for name, each in behind.items()
        if each.n > 1
    ]
    yield from claim(
        "Sub-sampling keeps up with stochastic learning on magic alone",
        (says[0] if len(set(says)) == 1 else "partly") if says else None,
        in_short(behind),
    )
    alike = {name: each for name in SPLITS if (each := _gap(done, "MB", "SL", name))}
    yield from claim(
        "Mini-batches and stochastic learning are alike in accuracy",
        outcome(alike.values(), Level(SIMILAR)),
        in_short(alike),
    )
    yield from _faster(done)


def _faster(done: list[Done]) -> Iterator[Claim]:
    """The compact kernel is the fastest way of stochastic learning."""
    shares = {}
    for name in SPLITS:
        times = [_runs(done, name, method) for method in ("SL CS", "SL")]
        if all(times):
            compact, gaussian = (np.mean([run["seconds"] for run in runs]) for runs in times)
            shares[name] = float(compact / gaussian)
    if shares:
        several = [shares[name] for name in shares if n_splits(done, data=name) > 1]
        fast = [share < 0.9 for share in several]
        yield Claim(
            "The compact kernel is considerably faster than the Gaussian one",
            "seen" if fast and all(fast) else "partly" if any(fast) or not fast else "not seen",
            "share of the time: " + in_short({n: f"{100 * s:.0f} %" for n, s in shares.items()}),
        )


def draw(done: list[Done], folder: Path) -> None:
    names = [name for name in SPLITS if any(each.job["data"] == name for each in done)]
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.7 * len(names) + 1.2, 4.6), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=True):
        for method, (words, colour, mark, score) in METHODS.items():
            runs = _runs(done, name, method)
            if runs:
                ax.scatter(
                    [run["seconds"] for run in runs], [100 * run[score] for run in runs],
                    color=colour, marker=mark, s=42, edgecolors="white", lw=0.5, label=words,
                )  # fmt: skip
        ax.set(xscale="log", xlabel="seconds", title=name)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.9", lw=0.6)
    axes[0][0].set_ylabel("test accuracy, per cent")
    handles, labels = max(
        (ax.get_legend_handles_labels() for ax in axes[0]), key=lambda x: len(x[1])
    )
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    picture(figure, folder, "oneata-figure-5.2")


EXPERIMENTS = (
    Experiment(
        "oneata-figure-5.2",
        "Time against accuracy on the large sets (Oneață 2011, figure 5.2)",
        jobs,
        work,
        parts,
        draw,
        threads=None,
        claims=claims,
    ),
)
