"""What the page of figure 4 says: tables by noise, paired differences, speed of convergence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.statistics import TESTED, Summary, lead
from reproduce.tarlow.common import (
    FAMILIES,
    LEARNERS,
    PASS,
    SURE,
    colour,
    findings,
    gap_outcome,
    points,
    ratio_words,
    words,
)

TEST_K = (1, 3, 5, 9, 15, 30, 50)


#: at which vote methods are compared: the most voters that the paper has
VOTERS = 15


SETTINGS = {
    "plane": "d = 2, no penalty, L-BFGS",
    "penalty": "d = 2, α = 0.001, L-BFGS",
    "authors": "d = 2, no penalty, the authors' descent",
    "full rank": "full rank, no penalty, L-BFGS",
}


#: results over the splits by method and k, in columns where they are lists
Scores = dict[tuple[str, int], Any]


def scores(done: list[Done], setting: str, noise: float, what: str = "test") -> Scores:
    """Of the splits that all methods have in common."""
    found: dict[tuple[str, int], dict[int, Any]] = {}
    for each in done:
        job = each.job
        if (job["setting"], job["noise"]) == (setting, noise) and what in each.result:
            key = job["method"], job["k"]
            found.setdefault(key, {})[job["split"]] = each.result[what]
    common = sorted(set.intersection(*map(set, found.values()))) if found else []
    order = sorted(found, key=lambda key: (list(LEARNERS).index(key[0]), key[1]))
    return {key: np.array([found[key][split] for split in common]) for key in order if common}


def noises(done: list[Done], setting: str) -> list[float]:
    """Shares of labels resampled."""
    return sorted({each.job["noise"] for each in done if each.job["setting"] == setting})


def at(found: Scores, method: str, voters: int = VOTERS) -> Any:
    """Accuracy of each split, the mean over the training k of a method; None where not run."""
    some = [values[:, TEST_K.index(voters)] for key, values in found.items() if key[0] == method]
    return np.mean(some, axis=0) if some else None


def gap(found: Scores, one: str, other: str, voters: int = VOTERS) -> Any:
    """One method less another, split by split; None where one is not run."""
    first, second = at(found, one, voters), at(found, other, voters)
    return None if first is None or second is None else first - second


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, differences, tables for each setting, and numbers of the protocol."""
    settings = [name for name in SETTINGS if noises(done, name)]
    return {
        "finding": findings(claims(done)),
        "differences": "\n\n".join(_differences(done, name) for name in settings),
        "convergence": _convergence(done),
        "tables": "\n\n".join(
            f"### {SETTINGS[name].replace('full', 'Full')}\n\n"
            + "\n\n".join(_table(done, name, noise) for noise in noises(done, name))
            for name in settings
        ),
        "voters": VOTERS,
        "full_rank": _full_rank(done),
        "ratio_full_rank_noise": _ratio(_log_ratio(done, "full rank", [0.5])),
        **_with_noise(done),
        **_full_rank_limit(done),
        **_protocol(done),
    }


def _with_noise(done: list[Done]) -> dict[str, str]:
    """Each vote less NCA with half of the labels drawn again, for the guide to quote."""
    quoted = {}
    for setting, vote in product(("plane", "penalty"), FAMILIES):
        found = gap(scores(done, setting, 0.5), vote, "NCA")
        quoted[f"{vote}_over_nca_{setting}"] = "(not run yet)" if found is None else points(found)
    return quoted


def _full_rank(done: list[Done]) -> str:
    """Where kNCA stands at full rank with half of the labels drawn again; empty where not run."""
    found = scores(done, "full rank", 0.5)
    said = [f"{_named(v)} is {_stands(found, v)}" for v in FAMILIES if at(found, v) is not None]
    where = f"At full rank with 50 % noise, in points with {VOTERS} voters"
    return f"{where}: {'; '.join(said)}." if said else ""


def _stands(found: Scores, vote: str) -> str:
    """Which methods a vote is ahead of, behind, or level with, and by how much."""
    groups: dict[str, list[str]] = {"ahead of": [], "behind": [], "not clearly apart from": []}
    for rival in [method for method in LEARNERS if method not in FAMILIES]:
        each = gap(found, vote, rival)
        if each is not None:
            errors = lead(each, np.zeros(len(each)))[1]
            where = "ahead of" if errors > SURE else "behind" if errors < -SURE else None
            groups[where or "not clearly apart from"].append(f"{rival} ({points(each)})")
    return " and ".join(f"{where} {_listed(some)}" for where, some in groups.items() if some)


def _named(method: str) -> str:
    """A method in a sentence."""
    return f'kNCA ("{method}")' if method in FAMILIES else method


def _listed(some: list[str]) -> str:
    """With commas, and "and" before the last."""
    return " and ".join(filter(None, (", ".join(some[:-1]), some[-1])))


def _full_rank_limit(done: list[Done]) -> dict[str, Any]:
    """The limit of the iterations at full rank, and the methods that used it up, by noise."""
    from reproduce.tarlow.figure4 import SETTINGS as RUNS

    limit = RUNS["full rank"].max_iter
    told = []
    for noise in noises(done, "full rank"):
        found = scores(done, "full rank", noise, "iterations")
        cut = [
            f"{_named(key[0])} ({np.sum(each >= limit)} of {len(each)})"
            for key, each in found.items()
            if key[0] != "ITML" and np.any(each >= limit)
        ]
        told.append(f"with {100 * noise:g} % noise {_listed(cut) if cut else 'none'}")
    return {"full_rank_limit": limit, "used_up": "; ".join(told) or "(not run yet)"}


def claims(done: list[Done]) -> Iterator[Claim]:
    """The paper's claims without a penalty, without noise and with much of it."""

    def claim(says: str, setting: str, difference: Any) -> Iterator[Claim]:
        levels = {noise: scores(done, setting, noise) for noise in (0.0, 0.5)}
        gaps = {noise: difference(found) for noise, found in levels.items() if found}
        gaps = {noise: each for noise, each in gaps.items() if each is not None}
        if gaps:
            figure = "; ".join(f"{100 * n:g} % noise: {points(g)}" for n, g in gaps.items())
            yield Claim(f"usps, {says}", gap_outcome(*gaps.values()), figure)

    plane = f"d = 2, {VOTERS}-NN:"
    yield from claim("d = 2: 15 voters are ahead of one, mean of all methods", "plane", _growth)
    yield from claim(f'{plane} kNCA ("all") is ahead of NCA', "plane", partial(_over, ("NCA",)))
    rivals = ("LMNN", "MCML")
    says = f'{plane} kNCA ("all") is ahead of the better of LMNN and MCML'
    yield from claim(says, "plane", partial(_over, rivals))
    says = f'full rank, {VOTERS}-NN: kNCA ("all") is ahead of ITML'
    yield from claim(says, "full rank", partial(_over, ("ITML",)))
    yield from claim(f'{plane} "all" is ahead of "majority"', "plane", partial(_over, FAMILIES[1:]))
    yield from _faster(done)


def _over(rivals: tuple[str, ...], found: Scores) -> Any:
    """ "all" less the best of some other methods; None where not run."""
    gaps = [each for rival in rivals if (each := gap(found, "all", rival)) is not None]
    return min(gaps, key=np.mean) if gaps else None


def _growth(found: Scores) -> Any:
    """15 voters less one, on average over the methods."""
    gaps = [at(found, method) - at(found, method, 1) for method in {key[0] for key in found}]
    return np.mean(gaps, axis=0) if gaps else None


def _faster(done: list[Done]) -> Iterator[Claim]:
    """Iterations until 99 % of the fall, "all" over "majority", by L-BFGS and by the descent.

    At full rank without noise only: with noise the fits end at the limit of the iterations.
    """
    ratios = {
        "L-BFGS": _log_ratio(done, "plane"),
        "SGD": _log_ratio(done, "authors"),
        "full rank": _log_ratio(done, "full rank", [0.0]),
    }
    ratios = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    if ratios:
        figure = "; ".join(f"{name} {_ratio(logs)}" for name, logs in ratios.items())
        says = '"majority" converges faster than "all": iterations to 99 %, "all" / "majority"'
        yield Claim(says, gap_outcome(*ratios.values()), figure)


def _ratio(logs: Any) -> str:
    return "(not run yet)" if logs is None else ratio_words(logs)


def _log_ratio(done: list[Done], setting: str, levels: list[float] | None = None) -> Any:
    """Log of the iterations of "all" over those of "majority" at equal k, split by split."""
    found = []
    for noise in noises(done, setting) if levels is None else levels:
        of = scores(done, setting, noise, "to 99 %")
        for _, k in [key for key in of if key[0] == "all"]:
            if ("majority", k) in of:
                found.append(np.log(np.maximum(of["all", k], 1) / np.maximum(of["majority", k], 1)))
    return np.mean(found, axis=0) if found else None


def _convergence(done: list[Done]) -> str:
    rows = []
    for name in SETTINGS:
        for noise in noises(done, name):
            found, whole = (scores(done, name, noise, w) for w in ("to 99 %", "iterations"))
            for key, values in found.items():
                if key[0] in ("NCA", *FAMILIES):
                    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                    rows.append([
                        SETTINGS[name], f"{100 * noise:g} %", words(*key),
                        f"{values.mean():.1f} ± {error:.1f}",
                        f"{whole[key].mean() / (PASS if name == 'authors' else 1):.0f}",
                    ])  # fmt: skip
    header = ["setting", "noise", "learnt by", "iterations to 99 % of the fall", "in all"]
    return table(header, rows)


def _differences(done: list[Done], setting: str) -> str:
    """Paired differences in points, one row for each comparison."""
    levels = {noise: scores(done, setting, noise) for noise in noises(done, setting)}
    methods = list(dict.fromkeys(key[0] for found in levels.values() for key in found))
    others = [m for m in methods if m not in ("all", "majority")]
    pairs = [(vote, other) for vote in FAMILIES for other in others] + [FAMILIES]
    rows: list[list[Any]] = []
    for method in methods:
        gaps = [
            None if at(found, method) is None else at(found, method) - at(found, method, 1)
            for found in levels.values()
        ]
        rows.append([f"{method}: {VOTERS}-NN − 1-NN", *map(_shown_gap, gaps)])
    for one, other in pairs:
        for voters in (1, VOTERS):
            gaps = [gap(found, one, other, voters) for found in levels.values()]
            if any(each is not None for each in gaps):
                rows.append([f"{one} − {other}, {voters}-NN", *map(_shown_gap, gaps)])
    header = ["difference in points", *(f"{100 * noise:g} % resampled" for noise in levels)]
    return f"**{SETTINGS[setting]}**\n\n{table(header, rows)}"


def _shown_gap(values: Any) -> str | None:
    if values is None:
        return None
    each = Summary(values, TESTED)
    return f"{each:+.1f}" if len(values) > 1 else f"{each.mean:+.1f}"


def _table(done: list[Done], setting: str, noise: float) -> str:
    test, train = (scores(done, setting, noise, what) for what in ("test", "train"))
    header = ["learnt by", *(f"{k}-NN" for k in TEST_K), f"training rows, {VOTERS}-NN"]
    rows = []
    for key, values in test.items():
        cells = [_shown(values[:, TEST_K.index(k)]) for k in TEST_K]
        rows.append([words(*key), *cells, _shown(train[key][:, TEST_K.index(VOTERS)])])
    n = len(next(iter(test.values())))
    title = f"**{100 * noise:g} % of the training labels resampled, splits: {n}**"
    return f"{title}\n\n{table(header, rows)}"


def _shown(values: Any) -> str:
    each = Summary(values)
    return f"{each:.1f}" if len(values) > 1 else f"{each.mean:.1f}"


def _protocol(done: list[Done]) -> dict[str, Any]:
    n_train, n_test = max(each.result["rows"] for each in done)
    by_lbfgs = [e for e in done if e.job["setting"] != "authors" and e.job["method"] != "ITML"]
    seconds = [each.seconds for each in done]
    return {
        "n_train": f"{n_train:,}",
        "n_test": f"{n_test:,}",
        "splits": len({each.job["split"] for each in done}),
        "most": max((each.result["iterations"] for each in by_lbfgs), default=0),
        "steps": max(
            (e.result["iterations"] for e in done if e.job["setting"] == "authors"), default=0
        ),
        "median_seconds": f"{np.median(seconds):.1f}",
        "max_seconds": f"{max(seconds):.0f}",
    }


def draw(done: list[Done], folder: Path) -> None:
    """A row of panels for each setting, a panel for each share of resampled labels."""
    plt = pyplot()
    shown = [name for name in SETTINGS if noises(done, name)]
    wide = max(len(noises(done, name)) for name in shown)
    figure, axes = plt.subplots(
        len(shown), wide, figsize=(4.2 * wide, 3.8 * len(shown)), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for row, name in zip(axes, shown, strict=True):
        levels = noises(done, name)
        for ax in row[len(levels) :]:
            ax.set_axis_off()
        for ax, noise in zip(row, levels, strict=False):
            for key, values in scores(done, name, noise).items():
                _curve(ax, 100 * values, colour(*key), words(*key))
            ax.set(xlabel="k at test time", xscale="log")
            ax.set_xticks(TEST_K, map(str, TEST_K))
            ax.minorticks_off()
            ax.set_title(f"{SETTINGS[name]}, {100 * noise:g} % noise", fontsize=8)
            plain_frame(ax)
            ax.get_legend().remove()
        row[0].set_ylabel("test accuracy, per cent")
        # next to the panels, all of which have the same lines: within them it would cover some
        row[len(levels) - 1].legend(
            frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5)
        )
    picture(figure, folder, "tarlow-figure-4")


def _curve(ax: Any, values: Any, shade: str, label: str) -> None:
    """Mean over the splits, with a band of one standard error."""
    mean = values.mean(axis=0)
    ax.plot(TEST_K, mean, color=shade, label=label)
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        ax.fill_between(TEST_K, mean - error, mean + error, color=shade, alpha=0.15)
