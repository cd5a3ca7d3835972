"""Write the files of this release that later releases must read: run once for each schema.

``python tests/storage/make_data.py PREFIX`` writes ``data/PREFIX-*.vic``, and beside each file what
its model says of a few rows.  Files of earlier releases are never written again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from storage_models import answers, fitted

import vicinal

DATA = Path(__file__).parent / "data"
KEPT = (
    "nca words", "nca objects", "nca sparse", "nca network", "nca periodic", "nca background",
    "nca distributions", "nca stream", "nca warm", "knca", "lmnn", "chi2 lmnn", "mlkr",
    "nca regressor", "ksne", "ksne map", "itml", "from labels", "covariance", "pipeline",
    "metric_learn nca",
)  # fmt: skip

if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for name in KEPT:
        path = DATA / f"{sys.argv[1]}-{name.replace(' ', '-')}.vic"
        if path.exists():
            raise SystemExit(f"{path} exists: files that releases have written stay as they are.")
        vicinal.save(fitted(name), path)
        said = answers(fitted(name))
        said = {k: a.astype(str) if a.dtype == object else a for k, a in said.items()}
        np.savez_compressed(path.with_suffix(".npz"), **said)
