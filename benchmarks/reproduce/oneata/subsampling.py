"""Oneață's sub-sampling (figure 4.1): a map learnt from some rows, seen on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.statistics import Summary
from reproduce.oneata.common import PLAIN, OwnScale, leave_one_out
from reproduce.oneata.judging import Gap, claim, gap_of, outcome

SPLITS = 20


SHARES = {"1/3": 1 / 3, "1/6": 1 / 6, "1/12": 1 / 12}
#: a map learnt from all rows, whose scale is right for all rows if anything is: the control
ALL = "all rows"


SETTINGS: dict[str, dict[str, Any]] = {"plain": {**PLAIN, "init": OwnScale("rca")}, "defaults": {}}


FACTORS = ("factor", "factor by log")
#: a factor above this is at the limit of the search, 4, which Brent's method does not reach
AT_LIMIT = 3.9


#: what is judged: words, and the key of the results
COLUMNS = {
    "f, sub-sample": "sub f",
    "f, all rows": "all f",
    "f, all, repaired": "repaired f",
    "f, by log": "by log f",
    "log loss, all": "all log",
    "log loss, repaired": "repaired log",
    "log loss, by log": "by log log",
    "1-NN, all": "1-NN",
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Draws of the sub-sample, of three sizes; the first is shown."""
    for setting, share, split in product(SETTINGS, SHARES, range(splits or SPLITS)):
        yield {"data": "wine", "setting": setting, "share": share, "split": split}
    for setting in SETTINGS:
        yield {"data": "wine", "setting": setting, "share": ALL, "split": 0}


def work(data: str, setting: str, share: str, split: int) -> dict[str, Any]:
    """Scores on the sub-sample and on all rows, before and after the repair of the scale."""
    from vicinal import NCA
    from vicinal.objectives import nca
    from vicinal.samplers import Subsample
    from vicinal.starts import repair_scale

    X, y = protocol.data(data)
    X = X.astype(np.float64)
    few = np.arange(len(y))
    if share != ALL:
        few, _ = train_test_split(few, train_size=SHARES[share], stratify=y, random_state=split)
    model = NCA(2, **SETTINGS[setting], random_state=split).fit(X[few], y[few])
    Z = model.transform(X)
    objective = model.objective

    def loss(Z: Any, rows: Any = slice(None), objective: str = "accuracy") -> float:
        return float(nca(Z[rows], y[rows], objective, warn=False, gradient=False)[0])

    # the penalty belongs to the map in scaled columns: as the library has it
    norm = float(np.sum((model.components_ * X[few].std(axis=0)) ** 2))

    def best_scale(by: str) -> float:
        return repair_scale(lambda s: loss(s * Z, objective=by) + model.alpha_ * s * s * norm)

    factor, by_log = best_scale(objective), best_scale("log")
    if share == ALL:
        return {"factor": factor, "factor by log": by_log, "alpha": float(model.alpha_)}
    library = NCA(2, **SETTINGS[setting], sampling=Subsample(SHARES[share]), random_state=split)
    library.fit(X, y)
    found = {
        "factor": factor,
        "factor by log": by_log,
        "by log f": -loss(by_log * Z),
        "by log log": loss(by_log * Z, objective="log"),
        "sub f": -loss(Z, few),
        "all f": -loss(Z),
        "repaired f": -loss(factor * Z),
        "all log": loss(Z, objective="log"),
        "repaired log": loss(factor * Z, objective="log"),
        "1-NN": leave_one_out(Z, y),
        "sub 1-NN": leave_one_out(Z[few], y[few]),
        "library f": -loss(library.transform(X)),
        "alpha": float(model.alpha_),
    }
    if split == 0:
        found |= {"Z": np.round(Z - Z.mean(axis=0), 3).tolist(), "few": few.tolist()}
    return found


def parts(done: list[Done]) -> dict[str, Any]:
    """Pictures of the first draw, and the table of all."""
    rows = []
    for setting, share in product(SETTINGS, SHARES):
        runs = _runs(done, setting, share)
        if runs:
            rows.append([setting, share, *(_mean(runs, key) for key in COLUMNS.values())])
            rows[-1] += [f"{np.median([run[key] for run in runs]):.2f}" for key in FACTORS]
            rows[-1].append(_mean(runs, "library f"))
    head = ["setting", "share", *COLUMNS, "factor", "factor, by log", "f by `Subsample`"]
    n = len({each.job["split"] for each in done})
    return {**_finding(done), "control": _control(done), "table": table(head, rows), "n": n}


def _control(done: list[Done]) -> str:
    """The best factor of a map learnt from all rows, and how those of sub-samples compare."""
    whole = _runs(done, "plain", ALL)
    if not whole:
        return ""
    found = [run for share in SHARES for run in _runs(done, "plain", share)]
    keys = dict(zip(("f(A)", "the log loss"), FACTORS, strict=True))
    best = [
        f"{'4 or more (the limit)' if factor > AT_LIMIT else f'{factor:.2f}'} by {words}"
        for words, key in keys.items()
        for factor in [whole[0][key]]
    ]
    above = [
        f"{sum(run[key] > whole[0][key] for run in found)} of {len(found)} by {words}"
        for words, key in keys.items()
        if whole[0][key] <= AT_LIMIT
    ]
    told = f"As a control, the best factor of a map learnt from all rows is {' and '.join(best)}."
    if above:
        told += f" Factors of sub-samples of all sizes that are above it: {', '.join(above)}."
    if whole[0]["factor"] > 1.0:
        told += (
            " So a factor above one does not show by itself that the sub-sample is to blame: "
            "without a penalty the map of all rows, too, ends at a smaller scale than the best one."
        )
    return told


def _mean(runs: list[Any], key: str) -> str:
    values = [run[key] for run in runs]
    if key.endswith("log"):
        error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
        return f"{np.mean(values):.3f} ± {error:.3f}"
    return str(Summary(values))


def _runs(done: list[Done], setting: str, share: str) -> list[Any]:
    where = {"setting": setting, "share": share}
    return [each.result for each in done if where.items() <= each.job.items()]


def _gap(runs: list[Any], first: str, second: str) -> Gap:
    """A difference of two scores of the same draws, in points."""
    return gap_of([run[first] - run[second] for run in runs], tested=0.0)


def _finding(done: list[Done]) -> dict[str, Any]:
    runs = _runs(done, "plain", "1/3")
    if not runs:
        return {}
    larger, by_log = (sum(run[key] > 1.0 for run in runs) for key in FACTORS)
    alphas = [run["alpha"] for share in SHARES for run in _runs(done, "defaults", share)]
    return {
        "mean_sub_f": _mean(runs, "sub f"),
        "mean_all_f": _mean(runs, "all f"),
        "lost": _gap(runs, "all f", "sub f"),
        "brought_back": _gap(runs, "repaired f", "all f"),
        "by_log_f": _gap(runs, "by log f", "all f"),
        "larger": larger,
        "n_runs": len(runs),
        "cut": sum(run["factor"] > AT_LIMIT for run in runs),
        "all_one_nn": _mean(runs, "1-NN"),
        "by_log": by_log,
        "alphas": f"{min(alphas):.2g} to {max(alphas):.2g}" if alphas else "(not run yet)",
    }


def claims(done: list[Done]) -> Iterator[Claim]:
    """Errors appear on all rows, more of them for smaller parts, and the scale is too small."""
    by_share = {share: _runs(done, "plain", share) for share in SHARES}
    losses = [_gap(runs, "all f", "sub f") for runs in by_share.values() if runs]
    if not losses:
        return
    yield from claim(
        "A third of wine is separated perfectly, but all rows are not",
        outcome(losses[:1], lambda each: -each.sign()),
        f"{losses[0]} points of f(A)/N",
    )
    points = [each.points for each in losses]
    if len(points) == len(SHARES):
        yield from claim(
            "The loss is larger for smaller sub-samples",
            "seen" if points == sorted(points, reverse=True) else "partly",
            f"{', '.join(str(each) for each in losses)} points",
        )
    runs = [run for each in by_share.values() for run in each]
    larger, by_log = (sum(run[key] > 1.0 for run in runs) for key in FACTORS)
    both = {larger == len(runs), by_log == len(runs)}
    yield from claim(
        "The map of a sub-sample has too small a scale for all rows (wine)",
        "seen" if both == {True} else "not seen" if not larger and not by_log else "partly",
        f"factor > 1: {larger} of {len(runs)} by f(A), {by_log} by log{_all_rows(done)}",
    )


def _all_rows(done: list[Done]) -> str:
    """The factors of the control, for a cell of the index."""
    whole = _runs(done, "plain", ALL)
    if not whole:
        return ""
    factors = [whole[0][key] for key in FACTORS]
    told = ["≥ 4" if factor > AT_LIMIT else f"{factor:.1f}" for factor in factors]
    return f"; map of all rows: {', '.join(told)}"


def draw(done: list[Done], folder: Path) -> None:
    from vicinal import plotting

    y = protocol.data("wine")[1]
    shown = [each for each in done if each.job["share"] == "1/3" and "Z" in each.result]
    if not shown:
        return
    plt = pyplot()
    figure, axes = plt.subplots(
        len(shown), 3, figsize=(10.2, 3.5 * len(shown)), layout="constrained", squeeze=False
    )
    for line, each in zip(axes, shown, strict=True):
        result, words = each.result, each.job["setting"]
        Z, few = np.array(result["Z"]), np.array(result["few"])
        panels = (
            (Z[few], y[few], f"{words}: the sub-sample, f {100 * result['sub f']:.1f} %"),
            (Z, y, f"all rows, f {100 * result['all f']:.1f} %"),
            (
                result["factor"] * Z,
                y,
                f"all rows, scale × {result['factor']:.2f}, f {100 * result['repaired f']:.1f} %",
            ),
        )
        half = 1.08 * max(1.0, result["factor"]) * np.abs(Z).max()
        for ax, (points, labels, title) in zip(line, panels, strict=True):
            plotting.scatter(points, labels, ax, title=title, legend=False, size=14)
            ax.title.set_fontsize("medium")
            # one scale for the three: what differs is the size of the map
            ax.set(xlim=(-half, half), ylim=(-half, half))
            ax.set_aspect("equal", adjustable="box")
            ax.plot([-0.9 * half, -0.9 * half + 1], [-0.9 * half] * 2, color="black", lw=2)
    picture(figure, folder, "oneata-figure-4.1")


EXPERIMENTS = (
    Experiment(
        "oneata-figure-4.1",
        "Sub-sampling on wine (Oneață 2011, figure 4.1)",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z", "few"),
        claims=claims,
    ),
)
