"""Every method against its peers on the same work: seconds, processor, memory, iterations, result.

    python benchmarks/environments.py           # once: the other libraries, each in its environment
    python benchmarks/methods_speed.py          # ten minutes of an idle machine
    python benchmarks/methods_speed.py --quick  # tiny data, to see that it runs
    python benchmarks/methods_speed.py --only LMNN KSNE
    python benchmarks/methods_speed.py --output # also benchmarks/results/methods_speed.md

Every fit runs in a process of its own, after a warm-up, so that nothing is compiled in a fit that
counts.  A library whose environment is missing is left out, and the report says so.  With
``VICINAL_DATA``, kt-SNE is measured on mnist.  Prints one report in markdown on standard output,
and progress on standard error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, facts, progress, ratio, read_options, seconds, table, write
from _idle import Others
from _methods_tasks import Contender, Task, tasks
from _methods_worker import ENOUGH, REPEATS, WARM_UP
from environments import REQUIREMENTS, python_of

WORKER = Path(__file__).with_name("_methods_worker.py")
#: seconds: vicinal fits twice at least, because it compiles
OWN_LIMIT = 300.0
HEADER = ["method", "work", "library", "seconds", "ratio", "processor", "memory", "iterations",
          "result", "measured by"]  # fmt: skip
NOTES = (
    "seconds: of a fit by the clock, all cores, without imports, reading and compilation; the "
    f"median of up to {REPEATS} fits, as long as they take less than {ENOUGH:g} s together. A "
    "process of its own for each line. Before the fits that count comes one that does not, unless "
    f"it takes more than {WARM_UP:g} s and its library compiles nothing.",
    "ratio: how many times the seconds of vicinal's line above; below 1 the other is faster. "
    "processor: seconds of all cores together. memory: peak during the fit beyond the input.",
    "result: what was reached, by one formula for all libraries, so that times can be compared at "
    "what they give; *held out*: on 30 % of the rows, which no fit has seen (photographs and bent "
    "columns: on as many or 5,000 further rows).",
    "Where iterations are stated, all start from the same map and make this many (L-BFGS, no "
    "penalty, columns as given); otherwise each library has its defaults and its stopping rule. "
    "*NCA, with defaults*: vicinal tries several penalties by cross-validation, the others have "
    "none.",
    "LMNN: metric-learn and vicinal minimise the hinges of all impostors, PyLMNN their squares for "
    "at most 500,000 pairs, mlpack those of the nearest impostors, for 25 iterations here (its own "
    "limit is 100,000).",
    "ITML, MMC, SDML and LSML: the same pairs, quadruplets, bounds and parameters for both. "
    "metric-learn's SDML passes an argument that scikit-learn has removed; it is left out here, "
    "or every fit would fail.",
    "KSNE: perplexity 30, a third of the iterations exaggerated (scikit-learn: 250 of them). "
    "openTSNE takes trees by itself below 10,000 rows.",
    "synthetic: `make_classification` with 10 classes and 20 of 50 columns informative; for NCA "
    "overlapping Gaussian classes. Friedman: `make_friedman1`. photographs: digits under random "
    "light, each pair two of the same digit. bent columns: 10 classes, sums of linear and periodic "
    "terms of 10 of 50 columns.",
)


def fit_once(python: str, contender: Contender, folder: Path, limit: float) -> dict[str, Any]:
    """The worker's answer, or what went wrong."""
    command = [python, str(WORKER), contender.library, contender.key, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"trouble": f"over {limit:g} s"}
    except OSError as error:
        return {"trouble": f"could not be started ({type(error).__name__})"}
    if done.returncode:
        words = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        return {"trouble": f"failed: {words[:100].replace('|', '/')}"}
    return json.loads(done.stdout.splitlines()[-1])  # libraries may print before


def interpreter(library: str) -> str | None:
    """The Python that has a library."""
    return python_of(library) if library in REQUIREMENTS else sys.executable


def compete(task: Task, limit: float, others: Others) -> list[dict[str, Any]]:
    """The answers of all contenders whose library is there."""
    answers = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "data.npz", **task.data)
        for contender in task.contenders:
            python = interpreter(contender.library)
            if python is None:
                continue
            progress(f"{task.method}, {task.work}: {contender}")
            with others:
                own = OWN_LIMIT if contender.library == "vicinal" else limit
                answer = fit_once(python, contender, folder, own)
            if "trouble" not in answer:
                with np.load(folder / "result.npz") as stored:
                    answer["result"] = judged(task, dict(stored))
            progress(f"{answer.get('trouble') or seconds(answer['seconds'])}")
            answers.append(answer | {"shown": str(contender), "library": contender.library})
    return answers


def judged(task: Task, learnt: dict[str, Any]) -> str:
    """What was reached; what is infinite or not a number is not judged."""
    finite = all(np.isfinite(each).all() for each in learnt.values() if each.dtype.kind == "f")
    return task.judge(task.data, learnt) if finite else "not finite"


def lines_of(task: Task, answers: list[dict[str, Any]]) -> list[list[str]]:
    """The lines of one task; method and work stand in the first."""
    lines = []
    ours = answers[0].get("seconds")
    for at, answer in enumerate(answers):
        first = [task.method, task.work] if at == 0 else ["", ""]
        if "trouble" in answer:
            lines.append([*first, answer["shown"], answer["trouble"], *["–"] * 5, ""])
            continue
        compared = "1" if at == 0 else "–" if ours is None else ratio(answer["seconds"], ours)
        iterations = "–" if answer["iterations"] is None else str(answer["iterations"])
        lines.append([
            *first, answer["shown"], seconds(answer["seconds"]), compared,
            seconds(answer["processor"]), _mebibytes(answer["memory"]), iterations,
            answer["result"], task.measure if at == 0 else "",
        ])  # fmt: skip
    return lines


def _mebibytes(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 2**20:,.0f} MiB" if value >= 2**20 else "< 1 MiB"


def report(options: argparse.Namespace) -> str:
    """The table and what is to be known about it."""
    rows, versions, others = [], {}, Others()
    for task in tasks(options.quick):
        if options.only and not any(task.method.startswith(name) for name in options.only):
            continue
        answers = compete(task, options.limit, others)
        rows += lines_of(task, answers)
        for answer in answers:
            if answer["library"] in REQUIREMENTS and "versions" in answer:
                versions[answer["library"]] = ", ".join(answer["versions"])
    missing = [name for name in REQUIREMENTS if python_of(name) is None]
    notes = [*NOTES, f"The process of another library is given up after {options.limit:g} s."]
    notes += [f"{name}: {words}." for name, words in sorted(versions.items())]
    notes += [f"**{name} is left out**: it is not installed." for name in missing]
    notes.append(f"While the fits ran, other programs used {others}.")
    return table(HEADER, rows, notes)


def main(arguments: list[str] | None = None) -> None:
    """Run and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny data, to see that it runs")
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="methods that begin like this")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds of a process of another library"
    )
    add_output(parser, "methods_speed")
    options = read_options(parser, arguments)
    head, began = facts(), time.perf_counter()
    text = "\n\n".join(["# Methods against their peers: speed and memory", head, report(options)])
    print(text)
    progress(f"done in {time.perf_counter() - began:.0f} s")
    write(text, options.output)


if __name__ == "__main__":
    main()
