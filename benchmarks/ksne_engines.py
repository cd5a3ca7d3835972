"""The repulsion of kt-SNE: exact sums and potentials on a grid, their times and the error.

    python benchmarks/ksne_engines.py                      # two minutes of two cores
    python benchmarks/ksne_engines.py --quick              # seconds, synthetic data
    python benchmarks/ksne_engines.py --rows 60000         # another number of rows
    python benchmarks/ksne_engines.py --output             # writes results/ksne_engines.md too

Rows are those of mnist in its first 50 principal components.  Pictures: the start, after 100
iterations with an exaggeration of 12, and after 300 more without, all with neighbourhoods of five.
Prints markdown.  Times are those of the processor, over all threads: what else the machine does
matters less to them.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, blobs, facts, progress, ratio, read_options, seconds, table, write
from environments import python_of
from sklearn.decomposition import PCA

from vicinal import datasets
from vicinal.affinities import affinities
from vicinal.engines import choose
from vicinal.engines.cpu.grid import GridSets
from vicinal.engines.cpu.sets import TileSets
from vicinal.objectives import KSNELoss

HEADER = ["N", "picture", "extent", "k", "error of the gradient", "of log e_k", "exact rows",
          "grid", "exact", "gain", "attraction", "openTSNE"]  # fmt: skip
NOTES = [
    "error of the gradient: the norm of the difference from the exact gradient of the repulsion, "
    "over the norm of that; of log e_k: the root of the mean square over the rows",
    "exact rows: those that the grid left to the exact engine, all if the grid would cost more",
    "grid, exact: sums and gradient of the repulsion; attraction: its sum and gradient, for k = 5; "
    "the least of the repeats, in turns",
    "openTSNE: a whole iteration (FFT, n_jobs=2) at the same picture, which is to be compared with "
    "grid and attraction together",
    "where no exact figure stands, the exact sums were not computed: they take too long",
]


def clock(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor that a call takes, and what it returns."""
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def evaluate(engine: Any) -> tuple[Any, Any, dict[str, float]]:
    """The sums, the gradient of their mean, and the facts."""
    log_total = engine.sums()
    return log_total, engine.pull(np.full(len(log_total), 1.0 / len(log_total))), engine.facts


def pictures(X: Any, target: Any, iterations: tuple[int, int]) -> Iterator[tuple[str, Any]]:
    """The start, an early and a late picture of the rows, by descent with momentum."""
    Z = X[:, :2] / np.std(X[:, 0]) * 1e-4
    yield "start", Z
    step = np.zeros_like(Z)
    for name, many, exaggeration, momentum in (
        ("early", iterations[0], 12.0, 0.5),
        ("late", iterations[1], 1.0, 0.8),
    ):
        loss = KSNELoss(target.k, exaggeration=exaggeration)
        rate = len(X) / (4.0 * exaggeration * target.k)
        for _ in range(many):
            step = momentum * step - rate * loss(Z, target).dZ
            Z = Z + step
        yield name, Z


@contextmanager
def opentsne(python: str | None, X: Any) -> Iterator[Callable[[Any], float | None]]:
    """Seconds of an iteration of openTSNE at a picture; None without an interpreter."""
    if python is None:
        yield lambda Z: None
        return
    with tempfile.TemporaryDirectory() as folder:
        data, picture = Path(folder) / "X.npz", Path(folder) / "Z.npy"
        np.savez(data, X=X)
        worker = Path(__file__).parent / "_opentsne_worker.py"
        with subprocess.Popen(
            [python, str(worker), str(data)], stdin=-1, stdout=-1, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()

            def ask(Z: Any) -> float:
                np.save(picture, Z)
                print(picture, file=process.stdin, flush=True)
                return float(process.stdout.readline().split()[0])

            yield ask
            process.stdin.close()


def lines(
    X: Any, ks: tuple[int, ...], iterations: tuple[int, int], python: str | None, repeats: int
) -> list[list[str]]:
    """The lines of one number of rows."""
    n, every, found = len(X), np.arange(len(X)), []
    target = affinities(X, perplexity=30, k=5)
    with opentsne(python, X) as peer:
        for name, Z in pictures(X, target, iterations):
            extent = f"{np.ptp(Z, axis=0).max():.3g}"
            pull = min(
                clock(lambda: choose.backend(Z, len(Z)).attraction(Z, target, "cauchy", 0.0))[0]  # noqa: B023
                for _ in range(repeats)
            )
            for k in ks:
                exact: list[float] = []
                grid: list[float] = []
                other: list[float] = []
                with_exact = n <= 20000 or (name == "late" and k in (1, 5))
                for repeat in range(repeats):
                    taken, near = clock(lambda: evaluate(GridSets(Z, k)))  # noqa: B023
                    grid.append(taken)
                    if with_exact and (repeat == 0 or n <= 5000):
                        taken, true = clock(
                            lambda: evaluate(TileSets(Z, k, "cauchy", 0.0, every, every))  # noqa: B023
                        )
                        exact.append(taken)
                    if k == 1 and repeat < 2:
                        other += [t for t in [peer(Z)] if t is not None]
                errors = ["", ""]
                if exact:
                    wrong = np.linalg.norm(near[1] - true[1]) / np.linalg.norm(true[1])
                    errors = [f"{wrong:.1e}", f"{np.sqrt(np.mean((near[0] - true[0]) ** 2)):.1e}"]
                found.append(
                    [f"{n:,}", name, extent, str(k), *errors, f"{near[2]['chain_rows']:.0f}",
                     seconds(min(grid)), seconds(min(exact)) if exact else "",
                     ratio(min(exact), min(grid)) if exact else "", seconds(pull),
                     seconds(min(other)) if other else ""]
                )  # fmt: skip
                progress(" | ".join(found[-1]))
    return found


def crossing(found: list[list[str]]) -> str:
    """From how many rows on the grid is faster, by picture and k."""
    sentences = []
    for picture in ("start", "early", "late"):
        least = []
        for k in dict.fromkeys(line[3] for line in found):
            slower = [
                float(line[0].replace(",", ""))
                for line in found
                if line[1] == picture and line[3] == k and line[9] and float(line[9][:-1]) <= 1.0
            ]
            least.append(f"{max(slower):,.0f} (k = {k})" if slower else f"none (k = {k})")
        sentences.append(f"{picture}: {', '.join(least)}")
    return (
        "largest N at which the grid is no faster than the exact sums; by its cost it leaves a "
        "wide picture of few points to them, and is then as fast: " + "; ".join(sentences)
    )


def report_of(about: str, found: list[list[str]]) -> str:
    """The page."""
    notes = [*NOTES, crossing(found)]
    return "\n\n".join(["# Engines of kt-SNE", about, table(HEADER, found, notes)])


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="synthetic data, seconds")
    parser.add_argument(
        "--opentsne", metavar="PYTHON", default=python_of("openTSNE"),
        help="an interpreter that has openTSNE (default: that of environments.py)",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, nargs="+", help="numbers of rows")
    add_output(parser, "ksne_engines")
    options = read_options(parser, arguments)
    about = facts()
    X = blobs(1000)[0]
    found = lines(X, (1, 5), (5, 5), None, 2)  # compile before anything is timed
    if not options.quick:
        found = []
        X = np.asarray(datasets.load("mnist", return_X_y=True)[0], np.float32) / 255
        X = PCA(50, svd_solver="randomized", random_state=0).fit_transform(X)
        X = X[np.random.default_rng(0).permutation(len(X))].astype(np.float64)
        for n in options.rows or (1000, 2000, 5000, 20_000):
            found += lines(X[:n], (1, 2, 5, 10), (100, 300), options.opentsne, 3)
            write(report_of(about, found), options.output)  # at once: what is there is not lost
    write(report_of(about, found), options.output)
    print(report_of(about, found))


if __name__ == "__main__":
    main()
