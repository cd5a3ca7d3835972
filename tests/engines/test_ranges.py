"""Range search for few queries: the sums over all pairs, however stale its order."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from vicinal import NCA, _threads
from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.densities import Compact, Gaussian
from vicinal.engines.cpu import backend
from vicinal.engines.cpu.ranges import make_index
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.samplers import StochasticQueries
from vicinal.targets import Labels

LOSS = NCALoss("accuracy", Compact(background=False))


def cloud(rng, n=1200, d=3, dtype=np.float64):
    """Points a few ranges of the kernel wide; one class has a single row."""
    y = np.minimum(rng.integers(0, 4, n), 2)
    y[7] = 3
    return (2.0 * rng.standard_normal((n, d))).astype(dtype), y


def assert_as_all_pairs(Z, labels, index, **rows):
    """The value and gradient of all pairs; return the facts."""
    expected = LOSS(Z, labels, **rows)
    found = LOSS(Z, labels, pairs=index, **rows)
    eps = float(np.finfo(Z.dtype).eps)
    assert found.value == pytest.approx(expected.value, rel=20 * eps)
    np.testing.assert_allclose(
        found.dZ, expected.dZ, rtol=0, atol=40 * eps * np.abs(expected.dZ).max()
    )
    assert found.facts["out_of_range"] == expected.facts["out_of_range"]
    assert found.facts["engine"] == "range"
    return found.facts


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 3, 6])
def test_equals_all_pairs(rng, dtype, d):
    Z, y = cloud(rng, d=d, dtype=dtype)
    references = np.sort(rng.permutation(len(y))[:1000])
    index = make_index(Z, y, references)
    queries = np.concatenate([[7], np.arange(100, 150)])
    labels = Labels(y, sample_weight=rng.uniform(0.5, 2.0, len(y)))
    facts = assert_as_all_pairs(Z, labels, index, queries=queries, references=references)
    assert facts["share_of_pairs"] < 0.9


def test_pairs_visited_are_counted(rng):
    Z, y = cloud(rng)
    queries = np.arange(20)
    share = LOSS(Z, Labels(y), queries=queries, pairs=make_index(Z, y, np.arange(1200))).facts
    index = make_index(Z, y, np.arange(1200))
    visited = 0
    for i in queries:
        for first, last in zip(index.edges[:-1], index.edges[1:], strict=True):
            chunk = Z[index.order[first:last]]
            gap = np.maximum(np.maximum(chunk.min(axis=0) - Z[i], Z[i] - chunk.max(axis=0)), 0.0)
            visited += (last - first) * (gap @ gap <= 1.0)
    assert share["share_of_pairs"] == pytest.approx(visited / (20 * 1200))


def test_a_stale_order_gives_the_same_sums(rng):
    Z, y = cloud(rng)
    index = make_index(rng.standard_normal(Z.shape), y, np.arange(len(y)))  # of other points
    stale = assert_as_all_pairs(Z, Labels(y), index, queries=np.arange(50))["share_of_pairs"]
    index = make_index(Z, y, np.arange(len(y)))
    fresh = assert_as_all_pairs(Z, Labels(y), index, queries=np.arange(50))["share_of_pairs"]
    assert fresh < stale


def test_rows_of_the_index_without_mass_count_for_nothing(rng):
    Z, y = cloud(rng)
    index = make_index(Z, y, np.arange(len(y)))
    references = np.arange(200, len(y))
    assert_as_all_pairs(Z, Labels(y), index, queries=np.arange(150, 260), references=references)


def test_thread_count_agnosticism(rng, monkeypatch):
    Z, y = cloud(rng)
    index = make_index(Z, y, np.arange(len(y)))
    results = []
    for threads in (1, 2):
        monkeypatch.setattr("vicinal.engines.cpu.ranges.n_threads", lambda threads=threads: threads)
        with threadpool_limits(threads):
            results.append(LOSS(Z, Labels(y), queries=np.arange(300), pairs=index))
    assert results[0].value == results[1].value
    np.testing.assert_array_equal(results[0].dZ, results[1].dZ)
    assert _threads.n_threads() >= 1


def test_where_an_index_is_made(rng):
    Z, y = cloud(rng)
    labels, rows = Labels(y), np.arange(1200)
    assert LOSS.make_index(Z, labels, None, 50) is not None
    assert LOSS.make_index(Z, labels, rows[:900], 50) is None  # too few references
    assert LOSS.make_index(Z, labels, None, 1200) is None  # every row is a query
    assert NCALoss("accuracy", Gaussian()).make_index(Z, labels, None, 50) is None
    wide = np.repeat(Z, 20, axis=1)
    assert LOSS.make_index(wide, labels, None, 50) is None  # boxes of so many dimensions hold all
    with pytest.raises(ValueError, match="needs a kernel of finite range"):
        NCALoss("accuracy")(Z, labels, pairs=LOSS.make_index(Z, labels, None, 50))


def test_one_index_serves_the_batches_of_a_pass(rng):
    Z, y = cloud(rng)
    problem = Problem(Features(Z, None), Labels(y), LOSS, Linear(3))
    deal = StochasticQueries(100).dealer(problem.source, np.random.RandomState(0))
    theta = np.eye(3).ravel()
    batches = deal(theta, np.random.RandomState(1))
    assert len({id(batch.pairs) for batch in batches}) == 1
    assert problem.evaluate(theta, batches[0])[2]["engine"] == "range"
    again = deal(theta, np.random.RandomState(1))
    np.testing.assert_array_equal(batches[0].pairs.order, again[0].pairs.order)
    problem = problem.replace(objective=NCALoss("accuracy"))
    deal = StochasticQueries(100).dealer(problem.source, np.random.RandomState(0))
    assert deal(theta, np.random.RandomState(1))[0].pairs is None


def test_a_fit_reports_the_pairs_visited(rng, monkeypatch):
    X, y = cloud(rng, 1500)
    y = np.minimum(y, 2)
    settings = {
        "objective": "accuracy", "alpha": 0.0, "kernel": Compact(background=False),
        "sampling": StochasticQueries(50), "max_iter": 5, "random_state": 0,
        "scaling": None, "init": np.eye(3),
    }  # fmt: skip
    fit = NCA(3, **settings).fit(X, y)
    assert max(fit.history_["share_of_pairs"][1:]) < 0.9
    monkeypatch.setattr(backend, "INDEX_FROM", 10_000)
    plain = NCA(3, **settings).fit(X, y)
    assert min(plain.history_["share_of_pairs"]) == 1.0
    np.testing.assert_allclose(fit.components_, plain.components_, rtol=1e-3)
