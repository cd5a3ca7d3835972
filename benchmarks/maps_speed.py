"""What nonlinear maps cost: an evaluation of the map, and whole fits against peers.

    python benchmarks/maps_speed.py             # two minutes of an idle machine
    python benchmarks/maps_speed.py --quick     # few rows, to see that it runs
    python benchmarks/maps_speed.py --output    # also results/maps_speed.md

Each fit runs in a process of its own, after a small fit of the same kind, so that compiled code and
libraries are loaded.  Memory is the peak over that after the data were made (Linux only).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from _common import add_output, facts, progress, read_options, seconds, table, write
from _memory import give_back, measure, resident

N_FEATURES, N_CLASSES, N_TEST = 50, 10, 5000
_WARM_UP = 1500  # rows of the small fit

FITS = {
    "NCA, linear": "NCA(alpha=3e-3)",
    "NCA, periodic": "NCA(mapping='periodic')",
    "NCA, layers": "NCA(mapping=MLP())",
    "NCA, periodic and layers": "NCA(mapping=Periodic(then=MLP()))",
    "boosted trees": "HistGradientBoostingClassifier(early_stopping=True)",
    "network": "make_pipeline(StandardScaler(), MLPClassifier(early_stopping=True))",
}
FIT_NOTES = [
    f"{N_FEATURES} columns, {N_CLASSES} classes by the largest of {N_CLASSES} scores, each a sum "
    f"of linear and periodic terms of ten columns, with noise; accuracy on {N_TEST:,} other rows",
    "all with random_state=0, otherwise default parameters; MiB beyond the input",
]


def data(n: int, seed: int = 1) -> tuple[Any, Any]:
    """Rows whose classes depend on bent single columns; other seeds draw other rows."""
    fixed, rng = np.random.default_rng(0), np.random.default_rng(seed)
    columns = np.array([fixed.permutation(N_FEATURES)[:10] for _ in range(N_CLASSES)])
    weights = fixed.normal(size=(2, N_CLASSES, 10))
    speed = fixed.uniform(1.0, 3.0, size=(N_CLASSES, 10))
    X = rng.standard_normal((n, N_FEATURES)).astype(np.float32)
    y = np.empty(n, dtype=int)
    for first in range(0, n, 1024):  # in blocks: nothing is left over in a measurement of memory
        x = X[first : first + 1024][:, columns]
        scores = np.sum(weights[0] * x + 2.0 * weights[1] * np.sin(speed * x), axis=2)
        y[first : first + 1024] = np.argmax(scores + rng.normal(size=scores.shape), axis=1)
    return X, y


def estimator(words: str) -> Any:
    """The estimator of a line."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from vicinal import NCA
    from vicinal.maps import MLP, Periodic

    known = (NCA, MLP, Periodic, HistGradientBoostingClassifier, MLPClassifier)
    names = {part.__name__: part for part in (*known, make_pipeline, StandardScaler)}
    model = eval(words, names)
    seeds = {name: 0 for name in model.get_params() if name.endswith("random_state")}
    return model.set_params(**seeds)


def one(words: str, n: int) -> None:
    """Measure one fit, and print the result as JSON."""
    warnings.simplefilter("ignore")
    estimator(words).fit(*data(min(n, _WARM_UP)))
    X, y = data(n)
    model = estimator(words)
    give_back()
    began = time.process_time()
    took, peak = measure(lambda: model.fit(X, y), resident())
    cpu = time.process_time() - began
    accuracy = model.score(*data(N_TEST, seed=2))
    print(json.dumps({"took": took, "cpu": cpu, "peak": peak, "accuracy": accuracy}))


def fits(sizes: tuple[int, ...]) -> list[list[str]]:
    """The lines of the table of fits."""
    lines = []
    for n in sizes:
        for name, words in FITS.items():
            command = [sys.executable, __file__, "--one", words, str(n)]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(run.stdout.splitlines()[-1])
            peak = "–" if found["peak"] is None else f"{found['peak'] / 2**20:.0f}"
            lines.append(
                [f"{n:,}", name, seconds(found["took"]), seconds(found["cpu"]), peak,
                 f"{100 * found['accuracy']:.1f} %"]
            )  # fmt: skip
            progress(" | ".join(lines[-1]))
    return lines


def evaluations(sizes: tuple[int, ...], repeats: int) -> list[list[str]]:
    """The lines of the table of forward passes and pull-backs."""
    from vicinal._features import Features
    from vicinal.maps import MLP, Linear, Periodic

    maps: dict[str, Any] = {
        "linear": Linear(32),
        "periodic": Periodic(n_components=32),
        "periodic and layers": Periodic(then=MLP(), n_components=32),
        "layers": MLP(n_components=32),
    }
    rng, lines = np.random.default_rng(0), []
    for n in sizes:
        X = Features(data(n)[0], "standard")
        for name, mapping in maps.items():
            cells = []
            for dtype in (np.float32, np.float64):
                theta, dZ = _somewhere(mapping, X, rng), rng.standard_normal((n, 32)).astype(dtype)
                pull = mapping.forward(theta, X, dtype)[1]
                best = [np.inf, np.inf]
                for _ in range(repeats):
                    for i, call in enumerate(
                        (lambda: mapping.forward(theta, X, dtype), lambda: pull(dZ))  # noqa: B023
                    ):
                        began = time.process_time()
                        call()
                        best[i] = min(best[i], time.process_time() - began)
                cells += [f"{1e9 * taken / n:.0f} ns" for taken in best]
            lines.append([f"{n:,}", name, *cells])
            progress(" | ".join(lines[-1]))
    return lines


def _somewhere(mapping: Any, X: Any, rng: np.random.Generator) -> Any:
    """Parameters of a map, away from zero."""
    if not hasattr(mapping, "start_from"):
        return rng.standard_normal(32 * X.shape[1])
    rows, theta_of = mapping.start_from(X, np.random.RandomState(0))
    return theta_of(0.1 * rng.standard_normal((32, rows.shape[1])))


def main(arguments: list[str] | None = None) -> None:
    """Measure and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it runs")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    add_output(parser, "maps_speed")
    options = read_options(parser, arguments)
    if options.one is not None:
        one(options.one[0], int(options.one[1]))
        return
    about = facts()
    sizes, rows = ((400,), (600,)) if options.quick else ((12_000,), (60_000,))
    header = ["rows", "map", "forward, float32", "back", "forward, float64", "back"]
    notes = [
        f"time of the processor for each row of {N_FEATURES} columns, in 32 dimensions; back: the "
        "pull-back, which computes the layers once more; the least of the repeats"
    ]
    cost = table(header, evaluations(sizes, 2 if options.quick else 10), notes)
    header = ["rows", "method", "seconds", "of the processor", "memory, MiB", "accuracy"]
    title = "# Nonlinear maps: evaluations, and fits against peers"
    report = "\n\n".join([title, about, cost, table(header, fits(rows), FIT_NOTES)])
    print(report, flush=True)
    write(report, options.output)


if __name__ == "__main__":
    main()
