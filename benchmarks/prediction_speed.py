"""How long prediction takes against the fit, in CPU seconds of all threads together.

    python benchmarks/prediction_speed.py [--rows 60000] [--queries 20000]
    python benchmarks/prediction_speed.py --output    # also benchmarks/results/prediction_speed.md

NCA with defaults, on ``make_classification`` with 30 columns, 12 of them informative, 5 classes;
new rows are predicted by the posterior and by votes.  "all pairs" is the posterior of all pairs in
float64, and the votes by scikit-learn's search, of a part of the new rows, scaled up.  "error" is
the largest difference of the class probabilities.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from _common import add_output, facts, progress, read_options, table, write
from sklearn.datasets import make_classification

from vicinal import NCA
from vicinal.engines.cpu import class_sums_near
from vicinal.models import stored

PART = 2000  # new rows for which all pairs are computed


def seconds(function):
    """CPU seconds of all threads, and the result."""
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def all_pairs(model, X):
    """Seconds and probabilities without what makes many predictions fast."""
    before = class_sums_near._POINTS_FROM, stored._OWN_SEARCH_FROM
    class_sums_near._POINTS_FROM = stored._OWN_SEARCH_FROM = np.inf
    try:
        model.predict_proba(X[:10])
        return seconds(lambda: model.predict_proba(X))
    finally:
        class_sums_near._POINTS_FROM, stored._OWN_SEARCH_FROM = before


def lines(X, y, new):
    """A line for each number of dimensions and rule."""
    found = []
    for d in (2, 5, 30):
        model = NCA(n_components=d, n_neighbors=5, random_state=0)
        fit, _ = seconds(lambda model=model: model.fit(X, y))
        for rule in ("posterior", "knn"):
            model.set_params(rule=rule)
            model.predict_proba(new[:1500])  # compiles
            now, P = seconds(lambda model=model: model.predict_proba(new))
            part, exact = all_pairs(model, new[:PART])
            few = len(exact)
            found.append(
                [str(d), f"{fit:.1f}", rule, f"{part * len(new) / few:.1f}", f"{now:.1f}",
                 f"{now / fit:.2f}", f"{np.abs(P[:few] - exact).max():.1e}"]
            )  # fmt: skip
            progress(" | ".join(found[-1]))
    return found


def main() -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--queries", type=int, default=20_000)
    add_output(parser, "prediction_speed")
    options = read_options(parser)
    about = facts()
    warnings.simplefilter("ignore")
    X, y = make_classification(
        options.rows + options.queries, 30, n_informative=12, n_redundant=0, n_classes=5,
        random_state=0,
    )  # fmt: skip
    X, y, new = X[: options.rows], y[: options.rows], X[options.rows :]
    NCA(n_components=3, random_state=0, max_iter=2).fit(X[:5000], y[:5000])  # compiles
    header = ["dimensions", "fit", "rule", "all pairs", "now", "now / fit", "error"]
    notes = [
        f"`NCA` with defaults on {options.rows:,} rows, {options.queries:,} new rows predicted; "
        "`make_classification` with 30 columns, 12 of them informative, 5 classes; CPU seconds "
        "of all threads together",
        f"all pairs: the posterior of all pairs in float64, votes by scikit-learn's search, of "
        f"{PART:,} new rows, scaled up; error: the largest difference of the probabilities",
    ]
    text = "\n\n".join(
        ["# Prediction against the fit", about, table(header, lines(X, y, new), notes)]
    )
    print(text)
    write(text, options.output)


if __name__ == "__main__":
    main()
