"""Oneață's time against accuracy on the large sets (figure 5.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.machine import cores_and_others, machine_words
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import summary
from reproduce.oneata.batches import BATCHES, SUBSAMPLE
from reproduce.oneata.common import Published
from reproduce.oneata.compact_large import PAPER as COMPACT
from reproduce.oneata.fast import rows_and_split, thesis
from reproduce.oneata.judging import (
    CLEAR,
    DIFFERENCE,
    ONE,
    Gap,
    Level,
    NoLoss,
    claim,
    gap_of,
    outcome,
    seen_means,
)
from reproduce.oneata.large import in_short
from reproduce.oneata.linear import LINEAR as LINEAR_TABLE
from reproduce.oneata.stochastic_large import PAPER as STOCHASTIC

SPLITS = {"usps": 5, "magic": 5, "mnist": 1}


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


#: points by which similar scores may differ, and the share of the time that is considerably less;
#: both limits are ours, set with earlier results known
SIMILAR, FASTER = 1.0, 0.9
#: steps of stochastic fits at most
LIMIT = 1000


#: the thesis's figures of the scores that are shown: tables 5.4, 5.5, 5.7, 5.10 and 5.3
TABLES: dict[str, dict[str, Published]] = {
    name: {
        "SS": Published(*SUBSAMPLE[name][1]),
        "MB": Published(*BATCHES[name][2]),
        "SL": Published(*STOCHASTIC[name][2]),
        "SL CS": Published(*COMPACT[name][2]),
        **{method: Published(*LINEAR_TABLE[name][method]) for method in LINEAR},
    }
    for name in SPLITS
}


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
                summary(done, key, **where) if key in runs[0] else "–"
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
        "remarks": bullets(*_remarks(done)),
        "limit": _limit(done),
        "seen": seen_means(
            DIFFERENCE,
            f"similar scores if they differ by less than {SIMILAR:g} point by more than {CLEAR:g} "
            "standard errors",
            f"sub-sampling if by these rules it loses less than {SIMILAR:g} point to both others "
            "on magic, and clearly loses to both elsewhere",
            f'"considerably faster" if the fit takes less than {100 * FASTER:.0f} % of the time '
            f"by more than {CLEAR:g} standard errors, on each set with several splits",
        ),
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
                each.job["split"]: each.result[score]
                for each in done
                if (each.job["data"], each.job["method"]) == (name, method)
            }
        )
    both = sorted(found[0].keys() & found[1].keys())
    return gap_of([found[0][split] - found[1][split] for split in both]) if both else None


def _mean(done: list[Done], name: str, method: str) -> float:
    """Of the score that is shown."""
    return float(np.mean([run[METHODS[method][-1]] for run in _runs(done, name, method)]))


def _findings(done: list[Done]) -> Iterator[str]:
    """vicinal's defaults against the best of the thesis's methods, set by set."""
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
            f"{METHODS[best][0]}, which takes {took[1]} s; `NCA(5)` against that method, in "
            f"points: {_gap(done, 'defaults', best, name)}"
        )


def _thesis_gap(name: str, first: str, second: str) -> str:
    """The same in the thesis's tables."""
    points = TABLES[name][first].mean - TABLES[name][second].mean
    return f"{points:+.1f}"


def _leads(done: list[Done]) -> dict[str, tuple[Gap, str, str]]:
    """The least lead of a method of the thesis over a linear one, and which two these are."""
    leads = {}
    for name in SPLITS:
        pairs = ((_gap(done, *pair, name), *pair) for pair in product(THESIS, LINEAR))
        known = [(each, *pair) for each, *pair in pairs if each is not None]
        if known:
            leads[name] = min(known)
    return leads


def _gaps(done: list[Done], first: str, second: str) -> dict[str, Gap]:
    """By how many points a method is ahead of another, set by set."""
    return {name: each for name in SPLITS if (each := _gap(done, first, second, name)) is not None}


def _limit(done: list[Done]) -> str:
    """How many stochastic fits end at the limit of steps."""
    told = []
    for method in ("MB", "SL", "SL CS"):
        steps = [run["iterations"] for name in SPLITS for run in _runs(done, name, method)]
        used = sum(each >= LIMIT for each in steps)
        told.append(f"{used} of {len(steps)} fits of {METHODS[method][0]}")
    return f"The limit of {LIMIT:,} steps ends {', '.join(told[:-1])} and {told[-1]}."


def _remarks(done: list[Done]) -> Iterator[str]:
    """The thesis's remarks: its sentence, its own tables, and our figures."""

    def theirs(*pair: str) -> str:
        return ", ".join(f"{name} {_thesis_gap(name, *pair)}" for name in SPLITS)

    least = {
        name: min(product(THESIS, LINEAR), key=lambda p: row[p[0]].mean - row[p[1]].mean)
        for name, row in TABLES.items()
    }
    lead = ", ".join(f"{n} {_thesis_gap(n, *p)} ({' minus '.join(p)})" for n, p in least.items())
    ours = ", ".join(f"{n} {each} ({' minus '.join(p)})" for n, (each, *p) in _leads(done).items())
    yield (
        '"In terms of accuracy, all of the NCA variants improve the accuracy over PCA, LDA or '
        f"RCA.\" The least lead in the thesis's tables, in points: {lead}. Ours: {ours}."
    )
    yield (
        '"SS gives comparable results to the other two only on magic data set." SS against SL in '
        f"the thesis's tables, in points: {theirs('SS', 'SL')}; against MB: {theirs('SS', 'MB')}. "
        f"Ours: {in_short(_gaps(done, 'SS', 'SL'))}; {in_short(_gaps(done, 'SS', 'MB'))}. For SS "
        "the 1-NN score is taken, as in the figure."
    )
    yield (
        '"MB and SL are similar in accuracy." MB against SL in the thesis\'s tables, in points: '
        f"{theirs('MB', 'SL')}. Ours: {in_short(_gaps(done, 'MB', 'SL'))}."
    )
    yield (
        'The compact kernel is "very fast as we already saw in section 5.3.4" (section 5.4.2) and '
        '"achieves considerable speed-ups" (chapter 6). The thesis gives no times in numbers. Our '
        f"time with the compact kernel, as a share of that with the Gaussian one: "
        f"{in_short(_shares(done))}. Of a single step: {in_short(_shares(done, of_a_step=True))}; "
        "the rest is fewer steps until early stopping. In such steps the library leaves out no "
        "pairs ([figure 5.5](oneata-figure-5.5.md)), and the compact kernel is behind in accuracy."
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """The remarks of section 5.3.4."""
    leads = {name: each for name, (each, *_) in _leads(done).items()}
    yield from claim(
        "All NCA variants are more accurate than PCA, LDA and RCA (least lead)",
        outcome(leads.values()),
        in_short(leads),
    )
    beside = {name: [_gap(done, "SS", other, name) for other in ("SL", "MB")] for name in SPLITS}
    several = {
        name: [each for each in found if each is not None]
        for name, found in beside.items()
        if all(each is not None and each.n > 1 for each in found)
    }
    yield from claim(
        "Sub-sampling keeps up with stochastic learning and mini-batches on magic alone "
        "(against SL, against MB)",
        _magic_alone(several),
        "; ".join(f"{name} {', '.join(map(str, found))}" for name, found in several.items()),
    )
    alike = _gaps(done, "MB", "SL")
    yield from claim(
        "Mini-batches and stochastic learning are alike in accuracy",
        outcome(alike.values(), Level(SIMILAR)),
        in_short(alike),
    )
    shares = _shares(done)
    fast = [each.below(FASTER) for each in shares.values() if each.n > 1]
    if shares:
        yield Claim(
            "The compact kernel is considerably faster than the Gaussian one (share of the time)",
            "seen" if fast and all(fast) else "partly" if any(fast) or not fast else "not seen",
            in_short(shares),
        )


def _magic_alone(behind: dict[str, list[Gap]]) -> str | None:
    """Whether sub-sampling is behind neither method on magic, and behind both elsewhere."""
    if "magic" not in behind:
        return None
    here = [NoLoss(SIMILAR)(each) for each in behind["magic"]]
    there = [-each.sign() for name, found in behind.items() if name != "magic" for each in found]
    if min(here) < 0 or (there and max(there) <= 0):
        return "not seen"
    return "seen" if there and min(here + there) > 0 else "partly"


class Share(NamedTuple):
    """Mean share of the time over the splits, with its standard error, and their number."""

    mean: float
    error: float
    n: int

    def __str__(self) -> str:
        if self.n < 2:
            return f"{100 * self.mean:.0f} %{ONE}"
        return f"{100 * self.mean:.0f} ± {100 * self.error:.0f} %"

    def below(self, limit: float) -> bool:
        """Whether the mean is less than a limit by more than two errors."""
        return self.mean + CLEAR * self.error < limit


def _shares(done: list[Done], of_a_step: bool = False) -> dict[str, Share]:
    """Time with the compact kernel over that with the Gaussian one, split by split."""

    def seconds(result: Any) -> float:
        return result["seconds"] / (result["iterations"] if of_a_step else 1)

    shares = {}
    for name in SPLITS:
        compact, gaussian = (
            {e.job["split"]: seconds(e.result) for e in done if where.items() <= e.job.items()}
            for where in ({"data": name, "method": method} for method in ("SL CS", "SL"))
        )
        found = [compact[split] / gaussian[split] for split in compact.keys() & gaussian.keys()]
        if found:
            error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else 0.0
            shares[name] = Share(float(np.mean(found)), error, len(found))
    return shares


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
