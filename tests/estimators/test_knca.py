"""kNCA as an estimator: what it shares with NCA, its k and votes."""

from __future__ import annotations

import numpy as np
import pytest
from common.hooks import hooked
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from vicinal import KNCA, NCA
from vicinal.fit.method import Data
from vicinal.neighborhoods import Nearest, RandomPairs, Tree, sets_left_out
from vicinal.objectives.knca import knca
from vicinal.objectives.knca_rules import knca_posterior
from vicinal.samplers import MiniBatches, StochasticQueries, Subsample

VOTES = ["majority", "all"]
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def rows(wine):
    """A third of wine: 60 rows of three classes."""
    X, y = wine
    return X[::3], y[::3]


# What is learnt


@pytest.mark.parametrize("vote", VOTES)
@pytest.mark.parametrize("objective", ["log", "accuracy"])
def test_one_neighbour_is_nca(wine, vote, objective):
    X, y = wine
    settings = {"objective": objective, "random_state": 0, "max_iter": 100}
    one, plain = (
        KNCA(2, k=1, vote=vote, **settings).fit(X, y),
        NCA(2, alpha=3e-3, **settings).fit(X, y),
    )
    assert one.n_iter_ == plain.n_iter_
    assert one.loss_ == pytest.approx(plain.loss_, rel=1e-9)
    np.testing.assert_allclose(one.components_, plain.components_, atol=1e-6)
    np.testing.assert_allclose(one.predict_proba(X), plain.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("vote", VOTES)
def test_the_loss_is_that_of_the_objective(rows, vote):
    X, y = rows
    model = KNCA(2, k=3, vote=vote, random_state=0).fit(X, y)
    Z = model.transform(X - X.mean(axis=0))
    penalty = model.alpha * np.sum((model.components_ * X.std(axis=0)) ** 2)
    value, _ = knca(Z, y, 3, vote)
    assert model.loss_ == pytest.approx(value + penalty, rel=1e-9)
    assert model.history_["loss"][-1] < model.history_["loss"][0]


@pytest.mark.parametrize("load", [load_wine, load_iris])
@pytest.mark.parametrize("vote", VOTES)
def test_a_picture_classifies_rows_it_has_not_seen(load, vote):
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = KNCA(2, vote=vote, random_state=0).fit(X, y)
    assert model.transform(X_test).shape == (len(X_test), 2)
    assert model.score(X_test, y_test) > 0.9
    assert model.set_params(rule="knn").score(X_test, y_test) > 0.9


def test_the_posterior_is_the_chance_to_win(rows):
    X, y = rows
    model = KNCA(2, k=4, vote="all", random_state=0).fit(X[::2], y[::2])
    expected = knca_posterior(model._map.embed(X), model._map.embed(X[::2]), y[::2], 4, "all")
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_allclose(expected.sum(axis=1), 1)


def test_hard_votes_are_of_k_unless_told_otherwise(rows):
    X, y = rows
    model = KNCA(2, k=3, rule="knn", random_state=0).fit(X, y)
    assert (model.k_, model.n_neighbors_) == (3, 3)
    Z = model.transform(X)
    for asked in (None, 7):
        model.set_params(n_neighbors=asked)
        voters = KNeighborsClassifier(asked or 3).fit(Z, y)
        np.testing.assert_allclose(model.predict_proba(X), voters.predict_proba(Z))
    chosen = NCA(
        2, rule="knn", n_neighbors="auto", init=model.components_, tol=1e9, alpha=3e-3
    ).fit(X, y)
    model.set_params(n_neighbors="auto").predict(X[:1])
    assert model.n_neighbors_ == chosen.n_neighbors_


def test_a_vote_of_too_many_is_told_at_the_line_of_the_user(rows):
    model = KNCA(2, k=3, rule="knn", random_state=0).fit(*rows).set_params(n_neighbors=99)
    with pytest.warns(UserWarning, match="more than the 60 training rows") as told:
        model.predict(rows[0])
    assert [warning.filename for warning in told] == [__file__]


# Every way down


@unfinished
@pytest.mark.filterwarnings("ignore:The lists of Nearest", "ignore:Of 10 rows at a time")
@pytest.mark.filterwarnings("ignore:n_components=2 has no effect")
@pytest.mark.parametrize(
    "settings",
    [
        {"mapping": "diagonal"},
        {"solver": "cg", "init": "pca"},
        {"init": "annealing"},
        {"sampling": StochasticQueries(20)},
        {"sampling": MiniBatches(30, clusters="random")},
        {"sampling": MiniBatches(10, clusters="random"), "k": 2},
        {"sampling": Subsample(40)},
        {"neighborhood": Nearest(20)},
        {"neighborhood": Nearest(20), "vote": "all", "objective": "accuracy"},
        {"neighborhood": RandomPairs(20), "early_stopping": True},
        {"neighborhood": Nearest(20), "sampling": StochasticQueries(30)},
        {"early_stopping": True, "vote": "all"},
        {"alpha": "scaled", "time_budget": 60.0},
    ],
    ids=repr,
)
def test_every_way_lowers_the_loss(rows, settings):
    X, y = rows
    settings = {"n_components": 2, "max_iter": 12, "random_state": 0, **settings}
    model = KNCA(**settings).fit(X, y)
    assert model.score(X, y) > 0.9
    assert np.isfinite(model.loss_)
    assert model.plan_.kernel is None
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.components_, model.components_)


@unfinished
def test_rank_and_penalty_are_chosen(rows):
    model = KNCA("auto", alpha="auto", k=3, cv=2, max_iter=4, random_state=0).fit(*rows)
    assert set(model.cv_results_["stage"]) == {"n_components", "alpha"}
    assert model.score(*rows) > 0.9


def test_batches_come_sooner_than_for_nca():
    X = np.broadcast_to(np.float32(0), (14_000, 30))
    exact = [KNCA(2, k=k, sampling="full").estimate_cost(X) for k in (1, 5, 15)]
    seconds = [cost.seconds_per_evaluation for cost in exact]
    assert seconds == sorted(seconds)
    plain = NCA(2, sampling="full", alpha=3e-3).estimate_cost(X).seconds_per_evaluation
    assert plain < seconds[1] < 8 * plain
    assert NCA(2, alpha=3e-3).estimate_cost(X) == NCA(2, sampling="full", alpha=3e-3).estimate_cost(
        X
    )
    assert KNCA(2, k=15).estimate_cost(X).seconds_per_evaluation < plain  # of a batch


# Lists


def test_lists_by_name_are_long_enough_and_hold_k_of_the_own_class():
    def lists_of(**settings):
        return KNCA(**settings)._method(Data(np.zeros((9, 2)))).neighborhood

    for k, m in ((5, 100), (15, 150)):
        assert lists_of(k=k, neighborhood="nearest") == Nearest(m, own=k)
        assert lists_of(k=k, neighborhood="random") == RandomPairs(m)
    given = lists_of(k=5, neighborhood=Nearest(30, own=2))
    assert given == Nearest(30, own=5)
    assert lists_of(k=5, neighborhood=Nearest(30, own=9)) == Nearest(30, own=9)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (
            "tree",
            "'neighborhood' parameter of KNCA must be 'auto', 'all', 'nearest' or 'random'.*'tree'",
        ),
        (
            Tree(),
            "'neighborhood' parameter of KNCA must be 'auto', 'all', 'nearest' or 'random'.*Tree",
        ),
        ("few", r"a str among \['all', 'nearest', 'random'\]"),
        (Nearest(4), r"must list more than 4 rows where k=4\. Got Nearest\(m=4"),
        (RandomPairs(8), r"must list more than 8 rows where k=4\. Got RandomPairs\(m=8"),
    ],
)
def test_pairs_that_cannot_vote_are_refused(rows, pairs, message):
    with pytest.raises(ValueError, match=message):
        KNCA(2, k=4, neighborhood=pairs).fit(*rows)


def test_lists_do_not_go_with_batches(rows):
    with pytest.raises(ValueError, match="must be 'auto' or 'all' if 'sampling' is Mini"):
        KNCA(2, neighborhood="nearest", sampling="mini_batches").fit(*rows)


@unfinished
def test_what_lists_leave_out_is_told_in_sets(rows):
    X, y = rows
    with pytest.warns(UserWarning, match=r"Nearest\(m=8.*own=3.*\) leave out .* increase 'm'"):
        model = KNCA(2, k=3, neighborhood=Nearest(8), alpha=0.1, max_iter=1).fit(X, y)
    assert {len(entries) for entries in model.rounds_.values()} == {1}
    stays = KNCA(2, k=3, neighborhood=Nearest(30), tol=1e9, random_state=0).fit(X, y)
    Z = stays._map.embed(X)
    left = sets_left_out(Z, Nearest(30, own=3).pairs(Z, y), 3)
    assert stays.rounds_["mean_left_out"][0] == pytest.approx(left.mean, rel=1e-3)


# Parameters


@pytest.mark.parametrize(
    ("name", "bound", "value"),
    [
        ("k", r"an int in \[1, inf\)", 0),
        ("k", r"an int in \[1, inf\)", 2.0),
        ("k", r"an int in \[1, inf\) or None", "5"),
        ("vote", "one of 'majority', 'all'", "plurality"),
        ("objective", "one of 'log', 'accuracy'", "loss"),
        ("n_neighbors", r"an int in \[1, inf\) or None or 'auto'", "local"),
        ("n_neighbors", r"an int in \[1, inf\) or None or 'auto'", 0),
        ("rule", "one of 'posterior', 'knn'", "nearest"),
        ("solver", "'auto', 'sgd', 'momentum' or 'adam'.*", "lbfgs"),
    ],
)
def test_unknown_options_are_named(rows, name, bound, value):
    model = KNCA(2, sampling=StochasticQueries(20)).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"'{name}' parameter of KNCA must be {bound}.* Got "):
        model.fit(*rows)
    assert not hasattr(model, "components_")


def test_there_are_no_weights_priors_or_kernels(rows):
    with pytest.raises(TypeError, match="sample_weight"):
        KNCA(2).fit(*rows, sample_weight=np.ones(60))
    assert not {"priors", "kernel"} & set(KNCA().get_params())
    assert not hasattr(KNCA(2), "local_n_neighbors")


# Company


def test_travels_in_float32_and_arrives_in_float64(rows, monkeypatch):
    X, y = rows
    straight = KNCA(2, k=3, tol=1e-6, random_state=0).fit(X, y)
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 50)
    seen = []

    watched = hooked(KNCA, lambda Z, kwargs: seen.append(Z.dtype))
    model = watched(2, k=3, tol=1e-6, random_state=0).fit(X, y)
    learnt = seen[7:]  # after those that chose the scale of the start
    assert (learnt[0], learnt[-1]) == (np.float32, np.float64)
    assert model.loss_ == pytest.approx(straight.loss_, abs=1e-5)


def test_early_stopping_scores_rows_held_out(rows):
    model = KNCA(2, k=3, early_stopping=True, validation_fraction=0.3, random_state=0).fit(*rows)
    assert np.isfinite(model.history_["validation_score"]).all()
    assert len(model._model.Z) == 60  # all rows classify


def test_diagonal_weights_are_importances(rows):
    model = KNCA(mapping="diagonal", k=3, random_state=0).fit(*rows)
    assert model.feature_importances_.sum() == pytest.approx(1)
    Z = model.transform(rows[0])
    assert model.get_metric()(rows[0][0], rows[0][1]) == pytest.approx(np.linalg.norm(Z[0] - Z[1]))


# Streams


def test_a_stream_remembers_rows_as_they_come(rng):
    y = (np.arange(300) % 4 == 0).astype(int)  # three of one class to one of the other
    X = rng.normal(size=(300, 3)) + 4 * y[:, None]
    model = KNCA(2, k=3, reservoir_size=80, random_state=0)
    for batch in np.array_split(np.arange(300), 6):
        model.partial_fit(X[batch], y[batch], classes=[0, 1])
    assert len(model._model.Z) == 80
    assert 5 < np.sum(model._model.labels.codes) < 40
    assert model._model.labels.sample_weight is None
    assert (model.k_, model.n_samples_seen_) == (3, 300)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match="'k' parameter of KNCA must stay 3"):
        model.set_params(k=4).partial_fit(X, y)


def test_a_stream_begins_with_fewer_rows_than_vote(rng):
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 2)) + 5 * y[:, None]
    model = KNCA(k=9, random_state=0).partial_fit(X[:6], y[:6], classes=[0, 1])
    assert model.k_ == 3  # two others of the class beside one of the other
    for batch in np.array_split(np.arange(6, 40), 2):
        model.partial_fit(X[batch], y[batch])
    assert model.k_ == 9
    assert model.score(X, y) == 1.0
