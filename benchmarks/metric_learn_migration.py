"""Every class of metric-learn against ours: accuracy, seconds of the processor, peak memory.

::

    VICINAL_DATA=... python benchmarks/metric_learn_migration.py --output

metric-learn runs in an environment of its own (``--metric-learn PYTHON``; by default the one that
``environments.py`` makes), each class and data set in a process of its own, on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, facts, progress, read_options, table, write
from environments import python_of
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

from vicinal import datasets

LIBRARIES = ("metric-learn", "vicinal.compat", "vicinal")
CLASSES = ("NCA", "LMNN", "LFDA", "RCA_Supervised", "ITML_Supervised", "MMC_Supervised",
           "SDML_Supervised", "LSML_Supervised", "Covariance")  # fmt: skip
SPLITS = 5
LIMIT = 12.0  # seconds of the processor after which no further split is begun
HARD_LIMIT = 90.0  # seconds after which a process is ended
TOO_LONG = f"> {HARD_LIMIT:.0f} s"


def load(name: str) -> tuple[Any, Any, bool]:
    """Standardised columns, labels or numbers, and whether these are numbers."""
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    elif name == "digits":
        X, y = (part[:1000] for part in load_digits(return_X_y=True))
    else:
        table_ = datasets.load(name)
        X, y = table_.data, np.unique(table_.target, return_inverse=True)[1]
    return StandardScaler().fit_transform(np.asarray(X, dtype=float)), y, name == "diabetes"


def run(python: str, library: str, name: str, folder: Path) -> dict[str, Any]:
    """What a worker prints."""
    progress(f"{library}: {name}")
    worker = Path(__file__).with_name("_migration_worker.py")
    threads = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    try:
        done = subprocess.run(
            [python, str(worker), library, name, str(folder), str(LIMIT)],
            capture_output=True, text=True, timeout=HARD_LIMIT, check=True,
            env=os.environ | threads,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": TOO_LONG, "scores": [], "cpu": [], "peak": [], "versions": {}}
    return json.loads(done.stdout.splitlines()[-1])


def measured(python: str, name: str, classes: tuple[str, ...]) -> dict[tuple[str, str], Any]:
    """The answers of all workers on one data set."""
    X, y, numbers = load(name)
    splitter = (ShuffleSplit if numbers else StratifiedShuffleSplit)(
        SPLITS, test_size=0.3, random_state=0
    )
    train = np.zeros((SPLITS, len(X)), dtype=bool)
    for part, (rows, _) in zip(train, splitter.split(X, y), strict=True):
        part[rows] = True
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", X=X, y=y, numbers=numbers, train=train)
        for c in classes:
            for library in LIBRARIES:
                interpreter = python if library == "metric-learn" else sys.executable
                answers[c, library] = run(interpreter, library, c, Path(folder))
    return answers


def cell(answer: dict[str, Any], key: str) -> str:
    """A mean over the splits, or what went wrong."""
    values = answer[key]
    if not values:
        return answer["error"] if answer["error"] == TOO_LONG else "fails"
    if key == "scores":
        short = f" ({len(values)})" if len(values) < SPLITS else ""
        return f"{100 * np.mean(values):.1f}{short}"
    if key == "cpu":
        return f"{np.mean(values):.3g}"
    return megabytes([values])


def megabytes(peaks: list[list[int]]) -> str:
    """The largest peak of several fits; the first fit of a process also imports and allocates."""
    largest = max(max(peak[1:] or peak) for peak in peaks) / 1e6
    return f"{largest:,.0f}" if largest >= 1 else "< 1"


def rows_of(answers: dict[tuple[str, str], Any], classes: tuple[str, ...]) -> list[list[str]]:
    return [
        [f"`{c}`", *(cell(answers[c, lib], key) for key in ("scores", "cpu", "peak")
                     for lib in LIBRARIES)]
        for c in classes
    ]  # fmt: skip


HEADER = ["class", *(f"{what}: {lib}" for what in ("score", "CPU s", "MB") for lib in LIBRARIES)]


def overall(found: dict[str, dict[tuple[str, str], Any]]) -> list[list[str]]:
    """Per class, over the sets on which all three libraries have a score: means and maxima."""
    rows = []
    for c in (c for c in CLASSES if any((c, LIBRARIES[0]) in a for a in found.values())):
        answers = [answers for answers in found.values() if (c, LIBRARIES[0]) in answers]
        whole = [a for a in answers if all(a[c, lib]["scores"] for lib in LIBRARIES)]
        cells = {"scores": [], "cpu": [], "peak": []}
        for lib in LIBRARIES:
            fits = [a[c, lib] for a in (whole or answers)]
            ok = all(fit["scores"] for fit in fits)
            score = np.mean([np.mean(fit["scores"]) for fit in fits]) if ok else np.nan
            cpu = np.mean([np.mean(fit["cpu"]) for fit in fits]) if ok else np.nan
            failed = next((cell(fit, "scores") for fit in fits if not fit["scores"]), "")
            cells["scores"].append(failed or f"{100 * score:.1f}")
            cells["cpu"].append(f"{cpu:.3g}" if ok else "–")
            cells["peak"].append(megabytes([fit["peak"] for fit in fits]) if ok else "–")
        rows.append([f"`{c}`", *cells["scores"], *cells["cpu"], *cells["peak"], str(len(whole))])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metric-learn", metavar="PYTHON", help="interpreter with metric-learn")
    parser.add_argument("--sets", nargs="+", default=["wine", "balance", "ionosphere", "digits"])
    parser.add_argument("--classes", nargs="+", default=list(CLASSES))
    add_output(parser, "metric_learn_migration")
    args = read_options(parser)
    python = args.metric_learn or python_of("metric-learn")
    if python is None:
        parser.error("metric-learn is not installed: run benchmarks/environments.py.")
    found = {name: measured(python, name, tuple(args.classes)) for name in args.sets}
    numbers = measured(python, "diabetes", ("MLKR",))
    every = [a for part in (*found.values(), numbers) for a in part.values()]
    # none has a version if every process of metric-learn was ended
    unknown = {"metric-learn": "?", "scikit-learn": "?"}
    theirs = next((a["versions"] for a in every if "metric-learn" in a["versions"]), unknown)
    parts = [
        "# Every class of metric-learn, and ours",
        facts() + f"\n- metric-learn {theirs['metric-learn']} with scikit-learn "
        f"{theirs['scikit-learn']}, in an environment of its own",
        f"{SPLITS} splits, 30 % for testing; columns standardised for all. The score is the "
        "accuracy of five neighbours in the learnt metric, in percent (for numbers: 100 R²). "
        "Classes have their defaults: `vicinal.compat` is the class of that name in "
        "`vicinal.compat.metric_learn`, `vicinal` our own class with our own defaults (`RCA` from "
        "labels, `FromLabels` for the others). Seconds of the processor and peak memory beyond "
        "the process before the fit are of one fit, on one thread, after one that compiled what "
        f"there was to compile. In brackets the splits that were done in {LIMIT:.0f} s.",
        "## All sets together\n\nMeans of the sets on which all three have a score; memory is the "
        "largest.\n\n" + table([*HEADER, "sets"], overall(found)),
    ]  # fmt: skip
    for name, answers in found.items():
        n, D = load(name)[0].shape
        heading = f"## {name}: {n:,} rows, {D} columns\n\n"
        parts.append(heading + table(HEADER, rows_of(answers, tuple(args.classes))))
    parts.append("## diabetes: numbers\n\n" + table(HEADER, rows_of(numbers, ("MLKR",))))
    errors = {
        (c, library, a["error"].splitlines()[0].split(". ")[0].rstrip("."))
        for answers in [*found.values(), numbers]
        for (c, library), a in answers.items()
        if a.get("error", TOO_LONG) != TOO_LONG
    }
    parts.append("## What fails\n\n" + "\n".join(
        f"- `{c}` of {library}: {error}." for c, library, error in sorted(errors)
    ))  # fmt: skip
    report = "\n\n".join(parts)
    print(report)
    write(report, args.output)


if __name__ == "__main__":
    main()
