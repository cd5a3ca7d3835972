"""Few queries against many references: range search and trees against all pairs.

    python benchmarks/nca_few_queries.py            # a minute of a core
    python benchmarks/nca_few_queries.py --quick    # seconds, synthetic data
    python benchmarks/nca_few_queries.py --output   # writes results/nca_few_queries.md too

The setting of Oneață's thesis: 50 queries a step against all training rows of usps, magic and
landsat.  Points are the rows projected by RCA, within-class covariance the identity, times a scale
of 1, as at the start of learning, or of 3, as later.  Prints markdown.  Times are those of the
processor: what else the machine does matters less to them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import add_output, facts, progress, ratio, read_options, seconds, table, write

from vicinal import RCA, datasets
from vicinal.densities import Compact
from vicinal.engines.cpu.ranges import make_index
from vicinal.neighborhoods import Tree
from vicinal.objectives import NCALoss
from vicinal.targets import Labels

QUERIES = 50
HEADER = ["data", "N", "d", "scale", "kernel", "pairs", "visited", "in an evaluation", "gain",
          "to make", "chosen"]  # fmt: skip
NOTES = [
    f"value and gradient of {QUERIES} queries against N references, float32, without embedding; "
    "the least of the repeats, in turns",
    "visited: the share of all pairs whose distance is computed; gain: against all pairs",
    "range: the references in order along a k-d tree, which is made once a pass; a query visits "
    "the chunks of 64 whose bounding boxes it reaches",
    "range, stale: the same with an order from another map, 30 % away in the norm; the boxes are "
    "computed again in each evaluation, so that the sums are exact all the same",
    "tree: `Tree(0.01, always=True)`, built in every evaluation; to make: the seconds of the "
    "order, once a pass",
    "chosen: what a fit with `StochasticQueries` takes",
]


def rows_of(name: str, n: int | None) -> tuple[Any, Any]:
    """Standardised rows, and class codes."""
    if name == "blobs":
        rng = np.random.default_rng(0)
        y = rng.integers(0, 5, 2000)
        return rng.standard_normal((2000, 20)) + 2 * rng.standard_normal((5, 20))[y], y
    X, y = datasets.load(name, return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[: n or round(0.7 * len(y))]
    X = np.asarray(X, np.float64)[rows]
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    return X, np.unique(np.asarray(y)[rows], return_inverse=True)[1]


def clock(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor that a call takes, and what it returns."""
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def lines(
    name: str, n: int | None, d: int, scales: tuple[float, ...], repeats: int
) -> list[list[str]]:
    """The lines of one data set and dimension."""
    X, y = rows_of(name, n)
    rng = np.random.default_rng(0)
    A = RCA(n_components=d).fit(X, y).components_
    noise = rng.standard_normal(A.shape)
    other = A + 0.3 * np.linalg.norm(A) / np.linalg.norm(noise) * noise
    queries = np.sort(rng.permutation(len(y))[:QUERIES])
    labels, found = Labels(y), []
    for scale in scales:
        Z, elsewhere = ((scale * X @ B.T).astype(np.float32) for B in (A, other))
        compact, gaussian = NCALoss("accuracy", Compact(background=False)), NCALoss("accuracy")

        def evaluate(loss: Any, pairs: Any, Z: Any = Z) -> Any:
            return loss(Z, labels, queries=queries, pairs=pairs).facts

        def order(at: Any) -> Any:
            return make_index(at, y, np.arange(len(y)))

        made, fresh = clock(lambda: order(Z))  # noqa: B023
        chosen = compact.make_index(Z, labels, None, QUERIES)
        tree = Tree(0.01, always=True).pairs(Z, y)
        free = Tree(0.01).pairs(Z, y)
        ways = {
            ("compact", "all"): (compact, None, "" if chosen is not None else "yes"),
            ("compact", "range"): (compact, fresh, "yes" if chosen is not None else ""),
            ("compact", "range, stale"): (compact, order(elsewhere), ""),
            ("Gaussian", "all"): (gaussian, None, "yes"),
            ("Gaussian", "tree"): (gaussian, tree, ""),
        }
        times: dict[Any, list[float]] = {way: [] for way in ways}
        reports: dict[Any, Any] = {}
        for _ in range(repeats):
            for way, (loss, pairs, _) in ways.items():
                taken, reports[way] = clock(lambda: evaluate(loss, pairs))  # noqa: B023
                times[way].append(taken)
        if evaluate(gaussian, free)["engine"] == "tree":
            ways["Gaussian", "tree"] = (*ways["Gaussian", "tree"][:2], "with neighborhood='tree'")
        for (kernel, pairs), (_, _, taken_by) in ways.items():
            best, every = (min(times[kernel, p]) for p in (pairs, "all"))
            cost = seconds(made) if pairs == "range" else ""
            share = reports[kernel, pairs]["share_of_pairs"]
            found.append([name, f"{len(y):,}", str(d), f"{scale:g}", kernel, pairs,
                          f"{100 * share:.1f} %", seconds(best), ratio(every, best), cost,
                          taken_by])  # fmt: skip
            progress(" | ".join(found[-1]))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="synthetic data, seconds")
    add_output(parser, "nca_few_queries")
    options = read_options(parser, arguments)
    about = facts()
    lines("blobs", None, 5, (1.0,), 2)  # compile before anything is timed
    cases: list[tuple[str, int | None, int]] = [("blobs", None, 5)]
    if not options.quick:
        cases = [(name, None, 5) for name in ("usps", "magic", "landsat")]
        cases += [("magic", None, 2), ("magic", 1000, 5), ("magic", 3000, 5), ("usps", None, 15)]
    found: list[list[str]] = []
    for name, n, d in cases:
        found += lines(name, n, d, (1.0, 3.0), 3 if options.quick else 15)
        report = "\n\n".join(
            ["# Few queries against many references", about, table(HEADER, found, NOTES)]
        )
        write(report, options.output)  # at once: what is there is not lost
    print(report)


if __name__ == "__main__":
    main()
