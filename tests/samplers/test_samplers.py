"""Samplers: every row its turn, clusters of bounded size, runs cut in mid-pass."""

import functools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.core.types import Batch, Sampler, Source
from vicinal.extras import clusters as _clusters
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.samplers import Full, MiniBatches, StochasticQueries, Subsample, resolve
from vicinal.solvers import LBFGS, Adam, Momentum, minimise
from vicinal.targets import Labels

D = 4
CLUSTERED = [
    MiniBatches(20, clusters, space)
    for clusters in ("random", "rpc", "fpc")
    for space in ("embedded", "input")
]
CHANGING = [*CLUSTERED, StochasticQueries(25)]
each_changing = pytest.mark.parametrize("sampler", CHANGING, ids=repr)


def make_problem(rng, n=90, split=True, sparse=False, objective="log", **kwargs):
    y = np.arange(n) % 3
    X = rng.standard_normal((n, D)) + 2.0 * rng.standard_normal((3, D))[y]
    if split:
        rows = rng.permutation(n)
        kwargs |= {"train": np.sort(rows[: n - 15]), "held_out": rows[n - 15 :]}
    features = Features(sp.csr_matrix(X) if sparse else X, "standard")
    return Problem(features, Labels(y), NCALoss(objective), Linear(2), alpha=0.01, **kwargs)


def random_states(*seeds):
    return [np.random.RandomState(seed) for seed in seeds]


def one_pass(sampler, source, theta=None, seed=0):
    first, second = random_states(seed, seed + 1)
    return sampler.dealer(source, first)(theta, second)


@pytest.mark.parametrize("sparse", [False, True])
@each_changing
def test_each_row_has_its_turn_once_a_pass(rng, sampler, sparse):
    problem = make_problem(rng, sparse=sparse)
    source = problem.source
    deal = sampler.dealer(source, np.random.RandomState(0))
    theta = rng.standard_normal(2 * D)
    passes = [deal(theta, np.random.RandomState(seed)) for seed in (1, 2)]
    for batches in passes:
        seen = [b.queries if isinstance(sampler, StochasticQueries) else b.rows for b in batches]
        np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.arange(75))
        assert all(0 < len(rows) <= sampler.size for rows in seen)
        assert all(np.all(np.diff(rows) > 0) for rows in seen)
    assert repr(passes[0]) != repr(passes[1])
    assert repr(passes[0]) == repr(deal(theta, np.random.RandomState(1)))


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
        groups = _clusters.farthest_point(_clusters.Points(Z), 4, np.random.RandomState(seed))
        assert sorted(map(tuple, groups)) == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]


def test_farthest_point_clusters_neither_large_nor_small(rng):
    # one crowd of 200, and outliers that would each be a cluster of one
    Z = rng.standard_normal((206, 2))
    Z[200:] = 1000.0 * np.arange(1, 7)[:, None]
    codes = np.arange(206) % 2
    groups = _clusters.farthest_point(_clusters.Points(Z), 30, np.random.RandomState(0), codes)
    sizes = [len(group) for group in groups]
    assert max(sizes) <= 30
    assert min(sizes) >= 3
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(206))


def test_farthest_point_clusters_have_a_pair():
    # Rows far from the others, all of different classes: no cluster to learn from.
    Z = np.concatenate([np.zeros((10, 1)), 50.0 + np.zeros((5, 1)), 80.0 + np.zeros((10, 1))])
    codes = np.concatenate([np.zeros(10, int), np.arange(5), np.ones(10, int)])
    groups = _clusters.farthest_point(_clusters.Points(Z), 15, np.random.RandomState(0), codes)
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
    groups = _clusters.recursive_projection(_clusters.Points(Z), rows, 20, np.random.RandomState(0))
    sizes = [len(group) for group in groups]
    assert 10 <= min(sizes) <= max(sizes) <= 20


def test_recursive_projection_keeps_neighbours_together():
    Z = np.random.RandomState(0).permutation(64)[:, None].astype(float)
    cloud = _clusters.Points(Z)
    groups = _clusters.recursive_projection(cloud, np.arange(64), 8, np.random.RandomState(0))
    for group in groups:  # on a line the halves are intervals
        np.testing.assert_array_equal(np.diff(np.sort(Z[group, 0])), 1.0)


@pytest.mark.parametrize("space", ["embedded", "input"])
@pytest.mark.parametrize("clusters", ["rpc", "fpc"])
def test_thread_count_agnosticism(rng, clusters, space):
    X = np.repeat(rng.standard_normal((300, 20)), 10, axis=0)  # ties, where a last bit decides
    problem = Problem(Features(X, None), Labels(np.arange(3000) % 2), NCALoss(), Linear(3))
    theta = rng.standard_normal(60)
    deals = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            deals.append(one_pass(MiniBatches(400, clusters, space), problem.source, theta))
    assert pickle.dumps(deals[0]) == pickle.dumps(deals[1])


@pytest.mark.parametrize("objective", ["log", "accuracy"])
@pytest.mark.parametrize("split", [False, True])
def test_stochastic_gradient_is_unbiased(rng, objective, split):
    """The mean over a pass, by the sizes of its groups, is the gradient of all rows."""
    problem = make_problem(rng, split=split, objective=objective)
    theta = rng.standard_normal(2 * D)
    batches = one_pass(StochasticQueries(13), problem.source)
    sizes = [len(batch.queries) for batch in batches]
    assert max(sizes) - min(sizes) == 1
    values, grads = zip(*(problem(theta, batch) for batch in batches), strict=True)
    value, grad = problem(theta)
    assert np.average(values, weights=sizes) == pytest.approx(value, rel=1e-12)
    mean = np.average(grads, axis=0, weights=sizes)
    np.testing.assert_allclose(mean, grad, atol=1e-12 * np.abs(grad).max())


@pytest.mark.parametrize("size", [75, 100])
@pytest.mark.parametrize("make", [Subsample, MiniBatches, StochasticQueries])
def test_whole_batch_is_exact(rng, make, size):
    problem = make_problem(rng)
    options = {"max_iter": 5, "source": problem.source, "random_state": 0}
    theta = rng.standard_normal(2 * D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if size > 75 else "error")
        some = minimise(problem, theta, Adam(), sampler=make(size), **options)
    whole = minimise(problem, theta, Adam(), max_iter=5)
    np.testing.assert_array_equal(some.state.theta, whole.state.theta)


@pytest.mark.parametrize("make", [Subsample, MiniBatches, StochasticQueries])
def test_more_rows_than_there_are_warns(make):
    message = f"'size' parameter of {make.__name__} is 11, but there are 10 rows"
    with pytest.warns(UserWarning, match=message):
        batches = one_pass(make(11), Source(10, np.arange(10) % 2))
    assert batches == [Batch()]


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

    def test_one_subset_for_the_whole_run(self, rng):
        problem = make_problem(rng)
        seen = []

        def fun(theta, batch):
            seen.append(batch)
            return problem(theta, batch)

        sampler, source = Subsample(20), problem.source
        options = {"sampler": sampler, "source": source, "max_iter": 3, "tol": 0.0}
        theta = rng.standard_normal(2 * D)
        first = minimise(fun, theta, LBFGS(), random_state=3, **options)
        options |= {"state": first.state, "history": first.history}
        minimise(fun, None, LBFGS(), sampling=first.sampling, **options)
        assert len({tuple(batch.rows) for batch in seen}) == 1

    def test_errors(self):
        message = r"two rows for each of the 4 classes, 8 in all. Got 7, 7 rows, instead"
        with pytest.raises(ValueError, match=message):
            one_pass(Subsample(7), Source(1000, self.CODES))
        with pytest.raises(ValueError, match=r"Got 0.001, 1 rows, instead"):
            one_pass(Subsample(0.001), Source(1000, self.CODES))
        with pytest.raises(ValueError, match="needs the class codes"):
            one_pass(Subsample(7), Source(1000))
        for wrong in (1, 0.0, 1.5, True, "many", np.nan):
            with pytest.raises(ValueError, match=r"'size' parameter of Subsample must be an int"):
                Subsample(wrong)


@pytest.mark.parametrize("cut", [0, 7, 8, 19])
@pytest.mark.parametrize("solver", [Adam(), Momentum()])
@each_changing
def test_resume_equals_run_through(rng, sampler, solver, cut):
    problem = make_problem(rng)
    theta = rng.standard_normal(2 * D)
    options = {"sampler": sampler, "source": problem.source, "tol": 0.0}
    whole = minimise(problem, theta, solver, max_iter=20, random_state=5, **options)
    first = minimise(problem, theta, solver, max_iter=cut, random_state=5, **options)
    kept = pickle.dumps((first.state, first.history, first.sampling))
    assert len(kept) < 10_000
    state, history, sampling = pickle.loads(kept)
    options |= {"state": state, "history": history, "sampling": sampling}
    second = minimise(problem, None, solver, max_iter=20 - cut, **options)
    np.testing.assert_array_equal(second.theta, whole.theta)
    assert second.history["loss"] == whole.history["loss"]
    assert repr(second.sampling) == repr(whole.sampling)


@each_changing
def test_interrupted_step_takes_its_batch_again(rng, sampler):
    problem = make_problem(rng)
    theta, count = rng.standard_normal(2 * D), [0]

    def interrupted(theta, batch):
        count[0] += 1
        if count[0] == 6:
            raise KeyboardInterrupt
        return problem(theta, batch)

    options = {"sampler": sampler, "source": problem.source, "random_state": 1}
    whole = minimise(problem, theta, Adam(), max_iter=9, **options)
    first = minimise(interrupted, theta, Adam(), max_iter=9, **options)
    assert (first.reason, first.n_iter) == ("interrupted", 4)
    options |= {"state": first.state, "history": first.history, "sampling": first.sampling}
    second = minimise(problem, None, Adam(), max_iter=5, **options)
    assert second.history["loss"] == whole.history["loss"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MiniBatches(1), r"'size' parameter of MiniBatches must be an int in \[2, inf\)"),
        (lambda: MiniBatches(20.0), "Got 20.0 instead"),
        (lambda: MiniBatches(20, "kmeans"), "'clusters' parameter of .* Got 'kmeans' instead"),
        (lambda: MiniBatches(20, space="both"), "'space' parameter of .* Got 'both' instead"),
        (lambda: StochasticQueries(0), r"'size' parameter of StochasticQueries .* Got 0"),
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
    result = minimise(problem, theta, Adam(), max_iter=30, **options)
    assert result.reason == "max_iter"


def test_source(rng):
    problem = make_problem(rng)
    theta, source = rng.standard_normal(2 * D), problem.source
    assert source.n_rows == 75
    np.testing.assert_array_equal(source.codes, problem.target.codes[problem.train])
    np.testing.assert_array_equal(source.embed(theta), problem.embed(theta)[problem.train])
    rows = np.array([3, 1])
    np.testing.assert_array_equal(source.points(rows).X, problem.X.X[problem.train[rows]])


@pytest.mark.parametrize(
    "sampler", [Full(), Subsample(), MiniBatches(), StochasticQueries()], ids=repr
)
def test_parts_clone_pickle_print_and_compare(sampler):
    assert isinstance(sampler, Sampler)
    assert clone(sampler, safe=False) == sampler
    assert pickle.loads(pickle.dumps(sampler)) == sampler
    assert eval(repr(sampler)) == sampler
    assert hash(sampler) == hash(type(sampler)())
    with pytest.raises(AttributeError):
        sampler.size = 3


def test_resolve():
    names = ["full", "subsample", "mini_batches", "stochastic"]
    parts = [Full(), Subsample(), MiniBatches(), StochasticQueries()]
    assert [resolve(name) for name in names] == parts
    assert resolve(parts[2]) is parts[2]
    message = r"The 'sampling' parameter of LMNN must be a str among .* Got 'all' instead"
    with pytest.raises(ValueError, match=message):
        resolve("all", owner="LMNN")
    for wrong in (3, None, Full):
        with pytest.raises(TypeError, match=r"The 'sampling' parameter of NCA must be"):
            resolve(wrong)
