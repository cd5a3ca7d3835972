"""Tasks on the workers of a dask client: plain functions with retries, and what they returned.

Nothing is scattered, pinned to a worker, or kept by an actor: whatever a worker holds is the result
of a task, which another worker can compute again.  A task uses one thread, since a worker runs as
many tasks at a time as it has threads, and its bits do not depend on the worker.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import dask
import distributed
import numpy as np
import scipy.sparse as sp
from distributed.comm.core import CommClosedError

from vicinal._threads import at_most, single_threaded_blas
from vicinal._validation import warn

_PATIENCE = 60.0  # seconds without a result, after which the number of workers is looked at
_RETRIES = 2
#: what a client raises when its scheduler has gone, and what may be the error of a task, too
_GONE = (asyncio.CancelledError, CancelledError, CommClosedError)
_PERHAPS_GONE = (OSError, RuntimeError)


class ClusterLostError(RuntimeError):
    """The scheduler of a cluster has gone: what its workers held is lost."""


def in_one_thread(function: Callable[..., Any], *args: Any) -> Any:
    """The result of a task."""
    with at_most(1), single_threaded_blas():
        return function(*map(as_computed, args))


def as_computed(value: Any) -> Any:
    """Arrays as they are where they were computed: aligned, in C order, and not read-only.

    Those that came through the network lie at any address.  NumPy multiplies such arrays by other
    loops, which give other bits, and numba would compile its kernels once more for them.
    """
    if type(value) in (list, tuple):
        return type(value)(map(as_computed, value))
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(map(as_computed, value))
    if type(value) is np.ndarray:
        flags = value.flags
        usual = flags.aligned and flags.writeable and flags.c_contiguous
        return value if usual else np.array(value, order="C")
    if sp.issparse(value) and value.format in ("csr", "csc"):
        parts = value.data, value.indices, value.indptr
        return type(value)(tuple(map(as_computed, parts)), shape=value.shape)
    return value


def as_it_is(value: Any) -> Any:
    """A value that enters as the result of a task."""
    return value


class Cluster:
    """The workers of a client, during one fit.

    Parameters
    ----------
    client : distributed.Client or None
        None: the current one.
    owner : str
        The estimator that asks, for errors.
    lost : str, default=""
        What to do if the scheduler goes away; empty: how to resume the fit of the owner.
    """

    def __init__(self, client: Any, owner: str, lost: str = "") -> None:
        if client is None:
            try:
                client = distributed.get_client()
            except ValueError:
                raise ValueError(
                    f"vicinal.dask.{owner}.fit needs the client of a cluster. Got none: make one "
                    "first, as by `from distributed import Client; client = Client()`, or pass "
                    f"{owner}(client=...)."
                ) from None
        self.client, self.owner, self.warned = client, owner, False
        self.lost = lost or (
            "A fit with the callback vicinal.callbacks.Checkpoint(path) goes on with another "
            f"client and the same data: vicinal.dask.{owner}(..., client=client).fit(X, y, "
            "resume_from=path). It ends in the same bits."
        )
        # One thread of ours fetches rows while the present batch is computed.
        self.fetcher = ThreadPoolExecutor(1, "vicinal-fetch")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: Any) -> None:
        self.fetcher.shutdown(cancel_futures=True)

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """Begin a task; futures among the arguments stand for their results."""
        self._check_connected()
        name = f"vicinal-{function.__name__.strip('_')}-{uuid.uuid4().hex}"
        # labels and weights of large blocks are no mistake of the user
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GiB"}):
            try:
                return self.client.submit(
                    in_one_thread, function, *args, key=name, pure=False, retries=_RETRIES
                )
            except (*_GONE, *_PERHAPS_GONE) as error:
                self._raise_if_lost(error)
                raise

    def put(self, value: Any) -> Any:
        """A value on the workers."""
        return self.submit(as_it_is, value)

    def compute(self, collections: Sequence[Any]) -> list[Any]:
        """Begin to compute lazy collections, each to one future."""
        return list(self.client.compute(list(collections), retries=_RETRIES))

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """The results, in order."""
        self._check_connected()
        try:
            self._await(list(futures))
            return list(self.client.gather(list(futures)))
        except (*_GONE, *_PERHAPS_GONE) as error:
            self._raise_if_lost(error)
            raise

    def _await(self, futures: list[Any]) -> None:
        """Wait for tasks, and warn if there is no worker: more may come, but need not."""
        for future in futures:
            while not future.done():
                try:
                    future.exception(timeout=None if self.warned else _PATIENCE)
                except TimeoutError:
                    self._warn_without_workers()

    def _warn_without_workers(self) -> None:
        if self.client.nthreads():
            return
        self.warned = True
        warn(
            f"The cluster has no workers: vicinal.dask.{self.owner} waits for some. To get an "
            "error instead, call dask.config.set({'distributed.scheduler.no-workers-timeout': "
            "'10m'}) before the scheduler starts."
        )

    def each(self, function: Callable[..., Any], *args: Sequence[Any]) -> list[Any]:
        """The results of a task for each of some arguments."""
        return self.gather([self.submit(function, *each) for each in zip(*args, strict=True)])

    def _check_connected(self) -> None:
        """Refuse a client that looks for its scheduler: what that held is lost in any case."""
        if self.client.status != "running":
            self._raise_if_lost(None)

    def _raise_if_lost(self, error: BaseException | None) -> None:
        """Name the loss of the scheduler, unless it was a task that failed."""
        if self.client.status == "running" and not isinstance(error, _GONE):
            return
        scheduler = getattr(self.client.scheduler, "address", "the address of the client")
        raise ClusterLostError(
            f"The scheduler at {scheduler} has gone, and with it what its workers held. {self.lost}"
        ) from error
