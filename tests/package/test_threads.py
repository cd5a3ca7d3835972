"""Schedules touch nothing twice, and threads come and go without a trace."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from vicinal import _threads
from vicinal._threads import block_edges, n_threads, rectangle, round_robin, run, uninterrupted
from vicinal.objectives import nca


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11, 16])
def test_round_robin_meets_every_pair_once(count):
    rounds = list(round_robin(count))
    for pairs in rounds:
        touched = [b for p, q in pairs for b in {p, q}]
        assert len(touched) == len(set(touched))
        assert all(p <= q for p, q in pairs)
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(itertools.combinations_with_replacement(range(count), 2))
    assert len(rounds) <= count + 1  # as few as can be: all blocks at work, or all but one
    assert rounds == list(round_robin(count))


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (2, 7), (7, 2), (1, 5), (4, 1)])
def test_rectangle_meets_every_pair_once(rows, columns):
    rounds = list(rectangle(rows, columns))
    for pairs in rounds:
        for touched in zip(*pairs, strict=True):
            assert len(touched) == len(set(touched))
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(itertools.product(range(rows), range(columns)))
    assert len(rounds) == max(rows, columns)


def test_block_edges():
    for n in [0, 1, 767, 768, 769, 3072, 3073, 60_000]:
        edges = block_edges(n)
        sizes = np.diff(edges)
        assert (edges[0], edges[-1]) == (0, n)
        assert sizes.max() <= 768
        assert sizes.max() - sizes.min() <= 1
        assert len(sizes) == 1 or len(sizes) % 4 == 0
    assert block_edges(10, 3, 1) == [0, 2, 5, 7, 10]
    assert block_edges(10, 3, 3) == [0, 1, 3, 5, 6, 8, 10]


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_run_does_all_tasks(threads):
    done = []
    run(lambda task, thread: done.append((task, thread)), range(20), threads)
    assert sorted(task for task, _ in done) == list(range(20))
    assert {thread for _, thread in done} == set(range(min(threads, 20)))
    for task, thread in done:  # who does what is fixed
        assert task % min(threads, 20) == thread
    run(lambda task, thread: done.append(None), [], threads)
    assert len(done) == 20


@pytest.mark.parametrize("bad", [0, 1])
def test_run_passes_errors_on_when_all_have_ended(bad):
    """Task 0 is the caller's, task 1 another thread's."""
    begun, release, ended = threading.Event(), threading.Event(), []

    def function(task, thread):
        if task == bad:
            assert begun.wait(10)
            release.set()
            raise ZeroDivisionError(f"task {task}")
        begun.set()
        assert release.wait(10)
        ended.append(task)

    with pytest.raises(ZeroDivisionError, match=f"task {bad}"):
        run(function, [0, 1], 2)
    assert ended == [1 - bad]
    run(lambda task, thread: ended.append(task), [5, 6], 2)  # and the pool lives on
    assert sorted(ended[1:]) == [5, 6]


@pytest.mark.parametrize("bad", [0, 1])
def test_run_begins_no_task_after_an_error(bad):
    failed, begun = threading.Event(), []

    def function(task, thread):
        begun.append(task)
        if task == bad:
            failed.set()
            raise ZeroDivisionError
        assert failed.wait(10)
        time.sleep(0.3)  # time to leave the task that failed, on a busy machine too

    with pytest.raises(ZeroDivisionError):
        run(function, range(40), 2)
    assert len(begun) <= 2


@pytest.fixture
def interrupts():
    """Ctrl-C raises, as it does not where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.usefixtures("interrupts")
def test_run_takes_interrupts_between_tasks():
    """The caller gets the interrupt when the task of the other thread has ended, and no more run.

    The second interrupt comes while the caller waits for that.
    """
    begun, ended, calls = threading.Event(), [], []

    def function(task, thread):
        if thread == 0:
            assert begun.wait(10)
            return
        calls.append(task)
        begun.set()
        for _ in range(2):
            time.sleep(0.03)
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # time to take it, on a busy machine too
        ended.append(task)

    with pytest.raises(KeyboardInterrupt):
        run(function, range(40), 2)
    assert ended == calls == [1]
    done = []
    run(lambda task, thread: done.append(task), range(4), 2)
    assert sorted(done) == [0, 1, 2, 3]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.usefixtures("interrupts")
def test_uninterrupted():
    ended = []

    def function():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.03)
        ended.append(threading.current_thread())

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(function)
    assert len(ended) == 1
    assert ended[0] is not threading.main_thread()
    assert uninterrupted(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)


def test_a_busy_pool_delays_nobody(monkeypatch):
    """The caller does the shares that no thread has begun: so calls may be nested."""
    monkeypatch.setattr(_threads, "_pool", lambda pid: SimpleQueue())  # without threads
    done = []
    run(lambda task, thread: done.append((task, thread)), range(6), 3)
    assert sorted(done) == [(task, task % 3) for task in range(6)]


def test_a_run_that_has_ended_holds_no_memory(monkeypatch):
    """Calls that wait in the queue, or have just ended in another thread, keep nothing alive."""
    queue = SimpleQueue()
    monkeypatch.setattr(_threads, "_pool", lambda pid: queue)

    def begin():
        work_space = np.empty(3)
        run(lambda task, thread: work_space.fill(task), range(6), 3)
        return weakref.ref(work_space)

    assert begin()() is None
    assert queue.qsize() == 2


def test_n_threads_obeys_threadpoolctl():
    assert 1 <= n_threads() <= joblib.cpu_count()
    with threadpool_limits(1):
        assert n_threads() == 1
    with threadpool_limits(1, user_api="openmp"):
        assert n_threads() == 1
    with threadpool_limits(1, user_api="blas"):
        assert n_threads() >= 1
    with threadpool_limits(10_000):
        assert n_threads() == joblib.cpu_count()


def run_python(code, **environment):
    """Standard output of a fresh interpreter."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(joblib.cpu_count() < 2, reason="one thread anyhow")
def test_n_threads_obeys_the_environment():
    code = "from vicinal._threads import n_threads; print(n_threads())"
    assert int(run_python(code, OMP_NUM_THREADS="1")) == 1
    assert int(run_python(code, OMP_NUM_THREADS="2")) == 2


def _three_classes():
    rng = np.random.default_rng(3)
    return rng.standard_normal((1700, 3)), np.arange(1700) % 3


def _evaluate(queue):
    queue.put(nca(*_three_classes()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_works_after_a_fork(monkeypatch):
    """The child has the parent's pool, but none of its threads."""
    monkeypatch.setattr("vicinal.engines.cpu.tiles.n_threads", lambda: 2)
    expected = nca(*_three_classes())
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_evaluate, args=(queue,))
    child.start()
    value, dZ = queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0
    assert value == expected[0]
    np.testing.assert_array_equal(dZ, expected[1])


@pytest.mark.parametrize(("d", "rtol"), [(3, 0), (60, 1e-12)])
def test_works_from_several_threads_at_once(rng, monkeypatch, d, rtol):
    """The same bits, unless BLAS is in it: of several threads only one can hold it to one core."""
    monkeypatch.setattr("vicinal.engines.cpu.tiles.n_threads", lambda: 3)
    Zs = rng.standard_normal((6, 900, d)) / np.sqrt(d)
    y = np.arange(900) % 4
    expected = [nca(Z, y) for Z in Zs]
    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda Z: nca(Z, y), Zs))
    for (value, dZ), (value_expected, dZ_expected) in zip(got, expected, strict=True):
        assert value == pytest.approx(value_expected, rel=rtol, abs=0)
        np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * np.abs(dZ).max())


def _blas_threads():
    """Of the libraries that were loaded when the first limit was set: faiss may bring another."""
    known = {library.filepath for library in _threads._blas_libraries()}
    return [pool["num_threads"] for pool in threadpool_info() if pool["filepath"] in known]


def test_single_threaded_blas():
    with threadpool_limits(2, user_api="blas"):
        before = _blas_threads()
        with _threads.single_threaded_blas():
            assert set(_blas_threads()) == {1}
            with _threads.single_threaded_blas():
                assert set(_blas_threads()) == {1}
            assert set(_blas_threads()) == {1}
        assert _blas_threads() == before
        with pytest.raises(KeyError), _threads.single_threaded_blas():
            raise KeyError
        assert _blas_threads() == before


class InterruptedLibrary:
    """A BLAS library with a Ctrl-C in one of the calls that read or set its thread count."""

    def __init__(self, call):
        self.threads, self.calls, self.call = 7, 0, call

    def _count(self):
        self.calls += 1
        if self.calls == self.call:
            raise KeyboardInterrupt

    def get_num_threads(self):
        self._count()
        return self.threads

    def set_num_threads(self, threads):
        self.threads = threads
        self._count()


@pytest.mark.parametrize("call", [1, 2, 3])
def test_an_interrupt_leaves_no_limit_on_blas(call, monkeypatch):
    library = InterruptedLibrary(call)
    monkeypatch.setattr(_threads, "_blas_libraries", lambda: [library])
    with pytest.raises(KeyboardInterrupt), _threads.single_threaded_blas():
        assert library.threads == 1
    assert library.threads == 7
    with _threads.single_threaded_blas():
        assert library.threads == 1
    assert library.threads == 7
