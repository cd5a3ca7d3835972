"""How long prediction takes beside the fit, in CPU seconds of all threads together.

``python benchmarks/prediction_speed.py [--rows 150000] [--queries 50000]``

NCA as it comes, on ``make_classification`` with 30 columns, 12 of them informative, and 5 classes;
new rows are predicted by the posterior and by votes.  "all pairs" is the posterior of all pairs in
float64, and the votes by scikit-learn's search, of a part of the new rows, scaled up.  "error" is
the largest difference of the class probabilities.

Printed on 2 cores of an Intel Xeon at 2.8 GHz that other work kept busy:

| dimensions | fit | rule | all pairs | now | now / fit | error |
| --- | --- | --- | --- | --- | --- | --- |
| 2 | 5.6 | posterior | 12.8 | 6.4 | 1.15 | 2.2e-07 |
| 2 | 5.6 | knn | 0.3 | 0.2 | 0.03 | 0.0e+00 |
| 5 | 7.3 | posterior | 21.1 | 12.1 | 1.66 | 2.0e-07 |
| 5 | 7.3 | knn | 2.4 | 1.4 | 0.19 | 0.0e+00 |
| 30 | 24.3 | posterior | 47.8 | 31.2 | 1.28 | 2.8e-07 |
| 30 | 24.3 | knn | 52.2 | 22.1 | 0.91 | 0.0e+00 |
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--queries", type=int, default=50_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = make_classification(
        options.rows + options.queries,
        30,
        n_informative=12,
        n_redundant=0,
        n_classes=5,
        random_state=0,
    )
    X, y, new = X[: options.rows], y[: options.rows], X[options.rows :]
    NCA(n_components=3, random_state=0, max_iter=2).fit(X[:5000], y[:5000])  # compiles
    print(f"{options.queries} new rows against {options.rows}")
    print("| dimensions | fit | rule | all pairs | now | now / fit | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for d in (2, 5, 30):
        model = NCA(n_components=d, n_neighbors=5, random_state=0)
        fit, _ = seconds(lambda model=model: model.fit(X, y))
        for rule in ("posterior", "knn"):
            model.set_params(rule=rule)
            model.predict_proba(new[:1500])  # compiles
            now, P = seconds(lambda model=model: model.predict_proba(new))
            part, exact = all_pairs(model, new[:PART])
            print(
                f"| {d} | {fit:.1f} | {rule} | {part * len(new) / PART:.1f} | {now:.1f} "
                f"| {now / fit:.2f} | {np.abs(P[:PART] - exact).max():.1e} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
