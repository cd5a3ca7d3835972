"""Run the jobs of an experiment on all cores, keep what is finished, write numbers and page.

A second run takes up where the first was stopped.  The page in ``docs/results`` is replaced only
when all jobs of the protocol are done; a look at some of them goes into the store's folder.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from _common import processor_name

from reproduce.framework import pages
from reproduce.framework.code import ROOT, present_commit
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.numbers import write_rows
from reproduce.framework.store import Store, code_of

__all__ = ["RESULTS", "STORE", "render_all", "run", "set_threads", "timed"]

RESULTS = ROOT / "docs" / "results"
STORE = ROOT / "benchmarks" / ".store"

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run(experiment: Experiment, options: Any) -> Path:
    """Do what is left to do, then write numbers, pictures and page; their folder."""
    jobs = list(experiment.jobs(options.splits))
    if options.sets:
        jobs = [job for job in jobs if job.get("data", options.sets[0]) in options.sets]
    store = Store(options.store / f"{experiment.name}.jsonl", code_of(experiment), options.reuse)
    chosen = [job for job in jobs if _matches(job, options.where)]
    missing = [job for job in chosen if store.get(job) is None]
    _say(experiment.name, f"{len(chosen)} jobs, {len(chosen) - len(missing)} of them done before")
    for done in _finish(experiment, missing, options.jobs):
        store.add(done)
    results = [done for job in jobs if (done := store.get(job)) is not None]
    whole = all(store.get(job) is not None for job in experiment.jobs(None))
    folder = options.output or (RESULTS if whole else options.store / "looks")
    if not results:
        _say(experiment.name, "no job is done: there is nothing to write")
        return folder
    write_rows(folder / "data" / f"{experiment.name}.csv", experiment, results)
    if experiment.draw is not None:
        experiment.draw(results, folder)
    render(experiment, folder)
    _say(experiment.name, f"wrote {folder / experiment.name}.md")
    return folder


def render(experiment: Experiment, folder: Path) -> bool:
    """Write the page of the numbers in a folder; whether it has changed."""
    path, text = folder / f"{experiment.name}.md", pages.render(experiment, folder)
    if path.exists() and path.read_text("utf-8") == text:
        return False
    path.write_text(text, "utf-8")
    return True


def render_all(experiments: Iterable[Experiment], folder: Path) -> list[str]:
    """Write all pages that have numbers in a folder; the names of those changed."""
    changed = []
    for each in experiments:
        if (folder / "data" / f"{each.name}.csv").exists() and render(each, folder):
            changed.append(each.name)
    return changed


def _matches(job: Job, where: list[str] | None) -> bool:
    """Whether the job has one of the values asked for, for each key that is asked about."""
    wanted: dict[str, set[str]] = {}
    for key, _, value in (each.partition("=") for each in where or ()):
        wanted.setdefault(key, set()).add(value)
    return all(str(job.get(key)) in values for key, values in wanted.items())


def _finish(experiment: Experiment, jobs: list[Job], workers: int | None) -> Iterator[Done]:
    """Results in the order in which jobs end; Ctrl-C loses only the jobs under way."""
    if not jobs:
        return
    cores = set_threads(experiment)
    workers = 1 if experiment.threads is None else workers or cores
    began, told = time.perf_counter(), 0.0
    origin = present_commit(), processor_name()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        futures = {pool.submit(timed, experiment.work, job): job for job in jobs}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                result, seconds = future.result()
                yield Done(futures[future], result, seconds, *origin)
                passed = time.perf_counter() - began
                if passed - told > 10 or count == len(jobs):
                    told, left = passed, passed / count * (len(jobs) - count)
                    _say(experiment.name, f"{count}/{len(jobs)}, {passed:.0f} s, {left:.0f} s left")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def set_threads(experiment: Experiment) -> int:
    """Set the threads of each new process as the experiment asks; the number of cores.

    BLAS rounds otherwise with other threads, and embeddings by t-SNE amplify that.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # read by the libraries of a new process when they are first imported
    threads = str(experiment.threads or cores)
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, threads))
    return cores or 1


def timed(work: Any, job: Job) -> tuple[dict[str, Any], float]:
    """The numbers of one job, and its seconds."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        # classes of one row, singular scatters, max_iter: each is part of the papers' protocols
        warnings.simplefilter("ignore")
        result = work(**job)
    return result, time.perf_counter() - began


def _say(name: str, words: str) -> None:
    print(f"[{name}] {words}", file=sys.stderr, flush=True)
