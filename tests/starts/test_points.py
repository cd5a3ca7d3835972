"""Starts of free points."""

import numpy as np
import pytest
import scipy.sparse as sp

from vicinal.starts.points import SCALE, principal_points, random_points, spectral_points


def test_principal_points_are_the_scores(rng):
    X = rng.standard_normal((80, 6)) * np.array([5, 3, 2, 1, 1, 1])
    Z = principal_points(X, 2, np.random.RandomState(0))
    assert Z[:, 0].std() == pytest.approx(SCALE)
    U, S, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    for c in range(2):
        assert abs(np.corrcoef(Z[:, c], U[:, c])[0, 1]) == pytest.approx(1.0, abs=1e-9)
    assert Z[:, 1].std() / Z[:, 0].std() == pytest.approx(S[1] / S[0], rel=1e-9)
    np.testing.assert_allclose(principal_points(sp.csr_array(X), 2, np.random.RandomState(1)), Z)


def test_signs_do_not_change_with_the_rows_order(rng):
    X = rng.standard_normal((60, 5)) * np.array([5, 3, 2, 1, 1])
    order = rng.permutation(60)
    one, other = (principal_points(rows, 2, np.random.RandomState(0)) for rows in (X, X[order]))
    np.testing.assert_allclose(one[order], other, atol=1e-12)


def test_missing_components_are_drawn(rng):
    X = rng.standard_normal((50, 1))
    Z = principal_points(X, 3, np.random.RandomState(0))
    assert (Z.std(axis=0) > 0.5 * SCALE).all()
    assert Z[:, 0].std() == pytest.approx(SCALE)
    constant = principal_points(np.ones((50, 2)), 2, np.random.RandomState(0))
    assert (constant.std(axis=0) > 0.5 * SCALE).all()


@pytest.mark.parametrize("n", [120, 400])  # all eigenvectors, or a few
def test_spectral_points_straighten_a_path(n):
    """The eigenvectors of a path are cosines of one and of two half-waves."""
    i = np.arange(n - 1)
    W = sp.csr_array((np.ones(n - 1), (i, i + 1)), shape=(n, n))
    Z = spectral_points(W + W.T, 2, np.random.RandomState(0))
    waves = np.cos(np.pi * np.outer(np.arange(n) / (n - 1), [1, 2]))
    for c in range(2):
        assert abs(np.corrcoef(Z[:, c], waves[:, c])[0, 1]) > 0.999
    assert Z[:, 0].std() == pytest.approx(SCALE, rel=0.02)
    again = spectral_points(W + W.T, 2, np.random.RandomState(0))
    np.testing.assert_array_equal(Z, again)


def test_groups_without_an_edge_between_them_are_no_single_place():
    block = np.ones((20, 20)) - np.eye(20)
    W = sp.csr_array(sp.block_diag([block] * 4))
    Z = spectral_points(W, 2, np.random.RandomState(0))
    assert np.isfinite(Z).all()
    assert len(np.unique(Z, axis=0)) == 80


def test_very_few_rows():
    W = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert np.isfinite(spectral_points(W, 3, np.random.RandomState(0))).all()
    assert random_points(4, 3, np.random.RandomState(0)).shape == (4, 3)
