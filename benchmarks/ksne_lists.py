"""The lists of kSNE: how long they must be, and the time of their weights and marginals.

    python benchmarks/ksne_lists.py            # a minute of a core
    python benchmarks/ksne_lists.py --quick    # seconds, synthetic data
    python benchmarks/ksne_lists.py --output   # writes results/ksne_lists.md too

Rows are drawn from usps and mnist in their first 50 principal components; the perplexity is 30.
Prints markdown.  Times are those of the processor, over all threads: what else the machine does
matters less to them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import add_output, blobs, facts, progress, read_options, seconds, table, write
from sklearn.decomposition import PCA

from vicinal import datasets
from vicinal.affinities import affinities
from vicinal.affinities.calibration import Lists, calibrate, choose_sets

PERPLEXITY = 30.0
KS, SHARES = (1, 5, 15), (0.05, 0.02, 0.01)
NOTES = [
    "the shortest: lists of three times the perplexity and 2k members, which are made where "
    "`max_missing` allows it; what they leave out of the marginals is measured on 128 rows",
    "for 5 %, 2 %, 1 %: the length of the lists with that `max_missing`",
]


def clock(function: Callable[[], Any]) -> float:
    """Seconds of the processor that a call takes."""
    began = time.process_time()
    function()
    return time.process_time() - began


def rows_of(name: str, n: int) -> Any:
    """Some rows of a data set in its first 50 principal components."""
    X = np.asarray(datasets.load(name, return_X_y=True)[0], np.float32)
    X = PCA(50, svd_solver="randomized", random_state=0).fit_transform(X)
    return X[np.random.default_rng(0).permutation(len(X))[:n]].astype(np.float64)


def lengths(name: str, X: Any) -> list[list[str]]:
    """A line for each k."""
    found = []
    for k in KS:
        shortest = affinities(X, PERPLEXITY, k, max_missing=0.5)
        line = [
            name,
            f"{len(X):,}",
            str(k),
            str(_length(shortest)),
            f"{100 * shortest.missing:.1f} %",
        ]
        for share in SHARES:
            line.append(str(_length(affinities(X, PERPLEXITY, k, max_missing=share))))
        found.append(line)
        progress(" | ".join(line))
    return found


def _length(target: Any) -> int:
    return int(np.diff(target.indptr).max())


def time_of_lists(n: int, length: int, k: int, repeats: int = 5) -> str:
    """The least time of the weights and of the marginals of given lists."""
    rng = np.random.default_rng(0)
    distances = np.sort(rng.chisquare(10, (n, length)), axis=1).ravel()
    indptr = np.arange(n + 1, dtype=np.int64) * length
    weights, marginals = [], []
    for _ in range(repeats):
        lists = Lists(indptr, np.zeros(0, np.int32), distances.copy())
        weights.append(clock(lambda: calibrate(lists, PERPLEXITY, compiled=True)))  # noqa: B023
        marginals.append(clock(lambda: choose_sets(lists, k, compiled=True)))  # noqa: B023
    return (
        f"{n:,} lists of {length} with k = {k}: {seconds(min(weights))} for the weights, "
        f"{seconds(min(marginals))} for the marginals, the least of {repeats}."
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="synthetic data, seconds")
    add_output(parser, "ksne_lists")
    options = read_options(parser, arguments)
    about = facts()
    if options.quick:
        found, times = lengths("blobs", blobs(1000)[0]), time_of_lists(1000, 90, 5)
    else:
        found = []
        for name in ("usps", "mnist"):
            found += lengths(name, rows_of(name, 10_000))
        times = time_of_lists(60_000, 90, 5)
    header = [
        "data",
        "N",
        "k",
        "the shortest",
        "leave out",
        *(f"for {100 * s:g} %" for s in SHARES),
    ]
    report = "\n\n".join(["# Lists of kSNE", about, table(header, found, NOTES), times])
    write(report, options.output)
    print(report)


if __name__ == "__main__":
    main()
