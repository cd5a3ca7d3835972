"""MMC, SDML and LSML: what is special to each."""

import numpy as np
import pytest
from sklearn.covariance import graphical_lasso
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from vicinal import LSML, MMC, SDML
from vicinal.targets import pairs_from_labels, quadruplets_from_labels


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    pairs, labels = pairs_from_labels(y, 60, random_state=0)
    return X, pairs, labels


def test_mmc_gives_dissimilar_pairs_a_mean_distance_of_one(wine):
    X, pairs, y = wine
    for diagonal in (False, True):
        model = MMC(diagonal, preprocessor=X, tol=1e-6).fit(pairs, y)
        d = model.pair_distance(pairs)
        assert d[y < 0].mean() == pytest.approx(1)
        assert np.mean(d[y > 0] ** 2) == pytest.approx(model.loss_, rel=1e-6)
    M = model.get_mahalanobis_matrix()
    np.testing.assert_array_equal(M, np.diag(np.diag(M)))


def test_mmc_of_few_similar_pairs_is_shrunk(wine):
    X, pairs, y = wine
    few = np.r_[0:5, 60:100]
    with pytest.warns(UserWarning, match=r"scatter of the similar .* 'shrinkage' param"):
        model = MMC(preprocessor=X).fit(pairs[few], y[few])
    same = MMC(shrinkage=1e-3, preprocessor=X).fit(pairs[few], y[few])
    np.testing.assert_array_equal(model.components_, same.components_)
    with pytest.raises(ValueError, match=r"'shrinkage' parameter of MMC is 0, but .* singular"):
        MMC(shrinkage=0, preprocessor=X).fit(pairs[few], y[few])
    # all of it: only the dissimilar pairs count
    whole = MMC(shrinkage=1.0, preprocessor=X, scaling=None).fit(pairs[few], y[few])
    assert np.isfinite(whole.components_).all()
    for bad in (-0.1, 1.1, "oas"):
        with pytest.raises(ValueError, match="'shrinkage' parameter of MMC must be a float in"):
            MMC(shrinkage=bad, preprocessor=X).fit(pairs, y)
    with pytest.raises(ValueError, match="'diagonal' parameter of MMC must be True or False"):
        MMC("full", preprocessor=X).fit(pairs, y)


def test_mmc_and_pairs_of_equal_rows(wine):
    X, pairs, y = wine
    for diagonal in (False, True):
        plain = MMC(diagonal, preprocessor=X).fit(pairs, y)
        equal, labels = np.concatenate([pairs, [[3, 3]] * 20]), np.r_[y, [-1] * 20]
        with pytest.warns(UserWarning, match="20 of the 80 dissimilar pairs of MMC hold two equal"):
            more = MMC(diagonal, preprocessor=X).fit(equal, labels)
        # their distances of zero lower the mean, which is one all the same
        assert more.pair_distance(equal)[labels < 0].mean() == pytest.approx(1)
        assert more.loss_ == pytest.approx(plain.loss_ / 0.75**2)
        np.testing.assert_allclose(more.components_, plain.components_ / 0.75, rtol=1e-9)
    with pytest.raises(ValueError, match="MMC needs a dissimilar pair of two different rows"):
        MMC(preprocessor=X).fit(np.concatenate([pairs[:60], [[3, 3]]]), np.r_[y[:60], -1])
    with pytest.raises(ValueError, match="MMC needs a similar pair of two different rows"):
        MMC(preprocessor=X).fit(np.concatenate([[[3, 3]], pairs[60:]]), np.r_[1, y[60:]])


def test_a_larger_sparsity_gives_fewer_entries(wine):
    X, pairs, y = wine
    entries = []
    for sparsity in (0.0, 0.01, 0.05, 100.0):
        M = SDML(sparsity=sparsity, preprocessor=X).fit(pairs, y).get_mahalanobis_matrix()
        scale = np.sqrt(np.outer(np.diag(M), np.diag(M)))
        entries.append(np.sum(np.abs(M) > 1e-10 * scale))
    assert entries == sorted(entries, reverse=True)
    assert entries[0] == 13**2
    assert entries[-1] == 13
    assert len(set(entries)) > 2


def test_the_automatic_balance_always_has_a_solution(wine):
    X, pairs, y = wine
    dissimilar = np.r_[0:2, 60:120]  # few similar pairs, which could outweigh the others
    model = SDML(preprocessor=X).fit(pairs[dissimilar], y[dissimilar])
    assert 0 < model.balance_ < 0.5
    for balance in (2.1 * model.balance_, 1e3):
        with pytest.raises(ValueError, match="'balance' parameter of SDML must be less than"):
            SDML(balance, 0.0, preprocessor=X).fit(pairs[dissimilar], y[dissimilar])
    exact = SDML(1.9 * model.balance_, 0.0, preprocessor=X)
    exact.fit(pairs[dissimilar], y[dissimilar])
    assert np.linalg.eigvalsh(exact.get_mahalanobis_matrix())[0] > 0
    for name in ("balance", "sparsity"):
        with pytest.raises(ValueError, match=f"'{name}' parameter of SDML must be a float in"):
            SDML(**{name: -1}, preprocessor=X).fit(pairs, y)


@pytest.mark.parametrize("balance", ["auto", 0.5])  # a few steps do, and sweeps are needed
def test_sdml_is_the_graphical_lasso(wine, balance):
    X, pairs, y = wine
    similar = y > 0 if balance == 0.5 else y != 0  # P far from its diagonal
    pairs, y = np.concatenate([pairs[similar], [[3, 3]]]), np.r_[y[similar], -1]
    model = SDML(balance, preprocessor=X, scaling=None, tol=1e-6).fit(pairs, y)
    x = X[pairs[:, 0]] - X[pairs[:, 1]]
    P = np.eye(X.shape[1]) + model.balance_ * (x.T * y) @ x
    M = model.get_mahalanobis_matrix()
    loss = np.sum(P * M) - np.linalg.slogdet(M)[1] + 0.01 * (np.abs(M).sum() - np.trace(M))
    wanted = graphical_lasso(P, 0.01, tol=1e-8, enet_tol=1e-8, max_iter=1000)[1]
    assert model.loss_ == pytest.approx(loss)
    np.testing.assert_allclose(M, wanted, atol=2e-3 * np.abs(wanted).max())


def test_sdml_says_that_it_did_not_converge(wine):
    X, pairs, y = wine
    with pytest.warns(ConvergenceWarning, match="SDML did not converge in 1 iterations"):
        SDML(max_iter=1, tol=1e-12, preprocessor=X).fit(pairs, y)


def test_weights_of_quadruplets_count_as_repetitions(wine):
    X, y = wine[0], load_wine().target
    quadruplets = quadruplets_from_labels(y, 40, random_state=0)
    weights = np.arange(40) % 3
    weighted = LSML(tol=1e-7, preprocessor=X).fit(quadruplets, weights)
    # the rows that scale the columns are the same
    points = X[np.unique(quadruplets)]
    scaled = X / points.std(axis=0)
    repeated = LSML(tol=1e-7, scaling=None, preprocessor=scaled)
    repeated.fit(np.repeat(quadruplets, weights, axis=0))
    np.testing.assert_allclose(
        weighted.transform(X), repeated.transform(scaled), rtol=1e-4, atol=1e-4
    )
    tenfold = LSML(tol=1e-7, preprocessor=X).fit(quadruplets, 10 * weights)
    np.testing.assert_allclose(tenfold.components_, weighted.components_, rtol=1e-9)
    for factor in (2.0**-664, 2.0**664, 2.0**1022):
        same = LSML(tol=1e-7, preprocessor=X).fit(quadruplets, factor * weights)
        np.testing.assert_array_equal(same.components_, weighted.components_)
    for bad in (-weights, weights[:3], np.zeros(40)):
        with pytest.raises(ValueError, match=r"^sample_weight must"):
            LSML(preprocessor=X).fit(quadruplets, bad)


def test_comparisons_with_equal_rows_are_reported(wine):
    X = wine[0]
    with pytest.warns(UserWarning, match="1 quadruplets of LSML ask for two rows to be nearer"):
        LSML(preprocessor=X).fit([[0, 1, 5, 5], [0, 2, 70, 3]])


def test_decisions_on_quadruplets(wine):
    X, y = wine[0], load_wine().target
    quadruplets = quadruplets_from_labels(y, 40, random_state=0)
    model = LSML(preprocessor=X).fit(quadruplets)
    by_hand = model.pair_distance(quadruplets[:, 2:]) - model.pair_distance(quadruplets[:, :2])
    np.testing.assert_allclose(model.decision_function(quadruplets), by_hand)
    np.testing.assert_array_equal(model.predict(quadruplets), np.where(by_hand > 0, 1, -1))
    assert model.score(quadruplets) == np.mean(by_hand > 0)
    swapped = quadruplets[:, [2, 3, 0, 1]]
    assert model.score(swapped) == pytest.approx(1 - model.score(quadruplets))
