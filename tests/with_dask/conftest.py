"""One cluster of processes for all tests; without dask, nothing of this folder is collected."""

import logging
import os
from contextlib import contextmanager, suppress
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("distributed") else ["test_*.py"]
# the processes of workers compile nothing that these tests have compiled
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "65536")


@contextmanager
def local_cluster(workers, **more):
    """A cluster of processes on this machine, each of one thread."""
    from distributed import LocalCluster

    settings = {
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "memory_limit": "2GiB",
        "silence_logs": logging.CRITICAL,
    }
    found = LocalCluster(n_workers=workers, **(settings | more))
    try:
        yield found
    finally:
        # After its scheduler has gone, distributed at times looks for a killed worker once more.
        with suppress(KeyError):
            found.close()


@pytest.fixture(scope="session")
def cluster():
    with local_cluster(2) as found:
        yield found


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster) as found:
        yield found
