"""Signatures of metric-learn's classes, and the metrics that they learn, kept for the tests.

Runs in an environment of its own, because metric-learn 0.7.0 does not run with scikit-learn 1.8
or newer, and needs nothing of vicinal::

    python3.11 -m venv ML
    ML/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2
    ML/bin/python benchmarks/metric_learn_facts.py

It was run once and wrote ``tests/data/metric_learn_facts.json``, which `tests/compat/` and
`tests/estimators/test_lfda.py` read.

Read from the code (``metric_learn/lfda.py``), and measured here:

- ``k`` is limited to the number of *features* less one, and once a class of k rows or fewer was
  seen, to its size for all classes after it.
- The scale of row i of a class is ``np.partition(dist, k, axis=0)[:, k]``: a column, that is the
  distance between some row and row k, where the distance of row i to its k-th neighbour is meant.
- The scatter within is added to that between where [Sugiyama2007] subtracts it: eigenvalues are too
  large by 2, and so the lengths of the "weighted" rows; "plain" and "orthonormalized" have none of
  it.

SDML fails with scikit-learn 1.7, whose ``graphical_lasso`` no longer has ``cov_init``.
"""

from __future__ import annotations

import inspect
import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import metric_learn as ml
import numpy as np

OUTPUT = Path(__file__).parents[1] / "tests" / "data" / "metric_learn_facts.json"
#: all classes that vicinal.compat.metric_learn has
NAMES = (
    "NCA", "LMNN", "MLKR", "LFDA", "RCA", "RCA_Supervised", "ITML", "ITML_Supervised", "MMC",
    "MMC_Supervised", "SDML", "SDML_Supervised", "LSML", "LSML_Supervised", "Covariance",
)  # fmt: skip
#: fits with other keywords than the defaults
FITS = {
    "LFDA": [
        {"n_components": 2, "k": 3, "embedding_type": embedding}
        for embedding in ("weighted", "orthonormalized", "plain")
    ],
    "RCA": [{}, {"n_components": 2}],
    "Covariance": [{}],
    "NCA": [{"init": "identity", "max_iter": 1000}, {"n_components": 2, "init": "pca"}],
    "LMNN": [{"n_neighbors": 3, "init": "identity", "learn_rate": 1e-4, "max_iter": 1000}],
    "MLKR": [{"init": "identity"}],
    "ITML": [{}, {"gamma": 0.3, "max_iter": 10_000, "tol": 1e-9}],
    "MMC": [{}, {"diagonal": True}],
    "SDML": [{}],
    "LSML": [{}],
    "RCA_Supervised": [{"random_state": 0, "n_chunks": 20}],
    "ITML_Supervised": [{"random_state": 0}],
    "MMC_Supervised": [{"random_state": 0}],
    "SDML_Supervised": [{"random_state": 0, "balance_param": 1e-5}],
    "LSML_Supervised": [{"random_state": 0}],
}


def table() -> dict[str, Any]:
    """Three overlapping classes of 14 rows, numbers, chunklets, pairs and quadruplets of rows."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], 14)
    X = np.round(rng.standard_normal((42, 4)) + 1.5 * rng.standard_normal((3, 4))[y], 3)
    chunks = np.where(rng.uniform(size=42) < 0.2, -1, 5 * y + rng.integers(0, 5, 42))
    chunks = np.where(chunks < 0, -1, np.unique(chunks, return_inverse=True)[1] - 1)
    a, b = rng.permutation(42)[:30], rng.permutation(42)[:30]
    pairs = np.stack([a, b], axis=1)[a != b]
    quadruplets = []
    while len(quadruplets) < 40:
        i, j, k, m = rng.permutation(42)[:4]
        if y[i] == y[j] and y[k] != y[m]:
            quadruplets.append([i, j, k, m])
    return {
        "X": X,
        "y": y,
        "numbers": np.round(X[:, 0] + np.sin(X[:, 1]), 3),
        "chunks": chunks,
        "pairs": pairs,
        "similar": np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1),
        "quadruplets": np.array(quadruplets),
    }


def told(name: str, data: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of ``fit``."""
    X = data["X"]
    if name in ("ITML", "MMC", "SDML"):
        return X[data["pairs"]], data["similar"]
    if name == "LSML":
        return (X[data["quadruplets"]],)
    if name == "Covariance":
        return (X,)
    return X, data[{"RCA": "chunks", "MLKR": "numbers"}.get(name, "y")]


def signature(name: str) -> dict[str, Any]:
    """The keywords of the constructor, in order, and their defaults."""
    parameters = inspect.signature(getattr(ml, name)).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def main() -> None:
    data = table()
    fits = []
    for name in NAMES:
        for keywords in FITS[name]:
            fit = {"class": name, "keywords": keywords}
            fits.append(fit)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = getattr(ml, name)(**keywords).fit(*told(name, data))
            except (ValueError, RuntimeError) as error:
                fit["error"] = str(error)
                print(f"{name:16} {keywords}  {error}")
                continue
            M = model.get_mahalanobis_matrix()
            print(f"{name:16} {keywords}  trace {np.trace(M):.4g}")
            fit |= {"M": M.tolist(), "threshold": getattr(model, "threshold_", None)}
    OUTPUT.write_text(
        json.dumps(
            {
                "versions": {p: version(p) for p in ("metric-learn", "scikit-learn", "numpy")}
                | {"python": platform.python_version()},
                "signatures": {name: signature(name) for name in NAMES},
                "data": {key: np.asarray(value).tolist() for key, value in data.items()},
                "fits": fits,
            },
            indent=None,
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
