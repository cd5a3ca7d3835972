"""Rows on the workers of a cluster compared with one process: evaluations, chunks and batches.

    python benchmarks/dask_speed.py                       # five minutes of two idle cores
    python benchmarks/dask_speed.py --quick               # few rows, to see that it runs
    python benchmarks/dask_speed.py --only evaluations    # one of the tables
    python benchmarks/dask_speed.py --output              # also results/dask_speed.md

The workers are processes of one thread each on this machine (``--workers 1 2 4`` says how many in
turn); the time on one machine is that of one process with as many threads as there are cores.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
from _common import (
    add_output,
    blobs,
    clock,
    early_map,
    facts,
    progress,
    read_options,
    seconds,
    table,
    version,
    write,
)
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

import vicinal
import vicinal.dask
from vicinal._features import Features, make_rows
from vicinal.core.problem import Problem
from vicinal.core.types import Batch
from vicinal.dask._cluster import Cluster
from vicinal.dask._table import BlockTable
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.samplers import MiniBatches
from vicinal.targets import Labels

N_FEATURES, DIMENSIONS = 50, 5
STATES = {"early": 1.0, "late": 10.0}  # factors of the map
BUDGET = 15.0  # seconds of repeats
TABLES = ("evaluations", "chunks", "batches", "costs")


@contextmanager
def workers(count: int) -> Iterator[Client]:
    """A client of this many processes of one thread."""
    with (
        LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address=":0", memory_limit="3GiB", silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


def lazy(X: Any, blocks: int) -> Any:
    """The rows in this many blocks,."""
    return da.from_array(X, chunks=(-(-len(X) // blocks), X.shape[1]))


def problem(X: Any, y: Any) -> Problem:
    """Exact NCA in float32, the first stage of a fit."""
    return Problem(
        Features(X, "standard"), Labels(y), NCALoss("accuracy"), Linear(DIMENSIONS),
        dtype=np.float32,
    )  # fmt: skip


def on_workers(here: Problem, X: Any, client: Client, blocks: int) -> Problem:
    """The same problem with its rows on the workers."""
    rows = make_rows(BlockTable.of(lazy(X, blocks), Cluster(client, "NCA")), "standard")
    return here.replace(X=rows)


class Cost(NamedTuple):
    """What the repeats of a call took, on the clock and of all processors."""

    samples: list[float]
    cpu: list[float]

    @property
    def least(self) -> float:
        return min(self.samples)

    def __str__(self) -> str:
        return f"{seconds(statistics.median(self.samples))} ({seconds(self.least)})"


def in_turns(calls: dict[str, Callable[[], Any]], client: Client, repeats: int) -> dict[str, Cost]:
    """The costs of some calls, which take turns, after one of each to warm up."""
    costs = {name: Cost([], []) for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            if sum(costs[name].samples) < BUDGET:
                before = time.process_time() + sum(client.run(time.process_time).values())
                costs[name].samples.append(clock(call))
                after = time.process_time() + sum(client.run(time.process_time).values())
                costs[name].cpu.append(after - before)
    return costs


def evaluations(options: argparse.Namespace) -> str:
    """The table of single evaluations."""
    X, y = blobs(max(options.sizes), N_FEATURES, dtype=np.float32)
    thetas = {state: f * early_map(X, DIMENSIONS).ravel() for state, f in STATES.items()}
    rows, alone = [], {}
    for count in options.workers:
        with workers(count) as client:
            for n in options.sizes:
                here = problem(X[:n], y[:n])
                there = on_workers(here, X[:n], client, options.blocks)
                for state, theta in thetas.items():
                    share = here.evaluate(theta)[2]["share_of_pairs"]
                    calls = {"here": partial(here, theta), "there": partial(there, theta)}
                    cost = in_turns(calls, client, options.repeats)
                    one, far = cost["here"], cost["there"]
                    first = alone.setdefault((n, state), count * far.least)
                    rows.append([
                        f"{n:,}", state, f"{share:.0%}", count, one, far,
                        f"{far.least / one.least:.2f}", f"{min(far.cpu) / min(one.cpu):.2f}",
                        f"{first / (count * far.least):.0%}",
                    ])  # fmt: skip
                    progress(" | ".join(map(str, rows[-1])))
    rows.sort(key=lambda row: (options.sizes.index(int(row[0].replace(",", ""))), row[1]))
    header = ["rows", "learning", "pairs", "workers", "one process", "workers' time", "ratio",
              "processor", "efficiency"]  # fmt: skip
    notes = [
        f"Value and gradient of the exact accuracy objective, float32, {N_FEATURES} columns to "
        f"{DIMENSIONS}, 10 classes, {options.blocks} blocks; median (least) of the repeats, in "
        "turns; ratios are those of the least.",
        "Early: two points are √4 apart in the root mean square; late: the map times "
        f"{STATES['late']:g}. Pairs: the share that one process computes.",
        "Ratio: to one process with a thread for each core. Processor: the same for the processor "
        "time of all processes, that of the client included. Efficiency: the time of "
        f"{options.workers[0]} worker over that of n workers times n.",
    ]
    return table(header, rows, notes)


def chunks(options: argparse.Namespace) -> str:
    """The table of the same evaluation in more and more blocks."""
    n = min(options.sizes)
    X, y = blobs(n, N_FEATURES, dtype=np.float32)
    theta, here = early_map(X, DIMENSIONS).ravel(), problem(X, y)
    rows = []
    with workers(options.workers[-1]) as client:
        for blocks in options.chunks:
            there = on_workers(here, X, client, blocks)
            there(theta)
            before = client.run_on_scheduler(_n_computed)
            there(theta)
            tasks = client.run_on_scheduler(_n_computed) - before
            calls = {"here": partial(here, theta), "there": partial(there, theta)}
            cost = in_turns(calls, client, options.repeats)
            one, far = cost["here"], cost["there"]
            ratio, processor = far.least / one.least, min(far.cpu) / min(one.cpu)
            rows.append([blocks, f"{-(-n // blocks):,}", tasks, one, far, f"{ratio:.2f}",
                         f"{processor:.2f}"])  # fmt: skip
            progress(" | ".join(map(str, rows[-1])))
    notes = [f"The evaluation of {n:,} rows early in learning, on {options.workers[-1]} workers."]
    header = ["blocks", "rows each", "tasks", "one process", "workers' time", "ratio", "processor"]
    return table(header, rows, notes)


def _n_computed(dask_scheduler: Any) -> int:
    """How many tasks have been computed so far."""
    prefixes = dask_scheduler.task_prefixes.values()
    return sum(prefix.state_counts["memory"] for prefix in prefixes)


def batches(options: argparse.Namespace) -> str:
    """The table of whole fits from random batches."""
    X, y = blobs(max(options.sizes), N_FEATURES, dtype=np.float32)
    settings = {"alpha": 1e-3, "random_state": 0}
    settings["sampling"] = MiniBatches(options.batch, clusters="random")
    rows = []
    with workers(options.workers[-1]) as client:
        for n, length in product(options.sizes, options.max_iter):
            plain = vicinal.NCA(DIMENSIONS, **settings, max_iter=length)
            far = vicinal.dask.NCA(DIMENSIONS, **settings, max_iter=length, client=client)
            dX = lazy(X[:n], options.blocks)
            calls = {
                "here": partial(_fit, plain, X[:n], y[:n]), "there": partial(_fit, far, dX, y[:n])
            }  # fmt: skip
            cost = in_turns(calls, client, options.repeats)
            one, there = cost["here"], cost["there"]
            ratio, processor = there.least / one.least, min(there.cpu) / min(one.cpu)
            rows.append([f"{n:,}", plain.n_iter_, one, there, f"{ratio:.2f}", f"{processor:.2f}",
                         f"{plain.loss_:.6g}", f"{far.loss_:.6g}"])  # fmt: skip
            progress(" | ".join(map(str, rows[-1])))
    header = ["rows", "iterations", "in memory", "on workers", "ratio", "processor", "loss", "loss"]
    notes = [
        f"`NCA({DIMENSIONS}, alpha=0.001, sampling=MiniBatches({options.batch}, "
        f"clusters='random'), random_state=0)`, {options.blocks} blocks, {options.workers[-1]} "
        "workers, all of the fit, with the reading of the blocks; ratios of the least of the "
        "repeats.",
    ]
    return table(header, rows, notes)


def _fit(model: Any, X: Any, y: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # max_iter is small on purpose
        model.fit(X, y)


class Fleet(NamedTuple):
    """The cluster of the estimate."""

    rows: int = 100_000_000
    machines: int = 64
    threads: int = 16  # of each machine
    batch: int = 3000
    queries: int = 3000  # of the scale correction and of the loss at the end


def costs(options: argparse.Namespace) -> str:
    """The table of measured costs, and the one of what follows for many machines."""
    n, batch = min(options.sizes), min(Fleet().batch, min(options.sizes) // 4)
    X, y = blobs(n, 100, dtype=np.float32)
    theta, here, rng = early_map(X, DIMENSIONS).ravel(), problem(X, y), np.random.default_rng(0)
    chosen = [np.sort(rng.permutation(n)[:batch]) for _ in range(10)]
    with workers(options.workers[-1]) as client:
        there = on_workers(here, X, client, options.blocks)
        held, few, many = there.X.table, Batch(queries=chosen[0]), range(100)
        measured = in_turns(
            {
                "gather": lambda: [held.gather(rows) for rows in chosen],
                "batch": lambda: [here(theta, Batch(rows=rows)) for rows in chosen],
                "queries": lambda: there(theta, few),
                "pass": lambda: there.X.matmul(np.ones((100, 1))).extent,
                "tasks": lambda: client.gather([client.submit(abs, i, pure=False) for i in many]),
            },
            client, options.repeats,
        )  # fmt: skip
    gather, one_batch = measured["gather"].least / 10, measured["batch"].least / 10
    pair = min(measured["queries"].cpu) / (batch * n)
    row = min(measured["pass"].cpu) / n
    task = measured["tasks"].least / 100
    lines = [
        [f"gather {batch:,} rows of 100 columns from {options.blocks} blocks", seconds(gather)],
        [f"evaluate a batch of {batch:,} rows, on the client", seconds(one_batch)],
        ["a query and a reference: sums and gradient, processor", f"{pair * 1e9:.2f} ns"],
        ["a row through scaling and a product, processor", f"{row * 1e9:.0f} ns"],
        ["a task", seconds(task)],
    ]
    header = ["cost", "measured"]
    return f"{table(header, lines)}\n\n{_estimate(gather, one_batch, pair, row)}"


def _estimate(gather: float, one_batch: float, pair: float, row: float) -> str:
    """What the costs come to for the fleet."""
    fleet = Fleet()
    n, threads = fleet.rows, fleet.machines * fleet.threads
    n_batches = n / fleet.batch
    step = max(gather, one_batch)
    table_bytes, points_bytes = 400.0 * n, 4.0 * DIMENSIONS * n
    lines = [
        ["rows: checked, scaled, start", f"{_long(4 * row * n / threads)}", "some MB",
         f"{table_bytes / fleet.machines / 1e9:.1f} GB on each machine"],
        [f"a pass of batches of {fleet.batch:,}", _long(n_batches * step),
         f"{table_bytes / 1e9:.0f} GB to the client", "some MB"],
        [f"scale correction, loss: {fleet.queries:,} queries", _long(fleet.queries * n * pair
         / threads), "some MB", f"{points_bytes / fleet.machines / 1e6:.0f} MB on each machine"],
        ["embedded rows and labels, to the client", _long((points_bytes + 8 * n) / 1e9),
         f"{points_bytes / 1e9:.0f} GB", f"{(3 * points_bytes + 16 * n) / 1e9:.0f} GB, client"],
        ["all rows predicted from all rows", _long(n * n * pair / 2 / threads),
         f"{points_bytes * fleet.machines / 1e9:.0f} GB", f"{points_bytes / 1e9:.0f} GB on each "
         "machine; from shards some MB"],
        ["one evaluation of all pairs (refused)", _long(n * n * pair / threads),
         f"{points_bytes * fleet.machines / 1e9:.0f} GB", "–"],
    ]  # fmt: skip
    notes = [
        f"An estimate on paper, not a measurement: {n:.0e} × 100 float32 rows to {DIMENSIONS} "
        f"dimensions on {fleet.machines} machines of {fleet.threads} threads like the cores above, "
        "joined by 10 Gbit/s, from the costs in the table before.",
        "A batch is fetched while the one before is computed: the longer of the two counts. A "
        "prediction needs the sums alone, about half of the cost of a pair.",
    ]
    return table(["step", "time", "traffic", "memory"], lines, notes)


def _long(took: float) -> str:
    units = (("days", 86400.0), ("h", 3600.0), ("min", 60.0))
    for unit, length in units:
        if took >= 2 * length:
            return f"{took / length:.0f} {unit}"
    return seconds(took)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, seconds")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--sizes", nargs="+", type=int, help="default: 40000 80000")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--chunks", nargs="+", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--batch", type=int, default=3000)
    parser.add_argument(
        "--max-iter", nargs="+", type=int, default=[100, 300], help="batches of a fit"
    )
    parser.add_argument("--repeats", type=int, default=5)
    add_output(parser, "dask_speed")
    options = read_options(parser, arguments)
    options.sizes = options.sizes or ([1000, 2000] if options.quick else [40_000, 80_000])
    if options.quick:
        options.workers, options.chunks, options.repeats = [2], [2, 4], 2
        options.batch, options.max_iter = 300, [5]
    return options


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    options = parse(arguments)
    parts = ["# Rows on a cluster compared with one process"]
    parts += [f"{facts()}\n- dask {version('dask')}, distributed {version('distributed')}"]
    makers = {"evaluations": evaluations, "chunks": chunks, "batches": batches, "costs": costs}
    titles = {
        "evaluations": "## One evaluation of all pairs",
        "chunks": "## How many blocks",
        "batches": "## A fit from random batches",
        "costs": "## Costs, and an estimate for 64 machines",
    }
    for name in options.only:
        parts += [titles[name], makers[name](options)]
        write("\n\n".join(parts), options.output)  # at once: what is there is not lost
    print("\n\n".join(parts))


if __name__ == "__main__":
    main()
