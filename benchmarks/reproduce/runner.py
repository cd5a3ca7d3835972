"""Run the jobs of an experiment on all cores, keep what is finished, write the report.

Every finished job is a line of JSON in the store.  A second run takes up where the first was
stopped; a change of the library's code or of the module that does the work (comments and
docstrings aside) makes old lines invalid.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import inspect
import json
import multiprocessing
import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from reproduce import protocol
from reproduce.experiment import Done, Experiment, Job

__all__ = ["RESULTS", "STORE", "run"]

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
STORE = ROOT / "benchmarks" / ".store"

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

#: headings of the index, and how the names of their reports begin
_HEADINGS = {
    "What the defaults rest on": (
        "defaults",
        "objectives",
        "alpha",
        "auto",
        "annealing",
        "lmnn-defaults",
    ),
    "Large data": ("mnist", "lmnn-large"),
    "Goldberger, Roweis, Hinton, Salakhutdinov (2005)": ("goldberger",),
    "Oneață (2011)": ("oneata",),
    "Tarlow, Swersky, Charlin, Sutskever, Zemel (2013)": ("tarlow",),
    "Olsen, Petersen: χ²-LMNN": ("olsen",),
    "Time and memory": ("nca-",),
}


def run(experiment: Experiment, options: Any) -> None:
    """Do what is left to do, then write ``NAME.md`` (and its pictures)."""
    jobs = list(experiment.jobs(options.splits))
    if options.sets:
        jobs = [job for job in jobs if job.get("data", options.sets[0]) in options.sets]
    store = _Store(options.store / f"{experiment.name}.jsonl", _code(experiment), options.reuse)
    chosen = [job for job in jobs if _matches(job, options.where)]
    missing = [job for job in chosen if store.get(job) is None]
    _say(experiment.name, f"{len(chosen)} jobs, {len(chosen) - len(missing)} of them done before")
    for done in _finish(experiment, missing, options.jobs):
        store.add(done)
    options.output.mkdir(parents=True, exist_ok=True)
    results = [store.get(job) for job in jobs]
    body = experiment.report([done for done in results if done is not None], options.output)
    path = options.output / f"{experiment.name}.md"
    path.write_text(f"# {experiment.title}\n\n{body}\n\n{_facts(experiment, results)}\n", "utf-8")
    _write_index(options.output)
    _say(experiment.name, f"wrote {path.name}")


def _write_index(folder: Path) -> None:
    """List all reports of the folder, each with its title and first sentence."""
    parts = [
        "# Results",
        "The papers' tables and figures computed anew, and questions of our own; "
        "`python benchmarks/reproduce NAME` writes each of these pages.",
    ]
    left = {path.stem: path for path in sorted(folder.glob("*.md")) if path.name != "README.md"}
    for heading, beginnings in {**_HEADINGS, "Others": ("",)}.items():
        names = [name for start in beginnings for name in left if name.startswith(start)]
        lines = []
        for name in dict.fromkeys(names):
            title, finding, *_ = left.pop(name).read_text("utf-8").split("\n\n")
            words = " ".join(finding.replace("**", "").split())
            first = re.split(r"(?<=[a-z%)\d])\. (?=[A-Z])", words)[0].rstrip(".")
            lines.append(f"- [{title.removeprefix('# ')}]({name}.md). {first}.")
        if lines:
            parts += [f"## {heading}", "\n".join(lines)]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def _matches(job: Job, where: list[str] | None) -> bool:
    """Whether the job has one of the values asked for, for each key that is asked about."""
    wanted: dict[str, set[str]] = {}
    for key, _, value in (each.partition("=") for each in where or ()):
        wanted.setdefault(key, set()).add(value)
    return all(str(job.get(key)) in values for key, values in wanted.items())


def _finish(experiment: Experiment, jobs: list[Job], workers: int | None) -> Iterator[Done]:
    """Results as they come; Ctrl-C loses only the jobs under way."""
    if not jobs:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if experiment.threads is None:
        workers, threads = 1, cores
    else:
        workers, threads = workers or cores, experiment.threads
    # read by the libraries of a new process when they are first imported
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    began, told = time.perf_counter(), 0.0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        futures = {pool.submit(_timed, experiment.work, job): job for job in jobs}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                result, seconds = future.result()
                yield Done(futures[future], result, seconds)
                passed = time.perf_counter() - began
                if passed - told > 10 or count == len(jobs):
                    told, left = passed, passed / count * (len(jobs) - count)
                    _say(experiment.name, f"{count}/{len(jobs)}, {passed:.0f} s, {left:.0f} s left")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _timed(work: Any, job: Job) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        # classes of one row, singular scatters, max_iter: each is part of the papers' protocols
        warnings.simplefilter("ignore")
        result = work(**job)
    return result, time.perf_counter() - began


class _Store:
    """Finished jobs, one a line; the last line of a job counts."""

    def __init__(self, path: Path, code: str, reuse: bool) -> None:
        self.path, self.code = path, code
        self.lines: dict[str, Done] = {}
        if not path.exists():
            return
        text = path.read_text("utf-8")
        if text and not text.endswith("\n"):  # cut short: the next line must not join this one
            with path.open("a", encoding="utf-8") as file:
                file.write("\n")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:  # cut short by a kill
                continue
            if reuse or entry["code"] == code:
                done = Done(entry["job"], entry["result"], entry["seconds"])
                self.lines[_key(done.job)] = done

    def get(self, job: Job) -> Done | None:
        return self.lines.get(_key(job))

    def add(self, done: Done) -> None:
        self.lines[_key(done.job)] = done
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"code": self.code, **done._asdict()}) + "\n")


def _key(job: Job) -> str:
    return json.dumps(job, sort_keys=True)


def _code(experiment: Experiment) -> str:
    """A digest of all that decides about a result: the library, and the module of the work."""
    sources = sorted((ROOT / "src" / "vicinal").rglob("*.py"))
    sources += [Path(inspect.getfile(experiment.work)), Path(protocol.__file__)]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(_bare(path.read_text("utf-8")).encode())
    return digest.hexdigest()[:12]


def _bare(source: str) -> str:
    """The code of a module without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def _facts(experiment: Experiment, results: list[Done | None]) -> str:
    import numpy
    import scipy
    import sklearn

    import vicinal

    done = [each for each in results if each is not None]
    hours = sum(each.seconds for each in done) / 3600
    missing = len(results) - len(done)
    return "\n".join(
        [
            "---",
            f"`python benchmarks/reproduce {experiment.name}`, {len(done)} jobs, "
            f"{hours:.2f} core hours{f', {missing} jobs missing' if missing else ''}; "
            f"{datetime.date.today().isoformat()}, vicinal {vicinal.__version__}, "
            f"scikit-learn {sklearn.__version__}, NumPy {numpy.__version__}, "
            f"SciPy {scipy.__version__}, Python {platform.python_version()}.",
        ]
    )


def _say(name: str, words: str) -> None:
    print(f"[{name}] {words}", file=sys.stderr, flush=True)
