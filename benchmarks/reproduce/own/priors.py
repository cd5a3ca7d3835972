"""Class priors where the shares of the classes differ between training and use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.protocol import stratified
from reproduce.framework.statistics import Summary
from reproduce.own.paired import figure, gain, over_sets, present, scores, told_over_sets

#: sets of uneven classes
SETS = ("balance", "ecoli", "pima", "spectf", "transfusion", "yeast")

#: smaller classes are left out: nothing can be balanced with them
LEAST = 30

#: training rows, and the shares of the classes where the model is used
CASES = {
    "balanced by hand, natural": "balanced training rows, used where the shares are natural",
    "natural, equal": "natural training rows, used where all classes are equally common",
    "natural, natural": "natural training rows, used where the shares are the same",
}

NONE, RIGHT, AFTER = "none", "right", "afterwards"
WRONG = "uniform"

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all fits within the job."""
    for split, name in product(range(splits or SPLITS), SETS):
        yield {"data": name, "split": split}


def rows_of(data: str) -> tuple[Any, Any]:
    """Rows and labels of a set, without its small classes."""
    X, y = protocol.data(data)
    counts = np.bincount(y)
    rows = np.flatnonzero(counts[y] >= min(LEAST, counts.max()))
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def work(data: str, split: int) -> dict[str, Any]:
    """Accuracy and log loss with and without priors, in each case."""
    from vicinal import NCA

    X, y = rows_of(data)
    train, test = stratified(y, split)
    natural = np.bincount(y[train]) / len(train)
    equal = np.full(len(natural), 1.0 / len(natural))
    by_hand = _balanced(train, y, split)

    def posteriors(rows: Any, priors: Any) -> Any:
        model = NCA(priors=priors, random_state=split).fit(X[rows], y[rows])
        return model.predict_proba(X[test])

    P_hand, P_natural = posteriors(by_hand, None), posteriors(train, None)
    P_uniform = posteriors(train, "uniform")
    found = {
        ("balanced by hand, natural", NONE): (P_hand, natural),
        ("balanced by hand, natural", RIGHT): (posteriors(by_hand, natural), natural),
        ("balanced by hand, natural", AFTER): (_moved(P_hand, equal, natural), natural),
        ("natural, equal", NONE): (P_natural, equal),
        ("natural, equal", RIGHT): (P_uniform, equal),
        ("natural, equal", AFTER): (_moved(P_natural, natural, equal), equal),
        ("natural, natural", NONE): (P_natural, natural),
        ("natural, natural", WRONG): (P_uniform, natural),
    }
    result = {}
    for (case, priors), (P, shares) in found.items():
        accuracy, loss = _judged(P, y[test], shares)
        result[f"{case}: {priors}"] = accuracy
        result[f"log loss, {case}: {priors}"] = loss
    return result


def _balanced(rows: Any, y: Any, seed: int) -> Any:
    """As many rows of each class as the smallest has."""
    rng = np.random.RandomState(seed)
    least = np.bincount(y[rows]).min()
    members = [rng.permutation(rows[y[rows] == c])[:least] for c in range(y.max() + 1)]
    return np.concatenate(members)


def _moved(P: Any, before: Any, after: Any) -> Any:
    """Posteriors under other priors, by Bayes' rule, without learning again."""
    P = P * (after / before)
    return P / P.sum(axis=1, keepdims=True)


def _judged(P: Any, y: Any, shares: Any) -> tuple[float, float]:
    """Accuracy and log loss where the classes have these shares: rows are weighted by class."""
    weight = (shares / np.bincount(y, minlength=len(shares)))[y]
    right = P.argmax(axis=1) == y
    loss = -np.log(np.maximum(P[np.arange(len(y)), y], 1e-10))
    return float(np.average(right, weights=weight)), float(np.average(loss, weights=weight))


def parts(done: list[Done]) -> dict[str, Any]:
    """A table for each case, and what priors are worth in it."""
    names = present(SETS, done)
    return {
        "losses": _losses(done, names),
        # for quotes in the guide
        "loss_gap": _loss_gap(done, names, "balanced by hand, natural", RIGHT, AFTER),
        "loss_words": _loss_words(done, names, "balanced by hand, natural", RIGHT, AFTER),
        "finding": "\n".join(_findings(done, names)),
        "advice": _advice(done, names),
        "tables": "\n\n".join(
            f"## {_title(case)}\n\n{_table(done, names, case)}" for case in CASES
        ),
        "n_splits": len({each.job["split"] for each in done}),
        "least": LEAST,
    }


def _title(case: str) -> str:
    words = CASES[case]
    return words[0].upper() + words[1:]


def _priors(case: str) -> tuple[str, ...]:
    return (NONE, WRONG) if case == "natural, natural" else (NONE, RIGHT, AFTER)


_TITLES = {
    NONE: "`priors=None`", RIGHT: "the right `priors`", AFTER: "the right ones afterwards",
    WRONG: '`priors="uniform"`, which is wrong here',
}  # fmt: skip


#: the same in the heads of columns
_SHORT = {NONE: "none", RIGHT: "right", AFTER: "afterwards", WRONG: "uniform"}


def _table(done: list[Done], names: list[str], case: str) -> str:
    """Accuracies, and the paired differences to none; of the right priors also to afterwards."""
    kinds = _priors(case)
    compared = [(kinds[1], NONE)] + [(RIGHT, AFTER)] * (AFTER in kinds)
    rows: list[list[Any]] = []
    for name in names:
        found = [scores(done, f"{case}: {kind}", data=name) for kind in kinds]
        gaps = [gain(done, f"{case}: {one}", f"{case}: {other}", data=name)
                for one, other in compared]  # fmt: skip
        cells = [f"{Summary(list(some.values())):.1f}" for some in found]
        rows.append([name, *cells, *(f"{gap:+.1f}" for gap in gaps)])
    gaps = [over_sets(done, f"{case}: {one}", f"{case}: {other}", names) for one, other in compared]
    rows.append(["**mean**", *[None] * len(kinds), *(f"{gap:+.2f}" for gap in gaps)])
    titles = [_TITLES[kind] for kind in kinds]
    titles += [f"{_SHORT[one]} − {_SHORT[other]}" for one, other in compared]
    return table(["test accuracy", *titles], rows)


def _losses(done: list[Done], names: list[str]) -> str:
    """Mean log losses over the sets, and paired differences; they are no percentages."""
    rows = []
    for case in CASES:
        cells = []
        for kind in (NONE, RIGHT, AFTER, WRONG):
            key = f"log loss, {case}: {kind}"
            by_set = [list(scores(done, key, data=name).values()) for name in names]
            cells.append(
                f"{np.mean([np.mean(some) for some in by_set]):.3f}" if all(by_set) else "–"
            )
        cells.append(_loss_gap(done, names, case, _priors(case)[1], NONE))
        after = AFTER in _priors(case)
        cells.append(_loss_gap(done, names, case, RIGHT, AFTER) if after else "–")
        rows.append([CASES[case], *cells])
    titles = [_SHORT[kind] for kind in (NONE, RIGHT, AFTER, WRONG)]
    heads = ["log loss, mean over the sets", *titles, "priors − none", "right − afterwards"]
    return table(heads, rows)


def _findings(done: list[Done], names: list[str]) -> Iterator[str]:
    for case in CASES:
        other = WRONG if case == "natural, natural" else RIGHT
        beside = told_over_sets(done, f"{case}: {other}", f"{case}: {NONE}", names)
        yield f"- {_title(case)}: {beside}, with {_TITLES[other]}."


def _advice(done: list[Done], names: list[str]) -> str:
    """Whether priors should be set in learning or afterwards, as far as the numbers tell."""
    cases = [case for case in CASES if AFTER in _priors(case)]
    signs = []
    for case in cases:
        right, after = f"{case}: {RIGHT}", f"{case}: {AFTER}"
        signs.append(_sign(over_sets(done, right, after, names)))
        signs.append(-_sign(over_sets(done, f"log loss, {right}", f"log loss, {after}", names)))
    one, other = AFTER, RIGHT
    if min(signs) < 0 and max(signs) <= 0:
        lead = "**Set priors after learning.** Beside the same priors in learning, this is:"
    elif max(signs) > 0 and min(signs) >= 0:
        one, other = RIGHT, AFTER
        lead = "**Set priors in learning.** Beside the same priors set afterwards, this is:"
    else:
        lead = (
            "**The numbers do not decide whether to set priors in learning or afterwards.** "
            "Afterwards, against in learning, is:"
        )
    lines = [
        f"{_title(case).split(',')[0]}: in log loss {_loss_words(done, names, case, one, other)}; "
        f"in accuracy {told_over_sets(done, f'{case}: {one}', f'{case}: {other}', names)}."
        for case in cases
    ]
    return f"{lead}\n\n{bullets(*lines)}"


def _sign(gap: Summary | None) -> int:
    """1 or -1 where a difference is clear."""
    if gap is None or not abs(gap.mean) > 2.0 * gap.error > 0.0:
        return 0
    return int(np.sign(gap.mean))


def _loss_words(done: list[Done], names: list[str], case: str, one: str, other: str) -> str:
    """A paired difference of log losses in words; a lower one is better."""
    gap = over_sets(done, *(f"log loss, {case}: {kind}" for kind in (one, other)), names)
    if gap is None:
        return "not computed"
    size = f"{abs(gap.mean) / 100:.3f} ± {gap.error / 100:.3f}"
    if not _sign(gap):
        return f"no clear difference ({gap.mean / 100:+.3f} ± {gap.error / 100:.3f})"
    return f"{'worse' if gap.mean > 0 else 'better'} by {size}"


def _loss_gap(done: list[Done], names: list[str], case: str, one: str, other: str) -> str:
    """A paired difference of log losses, which are no percentages."""
    keys = (f"log loss, {case}: {kind}" for kind in (one, other))
    gap = over_sets(done, *keys, names)
    return "–" if gap is None else f"{gap.mean / 100:+.3f} ± {gap.error / 100:.3f}"


def claims(done: list[Done]) -> Iterator[Claim]:
    """What the right priors are worth, and what wrong ones cost."""
    names = present(SETS, done)
    says = {
        "balanced by hand, natural": "rows balanced by hand: the right `priors` against none",
        "natural, equal": 'all classes equally important: `priors="uniform"` against none',
        "natural, natural": 'shares as in training: `priors="uniform"`, wrongly, against none',
    }
    for case, words in says.items():
        other = WRONG if case == "natural, natural" else RIGHT
        told = figure(done, f"{case}: {other}", f"{case}: {NONE}", names)
        at = " of accuracy at the shares in use" if ";" not in told else ""
        yield Claim(words, "answer", f"{told}{at}")
    for case, words in CASES.items():
        if AFTER in _priors(case):
            says = (
                f"{words.split(',')[0]}: the right `priors` in learning against the same afterwards"
            )
            told = figure(done, f"{case}: {RIGHT}", f"{case}: {AFTER}", names)
            yield Claim(says, "answer", told)


EXPERIMENTS = (
    Experiment(
        "priors",
        "Class priors where training and use have different shares of the classes",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
