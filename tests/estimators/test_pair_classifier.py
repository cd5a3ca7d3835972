"""Pair classifiers: tuples, preprocessors, thresholds."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, fbeta_score, roc_auc_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from vicinal._validation import check_pair_labels
from vicinal.estimators._metric import LearntMetricMixin
from vicinal.estimators._pairs import PairClassifierMixin, check_tuples
from vicinal.maps.fitted import FittedLinear


class Whitener(PairClassifierMixin, LearntMetricMixin, BaseEstimator):
    """The simplest learner from pairs: it whitens the differences of similar pairs."""

    def __init__(self, ridge=1e-3, *, preprocessor=None):
        self.ridge = ridge
        self.preprocessor = preprocessor

    def fit(self, pairs, y):
        pairs, y = self._check_labelled_pairs(pairs, y)
        differences = pairs[y == 1, 1] - pairs[y == 1, 0]
        S = differences.T @ differences / len(differences)
        S += self.ridge * np.eye(len(S))
        L = np.linalg.cholesky(np.linalg.inv(S)).T
        self._map = FittedLinear.of_scaled(L, np.zeros(len(S)), np.ones(len(S)), pairs.dtype)
        self.components_ = self._map.components
        self._calibrate_on_training_pairs(pairs, y)
        return self


@pytest.fixture(scope="module")
def drawn():
    """Scaled rows of wine, pairs of their positions, and whether their classes are the same."""
    X, labels = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    pairs = np.random.default_rng(0).integers(0, len(X), (240, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return X, pairs, np.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1, -1)


def rates(model, pairs, y):
    predicted = model.predict(pairs)
    return np.mean(predicted[y == 1] == 1), np.mean(predicted[y == -1] == -1)


def test_pairs_of_rows_and_of_indices_are_the_same(drawn):
    X, index, y = drawn
    of_rows = Whitener().fit(X[index], y)
    for preprocessor in (
        X,
        X.tolist(),
        sp.csr_array(X),
        lambda i: X[i],
        lambda i: sp.csr_array(X[i]),
    ):
        of_indices = Whitener(preprocessor=preprocessor).fit(index, y)
        np.testing.assert_array_equal(of_indices.components_, of_rows.components_)
        for method in ("decision_function", "predict", "pair_distance", "pair_score"):
            expected = getattr(of_rows, method)(X[index])
            np.testing.assert_array_equal(getattr(of_indices, method)(index), expected)
            np.testing.assert_array_equal(getattr(of_indices, method)(X[index]), expected)


def test_a_callable_gets_any_indices(drawn):
    X, index, y = drawn
    rows = {f"row {i}": x for i, x in enumerate(X)}
    names = np.array(list(rows))[index]
    model = Whitener(preprocessor=lambda names: np.stack([rows[name] for name in names]))
    np.testing.assert_array_equal(model.fit(names, y).predict(names),
                                  Whitener().fit(X[index], y).predict(X[index]))  # fmt: skip


def test_prediction_is_a_threshold_on_the_distance(drawn):
    X, index, y = drawn
    model = Whitener(preprocessor=X).fit(index, y)
    distance = model.pair_distance(index)
    np.testing.assert_array_equal(model.decision_function(index), -distance)
    model.set_threshold(float(distance[3]))  # a pair at the threshold is similar
    np.testing.assert_array_equal(model.predict(index), np.where(distance <= distance[3], 1, -1))
    assert model.predict(index)[3] == 1
    assert model.score(index, y) == pytest.approx(roc_auc_score(y, -distance))
    assert list(model.classes_) == [-1, 1]


def test_a_fit_takes_the_threshold_of_highest_training_accuracy(drawn):
    X, index, y = drawn
    model = Whitener(preprocessor=X).fit(index, y)
    at_fit = accuracy_score(y, model.predict(index))
    tried = [*model.pair_distance(index), -1.0]
    best = max(accuracy_score(y, model.set_threshold(t).predict(index)) for t in tried)
    assert at_fit == best > max(np.mean(y == 1), np.mean(y == -1))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 2.5])
def test_f_beta_is_the_highest_of_all_thresholds(drawn, beta):
    X, index, y = drawn
    model = Whitener(preprocessor=X).fit(index, y)
    model.calibrate_threshold(index, y, strategy="f_beta", beta=beta)
    found = fbeta_score(y, model.predict(index), beta=beta)
    distance = model.pair_distance(index)
    tried = [np.where(distance <= t, 1, -1) for t in distance[::3]]
    assert max(fbeta_score(y, p, beta=beta) for p in tried) <= found + 1e-12
    at_best = np.where(distance <= model.threshold_, 1, -1)
    assert fbeta_score(y, at_best, beta=beta) == found


@pytest.mark.parametrize("min_rate", [0.0, 0.3, 0.9, 1.0])
def test_rates_are_the_highest_that_the_other_rate_allows(drawn, min_rate):
    X, index, y = drawn
    model = Whitener(preprocessor=X).fit(index, y)
    tried = [rates(model.set_threshold(t), index, y) for t in [-1.0, *model.pair_distance(index)]]
    model.calibrate_threshold(index, y, strategy="max_tpr", min_rate=min_rate)
    tpr, tnr = rates(model, index, y)
    assert (tpr, tnr) == max(rate for rate in tried if rate[1] >= min_rate)
    model.calibrate_threshold(index, y, strategy="max_tnr", min_rate=min_rate)
    tpr, tnr = rates(model, index, y)
    assert (tnr, tpr) == max(rate[::-1] for rate in tried if rate[0] >= min_rate)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_threshold_can_reject_or_accept_every_pair(dtype):
    pairs = np.array([[[0], [1]], [[0], [2]], [[0], [3]]], dtype)
    model = Whitener().fit(pairs, [1, -1, -1])
    assert model.predict(pairs).tolist() == [1, -1, -1]
    model.calibrate_threshold(pairs, [-1, -1, 1])  # the farthest is the similar one
    assert model.predict(pairs).tolist() == [-1, -1, -1]
    assert np.isfinite(model.threshold_)
    model.calibrate_threshold(pairs, [-1, -1, 1], strategy="max_tnr", min_rate=1)
    assert model.predict(pairs).tolist() == [1, 1, 1]


def test_a_rate_of_two_in_ten_is_enough_for_one_fifth():
    # 1 - 8/10 is below 0.2 in floating point
    pairs = np.arange(11.0)[:, None, None] * np.array([[0.0], [1.0]])
    model = Whitener().fit(pairs, [-1] * 8 + [1] + [-1] * 2)
    model.calibrate_threshold(pairs, [-1] * 8 + [1] + [-1] * 2, "max_tpr", min_rate=0.2)
    assert model.predict(pairs)[8] == 1


def test_equal_distances_are_not_split():
    pairs = np.array([[[0.0], [1.0]]] * 3 + [[[0.0], [2.0]]] * 2)
    model = Whitener().fit(pairs, [1, -1, 1, -1, -1])
    assert model.predict(pairs).tolist() == [1, 1, 1, -1, -1]


def test_float32_stays_float32(drawn):
    X, index, y = drawn
    model = Whitener(preprocessor=X.astype(np.float32)).fit(index, y)
    assert model.decision_function(index).dtype == np.float32
    assert accuracy_score(y, model.predict(index)) > 0.7


def test_works_in_scikit_learns_searches(drawn):
    X, index, y = drawn
    model = Whitener(preprocessor=X)
    assert is_classifier(model)
    scores = cross_val_score(model, index, y, cv=3)
    np.testing.assert_allclose(scores, cross_val_score(Whitener(), X[index], y, cv=3))
    assert scores.min() > 0.6
    np.testing.assert_array_equal(scores, cross_val_score(model, index, y, cv=3, scoring="roc_auc"))
    search = GridSearchCV(model, {"ridge": [1e-3, 1.0]}, cv=3).fit(index, y)
    assert search.predict(index).shape == y.shape
    assert set(cross_val_predict(model, index, y, cv=3)) == {-1, 1}


@pytest.mark.parametrize("with_preprocessor", [True, False])
def test_works_with_scikit_learns_threshold_classifiers(drawn, with_preprocessor):
    X, index, y = drawn
    pairs = index if with_preprocessor else X[index]
    model = Whitener(preprocessor=X if with_preprocessor else None)
    tuned = TunedThresholdClassifierCV(model, cv=2, scoring="f1", thresholds=12).fit(pairs, y)
    expected = np.where(tuned.decision_function(pairs) >= tuned.best_threshold_, 1, -1)
    np.testing.assert_array_equal(tuned.predict(pairs), expected)
    # its threshold is one of the score, minus the distance
    inner = tuned.estimator_.set_threshold(-tuned.best_threshold_)
    np.testing.assert_array_equal(inner.predict(pairs), expected)
    fixed = FixedThresholdClassifier(model, threshold=-1.7, response_method="decision_function")
    fixed.fit(pairs, y)
    np.testing.assert_array_equal(
        fixed.predict(pairs), fixed.estimator_.set_threshold(1.7).predict(pairs)
    )


def test_clone_pickle_and_tags(drawn):
    X, index, y = drawn
    model = Whitener(0.1, preprocessor=X)
    copied = clone(model)
    assert copied.ridge == 0.1
    np.testing.assert_array_equal(copied.preprocessor, X)
    assert copied.set_params(ridge=0.2).get_params()["ridge"] == 0.2
    model.fit(index, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(index), model.predict(index))
    tags = get_tags(model)
    assert tags.input_tags.three_d_array
    assert not tags.input_tags.two_d_array
    assert tags.estimator_type == "classifier"
    assert model.transform(X).shape == X.shape
    again.preprocessor = X[::-1]  # indices refer to the present preprocessor
    np.testing.assert_array_equal(again.predict(len(X) - 1 - index), model.predict(index))


def test_bad_tuples_are_refused():
    X = np.arange(12.0).reshape(4, 3)
    for tuples, preprocessor, message in [
        (X, None, r"pairs of ITML must have shape \(n_pairs, 2, n_features\). Got \(4, 3\)"),
        ([[0, 1]], None, r"Got \(1, 2\) instead. Indices of rows need a 'preprocessor'"),
        ([0, 1], X, r"or \(n_pairs, 2\) for indices. Got \(2,\) instead"),
        (np.zeros((5, 4, 3)), None, r"Got \(5, 4, 3\) instead"),
        ([[0, 4]], X, r"of ITML, which has 4 rows, must be in \[0, 3\]. Got 4 instead"),
        ([[0, -1]], X, "Got -1 instead"),
        ([[0.0, 1.0]], X, "must be ints. Got float64 instead"),
        ([[0, 1]], lambda i: X[:1], r"must turn 2 indices into .* Got \(1, 3\) instead"),
        (np.zeros((0, 2, 3)), None, "at least one of the pairs"),
        (np.full((1, 2, 3), np.nan), None, "Input pairs contains NaN"),
        (np.zeros((1, 2, 0)), None, "at least one feature. Got 0 instead"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            check_tuples("ITML", tuples, 2, preprocessor)
    with pytest.raises(ValueError, match=r"must have 2 features. Got 3 instead"):
        check_tuples("ITML", [[0, 1]], 2, X, n_features=2)
    with pytest.raises(ValueError, match=r"quadruplets of LSML must have shape \(n_quadruplets, 4"):
        check_tuples("LSML", [[0, 1]], 4, X)
    assert check_tuples("LSML", [[0, 1, 2, 3]], 4, X).shape == (1, 4, 3)


def test_bad_labels_are_refused():
    for y, message in [
        (None, "the target y is None"),
        ([1, -1], r"must have shape \(3,\)"),
        ([1, 0, -1], r"must be \+1 for similar and -1 for dissimilar pairs. Got .*0.* instead"),
        ([1, np.nan, -1], "Got .*nan.* instead"),
        (["1", "1", "-1"], "Got .*'1'.* instead"),
        ([True, False, True], "Got .*True.* instead"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_pair_labels("ITML", y, 3)
    with pytest.raises(ValueError, match=r"only pairs with label \+1 instead"):
        check_pair_labels("ITML", [1, 1, 1], 3, both=True)
    assert check_pair_labels("ITML", [1.0, 1.0, -1.0], 3).tolist() == [1, 1, -1]


def test_bad_thresholds_are_refused(drawn):
    X, index, y = drawn
    with pytest.raises(NotFittedError):
        Whitener(preprocessor=X).predict(index)
    with pytest.raises(NotFittedError):
        Whitener(preprocessor=X).pair_distance(index)
    model = Whitener(preprocessor=X).fit(index, y)
    for value in ("1", None, np.nan, True):
        with pytest.raises(ValueError, match=r"parameter of Whitener\.set_threshold"):
            model.set_threshold(value)
    for options, message in [
        ({"strategy": "auc"}, "'strategy' parameter of Whitener.calibrate_threshold must be one"),
        ({"strategy": "max_tpr"}, r"must be a float in \[0, 1\] for strategy='max_tpr'. Got None"),
        ({"strategy": "max_tnr", "min_rate": 1.2}, "Got 1.2 instead"),
        ({"strategy": "f_beta", "beta": -1}, r"'beta' parameter .* in \[0, inf\). Got -1 instead"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            model.calibrate_threshold(index, y, **options)
    with pytest.raises(ValueError, match=r"Whitener.calibrate_threshold needs similar \(\+1\)"):
        model.calibrate_threshold(index[:3], [1, 1, 1])
    del model.threshold_
    with pytest.raises(NotFittedError, match="has no threshold yet"):
        model.predict(index)
    with pytest.raises(ValueError, match=r"must have 13 features. Got 2 instead"):
        model.decision_function(X[index][:, :, :2])
