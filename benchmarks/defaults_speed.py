"""With defaults, against the libraries that users come from: each ratio with its target.

    python benchmarks/environments.py metric-learn openTSNE   # once
    python benchmarks/defaults_speed.py                       # half an hour of an idle machine
    python benchmarks/defaults_speed.py --only nca first      # some of the parts
    python benchmarks/defaults_speed.py --output              # also results/defaults_speed.md

A ratio is the time of the other library over ours on the same work in the same run: above 1 ours is
faster.  With ``VICINAL_DATA`` the pictures are of mnist and usps, and of made-up rows otherwise.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from _common import (
    add_output,
    clock,
    progress,
    ratio,
    read_options,
    report_sections,
    seconds,
    table,
)
from environments import python_of
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.model_selection import train_test_split

TABLES: dict[str, Callable[[], Any]] = {
    "iris": partial(load_iris, return_X_y=True),
    "wine": partial(load_wine, return_X_y=True),
    "breast_cancer": partial(load_breast_cancer, return_X_y=True),
    "digits": partial(load_digits, return_X_y=True),
    "useless columns": partial(
        make_classification, 5000, 50, n_informative=12, n_redundant=0, n_classes=5, random_state=0
    ),
}
#: milliseconds, or how many times as fast as scikit-learn
NCA_TARGETS = {"iris": 0.020, "wine": 0.020, "breast_cancer": 1.5, "digits": 3.0,
               "useless columns": 30.0}  # fmt: skip
PICTURES, PICTURE_TARGET, TREE_TARGET = (2000, 5000, 10_000), 1.3, 1.5
MEMORY = (20_000, 60_000)
FIRST_TARGETS = {"NCA": 4.0, "KNCA": 8.0, "LMNN": 3.0, "Chi2LMNN": 3.0}
CLOSED_TARGET = 1.5
COMMAND_TARGET = 0.4
#: seconds after which a fit is not repeated
ENOUGH = 3.0

_FIRST = """
import time
from sklearn.datasets import load_digits
from vicinal import {name}
X, y = load_digits(return_X_y=True)
X = X / X.sum(axis=1, keepdims=True) if {name!r} == "Chi2LMNN" else X
began = time.perf_counter()
{name}(random_state=0).fit(X, y)
print(time.perf_counter() - began)
"""


def _verdict(value: float, target: float, most: bool = False) -> str:
    return "met" if (value <= target if most else value >= target) else "**missed**"


def _models() -> dict[str, Callable[[], Any]]:
    from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from vicinal import NCA

    return {
        "NCA()": lambda: NCA(random_state=0),
        'alpha="scaled"': lambda: NCA(alpha="scaled", random_state=0),
        "scikit-learn": lambda: make_pipeline(
            StandardScaler(), NeighborhoodComponentsAnalysis(random_state=0), KNeighborsClassifier()
        ),
    }


def _least(make: Callable[[], Any], X: Any, y: Any) -> float:
    """Seconds of the fastest of up to seven fits, after one that counts only if it is long."""
    times = [clock(partial(make().fit, X, y))]
    if times[0] < ENOUGH:
        times = []
    while len(times) < 7 and sum(times) < ENOUGH:
        times.append(clock(partial(make().fit, X, y)))
    return min(times)


def nca(names: Iterable[str]) -> str:
    """Whole fits of a classifier, compiled before; and how it does on rows held out."""
    lines = []
    for name in names:
        X, y = TABLES[name]()
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=0.3, random_state=0, stratify=y
        )
        took, right = {}, {}
        for title, make in _models().items():
            progress(f"{name}: {title}")
            if title != "scikit-learn":
                make().fit(X, y)  # compiles
            took[title] = _least(make, X, y)
            right[title] = 100 * make().fit(X_train, y_train).score(X_test, y_test)
        ours, target = took["NCA()"], NCA_TARGETS[name]
        times = took["scikit-learn"] / ours
        if target < 1.0:
            judged = f"≤ {seconds(target)}", _verdict(ours, target, most=True)
        else:
            judged = f"≥ {target:g}×", _verdict(times, target)
        lines.append([
            f"{name}, {len(X):,} × {X.shape[1]}", *(seconds(value) for value in took.values()),
            ratio(took["scikit-learn"], ours), *judged,
            " / ".join(f"{value:.1f}" for value in right.values()),
        ])  # fmt: skip
    head = ["table", *_models(), "ratio", "target", "", "right of 30 % held out, one split"]
    return table(head, lines, ["scikit-learn: StandardScaler, its NCA, five nearest neighbours; "
                               "a fit of all rows, the fastest of several."])  # fmt: skip


def pictures(sizes: Iterable[int]) -> str:
    """KSNE(k=1) against t-SNE of openTSNE and scikit-learn, with their own numbers of steps."""
    from ksne_speed import run

    peer = python_of("openTSNE")
    names = ("mnist", "usps") if os.environ.get("VICINAL_DATA") else ("made-up",)
    tools = {"vicinal": {}, "scikit-learn": {}} | ({"openTSNE": {"method": "auto"}} if peer else {})
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for n in sizes:
                found = {}
                for tool, more in tools.items():
                    if tool != "scikit-learn" or n == 5000:
                        fit = {"tool": tool, "n": n, "k": 1, "iterations": 750, "exaggerated": 250}
                        found[tool] = run(fit | more, Path(folder), peer or "", name)
                ours = found["vicinal"]
                for tool, theirs in found.items():
                    target = TREE_TARGET if tool == "scikit-learn" else PICTURE_TARGET
                    times = theirs["seconds"] / ours["seconds"]
                    own = tool == "vicinal"
                    lines.append([
                        f"{name}, {n:,}", tool, seconds(theirs["seconds"]), seconds(theirs["cpu"]),
                        "" if own else ratio(theirs["seconds"], ours["seconds"]),
                        "" if own else f"≥ {target:g}×", "" if own else _verdict(times, target),
                        f"{theirs['trustworthiness']:.4f}",
                    ])  # fmt: skip
    head = ["rows", "library", "seconds", "of the processor", "ratio", "target", "",
            "trustworthiness"]  # fmt: skip
    return table(head, lines, ["750 iterations, 250 of them exaggerated, perplexity 30."])


def memory(sizes: Iterable[int]) -> str:
    """Peak memory of KSNE(k=1) and openTSNE beyond the rows."""
    from ksne_speed import run

    peer = python_of("openTSNE")
    if peer is None:
        return "openTSNE is not installed (environments.py)."
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            fit = {"n": n, "k": 1, "iterations": 60, "exaggerated": 30}
            ours = run(fit | {"tool": "vicinal"}, Path(folder), peer)["peak"]
            theirs = run(fit | {"tool": "openTSNE", "method": "auto"}, Path(folder), peer)["peak"]
            share = ours / theirs
            lines.append([
                f"{n:,}", f"{ours / 2**20:,.0f} MiB", f"{theirs / 2**20:,.0f} MiB",
                f"{share:.2f}", "≤ 1", _verdict(share, 1.0, most=True),
            ])  # fmt: skip
    head = ["rows", "vicinal", "openTSNE", "ours over theirs", "target", ""]
    return table(head, lines, ["60 iterations: memory does not grow with their number."])


def first(names: Iterable[str]) -> str:
    """The first fit to digits in a new process with an empty cache of compiled code."""
    lines = []
    for name in names:
        progress(f"first fit of {name}")
        times = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as cache:
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", "-c", _FIRST.format(name=name)],
                    env={**os.environ, "NUMBA_CACHE_DIR": cache},
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
            times.append(float(done.stdout))
        took, target = min(times), FIRST_TARGETS[name]
        lines.append([name, seconds(took), f"≤ {target:g} s", _verdict(took, target, most=True)])
    return table(["estimator", "first fit", "target", ""], lines, ["Imports are not counted."])


def closed(methods: Iterable[str], quick: bool) -> str:
    """Methods without long optimisation, against metric-learn."""
    from _idle import Others
    from _methods_tasks import _closed_tasks, _pair_tasks
    from methods_speed import compete

    lines = []
    for task in (*_closed_tasks(quick), *_pair_tasks(quick)):
        if task.method in methods:
            answers = {each["library"]: each for each in compete(task, 120.0, Others())}
            ours, theirs = answers["vicinal"], answers.get("metric-learn", {})
            if "seconds" not in theirs:
                lines.append([task.method, task.work, seconds(ours["seconds"]),
                              theirs.get("trouble", "not installed"), "", "", "", ""])  # fmt: skip
                continue
            times = theirs["seconds"] / ours["seconds"]
            lines.append([
                task.method, task.work, seconds(ours["seconds"]), seconds(theirs["seconds"]),
                ratio(theirs["seconds"], ours["seconds"]), f"≥ {CLOSED_TARGET:g}×",
                _verdict(times, CLOSED_TARGET), f"{ours['result']} / {theirs['result']}",
            ])  # fmt: skip
    head = ["method", "work", "vicinal", "metric-learn", "ratio", "target", "", "results"]
    return table(head, lines)


def command() -> str:
    """What the command takes to say that a file does not exist."""
    begin, times = [sys.executable, "-m", "vicinal"], []
    for _ in range(5):
        began = time.perf_counter()
        done = subprocess.run(
            [*begin, "evaluate", "no-such-file.csv"], capture_output=True, text=True, check=False
        )
        times.append(time.perf_counter() - began)
    took = min(times)
    words = [seconds(took), f"≤ {COMMAND_TARGET:g} s", _verdict(took, COMMAND_TARGET, most=True)]
    return table(["`vicinal evaluate no-such-file.csv`", "target", ""], [words],
                 [done.stderr.strip().splitlines()[0]])  # fmt: skip


def main() -> None:
    """Measure the parts that were asked for, and print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("nca", "pictures", "memory", "first", "closed", "command")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--quick", action="store_true", help="small work, to see that it runs")
    add_output(parser, "defaults_speed")
    options = read_options(parser)
    warnings.simplefilter("ignore")
    quick = options.quick
    sections = {
        "nca": ("NCA against scikit-learn", partial(nca, ["iris"] if quick else TABLES)),
        "pictures": ("KSNE against t-SNE", partial(pictures, (2000,) if quick else PICTURES)),
        "memory": ("Memory of KSNE", partial(memory, (2000,) if quick else MEMORY)),
        "first": ("First fits, nothing compiled",
                  partial(first, ["LMNN"] if quick else FIRST_TARGETS)),
        "closed": ("LFDA, SDML, RCA against metric-learn",
                   partial(closed, ("LFDA", "SDML", "RCA"), quick)),
        "command": ("The command", command),
    }  # fmt: skip
    chosen = [sections[name] for name in parts if name in options.only]
    report_sections("With defaults: speed against others", chosen, options.output)


if __name__ == "__main__":
    main()
