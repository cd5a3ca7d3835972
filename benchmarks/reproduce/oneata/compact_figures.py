"""Oneață's compact kernel: points inspected (figure 5.5) and two starts (figure 5.6)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot, square_frame
from reproduce.framework.protocol import knn
from reproduce.oneata.fast import COMPACT, Keeper, rows_and_split, start, thesis

ITERATIONS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


STARTS = {
    "rca": "RCA",
    "tenth": "RCA, a tenth in range",
    "random": "random",
    "close": "all points close together",
}


QUERIES = 50  # of a step


COLOURS = {"rca": "#0072B2", "tenth": "#009E73", "random": "#E69F00", "close": "#D55E00"}


def jobs(splits: int | None) -> Iterator[Job]:
    """Two sets from four starts."""
    for name, begin in product(("usps", "magic"), STARTS):
        yield {"data": name, "start": begin, "d": 5}


def work(data: str, start: str, d: int) -> dict[str, Any]:
    """The share of pairs in range, and of those computed, at maps along the way."""
    model, maps, (X, y, train, test) = _learn(data, start, d)
    X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    along = {str(t): _inspected(X.astype(np.float64) @ A.T, y) for t, A in sorted(maps.items())}
    return {
        "along": along,
        "NCA": float(model.score(X_test, y_test)),
        "1-NN": knn(model.transform(X), y, model.transform(X_test), y_test),
        "iterations": int(model.n_iter_),
        "seconds": model.history_["seconds"][-1],
    }


def starts_jobs(splits: int | None) -> Iterator[Job]:
    """Two sets from two starts, to two dimensions."""
    for name, begin in product(("usps", "magic"), ("close", "rca")):
        yield {"data": name, "start": begin, "d": 2}


def starts_work(data: str, start: str, d: int) -> dict[str, Any]:
    """Embedded test rows and scores."""
    model, maps, (X, y, train, test) = _learn(data, start, d)
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    return {
        "Z": np.round(Z_test - np.median(Z_test, axis=0), 3).tolist(),
        "y": y[test].tolist(),
        "NCA": float(model.score(X[test], y[test])),
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "alone": _alone(Z, Z_test),
        "in range": _share_in_range(Z),
        "iterations": int(model.n_iter_),
        "seconds": model.history_["seconds"][-1],
    }


def _learn(data: str, begin: str, d: int) -> tuple[Any, dict[int, Any], tuple[Any, Any, Any, Any]]:
    """Stochastic learning with the compact kernel, without early stopping; maps along the way."""
    X, y, train, test = rows_and_split(data, 0)
    A = start("rca" if begin == "tenth" else begin, X[train], y[train], d, 0)
    if begin == "tenth":
        A = A * _scale_in_range(X[train].astype(np.float64) @ A.T, 0.1)
    keeper = Keeper(ITERATIONS)
    model = thesis("SL CS", d, 0, init=A, early_stopping=False, max_iter=max(ITERATIONS))
    model.set_callbacks(keeper).fit(X[train], y[train])
    return model, {0: A, **keeper.maps}, (X, y, train, test)


def _share_in_range(Z: Any) -> float:
    """Of all ordered pairs, those within the kernel's range."""
    from scipy.spatial import cKDTree

    tree = cKDTree(Z)
    n = len(Z)
    return float((tree.count_neighbors(tree, 1.0) - n) / (n * (n - 1)))


def _scale_in_range(Z: Any, share: float) -> float:
    """The factor at which that share of the pairs is in range, on a sample of the rows."""
    few = Z[np.random.RandomState(0).permutation(len(Z))[:2000]]
    low, high = 1e-3, 1e3
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _share_in_range(middle * few) > share else (low, middle)
    return (low * high) ** 0.5


def _alone(Z: Any, Z_test: Any) -> float:
    """The share of new rows that nobody is in range of."""
    from scipy.spatial import cKDTree

    return float(np.mean(cKDTree(Z).query(Z_test)[0] >= 1.0))


def _inspected(Z: Any, y: Any) -> dict[str, float]:
    """Pairs in range, and pairs whose distance the library computes, for steps at this map."""
    from scipy.spatial import cKDTree

    from vicinal.objectives import nca

    shares, values = [], []
    rng = np.random.RandomState(0)
    for _ in range(5):
        report: dict[str, Any] = {}
        queries = np.sort(rng.permutation(len(y))[:QUERIES])
        value, _ = nca(
            Z.astype(np.float32), y, "accuracy", queries=queries, kernel=COMPACT, warn=False,
            report=report,
        )  # fmt: skip
        shares.append(float(report["share_of_pairs"]))
        values.append(-value)
    report = {}
    nca(Z.astype(np.float32), y, "accuracy", kernel=COMPACT, warn=False, report=report)
    nearest = cKDTree(Z).query(Z, k=2)[0][:, 1]
    return {
        "in range": _share_in_range(Z),
        "computed": float(np.mean(shares)),
        "computed, all rows": float(report["share_of_pairs"]),
        "f": float(np.mean(values)),
        "alone": float(np.mean(nearest >= 1.0)),
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """Shares along the way, as curves and as a table."""
    rows = []
    for each in done:
        for t, found in each.result["along"].items():
            cells = [_per_cent(found[key]) for key in ("in range", "computed", "alone")]
            cells += [_per_cent(found["computed, all rows"]), f"{100 * found['f']:.1f}"]
            rows.append([each.job["data"], STARTS[each.job["start"]], t, *cells])
    head = ["set", "start", "step", "in range", "computed", "rows alone", "computed, whole", "f"]
    ends = [
        [
            each.job["data"],
            STARTS[each.job["start"]],
            f"{100 * each.result['NCA']:.2f}",
            f"{100 * each.result['1-NN']:.2f}",
            f"{each.result['seconds']:.1f}",
        ]
        for each in done
    ]
    return {
        "finding": _finding(done),
        "table": table(head, rows),
        "queries": QUERIES,
        "ends": table(["set", "start", "NCA rule", "1-NN", "seconds"], ends),
        "max_iterations": f"{max(ITERATIONS):,}",
    }


def _per_cent(share: float) -> str:
    return f"{100 * share:.3g}"


def _finding(done: list[Done]) -> str:
    parts = []
    for each in done:
        along = each.result["along"]
        first, last = along["0"], along[max(along, key=int)]
        parts.append(
            f"{each.job['data']}, {STARTS[each.job['start']]}: {_per_cent(first['in range'])} % at "
            f"the start and {_per_cent(last['in range'])} % at the end "
            f"({_per_cent(last['computed'])} % computed)"
        )
    if not parts:
        return "Not run yet."
    return (
        "The thesis has 0.1 % of the points in range of the compact kernel from a random start and "
        f"about 10 % from RCA. Here: {'; '.join(parts)}. Test accuracy by the NCA rule: "
        f"{_scores(done)}."
    )


def _scores(done: list[Done]) -> str:
    return "; ".join(
        f"{each.job['data']}, {STARTS[each.job['start']]}: {100 * each.result['NCA']:.1f} %"
        for each in done
    )


def draw(done: list[Done], folder: Path) -> None:
    names = list(dict.fromkeys(each.job["data"] for each in done))
    if not names:
        return
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 3.9), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    for ax, name in zip(axes[0], names, strict=True):
        for each in done:
            if each.job["data"] != name:
                continue
            along, begin = each.result["along"], each.job["start"]
            steps = np.array([int(t) for t in along])
            for key, line in (("in range", "-"), ("computed", "--")):
                shares = [100 * found[key] for found in along.values()]
                words = f"{STARTS[begin]}: {key}"
                ax.plot(steps, shares, line, marker="o", ms=3, color=COLOURS[begin], label=words)
        ax.set(xlabel="step", yscale="log", title=name)
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(-0.2, 1.2 * max(ITERATIONS))
        plain_frame(ax)
    axes[0][0].set_ylabel("share of the pairs, per cent")
    picture(figure, folder, "oneata-figure-5.5")


def starts_draw(done: list[Done], folder: Path) -> None:
    """Test rows from either start."""
    from vicinal import plotting

    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(done), figsize=(3.4 * len(done), 3.6), layout="constrained", squeeze=False
    )
    for ax, each in zip(axes[0], done, strict=True):
        Z, y = np.array(each.result["Z"]), np.array(each.result["y"])
        title = f"{each.job['data']}, start: {STARTS[each.job['start']]}"
        title += f"\nNCA rule {100 * each.result['NCA']:.1f} %"
        plotting.scatter(Z, y, ax, title=title, legend=False, size=5)
        ax.title.set_fontsize("medium")
        square_frame(ax, Z)
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        x, height = left + 0.05 * (right - left), bottom + 0.05 * (top - bottom)
        ax.plot([x, x + 1], [height, height], color="black", lw=2)
    picture(figure, folder, "oneata-figure-5.6")


def starts_parts(done: list[Done]) -> dict[str, Any]:
    """Scores from either start."""
    rows = [
        [each.job["data"], STARTS[each.job["start"]]]
        + [f"{100 * each.result[key]:.2f}" for key in ("NCA", "1-NN", "alone", "in range")]
        + [f"{each.result['seconds']:.1f}"]
        for each in done
    ]
    head = ["set", "start", "NCA rule", "1-NN", "test rows alone", "pairs in range", "seconds"]
    found = {(each.job["data"], each.job["start"]): each.result for each in done}
    parts = [
        f"on {name} {100 * found[name, 'rca']['NCA']:.1f} % from RCA and "
        f"{100 * found[name, 'close']['NCA']:.1f} % from there"
        for name in ("usps", "magic")
        if (name, "rca") in found and (name, "close") in found
    ]
    return {
        "found": "; ".join(parts),
        "table": table(head, rows),
        "queries": QUERIES,
        "max_iterations": f"{max(ITERATIONS):,}",
    }


EXPERIMENTS = (
    Experiment(
        "oneata-figure-5.5",
        "Points inspected by the compact kernel (Oneață 2011, figure 5.5)",
        jobs,
        work,
        parts,
        draw,
    ),
    Experiment(
        "oneata-figure-5.6",
        "Two starts for the compact kernel (Oneață 2011, figure 5.6)",
        starts_jobs,
        starts_work,
        starts_parts,
        starts_draw,
        drawn=("Z", "y"),
    ),
)
