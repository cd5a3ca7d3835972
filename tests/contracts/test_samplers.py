"""What every sampler keeps to: every row its turn, fixed seeds, runs cut in mid-pass."""

from __future__ import annotations

import functools
import itertools
import pickle
import warnings

import numpy as np
import pytest
from common.problems import D, make_problem, one_pass
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.core.types import Batch, Sampler, Source
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.samplers import Full, MiniBatches, StochasticQueries, Subsample, resolve
from vicinal.solvers import LBFGS, Adam, Momentum, minimize
from vicinal.targets import Labels

FIXED = [Full(), Subsample(20), Subsample(0.3, correct_scale=False)]
CLUSTERED = [
    MiniBatches(20, clusters, space)
    for clusters in ("random", "rpc", "fpc")
    for space in ("embedded", "input")
]
CHANGING = [*CLUSTERED, StochasticQueries(25)]
SAMPLERS = [*FIXED, *CHANGING]
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
each_changing = pytest.mark.parametrize("sampler", CHANGING, ids=repr)
each_sized = pytest.mark.parametrize("make", [Subsample, MiniBatches, StochasticQueries])


def rows_of(batch, n):
    """Those that have their turn: the queries, or all that are embedded."""
    embedded = np.arange(n) if batch.rows is None else batch.rows
    return embedded if batch.queries is None else embedded[batch.queries]


@each_sampler
@pytest.mark.parametrize("sparse", [False, True])
def test_each_row_has_its_turn_once_a_pass(rng, sampler, sparse):
    source = make_problem(rng, sparse=sparse).source
    deal = sampler.dealer(source, np.random.RandomState(0))
    theta = rng.standard_normal(2 * D)
    passes = [deal(theta, np.random.RandomState(seed)) for seed in (1, 2)]
    for batches in passes:
        turns = [rows_of(batch, 75) for batch in batches]
        seen = np.concatenate(turns)
        assert len(np.unique(seen)) == len(seen)  # nobody twice
        assert all(np.all(np.diff(rows) > 0) for rows in turns)
        if isinstance(sampler, Subsample):
            assert len(batches) == 1
            assert len(seen) in (20, round(0.3 * 75))
        else:
            np.testing.assert_array_equal(np.sort(seen), np.arange(75))
        if not sampler.fixed:
            assert all(0 < len(rows) <= sampler.size for rows in turns)
    assert (repr(passes[0]) == repr(passes[1])) == sampler.fixed
    assert repr(passes[0]) == repr(deal(theta, np.random.RandomState(1)))


@each_sampler
def test_the_seed_decides(rng, sampler):
    source = make_problem(rng).source
    theta = rng.standard_normal(2 * D)
    one, again, other = (repr(one_pass(sampler, source, theta, seed)) for seed in (3, 3, 4))
    assert one == again
    assert (one == other) == (sampler == Full())


@each_sampler
def test_thread_count_agnosticism(rng, sampler):
    X = np.repeat(rng.standard_normal((300, 20)), 10, axis=0)  # ties, where a last bit decides
    problem = Problem(Features(X, None), Labels(np.arange(3000) % 2), NCALoss(), Linear(3))
    theta = rng.standard_normal(60)
    if not sampler.fixed:
        sampler = type(sampler)(**{**vars(sampler), "size": 400})
    deals = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            deals.append(one_pass(sampler, problem.source, theta))
    assert pickle.dumps(deals[0]) == pickle.dumps(deals[1])


@each_changing
def test_a_solver_for_a_fixed_batch_refuses_others(sampler):
    with pytest.raises(ValueError, match="LBFGS"):
        minimize(lambda t, b: (0.0, t), np.ones(2), LBFGS(), sampler=sampler, source=Source(60))


@pytest.mark.parametrize(
    ("sampler", "solver", "cut"),
    [
        *itertools.product(FIXED, [Adam(), Momentum(), LBFGS()], [7, 19]),
        # at the ends of a pass, too
        *itertools.product(CHANGING, [Adam(), Momentum()], [0, 7, 8, 19]),
    ],
    ids=repr,
)
def test_resume_equals_run_through(rng, sampler, solver, cut):
    problem = make_problem(rng)
    theta = rng.standard_normal(2 * D)
    options = {"sampler": sampler, "source": problem.source, "tol": 0.0}
    whole = minimize(problem, theta, solver, max_iter=20, random_state=5, **options)
    first = minimize(problem, theta, solver, max_iter=cut, random_state=5, **options)
    kept = pickle.dumps((first.state, first.history, first.sampling))
    assert len(kept) < 10_000
    state, history, sampling = pickle.loads(kept)
    options |= {"state": state, "history": history, "sampling": sampling}
    second = minimize(problem, None, solver, max_iter=20 - cut, **options)
    np.testing.assert_array_equal(second.state.theta, whole.state.theta)
    if not sampler.fixed:  # else the best may be before the cut
        np.testing.assert_array_equal(second.theta, whole.theta)
    assert second.history["loss"] == whole.history["loss"]
    assert repr(second.sampling) == repr(whole.sampling)


@each_sampler
def test_interrupted_step_takes_its_batch_again(rng, sampler):
    problem = make_problem(rng)
    theta, count = rng.standard_normal(2 * D), [0]

    def interrupted(theta, batch):
        count[0] += 1
        if count[0] == 6:
            raise KeyboardInterrupt
        return problem(theta, batch)

    options = {"sampler": sampler, "source": problem.source, "random_state": 1}
    whole = minimize(problem, theta, Adam(), max_iter=9, **options)
    first = minimize(interrupted, theta, Adam(), max_iter=9, **options)
    assert (first.reason, first.n_iter) == ("interrupted", 4)
    options |= {"state": first.state, "history": first.history, "sampling": first.sampling}
    second = minimize(problem, None, Adam(), max_iter=5, **options)
    assert second.history["loss"] == whole.history["loss"]


@pytest.mark.parametrize("sampler", [s for s in SAMPLERS if s.fixed], ids=repr)
def test_fixed_samplers_deal_one_batch_for_the_whole_run(rng, sampler):
    problem = make_problem(rng)
    seen = []

    def fun(theta, batch):
        seen.append(batch)
        return problem(theta, batch)

    options = {"sampler": sampler, "source": problem.source, "max_iter": 3, "tol": 0.0}
    theta = rng.standard_normal(2 * D)
    first = minimize(fun, theta, LBFGS(), random_state=3, **options)
    options |= {"state": first.state, "history": first.history}
    minimize(fun, None, LBFGS(), sampling=first.sampling, **options)
    assert len({repr(batch) for batch in seen}) == 1


@pytest.mark.parametrize("size", [75, 100])
@each_sized
def test_whole_batch_is_exact(rng, make, size):
    problem = make_problem(rng)
    options = {"max_iter": 5, "source": problem.source, "random_state": 0}
    theta = rng.standard_normal(2 * D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if size > 75 else "error")
        some = minimize(problem, theta, Adam(), sampler=make(size), **options)
    whole = minimize(problem, theta, Adam(), max_iter=5)
    np.testing.assert_array_equal(some.state.theta, whole.state.theta)


@each_sized
def test_more_rows_than_there_are_warns(make):
    message = f"'size' parameter of {make.__name__} is 11, but there are 10 rows"
    with pytest.warns(UserWarning, match=message):
        batches = one_pass(make(11), Source(10, np.arange(10) % 2))
    assert batches == [Batch()]


@pytest.mark.parametrize("objective", ["log", "accuracy"])
@pytest.mark.parametrize("split", [False, True])
def test_gradient_of_queries_is_unbiased(rng, objective, split):
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


@each_sampler
def test_the_problem_is_not_changed(rng, sampler):
    problem = make_problem(rng)
    before = problem(np.ones(2 * D))
    one_pass(sampler, problem.source, rng.standard_normal(2 * D))
    after = problem(np.ones(2 * D))
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])


@each_sampler
def test_parts_clone_pickle_print_and_compare(sampler):
    assert isinstance(sampler, Sampler)
    assert clone(sampler, safe=False) == sampler
    assert pickle.loads(pickle.dumps(sampler)) == sampler
    assert eval(repr(sampler)) == sampler
    assert hash(sampler) == hash(eval(repr(sampler)))
    with pytest.raises(AttributeError):
        sampler.size = 3


def test_names():
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MiniBatches(1), r"'size' parameter of MiniBatches must be an int in \[2, inf\)"),
        (lambda: MiniBatches(20.0), "Got 20.0 instead"),
        (lambda: MiniBatches(20, "kmeans"), "'clusters' parameter of .* Got 'kmeans' instead"),
        (lambda: MiniBatches(20, space="both"), "'space' parameter of .* Got 'both' instead"),
        (lambda: MiniBatches(correct_scale=1), "'correct_scale' parameter of .* True or False"),
        (lambda: Subsample(correct_scale="no"), "'correct_scale' parameter of .* Got 'no'"),
        (lambda: StochasticQueries(0), r"'size' parameter of StochasticQueries .* Got 0"),
        *(
            (functools.partial(Subsample, wrong), "'size' parameter of Subsample must be an int")
            for wrong in (1, 0.0, 1.5, True, "many", np.nan)
        ),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
