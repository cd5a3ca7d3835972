"""kt-SNE of one or two thousand rows with exact sums and with sums on a grid: time and picture.

    VICINAL_DATA=FOLDER python benchmarks/ksne_small.py            # two minutes
    VICINAL_DATA=FOLDER python benchmarks/ksne_small.py --output   # also results/ksne_small.md

From what number of rows ``method="auto"`` interpolates (`FFT_FROM` in ``engines/set_sums.py``)
follows from this table.  Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, progress, read_options, report_sections, table
from ksne_speed import pictured_rows
from scipy.stats import mode
from sklearn.neighbors import NearestNeighbors

SIZES = (1000, 1500, 2000)
NEIGHBOURS = 10


def _labels(name: str, n: int) -> Any:
    """The labels of `pictured_rows`."""
    y = np.load(Path(os.environ["VICINAL_DATA"]) / f"{name}.npz")["y"]
    return y[np.random.RandomState(0).permutation(len(y))[:n]]


def _measured(X: Any, y: Any, method: str) -> list[str]:
    from vicinal import KSNE
    from vicinal.metrics import trustworthiness

    times = []
    for _ in range(3):
        began = time.process_time()
        model = KSNE(method=method, random_state=0).fit(X)
        times.append(time.process_time() - began)
    Z = model.embedding_
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(Z).kneighbors(return_distance=False)
    right = np.mean(mode(y[near], axis=1).mode == y)
    return [f"{min(times):.2f}", f"{model.kl_divergence_:.4f}",
            f"{trustworthiness(X, Z, n_neighbors=12):.4f}", f"{100 * right:.1f} %"]  # fmt: skip


def pictures(names: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    """Both methods on the first rows of each set."""
    from vicinal import KSNE

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for n in sizes:
                X, y = np.load(pictured_rows(n, Path(folder), name)), _labels(name, n)
                for method in ("exact", "fft"):
                    progress(f"{name}, {n:,} rows, {method}")
                    KSNE(method=method, random_state=0).fit(X)  # compiles
                    lines.append([f"{name}, {n:,}", method, *_measured(X, y, method)])
    head = ["rows", "sums", "seconds of the processor", "divergence", "trustworthiness",
            f"right among {NEIGHBOURS} neighbours"]  # fmt: skip
    return table(head, lines, ["Defaults otherwise: 750 iterations, perplexity 30, k = 1."])


def main() -> None:
    """Fit all of them, and print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one set, 1,000 rows")
    add_output(parser, "ksne_small")
    options = read_options(parser)
    names, sizes = (("usps",), (1000,)) if options.quick else (("mnist", "usps"), SIZES)
    report_sections(
        "Small pictures: exact sums and sums on a grid",
        [("All sizes", lambda: pictures(names, sizes))],
        options.output,
    )


if __name__ == "__main__":
    main()
