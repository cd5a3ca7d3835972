"""What the comparison of backgrounds says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import Summary

#: sets with classes of few rows or constant columns, and wine, without
SETS = (("yeast", 8), ("glass", 9), ("ecoli", 7), ("wine", 13), ("ionosphere", 33))

#: share of the background, and further rows in units of d + 1; 0 rows leave the ridge of 1e-6
FITS: dict[str, tuple[str, float]] = {
    "no shrinkage": ("count", 0.0),
    "(d + 1) / 3 rows": ("count", 1 / 3),
    "d + 1 rows": ("count", 1.0),
    "3 (d + 1) rows": ("count", 3.0),
    "d + 1 rows, EM": ("em", 1.0),
    "d + 1 rows, gradient": ("gradient", 1.0),
}
CHOSEN, BEFORE = "d + 1 rows", "no shrinkage"
OBJECTIVES = ("accuracy", "log")
MOST = 400  # rows of a set


def parts(done: list[Done]) -> dict[str, Any]:
    """Tables by objective, and each fit's gain over the one without shrinkage."""
    tables = [
        f"## Objective: {objective}\n\n{_table(done, objective)}" for objective in _objectives(done)
    ]
    return {
        "finding": _finding(done),
        "tables": "\n\n".join(tables),
        "shares": _shares(done),
        "em": _em(done),
        "splits": len({each.job["split"] for each in done}),
        "most": MOST,
    }


def _objectives(done: list[Done]) -> list[str]:
    return [o for o in OBJECTIVES if any(each.job["objective"] == o for each in done)]


def _values(done: list[Done], objective: str, name: str, fit: str, rule: str = "NCA") -> Any:
    """Of a set, split by split."""
    here = [e for e in done if (e.job["objective"], e.job["data"]) == (objective, name)]
    return np.array([e.result[fit][rule] for e in sorted(here, key=lambda e: e.job["split"])])


def _gain(
    done: list[Done], objective: str, fit: str, other: str = BEFORE, rule: str = "NCA"
) -> Summary:
    """Mean difference of two fits over the sets, and its standard error over them."""
    return Summary(list(_gains(done, objective, fit, other, rule).values()))


def _gains(
    done: list[Done], objective: str, fit: str, other: str, rule: str = "NCA"
) -> dict[str, float]:
    """The same set by set."""
    found = {}
    for name, _ in SETS:
        one = _values(done, objective, name, fit, rule)
        if len(one):
            found[name] = float(np.mean(one - _values(done, objective, name, other, rule)))
    return found


def _clear(gain: Summary) -> bool:
    return abs(gain.mean) > 2.0 * gain.error > 0.0


def _table(done: list[Done], objective: str) -> str:
    rows: list[list[Any]] = []
    for name, d in SETS:
        if len(_values(done, objective, name, BEFORE)):
            cells = [f"{Summary(_values(done, objective, name, fit)):.1f}" for fit in FITS]
            rows.append([f"{name}, d = {d}", *cells])
    for rule in ("NCA", "1-NN"):
        gains = {fit: _gain(done, objective, fit, rule=rule) for fit in FITS}
        words = ["" if fit == BEFORE else f"{gain:+.1f}" for fit, gain in gains.items()]
        rows.append([f"**{rule}, to {BEFORE}**", *words])
    return table(["", *FITS], rows)


def _finding(done: list[Done]) -> str:
    """What shrinkage is worth, and whether another fit is clearly better than the chosen one."""
    told = []
    for objective in _objectives(done):
        gains = _gains(done, objective, CHOSEN, BEFORE)
        gain = Summary(list(gains.values()))
        word = "" if _clear(gain) else ", not clear"
        line = f"{objective} objective: {gain:+.1f}{word}"
        if len(gains) > 2:
            most = max(gains, key=lambda name: gains[name] * np.sign(gain.mean))
            rest = Summary([gains[name] for name in gains if name != most])
            line += f"; the mean rests most on {most}, without which it is {rest:+.1f}"
        told.append(f"{line}.")
    better = [
        f"{fit} under the {objective} objective ({gain:+.1f})"
        for objective in _objectives(done)
        for fit in FITS
        if fit not in (BEFORE, CHOSEN)
        and (gain := _gain(done, objective, fit, CHOSEN)).mean > 2.0 * gain.error > 0
    ]
    return (
        "What is it worth to shrink the covariances of the classes by d + 1 rows? In points of "
        "accuracy of the NCA rule, mean over the sets ± its standard error over them (*not clear* "
        f"is below two of these errors):\n\n{bullets(*told)}\n\n"
        f"{', '.join(better) or 'No other fit'} is better than d + 1 rows by more than two errors."
    )


def _em(done: list[Done]) -> str:
    """How large a share EM gives the background, and what is then left of the kernel."""
    shares = [
        float(np.mean([each.result["d + 1 rows, EM"]["share"] for each in here]))
        for name, _ in SETS
        if (here := [each for each in done if each.job["data"] == name])
    ]
    if not shares:
        return ""
    low, high = min(shares), max(shares)
    words = f"{100 * low:.0f} to {100 * high:.0f} %" if len(shares) > 1 else f"{100 * low:.0f} %"
    text = f"EM gives the background {words} of the density of a class, by set"
    if low > 0.8:
        text += ": the model is then nearly one normal distribution per class"
    elif low > 0.5:
        text += ": the normal distribution then outweighs the kernel"
    return f"{text}."


def _shares(done: list[Done]) -> str:
    fits = (CHOSEN, "d + 1 rows, EM", "d + 1 rows, gradient")
    rows = []
    for name, d in SETS:
        here = [each.result for each in done if each.job["data"] == name]
        if here:
            cells = [f"{np.mean([result[fit]['share'] for result in here]):.2f}" for fit in fits]
            rows.append([f"{name}, d = {d}", *cells])
    return table(["mean share of the background", "1 / (N_c + 1)", "EM", "gradient"], rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index."""
    asked = {
        "Is it worth shrinking the covariance of a class's background?": (CHOSEN, BEFORE),
        "Is it worth learning the share of the background by EM?": ("d + 1 rows, EM", CHOSEN),
        "Is it worth learning the share of the background by its gradient?": (
            "d + 1 rows, gradient",
            CHOSEN,
        ),
    }
    for says, (one, other) in asked.items():
        gains = {o: _gain(done, o, one, other) for o in _objectives(done)}
        none = len(gains) > 1 and not any(map(_clear, gains.values()))
        words = ", ".join(
            f"{o} {gain:+.1f}{'' if none or _clear(gain) else ' (not clear)'}"
            for o, gain in gains.items()
        )
        yield Claim(says, "answer", f"objective: {words} points{'; not clear' * none}")
