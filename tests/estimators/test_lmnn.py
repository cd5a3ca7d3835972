"""LMNN as an estimator: its targets, what it shares with NCA, how it classifies and measures."""

from __future__ import annotations

import tracemalloc
import warnings
from itertools import pairwise
from types import SimpleNamespace

import formulas
import numpy as np
import pytest
from formulas import finite_difference
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from vicinal import LMNN, maps, solvers
from vicinal._features import Features
from vicinal.core.types import Batch
from vicinal.estimators import _base
from vicinal.estimators._margins import FindTargets
from vicinal.fit.method import Data
from vicinal.fit.report import HAS_CALLBACKS
from vicinal.fit.tuning import adam_for
from vicinal.neighborhoods import target_neighbors
from vicinal.samplers import MiniBatches, StochasticQueries, Subsample

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def rows(wine):
    """A third of wine: 60 rows of three classes."""
    X, y = wine
    return X[::3], y[::3]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


@pytest.fixture(scope="module")
def fitted(rows):
    return LMNN(2, random_state=0).fit(*rows)


def plain_loss(model, X, y, neighbours):
    """The reference at the map that was learnt, and the penalty."""
    Z = (X - X.mean(axis=0)) @ model.components_.T
    penalty = model.alpha_ * np.sum((model.components_ * X.std(axis=0)) ** 2)
    return formulas.lmnn(Z, y, neighbours, model.mu, model.margin)[0] + penalty


def active_triples(Z, y, neighbours, margin):
    """Number of (i, j, l) with l inside the margin, from whole arrays."""
    D = np.sum((Z[:, None] - Z) ** 2, axis=2)
    reach = np.take_along_axis(D, neighbours, axis=1) + margin
    return np.sum((D[:, None] < reach[:, :, None]) & (y[:, None] != y)[:, None])


# What is learnt


@unfinished
@pytest.mark.parametrize(
    "settings",
    [{}, {"mu": 0.3, "margin": 2.5}, {"k": 1, "alpha": 0.01}, {"mapping": "diagonal", "k": 5}],
    ids=repr,
)
def test_the_loss_is_the_formula(rows, settings):
    X, y = rows
    model = LMNN(max_iter=15, random_state=0, **settings).fit(X, y)
    targets = target_neighbors((X - X.mean(axis=0)) / X.std(axis=0), y, model.k_)
    assert model.loss_ == pytest.approx(plain_loss(model, X, y, targets), rel=1e-9)
    assert model.loss_ == pytest.approx(min(model.history_["loss"]), rel=1e-12)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert {len(column) for column in model.history_.values()} == {model.n_iter_ + 1}
    counted = active_triples(X @ model.components_.T, y, targets, model.margin)
    assert model.history_["n_impostors"][np.argmin(model.history_["loss"])] == counted > 0


@pytest.mark.parametrize("load", [load_wine, load_iris])
def test_a_picture_classifies_rows_it_has_not_seen(load):
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = LMNN(2, random_state=0).fit(X, y)
    assert model.transform(X_test).shape == (len(X_test), 2)
    assert model.score(X_test, y_test) > 0.9


def test_learns_a_better_metric_than_the_euclidean(wine):
    X, y = wine
    plain, learnt = np.zeros((2, 3))
    for seed in range(3):
        split = train_test_split(X, y, test_size=0.6, random_state=seed, stratify=y)
        X_train, X_test, y_train, y_test = split
        plain[seed] = KNeighborsClassifier(3).fit(X_train, y_train).score(X_test, y_test)
        learnt[seed] = LMNN(random_state=0).fit(X_train, y_train).score(X_test, y_test)
    assert learnt.mean() > plain.mean() + 0.2


@pytest.mark.parametrize("mu", [0.1, 10.0])
def test_mu_and_margin_decide(rows, mu):
    """The push spreads classes; the margin sets the scale: D is measured in its units."""
    X, y = rows
    one = LMNN(2, mu=mu, margin=1.0, random_state=0, tol=1e-8, max_iter=500).fit(X, y)
    four = LMNN(2, mu=mu, margin=4.0, random_state=0, tol=1e-8, max_iter=500).fit(X, y)
    assert four.loss_ == pytest.approx(4 * one.loss_, rel=0.02)
    metrics = [model.get_mahalanobis_matrix() for model in (one, four)]
    np.testing.assert_allclose(metrics[1], 4 * metrics[0], atol=0.1 * np.abs(metrics[1]).max())


@unfinished
@pytest.mark.parametrize(
    ("n", "settings", "expected"),
    [
        (120, {}, 0.0),  # ten rows a column and more
        (60, {}, 100.0 * 8 / 60),
        (60, {"mapping": "diagonal"}, 0.0),
        (60, {"k": 5, "early_stopping": True, "validation_fraction": 0.5}, 100.0 * 8 / 30),
        (24, {}, 0.5 * 24),  # a stronger one might collapse the map
        (24, {"k": 5}, 100.0 * 8 / 24),
        (24, {"k": 5, "mu": 2.0}, 200.0 * 8 / 24),
        (60, {"alpha": 0.5}, 0.5),
    ],
)
def test_the_scaled_penalty_grows_with_the_columns_a_row(n, settings, expected):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 8)), np.arange(n) % 2
    settings = {"k": 1, "scaling": "standard", "max_iter": 3, "random_state": 0, **settings}
    assert LMNN(**settings).fit(X, y).alpha_ == pytest.approx(expected)


@unfinished
def test_the_scaled_penalty_has_a_limit():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 700)), np.arange(200) % 2
    model = LMNN(2, scaling="standard", max_iter=3, random_state=0).fit(X, y)
    assert model.alpha_ == 300.0


@pytest.mark.parametrize("n", [6, 12, 40])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.filterwarnings("ignore:The 'k' parameter")
def test_the_scaled_penalty_collapses_no_map(n, k):
    """Not even that of labels that have nothing to do with the rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 100)), np.arange(n) % 2
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="The map has collapsed")
        LMNN(k=k, n_neighbors=k, random_state=0).fit(X, y)


def test_more_columns_than_rows_do_not_over_fit():
    X, y = make_classification(
        400, 150, n_informative=10, n_redundant=10, n_classes=3, class_sep=1.5, random_state=0
    )
    learn, judge = slice(0, 100), slice(100, None)
    plain = LMNN(alpha=0.0, random_state=0).fit(X[learn], y[learn])
    model = LMNN(random_state=0).fit(X[learn], y[learn])
    assert model.score(X[judge], y[judge]) > plain.score(X[judge], y[judge]) + 0.1


@unfinished
@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "cg", "init": "pca"},
        {"solver": "bold_driver"},
        {"solver": solvers.BoldDriver()},
        {"solver": "adam"},
        {"solver": "momentum", "max_iter": 40},
        {"init": "identity", "scaling": "global", "alpha": 0.0},
        {"init": "random", "scaling": None, "max_iter": 60, "alpha": 0.0},
        {"init": "lda"},
        {"mapping": "diagonal", "n_components": None},
        {"early_stopping": True},
        {"refresh_targets": 4},
        {"refresh_targets": 4, "early_stopping": True, "solver": "bold_driver"},
        {"alpha": 0.1, "time_budget": 60.0},
        {"sampling": Subsample(40), "max_iter": 20},
        {"sampling": StochasticQueries(20), "max_iter": 30},
        {"sampling": MiniBatches(20, "random"), "max_iter": 30, "refresh_targets": 9},
        {"sampling": MiniBatches(20, "random"), "early_stopping": True, "max_iter": 30},
    ],
    ids=repr,
)
def test_every_way_lowers_the_loss(rows, settings):
    X, y = rows
    settings = {"n_components": 3, "k": 3, "max_iter": 12, "random_state": 0, **settings}
    model = LMNN(**settings).fit(X, y)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert model.score(X, y) > 0.9
    assert np.isfinite(model.loss_)
    assert model.plan_.kernel is None
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.components_, model.components_)


@unfinished
def test_a_pass_over_queries_has_the_gradient_of_all_rows(rows, monkeypatch):
    """The mean over a pass, and batches of all rows, at the problem that a fit minimises."""
    seen = []
    monkeypatch.setattr(
        _base, "best_of_starts", lambda context, problem: seen.append(problem) or 1 / 0
    )
    X, y = rows
    with pytest.raises(ZeroDivisionError):
        LMNN(2, alpha=0.1, random_state=0).fit(X, y)
    problem, theta = seen[0], np.random.RandomState(0).standard_normal(2 * X.shape[1])
    value, gradient = problem(theta)
    deal = StochasticQueries(20).dealer(problem.source, np.random.RandomState(0))
    parts = [problem(theta, batch) for batch in deal(theta, np.random.RandomState(1))]
    assert len(parts) == 3
    assert np.mean([part[0] for part in parts]) == pytest.approx(value, rel=1e-12)
    mean = np.mean([part[1] for part in parts], axis=0)
    np.testing.assert_allclose(mean, gradient, atol=1e-11 * np.abs(gradient).max())
    # a batch of all rows is all rows
    whole = problem(theta, Batch(rows=np.arange(60), share=1.0))
    np.testing.assert_allclose(whole[1], gradient, atol=1e-11 * np.abs(gradient).max())
    # and the gradient of a batch is that of its loss
    batch = Batch(rows=np.arange(0, 60, 3), share=19 / 59)
    numeric = finite_difference(lambda t: problem(t, batch)[0], theta, 1e-6)
    slope = problem(theta, batch)[1]
    np.testing.assert_allclose(slope, numeric, rtol=1e-4, atol=1e-5 * np.abs(slope).max())


def test_batches_move_four_times_as_fast_as_those_of_nca(rows):
    problem = SimpleNamespace(X=Features(rows[0], "standard"), mapping=maps.Linear(2))
    theta = np.random.RandomState(0).standard_normal(26)
    relative = LMNN(2)._method(Data(rows[0])).relative_rate
    lmnn, nca = adam_for(problem, theta, 10, relative), adam_for(problem, theta, 10)
    assert lmnn.learning_rate(0) == pytest.approx(4 * nca.learning_rate(0))


def test_auto_takes_batches_of_many_rows():
    """By the size alone; their cost does not grow with the square of the rows."""
    costs = {n: LMNN().estimate_cost(np.empty((n, 20))) for n in (2_000, 200_000)}
    per_row = {n: cost.seconds_per_evaluation / n for n, cost in costs.items()}
    assert per_row[200_000] < 0.1 * per_row[2_000]
    whole = LMNN(sampling="full").estimate_cost(np.empty((200_000, 20)))
    assert whole.seconds_per_evaluation > 100 * costs[200_000].seconds_per_evaluation
    with pytest.raises(ValueError, match="'sgd', 'momentum' or 'adam' if 'sampling' is"):
        LMNN(solver="lbfgs", sampling="stochastic").estimate_cost(np.empty((2_000, 20)))


def test_solvers_agree(rows):
    settings = {"n_components": 3, "random_state": 0, "tol": 1e-7, "max_iter": 2000}
    losses = [LMNN(solver=name, **settings).fit(*rows).loss_ for name in ("lbfgs", "bold_driver")]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


@unfinished
def test_rank_and_penalty_are_chosen(rows):
    model = LMNN("auto", alpha="auto", cv=2, max_iter=4, random_state=0).fit(*rows)
    assert set(model.cv_results_["stage"]) == {"n_components", "alpha"}
    assert 1 <= model.n_components_ <= 13
    assert model.score(*rows) > 0.9


# Target neighbours and votes


def test_few_of_a_class_are_all_its_targets(rows):
    X, y = rows
    some = np.concatenate([np.flatnonzero(y == c)[:m] for c, m in enumerate((20, 4, 3))])
    message = r"'k' parameter of LMNN is 3, but these classes .* targets: 2\."
    with pytest.warns(UserWarning, match=message) as told:
        model = LMNN(2, k=3, random_state=0).fit(X[some], y[some])
    assert [warning.filename for warning in told] == [__file__]
    assert (model.k_, model.n_neighbors_) == (3, 3)
    with pytest.warns(UserWarning, match=r"is 30, but .*: 0, 1, 2\."):
        model = LMNN(2, k=30, random_state=0).fit(X[some], y[some])
    assert (model.k_, model.n_neighbors_) == (19, 19)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LMNN(2, k=2, random_state=0).fit(X[some], y[some])


def test_a_class_of_one_row_warns_and_pushes(rows):
    X, y = rows
    names = np.array(["first", "second", "third"])[y]
    names[0] = "lonely"
    with pytest.warns(UserWarning, match="single row .* no target neighbour .*: 'lonely'") as told:
        model = LMNN(2, k=1, random_state=0).fit(X, names)
    assert [warning.filename for warning in told] == [__file__]
    assert model.predict(X[:1]) == ["lonely"]
    assert np.isfinite(model.components_).all()


def test_votes_are_of_k_unless_told_otherwise(rows):
    X, y = rows
    model = LMNN(2, k=2, random_state=0).fit(X, y)
    assert (model.k_, model.n_neighbors_) == (2, 2)
    Z = model.transform(X)
    for asked in (None, 7):
        model.set_params(n_neighbors=asked)
        voters = KNeighborsClassifier(asked or 2).fit(Z, y)
        np.testing.assert_allclose(model.predict_proba(X), voters.predict_proba(Z))
        np.testing.assert_array_equal(model.predict(X), voters.predict(Z))
    asked = LMNN(2, k=2, n_neighbors="auto", random_state=0).fit(X, y)
    model.set_params(n_neighbors="auto")
    with pytest.raises(AttributeError, match="chosen by the first prediction under rule='knn'"):
        _ = model.n_neighbors_
    model.predict(X[:1])
    assert model.n_neighbors_ == asked.n_neighbors_
    with pytest.warns(UserWarning, match="n_neighbors=61 is more than the 60 training rows"):
        assert model.set_params(n_neighbors=61).n_neighbors_ == 60


@unfinished
def test_targets_chosen_anew_lower_the_loss(digits):
    X, y = digits
    settings = {"max_iter": 60, "tol": 1e-6, "random_state": 0}
    frozen = LMNN(10, **settings).fit(X, y)
    model = LMNN(10, refresh_targets=10, **settings).fit(X, y)
    assert frozen.rounds_ == {}
    assert model.loss_ < 0.9 * frozen.loss_
    shares = model.rounds_["share_of_new_targets"]
    assert shares[0] == 0.0  # those from before learning
    assert 0 < shares[1] < 1
    assert len(shares) >= model.n_iter_ // 10
    loss = model.history_["loss"]
    assert all(after <= before + 1e-9 for before, after in pairwise(loss))


@unfinished
def test_new_targets_are_the_nearest_at_the_map(rows, monkeypatch):
    X, y = rows
    seen, find = [], FindTargets.__call__

    def watched(self, problem, theta=None):
        problem = find(self, problem, theta)
        seen.append((None if theta is None else problem.embed(theta), problem.target))
        return problem

    monkeypatch.setattr(FindTargets, "__call__", watched)
    LMNN(2, k=3, refresh_targets=3, max_iter=9, tol=1e-3, random_state=0).fit(X, y)
    assert len(seen) > 2
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    for Z, targets in seen:
        places = scaled if Z is None else Z
        np.testing.assert_array_equal(targets.neighbors, target_neighbors(places, y, 3))


def test_held_out_rows_are_nobodys_targets(digits, monkeypatch):
    X, y = digits
    seen, find = [], FindTargets.__call__

    def watched(self, problem, theta=None):
        seen.append(find(self, problem, theta))
        return seen[-1]

    monkeypatch.setattr(FindTargets, "__call__", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LMNN(5, early_stopping=True, max_iter=4, random_state=0).fit(X, y)
    problem = seen[0]
    used = problem.target.neighbors
    assert len(problem.held_out) == 30
    assert not np.isin(used, problem.held_out).any()
    assert (used[problem.held_out] >= 0).all()


# The face of an estimator


@pytest.mark.parametrize(
    ("name", "bound", "value"),
    [
        ("k", r"an int in \[1, inf\)", 0),
        ("k", r"an int in \[1, inf\)", 2.0),
        ("k", r"an int in \[1, inf\) or None", "5"),
        ("mu", r"a float in \(0.0, inf\)", 0.0),
        ("mu", r"a float in \(0.0, inf\)", -1),
        ("mu", r"a float in \(0.0, inf\)", np.nan),
        ("margin", r"a float in \(0.0, inf\)", 0.0),
        ("margin", r"a float in \(0.0, inf\)", "auto"),
        ("margin", r"a float in \(0.0, inf\)", np.inf),
        ("refresh_targets", r"an int in \[1, inf\) or None", 0),
        ("refresh_targets", r"an int in \[1, inf\) or None", 1.5),
        ("refresh_targets", r"an int in \[1, inf\) or None", "auto"),
        ("n_neighbors", r"an int in \[1, inf\) or None or 'auto'", "local"),
        ("n_neighbors", r"an int in \[1, inf\) or None or 'auto'", 0),
        ("n_components", r"an int in \[1, 13\] or None or 'auto'", 14),
        ("solver", "a str among .*'bold_driver'.*'lbfgs'.* or a solver such as .*", "newton"),
        ("mapping", "'linear', 'diagonal', 'periodic', 'bins' or a map", "conic"),
        ("time_budget", r"a float in \(0.0, inf\) or None", 0),
    ],
)
def test_unknown_options_are_named(rows, name, bound, value):
    model = LMNN(2).set_params(**{name: value})
    message = f"'{name}' parameter of LMNN must be {bound}.* Got "
    with pytest.raises((ValueError, TypeError), match=message) as error:
        model.fit(*rows)
    assert f"Got {value!r} instead" in str(error.value)
    assert not hasattr(model, "components_")


def test_there_are_no_weights_or_rules(rows):
    with pytest.raises(TypeError, match="sample_weight"):
        LMNN(2).fit(*rows, sample_weight=np.ones(60))
    absent = {"priors", "kernel", "rule", "neighborhood", "objective", "reservoir_size"}
    assert not absent & set(LMNN().get_params())
    for name in ("rule", "neighborhood"):
        with pytest.raises(ValueError, match="Invalid parameter"):
            LMNN().set_params(**{name: "knn"})
    assert not hasattr(LMNN(), "partial_fit")
    assert not hasattr(LMNN(), "effective_n_neighbors")


def test_what_is_fitted_is_asked_for_after_the_fit():
    for name in ("k_", "n_neighbors_"):
        assert not hasattr(LMNN(), name)


# What a review found


@unfinished
def test_margins_and_columns_of_any_scale_lead_to_the_same_metric(rows):
    X, y = rows
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    one = LMNN(random_state=0, scaling=None).fit(X, y)
    for margin, factor in [(1e-8, 1.0), (1e8, 1.0), (1.0, 1e-8), (1.0, 1e6)]:
        other = LMNN(margin=margin, random_state=0, scaling=None).fit(factor * X, y)
        assert other.n_iter_ == one.n_iter_
        assert other.loss_ / margin == pytest.approx(one.loss_, rel=1e-6)


def test_ties_are_broken_alike_by_any_number_of_threads(rng):
    X = rng.integers(0, 2, (2400, 12)).astype(float)
    y = (X[:, :4].sum(axis=1) + rng.normal(0, 0.7, len(X)) > 2).astype(int)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(target_neighbors(X, y, 3))
    np.testing.assert_array_equal(*found)


def test_the_scaling_with_the_better_neighbours_is_taken(rng):
    y = np.arange(240) % 3
    signal = np.stack([y == 0, y == 1], axis=1) * 8.0 + rng.standard_normal((240, 2))
    noise = rng.standard_normal((240, 20))
    raw = LMNN(2, random_state=0).fit(np.hstack([signal, noise]), y)
    assert raw.scaling_ == "global"  # the columns that matter are the wide ones
    units = LMNN(2, random_state=0).fit(np.hstack([signal, 1e3 * noise[:, :2]]), y)
    assert units.scaling_ == "standard"
    assert LMNN(2, scaling=None).fit(signal, y).scaling_ is None


def test_held_out_rows_do_not_choose_the_scaling(rng, monkeypatch):
    from vicinal.estimators import lmnn as module

    seen = []
    votes_right = module._votes_right

    def spy(features, codes, k):
        seen.append(codes)
        return votes_right(features, codes, k)

    monkeypatch.setattr(module, "_votes_right", spy)
    X, y = rng.standard_normal((90, 4)), np.arange(90) % 3
    with warnings.catch_warnings(action="ignore"):
        LMNN(2, early_stopping=True, validation_fraction=0.3, random_state=0).fit(X, y)
    assert {len(codes) for codes in seen} == {63}


@unfinished
@pytest.mark.parametrize("seed", [5, 15, 22, 26])
def test_issue_14_sparse_and_dense_rows_choose_one_scaling(seed):
    rng = np.random.default_rng(seed)  # many neighbours at the same distance
    X = rng.integers(0, 3, (60, 4)) * np.array([1.0, 1.0, 2.0, 5.0])
    y = X[:, 0] + X[:, 3] / 5 + rng.integers(0, 2, 60) >= 3
    model = LMNN(k=3, max_iter=1)
    assert model.fit(X, y).scaling_ == model.fit(sparse.csr_array(X), y).scaling_


@unfinished
def test_a_sparse_table_is_not_made_dense(rng):
    S = sparse.random(600, 20_000, density=5e-4, format="csr", random_state=0)
    y = np.arange(600) % 3
    # as many rows, so that what is compiled is compiled before the memory is measured
    LMNN(2, max_iter=1, init="random").fit(S[:, :2000], y)
    tracemalloc.start()
    LMNN(2, max_iter=1, init="random").fit(S, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6  # the table itself, dense, is 96 MB


@unfinished
def test_issue_14_the_default_tolerance_ends_near_the_optimum():
    X, y = load_wine(return_X_y=True)
    usual = LMNN(random_state=0).fit(X, y)
    longer = LMNN(random_state=0, tol=None, max_iter=60).fit(X, y)
    assert longer.loss_ <= usual.loss_ < 1.003 * longer.loss_
