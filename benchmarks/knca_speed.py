"""kNCA against NCA: one value and gradient of the same points, for several k and both votes.

    python benchmarks/knca_speed.py
    python benchmarks/knca_speed.py --quick             # small data, under a minute
    python benchmarks/knca_speed.py --only late
    python benchmarks/knca_speed.py --output            # also benchmarks/results/knca_speed.md

Prints one report in markdown on standard output, and progress on standard error.  All contenders
of a row take turns, and the least of the repeats counts.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from _common import (
    MEAN_SQUARED_DISTANCE,
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
from sklearn.neighbors import NearestNeighbors

from vicinal.neighborhoods import Nearest, mass_left_out
from vicinal.objectives import knca, nca

KS = (1, 5, 15)
VOTES = ("all", "majority")
#: the most that kNCA at k = 5 may take, in evaluations of exact NCA
TARGETS = {"all": 4.0, "majority": 8.0}
N_CLASSES = 10
DTYPES = {"float32": np.float32, "float64": np.float64}


def early(n: int, d: int, dtype: Any) -> tuple[Any, Any]:
    """Points as they lie early in learning, classes overlapping, and their classes."""
    X, y = blobs(n, 50, N_CLASSES)
    return (X @ early_map(X, d).T).astype(dtype), y


def late(n: int, d: int, m: int, dtype: Any) -> tuple[Any, Any]:
    """Points as they lie late in learning: classes apart, and m neighbours carry all but little."""
    rng = np.random.default_rng(d)
    which = rng.integers(0, 2 * N_CLASSES, n)
    centres = rng.standard_normal((2 * N_CLASSES, d))
    centres *= 12.0 / np.sqrt(2.0 * d)  # two clusters are 12 apart in the root mean square
    Z = centres[which] + rng.standard_normal((n, d))
    nearest = NearestNeighbors(n_neighbors=m + 1).fit(Z).kneighbors(Z[:500])[0]
    # the m-th nearest weighs exp(-10) of what the nearest does, in the median
    Z *= np.sqrt(10.0 / np.median(nearest[:, m] ** 2 - nearest[:, 1] ** 2))
    return Z.astype(dtype), which % N_CLASSES


def compile_kernels() -> None:
    """Have all that is timed compiled; kernels are the same for all k and dimensions."""
    for dtype in DTYPES.values():
        Z, y = early(400, 2, dtype)
        lists = Nearest(m=30, own=5).pairs(Z, y)
        for pairs in (None, lists):
            nca(Z, y, "log", pairs=pairs)
            for vote in VOTES:
                knca(Z, y, 5, vote, "log", pairs=pairs)


def evaluations(options: argparse.Namespace) -> str:
    """Time of kNCA for all k against NCA, by size, dimension, precision and vote."""
    cells, judged = [], []
    for n in options.sizes:
        for d in options.dimensions:
            for name, dtype in DTYPES.items():
                progress(f"evaluation: N = {n:,}, d = {d}, {name}")
                Z, y = early(n, d, dtype)
                run = {"NCA": partial(nca, Z, y, "log")}
                run |= {f"{vote} {k}": partial(knca, Z, y, k, vote, "log")
                        for vote in VOTES for k in options.ks}  # fmt: skip
                times = take_turns(run, repeats=options.repeats, budget=options.budget)
                base = times["NCA"].best
                for vote in VOTES:
                    ratios = [times[f"{vote} {k}"].best / base for k in options.ks]
                    shown = [f"{ratio:.2f}" for ratio in ratios]
                    if 5 in options.ks:
                        at = options.ks.index(5)
                        judged.append((ratios[at] / TARGETS[vote], vote, n, d, name, ratios[at]))
                        if ratios[at] > TARGETS[vote]:
                            shown[at] = f"**{shown[at]}**"
                    growth = _growth(options.ks, ratios)
                    cells.append([f"{n:,}", d, name, seconds(base), vote, *shown, growth])
    header = ["N", "d", "precision", "exact NCA", "vote", *(f"k = {k}" for k in options.ks),
              "15 to 5"]  # fmt: skip
    notes = [
        f"log objective, value and gradient with respect to the points, {N_CLASSES} classes, two "
        f"points {MEAN_SQUARED_DISTANCE**0.5:g} apart in the root mean square; all cores",
        "columns of k: the time of kNCA over that of exact NCA at the same points; **bold** where "
        f"k = 5 takes more than {TARGETS['all']:g} (all) or {TARGETS['majority']:g} (majority)",
        "15 to 5: time at k = 15 over that at k = 5; 3 is growth in proportion to k",
        *_targets(judged),
    ]
    return table(header, cells, notes)


def _growth(ks: tuple[int, ...], ratios: list[float]) -> str:
    if not {5, 15} <= set(ks):
        return ""
    return f"{ratios[ks.index(15)] / ratios[ks.index(5)]:.2f}"


def _targets(judged: list[tuple[Any, ...]]) -> list[str]:
    """The worst case of each vote at k = 5, against what was asked for."""
    lines = []
    for vote, target in TARGETS.items():
        of = [each for each in judged if each[1] == vote]
        if of:
            _, _, n, d, name, ratio = max(of)
            verdict = "reached" if ratio <= target else "missed"
            lines.append(
                f"k = 5, {vote}: our limit is {target:g}; the worst is {ratio:.2f} "
                f"(N = {n:,}, d = {d}, {name}): {verdict}"
            )
    return lines


def lists(options: argparse.Namespace) -> str:
    """Candidate lists late in learning, against exact NCA and exact kNCA."""
    cells = []
    for n in options.sizes:
        for d in options.dimensions:
            for name, dtype in DTYPES.items():
                progress(f"late: N = {n:,}, d = {d}, {name}")
                Z, y = late(n, d, options.list_length, dtype)
                began = time.perf_counter()
                pairs = Nearest(m=options.list_length, own=10).pairs(Z, y)
                search = time.perf_counter() - began
                report: dict[str, Any] = {}
                nca(Z, y, "log", report=report)
                exact = partial(knca, Z, y, 5, "all", "log")
                run = {"NCA": partial(nca, Z, y, "log"), "exact": exact}
                run |= {f"{vote} {k}": partial(knca, Z, y, k, vote, "log", pairs=pairs)
                        for vote in VOTES for k in (5, 10)}  # fmt: skip
                times = take_turns(run, repeats=options.repeats, budget=options.budget)
                base = times["NCA"].best
                ratios = [times[f"{vote} {k}"].best / base for vote in VOTES for k in (5, 10)]
                shown = [f"{r:.2f}" if r < 1.0 else f"**{r:.2f}**" for r in ratios]
                cells.append([
                    f"{n:,}", d, name, seconds(base), f"{report['share_of_pairs']:.1%}",
                    f"{times['exact'].best / base:.2f}", *shown, seconds(search),
                    f"{mass_left_out(Z, y, pairs, random_state=0).mean:.1e}",
                ])  # fmt: skip
    header = ["N", "d", "precision", "exact NCA", "its share of pairs", "exact kNCA, all, k = 5",
              *(f"lists, {vote}, k = {k}" for vote in VOTES for k in (5, 10)), "search",
              "mass left out"]  # fmt: skip
    notes = [
        f"{2 * N_CLASSES} clusters of {N_CLASSES} classes, 12 standard deviations apart in the "
        f"root mean square, at a scale at which the {options.list_length}-th nearest weighs "
        "exp(-10) of what the nearest does, in the median",
        f"lists of the {options.list_length} nearest, and of 10 of the own class, made once "
        "(search), as they are between two refreshments of a fit",
        "columns of kNCA: its time over that of exact NCA at the same points, which leaves out "
        "what cannot change a sum; **bold** where lists are not the faster",
        "mass left out: mean share of a row's choice (of NCA) that is not on its list",
    ]
    return table(header, cells, notes)


SECTIONS = {
    "evaluation": ("Time per value and gradient", evaluations),
    "late": ("Candidate lists late in learning", lists),
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data and few k")
    parser.add_argument("--sizes", nargs="+", type=int, default=None, help="default: 5000 20000")
    parser.add_argument("--dimensions", nargs="+", type=int, default=None, help="default: 2 10")
    parser.add_argument("--ks", nargs="+", type=int, default=None, help="default: 1 to 15")
    parser.add_argument("--list-length", type=int, default=100, help="rows on a list")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each, at most")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of each, roughly")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    add_output(parser, "knca_speed")
    options = read_options(parser, arguments)
    options.sizes = options.sizes or ((600,) if options.quick else (5000, 20_000))
    options.dimensions = options.dimensions or ((2,) if options.quick else (2, 10))
    options.ks = tuple(options.ks or ((1, 5, 15) if options.quick else KS))
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run the sections and print the report."""
    options = parse(arguments)
    if not options.quick:
        progress("compiling")
        compile_kernels()
    sections = ((SECTIONS[name][0], partial(SECTIONS[name][1], options)) for name in options.only)
    report_sections("kNCA against exact NCA", sections, options.output)


if __name__ == "__main__":
    main()
