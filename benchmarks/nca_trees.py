"""Sums by trees beside all pairs in tiles: share of pairs visited, time, error of the gradient.

    python benchmarks/nca_trees.py            # some two minutes on two cores
    python benchmarks/nca_trees.py --quick    # seconds, small data

Ten overlapping Gaussian classes of unit width, multiplied by the scale: the larger it is, the
fewer neighbours count, as late in learning.  Prints markdown.
"""

from __future__ import annotations

import argparse

import numpy as np
from _common import load_at_start, machine_facts, progress, ratio, seconds, table, take_turns

from vicinal._types import Bounded
from vicinal.objectives import nca


def points(n: int, d: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes of unit width, times the scale, in float32."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    Z = rng.standard_normal((n, d)) + rng.standard_normal((10, d))[y]
    return (scale * Z).astype(np.float32), y


def row(n: int, d: int, scale: float, n_queries: int | None, repeats: int) -> list[list[str]]:
    """Lines of the table, one for each tolerance."""
    Z, y = points(n, d, scale)
    queries = None if n_queries is None else np.random.default_rng(1).permutation(n)[:n_queries]
    exact = nca(Z, y, queries=queries)[1]
    lines = []
    for tolerance in (0.1, 0.01):
        report: dict[str, float] = {}
        pairs = Bounded(tolerance)
        dZ = nca(Z, y, queries=queries, pairs=pairs, report=report)[1]
        times = take_turns(
            {
                "tiles": lambda: nca(Z, y, queries=queries),
                "trees": lambda pairs=pairs: nca(Z, y, queries=queries, pairs=pairs),
            },
            repeats=repeats,
        )
        error = np.linalg.norm(dZ - exact) / np.linalg.norm(exact)
        lines.append(
            [
                f"{n_queries or n:,} × {n:,}", d, f"{scale:g}", f"{tolerance:g}",
                f"{100 * report['share_of_pairs']:.1f} %", f"{error:.1e}",
                seconds(times["trees"].best), seconds(times["tiles"].best),
                ratio(times["tiles"].best, times["trees"].best),
            ]
        )  # fmt: skip
        progress(" | ".join(map(str, lines[-1])))
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, seconds")
    options = parser.parse_args(arguments)
    n, large, repeats = (2000, 4000, 1) if options.quick else (20_000, 60_000, 3)
    lines = []
    for d in (2, 5):
        for scale in (1.0, 3.0, 10.0):
            lines += row(n, d, scale, None, repeats)
            lines += row(large, d, scale, 500, repeats)
    print("# Trees beside tiles\n")
    print("\n".join(filter(None, [machine_facts(), load_at_start()])) + "\n")
    header = "pairs, d, scale, tolerance, share visited, error of dZ, trees, tiles, gain"
    print(table(header.split(", "), lines, ["value and gradient, float32; best of the repeats"]))


if __name__ == "__main__":
    main()
