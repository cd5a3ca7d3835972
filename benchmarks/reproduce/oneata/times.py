"""Oneață's time against accuracy on the large sets (figure 5.2), with peers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import Summary
from reproduce.oneata.fast import rows_and_split, thesis

SPLITS = {"usps": 3, "magic": 3, "mnist": 1}


#: rows and iterations of scikit-learn's NCA, which takes memory of N²
SKLEARN_ROWS = {"usps": 7700, "magic": 5000, "mnist": 5000}


SKLEARN_ITERATIONS = 30


#: methods: words, colour, mark, and the score that is shown
METHODS = {
    "SS": ("SS (3,000 rows)", "#56B4E9", "s", "1-NN"),
    "MB": ("MB (clusters of 2,000)", "#0072B2", "s", "NCA"),
    "SL": ("SL (50 queries)", "#6A3D9A", "s", "NCA"),
    "SL CS": ("SL, compact kernel", "#CC79A7", "s", "NCA"),
    "defaults": ("vicinal, defaults", "#D55E00", "o", "NCA"),
    "exact": ("vicinal, exact", "#E69F00", "o", "NCA"),
    "stochastic": ("vicinal, stochastic", "#BFAE00", "o", "NCA"),
    "scikit-learn": ("scikit-learn's NCA + 5-NN", "#009E73", "^", "5-NN"),
    "LDA": ("LDA + 5-NN", "#000000", "^", "5-NN"),
    "PCA": ("PCA + 5-NN", "#999999", "^", "5-NN"),
}


PEERS = ("scikit-learn", "LDA", "PCA")


def jobs(splits: int | None) -> Iterator[Job]:
    """The quick ones first, so that a report can be had early."""
    for name, usual in SPLITS.items():
        for method in METHODS:
            for split in range(min(splits or usual, usual) if method != "scikit-learn" else 1):
                yield {"data": name, "method": method, "split": split}


def work(data: str, method: str, split: int) -> dict[str, Any]:
    """Seconds of the fit, and test scores."""
    load = os.getloadavg()[0]
    X, y, train, test = rows_and_split(data, split)
    few = train[np.random.RandomState(0).permutation(len(train))[:5000]]
    _model(method, data, split, quick=True).fit(X[few], y[few])  # compiles what it needs
    if method == "scikit-learn":
        train_on = _draw(train, SKLEARN_ROWS[data], split)
    else:
        train_on = train
    model = _model(method, data, split)
    rows, labels = X[train_on], y[train_on]
    # threads of BLAS that wait for a core count as work: where cores are short, only one
    limit = 1 if method in PEERS and _busy([load]) else None
    with threadpool_limits(limit, "blas"):
        began, worked = time.perf_counter(), time.process_time()
        model.fit(rows, labels)
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    found = {
        "seconds": seconds,
        "cpu": cpu,
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "5-NN": knn(Z, y[train], Z_test, y[test], 5),
        "15-NN": knn(Z, y[train], Z_test, y[test], 15),
        "load": load,
        "rows": len(train_on),
    }
    if hasattr(model, "plan_"):
        found["NCA"] = float(model.score(X[test], y[test]))
        found["plan"] = str(model.plan_)
    return {**found, "iterations": int(getattr(model, "n_iter_", 0))}


def _draw(rows: Any, n: int, seed: int) -> Any:
    return rows if n >= len(rows) else np.sort(np.random.RandomState(seed).permutation(rows)[:n])


def _model(method: str, data: str, seed: int, quick: bool = False) -> Any:
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.neighbors import NeighborhoodComponentsAnalysis
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from vicinal import NCA

    short: dict[str, Any] = {"max_iter": 2} if quick else {}
    if method == "LDA":
        # two classes have one direction
        return LinearDiscriminantAnalysis(n_components=1 if data == "magic" else 5)
    if method == "PCA":
        return PCA(5, random_state=seed)
    if method == "scikit-learn":
        iterations = 2 if quick else SKLEARN_ITERATIONS
        peer = NeighborhoodComponentsAnalysis(5, max_iter=iterations, random_state=seed)
        return make_pipeline(StandardScaler(), peer)
    if method == "defaults":
        return NCA(5, random_state=seed, **short)
    if method == "exact":
        return NCA(5, alpha=3e-3, sampling="full", pairs="all", random_state=seed, **short)
    if method == "stochastic":
        return NCA(5, alpha=3e-3, sampling="stochastic", random_state=seed, **short)
    return thesis(method, 5, seed, **short)


def parts(done: list[Done]) -> dict[str, Any]:
    """Pictures and the means."""
    clock = _clock(done)
    rows = []
    for name in SPLITS:
        for method, (words, _, _, _) in METHODS.items():
            runs = _runs(done, name, method)
            if runs:
                spent = _seconds(np.mean([run[clock] for run in runs]))
                scores = [
                    str(Summary([run[key] for run in runs])) if key in runs[0] else ""
                    for key in ("NCA", "1-NN", "5-NN", "15-NN")
                ]
                n = f"{runs[0]['rows']:,}"
                rows.append([name, words, spent, *scores, n, len(runs)])
    unit = "seconds" if clock == "seconds" else "CPU seconds"
    head = ["set", "method", unit, "NCA rule", "1-NN", "5-NN", "15-NN", "rows", "splits"]
    plans = [
        f"- {name}: {_runs(done, name, 'defaults')[0]['plan']}"
        for name in SPLITS
        if _runs(done, name, "defaults")
    ]
    plan_lines = "\n".join(plans)
    return {
        "finding": _finding(done),
        "table": table(head, rows),
        "clock_words": _clock_words(done),
        "plan_lines": plan_lines,
        "sklearn_rows": ", ".join((f"{n:,} rows of {name}" for name, n in SKLEARN_ROWS.items())),
        "sklearn_iterations": SKLEARN_ITERATIONS,
    }


def _runs(done: list[Done], name: str, method: str) -> list[Any]:
    return [
        each.result for each in done if (each.job["data"], each.job["method"]) == (name, method)
    ]


def _busy(loads: list[float]) -> bool:
    """Whether the machine had other things to do."""
    return float(np.median(loads)) > 1.5 * (os.cpu_count() or 1)


def _clock(done: list[Done]) -> str:
    """The wall-clock; where the machine was busy with other things, the time of the cores."""
    return "cpu" if _busy([each.result["load"] for each in done]) else "seconds"


def _clock_words(done: list[Done]) -> str:
    loads = [each.result["load"] for each in done]
    text = (
        f"Time is that of `fit`, the search for t₀ included, on {os.cpu_count()} cores, one job at "
        f"a time, compiled before. The load of the machine was {min(loads):.1f} to "
        f"{max(loads):.1f} when the jobs began (1 is one busy core)"
    )
    if _clock(done) == "seconds":
        return f"{text}; the wall-clock is shown."
    return (
        f"{text}: other programs ran, and the wall-clock says nothing. Shown are the seconds of "
        "all cores together; on a quiet machine the wall-clock would be a little more than half of "
        "them. The peers have one thread of BLAS, since a thread that waits for a core counts as "
        "work."
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 100 else f"{seconds:.2g}"


def _finding(done: list[Done]) -> str:
    parts = []
    clock = _clock(done)
    unit = "s" if clock == "seconds" else "CPU s"
    for name in SPLITS:
        cells = {}
        for method, (words, _, _, score) in METHODS.items():
            runs = _runs(done, name, method)
            if runs:
                mean = 100 * float(np.mean([run[score] for run in runs]))
                cells[method] = (words, mean, float(np.mean([run[clock] for run in runs])))
        if "defaults" not in cells:
            continue
        words, mean, seconds = cells.pop("defaults")
        told = f"{name} {mean:.1f} % in {_seconds(seconds)} {unit}"
        thesis_best = max(
            (cells[m] for m in ("SS", "MB", "SL", "SL CS") if m in cells),
            key=lambda cell: cell[1],
            default=None,
        )
        if thesis_best:
            told += f" (best of the thesis's: {thesis_best[0]}, {thesis_best[1]:.1f} % in "
            told += f"{_seconds(thesis_best[2])} {unit}"
        peer = cells.get("scikit-learn")
        if peer:
            told += f"; scikit-learn's NCA {peer[1]:.1f} % in {_seconds(peer[2])} {unit}"
        parts.append(told + ")" * bool(thesis_best))
    return f"`NCA(5)` as it comes: {'; '.join(parts)}." if parts else "Not run yet."


def draw(done: list[Done], folder: Path) -> None:
    names = [name for name in SPLITS if any(each.job["data"] == name for each in done)]
    clock = _clock(done)
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.7 * len(names) + 1.2, 4.6), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=True):
        for method, (words, colour, mark, score) in METHODS.items():
            runs = _runs(done, name, method)
            if runs:
                ax.scatter(
                    [run[clock] for run in runs], [100 * run[score] for run in runs],
                    color=colour, marker=mark, s=42, edgecolors="white", lw=0.5, label=words,
                )  # fmt: skip
        words = "seconds" if clock == "seconds" else "CPU seconds, all cores together"
        ax.set(xscale="log", xlabel=words, title=name)
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
    ),
)
