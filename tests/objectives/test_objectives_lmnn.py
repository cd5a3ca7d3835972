"""LMNN's loss against plain loops, numbers by hand, finite differences, and itself."""

from __future__ import annotations

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
    histograms,
    plain,
    some_targets,
)

from vicinal.objectives import lmnn
from vicinal.targets import Labels, TargetNeighbors

# Values and gradients


@each_distance
@pytest.mark.parametrize("d", range(1, 21))
def test_matches_reference(rng, distance, d):
    scale = (1.0, 10.0, 100.0)[d % 3]
    Z, targets = cloud(rng, 24, d, 3, distance, scale=scale)
    expected = plain(Z, targets, distance)
    assert np.abs(expected[1]).max() > 1e-3 * scale
    assert_close(evaluate(Z, targets, distance), expected, 1e-11)


@pytest.mark.nojit
@each_distance
@each_dtype
def test_matches_reference_on_few_rows(rng, distance, dtype):
    Z, targets = cloud(rng, 9, 2, 3, distance, k=2, dtype=dtype)
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    part = {"queries": [0, 5, 7], "references": [1, 2, 3, 4, 5, 8]}
    for rows in [{}, part]:
        assert_close(
            evaluate(Z, targets, distance, **rows), plain(Z, targets, distance, **rows), rtol
        )


@pytest.mark.parametrize(("mu", "margin"), [(0.3, 2.5), (2.5, 0.3), (7.0, 0.01), (0.01, 40.0)])
@each_distance
def test_matches_reference_at_other_weights(rng, distance, mu, margin):
    Z, targets = cloud(rng, 30, 3, 4, distance)
    weights = {"mu": mu, "margin": margin}
    assert_close(
        evaluate(Z, targets, distance, **weights), plain(Z, targets, distance, **weights), 1e-11
    )


@pytest.mark.nojit
def test_four_points_by_hand(engine):
    """On a line: a at 0 and 2, b at 3 and 7, each the target of the other."""
    targets = TargetNeighbors(list("aabb"), [[1], [0], [3], [2]])
    report = {}
    got = lmnn([[0.0], [2], [3], [7]], targets, mu=0.3, margin=2.5, report=report)
    # pull 4 + 4 + 16 + 16; of 2 the impostor 3, and of 3 the impostors 0 and 2
    value = (40 + 0.3 * (2.5 + 4 - 1 + 2.5 + 16 - 9 + 2.5 + 16 - 1)) / 4
    assert_close(got, (value, np.array([[-7.4], [10.4], [-23.8], [20.8]]) / 4), 1e-14)
    # lists hold two pairs, seen from each end
    share = 1.0 if engine == "dense" else 4 / 16
    assert report == {"n_impostors": 3, "share_of_pairs": share}


@pytest.mark.nojit
def test_histograms_by_hand():
    """Corners of the simplex are 1 apart, the middle of an edge is 1/3 from its ends."""
    Z = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])
    targets = TargetNeighbors([0, 0, 1, 1], [[1], [-1], [3], [-1]])
    # from 0: target at 1, impostors at 1 and 1/3; from 2: target, both impostors at 1
    third = 0.5 * (0.25 / 1.5 + 0.25 / 0.5)
    pull, push = 1 + 1, 0.4 + (1.4 - third) + 0.4 + 0.4
    value, _ = lmnn(Z, targets, mu=0.3, margin=0.4, distance="chi2")
    assert value == pytest.approx((pull + 0.3 * push) / 2, rel=1e-15)


@pytest.mark.nojit
def test_a_bracket_of_zero_does_not_count(rng):
    """Integers, so that ties are exact: the bracket must be positive."""
    Z = rng.integers(0, 5, (40, 2)).astype(float)
    y = np.arange(40) % 3
    targets = TargetNeighbors(y, some_targets(rng, y, 2))
    inside = brackets(Z, targets, 2.0, "squared")
    assert (inside == 0).sum() > 20
    for dtype in (np.float32, np.float64):
        report = {}
        got = evaluate(Z.astype(dtype), targets, margin=2.0, report=report)
        assert report["n_impostors"] == (inside > 0).sum()
        assert_close(got, plain(Z, targets, margin=2.0), 1e-6 if dtype == np.float32 else 1e-13)


# Which rows


@pytest.mark.nojit
def test_rows_without_targets_are_impostors_only(rng):
    """Of a class of one row, with targets that are all missing, or no references."""
    Z, y = rng.standard_normal((12, 2)), np.repeat([0, 1, 2], [6, 5, 1])
    J = some_targets(rng, y, 2, missing=0.0)
    J[3] = -1
    targets = TargetNeighbors(y, J)
    value, dZ = evaluate(Z, targets, margin=20.0)  # so that all are impostors
    assert_close((value, dZ), plain(Z, targets, margin=20.0), 1e-12)
    assert dZ[11].any()
    assert dZ[3].any()
    for rows in ({"queries": [3, 11]}, {"queries": []}, {"references": []}, {"references": [11]}):
        report = {"stale": 1}
        value, dZ = evaluate(Z, targets, report=report, **rows)
        assert (value, dZ.any()) == (0.0, False)
        assert report == {"stale": 1, "share_of_pairs": 0.0, "n_impostors": 0}


# What goes in and comes out


@each_distance
def test_report_counts_impostors(rng, distance, engine):
    Z, targets = cloud(rng, 100, 2, 4, distance)
    for margin in (0.0, 0.5, 1e6):
        report = {}
        evaluate(Z, targets, distance, margin=margin, report=report)
        inside = brackets(Z, targets, margin, distance)
        assert report["n_impostors"] == np.sum(inside > 0)
        assert report["share_of_pairs"] <= (1.0 if engine == "dense" else 0.75)
    # lists hold the pairs of other classes
    assert report["share_of_pairs"] == (1.0 if engine == "dense" else 0.75)


@each_distance
def test_no_push_is_the_mean_pull(rng, distance):
    Z, targets = cloud(rng, 30, 3, 3, distance)
    assert_close(evaluate(Z, targets, distance, mu=0.0), plain(Z, targets, distance, mu=0.0), 1e-13)


def test_defaults(rng):
    Z, targets = cloud(rng, 30, 2, 3, "squared")
    assert_same_bits(lmnn(Z, targets), lmnn(Z, targets, mu=1.0, margin=1.0, distance="squared"))


# Errors


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mu": -0.1}, ValueError, r"The 'mu' parameter of lmnn must be in \[0, inf\)\. Got -0.1"),
        ({"mu": np.nan}, ValueError, r"The 'mu' parameter of lmnn must be .* Got nan"),
        ({"margin": -1}, ValueError, r"The 'margin' parameter of lmnn must be .* Got -1 instead"),
        ({"margin": np.inf}, ValueError, r"The 'margin' parameter of lmnn must be .* Got inf"),
        ({"distance": "l1"}, ValueError, r"'distance' .* must be 'squared' or 'chi2'\. Got 'l1'"),
        ({"queries": [12]}, ValueError, r"'queries' parameter of lmnn must lie in \[0, 11\]"),
        ({"queries": [1, 1]}, ValueError, "'queries' parameter of lmnn must not repeat a row"),
        ({"references": [0.5]}, ValueError, "'references' parameter of lmnn must be a vector"),
    ],
)
def test_wrong_settings_are_named(rng, change, error, message):
    Z, targets = cloud(rng, 12, 2, 2, "squared")
    with pytest.raises(error, match=message):
        lmnn(Z, targets, **change)


def test_wrong_points_and_targets_are_named(rng):
    Z, targets = cloud(rng, 12, 2, 2, "squared")
    with pytest.raises(TypeError, match="'targets' parameter of lmnn must be TargetNeighbors"):
        lmnn(Z, Labels(targets.codes))
    with pytest.raises(ValueError, match="Z has 11 rows, but there are targets for 12"):
        lmnn(Z[:11], targets)
    with pytest.raises(ValueError, match=r"Z must have shape \(n, d\)"):
        lmnn(Z[:, 0], targets)
    bad = np.abs(Z)
    bad[5, 1] = -1e-30
    with pytest.raises(ValueError, match=r"not be negative for distance='chi2'\. Row 5 is"):
        lmnn(bad, targets, distance="chi2")
    bad[5, 1] = np.nan
    with pytest.raises(ValueError, match="Z must be finite"):
        lmnn(bad, targets)
    H, _ = histograms(rng, 12, 2, 2)
    H[3, 0] = 1e101
    with pytest.raises(ValueError, match="within"):
        lmnn(H, targets, distance="chi2")
