"""What the comparison of backgrounds says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
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
    gaps = []
    for name, _ in SETS:
        one = _values(done, objective, name, fit, rule)
        if len(one):
            gaps.append(np.mean(one - _values(done, objective, name, other, rule)))
    return Summary(gaps)


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
    told = [f"{_gain(done, o, CHOSEN):+.1f} under the {o} objective" for o in _objectives(done)]
    better = [
        f"{fit} under the {objective} objective ({gain:+.1f})"
        for objective in _objectives(done)
        for fit in FITS
        if fit not in (BEFORE, CHOSEN)
        and (gain := _gain(done, objective, fit, CHOSEN)).mean > 2.0 * gain.error > 0
    ]
    return (
        "**Shrinking the covariances of the classes by d + 1 rows is worth, in points of accuracy "
        f"of the NCA rule on the mean over the sets: {', '.join(told)}. Better than that by more "
        f"than two standard errors: {', '.join(better) or 'none of the other fits'}.**"
    )


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
        "The same by its gradient": ("d + 1 rows, gradient", CHOSEN),
    }
    for says, (one, other) in asked.items():
        gains = [f"{o} objective {_gain(done, o, one, other):+.1f}" for o in _objectives(done)]
        yield Claim(says, "answer", f"{', '.join(gains)} points")
