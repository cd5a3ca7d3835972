"""MCML beyond the contract of all objectives: lists, classes of one row, its relation to NCA."""

from __future__ import annotations

from math import exp, log

import formulas
import numpy as np
import pytest
from common.checks import assert_close
from common.clouds import points, some_lists

from vicinal.core.types import Pairs
from vicinal.neighborhoods import Nearest, RandomPairs
from vicinal.objectives import mcml, nca
from vicinal.targets import Labels


def test_six_points_by_hand():
    """A hexagon of radius 1 in turn a b a b a b: d² is 1, 3, 4, 3, 1 around each point."""
    angle = np.arange(6) * np.pi / 3
    Z, y = np.stack([np.cos(angle), np.sin(angle)], axis=1), list("ababab")
    total = 2 * exp(-1) + 2 * exp(-3) + exp(-4)
    value = 3 + log(total) - log(2)
    mean = (2 * exp(-1) + 6 * exp(-3) + 4 * exp(-4)) / total
    for dtype, rtol in [(np.float64, 1e-13), (np.float32, 1e-6)]:
        # growing by a factor 1 + t adds 2 t d² to d²; by symmetry each row has a sixth of it
        assert_close(mcml(Z.astype(dtype), y), (value, (3 - mean) / 3 * Z), rtol)


@pytest.mark.parametrize("n", [60, 700])
def test_is_never_below_the_loss_of_nca(rng, n):
    """Jensen: log of the mean of exp(-d²) over the class is at least the mean of -d²."""
    for scale in (0.1, 1.0, 5.0):
        Z, y = points(rng, n, 3, 4, scale)
        assert mcml(Z, y)[0] >= nca(Z, y)[0] > 0


def test_collapsed_classes_far_apart_are_ideal():
    Z = np.repeat(1e3 * np.eye(3), 5, axis=0)
    value, dZ = mcml(Z, np.repeat([0, 1, 2], 5))
    assert value == pytest.approx(0.0, abs=1e-13)
    np.testing.assert_allclose(dZ, 0, atol=1e-100)


def over_lists(Z, labels, pairs, queries, references):
    """The loss with the logarithm over lists, by the plain formula, and finite differences."""
    v = np.ones(len(Z)) if labels.sample_weight is None else labels.sample_weight

    def value(W):
        total = weight = 0.0
        for i in queries:
            own = [j for j in references if j != i and labels.codes[j] == labels.codes[i]]
            listed = pairs.indices[pairs.indptr[i] : pairs.indptr[i + 1]]
            listed = [j for j in listed if j != i and j in references]
            if not listed:
                continue
            d2 = formulas.squared_distances(W[[i]], W)[0]
            loss = np.average(d2[own], weights=v[own]) - np.log(v[own].sum())
            total += v[i] * (loss + np.log(np.sum(v[listed] * np.exp(-d2[listed]))))
            weight += v[i]
        return total / weight

    return value(Z), formulas.finite_difference(value, Z, 1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_lists_are_for_the_sum_under_the_logarithm(rng, weighted):
    Z, y = points(rng, 40, 2, 3, 0.7)
    labels = Labels(y, rng.uniform(0.1, 2, 40) if weighted else None)
    pairs = some_lists(rng, 40, 5, 10)
    for q, r in [(np.arange(40), np.arange(40)), (np.arange(4, 20), np.arange(8, 40))]:
        got = mcml(Z, labels, queries=q, references=r, pairs=pairs, warn=False)
        expected = over_lists(Z, labels, pairs, q, set(r.tolist()))
        assert got[0] == pytest.approx(expected[0], rel=1e-11)
        np.testing.assert_allclose(got[1], expected[1], atol=1e-7)


def test_random_lists_divide_by_their_rates(rng):
    """The mean over many draws is near the loss of all pairs; one class is over-represented."""
    Z, y = points(rng, 120, 2, 4, 0.3)
    part = RandomPairs(60)
    values = [mcml(Z, y, pairs=part.pairs(Z, y, None, np.random.RandomState(s)))[0]
              for s in range(20)]  # fmt: skip
    assert np.mean(values) == pytest.approx(mcml(Z, y)[0], abs=0.02)
    plain = [Pairs(*part.pairs(Z, y, None, np.random.RandomState(s))[:2]) for s in range(5)]
    assert abs(np.mean([mcml(Z, y, pairs=p)[0] for p in plain]) - mcml(Z, y)[0]) > 0.3


def test_long_lists_of_near_rows_lose_little(rng):
    Z, y = points(rng, 300, 2, 4, 3.0)
    pairs = Nearest(150).pairs(Z, y, None, np.random.RandomState(0))
    assert_close(mcml(Z, y, pairs=pairs), mcml(Z, y), 1e-3)


def test_no_list_has_a_reference(rng):
    Z, y = points(rng, 20, 2, 2)
    empty = Pairs(np.zeros(21, dtype=np.int64), np.empty(0, dtype=np.int32))
    with pytest.warns(UserWarning, match="20 rows .* left out"):
        value, dZ = mcml(Z, y, pairs=empty)
    assert (value, dZ.any()) == (0.0, False)


def test_warns_of_classes_of_one_row(rng):
    Z, y = points(rng, 12, 2, 2)
    y[3] = 7
    with pytest.warns(UserWarning, match="1 rows have no other member .* loss of mcml: classes 7"):
        value, dZ = mcml(Z, y)
    assert_close(mcml(Z, y, warn=False), (value, dZ), 0)
    assert dZ[3].any()  # others may pick it


def test_a_heavy_row_leaves_the_others_their_digits(rng):
    Z, y = points(rng, 12, 2, 2)
    weight = np.ones(12)
    weight[0] = 1e12
    got = mcml(Z, Labels(y, weight), queries=[0])
    assert_close(got, formulas.mcml(Z, y, queries=[0], sample_weight=weight), 1e-10)


def test_refuses_priors(rng):
    Z, y = points(rng, 12, 2, 2)
    with pytest.raises(ValueError, match="mcml takes no class priors"):
        mcml(Z, Labels(y, priors="uniform"))
    with pytest.raises(TypeError, match="'pairs' parameter of mcml must be Pairs, Bounded or None"):
        mcml(Z, y, pairs="near")
