"""More rows than a process may hold: the client's peak while workers of 1 GiB learn from files.

    python benchmarks/dask_memory.py --folder /big/disk     # 2,000,000 x 100, 800 MB of files
    python benchmarks/dask_memory.py --rows 100000          # to see that it runs

Writes blocks of float32 rows as .npy files, reads them lazily on two workers, fits NCA from
batches, maps all rows to files and predicts some: from training rows that stay on the workers, and
by a model that holds them.  The files are removed at the end.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from _common import add_output, facts, progress, read_options, seconds, table, version, write
from _memory import give_back, measure, resident
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

import vicinal
import vicinal.dask

N_FEATURES, DIMENSIONS, N_CLASSES = 100, 5, 10
BLOCK = 50_000  # rows of a file: 20 MB


def block_of(first: int, rows: int) -> tuple[Any, Any]:
    """Overlapping Gaussian classes, some rows of them."""
    centres = np.random.default_rng(0).standard_normal((N_CLASSES, N_FEATURES))
    rng = np.random.default_rng([1, first])
    y = rng.integers(0, N_CLASSES, rows)
    noise = 2 * rng.standard_normal((rows, N_FEATURES), dtype=np.float32)
    return noise + centres[y].astype(np.float32), y


def files(folder: Path, n: int) -> tuple[Any, Any]:
    """The rows as a lazy array of files, and their labels."""
    blocks, labels = [], []
    for first in range(0, n, BLOCK):
        X, y = block_of(first, min(BLOCK, n - first))
        path = folder / f"{first}.npy"
        np.save(path, X)
        read = dask.delayed(np.load, pure=True)(str(path))
        blocks.append(da.from_delayed(read, X.shape, X.dtype))
        labels.append(y)
    return da.concatenate(blocks), np.concatenate(labels)


def _peak() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split("VmHWM:")[1].split()[0])


def steps(client: Client, dX: Any, y: Any, options: argparse.Namespace, folder: Path) -> str:
    """The table: a line for each step, with its time and the peaks."""
    model = vicinal.dask.NCA(
        DIMENSIONS, alpha=1e-3, max_iter=options.max_iter, random_state=0, references="shards",
        client=client,
    )  # fmt: skip
    some = min(options.predicted, len(y))
    guesses: list[Any] = []
    local: list[Any] = []

    def to_files() -> None:
        da.to_npy_stack(folder / "mapped", model.transform(dX))

    work: dict[str, Callable[[], Any]] = {
        f"fit, {len(y):,} rows": lambda: model.fit(dX, y),
        f"transform to files, {len(y):,} rows": to_files,
        f"predict, {some:,} rows, from shards": lambda: guesses.append(
            model.predict(dX[:some]).compute()
        ),
        "to_local": lambda: local.append(model.to_local()),
        f"predict, {some:,} rows, by the local model": lambda: guesses.append(
            vicinal.dask.predict(local[0], dX[:some]).compute()
        ),
    }
    give_back()
    before, lines = resident(), []
    for name, function in work.items():
        took, peak = measure(function, before)
        cells = "–" if peak is None else f"{peak / 1e6:.0f} MB"
        there = max(client.run(_peak).values())
        lines.append([name, seconds(took), cells, f"{there / 1e6:.0f} MB"])
        progress(" | ".join(lines[-1]))
    notes = [
        f"X: {len(y):,} × {N_FEATURES} float32, {dX.nbytes / 1e6:.0f} MB in {dX.numblocks[0]} "
        f"files; two workers of one thread, limited to 1 GiB each.",
        f"`NCA({DIMENSIONS}, alpha=0.001, max_iter={options.max_iter})`: {model.plan_}",
        "Client: its peak over what it held before the fit; workers: the larger peak, with the "
        "libraries.",
        f"{np.mean(guesses[0] == y[:some]):.1%} of the predicted rows have the class that was "
        f"drawn for them; each is compared with all {len(y):,} rows. Both predictions agree for "
        f"{np.mean(guesses[0] == guesses[1]):.3%} of them.",
    ]
    return table(["step", "time", "client", "workers"], lines, notes)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--predicted", type=int, default=20_000, help="rows to predict")
    parser.add_argument("--max-iter", type=int, default=300, help="batches of the fit")
    parser.add_argument(
        "--folder", type=Path, help="where the files go; default: that of the system"
    )
    add_output(parser, "dask_memory")
    options = read_options(parser, arguments)
    about = f"{facts()}\n- dask {version('dask')}, distributed {version('distributed')}"
    warnings.simplefilter("ignore", ConvergenceWarning)  # max_iter is small on purpose
    dask.config.set({"distributed.scheduler.worker-ttl": None})  # the run may be stopped meanwhile
    X, y = block_of(0, 2000)
    small = vicinal.NCA(DIMENSIONS, alpha=1e-3, max_iter=2, random_state=0).fit(X, y)
    small.predict(X)  # what is compiled and loaded is there before memory is measured
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        began = time.perf_counter()
        dX, y = files(Path(name), options.rows)
        progress(f"files: {seconds(time.perf_counter() - began)}")
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address=":0", memory_limit="1GiB", silence_logs=logging.ERROR,
                local_directory=name,
            ) as cluster,
            Client(cluster) as client,
        ):  # fmt: skip
            client.wait_for_workers(2)
            found = steps(client, dX, y, options, Path(name))
            report = f"# Memory of a fit on a cluster\n\n{about}\n\n{found}"
            write(report, options.output)
            print(report, flush=True)


if __name__ == "__main__":
    main()
