"""What an evaluation of soft matches and of MLKR costs against one of NCA.

    python benchmarks/match_speed.py            # a minute of a core
    python benchmarks/match_speed.py --quick    # seconds
    python benchmarks/match_speed.py --output   # writes results/match_speed.md too

Value and gradient at random points, all rows as queries and references.  Times are those of the
processor: what else the machine does matters less to them.  Prints markdown.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from _common import add_output, facts, progress, ratio, read_options, table, write

from vicinal.engines.choose import DENSE_UP_TO
from vicinal.neighborhoods import Nearest
from vicinal.objectives import MatchLoss, MLKRLoss, NCALoss
from vicinal.targets import LabelDistributions, Labels, Matches, NearNumbers, Numbers

HEADER = ["loss", "pairs", "d", "float32", "against NCA", "float64", "against NCA"]
NOTES = [
    "N rows of standard normal points of mean squared distance 8; the least of the repeats, in "
    "turns; nanoseconds of one thread for a pair of a query and a reference",
    "labels: 10 classes; distributions: Dirichlet(0.3) over 10 classes; matrix: 10 random matches "
    "of each row; near, hard: one number, a width of 0.3 of its deviation",
    "NCA computes a pair once for both of its rows, the others once for each",
    "nearest: lists of 100",
]
MEMORY = ["loss", "bytes of a pair, small data", "bytes of a row, larger data"]
MEMORY_NOTES = [
    f"peak of an evaluation beyond its input: at {DENSE_UP_TO} rows, where NumPy makes whole "
    "arrays of pairs, and at 3,000 rows, all pairs, float64, 10 dimensions"
]


def cases(n: int) -> dict[str, tuple[Any, Any]]:
    """The losses, each with a target of n rows."""
    rng = np.random.default_rng(0)
    y, number = rng.integers(0, 10, n), rng.standard_normal((n, 5))
    row = np.repeat(np.arange(n), 10)
    M = sp.coo_array((np.full(10 * n, 0.1), (row, rng.integers(0, n, 10 * n))), (n, n))
    return {
        "NCA": (NCALoss(), Labels(y)),
        "distributions": (MatchLoss(), LabelDistributions(rng.dirichlet(np.full(10, 0.3), n))),
        "matrix": (MatchLoss(), Matches(M)),
        "near numbers": (MatchLoss(), NearNumbers(number[:, 0], 0.3)),
        "hard numbers": (MatchLoss(), NearNumbers(number[:, 0], 0.3, hard=True)),
        "MLKR": (MLKRLoss(), Numbers(number[:, 0])),
        "MLKR, 5 outputs": (MLKRLoss(), Numbers(number)),
    }


def points(n: int, d: int, dtype: Any) -> Any:
    """Points at a state of learning where some pairs matter and others do not."""
    Z = np.random.default_rng(1).standard_normal((n, d)) * np.sqrt(4.0 / d)
    return Z.astype(dtype)


def nanoseconds(n: int, d: int, dtype: Any, listed: bool, repeats: int) -> dict[str, float]:
    """Time of a pair for each loss."""
    Z, todo = points(n, d, dtype), cases(n)
    pairs = Nearest(100).pairs(Z, np.zeros(n, dtype=int)) if listed else None
    visited = n * n if pairs is None else len(pairs.indices)
    best = dict.fromkeys(todo, np.inf)
    for _ in range(repeats + 1):  # the first compiles
        for name, (loss, target) in todo.items():
            began = time.process_time()
            loss(Z, target, pairs=pairs)
            best[name] = min(best[name], time.process_time() - began)
    return {name: 1e9 * taken / visited for name, taken in best.items()}


def speed(n: int, dimensions: tuple[int, ...], repeats: int) -> list[list[str]]:
    """The lines of the table of times."""
    lines = []
    for listed, d in [(False, d) for d in dimensions] + [(True, 10)]:
        single, double = (
            nanoseconds(n, d, dtype, listed, repeats) for dtype in (np.float32, np.float64)
        )
        for name in single:
            times = [f"{single[name]:.2f} ns", ratio(single[name], single["NCA"]),
                     f"{double[name]:.2f} ns", ratio(double[name], double["NCA"])]  # fmt: skip
            lines.append([name, "nearest" if listed else "all", str(d), *times])
            progress(" | ".join(lines[-1]))
    return lines


def peak(evaluate: Callable[[], Any]) -> int:
    """Bytes that an evaluation takes at most, beyond what is there before."""
    evaluate()
    tracemalloc.start()
    evaluate()
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return taken


def memory() -> list[list[str]]:
    """The lines of the table of memory."""
    lines = []
    for name, (small, target) in cases(DENSE_UP_TO).items():
        Z = points(DENSE_UP_TO, 10, np.float64)
        few = peak(lambda: small(Z, target)) / DENSE_UP_TO**2  # noqa: B023
        large, more = cases(3000)[name]
        Z = points(3000, 10, np.float64)
        many = peak(lambda: large(Z, more)) / 3000  # noqa: B023
        lines.append([name, f"{few:.0f}", f"{many:.0f}"])
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, seconds")
    add_output(parser, "match_speed")
    options = read_options(parser, arguments)
    about = facts()
    n, dimensions, repeats = (600, (3,), 1) if options.quick else (3000, (2, 10, 60), 3)
    notes = [NOTES[0].replace("N rows", f"{n:,} rows"), *NOTES[1:]]
    report = "\n\n".join(
        [
            "# Soft matches and MLKR against NCA",
            about,
            table(HEADER, speed(n, dimensions, repeats), notes),
            table(MEMORY, memory(), MEMORY_NOTES),
        ]
    )
    write(report, options.output)
    print(report)


if __name__ == "__main__":
    main()
