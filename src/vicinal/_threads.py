"""Threads: results have the same bits for any number of them.

Kernels release the GIL, so plain Python threads suffice.  Their number follows scikit-learn's
OpenMP convention: all cores, or fewer with ``OMP_NUM_THREADS``,
``threadpoolctl.threadpool_limits`` or inside a joblib worker.  A schedule that depends only on the
size of the problem fixes what is computed and in which order; the threads divide its independent
parts among themselves.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import joblib
import sklearn.utils  # noqa: F401  (loads the OpenMP runtime that threadpoolctl looks for)
from threadpoolctl import ThreadpoolController

__all__ = ["block_edges", "n_threads", "rectangle", "round_robin", "run", "single_threaded_blas"]


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@functools.cache
def _cores_and_openmp() -> tuple[int, list[Any]]:
    # cached: reading the limits of a container takes longer than a small objective
    return joblib.cpu_count(), _controller().select(user_api="openmp").lib_controllers


def n_threads() -> int:
    """Number of threads to use now."""
    cores, libraries = _cores_and_openmp()
    return max(1, min([cores, *(library.get_num_threads() for library in libraries)]))


_blas_lock = threading.Lock()
_blas_limits: list[Any] = []  # one for each thread inside `single_threaded_blas`


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """BLAS on one thread: its sums depend on its thread count, and its pool competes with ours.

    The limit applies to the whole process: if several threads are inside at once, the first sets
    it and the last to leave removes it.
    """
    with _blas_lock:
        _blas_limits.append(_blas_limits[0] if _blas_limits else _limit_blas())
    try:
        yield
    finally:
        with _blas_lock:
            limit = _blas_limits.pop()
            if not _blas_limits:
                limit.restore_original_limits()


def _limit_blas() -> Any:
    return _controller().limit(limits=1, user_api="blas")


@functools.cache
def _pool(pid: int) -> ThreadPoolExecutor:
    # one pool per process: threads do not survive a fork
    return ThreadPoolExecutor(
        max_workers=max(1, _cores_and_openmp()[0]), thread_name_prefix="vicinal"
    )


def run(function: Callable[[Any, int], None], tasks: Sequence[Any], threads: int) -> None:
    """Call ``function(task, thread)`` for all tasks, divided among the threads; wait for all."""
    threads = min(threads, len(tasks))

    def work(thread: int) -> None:
        for task in tasks[thread::threads]:
            function(task, thread)

    others = [_pool(os.getpid()).submit(work, thread) for thread in range(1, threads)]
    try:
        if tasks:
            work(0)
    finally:
        for other in others:
            other.result()


def block_edges(n: int, size: int = 768, multiple: int = 4) -> list[int]:
    """Cut ``range(n)`` into equal blocks of about ``size``; their number is a ``multiple``."""
    if n <= size:
        return [0, n]
    count = -(-n // size)
    count = -(-count // multiple) * multiple
    return [n * b // count for b in range(count + 1)]


def round_robin(count: int) -> Iterator[list[tuple[int, int]]]:
    """All unordered pairs of blocks, in rounds that touch each block once (the circle method).

    The blocks paired with themselves come first.
    """
    yield [(b, b) for b in range(count)]
    ring: list[int | None] = list(range(count))
    if count % 2:
        ring.append(None)
    half = len(ring) // 2
    for _ in range(len(ring) - 1):
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(min(p, q), max(p, q)) for p, q in pairs if p is not None and q is not None]
        ring.insert(1, ring.pop())


def rectangle(rows: int, columns: int) -> Iterator[list[tuple[int, int]]]:
    """All (row, column) pairs of blocks, in rounds that touch no row and no column twice."""
    larger = max(rows, columns)
    for shift in range(larger):
        pairs = [(r, (r + shift) % larger) for r in range(rows)]
        yield [(r, c) for r, c in pairs if c < columns]
