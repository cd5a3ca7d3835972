"""Oneață's early stopping on mnist (figure 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import Summary
from reproduce.oneata.common import EARLY, PLAIN
from reproduce.oneata.fast import Keeper, start
from reproduce.oneata.judging import DIFFERENCE, Gap, claim, gap_of, outcome, seen_means

#: draws of rows, rows of a draw, and the most iterations of a fit
DRAWS, ROWS, MAX_ITER = 10, 5000, 200
#: iterations that the fit of the picture has at least
SHOWN = 10


RULES = {"1-NN": "1-NN", "NCA": "the NCA rule"}


def jobs(splits: int | None) -> Iterator[Job]:
    """Draws of training rows."""
    for split in range(splits or DRAWS):
        yield {"data": "mnist", "rows": ROWS, "max_iter": MAX_ITER, "split": split}


def work(data: str, rows: int, max_iter: int, split: int) -> dict[str, Any]:
    """Errors by iteration of a fit to its end, and test scores of its last and of its best map.

    The best is that which early stopping would have kept: all maps are those of one fit.
    """
    from vicinal import NCA

    X, y = protocol.data(data)
    train, test = protocol.official(data)
    train = np.random.RandomState(split).permutation(train)[:rows]
    X = X.astype(np.float32)
    few = round(EARLY["validation_fraction"] * len(train))
    held_out, learnt = train[:few], np.sort(train[few:])
    begin = start("rca", X[learnt], y[learnt], 5, split)
    keeper = Keeper(range(1, max_iter + 1))
    # L-BFGS: one evaluation an iteration, where conjugate gradients take two
    model = NCA(5, **PLAIN, init=begin, max_iter=max_iter, random_state=split)
    model.set_callbacks(keeper).fit(X[learnt], y[learnt])
    maps = [begin, *(A for _, A in sorted(keeper.maps.items()))]
    scored = [_right(A, X, y, learnt, held_out) for A in maps]
    kept, stop = stopped(scored, EARLY["n_iter_no_change"])
    losses = [float(loss) for loss in model.history_["loss"][: len(maps)]]
    after = dict(_test_scores(maps[-1], X, y, train, test))
    return {
        **dict(_test_scores(maps[kept], X, y, train, test)),
        **{f"to the end: {rule}": score for rule, score in after.items()},
        "iterations": stop,
        "loss": losses,
        "validation_score": scored,
    }


def stopped(scored: list[float], patience: int) -> tuple[int, int]:
    """The iteration whose map early stopping keeps, and the one at which it stops."""
    best = 0
    for at, score in enumerate(scored):
        if score > scored[best]:
            best = at
        elif at - best >= patience:
            return best, at
    return best, len(scored) - 1


def _right(A: Any, X: Any, y: Any, learnt: Any, held_out: Any) -> float:
    """Expected accuracy of held-out rows by the rows learnt from."""
    from vicinal.objectives import nca_posterior

    likely = nca_posterior(X[held_out] @ A.T, X[learnt] @ A.T, y[learnt])
    own = np.searchsorted(np.unique(y[learnt]), y[held_out])
    return float(np.mean(likely[np.arange(len(own)), own]))


def _test_scores(A: Any, X: Any, y: Any, train: Any, test: Any) -> Iterator[tuple[str, float]]:
    """Test scores of a map by all training rows, the held-out ones too."""
    from vicinal.objectives import nca_posterior

    Z, Z_test = X[train] @ A.T, X[test] @ A.T
    yield "1-NN", knn(Z, y[train], Z_test, y[test])
    likely = nca_posterior(Z_test, Z, y[train]).argmax(axis=1)
    yield "NCA", float(np.mean(np.unique(y[train])[likely] == y[test]))


def _errors(result: dict[str, Any]) -> tuple[Any, Any, int]:
    """Training and held-out errors in per cent, and where the latter is least."""
    train = 100 * (1 + np.asarray(result["loss"], dtype=float))
    held_out = 100 * (1 - np.asarray(result["validation_score"], dtype=float))
    return train, held_out, int(np.argmin(held_out))


def draw(done: list[Done], folder: Path) -> None:
    """The curve of a draw with its best point, and where early stopping ends."""
    result = _shown(done).result
    train, held_out, best = _errors(result)
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    ax.plot(train, color="#0072B2", label="training rows")
    ax.plot(held_out, color="#E69F00", label="held-out rows")
    ax.plot(best, held_out[best], "o", color="#D55E00", label=f"least: iteration {best}")
    stop = result["iterations"]
    ax.axvline(stop, color="0.5", lw=1, ls="--", label=f"early stopping ends: {stop:.0f}")
    ax.set(xlabel="iteration", ylabel="error 1 − f(A)/N, per cent", ylim=(0, None))
    plain_frame(ax)
    picture(figure, folder, "oneata-figure-3.2")


def _shown(done: list[Done]) -> Done:
    """The first draw whose fit made some iterations."""
    return next((each for each in done if len(each.result["loss"]) > SHOWN + 1), done[0])


def parts(done: list[Done]) -> dict[str, Any]:
    """Where the held-out error is least, how it goes on, and what stopping there gives."""
    results = [each.result for each in done]
    found = [_errors(result) for result in results]
    best = [at for _, _, at in found]
    gains = [f"{_gain(done, rule)} by {words}" for rule, words in RULES.items()]
    rises = _rises(done)
    return {
        "best": f"{np.median(best):.0f} in the median ({min(best)} to {max(best)})",
        "stop": f"{np.median([result['iterations'] for result in results]):.0f}",
        "last": f"{np.median([len(result['loss']) - 1 for result in results]):.0f}",
        "held_out": _mean([held_out[at] for _, held_out, at in found]),
        "train_at_best": _mean([train[at] for train, _, at in found]),
        "train_at_last": _mean([train[-1] for train, _, _ in found]),
        "rising": sum(rise > 0 for rise in rises),
        "rise": _mean(rises),
        "shown": _shown(done).job["split"] + 1,
        "more_than": SHOWN,
        **{
            words: Summary([result[rule] for result in results])
            for words, rule in (("one_nn", "1-NN"), ("nca", "NCA"))
        },
        "gains": " and ".join(gains),
        "seen": seen_means(
            "a rise of the held-out error if the error of the last map is above the least one in "
            'every draw ("partly": in some)',
            DIFFERENCE,
        ),
        "draws": len(done),
        "rows": f"{done[0].job['rows']:,}",
        "max_iter": done[0].job["max_iter"],
    }


def _rises(done: list[Done]) -> list[float]:
    """Held-out error of the last map less the least one, in points, draw by draw."""
    found = (_errors(each.result) for each in done)
    return [float(held_out[-1] - held_out[at]) for _, held_out, at in found]


def _mean(values: list[float]) -> str:
    """Mean ± standard error over the draws."""
    return f"{Summary(np.asarray(values) / 100):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def _gain(done: list[Done], rule: str) -> Gap:
    """Test accuracy of the map that was kept less that of a fit to the end, in points."""
    gaps = [e.result[rule] - e.result[f"to the end: {rule}"] for e in done]
    return gap_of(gaps, tested=0.0)  # draws of few of many rows, and always the same test rows


def claims(done: list[Done]) -> Iterator[Claim]:
    """The held-out error has its least value on the way, and stopping there is better."""
    rises = _rises(done)
    rising = [rise > 0 for rise in rises]
    yield Claim(
        "The held-out error rises after its least value (mnist)",
        "seen" if all(rising) else "partly" if any(rising) else "not seen",
        f"in {sum(rising)} of {len(rises)} draws, by {_mean(rises)} points until the end",
    )
    gains = {rule: _gain(done, rule) for rule in RULES}
    told = ", ".join(f"{gain} by {RULES[rule]}" for rule, gain in gains.items())
    yield from claim(
        "Early stopping prevents over-fitting (mnist): points against a fit to the end",
        outcome(gains.values()),
        told,
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
