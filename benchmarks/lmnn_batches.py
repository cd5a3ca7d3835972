"""LMNN on all rows and on batches, beside NCA: core seconds and held-out error on digits.

Some training rows of mnist are divided into rows to learn from and rows to score (three to one);
the test rows are not looked at.  Core seconds are the processor time of the fit, all threads
together, after a small fit that compiles.

    python benchmarks/lmnn_batches.py --data DIR [--rows 10000] [--out results/lmnn_batches.md]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from vicinal import LMNN, NCA
from vicinal.samplers import MiniBatches, StochasticQueries

METHODS: dict[str, Any] = {
    "NCA, as it comes": NCA(),
    "NCA, batches of 3000": NCA(alpha=3e-3, sampling=MiniBatches(3000, "random")),
    "LMNN, as it comes": LMNN(),
    "LMNN, all rows": LMNN(sampling="full"),
    "LMNN, batches of 500": LMNN(sampling=MiniBatches(500, "random")),
    "LMNN, batches of 1000": LMNN(sampling=MiniBatches(1000, "random")),
    "LMNN, batches of 2000": LMNN(sampling=MiniBatches(2000, "random")),
    "LMNN, clusters of 1000": LMNN(sampling=MiniBatches(1000)),
    "LMNN, 250 queries against all": LMNN(sampling=StochasticQueries(250)),
}
HEAD = """# LMNN in batches

Digits of mnist, training rows only: three quarters learn, a quarter is scored by the default votes
(NCA: by its posterior).  Core seconds are processor time of the fit, of all threads together.

| rows | method | core s | steps | loss of LMNN | error, % |
| ---: | --- | ---: | ---: | ---: | ---: |
"""


def digits(folder: Path, n: int) -> list[np.ndarray]:
    """Rows to learn from, rows to score, and their classes."""
    with np.load(folder / "mnist.npz", allow_pickle=False) as file:
        train = np.flatnonzero(file["is_train"])
        X, y = file["X"][train].astype(np.float32) / 255, file["y"][train]
    rows = np.random.RandomState(0).permutation(len(y))[:n]
    return train_test_split(X[rows], y[rows], test_size=0.25, stratify=y[rows], random_state=0)


def line(name: str, data: list[np.ndarray]) -> str:
    """One row of the table."""
    X, X_score, y, y_score = data
    model = METHODS[name].set_params(random_state=0)
    if hasattr(model, "k"):
        type(model)(sampling=model.sampling, max_iter=2, random_state=0).fit(X[:2100], y[:2100])
    began = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - began
    loss = f"{model.objective_:.2f}" if isinstance(model, LMNN) else ""
    error = 100 * (1 - model.score(X_score, y_score))
    return f"| {len(y)} | {name} | {seconds:.1f} | {model.n_iter_} | {loss} | {error:.2f} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 40_000])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    text = HEAD
    for n in options.rows:
        data = digits(options.data, n)
        for name in options.methods:
            text += line(name, data)
            print(text.splitlines()[-1], file=sys.stderr, flush=True)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
