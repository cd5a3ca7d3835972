"""What metric-learn's LMNN computes at given maps, kept for the tests.

Runs in an environment of its own, because metric-learn 0.7.0 does not run with scikit-learn 1.8
or newer, and needs nothing of vicinal::

    python3.11 -m venv ML
    ML/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2
    ML/bin/python benchmarks/metric_learn_lmnn.py

It was run once and wrote ``tests/data/metric_learn_lmnn.json``, which
`tests/estimators/test_lmnn_peer.py` reads.  Another run writes the same numbers, up to the order in
which BLAS adds.

Read from the code (``metric_learn/lmnn.py``, ``_loss_grad``), with D(i, j) = |L x_i - L x_j|², t_i
the k target neighbours of row i and r the parameter ``regularization``::

    objective = r Σ_i Σ_{j in t_i} D(i, j)
                + (1 - r) Σ_i Σ_{j in t_i} Σ_{l: y_l ≠ y_i} [1 + D(i, j) - D(i, l)]₊
    gradient  = d objective / dL, of L's shape, its factor 2 included

- r weighs the pull and 1 - r the push; the reference in metric-learn's own tests has it the other
  way round, which nobody sees at the default 0.5.
- Sums, not means.  The margin is 1 and cannot be changed.
- Target neighbours are the nearest of the own class in X as given, before L, without the row
  itself; they are not symmetric, and stay as they are whatever L becomes.
- Each triple (i, j, l) counts once.  Pairs (i, l) are searched once for both directions, out to the
  *farthest* target under the present L, and then tested from either end for each target: nothing
  is missed and nothing counted twice.
- A hinge that is exactly 0 is not active (``<``): it adds nothing to the gradient.

With the mean over the n rows that vicinal uses, and μ for the weight of the push::

    objective = n r · lmnn(Z = X Lᵀ, mu=(1 - r) / r, margin=1),   gradient = n r · dZᵀ X

which `check` below confirms for every case before anything is written.
"""

from __future__ import annotations

import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from metric_learn import LMNN
from metric_learn.lmnn import _sum_outer_products

OUTPUT = Path(__file__).parents[1] / "tests" / "data" / "metric_learn_lmnn.json"
#: never 0.5, where pull and push could be exchanged unseen
REGULARIZATIONS = (0.3, 0.7)
KS = (1, 3)
TOLERANCE = 1e-12


def blobs() -> dict[str, Any]:
    """Three overlapping classes of unequal size, and maps that turn, shear and flatten."""
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1, 2], [18, 14, 8])[rng.permutation(40)]
    X = rng.standard_normal((40, 5)) + 0.8 * rng.standard_normal((3, 5))[y]
    maps = {"square": rng.standard_normal((5, 5)), "flat": rng.standard_normal((2, 5))}
    # three decimals are enough, and short to store
    return {
        "X": np.round(X, 3), "y": y, "maps": {name: np.round(L, 3) for name, L in maps.items()},
    }  # fmt: skip


def grid() -> dict[str, Any]:
    """A lattice under maps of integers: many hinges are exactly 0, and all sums are exact."""
    X = np.array(list(np.ndindex(3, 3, 3))) - 1.0
    y = (np.arange(27) * 7 // 4) % 3
    square = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 2.0]])
    return {"X": X, "y": y, "maps": {"square": square, "flat": square[:2]}}


def apart() -> dict[str, Any]:
    """Two classes so far from each other that nothing is pushed."""
    rng = np.random.default_rng(6)
    y = np.arange(16) % 2
    X = np.round(rng.standard_normal((16, 3)) + 40.0 * y[:, None], 3)
    return {"X": X, "y": y, "maps": {"flat": np.array([[0.5, 0.3, -0.2], [0.1, 0.7, 0.4]])}}


DATA = {"blobs": blobs, "grid": grid, "apart": apart}


def select(X: Any, y: Any, k: int) -> Any:
    """The target neighbours that metric-learn chooses, (n, k)."""
    model = LMNN(n_neighbors=k)
    model.labels_ = np.unique(y)
    return model._select_targets(X, y)


def theirs(X: Any, y: Any, L: Any, targets: Any, r: float) -> tuple[float, Any, int]:
    """metric-learn's objective, its gradient by L, and how many hinges are active."""
    n, k = targets.shape
    model = LMNN(n_neighbors=k, regularization=r)
    model.labels_ = np.unique(y)
    pull = _sum_outer_products(X, targets.ravel(), np.repeat(np.arange(n), k))  # as in `fit`
    gradient, objective, active = model._loss_grad(X, L, pull, k, r, targets, y)
    return float(objective), gradient, int(active)


def plain(Z: Any, y: Any, targets: Any, mu: float) -> tuple[float, Any, int, int]:
    """vicinal's formula, a triple after the other: mean, dZ, active hinges and those exactly 0."""
    n = len(Z)
    value, dZ, active, at_zero = 0.0, np.zeros_like(Z), 0, 0
    for i in range(n):
        for j in targets[i]:
            to_j = Z[i] - Z[j]
            value += to_j @ to_j
            dZ[i] += 2.0 * to_j
            dZ[j] -= 2.0 * to_j
            for l in np.flatnonzero(y != y[i]):
                to_l = Z[i] - Z[l]
                hinge = 1.0 + to_j @ to_j - to_l @ to_l
                at_zero += hinge == 0.0
                if hinge > 0.0:
                    active += 1
                    value += mu * hinge
                    dZ[i] += 2.0 * mu * (to_j - to_l)
                    dZ[j] -= 2.0 * mu * to_j
                    dZ[l] += 2.0 * mu * to_l
    return value / n, dZ / n, active, int(at_zero)


def check(X: Any, y: Any, L: Any, targets: Any, r: float) -> dict[str, Any]:
    """One case to store, after both formulas agreed on it."""
    n = len(X)
    objective, gradient, active = theirs(X, y, L, targets, r)
    value, dZ, n_active, at_zero = plain(X @ L.T, y, targets, (1.0 - r) / r)
    assert active == n_active, (active, n_active)
    assert abs(n * r * value - objective) <= TOLERANCE * abs(objective)
    assert np.abs(n * r * dZ.T @ X - gradient).max() <= TOLERANCE * np.abs(gradient).max()
    return {
        "regularization": r, "active": active, "at_zero": at_zero, "objective": objective,
        "gradient": gradient.tolist(),
    }  # fmt: skip


def main() -> None:
    """Compute, compare and write."""
    warnings.simplefilter("ignore", FutureWarning)  # scikit-learn's, of a renamed argument
    data, cases = {}, []
    for name, make in DATA.items():
        made = make()
        X, y, maps = made["X"], made["y"], made["maps"]
        targets = {k: select(X, y, k) for k in KS}
        data[name] = {
            "X": X.tolist(), "y": y.tolist(),
            "maps": {kind: L.tolist() for kind, L in maps.items()},
            "targets": {str(k): chosen.tolist() for k, chosen in targets.items()},
        }  # fmt: skip
        for kind, L in maps.items():
            for k in KS:
                for r in REGULARIZATIONS:
                    case = check(X, y, L, targets[k], r)
                    cases.append({"data": name, "map": kind, "k": k, **case})
                    print(name, kind, f"k = {k}, r = {r}:", case["active"], "active,",
                          case["at_zero"], "at zero")  # fmt: skip
    made_by = {"script": f"benchmarks/{Path(__file__).name}", "python": platform.python_version()}
    made_by |= {name: version(name) for name in ("metric-learn", "scikit-learn", "numpy")}
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(_lines(made_by, data, cases))


def _lines(made_by: dict[str, str], data: dict[str, Any], cases: list[Any]) -> str:
    """JSON with a line for each array and each case: neither a number a line nor one line."""
    sets = []
    for name, parts in data.items():
        inside = ",\n".join(f'   "{key}": {json.dumps(part)}' for key, part in parts.items())
        sets.append(f'  "{name}": {{\n{inside}\n  }}')
    blocks = [f' "made_by": {json.dumps(made_by)}']
    for name, (opening, closing), lines in (
        ("data", "{}", sets),
        ("cases", "[]", [f"  {json.dumps(case)}" for case in cases]),
    ):
        inside = ",\n".join(lines)
        blocks.append(f' "{name}": {opening}\n{inside}\n {closing}')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    main()
