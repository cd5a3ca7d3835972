"""What the comparison of regressors says: tables, sentences and answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import TESTED, Summary
from reproduce.own.regression_tables import REAL, TABLES

#: columns of the tables, in order
METHODS = {
    "k-NN": "k-NN",
    "ridge": "ridge",
    "forest": "random forest",
    "MLKR": "`MLKR()`",
    "MLKR k-NN": "`MLKR()`, then k-NN",
    "NCA": "`NCARegressor()`",
    "NCA hard": '`NCARegressor(matching="hard")`',
}
PEERS, OURS = ("k-NN", "ridge", "forest"), ("MLKR", "MLKR k-NN", "NCA", "NCA hard")
SPLITS, FOLDS = 10, 5
NEIGHBOURS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 30)
RIDGES = np.logspace(-3, 4, 15)
SHARES = (1.0, 0.33)  # of the columns that a split of a tree may use
_CLEAR = 2.0  # corrected errors of a clear difference


def _scores(done: list[Done], name: str, method: str, measure: str) -> Any:
    key = f"{method} {measure}"
    return np.array([each.result[key] for each in done if each.job["data"] == name])


def _gap(done: list[Done], name: str, one: str, other: str) -> Summary:
    """By how much one R² is ahead of another on a table, in points."""
    gaps = _scores(done, name, one, "R2") - _scores(done, name, other, "R2")
    return Summary(gaps, TESTED)


def parts(done: list[Done]) -> dict[str, Any]:
    """Both tables, and the sentences about them."""
    names = [name for name in TABLES if any(each.job["data"] == name for each in done)]
    ahead = {peer: {name: _gap(done, name, "MLKR", peer) for name in names} for peer in PEERS}
    clear = {
        peer: [name for name, gap in gaps.items() if gap.mean > _CLEAR * gap.error]
        for peer, gaps in ahead.items()
    }
    behind = {
        peer: [name for name, gap in gaps.items() if gap.mean < -_CLEAR * gap.error]
        for peer, gaps in ahead.items()
    }
    return {
        "finding": "; ".join(
            f"than {METHODS[peer]} on {len(clear[peer])} of {len(names)} tables"
            + (f" (behind by as much on {_listed(behind[peer])})" if behind[peer] else "")
            for peer in PEERS
        ),
        "r2": _table(done, names, "R2"),
        "rmse": _table(done, names, "RMSE"),
        "tables": _described(done, names),
        "n_splits": len({each.job["split"] for each in done}),
        "folds": FOLDS,
        "clear": f"{_CLEAR:g}",
        "notes": _notes(done, names),
        "neighbours": ", ".join(map(str, NEIGHBOURS)),
        "ridges": f"{len(RIDGES)} penalties from {RIDGES[0]:g} to {RIDGES[-1]:g}",
        "shares": " or ".join(f"{share:g}" for share in SHARES),
    }


def _table(done: list[Done], names: list[str], measure: str) -> str:
    """A row for each table: means and standard errors, the best in bold."""
    rows: list[list[str]] = []
    for name in names:
        found = {method: _scores(done, name, method, measure) for method in METHODS}
        means = {method: values.mean() for method, values in found.items()}
        best = max(means, key=means.__getitem__) if measure == "R2" else min(means, key=means.get)
        cells = {method: _cell(values, measure) for method, values in found.items()}
        cells[best] = f"**{cells[best]}**"
        rows.append([name, *cells.values()])
        if measure == "R2":
            gap = Summary(found["MLKR"] - found["k-NN"], TESTED)
            rows[-1].append(f"{gap:+.1f}")
    titles = ["table", *METHODS.values()]
    if measure != "R2":
        return table(titles, rows)
    per_split = {
        method: np.mean([_scores(done, name, method, measure) for name in names], axis=0)
        for method in METHODS
    }
    gap = Summary(per_split["MLKR"] - per_split["k-NN"], TESTED)
    mean = [_cell(values, measure) for values in per_split.values()]
    rows.append(["**mean**", *mean, f"{gap:+.1f}"])
    return table([*titles, "`MLKR()` − k-NN"], rows)


def _cell(values: Any, measure: str) -> str:
    if measure == "R2":
        return f"{Summary(values):.1f}"
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    digits = max(0, 2 - int(np.floor(np.log10(values.mean()))))
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def _described(done: list[Done], names: list[str]) -> str:
    """What each table holds."""
    lines = []
    for name in names:
        size = next(each.result for each in done if each.job["data"] == name)
        what = REAL[name][1] if name in REAL else "made up, `make_" + name + "` of scikit-learn"
        lines.append(f"{name}: {size['rows']} rows, {size['columns']} columns; {what}")
    return bullets(*lines)


def _notes(done: list[Done], names: list[str]) -> str:
    """Sentences about penalties, times, and the other estimators."""
    chosen = []
    for name in names:
        values = [d.result["penalty of MLKR"] for d in done if d.job["data"] == name]
        chosen.append(f"{name} {np.median(values):g}")
    lines = [f"The penalty that `MLKR()` chose, in the median: {', '.join(chosen)}."]
    pairs = (("MLKR k-NN", "MLKR"), ("NCA", "MLKR"), ("NCA hard", "NCA"), ("NCA", "k-NN"))
    for one, other in pairs:
        gaps = [
            np.mean(_scores(done, name, one, "R2") - _scores(done, name, other, "R2"))
            for name in names
        ]
        gap = Summary(gaps)
        lines.append(
            f"{METHODS[one]} against {METHODS[other]}: {gap:+.1f} points of R² on average over the "
            f"tables (± over the tables)."
        )
    spent = {
        who: np.mean([d.result[f"cpu of {who}"] for d in done]) for who in ("MLKR", "NCARegressor")
    }
    lines.append(
        f"A fit with its search for a penalty took {spent['MLKR']:.1f} s of a core (`MLKR()`) and "
        f"{spent['NCARegressor']:.1f} s (`NCARegressor()`) on average."
    )
    return bullets(*lines)


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index."""
    names = [name for name in TABLES if any(each.job["data"] == name for each in done)]
    for peer in PEERS:
        gaps = [_gap(done, name, "MLKR", peer) for name in names]
        ahead = sum(gap.mean > _CLEAR * gap.error > 0 for gap in gaps)
        behind = sum(-gap.mean > _CLEAR * gap.error > 0 for gap in gaps)
        mean = Summary([gap.mean / 100 for gap in gaps])
        yield Claim(
            f"R² of MLKR() − that of {METHODS[peer]}, test rows of {len(names)} tables",
            "answer",
            f"{mean:+.1f} points over the tables; clearly ahead on {ahead}, behind on {behind}",
        )
    gaps = [
        np.mean(_scores(done, name, "NCA", "R2") - _scores(done, name, "MLKR", "R2"))
        for name in names
    ]
    yield Claim("R² of NCARegressor() − that of MLKR()", "answer", f"{Summary(gaps):+.1f} points")
