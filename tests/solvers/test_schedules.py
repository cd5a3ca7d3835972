"""Rates that change with the steps, the solvers that follow them, and the search for t0."""

import numpy as np
import pytest

from vicinal._features import Features
from vicinal.core.problem import Problem
from vicinal.core.types import Batch, Source
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.samplers import MiniBatches, StochasticQueries
from vicinal.solvers import (
    SGD,
    Adam,
    Constant,
    Cosine,
    InverseTime,
    Momentum,
    minimize,
    refresh,
    tune_t0,
)
from vicinal.targets import Labels


def bowl(theta, batch=None):
    return float(theta @ theta), 2.0 * theta


def test_formulas():
    assert [Constant(0.3)(t) for t in (0, 5)] == [0.3, 0.3]
    assert [InverseTime(2.0, 4.0)(t) for t in (0, 1, 4)] == [0.5, 0.4, 0.25]
    cosine = Cosine(1.0, 4, floor=0.2)
    expected = [1.0, 0.6 + 0.4 * np.sqrt(0.5), 0.6, 0.6 - 0.4 * np.sqrt(0.5), 0.2, 0.2]
    assert [cosine(t) for t in (0, 1, 2, 3, 4, 9)] == pytest.approx(expected)
    assert Cosine(1.0, 10)(10) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(0.0), r"'rate' parameter of Constant must be a number in \(0, inf\)"),
        (lambda: InverseTime(1.0, 0.0), "'t0' parameter of InverseTime .* Got 0.0"),
        (lambda: InverseTime(np.nan, 1.0), "'eta0' parameter of InverseTime .* Got nan"),
        (lambda: Cosine(0.1, 0), r"'n_steps' parameter of Cosine must be an int in \[1, inf\)"),
        (lambda: Cosine(0.1, 10, 0.2), r"'floor' .* at most rate=0.1. Got 0.2 instead"),
        (lambda: SGD(-1.0), r"'learning_rate' parameter of SGD must be a number .* or a schedule"),
        (lambda: SGD(Cosine), r"'learning_rate' parameter of SGD .* Got <class"),
        (lambda: Adam(None), r"'learning_rate' parameter of Adam .* Got None"),
        (lambda: SGD(momentum=1.0), r"'momentum' .* in \[0, 1\). Got 1.0"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def path(solver, fun=bowl, start=(1.0,), n_steps=3):
    theta = np.array(start)
    state = solver.init(fun, theta)
    thetas = [theta[0]]
    for _ in range(n_steps):
        theta, state = solver.step(fun, theta, state)
        thetas.append(theta[0])
    return thetas


def test_sgd_by_hand():
    # theta <- theta (1 - 2 rate)
    assert path(SGD(0.1)) == pytest.approx([1.0, 0.8, 0.64, 0.512])
    assert path(SGD(InverseTime(0.2, 1.0))) == pytest.approx([1.0, 0.6, 0.48, 0.48 * (1 - 2 / 15)])
    # v = -0.2, then 0.5 * -0.2 - 0.1 * 1.6
    assert path(SGD(0.1, momentum=0.5), n_steps=2) == pytest.approx([1.0, 0.8, 0.8 - 0.26])


def test_sgd_without_a_rate_moves_a_hundredth():
    # eta0 = |theta| / |grad| = 1/2, t0 = 100
    assert path(SGD(), n_steps=2) == pytest.approx([1.0, 0.99, 0.99 - 0.5 / 101 * 2 * 0.99])
    # a start without gradient finds its rate once there is one
    state = SGD().init(lambda t, b: (0.0, 0.0 * t), np.ones(1))
    theta, _ = SGD().step(bowl, state.theta, refresh(SGD(), bowl, state.theta, state))
    assert theta[0] == pytest.approx(0.99)


def test_schedules_of_adam():
    n_steps = 12
    assert path(Adam(Constant(0.1)), n_steps=n_steps) == path(Adam(0.1), n_steps=n_steps)
    # the first step is the rate, whatever the gradient
    assert path(Adam(InverseTime(3.0, 10.0)), n_steps=1)[1] == pytest.approx(0.7)
    after = path(Adam(Cosine(0.1, 5)), n_steps=8)
    assert after[5] == after[6] == after[8]  # the floor is zero


def noisy_rows(theta, batch):
    """Mean over the rows r of |theta - r|² / 2; its minimum is the mean of the rows, 9.5."""
    rows = np.arange(20.0) if batch is None or batch.queries is None else batch.queries
    away = theta - np.mean(rows)
    return float(0.5 * away @ away), away


def minus_distance(theta):
    return -abs(float(theta[0]) - 9.5)


class TestTuneT0:
    DATA = {"sampler": StochasticQueries(2), "source": Source(20), "random_state": 0}

    @pytest.mark.parametrize("solver", [SGD(), SGD(momentum=0.5), Adam(InverseTime(50.0, 1.0))])
    def test_finds_a_rate_that_works(self, solver):
        start = np.array([1000.0])
        tuned, tried = tune_t0(noisy_rows, start, solver, minus_distance, n_steps=40, **self.DATA)
        rate = tuned.learning_rate
        assert isinstance(rate, InverseTime)
        first = tried["eta0"][1]
        assert first == (50.0 if isinstance(solver, Adam) else pytest.approx(1.0, rel=0.02))
        assert rate.eta0 == first
        assert tuned == type(solver)(**{**vars(solver), "learning_rate": rate})
        # the one with the best score after all steps, which is far better than the start
        done = [i for i, n in enumerate(tried["n_steps"]) if n == 40]
        best = max(done, key=lambda i: tried["score"][i])
        assert rate.t0 == tried["t0"][best]
        assert tried["score"][best] > 0.5 * tried["score"][0]
        assert {"start", "exponential", "linear"} == set(tried["stage"])
        # the run of the winner can be repeated
        options = {"max_iter": 40, "tol": 0.0, **self.DATA}
        result = minimize(noisy_rows, start, tuned, **options)
        assert minus_distance(result.state.theta) == tried["score"][best]

    def test_cost_and_candidates(self):
        count = [0]

        def counted(theta, batch):
            count[0] += 1
            return noisy_rows(theta, batch)

        _, tried = tune_t0(
            counted, np.array([100.0]), SGD(), minus_distance, n_steps=40, **self.DATA
        )
        assert count[0] <= 1 + 7 * 40
        stage, t0 = np.array(tried["stage"]), np.array(tried["t0"])
        exponential = t0[stage == "exponential"]
        np.testing.assert_allclose(np.unique(exponential), np.logspace(0, 3, 7))
        linear = np.unique(t0[stage == "linear"])
        np.testing.assert_allclose(np.diff(linear), linear[1] - linear[0])
        assert {len(entries) for entries in tried.values()} == {len(t0)}
        assert set(tried["n_steps"]) == {0, 10, 20, 40}

    def test_diverging_candidates_lose(self):
        def steep(theta, batch):
            if abs(theta[0]) > 1e3:
                return np.inf, 0.0 * theta
            return float(50 * theta @ theta), 100 * theta

        tuned, tried = tune_t0(
            steep, np.ones(1), SGD(InverseTime(1.0, 1.0)), lambda t: -abs(t[0]), n_steps=8
        )
        scores = dict(zip(tried["t0"][1:10], tried["score"][1:10], strict=True))
        assert scores[0.1] == -np.inf  # a first rate of 10, where 0.02 is the most
        assert abs(tuned.learning_rate(0)) < 0.03

    def test_eta0_is_raised_where_the_start_is_small(self):
        def well(theta, batch):
            """A loss that is flat at zero, as that of every linear map is, and least at 9.5."""
            away = (theta / 9.5) ** 2 - 1.0
            return float(9.5**2 / 4 * away @ away), theta * away

        start, options = np.array([0.01]), {"n_steps": 40, **self.DATA}
        tuned, tried = tune_t0(well, start, SGD(), minus_distance, **options)
        first = tried["eta0"][1]
        assert first == pytest.approx(1.0, rel=1e-3)
        assert tuned.learning_rate.eta0 in (10 * first, 100 * first, 1000 * first)
        assert max(tried["score"]) > -0.1
        # the first step is no longer than theta, whatever eta0
        longest = np.divide(tried["eta0"], tried["t0"])[1:].max()
        assert longest == pytest.approx(first)
        # an eta0 that was given stays, and so does the whole scale of the thesis
        tuned, tried = tune_t0(well, start, SGD(InverseTime(first, 1.0)), minus_distance, **options)
        assert tuned.learning_rate.eta0 == first
        assert min(tried["t0"][1:]) == 0.1

    def test_no_race_is_run_twice(self):
        # the lowest t0 wins and theta grows, but no eta0 scores better than another
        options = {"n_steps": 8, **self.DATA}
        away = lambda theta, batch: (0.0, -theta)  # noqa: E731
        _, tried = tune_t0(away, np.ones(1), SGD(), lambda t: min(float(t[0]), 10.0), **options)
        rows = [row for row in zip(*tried.values(), strict=True) if row[0] == "exponential"]
        assert len(rows) == len({row[1:4] for row in rows})

    def test_nothing_is_better_than_the_start(self):
        with pytest.warns(UserWarning, match="No t0 from 1 to 1000 scored better"):
            tuned, tried = tune_t0(bowl, np.ones(1), SGD(), lambda t: float(t[0] == 1.0), n_steps=4)
        assert tuned.learning_rate.t0 == 1000.0
        assert "linear" not in tried["stage"]

    def test_errors(self):
        def tune(solver=None, fun=bowl, **options):
            return tune_t0(fun, np.ones(1), solver or SGD(), lambda t: 0.0, **options)

        for wrong in (SGD(0.1), Adam(), Momentum(), SGD(Cosine(0.1, 3))):
            with pytest.raises(ValueError, match="must have learning_rate=None or an InverseTime"):
                tune(wrong)
        for wrong in (3, 10.0, True):
            with pytest.raises(ValueError, match=r"'n_steps' .* an int in \[4, inf\)"):
                tune(n_steps=wrong)
        with pytest.raises(ValueError, match="gradient of the first batch is zero"):
            tune(fun=lambda t, b: (0.0, 0.0 * t))
        calls = [0]

        def interrupted(theta, batch):
            calls[0] += 1
            if calls[0] == 9:
                raise KeyboardInterrupt
            return bowl(theta)

        with pytest.raises(KeyboardInterrupt):
            tune(fun=interrupted)


def test_stochastic_learning_of_nca(rng):
    """t0 tuned on held-out rows; queries and clusters come to what the exact descent finds."""
    n, D = 150, 6
    y = np.arange(n) % 3
    X = rng.standard_normal((n, D))
    X[:, :2] += 3.0 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    rows = rng.permutation(n)
    problem = Problem(
        Features(X, "standard"), Labels(y), NCALoss(), Linear(2),
        alpha=1e-3, train=rows[:120], held_out=rows[120:],
    )  # fmt: skip
    theta = 0.3 * rng.standard_normal(2 * D)
    exact = minimize(problem, theta, Adam(0.1), max_iter=60, tol=0.0)
    data = {"source": problem.source, "random_state": 0}
    for sampler in (StochasticQueries(30), MiniBatches(60)):
        solver, _ = tune_t0(
            problem, theta, SGD(momentum=0.5), problem.validation_score, sampler=sampler,
            n_steps=16, **data,
        )  # fmt: skip
        options = {"max_iter": 80, "monitor": problem.validation_score, "monitor_every": 5}
        result = minimize(problem, theta, solver, sampler=sampler, **options, **data)
        gap = problem.value(theta) - exact.value
        assert problem.value(result.theta) < exact.value + 0.15 * gap


def test_batches_of_one_pass_in_a_history():
    """A pass of queries sees each row once, whatever the solver."""
    seen = []

    def fun(theta, batch):
        assert isinstance(batch, Batch)
        seen.append(batch.queries)
        return noisy_rows(theta, batch)

    minimize(fun, np.zeros(1), SGD(), sampler=StochasticQueries(6), source=Source(20), max_iter=7)
    for group in (seen[:4], seen[4:8]):
        np.testing.assert_array_equal(np.sort(np.concatenate(group)), np.arange(20))
