"""Clusters of bounded size, classes in subsamples; what all keep to is in contracts."""

import functools

import numpy as np
import pytest
from common.problems import D, make_problem, one_pass, random_states

from vicinal.core.types import Batch, Source
from vicinal.samplers import MiniBatches, Subsample
from vicinal.samplers import clusters as _clusters
from vicinal.solvers import Adam, minimize


@pytest.mark.parametrize("clusters", ["rpc", "fpc"])
def test_clusters_follow_the_space(rng, clusters):
    # The first column of the input tells two far groups apart, the projection does not show it.
    problem = make_problem(rng, n=80, split=False)
    X = problem.X.X
    X[:, 0] += 100.0 * (np.arange(80) >= 40)
    A = np.zeros((2, D))
    A[0, 1] = A[1, 2] = 1.0

    def mixed(space):
        batches = one_pass(MiniBatches(40, clusters, space), problem.source, A.ravel())
        return [len(np.unique(batch.rows >= 40)) > 1 for batch in batches]

    assert not any(mixed("input"))
    assert all(mixed("embedded"))


def test_input_clusters_are_found_once(rng):
    calls = []
    problem = make_problem(rng)

    def points(rows):
        calls.append(rows)
        return problem.source.points(rows)

    sampler = MiniBatches(20, "rpc", "input")
    deal = sampler.dealer(problem.source._replace(points=points), np.random.RandomState(0))
    n_calls = len(calls)
    one, other = (deal(None, state) for state in random_states(1, 2))
    assert len(calls) == n_calls > 0
    assert {tuple(b.rows) for b in one} == {tuple(b.rows) for b in other}
    assert [tuple(b.rows) for b in one] != [tuple(b.rows) for b in other]


def test_embedded_clusters_follow_theta(rng):
    problem = make_problem(rng)
    deal = MiniBatches(20).dealer(problem.source, np.random.RandomState(0))
    first, second = (rng.standard_normal(2 * D) for _ in range(2))
    state = functools.partial(np.random.RandomState, 1)
    assert repr(deal(first, state())) != repr(deal(second, state()))


def test_farthest_points_by_hand():
    """Three far places of 4, 4 and 4 rows are the three clusters, whatever the first centre."""
    Z = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 4, axis=0)
    Z += np.linspace(0.0, 0.1, 24).reshape(12, 2)
    for seed in range(5):
        groups = _clusters.farthest_point(
            _clusters.EmbeddedPoints(Z), 4, np.random.RandomState(seed)
        )
        assert sorted(map(tuple, groups)) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]


def test_farthest_point_clusters_neither_large_nor_small(rng):
    # one crowd of 200, and outliers that would each be a cluster of one
    Z = rng.standard_normal((206, 2))
    Z[200:] = 1000.0 * np.arange(1, 7)[:, None]
    codes = np.arange(206) % 2
    groups = _clusters.farthest_point(
        _clusters.EmbeddedPoints(Z), 30, np.random.RandomState(0), codes
    )
    sizes = [len(group) for group in groups]
    assert max(sizes) <= 30
    assert min(sizes) >= 3
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(206))


def test_farthest_point_clusters_have_a_pair():
    # Rows far from the others, all of different classes: no cluster to learn from.
    Z = np.concatenate([np.zeros((10, 1)), 50.0 + np.zeros((5, 1)), 80.0 + np.zeros((10, 1))])
    codes = np.concatenate([np.zeros(10, int), np.arange(5), np.ones(10, int)])
    groups = _clusters.farthest_point(
        _clusters.EmbeddedPoints(Z), 15, np.random.RandomState(0), codes
    )
    assert sorted(len(group) for group in groups) == [10, 15]  # 50 is nearer to 80
    assert all(len(np.unique(codes[group])) < len(group) for group in groups)


@pytest.mark.nojit
@pytest.mark.parametrize("clusters", ["rpc", "fpc"])
@pytest.mark.parametrize(
    "Z",
    [
        np.zeros((50, 2)),
        np.repeat([[0.0], [1.0], [1e-300]], [48, 1, 1], axis=0),
        np.linspace(-1e200, 1e200, 50)[:, None],
        np.full((50, 1), np.nan),
        np.concatenate([np.full((25, 2), 3e38), np.full((25, 2), -3e38)]).astype(np.float32),
    ],
    ids=["one_place", "outliers", "huge", "nan", "float32"],
)
def test_clusters_of_degenerate_points_end_and_are_not_empty(Z, clusters):
    source = Source(50, np.arange(50) % 2, embed=lambda theta: Z)
    batches = one_pass(MiniBatches(7, clusters), source)
    assert all(0 < len(batch.rows) <= 7 for batch in batches)
    rows = np.sort(np.concatenate([batch.rows for batch in batches]))
    np.testing.assert_array_equal(rows, np.arange(50))


@pytest.mark.parametrize("n", [21, 39, 40, 41, 75])
def test_recursive_projection_sizes(n):
    Z = np.random.RandomState(0).standard_normal((n, 2))
    rows = np.arange(n)
    groups = _clusters.recursive_projection(
        _clusters.EmbeddedPoints(Z), rows, 20, np.random.RandomState(0)
    )
    sizes = [len(group) for group in groups]
    assert 10 <= min(sizes) <= max(sizes) <= 20


def test_recursive_projection_keeps_neighbours_together():
    Z = np.random.RandomState(0).permutation(64)[:, None].astype(float)
    cloud = _clusters.EmbeddedPoints(Z)
    groups = _clusters.recursive_projection(cloud, np.arange(64), 8, np.random.RandomState(0))
    for group in groups:  # on a line the halves are intervals
        np.testing.assert_array_equal(np.diff(np.sort(Z[group, 0])), 1.0)


class TestSubsample:
    CODES = np.repeat(np.arange(4), [600, 300, 98, 2])

    @pytest.mark.parametrize("size", [8, 50, 100, 0.1, 999])
    def test_proportions(self, size):
        (batch,) = one_pass(Subsample(size), Source(1000, self.CODES))
        n = 100 if size == 0.1 else size
        assert batch.queries is None
        assert len(np.unique(batch.rows)) == len(batch.rows) == n
        counts = np.bincount(self.CODES[batch.rows])
        assert counts.min() >= 2
        if n >= 50:  # the two rows of the last class are taken from the others
            np.testing.assert_allclose(counts, n * np.bincount(self.CODES) / 1000, atol=2.0)

    def test_single_rows_and_many_classes(self):
        codes = np.concatenate([[0], np.repeat([1, 2], 20), [3]])
        (batch,) = one_pass(Subsample(8), Source(42, codes))
        assert len(batch.rows) == 8
        assert np.bincount(codes[batch.rows]).tolist() == [1, 3, 3, 1]

    def test_errors(self):
        message = r"two rows for each of the 4 classes, 8 in all. Got 7, 7 rows, instead"
        with pytest.raises(ValueError, match=message):
            one_pass(Subsample(7), Source(1000, self.CODES))
        with pytest.raises(ValueError, match=r"Got 0.001, 1 rows, instead"):
            one_pass(Subsample(0.001), Source(1000, self.CODES))

    def test_rows_without_classes_are_drawn_evenly(self):
        (batch,) = one_pass(Subsample(50), Source(1000))
        assert len(np.unique(batch.rows)) == 50
        assert 300 < batch.rows.mean() < 700


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: one_pass(MiniBatches(4), Source(50, np.arange(50) % 5)),
            "'size' parameter of MiniBatches must be at least the number of classes, 5. Got 4",
        ),
        (lambda: one_pass(MiniBatches(4), Source(50)), "space='embedded' needs the points"),
        (lambda: one_pass(MiniBatches(4, "fpc", "input"), Source(50)), "space='input' needs"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_class_that_leaves_a_batch(rng):
    """Rows without a fellow add nothing to the log objective, and the run goes on."""
    problem = make_problem(rng, n=30, split=False)
    batch = Batch(rows=np.array([0, 1, 2]))  # three classes
    theta = rng.standard_normal(2 * D)
    value, grad = problem.replace(alpha=0.0)(theta, batch)
    assert value == 0.0
    assert not grad.any()
    options = {"sampler": MiniBatches(3, "random"), "source": problem.source, "random_state": 0}
    result = minimize(problem, theta, Adam(), max_iter=30, **options)
    assert result.reason == "max_iter"


def test_source(rng):
    problem = make_problem(rng)
    theta, source = rng.standard_normal(2 * D), problem.source
    assert source.n_rows == 75
    np.testing.assert_array_equal(source.codes, problem.target.codes[problem.train])
    np.testing.assert_array_equal(source.embed(theta), problem.embed(theta)[problem.train])
    rows = np.array([3, 1])
    np.testing.assert_array_equal(source.points(rows).X, problem.X.X[problem.train[rows]])
