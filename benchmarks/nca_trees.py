"""Sums by trees against all pairs in tiles: share of pairs visited, time, error of the gradient.

    python benchmarks/nca_trees.py            # some three minutes of a core
    python benchmarks/nca_trees.py --quick    # seconds, small data
    python benchmarks/nca_trees.py --output   # write benchmarks/results/nca_trees.md too

Ten overlapping Gaussian classes of unit width, multiplied by the scale: the larger it is, the
fewer neighbours count, as late in learning.  Prints markdown.  Times are those of the processor,
over all threads: what else the machine does matters less to them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _common import add_output, facts, progress, ratio, read_options, seconds, table, write

from vicinal.neighborhoods import Tree
from vicinal.objectives import nca

HEADER = ["N", "d", "scale", "tolerance", "share visited", "by tiles", "error of dZ", "tree",
          "tiles", "gain", "chosen"]  # fmt: skip
NOTES = [
    "value and gradient, float32, every row a query; the best of the repeats, in turns",
    "share visited, by tiles: of the pairs, those that tree and tiles compute one by one; the "
    "tiles leave out what changes no bit",
    "error of dZ: the norm of the difference to the exact gradient, relative to its norm",
    "all other classes share one tolerance (`each_class=False`)",
    "chosen: what is taken without `always`",
]


def points(n: int, d: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Overlapping classes of unit width, times the scale, in float32."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    Z = rng.standard_normal((n, d)) + rng.standard_normal((10, d))[y]
    return (scale * Z).astype(np.float32), y


def clock(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor that a call takes, and what it returns."""
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def line(n: int, d: int, scale: float, tolerance: float, repeats: int) -> tuple[float, list[str]]:
    """The gain, and a line of the table."""
    Z, y = points(n, d, scale)
    tree, tiles, chosen = {}, {}, {}
    times: dict[str, list[float]] = {"tree": [], "tiles": []}
    always, free = (
        Tree(tolerance, always=always, each_class=False).pairs(Z, y) for always in (True, False)
    )
    for _ in range(repeats):
        taken, (_, exact) = clock(lambda: nca(Z, y, report=tiles))
        times["tiles"].append(taken)
        taken, (_, dZ) = clock(lambda: nca(Z, y, pairs=always, report=tree))
        times["tree"].append(taken)
    nca(Z, y, pairs=free, gradient=False, report=chosen)
    error = np.linalg.norm(dZ - exact) / np.linalg.norm(exact)
    best = {name: min(samples) for name, samples in times.items()}
    cells = [
        f"{n:,}", str(d), f"{scale:g}", f"{tolerance:g}", f"{100 * tree['share_of_pairs']:.1f} %",
        f"{100 * tiles['share_of_pairs']:.1f} %", f"{error:.1e}", seconds(best["tree"]),
        seconds(best["tiles"]), ratio(best["tiles"], best["tree"]), chosen["engine"],
    ]  # fmt: skip
    progress(" | ".join(cells))
    return best["tiles"] / best["tree"], cells


def crossing(found: list[tuple[float, list[str]]]) -> list[str]:
    """For each size and dimension, the shares visited where the tree won and where it lost."""
    words = []
    for size, d in dict.fromkeys((cells[0], cells[1]) for _, cells in found):
        here = [(gain, float(c[4].split()[0])) for gain, c in found if (c[0], c[1]) == (size, d)]
        won = [share for gain, share in here if gain > 1]
        lost = [share for gain, share in here if gain <= 1]
        words.append(
            f"- N = {size}, d = {d}: the tree took less time at shares visited "
            + (f"up to {max(won):.0f} %" if won else "of none measured")
            + (f", and more from {min(lost):.0f} % on." if lost else ", all that were measured.")
        )
    return words


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, seconds")
    add_output(parser, "nca_trees")
    options = read_options(parser, arguments)
    sizes = [(2000, 1)] if options.quick else [(20_000, 2), (60_000, 1)]
    about = facts()
    Z, y = points(5000, 2, 10.0)
    for pairs in (None, Tree(0.01, always=True).pairs(Z, y)):  # compile before anything is timed
        nca(Z, y, pairs=pairs)
    found: list[tuple[float, list[str]]] = []
    for n, repeats in sizes:
        for d in (2, 5):
            for scale in (1.0, 3.0, 10.0):
                for tolerance in (0.1, 0.01) if n < 50_000 else (0.01,):
                    found.append(line(n, d, scale, tolerance, repeats))
        rows = [cells for _, cells in found]
        report = "\n\n".join(
            ["# Trees against tiles", about, "\n".join(crossing(found)), table(HEADER, rows, NOTES)]
        )
        write(report, options.output)  # at once: what is there is not lost
    print(report)


if __name__ == "__main__":
    main()
