"""The chance of each class to win the vote of a new point, against a list of all sets."""

from __future__ import annotations

import formulas
import numpy as np
import pytest
from common.checks import (
    each_dtype,
)
from common.clouds import (
    each_vote,
    points,
)

from vicinal.objectives import knca, knca_posterior, nca_posterior
from vicinal.targets import Labels


@pytest.mark.nojit
@each_vote
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4])
def test_matches_enumeration(rng, vote, n_classes):
    Z, y = points(rng, 12, 2, n_classes)
    for k in [1, 2, 3, 4]:
        P = knca_posterior(Z[8:], Z[:8], y[:8], k, vote)
        assert (P.shape, P.dtype) == ((4, len(np.unique(y[:8]))), np.float64)
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-13)
        expected = formulas.knca_posterior(Z[8:], Z[:8], y[:8], k, vote)
        np.testing.assert_allclose(P, expected, rtol=1e-11, atol=1e-15)


@each_vote
@each_dtype
@pytest.mark.parametrize("scale", [1e-8, 0.1, 10.0, 1e4, 1e8])
def test_extreme_scales(rng, vote, dtype, scale):
    """Also from far outside, where all weights vanish."""
    Z, y = points(rng, 15, 2, 3)
    Z = (scale * Z).astype(dtype)
    Z[12:] += dtype(7 * scale)
    for k in [1, 3, 4]:
        P = knca_posterior(Z[9:], Z[:9], y[:9], k, vote)
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
        expected = formulas.knca_posterior(Z[9:], Z[:9], y[:9], k, vote)
        # of a d² only so many digits are known, and exp makes them absolute
        error = 50 * np.finfo(dtype).eps * (1 + np.minimum(500 * scale**2, 1e3))
        np.testing.assert_allclose(P, expected, rtol=0, atol=error)


@each_vote
@pytest.mark.parametrize("k", [1, 4, 5, 15])
def test_is_the_p_of_the_objective(rng, vote, k):
    """p_i of class c over the sum of all: for more rows than can be enumerated."""
    Z, y = points(rng, 60, 3, 3)
    P = knca_posterior(Z[:1], Z[1:], y[1:], k, vote)[0]
    p = [knca(Z, np.r_[c, y[1:]], k, vote, "accuracy", [0])[0] for c in range(3)]
    np.testing.assert_allclose(P, np.array(p) / np.sum(p), rtol=1e-11)


@each_vote
@each_dtype
def test_one_neighbour_is_nca(rng, vote, dtype):
    Z, y = points(rng, 200, 3, 4)
    Z = Z.astype(dtype)
    P = knca_posterior(Z[:90], Z[90:], y[90:], 1, vote)
    expected = nca_posterior(Z[:90], Z[90:], y[90:])
    np.testing.assert_allclose(P, expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-13)


def test_small_classes_and_ties(rng):
    Z, _ = points(rng, 12, 2, 2)
    y = np.array(list("aaaabbbcc"))
    P = knca_posterior(Z[9:], Z[:9], y, 4, "all")
    np.testing.assert_allclose(P, np.tile([1.0, 0.0, 0.0], (3, 1)), atol=1e-15)  # no one else has 4
    P = knca_posterior(Z[9:], Z[:9], y, 3, "all")
    assert (P[:, :2] > 0).all()
    assert not P[:, 2].any()
    P = knca_posterior(Z[9:], Z[:9], y, 4, "majority")  # two votes win against one and one
    assert (P > 0).all()
    # no set has a winner: all classes alike
    np.testing.assert_allclose(knca_posterior(Z[9:], Z[:9], y, 5, "all"), 1 / 3, rtol=1e-12)
    P = knca_posterior(Z[9:], Z[:4], list("abba"), 4, "majority")
    np.testing.assert_allclose(P, 1 / 2, rtol=1e-12)


@each_vote
def test_more_neighbours_than_references(rng, vote):
    Z, y = points(rng, 9, 2, 2)
    y[:6] = [0, 0, 0, 0, 1, 1]
    with pytest.warns(UserWarning, match=r"k=8 is more than the 6 rows .*k=6 is used"):
        P = knca_posterior(Z[6:], Z[:6], y[:6], 8, vote)
    expected = formulas.knca_posterior(Z[6:], Z[:6], y[:6], 6, vote)
    np.testing.assert_allclose(P, expected, rtol=1e-12)


def test_classes_without_references(rng):
    Z, y = points(rng, 12, 2, 2)
    labels = Labels(2 * y[:9] + 1, classes=[0, 1, 2, 3])
    P = knca_posterior(Z[9:], Z[:9], labels, 3)
    assert not P[:, [0, 2]].any()
    np.testing.assert_array_equal(P[:, [1, 3]], knca_posterior(Z[9:], Z[:9], y[:9], 3))


def test_wrong_input(rng):
    Z, y = points(rng, 12, 2, 2)
    for args, message in [
        ((Z, Z, y[:-1]), "Z_reference has 12 rows but there are 11 labels"),
        ((Z, Z[:, :1], y), "Z has 2 columns but Z_reference has 1"),
        ((Z, np.nan * Z, y), "Z_reference must be finite"),
        ((Z, Z[:0], y[:0]), "Z_reference must have at least one row"),
        ((Z, Z, y, 0), r"'k' parameter of knca_posterior must be an int .* Got 0 instead"),
        ((Z, Z, y, True), r"'k' parameter of knca_posterior must be an int .* Got True instead"),
        ((Z, Z, y, 3, "some"), r"'vote' parameter of knca_posterior must be .* Got 'some' instead"),
        ((Z, Z, Labels(y, np.ones(12))), "labels of knca_posterior must not have sample_weight"),
        ((Z, Z, Labels(y, priors="uniform")), "labels of knca_posterior must not have priors"),
    ]:
        with pytest.raises(ValueError, match=message):
            knca_posterior(*args)
