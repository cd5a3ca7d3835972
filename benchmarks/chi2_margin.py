"""The margin of χ²-LMNN, as a share of the distance to the nearest row of the class.

Which share should ``margin="auto"`` take?  The comparison looks at training rows only: of each
table it sets 30 % aside for other pages, draws stratified splits of 70 / 30 inside the rest, fits
each share to the larger part and scores the smaller one.  All shares see the same splits.

    python benchmarks/chi2_margin.py --data DIR [--splits 3] [--out results/chi2_margin.md]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

from vicinal import Chi2LMNN
from vicinal.estimators.chi2_lmnn import own_class_distance

SHARES = (Fraction(1, 10), Fraction(1, 6), Fraction(1, 4))
TABLES = ("webcam", "dslr", "amazon", "caltech10", "usps")
MOST_ROWS = 500  # of a table: more take minutes a fit
RANKS = (20, None)


def training_rows(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The training rows of a table, as histograms."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"].astype(np.float32), file["y"]
    if len(y) > MOST_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MOST_ROWS, stratify=y, random_state=0)
    X, _, y, _ = train_test_split(X, y, train_size=0.7, stratify=y, random_state=0)
    return X / X.sum(axis=1, keepdims=True), y


def scores(X: np.ndarray, y: np.ndarray, rank: int | None, splits: int) -> np.ndarray:
    """Held-out accuracy in per cent: a row for each split, a column for each share."""
    splitter = StratifiedShuffleSplit(splits, test_size=0.3, random_state=0)
    out = np.empty((splits, len(SHARES)))
    for i, (learn, score) in enumerate(splitter.split(X, y)):
        unit = own_class_distance(X[learn], y[learn])
        for j, share in enumerate(SHARES):
            model = Chi2LMNN(rank, margin=float(share) * unit, random_state=0)
            out[i, j] = 100 * model.fit(X[learn], y[learn]).score(X[score], y[score])
    return out


def page(found: dict[tuple[str, str], np.ndarray], splits: int) -> str:
    """The results as a page."""
    lines = [
        "# The margin of χ²-LMNN",
        "",
        "Held-out accuracy in per cent inside the training rows, with the margin as a share of the",
        f"distance to the nearest row of the class; means over {splits} splits, and the standard",
        "error of the difference to a sixth, paired by split.",
        "",
        "| table | r | " + " | ".join(str(share) for share in SHARES) + " |",
        "| --- | --- |" + " ---: |" * len(SHARES),
    ]
    sixth = SHARES.index(Fraction(1, 6))
    for (table, rank), values in found.items():
        cells = []
        for j in range(len(SHARES)):
            gain = values[:, j] - values[:, sixth]
            error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
            more = "" if j == sixth else f" ({gain.mean():+.1f} ± {error:.1f})"
            cells.append(f"{values[:, j].mean():.1f}{more}")
        lines.append(f"| {table} | {rank} | " + " | ".join(cells) + " |")
    mean = np.mean([values.mean(axis=0) for values in found.values()], axis=0)
    lines.append("| mean | | " + " | ".join(f"{m:.1f}" for m in mean) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[tuple[str, str], np.ndarray] = {}
    for table in options.tables:
        X, y = training_rows(options.data, table)
        for rank in RANKS:
            began = time.process_time()
            name = str(X.shape[1] if rank is None else rank)
            found[table, name] = scores(X, y, rank, options.splits)
            means = ", ".join(f"{m:.1f}" for m in found[table, name].mean(axis=0))
            seconds = time.process_time() - began
            print(f"{table} r={name}: {means}; {seconds:.0f} core s", file=sys.stderr, flush=True)
    text = page(found, options.splits)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
