"""What the exact objective leaves out: shares of pairs over a fit, and what that is worth.

    python benchmarks/nca_skipping.py
    python benchmarks/nca_skipping.py --largest 4000   # a quick look
    python benchmarks/nca_skipping.py --only fits
    python benchmarks/nca_skipping.py --output         # also benchmarks/results/nca_skipping.md

Prints one report in markdown on standard output, and progress on standard error.  How the cost
grows with the number of rows is told by ``python benchmarks/reproduce nca-growth``.
"""

from __future__ import annotations

import argparse
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from _common import (
    ExactProblem,
    add_output,
    blobs,
    early_map,
    progress,
    read_options,
    report_sections,
    seconds,
    table,
    take_turns,
)
from sklearn.datasets import load_digits

from vicinal.engines.cpu import tiles as _tiles
from vicinal.objectives import nca
from vicinal.solvers import LBFGS


@contextmanager
def order_from(rows: int) -> Any:
    """Order rows from another number on than the library would."""
    before = _tiles.ORDER_FROM
    _tiles.ORDER_FROM = rows
    try:
        yield
    finally:
        _tiles.ORDER_FROM = before


def shares_of_a_fit(X: Any, y: Any, d: int, iterations: int) -> list[tuple[int, float, float]]:
    """Iteration, value and share of pairs computed, of L-BFGS on the log objective."""
    reports: list[dict[str, float]] = []

    def objective(Z: Any, targets: Any, *args: Any, **kwargs: Any) -> Any:
        reports.append({})
        return nca(Z, targets, "log", *args, report=reports[-1], **kwargs)

    fun = ExactProblem(X, y, d, np.float32, objective)
    solver, theta = LBFGS(), early_map(X, d).ravel()
    state = solver.init(fun, theta)
    rows = [(0, float(state.value), reports[-1]["share_of_pairs"])]
    for iteration in range(1, iterations + 1):
        theta, state = solver.step(fun, theta, state)
        rows.append((iteration, float(state.value), reports[-1]["share_of_pairs"]))
        if state.stalled:
            break
    return rows


def fits_section(options: argparse.Namespace) -> str:
    """Share of the pairs computed over the iterations of two fits."""
    X, y = load_digits(return_X_y=True)
    n = 20_000 if options.largest >= 20_000 else options.largest
    data = {"digits, d = 2": (X / 16.0, y), f"synthetic {n:,} x 20, d = 2": blobs(n, 20)}
    parts = []
    for name, (rows, labels) in data.items():
        progress(f"fit: {name}")
        with order_from(1000):  # digits has 1,797 rows
            steps = shares_of_a_fit(rows.astype(np.float32), labels, 2, options.iterations)
        shown = [step for step in steps if step[0] in {0, 1, 2, 5, 10, 20, 50, steps[-1][0]}]
        cells = [(i, f"{value:.4f}", f"{share:.1%}") for i, value, share in shown]
        words = table(("iteration", "log loss", "share of pairs computed"), cells)
        parts.append(f"### {name}\n\n{words}")
    return "\n\n".join(parts)


def skipping_section(options: argparse.Namespace) -> str:
    """Time of one value and gradient with and without leaving out, clusters at several scales."""
    n, cells = min(20_000, options.largest), []
    for d in (2, 5):
        rng = np.random.default_rng(d)
        which = rng.integers(0, 50, n)
        Z = 3 * rng.standard_normal((50, d))[which] + 0.3 * rng.standard_normal((n, d))
        for scale in (0.1, 1.0, 3.0, 10.0):
            progress(f"clusters: d = {d}, scale {scale}")
            W, report = (scale * Z).astype(np.float32), {}
            run = partial(nca, W, which % 10, "log")

            def everything(run: Any = run) -> None:
                with order_from(10**9):
                    run()

            times = take_turns({"on": run, "off": everything}, repeats=options.repeats)
            run(report=report)
            share = f"{report['share_of_pairs']:.1%}"
            best = times["on"].best, times["off"].best
            ratio = f"{best[1] / best[0]:.2f}"
            cells.append((d, scale, share, seconds(best[0]), seconds(best[1]), ratio))
    notes = [
        f"{n:,} rows in 50 clusters of 10 classes, float32, value and gradient, best of several"
    ]
    header = ("d", "scale", "pairs computed", "leaving out", "all pairs", "times faster")
    return table(header, cells, notes)


SECTIONS = {
    "fits": ("Share of pairs over a fit", fits_section),
    "clusters": ("Clustered points at several scales", skipping_section),
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=20_000, help="most rows")
    parser.add_argument("--iterations", type=int, default=50, help="of a fit")
    parser.add_argument("--repeats", type=int, default=3, help="timed runs")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    add_output(parser, "nca_skipping")
    return read_options(parser, arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run the sections and print the report."""
    options = parse(arguments)
    sections = ((SECTIONS[name][0], partial(SECTIONS[name][1], options)) for name in options.only)
    report_sections("What the exact objective leaves out", sections, options.output)


if __name__ == "__main__":
    main()
