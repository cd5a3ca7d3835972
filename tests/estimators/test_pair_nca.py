"""PairNCA: forms of its input, thresholds, and what it has beside the other learners of maps."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import needs_callbacks
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import TunedThresholdClassifierCV, cross_val_score

from vicinal import PairNCA, starts
from vicinal.callbacks import StopAfter
from vicinal.core.types import Map
from vicinal.engines import choose
from vicinal.models.soft import PartnerModel
from vicinal.objectives import pair_nca
from vicinal.targets import PairWeights

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    """Rows of wine, pairs of rows of training, and pairs of other rows, with labels."""
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))

    def draw(rows, m):
        pairs = rows[rng.integers(0, len(rows), (m, 2))]
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)

    return X, draw(order[:90], 300), draw(order[90:], 400)


def fitted(model, *args, **kwargs):
    return clone(model).set_params(random_state=0).fit(*args, **kwargs)


def test_learns_a_better_metric_than_the_scaled_features(wine):
    X, (pairs, y), (others, y_others) = wine
    model = fitted(PairNCA(), X[pairs], y)
    apart = (X[others[:, 0]] - X[others[:, 1]]) / X.std(axis=0)
    plain = roc_auc_score(y_others, -np.linalg.norm(apart, axis=1))
    assert model.score(X[others], y_others) > plain + 0.05
    assert np.mean(model.predict(X[others]) == y_others) > 0.8


@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**664, 2.0**1022])
def test_a_common_factor_of_the_weights_changes_no_bit(wine, factor):
    X, (pairs, _), _ = wine
    weights = np.random.default_rng(1).uniform(0.1, 1.9, len(pairs))
    one, same = (fitted(PairNCA(2, max_iter=8), X, pairs, unit * weights) for unit in (1, factor))
    np.testing.assert_array_equal(same.components_, one.components_)
    Z = one.transform(X)
    value, dZ = pair_nca(Z, pairs, weights)
    got = pair_nca(Z, pairs, factor * weights)
    assert got[0] == value
    np.testing.assert_array_equal(got[1], dZ)


def test_the_loss_is_that_of_the_formula(wine):
    X, (pairs, y), _ = wine
    weights = np.random.default_rng(1).uniform(0, 2, len(pairs))
    model = fitted(PairNCA(2, alpha=0.7, scaling=None), X / X.std(axis=0), pairs, weights)
    Z = model.transform(X / X.std(axis=0))
    value = pair_nca(Z, pairs, weights)[0] + 0.7 * np.sum(model.components_**2)
    assert model.loss_ == pytest.approx(value, rel=1e-10)


def test_forms_of_the_pairs_give_the_same_map(wine):
    X, (pairs, y), _ = wine
    used = np.unique(pairs)
    place = np.searchsorted(used, pairs)
    similar, weights = y == 1, np.linspace(0.1, 1.9, len(y))
    by_rows = fitted(PairNCA(2), X[used], place[similar], weights[similar])
    for model, first in [(PairNCA(2), X[pairs]), (PairNCA(2, preprocessor=X), pairs),
                         (PairNCA(2, preprocessor=sp.csr_array(X)), pairs)]:  # fmt: skip
        by_pairs = fitted(model, first, y, weights)
        np.testing.assert_allclose(
            by_pairs.get_mahalanobis_matrix(), by_rows.get_mahalanobis_matrix(), rtol=1e-4,
            atol=1e-6,
        )  # fmt: skip
    sparse = fitted(PairNCA(2, scaling="global"), sp.csr_array(X[used]), place[similar])
    dense = fitted(PairNCA(2, scaling="global"), X[used], place[similar])
    np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-3, atol=1e-6)


def test_a_pair_with_label_minus_one_is_in_the_normaliser_alone(wine):
    X, (pairs, y), _ = wine
    model = fitted(PairNCA(2), X[pairs], y)
    changed = fitted(PairNCA(2), X[pairs], y, np.where(y == 1, 1.0, 77.0))
    np.testing.assert_array_equal(changed.components_, model.components_)
    without = fitted(PairNCA(2), X[pairs[y == 1]])
    assert np.abs(without.components_ - model.components_).max() > 1e-3


def test_rows_without_partners_count(wine):
    X, (pairs, y), _ = wine
    pairs = pairs[y == 1][:20]
    used, place = np.unique(pairs, return_inverse=True)
    few = fitted(PairNCA(2), X[used], place.reshape(-1, 2))
    many = fitted(PairNCA(2), X, pairs)
    assert np.abs(few.components_ - many.components_).max() > 1e-3


def test_the_threshold_needs_both_labels(wine):
    X, (pairs, y), (others, y_others) = wine
    model = fitted(PairNCA(2), X[pairs], y)
    assert np.mean(model.predict(X[pairs]) == y) > 0.8
    model.fit(X, pairs[y == 1])  # the old threshold belongs to another map
    for refused in (model, PairNCA(2).fit(X[pairs[y == 1]]), PairNCA(2).fit(X[pairs], np.abs(y))):
        with pytest.raises(NotFittedError, match="Call calibrate_threshold or set_threshold"):
            refused.predict(X[others])
        assert refused.decision_function(X[others]).shape == y_others.shape
    model.calibrate_threshold(X[others], y_others)
    assert np.mean(model.predict(X[others]) == y_others) > 0.8


def test_works_in_scikit_learns_tools(wine):
    X, (pairs, y), _ = wine
    model = PairNCA(2, preprocessor=X, max_iter=20, random_state=0)
    by_index = cross_val_score(model, pairs, y, cv=2)
    by_rows = cross_val_score(model.set_params(preprocessor=None), X[pairs], y, cv=2)
    np.testing.assert_allclose(by_index, by_rows, rtol=1e-6)
    assert by_index.min() > 0.85
    tuned = TunedThresholdClassifierCV(model, cv=2, thresholds=10).fit(X[pairs], y)
    assert np.mean(tuned.predict(X[pairs]) == y) > 0.8


def test_auto_chooses_the_penalty_by_held_out_partners(wine):
    X, (pairs, y), (others, y_others) = wine
    model = fitted(PairNCA(2, alpha="auto", cv=3), X, pairs[y == 1])
    tried = model.cv_results_["param_alpha"]
    assert model.alpha_ in tried
    assert set(tried) <= {10.0, 3.0, 1.0, 0.3, 0.1}
    assert 0.5 < model.cv_results_["mean_test_score"].max() < 1
    assert "cross-validation" in model.plan_.reason
    assert fitted(PairNCA("auto", cv=2), X, pairs[y == 1]).n_components_ in range(2, 14)


def test_the_score_of_partners_by_hand():
    Z = np.array([[0.0], [1.0], [2.0], [4.0]])
    model = PartnerModel(Z)
    target = sp.csr_array(np.array([[0, 1.0, 0, 0], [0, 0, 0, 0], [0, 0, 3.0, 1.0]]))
    scores = model.scores(np.array([[-0.5], [9.0], [3.0]]), target, "")
    # at 3, rows 2 and 4 are equally near: each is nearer than two of three others, and ties once
    np.testing.assert_allclose(scores, [2 / 3, (2 / 3 + 5 / 6) / 2, 5 / 6])
    none = model.scores(Z, sp.csr_array((4, 4)), "")
    np.testing.assert_array_equal(none, 0.5)


def test_searches_of_many_rows_draw_whole_pairs(rng):
    target = PairWeights(6000, np.arange(6000).reshape(-1, 2))
    rows = target.draw(np.arange(5000), 2000, np.random.RandomState(0))
    assert len(rows) == 2000
    assert rows.max() < 5000
    assert len(target.take(rows).pairs) == 1000


@pytest.mark.parametrize("init", ["auto", "pca", "whiten", "identity", "random"])
def test_starts(wine, init):
    X, (pairs, y), _ = wine
    model = fitted(PairNCA(2, init=init, max_iter=5), X, pairs[y == 1])
    assert np.isfinite(model.loss_)


def test_other_maps_and_solvers(wine):
    X, (pairs, y), _ = wine
    diagonal = fitted(PairNCA(mapping="diagonal"), X, pairs[y == 1])
    assert not np.any(diagonal.components_ - np.diag(np.diag(diagonal.components_)))
    best = fitted(PairNCA(2), X, pairs[y == 1]).loss_
    for solver in ("cg", "bold_driver", "momentum", "adam"):
        model = fitted(PairNCA(2, solver=solver, max_iter=100), X, pairs[y == 1])
        assert model.loss_ < best + 0.1
    many = fitted(PairNCA(2, init=starts.Random(3)), X, pairs[y == 1])
    assert many.loss_ < best + 0.1


@pytest.mark.parametrize("dense_up_to", [500, 0])
def test_two_fits_end_in_the_bits_of_one(wine, monkeypatch, dense_up_to):
    monkeypatch.setattr(choose, "DENSE_UP_TO", dense_up_to)
    X, (pairs, y), _ = wine
    settings = {"tol": None, "random_state": 0}
    whole = PairNCA(2, max_iter=12, **settings).fit(X[pairs], y)
    model = PairNCA(2, max_iter=6, warm_start=True, **settings)
    model.fit(X[pairs], y).fit(X[pairs], y)
    np.testing.assert_array_equal(model.components_, whole.components_)
    assert model.threshold_ == whole.threshold_


@needs_callbacks
def test_a_cut_fit_is_completed_to_the_same_bits(wine):
    X, (pairs, y), _ = wine
    settings = {"max_iter": 12, "tol": None, "random_state": 0}
    whole = PairNCA(2, **settings).fit(X[pairs], y)
    soon = StopAfter(loss=whole.history_["loss"][3])

    def cut():
        model = PairNCA(2, warm_start=True, **settings).set_callbacks(soon)
        with pytest.warns(ConvergenceWarning, match="a callback stopped it"):
            return model.fit(X[pairs], y)

    assert cut().n_iter_ == 3
    again = pickle.loads(pickle.dumps(cut())).set_callbacks().fit(X[pairs], y)
    np.testing.assert_array_equal(again.components_, whole.components_)
    assert again.threshold_ == whole.threshold_
    weights = np.linspace(0, 1, len(y))  # another fit
    other = cut().set_callbacks().fit(X[pairs], y, weights)
    assert not np.array_equal(other.components_, whole.components_)


def test_float32_stays_float32(wine):
    X, (pairs, y), _ = wine
    model = fitted(PairNCA(2), X[pairs].astype(np.float32), y)
    assert model.components_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32


def test_states_its_cost_before_the_fit(wine):
    X, (pairs, y), _ = wine
    for model, first in [(PairNCA(2), X), (PairNCA(2), X[pairs]), (PairNCA(preprocessor=X), pairs)]:
        cost = model.estimate_cost(first)
        assert cost.memory_bytes > 0
    big = PairNCA(2).estimate_cost(np.zeros((100_000, 3)))
    assert big.seconds_per_evaluation > 1  # all rows, however many


def test_wrong_input_is_named(wine):
    X, (pairs, y), _ = wine
    for arguments, message in [
        ((X,), r"PairNCA.fit needs the positions of the pairs"),
        ((X, y), r"must have shape \(n_pairs, 2\), the positions of similar rows.*FromLabels"),
        ((X, pairs / 2), r"ints of shape \(n_pairs, 2\), positions of rows"),
        ((X, pairs + 1000), r"positions of rows in \[0, 177\]. Got 1\d\d\d instead"),
        ((X, -1 - pairs), r"Got -\d+ instead"),
        ((X, [[3, 3]]), "two different rows. Got row 3 with itself"),
        ((X, pairs, np.ones(3)), r"weights of the pairs must have shape \(\d+,\). Got \(3,\)"),
        ((X, pairs, np.full(len(pairs), -1.0)), "finite and not negative"),
        ((X, pairs, ["a"] * len(pairs)), "weights of the pairs must be numbers"),
        ((X, pairs, np.zeros(len(pairs))), "a pair of two different rows and of positive weight"),
        ((X, np.zeros((0, 2), int)), "a pair of two different rows and of positive weight"),
        ((X[pairs], y[:3]), r"must have shape \(\d+,\), one for each pair"),
        ((X[pairs], 2 * y), r"must be \+1 for similar and -1"),
        ((X[pairs], -np.ones(len(y))), "a pair of two different rows and of positive weight"),
        ((X[pairs][:, :, :, None], y), "Found array with dim 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            PairNCA().fit(*arguments)
    for parameters, message in [
        ({"alpha": "scaled"}, r"'alpha' parameter of PairNCA must be a float .* or 'auto'"),
        ({"n_components": 99}, r"'n_components' parameter of PairNCA must be an int in \[1, 13\]"),
        ({"init": "rca"}, "'init' parameter of PairNCA must be .* needs no classes"),
        ({"init": "nearest"}, "'init' parameter of PairNCA"),
    ]:
        with pytest.raises(ValueError, match=message):
            PairNCA(**parameters).fit(X, pairs)


def test_pairs_of_equal_rows_are_left_out_with_a_warning(wine):
    X, (pairs, y), _ = wine
    with_twins = np.concatenate([X[pairs], X[[[5, 5], [6, 6]]]])
    with pytest.warns(UserWarning, match="Pairs of two equal rows are left out: .* these 2"):
        model = fitted(PairNCA(2), with_twins, np.append(y, [1, 1]))
    assert np.isfinite(model.loss_)


class Bent(Map):
    """Z = tanh(X W) V, with four hidden units."""

    n_components = 2

    def __init__(self, n_features):
        self.n_features = n_features

    def layers(self, theta):
        W, V = np.split(theta, [4 * self.n_features])
        return W.reshape(-1, 4), V.reshape(4, 2)

    def start(self, X, rng):
        return rng.normal(scale=0.3, size=4 * self.n_features + 8)

    def scaled(self, theta, factor):
        return np.append(theta[: 4 * self.n_features], factor * theta[4 * self.n_features :])

    def forward(self, theta, X, dtype=np.float64):
        W, V = self.layers(theta)
        H = np.tanh(X.matmul(W))

        def pull(dZ):
            return np.append(X.rmatmul((dZ @ V.T) * (1 - H**2)), H.T @ dZ)

        return (H @ V).astype(dtype), pull


def test_a_map_that_bends_classifies_pairs(wine):
    X, (pairs, y), (others, y_others) = wine
    model = fitted(PairNCA(mapping=Bent(X.shape[1]), alpha=0.01), X[pairs], y)
    assert not hasattr(model, "components_")
    assert model.score(X[others], y_others) > 0.85
    Z = model.transform(X)
    expected = np.linalg.norm(Z[others[:, 0]] - Z[others[:, 1]], axis=1)
    np.testing.assert_allclose(model.pair_distance(X[others]), expected, rtol=1e-9)
