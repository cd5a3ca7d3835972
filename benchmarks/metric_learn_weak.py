"""What metric-learn's ITML, MMC, SDML and LSML learn from given constraints, kept for the tests.

Runs in an environment of its own, because metric-learn 0.7.0 does not run with scikit-learn 1.8
or newer, and needs nothing of vicinal::

    python3.11 -m venv ML
    ML/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2
    ML/bin/python benchmarks/metric_learn_weak.py

It was run once and wrote ``tests/data/metric_learn_weak.json``, which
`tests/estimators/test_weak_peer.py` reads.

Read from the code, and confirmed below where it can be:

- ITML (``itml.py``) has the step for any gamma, as we have it.  Its default bounds are percentiles
  of *unsquared* distances between all rows, each with itself included, and under the identity
  whatever the prior is; they are then compared with *squared* distances.
- MMC (``mmc.py``, full): projected gradient steps from ``init``, whose step shrinks until it is
  "converged"; where it ends depends on ``init``.  The scale of M is such that similar pairs have a
  hundredth of the squared distances they had under ``init``.
- MMC (diagonal): each Newton step is shrunk while the objective falls, which ends before the
  minimum is reached.
- LSML (``lsml.py``, ``_gradient``): the gradient leaves out the weights of the quadruplets, which
  add up to one, while the loss has them.  So it is a gradient of another function, and the search
  along it ends where the loss no longer falls that way.
- SDML (``sdml.py``): scikit-learn's graphical lasso, with its default tolerance.  It passes
  ``cov_init``, a start, which scikit-learn 1.5 and newer do not take, so that every fit fails;
  `without_start` leaves it out.  If the matrix is not positive definite, it warns and tries.
"""

from __future__ import annotations

import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from metric_learn import ITML, LSML, MMC, SDML, sdml
from sklearn.covariance import graphical_lasso

OUTPUT = Path(__file__).parents[1] / "tests" / "data" / "metric_learn_weak.json"
N_PAIRS = 40


def without_start(*args: Any, cov_init: Any = None, **kwargs: Any) -> Any:
    """scikit-learn's graphical lasso, which metric-learn calls with an argument it had."""
    return graphical_lasso(*args, **kwargs)


def constraints() -> dict[str, Any]:
    """Three overlapping classes, pairs of both kinds and quadruplets; three decimals."""
    rng = np.random.default_rng(8)
    y = rng.integers(3, size=30)
    X = np.round(rng.standard_normal((30, 4)) * [1, 2, 0.5, 1] + 1.5 * np.eye(3, 4)[y], 3)
    pairs = np.array([rng.choice(30, 2, replace=False) for _ in range(200)])
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    similar, dissimilar = pairs[same][:N_PAIRS], pairs[~same][:N_PAIRS]
    return {
        "X": X,
        "pairs": np.concatenate([similar, dissimilar]),
        "y": np.repeat([1, -1], N_PAIRS),
        "quadruplets": np.concatenate([similar, dissimilar], axis=1),
        "weights": np.round(rng.random(N_PAIRS) + 0.1, 3),
    }


def cases(made: dict[str, Any]) -> dict[str, Any]:
    """The matrix that each learns, and what it was told."""
    X, y = made["X"], made["y"]
    pairs, quadruplets = X[made["pairs"]], X[made["quadruplets"]]
    found: dict[str, Any] = {}

    def keep(name: str, model: Any, **told: Any) -> None:
        found[name] = {**told, "M": model.get_mahalanobis_matrix().tolist()}

    bounds = [1.3, 8.7]
    for gamma in (0.3, 1.0, 4.0):
        model = ITML(gamma=gamma, max_iter=200_000, tol=1e-9).fit(pairs, y, bounds=bounds)
        keep(f"itml {gamma}", model, gamma=gamma, bounds=bounds)
    default = ITML(max_iter=5).fit(pairs, y)
    points = np.unique(np.vstack(pairs), axis=0)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    assert np.allclose(default.bounds_, np.percentile(distances, (5, 95)))
    keep("mmc", MMC(max_iter=1000, tol=1e-8).fit(pairs, y))
    keep("mmc from the covariance", MMC(init="covariance", max_iter=1000, tol=1e-8).fit(pairs, y))
    keep("mmc diagonal", MMC(diagonal=True, max_iter=1000, tol=1e-8).fit(pairs, y))
    for balance, sparsity in ((0.003, 0.05), (0.001, 0.2)):
        model = SDML(balance_param=balance, sparsity_param=sparsity).fit(pairs, y)
        keep(f"sdml {sparsity}", model, balance=balance, sparsity=sparsity)
    keep("lsml", LSML(tol=1e-8, max_iter=10_000).fit(quadruplets))
    weights = made["weights"]
    model = LSML(tol=1e-8, max_iter=10_000).fit(quadruplets, weights=weights.copy())
    keep("lsml weights", model)
    return found


def main() -> None:
    """Compute and write."""
    warnings.simplefilter("ignore", FutureWarning)  # scikit-learn's, of a renamed argument
    sdml.graphical_lasso = without_start
    made = constraints()
    made_by = {"script": f"benchmarks/{Path(__file__).name}", "python": platform.python_version()}
    made_by |= {name: version(name) for name in ("metric-learn", "scikit-learn", "numpy")}
    stored = {key: value.tolist() for key, value in made.items()}
    lines = [f' "made_by": {json.dumps(made_by)}']
    for name, part in (("data", stored), ("cases", cases(made))):
        inside = ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in part.items())
        lines.append(f' "{name}": {{\n{inside}\n }}')
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
