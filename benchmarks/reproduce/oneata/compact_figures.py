"""Oneață's compact kernel: points inspected (figure 5.5) and two starts (figure 5.6)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot, square_frame
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import summary
from reproduce.oneata.fast import COMPACT, Keeper, rows_and_split, start, thesis
from reproduce.oneata.judging import (
    DIFFERENCE,
    ONE,
    Gap,
    claim,
    gap,
    gap_of,
    n_splits,
    outcome,
    seen_means,
    words,
)
from reproduce.oneata.large import in_short
from reproduce.oneata.projections import coloured

SETS = ("usps", "magic")


ITERATIONS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


STARTS = {
    "rca": "RCA",
    "random": "random",
    "close": "all points close together",
}


QUERIES = 50  # of a step


#: random splits; the first is shown
SPLITS = 5
#: per cent of the pairs that are in range at the end: limits around the thesis's 0.1 and 10 %
RANDOM_RANGE, RCA_RANGE = (0.03, 0.3), (5.0, 20.0)
#: per cent of the pairs; a fit with more in range has not left the cloud that it started from
CLOUD = 10.0


COLOURS = {"rca": "#0072B2", "random": "#E69F00", "close": "#D55E00"}


def jobs(splits: int | None) -> Iterator[Job]:
    """Two sets from three starts."""
    for split, name, begin in product(range(splits or SPLITS), SETS, STARTS):
        yield {"data": name, "start": begin, "d": 5, "split": split}


def work(data: str, start: str, d: int, split: int) -> dict[str, Any]:
    """The share of pairs in range, and of those computed, at maps along the way."""
    model, maps, (X, y, train, test) = _learn(data, start, d, split)
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
    for split, name, begin in product(range(splits or SPLITS), SETS, ("close", "rca")):
        yield {"data": name, "start": begin, "d": 2, "split": split}


def starts_work(data: str, start: str, d: int, split: int) -> dict[str, Any]:
    """Embedded test rows and scores."""
    model, _, (X, y, train, test) = _learn(data, start, d, split)
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    shown = np.round(Z_test - np.median(Z_test, axis=0), 3).tolist()
    return {
        **({"Z": shown, "y": y[test].tolist()} if split == 0 else {}),
        "NCA": float(model.score(X[test], y[test])),
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "alone": _alone(Z, Z_test),
        "in range": _share_in_range(Z),
        "iterations": int(model.n_iter_),
        "seconds": model.history_["seconds"][-1],
    }


def _learn(
    data: str, begin: str, d: int, split: int
) -> tuple[Any, dict[int, Any], tuple[Any, Any, Any, Any]]:
    """Stochastic learning with the compact kernel, without early stopping; maps along the way."""
    X, y, train, test = rows_and_split(data, split)
    A = start(begin, X[train], y[train], d, split)
    keeper = Keeper(ITERATIONS)
    model = thesis("SL CS", d, split, init=A, early_stopping=False, max_iter=max(ITERATIONS))
    model.set_callbacks(keeper).fit(X[train], y[train])
    return model, {0: A, **keeper.maps}, (X, y, train, test)


def _share_in_range(Z: Any) -> float:
    """Of all ordered pairs, those within the kernel's range."""
    from scipy.spatial import cKDTree

    tree = cKDTree(Z)
    n = len(Z)
    return float((tree.count_neighbors(tree, 1.0) - n) / (n * (n - 1)))


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
        if each.job["split"] == 0:
            for t, found in each.result["along"].items():
                cells = [_per_cent(found[key]) for key in ("in range", "computed", "alone")]
                cells += [_per_cent(found["computed, all rows"]), f"{100 * found['f']:.1f}"]
                rows.append([each.job["data"], STARTS[each.job["start"]], t, *cells])
    head = ["set", "start", "step", "in range", "computed", "rows alone", "computed, whole", "f"]
    ends = [
        [name, words, *(_share(done, name, begin, when) for when in ("first", "last"))]
        + [summary(done, key, data=name, start=begin) for key in ("NCA", "1-NN")]
        for name, (begin, words) in product(SETS, STARTS.items())
        if n_splits(done, data=name, start=begin)
    ]
    return {
        "splits": n_splits(done),
        "table": table(head, rows),
        "queries": QUERIES,
        "saved": _saved(done),
        "learnt": _learnt(done),
        "left": _left(done),
        "found": _by_start(done),
        "seen": seen_means(
            f"0.1 % if every fit ends between {RANDOM_RANGE[0]:g} and {RANDOM_RANGE[1]:g} %",
            f"about 10 % if every fit ends between {RCA_RANGE[0]:g} and {RCA_RANGE[1]:g} % "
            "(limits of ours)",
            DIFFERENCE,
        ),
        "ends": table(
            ["set", "start", "in range at the start", "at the end", "NCA rule", "1-NN"], ends
        ),
        "max_iterations": f"{max(ITERATIONS):,}",
    }


def _saved(done: list[Done]) -> str:
    """Whether the library leaves out pairs in a step, and in an evaluation of all rows."""
    along = [found for each in done for found in each.result["along"].values()]
    least = 100 * min(found["computed"] for found in along)
    ends = [max(each.result["along"].items(), key=lambda at: int(at[0]))[1] for each in done]
    whole = [100 * found["computed, all rows"] for found in ends]
    told = f"an evaluation of all rows computes {min(whole):.0f} to {max(whole):.0f} % at the end"
    if least > 99.99:
        return (
            f"In a step of {QUERIES} queries the library computes all pairs, at every map shown: "
            f"here the compact kernel leaves out no pairs. For comparison, {told}."
        )
    return (
        f"In a step of {QUERIES} queries the library computes {least:.0f} % of the pairs or more; "
        f"{told}."
    )


def _gain(done: list[Done], name: str, begin: str) -> Gap | None:
    """f at the last map less f at the first one, of the same queries, in points."""
    found = []
    for each in done:
        if (each.job["data"], each.job["start"]) == (name, begin):
            along = each.result["along"]
            first, last = (along[at(along, key=int)]["f"] for at in (min, max))
            found.append(last - first)
    return gap_of(found) if found else None


def _learnt(done: list[Done]) -> str:
    """What the steps give, by start, and where that is nothing."""
    gains = {
        (name, begin): each
        for begin, name in product(STARTS, SETS)
        if (each := _gain(done, name, begin)) is not None
    }
    told = [
        f"{words} " + ", ".join(f"{e} on {name}" for (name, at), e in gains.items() if at == begin)
        for begin, words in STARTS.items()
        if any(at == begin for _, at in gains)
    ]
    idle = [
        f"{STARTS[begin]} on {name}"
        for (name, begin), each in gains.items()
        if each.n > 1 and each.sign() <= 0
    ]
    nothing = f" No clear gain by this measure: {', '.join(idle)}." if idle else ""
    return f"From the first map to the last, f changes by these points: {'; '.join(told)}.{nothing}"


def _left(done: list[Done]) -> str:
    """How many fits have left the cloud of points that they started from."""
    found = {name: _shares(done, name, "close", "last") for name in SETS}
    told = [
        f"{sum(share < CLOUD for share in shares)} of {len(shares)} fits on {name}"
        for name, shares in found.items()
        if shares
    ]
    inside = any(share >= CLOUD for shares in found.values() for share in shares)
    return (
        f"From all points close together, {' and '.join(told) or 'no fits'} end with less than "
        f"{CLOUD:g} % of the pairs in range"
        + (f"; the others still have {CLOUD:g} % or more in range." if inside else ".")
    )


def _by_start(done: list[Done]) -> str:
    """RCA against all points close together, set by set."""
    found = [f"{words(each)} points on {name}" for name, each in _start_gaps(done).items()]
    return " and ".join(found) or "(not run yet)"


def _per_cent(share: float) -> str:
    return f"{100 * share:.3g}"


def _shares(done: list[Done], name: str, begin: str, when: str) -> list[float]:
    """Shares of the pairs in range at the first or last map, in per cent, split by split."""
    at = min if when == "first" else max
    found = []
    for each in done:
        if (each.job["data"], each.job["start"]) == (name, begin):
            along = each.result["along"]
            found.append(100 * along[at(along, key=int)]["in range"])
    return found


def _two_digits(share: float) -> str:
    """A percentage with two digits, and all three of 100."""
    return f"{share:.2g}" if share < 99.5 else f"{share:.0f}"


def _share(done: list[Done], name: str, begin: str, when: str) -> str:
    found = _shares(done, name, begin, when)
    low, high = _two_digits(min(found)), _two_digits(max(found))
    return low if low == high else f"{low} to {high}"


def claims(done: list[Done]) -> Iterator[Claim]:
    """Few points are inspected; from RCA about a tenth, and the share drops at first."""
    for begin, says, low, high in (
        ("random", "From a random start 0.1 % of the points are in range", *RANDOM_RANGE),
        ("rca", "From RCA about 10 % of the points are in range", *RCA_RANGE),
    ):
        found = {
            name: _shares(done, name, begin, "last")
            for name in SETS
            if n_splits(done, data=name, start=begin)
        }
        inside = [low <= share <= high for shares in found.values() for share in shares]
        if inside:
            told = "seen" if all(inside) else "partly" if any(inside) else "not seen"
            means = [f"{name} {_mean_share(shares)}" for name, shares in found.items()]
            yield Claim(says, told, f"at the end: {', '.join(means)}")
    yield from _rca_claim(done, "d = 5")


def _mean_share(shares: list[float]) -> str:
    """Mean ± standard error over the splits, in per cent."""
    if len(shares) < 2:
        return f"{_two_digits(shares[0])} %{ONE}"
    error = float(np.std(shares, ddof=1) / len(shares) ** 0.5)
    digits = max(0, 1 - int(np.floor(np.log10(max(np.mean(shares), 1e-3)))))
    return f"{np.mean(shares):.{digits}f} ± {error:.{digits}f} %"


def draw(done: list[Done], folder: Path) -> None:
    names = list(dict.fromkeys(each.job["data"] for each in done))
    if not names:
        return
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 3.9), layout="constrained", sharey=True,
        squeeze=False,
    )  # fmt: skip
    named: dict[str, Any] = {}
    for ax, name in zip(axes[0], names, strict=True):
        computed: dict[str, list[float]] = {}
        for each in done:
            if (each.job["data"], each.job["split"]) != (name, 0):
                continue
            along, begin = each.result["along"], each.job["start"]
            steps = np.array([int(t) for t in along])
            shares = [100 * found["in range"] for found in along.values()]
            label = f"{STARTS[begin]}: in range"
            ax.plot(steps, shares, marker="o", ms=3, color=COLOURS[begin], label=label)
            computed[begin] = [100 * found["computed"] for found in along.values()]
        alike = len({tuple(shares) for shares in computed.values()}) == 1
        for begin, shares in list(computed.items())[: 1 if alike else None]:
            label = "computed, every start" if alike else f"{STARTS[begin]}: computed"
            ax.plot(steps, shares, "--", color="0.4" if alike else COLOURS[begin], label=label)
        ax.set(xlabel="step", yscale="log", title=name)
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(-0.2, 1.2 * max(ITERATIONS))
        plain_frame(ax)
        named |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
        ax.get_legend().remove()
    axes[0][0].set_ylabel("share of the pairs, per cent")
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=2, frameon=False)
    picture(figure, folder, "oneata-figure-5.5")


def starts_draw(done: list[Done], folder: Path) -> None:
    """Test rows from either start."""
    done = [each for each in done if "Z" in each.result]
    if not done:
        return
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(done), figsize=(3.4 * len(done), 3.6), layout="constrained", squeeze=False
    )
    for ax, each in zip(axes[0], done, strict=True):
        Z, y = np.array(each.result["Z"]), np.array(each.result["y"])
        title = f"{each.job['data']}, start: {STARTS[each.job['start']]}"
        title += f"\nNCA rule {100 * each.result['NCA']:.1f} %"
        coloured(ax, Z, y, title, size=5)
        square_frame(ax, Z)
        (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
        x, height = left + 0.05 * (right - left), bottom + 0.05 * (top - bottom)
        ax.plot([x, x + 1], [height, height], color="black", lw=2)
    picture(figure, folder, "oneata-figure-5.6")


def starts_parts(done: list[Done]) -> dict[str, Any]:
    """Scores from either start."""
    keys = ("NCA", "1-NN", "alone", "in range")
    rows = [
        [name, STARTS[begin], *(summary(done, key, data=name, start=begin) for key in keys)]
        for name, begin in product(SETS, ("close", "rca"))
        if n_splits(done, data=name, start=begin)
    ]
    head = ["set", "start", "NCA rule", "1-NN", "test rows alone", "pairs in range"]
    return {
        "found": _by_start(done),
        "seen": seen_means(DIFFERENCE),
        "splits": n_splits(done),
        "table": table(head, rows),
        "queries": QUERIES,
        "max_iterations": f"{max(ITERATIONS):,}",
    }


def _start_gaps(done: list[Done]) -> dict[str, Gap]:
    """RCA less all points close together, by the NCA rule."""
    gaps = {name: gap(done, "rca", "close", key="start", data=name) for name in SETS}
    return {name: each for name, each in gaps.items() if each is not None}


def starts_claims(done: list[Done]) -> Iterator[Claim]:
    """RCA ends better than all points close together."""
    yield from _rca_claim(done, "d = 2")


def _rca_claim(done: list[Done], place: str) -> Iterator[Claim]:
    gaps = _start_gaps(done)
    yield from claim(
        f"With the compact kernel, RCA ends better than all points close together ({place})",
        outcome(gaps.values()),
        in_short(gaps),
    )


EXPERIMENTS = (
    Experiment(
        "oneata-figure-5.5",
        "Points inspected by the compact kernel (Oneață 2011, figure 5.5)",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
    Experiment(
        "oneata-figure-5.6",
        "Two starts for the compact kernel (Oneață 2011, figure 5.6)",
        starts_jobs,
        starts_work,
        starts_parts,
        starts_draw,
        drawn=("Z", "y"),
        claims=starts_claims,
    ),
)
