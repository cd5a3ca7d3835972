"""LMNN beside other libraries: seconds of a fit, and what it does for three nearest neighbours.

    python benchmarks/lmnn_speed.py --metric-learn-python A/bin/python --pylmnn-python B/bin/python
    python benchmarks/lmnn_speed.py --only peers        # all but vicinal
    python benchmarks/lmnn_speed.py --quick             # small data, under a minute
    python benchmarks/lmnn_speed.py --output            # also benchmarks/results/lmnn_speed.md

The peers need environments of their own, made once::

    python3.11 -m venv A && A/bin/pip install metric-learn==0.7.0 scikit-learn==1.7.2
    python3.11 -m venv B && B/bin/pip install PyLMNN==1.6.4 six scikit-learn==1.9.1 scipy==1.10.1

What is not given is left out, and the report says so.  mlpack is looked for in this environment.
Prints one report in markdown on standard output, and progress on standard error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import Times, add_output, facts, progress, ratio, seconds, table, write
from sklearn.datasets import load_digits, make_classification
from sklearn.neighbors import NearestNeighbors

WORKER = Path(__file__).with_name("_lmnn_worker.py")
PEERS = ("metric-learn", "PyLMNN", "mlpack", "mlpack-25")
METHODS = ("vicinal", *PEERS)
K = 3


class Outcome(NamedTuple):
    """How the fits of one library went on one table."""

    times: Times | None  # None where no fit came to an end
    processor: float
    accuracy: float
    iterations: int | None
    versions: list[str]
    trouble: str = ""


def tables_of(quick: bool) -> dict[str, tuple[Any, Any]]:
    """The data sets by name."""
    X, y = load_digits(return_X_y=True)
    n, n_features = (600, 20) if quick else (10_000, 50)
    made = make_classification(
        n_samples=n, n_features=n_features, n_informative=20 if not quick else 8, n_classes=10,
        random_state=0,
    )  # fmt: skip
    if quick:
        X, y = X[:300], y[:300]
    return {
        f"digits ({X.shape[0]:,} × {X.shape[1]})": (X, y),
        f"synthetic ({n:,} × {n_features})": made,
    }


def left_out_accuracy(Z: Any, y: Any) -> float:
    """Share of the rows that the vote of their three nearest others gets right."""
    nearest = NearestNeighbors(n_neighbors=K).fit(Z).kneighbors(return_distance=False)
    classes = np.unique(y)
    votes = (y[nearest][:, :, None] == classes).sum(axis=1)
    return float((classes[votes.argmax(axis=1)] == y).mean())


def interpreters(options: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """The Python that runs each method, and a line for each that is left out."""
    asked = {name for choice in options.only for name in (PEERS if choice == "peers" else [choice])}
    mlpack = sys.executable if find_spec("mlpack") else None
    given = {
        "vicinal": sys.executable,
        "metric-learn": options.metric_learn_python,
        "PyLMNN": options.pylmnn_python,
        "mlpack": mlpack,
        "mlpack-25": mlpack,
    }
    why = {
        "metric-learn": "no --metric-learn-python was given",
        "PyLMNN": "no --pylmnn-python was given",
        "mlpack": "it is not installed here",
        "mlpack-25": "mlpack is not installed here",
    }
    pythons = {name: given[name] for name in METHODS if name in asked and given[name]}
    left_out = [
        f"{name} is left out: " + (why[name] if name in asked else "it was not asked for") + "."
        for name in METHODS
        if name not in pythons
    ]
    return pythons, left_out


def fit_once(python: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """One fit in a fresh process: the worker's answer, or what went wrong."""
    command = [python, str(WORKER), method, str(folder), str(K)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"trouble": f"over {limit:g} s"}
    except OSError as error:
        return {"trouble": f"could not be started ({type(error).__name__})"}
    if done.returncode:
        words = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        return {"trouble": f"failed: {words[:120].replace('|', '/')}"}
    return json.loads(done.stdout.splitlines()[-1])  # libraries may print before


def compete(
    pythons: dict[str, str], X: Any, y: Any, options: argparse.Namespace
) -> dict[str, Outcome]:
    """All methods on one table, in turns, so that a drift of the machine hits them all."""
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in pythons}
    accuracy = dict.fromkeys(pythons, 0.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "data.npz", X=X, y=y)
        for turn in range(options.repeats):
            for method, python in pythons.items():
                past = answers[method]
                spent = sum(answer.get("seconds", np.inf) for answer in past)
                if spent > options.budget:
                    continue
                progress(f"{X.shape[0]:,} rows: {method}, fit {turn + 1}")
                past.append(fit_once(python, method, folder, options.limit))
                if "seconds" in past[-1]:
                    accuracy[method] = left_out_accuracy(np.load(folder / f"{method}.npy"), y)
    return {name: _outcome(answers[name], accuracy[name]) for name in pythons}


def _outcome(answers: list[dict[str, Any]], accuracy: float) -> Outcome:
    finished = [answer for answer in answers if "seconds" in answer]
    trouble = next((answer["trouble"] for answer in answers if "trouble" in answer), "")
    if not finished:
        return Outcome(None, 0.0, 0.0, None, [], trouble)
    times = Times(tuple(answer["seconds"] for answer in finished))
    last = finished[-1]
    processor = min(answer["processor"] for answer in finished)
    return Outcome(times, processor, accuracy, last["iterations"], last["versions"], trouble)


def _row(method: str, outcome: Outcome, ours: Outcome | None) -> list[str]:
    """Time, seconds of the processor, ratio, accuracy and iterations of a method."""
    if outcome.times is None:
        return [method, outcome.trouble, "–", "–", "–", "–"]
    compared = "–"
    if method != "vicinal" and ours is not None and ours.times is not None:
        compared = ratio(outcome.times.median, ours.times.median)
    iterations = "–" if outcome.iterations is None else str(outcome.iterations)
    shown = f"{outcome.times}{'; ' + outcome.trouble if outcome.trouble else ''}"
    return [method, shown, seconds(outcome.processor), compared, f"{outcome.accuracy:.4f}",
            iterations]  # fmt: skip


def report(options: argparse.Namespace) -> str:
    """The table and what is to be known about it."""
    pythons, left_out = interpreters(options)
    rows, versions = [], []
    for name, (X, y) in tables_of(options.quick).items():
        before = f"{left_out_accuracy(X, y):.4f}"
        outcomes = compete(pythons, X, y, options)
        for method, outcome in outcomes.items():
            method, *cells, after, iterations = _row(method, outcome, outcomes.get("vicinal"))
            rows.append([name, method, *cells, before, after, iterations])
            if outcome.versions:
                versions.append(f"{method}: {', '.join(outcome.versions)}")
    header = ["data", "method", "fit", "processor", "ratio to vicinal", "3-NN before", "after",
              "iterations"]  # fmt: skip
    return table(header, rows, [*NOTES, *_limits(options), *dict.fromkeys(versions), *left_out])


NOTES = (
    f"Square maps, {K} target neighbours, all else as each library has it by default (mlpack: its "
    "L-BFGS); float64, columns as they are, all cores. Each fit in a fresh process; import and "
    "reading are not counted, nor is compilation: vicinal has fitted a slice before.",
    "fit: median (least) seconds of the repeats, which take turns; processor: least seconds of all "
    "cores together, which a busy machine changes less; ratio: of the medians.",
    f"3-NN: share of the rows that the vote of their {K} nearest others gets right.",
    "The libraries do not minimise the same: metric-learn, like vicinal, the hinges of all "
    "impostors; PyLMNN the squares of hinges, of at most 500,000 pairs, drawn anew each time; "
    f"mlpack the hinges of the {K} nearest impostors of a row. mlpack-25: 25 iterations of it.",
    "synthetic: `make_classification(n_informative=20, n_classes=10, random_state=0)`, 8 in place "
    "of 20 in quick runs.",
)


def _limits(options: argparse.Namespace) -> list[str]:
    return [f"A process is given up after {options.limit:g} s, start and import included."]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metric-learn-python", metavar="PATH", help="interpreter with it")
    parser.add_argument("--pylmnn-python", metavar="PATH", help="interpreter with it")
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--only", nargs="+", choices=(*METHODS, "peers"), default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=3, help="fits of each, at most")
    parser.add_argument("--budget", type=float, default=15.0,
                        help="seconds after which a method is not fitted again")  # fmt: skip
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of one process")
    add_output(parser, "lmnn_speed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run and print the report."""
    options = parse(arguments)
    began = time.perf_counter()
    text = "\n\n".join(["# LMNN beside other libraries", facts(), report(options)])
    print(text)
    progress(f"done in {time.perf_counter() - began:.0f} s")
    write(text, options.output)


if __name__ == "__main__":
    main()
