"""Oneață's early stopping on mnist (figure 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.statistics import Summary
from reproduce.oneata.common import EARLY, PLAIN, OwnScale, scores
from reproduce.oneata.judging import Gap, claim, outcome

#: draws of rows, rows of a draw, and the most iterations of a fit
DRAWS, ROWS, MAX_ITER = 5, 5000, 200


RULES = {"1-NN": "1-NN", "NCA": "the NCA rule"}


def jobs(splits: int | None) -> Iterator[Job]:
    """Draws of training rows; the first is shown."""
    for split in range(splits or DRAWS):
        yield {"data": "mnist", "rows": ROWS, "max_iter": MAX_ITER, "split": split}


def work(data: str, rows: int, max_iter: int, split: int) -> dict[str, Any]:
    """Errors by iteration, test scores of the map that was kept, and of a fit to the end."""
    from vicinal import NCA

    X, y = protocol.data(data)
    train, test = protocol.official(data)
    train = np.sort(np.random.RandomState(split).permutation(train)[:rows])
    X = X.astype(np.float32)
    # L-BFGS: one evaluation an iteration, where conjugate gradients take two
    options = {**PLAIN, "init": OwnScale("rca"), "max_iter": max_iter, "random_state": split}
    model = NCA(5, **options, **EARLY).fit(X[train], y[train])
    history = {key: model.history_[key] for key in ("iteration", "loss", "validation_score")}
    end = NCA(5, **options).fit(X[train], y[train])
    after = scores(end, X, y, train, test)
    return {
        **scores(model, X, y, train, test),
        **{f"to the end: {key}": after[key] for key in ("train", "1-NN", "NCA", "iterations")},
        **history,
    }


def _errors(result: dict[str, Any]) -> tuple[Any, Any, int]:
    """Training and held-out errors in per cent, and where the latter is least."""
    train = 100 * (1 + np.asarray(result["loss"]))
    held_out = 100 * (1 - np.asarray(result["validation_score"], dtype=float))
    return train, held_out, int(np.argmin(held_out))


def draw(done: list[Done], folder: Path) -> None:
    """The curve of the first draw with its best point."""
    result = done[0].result
    train, held_out, best = _errors(result)
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    ax.plot(result["iteration"], train, color="#0072B2", label="training rows")
    ax.plot(result["iteration"], held_out, color="#E69F00", label="held-out rows")
    at = result["iteration"][best]
    ax.plot(at, held_out[best], "o", color="#D55E00", label=f"best: iteration {at}")
    ax.set(xlabel="iteration", ylabel="error 1 − f(A)/N, per cent", ylim=(0, None))
    plain_frame(ax)
    picture(figure, folder, "oneata-figure-3.2")


def parts(done: list[Done]) -> dict[str, Any]:
    """Where the held-out error is least, and what stopping there gives."""
    results = [each.result for each in done]
    found = [_errors(result) for result in results]
    best = [result["iteration"][at] for result, (_, _, at) in zip(results, found, strict=True)]
    scored = {rule: Summary([result[rule] for result in results]) for rule in RULES}
    gains = [f"{_gain(done, rule)} by {words}" for rule, words in RULES.items()]
    return {
        "best": f"{np.median(best):.0f} in the median ({min(best)} to {max(best)})",
        "last": f"{np.median([result['iteration'][-1] for result in results]):.0f}",
        "held_out": f"{np.mean([held_out[at] for _, held_out, at in found]):.1f}",
        "train_at_best": f"{np.mean([train[at] for train, _, at in found]):.1f}",
        "train_at_last": f"{np.mean([train[-1] for train, _, _ in found]):.1f}",
        "one_nn": scored["1-NN"],
        "nca": scored["NCA"],
        "gains": " and ".join(gains),
        "draws": len(done),
        "rows": f"{done[0].job['rows']:,}",
        "max_iter": done[0].job["max_iter"],
    }


def _gain(done: list[Done], rule: str) -> Gap:
    """Test accuracy of the map that was kept less that of a fit to the end, in points."""
    found = [100 * (e.result[rule] - e.result[f"to the end: {rule}"]) for e in done]
    error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else 0.0
    return Gap(float(np.mean(found)), error, len(found))


def claims(done: list[Done]) -> Iterator[Claim]:
    """Stopping at the least held-out error keeps from over-fitting."""
    gain = _gain(done, "NCA")
    yield from claim(
        "Early stopping prevents over-fitting (mnist)",
        outcome([gain]),
        f"{gain} points beside a fit to the end, by the NCA rule",
    )


EXPERIMENTS = (
    Experiment(
        "oneata-figure-3.2",
        "Early stopping on mnist (Oneață 2011, figure 3.2)",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
)
