"""Oneață's test accuracy as the number of dimensions grows (figure 5.1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.oneata.common import PLAIN, OwnScale, scores
from reproduce.oneata.judging import CLEAR, Gap, NoLoss, claim, outcome, seen_means

#: figure 5.1: numbers of dimensions, and what is fitted in each
DIMENSIONS = (1, 2, 3, 4, 6, 8, 10, 15, 20, 30, 36)


#: dimensions that the thesis calls low and high; "almost as well": within this many points
LOW, HIGH, ALMOST = (6, 8, 10), (30, 36), 1.0


CURVES = {"plain": "plain NCA", "defaults": "vicinal's defaults"}


def jobs(splits: int | None) -> Iterator[Job]:
    """Both curves, and the number of dimensions that the library picks by itself."""
    for d, curve in product(DIMENSIONS, CURVES):
        yield {"data": "landsat", "d": d, "curve": curve}
    yield {"data": "landsat", "d": "auto", "curve": "auto"}


def work(data: str, d: int | str, curve: str) -> dict[str, Any]:
    """Scores on the official test rows."""
    from vicinal import NCA

    X, y = protocol.data(data)
    X = X.astype(np.float64)
    train, test = protocol.official(data)
    if curve == "plain":
        model = NCA(d, **PLAIN, init=OwnScale("rca"), solver="cg", max_iter=500, random_state=0)
    else:
        model = NCA(d, random_state=0)
    model.fit(X[train], y[train])
    right = model.predict(X[test]) == y[test]
    return {
        **scores(model, X, y, train, test),
        "d": len(model.components_),
        "alpha": float(model.alpha_),
        # which test rows are right, so that fits can be compared row by row
        "right": np.packbits(right).tobytes().hex(),
        "n": len(right),
    }


def _right(result: dict[str, Any]) -> Any:
    """Which test rows are classified rightly."""
    bits = np.frombuffer(bytes.fromhex(result["right"]), np.uint8)
    return np.unpackbits(bits)[: result["n"]].astype(float)


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    found = {(each.job["curve"], each.job["d"]): each.result for each in done}
    auto = found.get(("auto", "auto"))
    styles = {"plain": "#0072B2", "defaults": "#D55E00"}
    lines = {"NCA": ("-", "o"), "1-NN": ("--", "s"), "train": (":", None)}
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    for curve, (score, (line, mark)) in product(CURVES, lines.items()):
        if curve == "defaults" and score == "train":
            continue  # they maximise something else
        points = [(d, 100 * found[curve, d][score]) for d in DIMENSIONS if (curve, d) in found]
        what = "train f(A)" if score == "train" else f"test, {score}{' rule' * (score == 'NCA')}"
        ax.plot(
            *np.transpose(points), line, marker=mark, ms=4, color=styles[curve],
            label=f"{CURVES[curve]}: {what}",
        )  # fmt: skip
    if auto:
        ax.axvline(auto["d"], color="0.5", lw=1, label=f'n_components="auto": {auto["d"]}')
    ax.set(xlabel="number of dimensions d", ylabel="accuracy, per cent")
    plain_frame(ax)
    picture(figure, folder, "oneata-figure-5.1")


def parts(done: list[Done]) -> dict[str, Any]:
    """Curves over d, and their table."""
    found = {(each.job["curve"], each.job["d"]): each.result for each in done}
    scores = ("NCA", "1-NN", "train")
    columns = [(curve, score) for curve in CURVES for score in scores]
    rows = [
        [d, *(f"{100 * found[c, d][s]:.2f}" if (c, d) in found else None for c, s in columns)]
        for d in DIMENSIONS
    ]
    head = [
        f"{CURVES[curve]}: {'train f(A)' if score == 'train' else score}"
        for curve, score in columns
    ]
    return {
        "low_and_high": _low_and_high(found),
        "table": table(["d", *head], rows),
        "auto_words": _auto_words(found),
        "seen": seen_means(
            f'"almost as well" if the loss is less than {ALMOST:g} point by more than {CLEAR:g} '
            "standard errors (a limit of ours)"
        ),
        "alphas": _alphas(found),
    }


def _gap(found: dict[Any, Any], curve: str) -> Gap | None:
    """Low less high dimensions, in points, with its error over the test rows."""
    return _paired(
        *(
            [found[curve, d] for d in dimensions if (curve, d) in found]
            for dimensions in (LOW, HIGH)
        )
    )


def _paired(*sides: list[Any]) -> Gap | None:
    """Mean accuracy of some fits less that of others, paired over the test rows."""
    if not all(sides):
        return None
    first, second = (np.mean([_right(each) for each in side], axis=0) for side in sides)
    gaps = 100 * (first - second)
    return Gap(float(gaps.mean()), float(gaps.std(ddof=1) / len(gaps) ** 0.5), len(gaps))


def _low_and_high(found: dict[Any, Any]) -> str:
    """The paper's sentence, and the difference on our test rows."""
    gaps = {words: _gap(found, curve) for curve, words in CURVES.items()}
    told = [f"{gap} points with {words}" for words, gap in gaps.items() if gap is not None]
    return (
        'The thesis: "NCA operates almost as well in low dimensions (d = 6, …, 10) as in high '
        'dimensions (d > 25)". Here the mean test accuracy of the NCA rule at d = 6, 8, 10 differs '
        f"from that at d = 30, 36 by {' and by '.join(told) or '(not run yet)'}."
    )


def claims(done: list[Done]) -> Iterator[Claim]:
    """Few dimensions are almost as good as many."""
    found = {(each.job["curve"], each.job["d"]): each.result for each in done}
    gap = _gap(found, "plain")
    yield from claim(
        "NCA is almost as good with 6 to 10 dimensions as with more than 25 (landsat)",
        outcome([gap], NoLoss(ALMOST)),
        f"{gap} points, error over the test rows of one split",
    )


def _auto_words(found: dict[Any, Any]) -> str:
    auto = found.get(("auto", "auto"))
    if not auto:
        return ""
    told = (
        f'`NCA(n_components="auto")` picks d = {auto["d"]} from the training rows, with '
        f"{100 * auto['NCA']:.2f} (NCA rule) and {100 * auto['1-NN']:.2f} (1-NN) on the test rows"
    )
    ten = found.get(("defaults", 10))
    gap = _paired([auto], [ten] if ten else [])
    return told + (f"; by the NCA rule this is {gap} points against d = 10." if gap else ".")


def _alphas(found: dict[Any, Any]) -> str:
    chosen = [result["alpha"] for (curve, _), result in found.items() if curve == "defaults"]
    return f"{min(chosen):.2g} to {max(chosen):.2g}" if chosen else "(not run yet)"


EXPERIMENTS = (
    Experiment(
        "oneata-figure-5.1",
        "Accuracy as the number of dimensions grows (Oneață 2011, figure 5.1)",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
)
