"""Dimensionality annealing: the penalty, the rules, the removals, and the start they make."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from common.starts import Rows
from formulas import finite_difference
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine

from vicinal import NCA, maps
from vicinal._features import Features
from vicinal.callbacks import StopAfter
from vicinal.core.problem import Problem
from vicinal.fit.report import HAS_CALLBACKS
from vicinal.maps import Linear
from vicinal.objectives import NCALoss
from vicinal.starts import RCA, Given, Identity, Random, resolve
from vicinal.starts.annealing import Annealing
from vicinal.starts.annealing import _descend as descend
from vicinal.targets import Labels

each_rule = pytest.mark.parametrize("select", ["projected", "data", "norm"])
each_objective = pytest.mark.parametrize("objective", ["accuracy", "log"])
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture
def rings(rng):
    """Two rings in a plane that noise of the same variance hides: hard for means and scatters."""
    n = 160
    y = np.arange(n) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(y, 3.0, 1.0)
    plane = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = np.hstack([plane + 0.1 * rng.normal(size=(n, 2)), 1.5 * rng.normal(size=(n, 4))])
    return X @ np.linalg.qr(rng.normal(size=(6, 6)))[0], y


def never(problem, info):
    """Hear of an iteration and ask for no stop."""
    return False


def problem_of(X, y, mapping, objective="log", **kwargs):
    return Problem(Features(X, "standard"), Labels(y), NCALoss(objective), mapping, **kwargs)


# The penalty


@each_objective
def test_a_weight_for_each_row_of_the_map(rng, wine, objective):
    X, y = wine
    row_weights = np.array([0.0, 0.02, 0.7])
    theta = 0.3 * rng.normal(size=3 * 13)
    plain = problem_of(X, y, Linear(3), objective)
    problem = plain.replace(alpha=np.repeat(row_weights, 13))
    value, gradient = problem(theta)
    penalty = row_weights @ np.sum(theta.reshape(3, 13) ** 2, axis=1)  # [Oneata2011] eq. (3.26)
    assert value == pytest.approx(plain(theta)[0] + penalty, rel=1e-13)
    assert problem.value(theta) == pytest.approx(value, rel=1e-13)
    numeric = finite_difference(lambda t: problem(t)[0], theta, 1e-5)
    assert_allclose(gradient, numeric, atol=1e-6 * np.abs(gradient).max())


def test_equal_weights_are_one_weight(rng, wine):
    theta = rng.normal(size=2 * 13)
    one = problem_of(*wine, Linear(2), alpha=0.1)
    value, gradient = one(theta)
    for alpha in (np.full(26, 0.1), np.array([0.1])):
        other_value, other_gradient = one.replace(alpha=alpha)(theta)
        assert other_value == pytest.approx(value, rel=1e-14)
        assert_allclose(other_gradient, gradient, rtol=1e-14)


# The rules


@pytest.mark.parametrize(
    ("select", "importance"),
    [("projected", [9, 4, 0.16]), ("data", [1, 4, 16]), ("norm", [9, 1, 0.01])],
)
def test_each_rule_compares_what_it_says(select, importance):
    # variances 1, 4 and 16
    X = Rows([[1, 2, 4], [-1, 2, -4], [1, -2, -4], [-1, -2, 4]], scaling=False)
    A = np.diag([3.0, 1.0, 0.1])
    assert_allclose(Annealing(select).importance(A, X), importance)
    # rows of weight zero, held out, have no say
    X.X = np.vstack([X.X, [[50.0, -70.0, 90.0]]])
    weight = np.array([2.0, 2.0, 2.0, 2.0, 0.0])
    assert_allclose(Annealing(select).importance(A, X, weight), importance)


@each_rule
def test_the_least_row_is_faded_and_removed(select):
    X = Rows(np.random.RandomState(0).normal(size=(50, 4)) * [1, 2, 3, 4], scaling=False)
    A = np.diag([4.0, 0.8, 0.7, 1.0])
    seen = []

    def descend(A, schedule, n_iter):
        seen.append((schedule, n_iter))
        return A

    part = Annealing(select, n_steps=3, step=0.2, n_iter=7)
    reduced = part.reduce(A, 3, X, descend)
    row = {"projected": 1, "data": 0, "norm": 2}[select]
    assert_array_equal(reduced, np.delete(A, row, axis=0))
    ((schedule, n_iter),) = seen
    assert n_iter == 7
    assert_allclose(schedule[:, row], np.array([0.2, 0.4, 0.6]) / A[row, row] ** 2)
    assert not np.delete(schedule, row, axis=1).any()


@each_rule
def test_a_row_of_zeros_goes_first_and_for_nothing(select, rng):
    X = Rows(rng.normal(size=(30, 4)))
    A = np.diag([1.0, 0.0, 2.0, 0.0])

    def descend(A, schedule, n_iter):
        raise AssertionError("there is nothing to fade")

    assert_array_equal(Annealing(select).reduce(A, 2, X, descend), A[[0, 2]])


# The removals


@each_objective
@each_rule
def test_a_row_is_almost_gone_when_it_is_removed(wine, objective, select):
    X, y = wine
    problem = problem_of(X, y, Linear(13), objective, alpha=3e-3)
    A = RCA()(problem.X, y, 13, np.random.RandomState(0)) / 2
    faded, removed = [], []

    def watched(A, schedule, n_iter):
        faded.append(descend(problem, never, A, schedule, n_iter))
        return faded[-1]

    def loss(A):
        return problem.replace(mapping=Linear(len(A))).value(A.ravel())

    reduced = Annealing(select).reduce(A, 2, problem.X, watched, on_removal=removed.append)
    assert reduced.shape == (2, 13)
    assert [len(A) for A in faded] == list(range(13, 2, -1))
    assert [len(A) for A in removed] == list(range(12, 1, -1))
    jumps = [loss(after) - loss(before) for before, after in zip(faded, removed, strict=True)]
    assert max(jumps) < 1e-3


# The start


@each_rule
@quiet
def test_the_result_has_the_rank_asked_for(wine, select):
    X, y = wine
    model = NCA(2, init=Annealing(select), max_iter=5, random_state=0, alpha=3e-3).fit(X, y)
    assert model.components_.shape == (2, 13)
    assert np.linalg.matrix_rank(model.components_) == 2
    assert model.n_iter_ <= 5  # the annealing is not counted
    assert model.score(X, y) > 0.95


@each_objective
def test_annealing_finds_the_plane_of_the_rings(rings, objective):
    X, y = rings
    annealed = NCA(2, init="annealing", objective=objective, random_state=0, alpha=3e-3).fit(X, y)
    single = [
        NCA(2, init="random", objective=objective, random_state=seed, alpha=3e-3).fit(X, y).loss_
        for seed in range(5)
    ]
    assert annealed.loss_ <= np.median(single) + 1e-4
    assert annealed.score(X, y) > 0.95


@quiet
def test_the_seed_decides(wine):
    X, y = wine
    init = Annealing("norm", init="random", from_components=5)
    a, b, c = (
        NCA(2, init=init, max_iter=3, random_state=s, alpha=3e-3).fit(X, y) for s in (0, 0, 1)
    )
    assert_array_equal(a.components_, b.components_)
    assert np.abs(a.components_ - c.components_).max() > 1e-6


@quiet
def test_restarts_of_the_inner_start_are_restarts_of_the_annealing(wine):
    X, y = wine
    settings = {"max_iter": 4, "random_state": 0}
    part = Annealing(init=Random(n_init=3), from_components=4)
    assert part.n_init == 3
    one = NCA(2, init=Annealing(init=Random(), from_components=4), alpha=3e-3, **settings).fit(X, y)
    assert NCA(2, init=part, alpha=3e-3, **settings).fit(X, y).loss_ <= one.loss_


@quiet
def test_without_rows_to_remove_it_is_the_inner_start(wine):
    X, y = wine
    settings = {"max_iter": 1, "random_state": 0}
    for d, part in [(13, Annealing()), (3, Annealing(init="auto", from_components=3))]:
        a, b = (NCA(d, init=init, alpha=3e-3, **settings).fit(X, y) for init in (part, "auto"))
        assert_array_equal(a.components_, b.components_)


@quiet
def test_it_begins_with_a_given_map(wine):
    X, y = wine
    full = NCA(4, max_iter=20, random_state=0, alpha=3e-3).fit(X, y).components_
    model = NCA(2, init=Annealing(init=full), max_iter=5, alpha=3e-3).fit(X, y)
    assert model.components_.shape == (2, 13)
    with pytest.raises(ValueError, match=r"of Annealing must be an array of shape \(4, 13\)"):
        NCA(2, init=Annealing(init=full[:, 1:]), alpha=3e-3).fit(X, y)
    with pytest.raises(ValueError, match=r"must be an array of 5 rows at least\. Got 4"):
        NCA(5, init=Annealing(init=full), alpha=3e-3).fit(X, y)


def test_wide_data_begin_with_fewer_rows():
    assert Annealing().n_rows(2, 33) == 33
    assert Annealing().n_rows(2, 784) == 64
    assert Annealing().n_rows(100, 784) == 100
    assert Annealing(from_components=7).n_rows(2, 784) == 7
    assert Annealing(init=np.eye(5, 9)).n_rows(2, 9) == 5


@quiet
def test_weights_priors_and_sparse_rows(wine, rng):
    X, y = wine
    part = Annealing(from_components=5)
    settings = {"init": part, "priors": "uniform", "max_iter": 10, "random_state": 0}
    weight = rng.uniform(0.5, 2, len(y))
    dense = NCA(2, alpha=3e-3, **settings).fit(X, y, sample_weight=weight)
    sparse = NCA(2, alpha=3e-3, **settings).fit(sp.csr_array(X), y, sample_weight=weight)
    assert sparse.loss_ == pytest.approx(dense.loss_, rel=1e-3)
    # a row of weight zero is not there
    both = np.vstack([X, 100 + rng.normal(size=(4, 13))]), np.append(y, [0, 1, 2, 0])
    padded = NCA(2, alpha=3e-3, **settings).fit(*both, sample_weight=np.append(weight, np.zeros(4)))
    assert_allclose(padded.components_, dense.components_)


@quiet
def test_held_out_rows_do_not_touch_it(wine):
    X, y = wine
    held_out = np.arange(0, len(y), 5)
    train = np.setdiff1d(np.arange(len(y)), held_out)
    found = []
    for change in (0.0, 30.0):
        problem = problem_of(X, y, Linear(2), train=train, held_out=held_out)
        problem.X.X[held_out] += change
        weight = np.ones(len(y))
        weight[held_out] = 0.0
        on_train = functools.partial(descend, problem, never)
        found.append(Annealing().reduce(np.eye(13), 11, problem.X, on_train, weight))
    assert_allclose(found[0], found[1], atol=1e-8)
    part = Annealing(from_components=4)
    model = NCA(2, init=part, early_stopping=True, max_iter=10, random_state=0, alpha=3e-3).fit(
        X, y
    )
    assert model.score(X, y) > 0.9


def test_verbose_prints_a_line_for_each_removed_row(wine, capsys):
    X, y = wine
    NCA(2, init=Annealing(from_components=5), verbose=1, random_state=0, alpha=3e-3).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if "annealing" in line]
    assert [int(line.split()[2]) for line in lines] == [4, 3, 2]


# Refusals and interrupts


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"select": "var"}, "'select' .* must be one of 'projected', 'data', 'norm'. Got 'var'"),
        ({"n_steps": 0}, r"'n_steps' .* must be an int in \[1, inf\). Got 0"),
        ({"step": 0.0}, r"'step' .* must be a float in \(0.0, inf\). Got 0.0"),
        ({"n_iter": 1.5}, r"'n_iter' .* must be an int in \[1, inf\). Got 1.5"),
        ({"init": "annealing"}, "'init' .* must be another start. Got 'annealing'"),
        ({"from_components": -1}, r"'from_components' .* must be an int in \[1, inf\) or None"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message.replace(".*", "parameter of Annealing")):
        Annealing(**parameters)


@pytest.mark.parametrize("k", [1, 14])
def test_rows_to_begin_with_are_checked(wine, k):
    message = rf"'from_components' .* must be an int in \[2, 13\], .*Got {k} instead"
    with pytest.raises(ValueError, match=message):
        NCA(2, init=Annealing(from_components=k), alpha=3e-3).fit(*wine)


def test_names():
    assert isinstance(resolve("annealing"), Annealing)
    part = Annealing("norm", init=Identity())
    assert resolve(part) is part
    with pytest.raises(ValueError, match=r"'init' parameter of NCA must be one of .*'annealing'"):
        resolve(Annealing)
    with pytest.raises(ValueError, match=r"'init' parameter of Annealing must be .*'umap'"):
        NCA(2, init=Annealing(init="umap"), alpha=3e-3).fit(*load_wine(return_X_y=True))


def test_a_diagonal_map_has_no_rows_to_remove(wine):
    message = "'init' .* another start if 'mapping' is 'diagonal', which has no rows to remove"
    with pytest.raises(ValueError, match=message):
        NCA(mapping="diagonal", init="annealing", alpha=3e-3).fit(*wine)
    NCA(mapping=maps.Linear(2), init=Annealing(from_components=3), alpha=3e-3).fit(*wine)


@pytest.mark.parametrize("call", [1, 2, 5, 100])  # the first annealing evaluation, and later
def test_an_interrupt_ends_the_annealing_and_not_the_fit(wine, interrupted_nca, call):
    X, y = wine
    with pytest.warns(UserWarning, match=r"Annealing was stopped at \d+ rows: all but 2"):
        model = interrupted_nca(call)(2, alpha=3e-3, init="annealing", random_state=0).fit(X, y)
    assert model.components_.shape == (2, 13)
    assert np.linalg.matrix_rank(model.components_) == 2
    assert model.score(X, y) > 0.95


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
@quiet
def test_a_callback_ends_the_annealing_too(wine):
    model = NCA(2, init="annealing", random_state=0, alpha=3e-3).set_callbacks(
        StopAfter(seconds=0.0)
    )
    with pytest.warns(UserWarning, match=r"Annealing was stopped at 13 rows"):
        model.fit(*wine)
    assert model.n_iter_ == 1


def test_an_interrupt_ends_a_search_that_anneals(wine, monkeypatch):
    rounds = []

    def interrupted(problem, tell, A, schedule, n_iter):
        rounds.append(len(A))
        if len(rounds) == 5:  # ranks 2 and 3 of two folds take three rounds, then it is rank 4's
            raise KeyboardInterrupt
        return descend(problem, tell, A, schedule, n_iter)

    monkeypatch.setattr("vicinal.starts.annealing._descend", interrupted)
    model = NCA(
        "auto", init=Annealing(from_components=4), cv=2, random_state=0, alpha=3e-3, n_jobs=1
    )
    with pytest.warns(UserWarning, match="search of NCA was stopped.*n_components=2"):
        model.fit(*wine)
    assert model.cv_results_["param_n_components"].tolist() == [2]
    assert len(rounds) == 7  # two more, for the fit


def test_a_search_goes_no_further_than_its_rows(wine):
    model = NCA(
        "auto", init=Annealing(from_components=3), cv=2, max_iter=20, random_state=0, alpha=3e-3
    )
    model.fit(*wine)
    assert model.cv_results_["param_n_components"].tolist() == [2, 3]


def test_equal_parameters_make_equal_starts():
    eye = np.eye(4)
    assert Annealing() == Annealing("projected")
    assert Annealing(init=eye) == Annealing(init=eye.copy())
    assert hash(Annealing(init=eye)) == hash(Annealing(init=eye.copy()))
    assert Annealing(init=eye) != Annealing(init=2 * eye)
    assert Annealing(init=eye) != Annealing(init="auto")
    assert Annealing(init=RCA()) == Annealing(init=RCA()) != Annealing(init=RCA("oas"))
    assert Annealing(n_steps=4) != Annealing()
    assert Given(eye) == Given(eye.copy()) != Given(2 * eye)
