"""The oracle of LMNN itself: by hand, by finite differences, and what counts."""

from __future__ import annotations

import numpy as np
import pytest
from formulas import chi2, finite_difference, lmnn, simplex_projection

each_distance = pytest.mark.parametrize("distance", ["squared", "chi2"])


def cloud(rng, n=14, d=3, n_classes=3, k=2):
    """Points of the simplex, and k random rows of the own class as target neighbours."""
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    Z = rng.dirichlet(np.ones(d), n)
    own = [[j for j in range(n) if y[j] == y[i] and j != i] for i in range(n)]
    return Z, y, np.array([rng.choice(rows, k, replace=False) for rows in own])


def test_six_points_by_hand():
    """On a line, one target each, margin 2, mu 0.3.

    D(i, j) and the brackets that are positive::

        0: 1            3: 16   14 (l = 0), 17 (l = 1), 14 (l = 2)
        1: 1   2 (l=3)  4: 1
        2: 9   7 (l = 3), 7 (l = 4), 2 (l = 5)   5: 1
    """
    Z = np.array([[0.0], [1.0], [4.0], [2.0], [6.0], [7.0]])
    value, dZ = lmnn(Z, list("aaabbb"), [[1], [0], [1], [4], [5], [4]], 0.3, 2.0)
    assert value == pytest.approx((29 + 0.3 * (2 + 16 + 45)) / 6, rel=1e-14)
    # D(i, j) weighs 1 + 0.3 for each bracket, D(i, l) weighs -0.3, and dD(i, j)/di = 2 (i - j)
    by_hand = np.array([-3.4, -5.6, 12.0, -15.2, 10.0, 2.2]) / 6
    np.testing.assert_allclose(dZ[:, 0], by_hand, rtol=1e-13)


def test_six_histograms_by_hand():
    """chi2((a, 1 - a), (b, 1 - b)) = (a - b)² / ((a + b) (2 - a - b)), two classes far apart."""
    a = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.9])
    Z = np.column_stack([a, 1 - a])
    targets = [[1], [0], [1], [4], [5], [4]]

    def D(i, j):
        return (a[i] - a[j]) ** 2 / ((a[i] + a[j]) * (2 - a[i] - a[j]))

    # D(2, 3) = 0.04 and D(2, 1) = 0.04 / (0.6 * 1.4): of margin 0.01 only row 2 and, as its
    # mirror image, row 3 have impostors
    hinge = 0.01 + 0.04 / 0.84 - 0.04
    pull = 2 * D(0, 1) + D(1, 2) + D(3, 4) + 2 * D(4, 5)
    value, dZ = lmnn(Z, list("aaabbb"), targets, 0.3, 0.01, "chi2")
    assert value == pytest.approx((pull + 0.3 * 2 * hinge) / 6, rel=1e-13)
    # t of (2, 1) is 0.2 / 0.6 and -0.2 / 1.4, that of (2, 3) is -0.2 and 0.2; row 2 is the query
    # of both, the l of (3, 2), and nobody's target
    t, s = np.array([1 / 3, -1 / 7]), np.array([-0.2, 0.2])
    slope = 1.3 * (t - t**2 / 2) - 0.3 * (s - s**2 / 2) - 0.3 * (s - s**2 / 2)
    np.testing.assert_allclose(dZ[2], slope / 6, rtol=1e-13)
    np.testing.assert_allclose(dZ[3], dZ[2, ::-1], rtol=1e-13)


def test_chi2_by_hand():
    value, du, dv = chi2([0.2, 0.8, 0.0], [0.6, 0.4, 0.0])
    assert value == pytest.approx(1 / 6, rel=1e-14)  # half of 0.16 / 0.8 + 0.16 / 1.2
    np.testing.assert_allclose(du, [-0.5 - 0.125, 1 / 3 - 1 / 18, 0], rtol=1e-14)
    np.testing.assert_allclose(dv, [0.5 - 0.125, -1 / 3 - 1 / 18, 0], rtol=1e-14)


def test_chi2_matches_finite_differences(rng):
    u, v = rng.dirichlet(np.ones(6), 2)
    _, du, dv = chi2(u, v)
    np.testing.assert_allclose(du, finite_difference(lambda x: chi2(x, v)[0], u), atol=1e-8)
    np.testing.assert_allclose(dv, finite_difference(lambda x: chi2(u, x)[0], v), atol=1e-8)


@each_distance
@pytest.mark.parametrize("part", [False, True])
def test_gradient_matches_finite_differences(rng, distance, part):
    Z, y, targets = cloud(rng)
    targets[3, 1] = -1
    rows = {"queries": [0, 2, 3, 9], "references": np.arange(1, 12)} if part else {}
    for mu, margin in [(0.3, 0.05), (2.0, 0.4)]:

        def loss(Z):
            return lmnn(Z, y, targets, mu, margin, distance, **rows)[0]  # noqa: B023

        value, dZ = lmnn(Z, y, targets, mu, margin, distance, **rows)
        assert value > 0
        # no bracket changes its sign within eps of these points
        np.testing.assert_allclose(dZ, finite_difference(loss, Z, 1e-7), atol=1e-6)
        if part:
            np.testing.assert_allclose(dZ, finite_difference(loss, Z, 2e-7), atol=1e-6)


@each_distance
def test_value_adds_over_queries(rng, distance):
    Z, y, targets = cloud(rng)
    whole, dZ = lmnn(Z, y, targets, 0.3, 0.2, distance)
    parts = [lmnn(Z, y, targets, 0.3, 0.2, distance, queries=[i]) for i in range(len(Z))]
    assert whole == pytest.approx(np.mean([value for value, _ in parts]), rel=1e-12)
    np.testing.assert_allclose(dZ, np.mean([part for _, part in parts], axis=0), atol=1e-14)


def test_what_counts():
    Z = np.array([[0.0], [1.0], [1.5], [9.0]])
    y, targets = [0, 0, 1, 1], [[1, -1], [0, -1], [-1, -1], [2, -1]]
    whole = lmnn(Z, y, targets, 0.3, 1.0)[0]
    # rows 0 (pull 1, no bracket), 1 (pull 1, bracket 1 + 1 - 0.25) and 3 (pull 56.25; at distances
    # 81 and 64 from 0 and 1, no bracket); row 2 has no target and is left out of the mean
    assert whole == pytest.approx((1 + 1 + 0.3 * 1.75 + 56.25) / 3, rel=1e-14)
    assert lmnn(Z, y, targets, queries=[2]) == (0.0, pytest.approx(np.zeros((4, 1))))
    # a target neighbour that is no reference does not count, and then neither does the query
    assert lmnn(Z, y, targets, 0.3, queries=[1, 3], references=[0, 3])[0] == 1.0
    # nor does an impostor
    assert lmnn(Z, y, targets, 0.3, queries=[1], references=[0, 3])[0] == 1.0
    assert lmnn(Z, y, targets, 0.3, queries=[1], references=[0, 2])[0] == 1 + 0.3 * 1.75


def test_a_bracket_of_zero_does_not_count():
    """margin + D(0, 1) = D(0, 2): no force, from the value's left or right derivative."""
    Z = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    value, dZ = lmnn(Z, [0, 0, 1], [[1], [-1], [-1]], 0.3, 3.0)
    assert value == 1.0
    np.testing.assert_array_equal(dZ, [[-2, 0], [2, 0], [0, 0]])


def test_duplicates_and_unknown_distance():
    Z = np.zeros((4, 2))
    value, dZ = lmnn(Z, [0, 0, 1, 1], [[1], [0], [3], [2]], 0.3, 0.7, "chi2")
    assert value == pytest.approx(0.3 * 0.7 * 2)
    np.testing.assert_array_equal(dZ, 0)
    with pytest.raises(ValueError, match=r"distance must be 'squared' or 'chi2'. Got 'l1' instead"):
        lmnn(Z, [0, 0, 1, 1], [[1], [0], [3], [2]], distance="l1")


def test_simplex_projection_by_hand():
    np.testing.assert_allclose(simplex_projection([0.3, 0.3, 0.3]), [1 / 3] * 3, rtol=1e-15)
    np.testing.assert_allclose(simplex_projection([2.0, 0.5, 1.5]), [0.75, 0, 0.25], rtol=1e-15)
    np.testing.assert_array_equal(simplex_projection([-5.0]), [1.0])
