"""MCML beyond the contract of all estimators: its convex optimum, weights, rows alone."""

from __future__ import annotations

import warnings

import formulas
import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from vicinal import MCML, NCA
from vicinal.objectives import mcml
from vicinal.samplers import MiniBatches, StochasticQueries


def exact(**changes):
    return MCML(**{"tol": 1e-12, "max_iter": 2000, **changes})


def wine(n=90):
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X)[::2][:n], y[::2][:n]


@pytest.mark.parametrize("alpha", [0.0, 0.02])
def test_two_starts_lead_to_the_same_metric(alpha):
    """Convex in M = A'A at full rank, penalty included."""
    X, y = wine()
    rng = np.random.default_rng(0)
    starts = ["auto", "identity", 0.3 * rng.standard_normal((13, 13))]
    fits = [exact(alpha=alpha, init=init).fit(X, y) for init in starts]
    first = fits[0].get_mahalanobis_matrix()
    for other in fits[1:]:
        difference = np.abs(other.get_mahalanobis_matrix() - first).max()
        assert difference < 2e-4 * np.abs(first).max()
        assert other.loss_ == pytest.approx(fits[0].loss_, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.02])
def test_optimality_conditions_in_the_metric(alpha):
    """G = dL/dM + alpha I is positive semi-definite, and G M = 0: no metric has a lower loss."""
    X, y = wine()
    M = exact(alpha=alpha, scaling=None).fit(X, y).get_mahalanobis_matrix()
    G = formulas.mcml_gradient_printed(M, X, y) / len(X) + alpha * np.eye(13)
    size = np.abs(np.linalg.eigvalsh(G)).max()
    assert size > 1e-3  # the optimum is at the boundary: G itself does not vanish
    assert np.linalg.eigvalsh(G)[0] > -1e-4 * size
    assert np.abs(G @ M).max() < 1e-5


def test_loss_is_the_divergence_of_the_training_rows():
    X, y = wine()
    model = MCML(3).fit(X, y)
    assert model.loss_ == pytest.approx(mcml(model.transform(X), y)[0], rel=1e-9)
    assert model.loss_ == pytest.approx(formulas.mcml(model.transform(X), y)[0], rel=1e-9)
    assert model.loss_ >= 0


def test_scaling_does_not_change_the_best_metric():
    X, y = load_iris(return_X_y=True)
    M, N = (
        exact(scaling=s).fit(X[::2], y[::2]).get_mahalanobis_matrix() for s in ("standard", None)
    )
    np.testing.assert_allclose(M, N, atol=1e-4 * np.abs(M).max())


def test_low_rank_cannot_be_better_than_full_rank():
    X, y = wine()
    losses = [exact(n_components=d).fit(X, y).loss_ for d in (1, 2, 13)]
    assert losses[0] > losses[1] >= losses[2] - 1e-9


def test_learns_classes_of_one_mode():
    X, y = load_wine(return_X_y=True)
    assert cross_val_score(MCML(2), X, y, cv=3).mean() > 0.95
    assert cross_val_score(MCML(2, rule="posterior"), X, y, cv=3).mean() > 0.93


def test_posterior_is_that_of_nca_in_the_learnt_metric():
    X, y = wine()
    model = MCML(2, rule="posterior").fit(X, y)
    other = NCA(2, alpha=0.0, init=model.components_, max_iter=1, tol=1e9).fit(X, y)
    np.testing.assert_array_equal(other.components_, model.components_)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-12)


def test_weights_count_as_importance(rng):
    X, y = wine()
    weight = rng.uniform(0.2, 3, len(y))
    model = exact(n_components=2, init="pca").fit(X, y, weight)
    same = exact(n_components=2, init="pca").fit(X, y, 7 * weight)
    expected = formulas.mcml(model.transform(X), y, sample_weight=weight)[0]
    assert model.loss_ == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(same.components_, model.components_, atol=1e-6)
    dropped = MCML(2).fit(X, y, np.r_[np.zeros(10), np.ones(len(y) - 10)])
    np.testing.assert_allclose(dropped.components_, MCML(2).fit(X[10:], y[10:]).components_)


def test_classes_of_one_row_are_left_out_with_a_warning():
    X, y = wine()
    y = y.copy()
    y[0] = 9
    with pytest.warns(UserWarning, match="no other row of their class to pick.*: 9"):
        model = MCML(2).fit(X, y)
    assert model.loss_ == pytest.approx(formulas.mcml(model.transform(X), y)[0], rel=1e-9)


def test_fewer_rows_than_features_stay_finite():
    """A class can collapse entirely: the map grows, but not beyond what the loss can show."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 40)), np.arange(12) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free, kept = MCML().fit(X, y), MCML(alpha=0.01).fit(X, y)
    assert np.isfinite(free.components_).all()
    assert free.loss_ < 1e-3
    assert np.abs(kept.components_).max() < np.abs(free.components_).max()


@pytest.mark.parametrize("sampling", [MiniBatches(300, "random"), StochasticQueries(100)])
def test_batches_come_near_to_all_rows(sampling):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    X = rng.standard_normal((900, 5)) + 2 * rng.standard_normal((3, 5))[y]
    whole = MCML(2).fit(X, y)
    some = MCML(2, sampling=sampling, max_iter=60, random_state=0).fit(X, y)
    assert mcml(some.transform(X), y)[0] < 1.1 * whole.loss_
    assert np.trace(some.get_mahalanobis_matrix()) == pytest.approx(
        np.trace(whole.get_mahalanobis_matrix()), rel=0.3
    )


def test_names_itself_in_errors():
    X, y = wine()
    with pytest.raises(ValueError, match=r"'n_components' parameter of MCML .* \[1, 13\]"):
        MCML(20).fit(X, y)
    with pytest.raises(ValueError, match="'rule' parameter of MCML must be one of"):
        MCML(rule="nearest").fit(X, y)
