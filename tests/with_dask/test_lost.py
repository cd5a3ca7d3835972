"""Workers that die, tasks that end in another order, a scheduler that goes away."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from distributed import Client
from with_dask.conftest import local_cluster
from with_dask.tables import dawdles, dies_once, lazy, rows, through

import vicinal.dask
from vicinal.callbacks import Callback, Checkpoint
from vicinal.samplers import MiniBatches, StochasticQueries

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, y = rows(1500)
BLOCKS = (500, 130, 600, 270)
SETTINGS = {
    "pairs": {"sampling": "full", "max_iter": 2},
    "batches": {"sampling": MiniBatches(300, clusters="random"), "max_iter": 5},
    "queries": {"sampling": StochasticQueries(40), "max_iter": 2},
}


def model(client, way):
    return vicinal.dask.NCA(2, alpha=1e-3, random_state=0, client=client, **SETTINGS[way])


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


@pytest.mark.parametrize("way", SETTINGS)
def test_2_and_4_workers_and_any_order(mortal, expected, monkeypatch, way):
    mortal.cluster.scale(2)
    mortal.wait_for_workers(2)
    assert_same(mortal, way, expected)
    if way == "pairs":
        mortal.cluster.scale(4)
        mortal.wait_for_workers(4)
        through(monkeypatch, lambda f, args: (dawdles, (f, *args)))
        assert_same(mortal, way, expected)
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
