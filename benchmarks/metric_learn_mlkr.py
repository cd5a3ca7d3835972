"""What metric-learn's MLKR computes at given maps, kept for the tests.

Runs in an environment of its own, because metric-learn 0.7.0 does not run with scikit-learn 1.8
or newer, and needs nothing of vicinal::

    python3.11 -m venv ML
    ML/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2
    ML/bin/python benchmarks/metric_learn_mlkr.py

It was run once and wrote ``tests/data/metric_learn_mlkr.json``, which
`tests/estimators/test_mlkr_peer.py` reads.  Another run writes the same numbers, up to the order in
which BLAS adds.

Read from the code (``metric_learn/mlkr.py``, ``_loss``), with p_ij the softmax of -|A x_i - A x_j|²
over j ≠ i and ŷ_i = Σ_j p_ij y_j::

    cost     = Σ_i (y_i - ŷ_i)²
    gradient = d cost / dA, of A's shape, its factor 4 included

- A sum, not a mean; no penalty; y as it is given, neither centred nor scaled.
- One number for each row: y of two dimensions is refused.

With the mean over the n rows that vicinal uses::

    cost = n · mlkr(Z = X Aᵀ, y),   gradient = n · dZᵀ X

which `check` below confirms for every case before anything is written.
"""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from metric_learn import MLKR

OUTPUT = Path(__file__).parents[1] / "tests" / "data" / "metric_learn_mlkr.json"
TOLERANCE = 1e-12
#: factors of the maps: from nearly equal weights to a hard nearest neighbour
SCALES = (0.1, 1.0, 4.0)


def waves() -> dict[str, Any]:
    """A wave along one direction, with noise; y far from zero."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((40, 5))
    y = 30.0 + np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_normal(40)
    maps = {"square": rng.standard_normal((5, 5)), "flat": rng.standard_normal((2, 5))}
    # three decimals are enough, and short to store
    rounded = {name: np.round(A, 3) for name, A in maps.items()}
    return {"X": np.round(X, 3), "y": np.round(y, 3), "maps": rounded}


def twins() -> dict[str, Any]:
    """Every row twice, with another number; some numbers equal."""
    rng = np.random.default_rng(8)
    X = np.repeat(np.round(rng.standard_normal((9, 3)), 3), 2, axis=0)
    y = np.round(2 * rng.standard_normal(18))
    square = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.0, 0.0, 2.0]])
    return {"X": X, "y": y, "maps": {"square": square, "flat": square[:1]}}


DATA = {"waves": waves, "twins": twins}


def theirs(X: Any, y: Any, A: Any) -> tuple[float, Any]:
    """metric-learn's cost, and its gradient by A."""
    model = MLKR()
    model.n_iter_ = 0
    cost, gradient = model._loss(A.ravel(), X, y)
    return float(cost), gradient.reshape(A.shape)


def plain(Z: Any, y: Any) -> tuple[float, Any]:
    """vicinal's formula, a row after the other: mean and dZ."""
    n = len(Z)
    value, dZ = 0.0, np.zeros_like(Z)
    for i in range(n):
        others = np.delete(np.arange(n), i)
        apart = Z[i] - Z[others]
        squared = np.sum(apart**2, axis=1)
        p = np.exp(squared.min() - squared)
        p /= p.sum()
        error = y[i] - p @ y[others]
        value += error**2
        slope = 2.0 * error * p * (y[others] - p @ y[others])  # by the squared distances
        dZ[i] += 2.0 * slope @ apart
        dZ[others] -= 2.0 * slope[:, None] * apart
    return value / n, dZ / n


def check(X: Any, y: Any, A: Any) -> dict[str, Any]:
    """One case to store, after both formulas agreed on it."""
    cost, gradient = theirs(X, y, A)
    value, dZ = plain(X @ A.T, y)
    assert abs(len(X) * value - cost) <= TOLERANCE * cost
    # theirs subtracts where y is far from zero, and so has fewer digits
    near = 1e-9 * max(np.abs(gradient).max(), cost)
    assert np.abs(len(X) * dZ.T @ X - gradient).max() <= near
    return {"cost": cost, "gradient": gradient.tolist()}


def main() -> None:
    """Compute, compare and write."""
    data, cases = {}, []
    for name, make in DATA.items():
        made = make()
        X, y, maps = made["X"], made["y"], made["maps"]
        data[name] = {
            "X": X.tolist(), "y": y.tolist(), "maps": {kind: A.tolist() for kind, A in maps.items()}
        }  # fmt: skip
        for kind, A in maps.items():
            for scale in SCALES:
                case = check(X, y, scale * A)
                cases.append({"data": name, "map": kind, "scale": scale, **case})
                print(name, kind, f"times {scale}:", case["cost"])
    made_by = {"script": f"benchmarks/{Path(__file__).name}", "python": platform.python_version()}
    made_by |= {name: version(name) for name in ("metric-learn", "scikit-learn", "numpy")}
    OUTPUT.write_text(_lines(made_by, data, cases))


def _lines(made_by: dict[str, str], data: dict[str, Any], cases: list[Any]) -> str:
    """JSON with a line for each array and each case: neither a number a line nor one line."""
    sets = []
    for name, parts in data.items():
        inside = ",\n".join(f'   "{key}": {json.dumps(part)}' for key, part in parts.items())
        sets.append(f'  "{name}": {{\n{inside}\n  }}')
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    parts = ",\n".join(sets)
    head = f' "made_by": {json.dumps(made_by)}'
    return f'{{\n{head},\n "data": {{\n{parts}\n }},\n "cases": [\n{lines}\n ]\n}}\n'


if __name__ == "__main__":
    main()
