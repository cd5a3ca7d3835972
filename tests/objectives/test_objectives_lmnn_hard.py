"""LMNN's loss where floats are strained, and what must not change it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from common.checks import (
    assert_close,
    assert_same_bits,
    each_dtype,
)
from common.clouds import (
    brackets,
    cloud,
    each_distance,
    evaluate,
    plain,
)
from common.engines import compiled_only

from vicinal.targets import TargetNeighbors

# Points that are hard on floats


@each_distance
@each_dtype
@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1e4, 1e8])
def test_tiny_and_huge_scales(rng, distance, dtype, scale):
    """With a margin that goes along, and with one that does not."""
    Z, targets = cloud(rng, 40, 3, 3, distance, dtype=dtype)
    Z = (Z * scale).astype(dtype)
    rtol = 1e-11 if dtype == np.float64 else 1e-4
    for margin in (2.5, 2.5 * scale ** (1 + (distance == "squared"))):
        got, expected = (f(Z, targets, distance, margin=margin) for f in (evaluate, plain))
        assert got[0] == pytest.approx(expected[0], rel=rtol)
        np.testing.assert_allclose(
            got[1], expected[1], rtol=0, atol=rtol * np.abs(expected[1]).max()
        )


@each_distance
@pytest.mark.parametrize("power", [-300, -90, -20, 20, 90, 300])
def test_powers_of_two_change_no_digit(rng, distance, power):
    """D is homogeneous: of second degree, or of first."""
    Z, targets = cloud(rng, 60, 3, 3, distance)
    if distance == "chi2" and power < -20:
        power = -20  # below, what guards 0 / 0 is felt
    degree = 2 if distance == "squared" else 1
    value, dZ = evaluate(Z, targets, distance)
    factor = 2.0**power
    got = evaluate(factor * Z, targets, distance, margin=2.5 * factor**degree)
    assert_same_bits(got, (value * factor**degree, dZ * factor ** (degree - 1)))


@each_distance
@pytest.mark.parametrize("far", [1e4, 1e9, 1e22, 1e25, 1e60])
def test_an_outlier_hides_no_impostor(rng, distance, far):
    """In float32, of which the search makes use, all others are in one place, or at zero."""
    Z, targets = cloud(rng, 40, 3, 3, distance)
    J = targets.neighbors.copy()
    J[7] = J[J == 7] = -1
    targets = TargetNeighbors(targets.codes, J)
    before = evaluate(np.delete(Z, 7, axis=0), targets.take(np.delete(np.arange(40), 7)), distance)
    Z[7] = far
    value, dZ = evaluate(Z, targets, distance)
    assert_close((value, np.delete(dZ, 7, axis=0)), before, 1e-12)


@each_dtype
@pytest.mark.parametrize("size", [1e-310, 1e-42, 1e-36])
def test_a_map_pressed_to_nothing(rng, dtype, size):
    """All distances are zero, and every row of another class an impostor."""
    Z, targets = cloud(rng, 30, 2, 3, "squared")
    report = {}
    Z = (Z * size).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, dZ = evaluate(Z, targets, report=report)
    assert report["n_impostors"] == len(brackets(Z, targets, 2.5, "squared"))
    n_scored = np.sum((targets.neighbors >= 0).any(axis=1))
    assert value == pytest.approx(0.3 * 2.5 * report["n_impostors"] / n_scored, rel=1e-6)
    assert np.isfinite(dZ).all()


@pytest.mark.parametrize("size", [1e40, 1e80])
def test_huge_histograms(rng, size):
    Z, targets = cloud(rng, 30, 3, 3, "chi2", scale=size)
    got = evaluate(Z, targets, "chi2", margin=size)
    assert_close(got, plain(Z, targets, "chi2", margin=size), 1e-12)


@compiled_only
@each_distance
def test_float32_sums_over_many_impostors(rng, distance):
    """Thousands of impostors of each row."""
    Z, targets = cloud(rng, 4000, 2, 2, distance, k=1, dtype=np.float32)
    rows = {"queries": np.arange(50), "margin": 30.0}
    report = {}
    got = evaluate(Z, targets, distance, report=report, **rows)
    assert report["n_impostors"] > 50_000
    assert_close(got, evaluate(Z.astype(np.float64), targets, distance, **rows), 2e-5)


# What changes nothing


def test_order_of_bins(rng):
    Z, targets = cloud(rng, 60, 7, 3, "chi2")
    value, dZ = evaluate(Z, targets, "chi2")
    order = rng.permutation(7)
    empty = np.zeros((60, 2))
    assert_close(evaluate(Z[:, order], targets, "chi2"), (value, dZ[:, order]), 1e-12)
    wider = evaluate(np.hstack([empty, Z]), targets, "chi2")
    assert_close((wider[0], wider[1][:, 2:]), (value, dZ), 1e-12)


@each_distance
def test_order_of_rows_and_names_of_classes(rng, distance):
    Z, targets = cloud(rng, 200, 3, 4, distance)
    y, J = targets.codes, targets.neighbors
    value, dZ = evaluate(Z, targets, distance)
    order = rng.permutation(200)
    position = np.append(np.argsort(order), -1)
    shuffled = TargetNeighbors(y[order], position[J[order]])
    assert_close(evaluate(Z[order], shuffled, distance), (value, dZ[order]), 1e-11)
    taken = targets.take(order)
    assert_close(evaluate(Z[order], taken, distance), (value, dZ[order]), 1e-11)
    reversed_ = TargetNeighbors(y, J[:, ::-1])
    assert_close(evaluate(Z, reversed_, distance), (value, dZ), 1e-12)
    for names in [np.array(list("zebu")), np.array([-7, 1e9, 3, 0.5]), np.array([2, 0, 3, 1])]:
        assert_same_bits(evaluate(Z, TargetNeighbors(names[y], J), distance), (value, dZ))
