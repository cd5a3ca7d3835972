"""Workers that die, tasks that end in another order, a scheduler that goes away."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import dask
import numpy as np
import pytest
from distributed import Client
from with_dask.conftest import local_cluster
from with_dask.tables import dawdles, dies_once, lazy, rows, through

import vicinal.dask
from vicinal.callbacks import Callback, Checkpoint
from vicinal.dask import _cluster, _shards
from vicinal.samplers import MiniBatches, StochasticQueries

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, y = rows(1500)
BLOCKS = (500, 130, 600, 270)
SETTINGS = {
    "pairs": {"sampling": "full", "max_iter": 2},
    "batches": {"sampling": MiniBatches(300, clusters="random"), "max_iter": 5},
    "queries": {"sampling": StochasticQueries(40), "max_iter": 2},
}


def model(client, way, **more):
    settings = {**SETTINGS[way], **more}
    return vicinal.dask.NCA(2, alpha=1e-3, random_state=0, client=client, **settings)


@pytest.fixture(scope="module")
def mortal():
    """A cluster whose workers may be killed."""
    with local_cluster(1) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def expected(mortal):
    """The maps that one worker learns."""
    mortal.wait_for_workers(1)
    return {way: model(mortal, way).fit(lazy(X, BLOCKS), y).components_ for way in SETTINGS}


def assert_same(client, way, expected):
    found = model(client, way).fit(lazy(X, BLOCKS), y)
    np.testing.assert_array_equal(found.components_, expected[way])
    return found


@pytest.fixture(scope="module")
def in_shards(mortal):
    """A model whose training rows stay on the workers, and what it predicts with one worker."""
    mortal.wait_for_workers(1)
    made = model(mortal, "batches", references="shards").fit(lazy(X, BLOCKS), y)
    return made, asked(made)


def asked(model):
    dX = lazy(X, (900, 600))
    near, at = model.kneighbors(dX, 3)
    return [found.compute() for found in (model.predict_proba(dX), near, at)]


def assert_same_answers(model, expected):
    for found, known in zip(asked(model), expected, strict=True):
        np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("workers", [2, 4])
def test_more_workers_and_any_order(mortal, expected, in_shards, monkeypatch, workers):
    """The same bits, although the tasks of four workers end in random order."""
    mortal.cluster.scale(workers)
    mortal.wait_for_workers(workers)
    if workers == 4:
        through(monkeypatch, lambda f, args: (dawdles, (f, *args)))
        for name in ("_of_shard", "_merged", "_embedded", "_answer"):
            monkeypatch.setattr(_shards, name, partial(dawdles, getattr(_shards, name)))
    for way in SETTINGS:
        assert_same(mortal, way, expected)
    assert_same_answers(*in_shards)
    mortal.cluster.scale(2)


PHASES = [
    ("pairs", "_sums_of_pair"),
    ("pairs", "_merged"),
    ("pairs", "_pull_of_pair"),
    ("batches", "_take"),
    ("queries", "_sums_of_queries"),
    ("queries", "_pull_of_queries"),
]


@pytest.mark.parametrize(("way", "phase"), PHASES)
def test_a_worker_dies(mortal, expected, monkeypatch, tmp_path, way, phase):
    mortal.cluster.scale(2)
    mortal.wait_for_workers(2)
    marker = str(tmp_path / "died")

    def wrap(function, args):
        dies = function.__name__ == phase
        return (dies_once, (marker, function, *args)) if dies else (function, args)

    through(monkeypatch, wrap)
    assert_same(mortal, way, expected)
    assert os.path.exists(marker)


def test_a_worker_dies_in_a_prediction(mortal, tmp_path):
    mortal.wait_for_workers(1)
    found = model(mortal, "pairs").fit(lazy(X, BLOCKS), y)
    marker = str(tmp_path / "died")
    dX = lazy(X, BLOCKS).map_blocks(lambda block: dies_once(marker, np.copy, block), meta=X[:0])
    np.testing.assert_array_equal(found.predict(dX).compute(), found.predict(X))
    assert os.path.exists(marker)


@pytest.mark.parametrize("task", ["_of_shard", "_merged"])
def test_a_worker_dies_in_a_prediction_from_shards(mortal, in_shards, monkeypatch, tmp_path, task):
    mortal.wait_for_workers(1)
    marker = str(tmp_path / "died")
    monkeypatch.setattr(_shards, task, partial(dies_once, marker, getattr(_shards, task)))
    assert_same_answers(*in_shards)
    assert os.path.exists(marker)


def test_a_cluster_without_workers_is_told_of(mortal, expected, monkeypatch):
    monkeypatch.setattr(_cluster, "_PATIENCE", 0.1)
    mortal.cluster.scale(0)
    while mortal.nthreads():
        time.sleep(0.05)
    back = threading.Timer(1.0, mortal.cluster.scale, (1,))
    back.start()
    with pytest.warns(UserWarning, match=r"has no workers.*NCA waits.*no-workers-timeout"):
        assert_same(mortal, "batches", expected)


class Kills(threading.Thread):
    """Kills workers of a cluster at random times, until it is told to stop.

    Not faster than a new one can compute a task, which needs some seconds.
    Only those that have joined.  A nanny of distributed gives up after some of them, with no fit at
    all: `scale` starts another, as adaptive clusters and batch systems do.
    """

    def __init__(self, cluster, seed):
        super().__init__(daemon=True)
        self.cluster, self.rng, self.done, self.count = cluster, random.Random(seed), False, 0

    def run(self):
        while not self.done:
            time.sleep(self.rng.uniform(1.0, 10.0))
            self.cluster.scale(2)
            joined = set(self.cluster.scheduler.workers)
            pids = [nanny.pid for nanny in self.cluster.workers.values()
                    if nanny.pid and nanny.worker_address in joined]  # fmt: skip
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.rng.choice(pids), signal.SIGKILL)
                    self.count += 1
                    print("killed", self.count, time.strftime("%X"), flush=True)


@pytest.mark.long
def test_many_workers_die_at_random_times(expected, in_shards, capsys):
    """Thirty of them, in fits and predictions: `make test-dask ARGS="-m long"`, ten minutes."""
    made, known = in_shards
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 30}),
        local_cluster(2) as cluster,
        Client(cluster) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        kills, rounds = Kills(cluster, 0), 0
        kills.start()
        while kills.count < 30:
            for way in SETTINGS:
                pool.submit(assert_same, client, way, expected).result(timeout=300)
            made.client = client
            pool.submit(assert_same_answers, made, known).result(timeout=300)
            rounds += 1
        kills.done = True
        kills.join()
    with capsys.disabled():
        print(f"{kills.count} workers killed in {rounds} rounds")


@contextlib.contextmanager
def own_cluster():
    """A scheduler and a worker in processes of their own; the address, and the scheduler."""
    command, quiet = [sys.executable, "-m", "distributed.cli.dask_scheduler"], subprocess.DEVNULL
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    scheduler = subprocess.Popen(
        command + arguments, stderr=subprocess.PIPE, stdout=quiet, text=True
    )
    address = None
    for line in scheduler.stderr:
        if match := re.search(r"(tcp://127\.0\.0\.1:\d+)", line):
            address = match[1]
            break
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1",
         "--no-dashboard", "--death-timeout", "60", "--no-nanny"],
        stderr=quiet, stdout=quiet,
    )  # fmt: skip
    try:
        yield address, scheduler
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()
        scheduler.stderr.close()


class KillsAt(Callback):
    """Kills a process after some iterations."""

    def __init__(self, process, iteration):
        self.process, self.iteration, self.at = process, iteration, None

    def on_fit_task_end(self, estimator, context, **kwargs):
        if context.task_id == self.iteration and self.at is None:
            self.at = time.monotonic()
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["pairs", "batches"])
def test_a_lost_scheduler_is_named_and_the_fit_resumes_elsewhere(mortal, tmp_path, way):
    path = tmp_path / "fit.vic"
    settings = {"alpha": 1e-3, "random_state": 0, **SETTINGS[way], "max_iter": 8}
    mortal.wait_for_workers(1)
    whole = vicinal.dask.NCA(2, client=mortal, **settings).fit(lazy(X, BLOCKS), y)
    with own_cluster() as (address, scheduler):
        client = Client(address, timeout=30, set_as_default=False)
        client.wait_for_workers(1, timeout=60)
        kills = KillsAt(scheduler, 4)
        cut = vicinal.dask.NCA(2, client=client, **settings)
        cut.set_callbacks(Checkpoint(path, every=2), kills)
        message = r"scheduler at tcp://127.* has gone.*fit\(X, y, resume_from=path\)"
        with pytest.raises(vicinal.dask.ClusterLostError, match=message):
            cut.fit(lazy(X, BLOCKS), y)
        assert time.monotonic() - kills.at < 30
        assert not hasattr(cut, "components_")
        client.close(timeout=1)
    resumed = vicinal.dask.NCA(2, client=mortal, **settings).fit(
        lazy(X, BLOCKS), y, resume_from=path
    )
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    other = lazy(X, (700, 800))
    with pytest.raises(ValueError, match="the rows differ"):
        vicinal.dask.NCA(2, client=mortal, **settings).fit(other, y, resume_from=path)
