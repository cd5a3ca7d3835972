"""What the comparison of objectives, starts, scalings and early stopping says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets, table
from reproduce.framework.protocol import SMALL
from reproduce.framework.statistics import TESTED, Summary

#: ranks of the map, and their words; the full one is the default
RANKS = {"2": "d = 2", "full": "full rank"}

#: fits of a job: parameters of NCA that are not the defaults; "same" is the penalty that the
#: defaults chose, so that the start or the stopping alone differs
CASES: dict[str, dict[str, Any]] = {
    "log": {},
    "accuracy": {"objective": "accuracy"},
    "log, no penalty": {"alpha": 0.0},
    "accuracy, no penalty": {"objective": "accuracy", "alpha": 0.0},
    "global": {"scaling": "global"},
    "pca": {"init": "pca", "alpha": "same"},
    "random": {"init": "random", "alpha": "same"},
    "early": {"early_stopping": True, "alpha": "same"},
    "early, no penalty": {"early_stopping": True, "alpha": 0.0},
}
WORDS = {
    "log": "`NCA()`",
    "accuracy": '`objective="accuracy"`',
    "log, no penalty": "`alpha=0`",
    "accuracy, no penalty": '`objective="accuracy", alpha=0`',
    "global": '`scaling="global"`',
    "pca": '`init="pca"`',
    "random": '`init="random"`',
    "early": "`early_stopping=True`",
    "early, no penalty": "`early_stopping=True, alpha=0`",
}
RULES = {"posterior": "posterior", "5-NN": "5-NN"}

#: corrected errors of a clear difference
CLEAR = 2.0


def ranks_of(done: list[Done]) -> list[str]:
    """The ranks that have rows."""
    return [d for d in RANKS if any(each.job["d"] == d for each in done)]


def sets_of(done: list[Done]) -> list[str]:
    """The sets that have rows at each of these ranks."""
    found = {(each.job["data"], each.job["d"]) for each in done}
    return [name for name in SMALL if all((name, d) in found for d in ranks_of(done))]


def by_set(done: list[Done], d: str, value: Callable[[dict[str, Any]], float]) -> Any:
    """Means over the splits, one for each set."""
    return np.array(
        [
            np.mean([value(e.result) for e in done if (e.job["data"], e.job["d"]) == (name, d)])
            for name in sets_of(done)
        ]
    )


def _case(case: str, rule: str = "posterior") -> Callable[[dict[str, Any]], float]:
    return lambda result: result[case][rule]


def _gap(done: list[Done], d: str, one: str, other: str, rule: str = "posterior") -> Summary:
    """Mean difference of two cases in points, and its standard error over the sets."""
    return Summary(by_set(done, d, _case(one, rule)) - by_set(done, d, _case(other, rule)))


def both(gaps: dict[str, Summary], digits: int = 1) -> str:
    """Differences at the ranks, in words."""
    return ", ".join(f"{RANKS[d]}: {gap:+.{digits}f}" for d, gap in gaps.items())


def at_ranks(gaps: dict[str, Summary], digits: int = 1) -> str:
    """The same within a sentence."""
    return ", ".join(f"{gap:+.{digits}f} at {RANKS[d]}" for d, gap in gaps.items())


def clear(gap: Summary) -> bool:
    """Whether a difference is beyond its error."""
    return abs(gap.mean) > CLEAR * gap.error > 0.0


def parts(done: list[Done]) -> dict[str, Any]:
    """f against g; set by set; then scalings, starts and early stopping."""
    return {
        "finding": _finding(done),
        "n_sets": len(sets_of(done)),
        "n_splits": len({each.job["split"] for each in done}),
        "clear": f"{CLEAR:g}",
        "objectives": _objectives(done),
        "by_set": _by_set(done),
        "others": _others(done),
        "verdicts": _verdicts(done),
        "rule": _rule(done),
        "leave_one_out": _leave_one_out(done),
    }


def _gaps(done: list[Done], one: str, other: str, rule: str = "posterior") -> dict[str, Summary]:
    return {d: _gap(done, d, one, other, rule) for d in ranks_of(done)}


def _finding(done: list[Done]) -> str:
    with_penalty = _gaps(done, "log", "accuracy")
    without, by_votes = (
        _gaps(done, "log, no penalty", "accuracy, no penalty", rule) for rule in RULES
    )
    return (
        "**The log objective (g, eq. 6) against the accuracy objective (f, eq. 3), in points of "
        "accuracy on held-out rows by the posterior rule: with the penalty that each chooses "
        f"{at_ranks(with_penalty)} ({_words(with_penalty)}); without a penalty "
        f"{at_ranks(without)} ({_words(without)}). By 5-NN without a penalty, which is nearest to "
        f"Goldberger et al., who found both very similar: {at_ranks(by_votes)} "
        f"({_words(by_votes)}).**"
    )


def _words(gaps: dict[str, Summary]) -> str:
    """What differences say: who is ahead, if it is clear."""
    told = {
        "no clear difference" if not clear(gap) else "g is ahead" if gap.mean > 0 else "f is ahead"
        for gap in gaps.values()
    }
    if len(told) == 1:
        return told.pop()
    each = (f"{_words({d: gap})} at {RANKS[d]}" for d, gap in gaps.items())
    return "; ".join(each)


def _objectives(done: list[Done]) -> str:
    rows = []
    for d in ranks_of(done):
        for suffix, penalty in (("", "chosen"), (", no penalty", "0")):
            for rule in RULES:
                f, g = (by_set(done, d, _case(f"{each}{suffix}", rule)) for each in
                        ("accuracy", "log"))  # fmt: skip
                gap = Summary(g - f, TESTED)
                rows.append(
                    [RANKS[d], penalty, rule, f"{100 * f.mean():.2f}", f"{100 * g.mean():.2f}",
                     f"{gap:+.2f}"]
                )  # fmt: skip
    return table(["d", "alpha", "rule", "f", "g", "g − f"], rows)


def _by_set(done: list[Done]) -> str:
    cases = [each + suffix for suffix in ("", ", no penalty") for each in ("accuracy", "log")]
    columns = [(d, case) for d in ranks_of(done) for case in cases]
    values = np.array([by_set(done, d, _case(case)) for d, case in columns])
    rows = [
        [name, *(f"{100 * value:.1f}" for value in column)]
        for name, column in zip(sets_of(done), values.T, strict=True)
    ]
    titles = [
        f"{'f' if case.startswith('accuracy') else 'g'}, {RANKS[d]}"
        + (", alpha = 0" if "no penalty" in case else "")
        for d, case in columns
    ]
    return table(["set", *titles], rows)


def _others(done: list[Done]) -> str:
    """Each case against the defaults."""
    ranks = ranks_of(done)
    rows = []
    for case, words in WORDS.items():
        row = [words]
        for d in ranks:
            row.append(f"{100 * by_set(done, d, _case(case)).mean():.2f}")
            row.append("" if case == "log" else f"{_gap(done, d, case, 'log'):+.2f}")
        rows.append(row)
    titles = [title for d in ranks for title in (RANKS[d], "to `NCA()`")]
    return table(["fit", *titles], rows)


def _verdicts(done: list[Done]) -> str:
    """A line for each parameter: whether another value is clearly better or worse."""
    lines = []
    for case, words in WORDS.items():
        if case == "log":
            continue
        gaps = _gaps(done, case, "log")
        told = [_verdict(gap) for gap in gaps.values()]
        each = zip(gaps.items(), told, strict=True)
        shown = "; ".join(f"{RANKS[d]} {gap:+.1f} points, {word}" for (d, gap), word in each)
        lines.append(f"{words}: {shown}.")
    return bullets(*lines)


def _verdict(gap: Summary) -> str:
    if not clear(gap):
        return "no clear difference"
    return "better than the default" if gap.mean > 0 else "worse than the default"


def _rule(done: list[Done]) -> str:
    gaps = {
        d: Summary(by_set(done, d, _case("log")) - by_set(done, d, _case("log", "5-NN")))
        for d in ranks_of(done)
    }
    return at_ranks(gaps)


def _leave_one_out(done: list[Done]) -> str:
    """What the winner over the other sets is worth on a set that had no say."""
    by_rank = []
    for d in ranks_of(done):
        values = np.array([by_set(done, d, _case(case)) for case in CASES])  # the default first
        gaps = []
        for i in range(values.shape[1]):
            others = np.delete(values, i, axis=1)
            winner = int(np.argmax(others.mean(axis=1))) if others.size else 0
            gaps.append(values[winner, i] - values[0, i])
        by_rank.append(gaps)
    # the ranks of one set are not independent: their mean, and the error over the sets
    return f"{Summary(np.mean(by_rank, axis=0)):+.2f}"


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index."""
    if not sets_of(done):
        return
    yield Claim(
        "Objective of NCA, log-probability against accuracy, each with its own chosen penalty",
        "answer",
        f"{both(_gaps(done, 'log', 'accuracy'))} points",
    )
    yield Claim(
        "Objective of NCA, log-probability against accuracy, without a penalty",
        "answer",
        f"{both(_gaps(done, 'log, no penalty', 'accuracy, no penalty'))} points",
    )
    yield Claim(
        "The same by 5-NN (Goldberger et al. found both objectives very similar)",
        "answer",
        f"{both(_gaps(done, 'log, no penalty', 'accuracy, no penalty', '5-NN'))} points",
    )
    for case, asks in (
        ("early", "Is early stopping worth it?"),
        ("random", "Is a random start as good as the default one?"),
        ("global", "One scale for all columns in place of standardised ones"),
    ):
        yield Claim(f"{asks} ({WORDS[case].strip('`')})", "answer",
                    f"{both(_gaps(done, case, 'log'))} points")  # fmt: skip
