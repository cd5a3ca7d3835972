"""mlpack in this process, and metric-learn in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _common import (
    MEAN_SQUARED_DISTANCE,
    ExactProblem,
    Options,
    blobs,
    clock,
    early_map,
    progress,
    ratio,
    seconds,
    table,
    take_turns,
    version,
)
from _fits import Task, describe, load_task, mean_loss, reach

_ROOT = Path(__file__).parents[1]
_ENVIRONMENT = _ROOT / ".bench-env"
#: metric-learn's last release calls scikit-learn with arguments that 1.6 renamed and 1.8 removed
_REQUIREMENTS = ("metric-learn==0.7.0", "scikit-learn==1.5.2")


def _isotropic(X: Any, rows: int | None = None) -> Any:
    """The first rows, centred and of one scale at which plain exponentials do not underflow."""
    X = X[:rows] - X[:rows].mean(axis=0)
    return X * np.sqrt(MEAN_SQUARED_DISTANCE / (2.0 * X.var(axis=0).sum()))


def mlpack_section(options: Options) -> str:
    """A few iterations of mlpack's L-BFGS, and vicinal to the same value."""
    try:
        import mlpack
    except Exception as error:  # its libraries may fail to load in many ways
        return f"mlpack is not installed here ({type(error).__name__}): `pip install mlpack`."
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    small = 100 if options.quick else 500
    cases = [(f"digits, first {small}", _isotropic(X, small), y[:small], 10)]
    if not options.quick:
        Xs, ys = blobs(2000)
        cases += [("digits", _isotropic(X), y, 1), ("synthetic 2,000 × 50", _isotropic(Xs), ys, 1)]
    if options.large:
        cases += [("digits", _isotropic(X), y, 10)]
    rows = []
    for name, X, y, iterations in cases:
        progress(f"mlpack: {name}, {iterations} iterations")
        task = Task(name, X, y, np.eye(X.shape[1]))
        answer: dict[str, Any] = {}

        def fit(answer: dict = answer, task: Task = task, iterations: int = iterations) -> None:
            answer |= mlpack.nca(
                input_=task.X, labels=task.y, optimizer="lbfgs", max_iterations=iterations,
                copy_all_inputs=True,
            )  # fmt: skip

        theirs = clock(fit)
        # its matrices have a point per column, and come back transposed
        value = mean_loss(task, answer["output"].T)
        found = reach(task, value)
        ours = take_turns({"": found.fit}, repeats=3)[""].median
        rows.append(
            [f"{name}, d = D = {task.d}", iterations, f"{-mean_loss(task, task.A):.4f}",
             f"{-value:.4f}", seconds(theirs), seconds(ours),
             ratio(theirs, ours) if found.iterations >= 0 else "–", describe(found, value)]
        )  # fmt: skip
    header = ["data", "L-BFGS iterations of mlpack", "at the start", "it reaches", "mlpack",
              "vicinal to the same", "ratio", "vicinal gets there"]  # fmt: skip
    notes = [
        f"mlpack {version('mlpack')} (`mlpack.nca`, float64) learns square maps from the identity; "
        "its exponentials are not shifted, so the data are centred and scaled by one factor to a "
        f"mean squared distance of {MEAN_SQUARED_DISTANCE:.0f}. One run each; the value (mean p_i) "
        "of both is taken by vicinal's float64 objective."
    ]
    return table(header, rows, notes)


def metric_learn_python(options: Options) -> Path:
    """The interpreter of the environment with metric-learn, which is made on first use."""
    python = _ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = _ENVIRONMENT / "installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(_REQUIREMENTS):
        if options.quick:
            raise OSError("nothing is installed in a quick run")
        progress(f"metric-learn: installing {' and '.join(_REQUIREMENTS)} into .bench-env")
        quiet = {"check": True, "capture_output": True, "timeout": 300}
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(_ENVIRONMENT)], **quiet)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *_REQUIREMENTS], **quiet)
        stamp.write_text("\n".join(_REQUIREMENTS))
    return python


def _run_metric_learn(python: Path, folder: Path, jobs: list[dict[str, Any]]) -> list[Any]:
    """Have the worker do the jobs on the arrays saved in the folder."""
    done = subprocess.run(
        [str(python), str(Path(__file__).with_name("_metric_learn_worker.py")), str(folder)],
        input=json.dumps(jobs), capture_output=True, text=True, check=True, timeout=400,
    )  # fmt: skip
    return json.loads(done.stdout)


def metric_learn_section(options: Options) -> str:
    """metric-learn's evaluation and fit in its own environment; vicinal's in this one."""
    sizes = (500,) if options.quick else (500, 2000, 5000)
    tasks = [load_task("iris", 2), load_task("wine", 2)]
    if not options.quick:
        tasks += [load_task("digits", 2)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = []
        for n in sizes:
            X, y = blobs(n)
            np.savez(folder / f"{n}.npz", X=X, y=y, A=early_map(X, 2))
            jobs.append({"file": f"{n}.npz", "what": "evaluation"})
        for i, task in enumerate(tasks):
            np.savez(folder / f"task{i}.npz", X=task.X, y=task.y, A=task.A)
            jobs.append({"file": f"task{i}.npz", "what": "fit"})
        try:
            python = metric_learn_python(options)
            progress("metric-learn: measuring")
            answers = _run_metric_learn(python, folder, jobs)
        except (subprocess.SubprocessError, OSError) as error:
            why = "a quick run installs nothing" if options.quick else type(error).__name__
            return f"metric-learn could not be installed or run here ({why})."
    evaluations, fits = answers[: len(sizes)], answers[len(sizes) :]
    return _evaluation_table(sizes, evaluations) + "\n\n" + _fit_table(tasks, fits)


def _evaluation_table(sizes: tuple[int, ...], answers: list[Any]) -> str:
    rows = []
    for n, answer in zip(sizes, answers, strict=True):
        X, y = blobs(n)
        theta, fun = early_map(X, 2).ravel(), ExactProblem(X, y, 2, np.float64)
        ours = take_turns({"": lambda fun=fun, theta=theta: fun(theta)})[""].median
        error = abs(fun(theta)[0] / (answer["value"] / n) - 1.0)
        rows.append(
            [f"{n:,}", 2, seconds(answer["seconds"]), seconds(ours),
             ratio(answer["seconds"], ours), f"{error:.0e}"]
        )  # fmt: skip
    header = ["N", "d", "metric-learn", "vicinal float64", "ratio", "values differ by"]
    notes = [
        f"{_REQUIREMENTS[0].replace('==', ' ')} with {_REQUIREMENTS[1].replace('==', ' ')}, in a "
        "process and an environment of its own (it does not run on a current scikit-learn), with "
        "the same allocator; medians. D = 50, 10 classes."
    ]
    return table(header, rows, notes)


def _fit_table(tasks: list[Task], answers: list[Any]) -> str:
    rows = []
    for task, answer in zip(tasks, answers, strict=True):
        progress(f"metric-learn: vicinal on {task.name}")
        value = mean_loss(task, np.asarray(answer["components"]))
        found = reach(task, value)
        ours = take_turns({"": found.fit})[""].median
        rows.append(
            [task.name, task.d, f"{-value:.4f}", seconds(answer["seconds"]), answer["iterations"],
             seconds(ours), ratio(answer["seconds"], ours) if found.iterations >= 0 else "–",
             describe(found, value)]
        )  # fmt: skip
    header = ["data", "d", "expected accuracy reached", "metric-learn", "its iterations",
              "vicinal to the same", "ratio", "vicinal gets there"]  # fmt: skip
    notes = ["At most 50 iterations of metric-learn; columns standardised, principal axes first."]
    return table(header, rows, notes)
