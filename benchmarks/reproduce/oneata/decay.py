"""Oneață's decay of the choices p_ij while a map is learnt (figure 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.oneata.common import PLAIN
from reproduce.oneata.fast import Keeper, rows_and_split, start

ITERATIONS = (0, 1, 2, 5, 10, 20, 50, 100)


SAMPLE = 1000  # rows that are counted for


MASSES = (0.99, 0.999)


#: neighbours that the thesis finds significant at first
SIGNIFICANT = 50


#: settings: words, parameters, start (None: the estimator's own)
SETTINGS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "random": ("plain, random start", {**PLAIN, "solver": "cg"}, "close"),
    "rca": ("plain, RCA start", {**PLAIN, "solver": "cg"}, "rca"),
    "defaults": ("vicinal's defaults", {}, None),
}


ROWS = {"landsat": 4435, "usps": 7700, "mnist": 10000}


def jobs(splits: int | None) -> Iterator[Job]:
    """Three sets, learnt in three ways."""
    for name in ROWS:
        for setting in SETTINGS:
            yield {"data": name, "setting": setting, "d": 5}


def work(data: str, setting: str, d: int) -> dict[str, Any]:
    """For maps along the way: one row's choices in order, and how many carry the mass."""
    from vicinal import NCA

    X, y, train, _ = rows_and_split(data, 0)
    train = train[: ROWS[data]] if data != "mnist" else np.sort(_draw_rows(train, ROWS[data], 0))
    X, y = X[train], y[train]
    _, parameters, begin = SETTINGS[setting]
    parameters = {**parameters, "sampling": "full"}
    if begin is None:
        # no step: so lax a tolerance is met at the start
        A = NCA(d, alpha=3e-3, random_state=0, sampling="full", tol=1e300).fit(X, y).components_
    else:
        A = start(begin, X, y, d, 0)
    keeper = Keeper(ITERATIONS)
    model = NCA(d, **parameters, init=A, max_iter=max(ITERATIONS), random_state=0)
    model.set_callbacks(keeper).fit(X, y)
    maps = {0: A, **keeper.maps}
    if model.n_iter_ not in maps:
        maps[model.n_iter_] = model.components_
    sample = np.sort(_draw_rows(np.arange(len(y)), SAMPLE, 1))
    found = {str(t): _choices(X, maps[t], sample) for t in sorted(maps)}
    # a row in the middle, by what it consults at the end
    last = np.array(found[str(max(maps))]["0.99"])
    middle = int(np.argsort(last, kind="stable")[len(last) // 2])
    return {
        "n": len(y),
        "alpha": float(model.alpha_),
        "iterations": int(model.n_iter_),
        "maps": {
            t: {
                "curve": each["curves"][middle],
                **{str(mass): _quantiles(each[str(mass)]) for mass in MASSES},
            }
            for t, each in found.items()
        },
        "ranks": _ranks(len(y)).tolist(),
    }


def _draw_rows(rows: Any, n: int, seed: int) -> Any:
    return np.random.RandomState(seed).permutation(rows)[:n]


def _ranks(n: int) -> Any:
    """Ranks at which the curve of a row is kept: evenly in their logarithm."""
    return np.unique(np.round(np.geomspace(1, n - 1, 60)).astype(int))


def _choices(X: Any, A: Any, sample: Any) -> dict[str, Any]:
    """Sorted choices of each row of a sample, and the number that carry most of the mass."""
    from scipy.spatial.distance import cdist

    Z = X.astype(np.float64) @ np.asarray(A, dtype=np.float64).T
    counts: dict[str, list[int]] = {str(mass): [] for mass in MASSES}
    curves = []
    for rows in np.array_split(sample, -(-len(sample) // 100)):
        d2 = cdist(Z[rows], Z, "sqeuclidean")
        d2[np.arange(len(rows)), rows] = np.inf
        d2.sort(axis=1)
        log_p = d2[:, :1] - d2[:, :-1]
        log_p -= np.log(np.exp(log_p).sum(axis=1, keepdims=True))
        total = np.cumsum(np.exp(log_p), axis=1)
        for mass in MASSES:
            # rounding may leave the sum of all a hair below one
            counts[str(mass)] += (1 + (total < mass - 1e-12).sum(axis=1)).tolist()
        curves += np.round(log_p[:, _ranks(len(Z)) - 1] / np.log(10.0), 3).tolist()
    return {**counts, "curves": curves}


def _quantiles(counts: Any) -> list[float]:
    return np.quantile(counts, [0.1, 0.5, 0.9]).round().tolist()


def parts(done: list[Done]) -> dict[str, Any]:
    """Curves of one row, and counts over many."""
    rows = []
    for each in done:
        for t, found in each.result["maps"].items():
            cells = [_count(found[str(mass)]) for mass in MASSES]
            rows.append([each.job["data"], SETTINGS[each.job["setting"]][0], t, *cells])
    head = ["set", "learnt", "iteration", *(f"{100 * mass:g} % of the mass" for mass in MASSES)]
    sizes = ", ".join(
        f"{each.job['data']} {each.result['n']:,}" for each in done if each.job["setting"] == "rca"
    )
    return {
        "finding": _finding(done),
        "table": table(head, rows),
        "sample": f"{SAMPLE:,}",
        "max_iterations": max(ITERATIONS),
        "sizes": sizes,
        "alphas": ", ".join(
            f"{each.job['data']} {each.result['alpha']:.2g}"
            for each in done
            if each.job["setting"] == "defaults"
        ),
    }


def _count(quantiles: list[float]) -> str:
    low, middle, high = quantiles
    return f"{middle:,.0f} ({low:,.0f}–{high:,.0f})"


def _finding(done: list[Done]) -> str:
    parts = []
    for setting, (words, _, _) in SETTINGS.items():
        ends = []
        for each in done:
            if each.job["setting"] == setting:
                last = each.result["maps"][max(each.result["maps"], key=int)]
                ends.append(f"{last['0.999'][1]:,.0f} on {each.job['data']}")
        if ends:
            parts.append(f"{words} {', '.join(ends)}")
    if not parts:
        return "Not run yet."
    first = [
        (each.job["data"], int(t), found["0.99"][1])
        for each in done
        if each.job["setting"] == "random"
        for t, found in each.result["maps"].items()
    ]
    below = []
    for name in dict.fromkeys(name for name, _, _ in first):
        at = [t for here, t, count in first if here == name and count <= SIGNIFICANT]
        if at:
            below.append(f"{min(at)} on {name}")
    text = (
        "How many neighbours carry 99.9 % of a row's choice at the end, in the median: "
        f"{'; '.join(parts)}. "
    )
    if below:
        text += (
            "The thesis sees more than 50 significant neighbours in the first 5 to 10 iterations; "
            "from our random start 50 carry 99 % of the choice for the first time at iteration "
            f"{', '.join(below)}, of those looked at."
        )
    return text


def claims(done: list[Done]) -> Iterator[Claim]:
    """Many neighbours matter at first, few afterwards; the thesis names no start."""
    for says, first, last, few in (
        (
            "More than 50 neighbours matter in the first 5 to 10 iterations (judged by five)",
            0,
            5,
            False,
        ),
        (
            "Afterwards fewer than 50 neighbours matter (judged from iteration 20 on)",
            20,
            None,
            True,
        ),
    ):
        found = {begin: _on_side(done, begin, first, last, few) for begin in ("random", "rca")}
        votes = [vote for each in found.values() for vote in each]
        if votes:
            told = (
                "seen" if all(votes) and len(votes) > 1 else "partly" if any(votes) else "not seen"
            )
            shown = [f"{STARTS[b]} {sum(each)} of {len(each)} sets" for b, each in found.items()]
            yield Claim(says, told, f"{', '.join(shown)}, one fit each (99 % mass)")


#: the starts that are judged, in words
STARTS = {"random": "random start", "rca": "RCA"}


def _on_side(done: list[Done], begin: str, first: int, last: int | None, few: bool) -> list[bool]:
    """Set by set, whether the median count is on the thesis's side at all iterations looked at."""
    found = []
    for each in done:
        if each.job["setting"] == begin:
            counts = [
                maps["0.99"][1]
                for t, maps in each.result["maps"].items()
                if first <= int(t) and (last is None or int(t) <= last)
            ]
            if counts:
                found.append(max(counts) <= SIGNIFICANT if few else min(counts) > SIGNIFICANT)
    return found


def draw(done: list[Done], folder: Path) -> None:
    names = list(dict.fromkeys(each.job["data"] for each in done))
    if not names:
        return
    found = {(each.job["data"], each.job["setting"]): each.result for each in done}
    plt = pyplot()
    figure, axes = plt.subplots(
        len(names), len(SETTINGS), figsize=(10.8, 3.0 * len(names)), layout="constrained",
        sharey=True, squeeze=False,
    )  # fmt: skip
    colours = plt.get_cmap("viridis")
    for line, name in zip(axes, names, strict=True):
        for ax, (setting, (words, _, _)) in zip(line, SETTINGS.items(), strict=True):
            result = found.get((name, setting))
            if result is None:
                ax.axis("off")
                continue
            for k, (t, each) in enumerate(result["maps"].items()):
                shade = colours(0.95 * k / max(1, len(result["maps"]) - 1))
                curve = 10.0 ** np.array(each["curve"])
                ax.plot(result["ranks"], curve, color=shade, lw=1.4, label=t)
            ax.axhline(1e-3, color="0.7", lw=0.8)
            ax.set(xscale="log", yscale="log", ylim=(1e-12, 1.5))
            ax.set_title(f"{name}: {words}", fontsize="medium")
            plain_frame(ax)
            ax.legend(frameon=False, fontsize="x-small", ncols=2, loc="lower left")
        line[0].set_ylabel("p of neighbour")
    for ax in axes[-1]:
        ax.set_xlabel("neighbour, the nearest first")
    picture(figure, folder, "oneata-figure-4.2")


EXPERIMENTS = (
    Experiment(
        "oneata-figure-4.2",
        "Decay of the choices while a map is learnt (Oneață 2011, figure 4.2)",
        jobs,
        work,
        parts,
        draw,
        drawn=("curve", "ranks"),
        claims=claims,
    ),
)
