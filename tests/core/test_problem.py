"""The whole chain from parameters to loss and back."""

from __future__ import annotations

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from formulas import finite_difference

from vicinal._features import Features
from vicinal.core.loop import LoopStart, Recipe, limited, run_stage
from vicinal.core.problem import Problem, Tracked
from vicinal.core.types import Batch, Evaluation, Objective, Units
from vicinal.maps import Diagonal, Linear
from vicinal.objectives import NCALoss
from vicinal.solvers import LBFGS, BoldDriver
from vicinal.targets import Labels

D = 5
MAPS = [(Linear(2), 2 * D), (Linear(D), D * D), (Diagonal(), D)]
each_map = pytest.mark.parametrize(("mapping", "n_parameters"), MAPS)
each_objective = pytest.mark.parametrize("objective", ["accuracy", "log"])


def data(rng, n=60):
    y = np.arange(n) % 3
    X = rng.standard_normal((n, D)) * np.logspace(-1, 1, D) + rng.standard_normal((3, D))[y]
    return X, Labels(y, rng.uniform(0.5, 2, n), [0.2, 0.5, 0.3])


def problem_of(X, labels, mapping, objective="log", **kwargs):
    return Problem(Features(X, "standard"), labels, NCALoss(objective), mapping, **kwargs)


def plain_loss(problem, labels, theta, objective, queries=None, references=None):
    """From the formulas: embed, score, add the penalty."""
    X = np.concatenate([block for _, block in problem.X.blocks()])
    Z = X @ problem.mapping.components(theta).T
    y, weight = labels.codes, labels.sample_weight
    value, _ = formulas.nca(Z, y, objective, queries, references, weight, labels.priors)
    return value + problem.alpha * np.sum(problem.mapping.components(theta) ** 2)


@each_map
@each_objective
@pytest.mark.parametrize("split", [False, True])
def test_gradient_matches_finite_differences(rng, mapping, n_parameters, objective, split):
    X, labels = data(rng)
    rows = rng.permutation(60)
    train, held_out = (np.sort(rows[:45]), rows[45:]) if split else (None, None)
    problem = problem_of(X, labels, mapping, objective, alpha=0.03, train=train, held_out=held_out)
    for scale in [0.5, 3.0]:
        theta = scale * rng.standard_normal(n_parameters)
        value, dtheta = problem(theta)
        expected = plain_loss(problem, labels, theta, objective, train, train)
        assert value == pytest.approx(expected, rel=1e-10)
        assert problem.value(theta) == pytest.approx(value, rel=1e-13)
        numeric = finite_difference(lambda t: problem(t)[0], theta, 1e-5)
        np.testing.assert_allclose(dtheta, numeric, atol=1e-6 * np.abs(dtheta).max())
    assert problem.replace(alpha=0.0)(theta)[0] == pytest.approx(value - 0.03 * theta @ theta)


@each_objective
def test_held_out_rows_are_scored_against_training_rows_only(rng, objective):
    X, labels = data(rng)
    held_out, train = np.arange(0, 60, 4), np.flatnonzero(np.arange(60) % 4)
    problem = problem_of(X, labels, Linear(2), objective, train=train, held_out=held_out, alpha=0.1)
    theta = rng.standard_normal(2 * D)
    expected = -plain_loss(problem.replace(alpha=0.0), labels, theta, objective, held_out, train)
    assert problem.validation_score(theta) == pytest.approx(expected, rel=1e-10)
    # one by one, the mean over them (by their weights) is the same: none is a reference of another
    alone = [
        problem.replace(held_out=held_out[i : i + 1]).validation_score(theta)
        for i in range(len(held_out))
    ]
    average = np.average(alone, weights=labels.sample_weight[held_out])
    assert average == pytest.approx(expected, rel=1e-10)


@each_objective
def test_held_out_rows_do_not_touch_the_loss(rng, objective):
    X, labels = data(rng)
    train = np.flatnonzero(np.arange(60) % 4)
    problem = problem_of(X, labels, Linear(2), objective, train=train)
    theta = rng.standard_normal(2 * D)
    value, dtheta = problem(theta)
    subset = Problem(problem.X.take(train), labels.take(train), problem.objective, Linear(2))
    value_subset, dtheta_subset = subset(theta)
    assert value == pytest.approx(value_subset, rel=1e-12)
    size = np.abs(dtheta).max()
    np.testing.assert_allclose(dtheta, dtheta_subset, atol=1e-12 * size)
    assert subset.value(theta) == pytest.approx(problem.value(theta), rel=1e-12)
    everything = problem.replace(train=None)(theta)[0]
    assert abs(everything - value) > 1e-4  # the rows would have made a difference


@each_objective
def test_batches(rng, objective):
    X, labels = data(rng)
    train = np.flatnonzero(np.arange(60) % 4)
    theta = rng.standard_normal(2 * D)
    whole = problem_of(X, labels, Linear(2), objective, alpha=0.02)
    split = whole.replace(train=train)
    rows, queries = rng.permutation(45)[:30], np.array([2, 3, 20])

    def loss(q, r):
        return plain_loss(whole, labels, theta, objective, q, r)

    everything = np.arange(60)
    for problem, positions in [(whole, everything), (split, train)]:
        for batch, q, r in [
            (None, positions, positions),
            (Batch(), positions, positions),
            (Batch(queries=queries), positions[queries], positions),
            (Batch(rows=rows), positions[rows], positions[rows]),
            (Batch(rows=rows, queries=queries), positions[rows][queries], positions[rows]),
        ]:
            value, dtheta = problem(theta, batch)
            assert value == pytest.approx(loss(q, r), rel=1e-10)
            numeric = finite_difference(lambda t, b=batch, p=problem: p(t, b)[0], theta, 1e-5)
            np.testing.assert_allclose(dtheta, numeric, atol=1e-6 * np.abs(dtheta).max())


@each_map
def test_float32(rng, mapping, n_parameters):
    """Points travel in float32; parameters, value and gradient are float64 all the same."""
    X, labels = data(rng)
    double = problem_of(X, labels, mapping, alpha=0.01)
    single = problem_of(X.astype(np.float32), labels, mapping, alpha=0.01, dtype=np.float32)
    theta = rng.standard_normal(n_parameters)
    assert single.embed(theta).dtype == np.float32
    assert double.embed(theta).dtype == np.float64
    value, dtheta = single(theta)
    assert type(value) is float
    assert dtheta.dtype == np.float64
    expected, dtheta_expected = double(theta)
    assert value == pytest.approx(expected, rel=1e-5)
    assert value != expected
    size = np.abs(dtheta_expected).max()
    np.testing.assert_allclose(dtheta, dtheta_expected, atol=1e-5 * size)
    finish = single.replace(dtype=np.float64)
    assert finish(theta)[0] == pytest.approx(expected, rel=1e-6)


@each_map
def test_sparse_rows(rng, mapping, n_parameters):
    X, labels = data(rng)
    X[rng.uniform(size=X.shape) < 0.5] = 0.0
    theta = rng.standard_normal(n_parameters)
    value, dtheta = problem_of(sp.csr_matrix(X), labels, mapping, alpha=0.01)(theta)
    expected, dtheta_expected = problem_of(X, labels, mapping, alpha=0.01)(theta)
    assert value == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(dtheta, dtheta_expected, atol=1e-10 * np.abs(dtheta_expected).max())


class Narrow(Objective):
    """A narrow valley, in which long steps overshoot; it reports where it was evaluated."""

    units = Units()
    columns = ("place",)

    def __call__(self, Z, target, *, queries=None, references=None, pairs=None, gradient=True):
        root = np.sqrt(1e-4 + Z**2)
        return Evaluation(root.sum(), Z / root, {"share_of_pairs": 1.0, "place": place_of(Z)})


def place_of(Z):
    return float(np.abs(Z).sum())


@pytest.mark.parametrize("solver", [LBFGS(), BoldDriver(learning_rate=300.0, max_failures=1)])
def test_history_records_the_facts_of_the_accepted_point(solver):
    X = Features(np.array([[1.0, 0.5], [0.2, 1.0], [0.6, 0.9]]), None)
    problem = Problem(X, Labels([0, 0, 1]), Narrow(), Linear(2))
    places = []

    def note(info):
        places.append(place_of(problem.embed(info.theta)))

    def run(history, **begin):
        fun = Tracked(problem)
        begin = LoopStart(history=history, **begin)
        return run_stage(limited(Recipe(fun, solver), 3), begin, on_iteration=note)

    first = run(None, theta=np.array([1.0, 0.3, -0.2, 0.8]))
    resumed = run(first.history, theta=first.theta, state=first.state)
    np.testing.assert_allclose(resumed.history["place"], places, rtol=1e-12)
    assert resumed.history["share_of_pairs"] == [1.0] * len(places)
    del first.history["place"]  # recorded by an earlier release
    late = run(first.history, theta=first.theta, state=first.state).history
    np.testing.assert_array_equal(late["place"][:4], np.full(4, np.nan))
    assert {len(column) for column in late.values()} == {7}


class HalfFree(Linear):
    """A linear map whose first row is not penalised."""

    def penalty_weights(self, theta):
        weights = np.full(self.components(theta).shape, 0.5)
        weights[0] = 0.0
        return weights.ravel()


def test_a_map_may_weight_the_penalty_of_its_parameters(rng):
    X, labels = rng.normal(size=(12, 3)), np.arange(12) % 3
    theta = rng.normal(size=6)
    free, penalised = (problem_of(X, labels, HalfFree(2), alpha=a) for a in (0.0, 0.1))
    (low, down), (high, up) = free(theta), penalised(theta)
    assert high - low == pytest.approx(0.05 * theta[3:] @ theta[3:])
    np.testing.assert_allclose(up - down, np.r_[np.zeros(3), 0.1 * theta[3:]])
    assert penalised.value(theta) == pytest.approx(high)
