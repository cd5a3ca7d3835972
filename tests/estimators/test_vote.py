"""Several learnt metrics and one vote: its formula, its weights, and what it must not depend on."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from common.checks import assert_same_bits, set_threads
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_wine, make_friedman1
from sklearn.exceptions import ConvergenceWarning

import vicinal
from vicinal import LMNN, MLKR, NCA, RCA, MetricVote, MetricVoteRegressor, make_learner
from vicinal.densities import Gaussian, Laplace
from vicinal.fit.vote import SCALES, even_folds, means_at_scales, stratified_folds
from vicinal.models.vote import Ballots

CLASSES = MetricVote(["network", "laplace", "bins"], n_folds=3, random_state=0)
NUMBERS = MetricVoteRegressor(["network", "linear"], n_folds=3, random_state=0)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(n_samples=240, random_state=0)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def voted(wine):
    return clone(CLASSES).fit(*wine[:2])


@pytest.fixture(scope="module")
def numbers(friedman):
    return clone(NUMBERS).fit(*friedman[:2])


def answers(model, X):
    told = [model.transform(X), model.predict(X), model.weights_, model.feature_importances_]
    return [*told, model.predict_proba(X)] if hasattr(model, "predict_proba") else told


def blocks(model, X):
    """Weight, kernel, and embedded queries and training rows of each map, from public maps."""
    start = 0
    for width, weight, kernel in zip(
        model._model.ballots.widths,
        model._model.ballots.weights,
        model._model.ballots.kernels,
        strict=True,
    ):
        some = slice(start, start + width)
        yield weight, kernel, model.transform(X)[:, some], model._model.Z[:, some]
        start += width


def test_probabilities_by_hand(wine, voted):
    """The weighted mean of softmaxes over all training rows, with d² or d in the exponent."""
    X_train, y_train, X, _ = wine
    total = np.zeros((len(X), 3))
    for weight, kernel, Z, stored in blocks(voted, X):
        d2 = cdist(Z, stored, "sqeuclidean") / weight
        energy = np.sqrt(d2) if isinstance(kernel, Laplace) else d2
        p = np.exp(energy.min(axis=1, keepdims=True) - energy)
        total += weight * (p @ np.eye(3)[y_train]) / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(voted.predict_proba(X), total, atol=1e-9)
    np.testing.assert_allclose(np.log(total), voted.predict_log_proba(X), atol=1e-6)


def test_numbers_by_hand(friedman, numbers):
    _, y_train, X, _ = friedman
    total = np.zeros(len(X))
    for weight, _, Z, stored in blocks(numbers, X):
        d2 = cdist(Z, stored, "sqeuclidean") / weight
        p = np.exp(d2.min(axis=1, keepdims=True) - d2)
        total += weight * (p @ y_train) / p.sum(axis=1)
    np.testing.assert_allclose(numbers.predict(X), total, rtol=1e-9)


def test_weights_are_exponentials_of_scores(voted):
    assert voted.members_ == ["network", "laplace", "bins"]
    votes = voted.weights_ > 0
    assert voted.weights_.sum() == pytest.approx(1.0)
    assert np.count_nonzero(votes) <= 2  # the better half goes on
    share = np.exp((voted.scores_ - voted.scores_.max()) / 0.02) * votes
    np.testing.assert_allclose(voted.weights_, share / share.sum())
    assert set(voted.scales_[votes]) <= set(SCALES)
    assert not voted.scales_[~votes].any()


def test_many_rows_need_fewer_folds(rng):
    X = rng.standard_normal((800, 3))
    y = (X[:, 0] > 0).astype(int)
    for n, maps in ((799, 5), (800, 3)):
        assert MetricVote(["low-rank"], random_state=0).fit(X[:n], y[:n]).n_components_ == maps
        numbers = MetricVoteRegressor([MLKR(1, alpha=0.01)], random_state=0).fit(X[:n], y[:n])
        assert numbers.n_components_ == maps


def test_it_learns(wine, friedman, voted, numbers):
    assert voted.score(*wine[2:]) > 0.95
    assert numbers.score(*friedman[2:]) > 0.8
    assert voted.feature_importances_.sum() == pytest.approx(1.0)
    assert numbers.feature_importances_[:5].min() > numbers.feature_importances_[5:].max()


def test_metric_is_that_of_transform(wine, voted):
    X = wine[2]
    Z, stored = voted.transform(X), voted.transform(wine[0])
    distances, near = voted.kneighbors(X, 3)
    plain = cdist(Z, stored)
    np.testing.assert_allclose(distances, np.sort(plain, axis=1)[:, :3], rtol=1e-6)
    np.testing.assert_array_equal(near[:, 0], plain.argmin(axis=1))
    pairs = np.stack([X[:4], X[4:8]], axis=1)
    apart = np.linalg.norm(Z[:4] - Z[4:8], axis=1)
    np.testing.assert_allclose(voted.pair_distance(pairs), apart, rtol=1e-6)
    assert voted.get_metric()(X[0], X[4]) == pytest.approx(apart[0])
    assert voted.n_components_ == Z.shape[1] == len(voted.get_feature_names_out())
    np.testing.assert_array_equal(voted.training_labels(near), wine[1][near])
    votes = clone(CLASSES).set_params(rule="knn", n_neighbors=1).fit(*wine[:2])
    np.testing.assert_array_equal(votes.predict(X), wine[1][near[:, 0]])


@pytest.mark.parametrize("name", ["classes", "numbers"])
def test_same_bits_for_any_number_of_jobs(name, wine, friedman, monkeypatch):
    model, (X, y, X_new, _) = (CLASSES, wine) if name == "classes" else (NUMBERS, friedman)
    told = []
    for threads, n_jobs in ((1, 1), (2, 2), (3, None)):
        set_threads(monkeypatch, threads)
        told.append(answers(clone(model).set_params(n_jobs=n_jobs).fit(X, y), X_new))
    for other in told[1:]:
        for a, b in zip(told[0], other, strict=True):
            assert_same_bits(a, b)


@pytest.mark.parametrize("name", ["classes", "numbers"])
def test_files_predict_the_same_bits(name, wine, friedman, voted, numbers, tmp_path):
    model, X = (voted, wine[2]) if name == "classes" else (numbers, friedman[2])
    model.save(tmp_path / "vote.vic")
    again = vicinal.load(tmp_path / "vote.vic")
    for a, b in zip(answers(model, X), answers(again, X), strict=True):
        assert_same_bits(a, b)


def test_members_may_be_estimators(wine):
    X, y, X_new, y_new = wine
    members = [NCA(2, alpha=0.01), "low-rank", RCA(), LMNN(2, max_iter=20)]
    model = MetricVote(members, n_folds=2, random_state=0).fit(X, y)
    assert model.members_ == ["NCA 0", "low-rank", "RCA 2", "LMNN 3"]
    assert model.score(X_new, y_new) > 0.9
    one = MetricVote([NCA(2, alpha=0.01)], n_folds=2, random_state=0).fit(X, y)
    assert one.weights_.tolist() == [1.0]
    assert one.transform(X).shape[1] == 4  # two maps of two dimensions


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ("networks", "must be 'auto' or a list of different names among 'network', 'periodic'"),
        (["bins", "bins"], "different names"),
        ([NCA], "estimators of vicinal that learn a map"),
        ([], "at least one member"),
    ],
)
def test_other_members_are_refused(wine, members, match):
    with pytest.raises(ValueError, match=match):
        MetricVote(members).fit(*wine[:2])


def test_sparse_rows(wine):
    X, y, X_new, _ = wine
    X, X_new = X * (X > np.median(X, axis=0)), X_new * (X_new > np.median(X, axis=0))
    model = MetricVote(["network", "laplace"], n_folds=2, random_state=0).fit(sp.csr_array(X), y)
    dense = clone(model).set_params(scaling="standard").fit(X, y)
    assert np.mean(model.predict(sp.csr_array(X_new)) == dense.predict(X_new)) > 0.95


def test_weight_zero_leaves_rows_out(wine):
    X, y, X_new, _ = wine
    weight = np.ones(len(y))
    weight[::3] = 0.0
    model = clone(CLASSES).fit(X, y, sample_weight=weight)
    without = clone(CLASSES).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(model.predict_proba(X_new), without.predict_proba(X_new), atol=1e-6)
    assert (weight[model.kneighbors(X_new, 2)[1]] > 0).all()


def test_time_budget_is_kept(wine):
    X, y, X_new, y_new = wine
    clone(CLASSES).fit(X, y)  # compiled
    began = time.monotonic()
    model = MetricVote(time_budget=0.3, random_state=0).fit(X, y)
    assert time.monotonic() - began < 5.0
    assert model.score(X_new, y_new) > 0.8


def test_interrupt_keeps_what_was_learnt(wine, monkeypatch):
    """Ctrl-C after all members have learnt on one fold, and before that."""
    X, y, X_new, y_new = wine
    for begun, kept in ((4, True), (1, False)):
        asked = iter(range(100))

        def say(words, asked=asked, begun=begun):
            if "fold" in words and next(asked) == begun:
                raise KeyboardInterrupt

        model = clone(CLASSES)
        monkeypatch.setattr(model, "_say", say)
        if not kept:
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, y)
            continue
        with pytest.warns(ConvergenceWarning, match="was interrupted"):
            model.fit(X, y)
        assert model.score(X_new, y_new) > 0.9


def test_rare_classes_are_always_learnt_from(rng):
    X, y = rng.standard_normal((40, 3)), np.repeat([0, 1, 2, 3], [20, 16, 2, 2])
    folds = stratified_folds(y, 5, 0)
    assert all(set(np.unique(y[fold.rows])) == {0, 1, 2, 3} for fold in folds)
    held = np.sort(np.concatenate([fold.held for fold in folds]))
    np.testing.assert_array_equal(held, np.flatnonzero(y < 2))
    model = clone(CLASSES).fit(X, y)
    assert model.predict_proba(X).shape == (40, 4)
    few = MetricVote(random_state=0).fit(X[[0, 1, 20, 21]], y[[0, 1, 20, 21]])  # nothing held out
    assert few.predict(X).shape == (40,)


def test_even_folds_spread_the_order():
    order = np.random.RandomState(0).permutation(17)
    folds = even_folds(order, 5, 0)
    held = np.concatenate([fold.held for fold in folds])
    assert sorted(held) == list(range(17))
    place = np.argsort(order)
    for fold in folds:
        assert (np.diff(np.sort(place[fold.held])) <= 9).all()


@pytest.mark.parametrize("kernel", [Gaussian(), Laplace()])
def test_means_at_all_scales(rng, kernel):
    Z, queries, values = rng.normal(size=(30, 2)), rng.normal(size=(7, 2)), rng.normal(size=(30, 2))
    weight = rng.uniform(0.5, 2.0, size=30)
    found = means_at_scales(queries, Z, values, weight, kernel)
    for scale, means in zip(SCALES, found, strict=True):
        energy = scale * kernel.energy(cdist(queries, Z, "sqeuclidean"), 2)[0]
        p = np.exp(-energy) * weight
        np.testing.assert_allclose(means, (p @ values) / p.sum(axis=1, keepdims=True), rtol=1e-9)


def test_tables_with_categories_and_gaps(rng):
    n = 150
    y = rng.integers(2, size=n)
    X = pd.DataFrame({
        "size": np.where(rng.uniform(size=n) < 0.1, np.nan, np.exp(rng.normal(size=n) + y)),
        "kind": np.where(rng.uniform(size=n) < 0.2 + 0.6 * y, "a", "b"),
    })  # fmt: skip
    model = make_learner(X, y, "vote", n_folds=3, random_state=0)
    assert model[-1].scaling == "auto"  # zeros and ones stay as they are
    assert model.fit(X, y).score(X, y) > 0.75  # the best rule is right for 81 % of such rows
    other = make_learner(X, X["size"].fillna(1.0), "vote-regressor", n_folds=2, random_state=0)
    assert other.fit(X, X["size"].fillna(1.0)).predict(X).shape == (n,)


def test_unsuitable_ballots_are_refused():
    good = Ballots(np.array([2]), np.array([1.0]), [Gaussian()])
    good.check_fields()
    for widths, weights, kernels in (
        (np.array([0]), np.array([1.0]), [Gaussian()]),
        (np.array([2]), np.array([-1.0]), [Gaussian()]),
        (np.array([2]), np.array([1.0]), ["gaussian"]),
        (np.array([2, 2]), np.array([1.0]), [Gaussian()]),
    ):
        with pytest.raises(ValueError, match=r".+"):
            Ballots(widths, weights, kernels).check_fields()


def test_regressor_takes_several_outputs(friedman):
    X, y, X_new, y_new = friedman
    Y = np.column_stack([y, -2.0 * y + X[:, 0]])
    model = MetricVoteRegressor([MLKR(alpha=0.003), "bins"], n_folds=2, random_state=0).fit(X, Y)
    found = model.predict(X_new)
    assert found.shape == (len(X_new), 2)
    assert np.corrcoef(found[:, 0], y_new)[0, 1] > 0.8
