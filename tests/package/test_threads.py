"""Schedules touch nothing twice, and threads come and go without a trace."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from vicinal import _threads
from vicinal._threads import block_edges, n_threads, rectangle, round_robin, run
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
    release, ended = threading.Event(), []

    def function(task, thread):
        if task == bad:
            release.set()
            raise ZeroDivisionError(f"task {task}")
        assert release.wait(10)
        ended.append(task)

    with pytest.raises(ZeroDivisionError, match=f"task {bad}"):
        run(function, [0, 1], 2)
    assert ended == [1 - bad]
    run(lambda task, thread: ended.append(task), [5, 6], 2)  # and the pool lives on
    assert sorted(ended[1:]) == [5, 6]


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
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


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
