"""Columns with one trouble in skrub and in make_learner: ``python benchmarks/skrub_tables.py``.

skrub (`pip install skrub`) once with defaults and once with all options that leave columns out.
Prints markdown; ``--output`` also writes it to results/skrub_tables.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import plotly.data
from _common import add_output, facts, read_options, table, write
from sklearn.impute import SimpleImputer
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from skrub import TableVectorizer

from vicinal import NCA, make_learner
from vicinal.learner.preparation import columns_used

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from common.troubles import TROUBLES, N, frames

U = np.random.RandomState(0).normal(size=N)
Y = np.where(U > 0, "high", "low")


DROPPING = {"drop_if_constant": True, "drop_if_unique": True}


def by_skrub(X: Any, use: str, **options: Any) -> tuple[str, bool]:
    """What becomes of the column, and whether it is used as it should be."""
    try:
        made = TableVectorizer(**options).fit_transform(X).drop(columns="u")
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:60]}", False
    names = list(made.columns)
    if not names:
        return "left out", use not in ("numbers", "gaps", "dates", "categories", "codes")
    if names == ["c"]:
        if np.isinf(made.to_numpy()).any():
            return "a number, with inf", False
        gaps = ", with NaN" if made.isna().any().any() else ""
        return f"a number{gaps}", use in ("numbers", "gaps")
    if any(name.endswith("total_seconds") for name in names):
        return f"{len(names)} parts of a date", use == "dates"
    if names[0] == "c_00" or names[0] == "c_0":
        return f"{len(names)} numbers of its letters", False
    return f"{len(names)} zeros and ones", use in ("categories", "codes")


def by_vicinal(X: Any) -> tuple[str, str]:
    """What becomes of the column, and what is said."""
    with warnings.catch_warnings(action="ignore"):
        model = make_learner(X, Y, "lfda").fit(X, Y)
    kind = [kind for kind, names in columns_used(model).items() if "c" in names]
    return kind[0] if kind else "left out", " ".join(model.notes_).replace("Column 'c': ", "")


def troubles() -> str:
    rows, understood = [], np.zeros(2, int)
    for name, (values, _, use) in TROUBLES.items():
        X = frames(values)["pandas"].assign(u=U)
        found = [by_skrub(X, use, **options) for options in ({}, DROPPING)]
        understood += [right for _, right in found]
        rows.append([name, *(words if right else f"**{words}**" for words, right in found),
                     *by_vicinal(X)])  # fmt: skip
    header = ["trouble", "skrub", "skrub, dropping", "vicinal", "vicinal says"]
    n, dropping = understood
    note = (
        f"skrub uses {n} of {len(rows)} columns as expected, with the options {dropping}; the "
        "others are bold. It tells of none. vicinal uses all as expected, which is tested "
        "(tests/learner/test_troubles.py)."
    )
    return table(header, rows, [note])


def accuracy() -> str:
    """NCA after either preparation, on tables with categories."""
    tips, gapminder = plotly.data.tips(), plotly.data.gapminder()
    tasks = [("tips", tips, label) for label in ("time", "day", "smoker", "sex")]
    tasks.append(("gapminder", gapminder.drop(columns=["iso_alpha", "iso_num"]), "continent"))
    rows, folds = [], RepeatedStratifiedKFold(n_splits=5, n_repeats=1, random_state=0)
    for name, frame, label in tasks:
        X, y = frame.drop(columns=label), frame[label].to_numpy(object)
        with warnings.catch_warnings(action="ignore"):
            ours = make_learner(X, y, random_state=0)
            every = make_learner(X, y, random_state=0, max_categories=None)
            theirs = make_pipeline(TableVectorizer(), SimpleImputer(), NCA(random_state=0))
            scores = [100 * cross_val_score(m, X, y, cv=folds) for m in (theirs, ours, every)]
        gain = scores[1] - scores[0]
        error = gain.std(ddof=1) * np.sqrt(1 / len(gain) + 1 / 4)
        rows.append([f"{name}, {label}", *(f"{s.mean():.1f}" for s in scores),
                     f"{gain.mean():+.1f} ± {error:.1f}"])  # fmt: skip
    header = [
        "table", "NCA after skrub, %", "NCA in make_learner, %", "with max_categories=None, %",
        "make_learner, compared with skrub",
    ]  # fmt: skip
    return table(header, rows)


DECISION = """## Why make_learner does not use skrub

skrub misreads many of the columns above, and says nothing about any column; what it leaves
out, and why, would have to be found out separately. Numbers as people write them, units, codes
with zeros in front, words for missing values, copies and row numbers would need code of our
own before it, and a loaded model would need either skrub or our own copy of its encoders. Two
ways to read a table, one of them optional, would be worse than one. What skrub does better is
a category of many values that decides the label, as the 142 countries of gapminder do: it
encodes their letters in 30 columns, where make_learner keeps the 30 most frequent values.
There `max_categories=None` gives each value a column of its own.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_output(parser, "skrub_tables")
    options = read_options(parser)
    report = "\n\n".join(
        [
            "# Columns with one trouble, in skrub and in make_learner",
            f"{facts()}\n- skrub {version('skrub')}: `TableVectorizer()`, and with "
            "`drop_if_constant=True, drop_if_unique=True`",
            "Each row is a table of 40 rows with one such column (tests/common/troubles.py).",
            troubles(),
            "## Accuracy of what is learnt",
            accuracy(),
            DECISION,
        ]
    )
    print(report)
    write(report, options.output)


if __name__ == "__main__":
    main()
