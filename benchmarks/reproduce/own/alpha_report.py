"""What the comparison of penalties says: fixed ones, and ways to choose one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
from reproduce.framework.statistics import Summary
from reproduce.own.comparison_report import (
    RANKS,
    at_ranks,
    both,
    by_set,
    clear,
    ranks_of,
    sets_of,
)

#: fixed penalties, and those that alpha="auto" tries, the strongest first
PATH = (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
SEARCHED = (0.1, 0.03, 0.01, 3e-3, 1e-3)
FIXED = "0.003"  # the penalty of a search without a result

#: ways to choose by fold scores: score, and standard errors by which the strongest may be behind
CRITERIA: dict[str, tuple[str, float]] = {
    "accuracy, half a standard error": ("posterior", 0.5),
    "highest accuracy": ("posterior", 0.0),
    "accuracy, one standard error": ("posterior", 1.0),
    "highest log-probability": ("log", 0.0),
    "log-probability, half a standard error": ("log", 0.5),
}
RULE = next(iter(CRITERIA))
AUTO, HINDSIGHT = "`NCA()` with defaults", "the best in hindsight"
_SCORES = {"posterior": "posterior", "5-NN": "5-NN", "log": "log-probability"}


def choice(result: dict[str, Any], score: str, errors: float) -> str:
    """The strongest penalty within this many standard errors of the best, fold by fold.

    As in the estimator, penalties under which the map tells no more than the most common class
    are left out.
    """
    inside = result["inside"]
    alphas = [a for a in inside if np.mean(inside[a]["posterior"]) > result["chance"]]
    alphas = alphas or list(inside)
    scores = np.array([inside[a][score] for a in alphas])
    behind = scores[int(np.argmax(scores.mean(axis=1)))] - scores
    error = behind.std(axis=1, ddof=1) / np.sqrt(behind.shape[1])
    return alphas[int(np.argmax(behind.mean(axis=1) <= errors * error))]


def _worth(alpha: str) -> Callable[[dict[str, Any]], float]:
    return lambda result: result["worth"][alpha]["posterior"]


def _auto(result: dict[str, Any]) -> float:
    return result["auto"]["posterior"]


def ways() -> dict[str, Callable[[dict[str, Any]], float]]:
    """Held-out accuracy of each way to set the penalty."""

    def chosen(score: str, errors: float) -> Callable[[dict[str, Any]], float]:
        return lambda result: _worth(choice(result, score, errors))(result)

    return {
        AUTO: _auto,
        **{words: chosen(*how) for words, how in CRITERIA.items()},
        **{f"always {alpha:g}": _worth(str(alpha)) for alpha in PATH[::-1]},
        HINDSIGHT: lambda result: max(each["posterior"] for each in result["worth"].values()),
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """The path of fixed penalties, ways to choose, and what `NCA()` chose."""
    return {
        "finding": _finding(done),
        "n_sets": len(sets_of(done)),
        "n_splits": len({each.job["split"] for each in done}),
        "table": _path(done),
        "by_set": _by_set(done),
        "ways": _ways(done),
        "chosen": _chosen(done),
        "searched": ", ".join(f"{alpha:g}" for alpha in SEARCHED),
    }


def _resting(names: list[str], gaps: Any) -> tuple[str, Summary] | None:
    """The set without which a mean over the sets would be clear, or no longer; and the rest."""
    whole = Summary(gaps)
    rests = {name: Summary(np.delete(gaps, at)) for at, name in enumerate(names)}
    changed = {
        name: rest
        for name, rest in rests.items()
        if clear(rest) != clear(whole) or (clear(rest) and rest.mean * whole.mean < 0)
    }
    if len(names) < 3 or not changed:
        return None
    name = max(changed, key=lambda each: abs(changed[each].mean - whole.mean))
    return name, changed[name]


def _gaps(done: list[Done], one: str, other: str) -> dict[str, Summary]:
    """Differences of two ways at each rank, with errors over the sets."""
    value = ways()
    return {
        d: Summary(by_set(done, d, value[one]) - by_set(done, d, value[other]))
        for d in ranks_of(done)
    }


def _best_fixed(done: list[Done], d: str) -> float:
    return max(PATH, key=lambda alpha: by_set(done, d, _worth(str(alpha))).mean())


def _finding(done: list[Done]) -> str:
    gaps = _gaps(done, AUTO, f"always {FIXED}")
    best = [f"{_best_fixed(done, d):g} at {RANKS[d]}" for d in ranks_of(done)]
    of_sets = _best_of_sets(done)
    return (
        "**The penalty that `NCA()` chooses, against a fixed "
        f"alpha = {FIXED}, in points of held-out accuracy: {at_ranks(gaps)}; in held-out "
        f"log-probability: {_log_words(done)} (± over the sets).** {_without(done)}\n\n"
        f"The best fixed alpha on average over the sets is {' and '.join(best)}; single sets are "
        f"best at values from {min(of_sets):g} to {max(of_sets):g}."
    )


def _logs(gap: Summary) -> str:
    """A difference of log-probabilities, which are no percentages."""
    return f"{gap.mean / 100:+.2f} ± {gap.error / 100:.2f}"


def _log_words(done: list[Done]) -> str:
    gaps = {d: _score_gap(done, d, "log", None) for d in ranks_of(done)}
    return ", ".join(
        f"{gap.mean / 100:+.2f} ± {gap.error / 100:.2f} at {RANKS[d]}" for d, gap in gaps.items()
    )


def _without(done: list[Done]) -> str:
    """The same without the set that adds most to it."""
    names, told = sets_of(done), []
    for d in ranks_of(done):
        gap = by_set(done, d, _auto) - by_set(done, d, _worth(FIXED))
        most = int(np.argmax(gap))
        rest = Summary(np.delete(gap, most) if len(gap) > 1 else gap)
        told.append(f"at {RANKS[d]} that is {names[most]}, without which it is {rest:+.1f}")
    return f"One set adds most to the accuracy: {'; '.join(told)}."


def _best_of_sets(done: list[Done]) -> list[float]:
    found = []
    for d in ranks_of(done):
        values = np.array([by_set(done, d, _worth(str(alpha))) for alpha in PATH])
        found += [PATH[at] for at in values.argmax(axis=0)]
    return found


def _bold(values: Any, digits: int, factor: float = 100.0) -> list[str]:
    """Numbers, the highest in bold."""
    shown = [f"{factor * value:.{digits}f}" for value in values]
    shown[int(np.argmax(values))] = f"**{shown[int(np.argmax(values))]}**"
    return shown


def _path(done: list[Done]) -> str:
    rows: list[list[Any]] = []
    for d in ranks_of(done):
        for score, words in _SCORES.items():
            values = [
                by_set(done, d, lambda r, a=str(alpha), s=score: r["worth"][a][s]).mean()
                for alpha in PATH
            ]
            values.append(by_set(done, d, lambda r, s=score: r["auto"][s]).mean())
            shown = _bold(values, 3, 1.0) if score == "log" else _bold(values, 2)
            rows.append([RANKS[d], words, *shown])
            if score != "5-NN":
                rows.append(["", f"to {FIXED}", *_to_fixed(done, d, score)])
    return table(["d", "score", *(f"{alpha:g}" for alpha in PATH), "chosen by `NCA()`"], rows)


def _to_fixed(done: list[Done], d: str, score: str) -> list[str]:
    """Differences to the fixed penalty, of each column of the path."""
    shown = []
    for alpha in (*PATH, None):
        gap = _score_gap(done, d, score, alpha)
        # log-probabilities are shown as they are, accuracies in per cent
        text = f"{gap.mean / 100:+.3f} ± {gap.error / 100:.3f}" if score == "log" else f"{gap:+.2f}"
        shown.append("" if str(alpha) == FIXED else text)
    return shown


def _score_gap(done: list[Done], d: str, score: str, alpha: float | None) -> Summary:
    """A score with a penalty, or with the chosen one for None, against the fixed penalty."""

    def value(result: dict[str, Any]) -> float:
        return (result["auto"] if alpha is None else result["worth"][str(alpha)])[score]

    return Summary(by_set(done, d, value) - by_set(done, d, lambda r: r["worth"][FIXED][score]))


def _by_set(done: list[Done]) -> str:
    rows = []
    for d in ranks_of(done):
        columns = [by_set(done, d, _worth(str(alpha))) for alpha in PATH]
        columns.append(by_set(done, d, _auto))
        common = by_set(done, d, lambda result: result["chance"])
        for name, values, chance in zip(sets_of(done), np.transpose(columns), common, strict=True):
            rows.append([RANKS[d], name, f"{100 * chance:.1f}", *_bold(values, 1)])
    heads = ["d", "set", "most common class", *(f"{alpha:g}" for alpha in PATH)]
    return table([*heads, "chosen by `NCA()`"], rows)


def _ways(done: list[Done]) -> str:
    ranks, value = ranks_of(done), ways()
    rows = []
    for words in value:
        row = [words]
        for d in ranks:
            row.append(f"{100 * by_set(done, d, value[words]).mean():.2f}")
            gap = Summary(by_set(done, d, value[words]) - by_set(done, d, _auto))
            row.append("" if words == AUTO else f"{gap:+.2f}")
        rows.append(row)
    titles = [title for d in ranks for title in (RANKS[d], "to `NCA()`")]
    return table(["alpha is", *titles], rows)


def _chosen(done: list[Done]) -> str:
    """How often `NCA()` chose each penalty."""
    rows = []
    for d in ranks_of(done):
        alphas = [each.result["auto"]["alpha"] for each in done if each.job["d"] == d]
        same = [f"{alpha:g}" for alpha in alphas]
        counts = [same.count(f"{alpha:g}") for alpha in SEARCHED]
        rows.append([RANKS[d], *counts, len(same) - sum(counts)])
    return table(["d", *(f"{alpha:g}" for alpha in SEARCHED), "other"], rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index."""
    names = sets_of(done)
    for d in ranks_of(done):
        gaps = by_set(done, d, _auto) - by_set(done, d, _worth(FIXED))
        rests = _resting(names, gaps)
        rest = f"; without the set {rests[0]} {rests[1]:+.1f}" if rests else ""
        yield Claim(
            f"Penalty chosen by NCA() against a fixed {FIXED}, {RANKS[d]}: held-out accuracy",
            "answer",
            f"{Summary(gaps):+.1f} points{rest}",
        )
    for d in ranks_of(done):
        gaps = by_set(done, d, lambda r: r["auto"]["log"] - r["worth"][FIXED]["log"])
        rests = _resting(names, gaps)
        rest = f"; without the set {rests[0]} {_logs(rests[1])}" if rests else ""
        yield Claim(
            f"The same, {RANKS[d]}, by the held-out log-probability of the right class",
            "answer",
            f"{_logs(Summary(gaps))}{rest}",
        )
    rivals = [words for words in CRITERIA if words != RULE]
    worth = {
        words: np.mean([gap.mean for gap in _gaps(done, words, AUTO).values()]) for words in rivals
    }
    best = max(rivals, key=worth.__getitem__)
    gaps = _gaps(done, best, AUTO)
    better = "yes" if any(clear(gap) and gap.mean > 0 for gap in gaps.values()) else "no"
    yield Claim(
        f'Is there a better way to choose it? The best of {len(rivals)} other rules, "{best}"',
        "answer",
        f"{better} ({both(gaps)})",
    )
    best_fixed = [f"{_best_fixed(done, d):g} at {RANKS[d]}" for d in ranks_of(done)]
    of_sets = _best_of_sets(done)
    yield Claim(
        "Which fixed penalty is the best on average over the sets?",
        "answer",
        f"{', '.join(best_fixed)}; single sets {min(of_sets):g} to {max(of_sets):g}",
    )
