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
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import SimpleQueue
from typing import Any

import joblib
import sklearn.utils  # noqa: F401  (loads the OpenMP runtime that threadpoolctl looks for)
from threadpoolctl import ThreadpoolController


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@functools.cache
def _cores_and_openmp() -> tuple[int, list[Any]]:
    # cached: reading the limits of a container takes longer than a small objective
    return joblib.cpu_count(), _controller().select(user_api="openmp").lib_controllers


class _Share(threading.local):
    """Threads that work of the present thread may use, and its key among the users of BLAS."""

    most: int | None = None
    blas_user: object = None


_share = _Share()


def n_threads() -> int:
    """Number of threads to use now."""
    cores, libraries = _cores_and_openmp()
    most = cores if _share.most is None else _share.most
    return max(1, min([cores, most, *(library.get_num_threads() for library in libraries)]))


_HANDOVER = 70_000.0  # nanoseconds until a thread of the pool has begun, and is known to have ended


def n_threads_for(nanoseconds: float) -> int:
    """Number of threads for work that takes one thread this long: one, if the work is short."""
    return n_threads() if nanoseconds > 2 * _HANDOVER else 1


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Use no more than these threads for what the present thread does inside this context."""
    before, _share.most = _share.most, threads
    try:
        yield
    finally:
        _share.most = before


def capped(n_jobs: int | None) -> AbstractContextManager[None]:
    """Use at most ``n_jobs`` threads inside this context; None and -1: as many as outside it."""
    if n_jobs is None or n_jobs == -1:
        return nullcontext()
    return at_most(min(int(n_jobs), n_threads()))


_PATIENCE = 0.02  # seconds of waiting for another thread, between looks for an interrupt
_blas_lock = threading.Lock()
_blas_users: set[object] = set()  # one for each thread inside `single_threaded_blas`
_blas_before: list[tuple[Any, int]] = []  # the libraries, and their thread counts outside


def single_threaded_blas() -> AbstractContextManager[None]:
    """BLAS on one thread: its sums depend on its thread count, and its pool competes with ours.

    The limit applies to the whole process: if several threads are inside at once, the first sets
    it and the last to leave removes it.  An interrupt at any point leaves no limit behind.
    """
    # inside of another one there is nothing to do, and small fits ask hundreds of times
    return nullcontext() if _share.blas_user in _blas_users else _limited_blas()


@contextmanager
def _limited_blas() -> Iterator[None]:
    user = _share.blas_user = object()
    try:
        with _blas_lock:
            if not _blas_users:
                _blas_before[:] = [(blas, blas.get_num_threads()) for blas in _blas_libraries()]
            _blas_users.add(user)
            if len(_blas_users) == 1:
                for blas, _ in _blas_before:
                    blas.set_num_threads(1)
        yield
    finally:
        _leave_blas(user)


def _leave_blas(user: object) -> None:
    try:
        with _blas_lock:
            _blas_users.discard(user)
            if not _blas_users:
                for blas, threads in _blas_before:
                    blas.set_num_threads(threads)
    except BaseException:  # interrupted: all of it can be done twice
        _leave_blas(user)
        raise


@functools.cache
def _blas_libraries() -> list[Any]:
    return _controller().select(user_api="blas").lib_controllers


@functools.cache
def _pool(pid: int) -> SimpleQueue[Callable[[], None]]:
    """A queue of calls, and the threads that take them.

    One for each process: threads do not survive a fork.  The threads are daemons, because an
    interrupt while an executor starts a thread leaves one that the interpreter joins at exit and
    nobody ends; at exit ours wait for the queue, since `run` never leaves a call behind.
    """
    queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
    for _ in range(max(1, _cores_and_openmp()[0])):
        threading.Thread(target=_serve, args=(queue,), name="vicinal", daemon=True).start()
    return queue


def _serve(queue: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        queue.get()()  # not kept in a variable: the call holds the arrays of its `run`


class _Shares:
    """The tasks of one `run`, in one share for each thread.

    Signals are handled between any two instructions of the main thread, and only there.  So a share
    is claimed by one atomic operation, and `wait` can be interrupted anywhere and begun again.
    """

    def __init__(self, function: Callable[[Any, int], None], tasks: Any, threads: int) -> None:
        self.function, self.tasks, self.threads = function, tasks, threads
        self.stop = False
        self.errors: list[BaseException] = []
        self.owners: dict[int, bool] = {}  # whether a thread of the pool has claimed the share
        self.ended = [False] * threads
        self.latches = [threading.Lock() for _ in range(threads)]
        for latch in self.latches:
            latch.acquire()

    def work(self, thread: int) -> None:
        """Do one share, in the thread of the caller."""
        for task in self.tasks[thread :: self.threads]:
            if self.stop:
                break
            self.function(task, thread)

    def work_in_pool(self, thread: int) -> None:
        """Do one share in a thread of the pool, unless the caller has claimed it."""
        if not self.owners.setdefault(thread, True):
            return
        try:
            self.work(thread)
        except BaseException as error:
            self.stop = True
            self.errors.append(error)
        finally:
            self.ended[thread] = True
            self.latches[thread].release()

    def work_unclaimed(self) -> None:
        """Do the shares that no thread of the pool has begun."""
        for thread in range(1, self.threads):
            if not self.owners.setdefault(thread, False):
                self.work(thread)

    def wait(self) -> None:
        """Wait for the threads of the pool; after an interrupt, only for their present tasks."""
        try:
            for thread in range(1, self.threads):
                # the flag is set first: an interrupt may fall between the latch and the next line
                while self.owners.setdefault(thread, False) and not self.ended[thread]:
                    # not for ever: the signal may have gone to another thread, which cannot wake us
                    self.latches[thread].acquire(timeout=_PATIENCE)
        except BaseException:
            self.stop = True
            self.wait()
            raise

    def forget(self) -> None:
        """Let go of the arrays of the function: threads of the pool may keep this object."""
        del self.function, self.tasks


def run(function: Callable[[Any, int], None], tasks: Sequence[Any], threads: int) -> None:
    """Call ``function(task, thread)`` for all tasks, divided among the threads; wait for all.

    After an error or an interrupt no task is begun, and what is raised is raised when no task is
    running: no thread writes to an array that the caller has given up.  A task in compiled code is
    never torn, for only the interpreter of the main thread answers to signals.
    """
    threads = min(threads, len(tasks))
    if threads <= 1:
        for task in tasks:
            function(task, 0)
        return
    shares = _Shares(function, tasks, threads)
    try:
        for thread in range(1, threads):
            _pool(os.getpid()).put(functools.partial(shares.work_in_pool, thread))
        shares.work(0)
        shares.work_unclaimed()
    except BaseException:
        shares.stop = True
        raise
    finally:
        shares.wait()
        shares.forget()
    if shares.errors:
        raise shares.errors[0]


def uninterrupted(function: Callable[[], Any]) -> Any:
    """Return ``function()``, called where no signal can interrupt it.

    In the main thread, the only one that signals interrupt, this waits for a thread of the pool; an
    interrupt is raised when the function has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    results: list[Any] = []
    shares = _Shares(lambda task, thread: results.append(function()), range(2), 2)
    try:
        _pool(os.getpid()).put(functools.partial(shares.work_in_pool, 1))
        while not shares.ended[1]:
            shares.latches[1].acquire()
    finally:
        shares.wait()
    if shares.errors:
        raise shares.errors[0]
    return results[0]


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
