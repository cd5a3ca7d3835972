"""Sums over sets of fixed points, as seen from any place: three engines."""

import numpy as np
import pytest
from common.checks import set_threads
from formulas.ksne import set_marginals

from vicinal.engines import choose
from vicinal.engines.cpu.potential import CompiledPotential, GridPotential
from vicinal.engines.dense.potential import DensePotential

CASES = [
    (9, 3, "cauchy", 0.0, 1.0),
    (9, 8, "gaussian", 0.0, 1.0),
    (50, 5, "gaussian", 0.0, 30.0),
    (50, 5, "gaussian", 0.1, 2.0),
    (50, 4, "cauchy", 0.2, 3.0),
    (120, 40, "cauchy", 0.0, 20.0),
    (120, 12, "gaussian", 0.0, 50.0),
    (20, 1, "cauchy", 0.0, 1.0),
]


def reference(Z, places, k, kernel, kappa):
    d2 = np.sum((places[:, None] - Z) ** 2, axis=2)
    log_w = -d2 if kernel == "gaussian" else -np.log1p(d2)
    if kappa > 0:
        log_w = np.logaddexp(log_w, np.log(kappa))
    return set_marginals(log_w, k)[1]


@pytest.mark.parametrize("engine", [DensePotential, CompiledPotential])
@pytest.mark.parametrize(("n", "k", "kernel", "kappa", "scale"), CASES)
def test_matches_reference(engine, n, k, kernel, kappa, scale, rng):
    Z, places = (scale * rng.standard_normal((m, 2)) for m in (n, 4))
    potential = engine(Z, k, kernel, kappa)
    values, gradients = potential(places)
    expected = reference(Z, places, k, kernel, kappa)
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-11)
    for c in range(2):
        h = 1e-5 * scale * np.eye(2)[c]
        slope = (potential(places + h)[0] - potential(places - h)[0]) / (2e-5 * scale)
        size = np.abs(gradients).max()
        np.testing.assert_allclose(gradients[:, c], slope, atol=1e-5 * size, rtol=1e-5)


def test_a_member_far_beyond_the_others_costs_no_digits():
    """Weights of 1 and of exp(-2000): those of the k-th and of the nearest."""
    Z = np.array([[0.0], [40.0], [45.0], [46.0]])
    place = np.array([[0.3]])
    for engine in (DensePotential, CompiledPotential):
        value, gradient = engine(Z, 2, "gaussian", 0.0)(place)
        d2 = (place[0, 0] - Z[:, 0]) ** 2
        assert value[0] == pytest.approx(-d2[0] - d2[1], rel=1e-13)
        assert gradient[0, 0] == pytest.approx(-2 * (0.3 + 0.3 - 40.0), rel=1e-13)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("d", [1, 2])
def test_the_grid_is_near_all_points(k, d, rng):
    Z = 15 * rng.standard_normal((4000, d)) + 30 * rng.integers(0, 3, (4000, d))
    places = np.concatenate([Z[:60] + 0.3, 300 + Z[:5]])  # some beyond the grid
    assert isinstance(choose.backend(Z, len(Z)).set_potential(Z, k, "cauchy", 0.0), GridPotential)
    potential = GridPotential(Z, k)
    assert potential.field.covers(places).sum() >= 55
    values, gradients = potential(places)
    expected, slopes = CompiledPotential(Z, k, "cauchy", 0.0)(places)
    np.testing.assert_allclose(values, expected, atol=2e-3)
    np.testing.assert_allclose(gradients, slopes, atol=1e-2 * np.abs(slopes).max())
    np.testing.assert_array_equal(values[60:], expected[60:])


@pytest.mark.parametrize("engine", ["dense", "compiled", "grid"])
def test_each_place_by_itself_on_any_threads(engine, rng, monkeypatch):
    Z, places = 9 * rng.standard_normal((600, 2)), 9 * rng.standard_normal((70, 2))
    potential = {
        "dense": DensePotential(Z, 3, "cauchy", 0.0),
        "compiled": CompiledPotential(Z, 3, "cauchy", 0.0),
        "grid": GridPotential(Z, 3),
    }[engine]
    told = []
    for threads in (1, 2):
        set_threads(monkeypatch, threads)
        told.append(potential(places))
    for one, other in zip(*told, strict=True):
        np.testing.assert_array_equal(one, other)
    for i in (0, 33, 69):
        value, gradient = potential(places[i : i + 1])
        assert value[0] == told[0][0][i]
        np.testing.assert_array_equal(gradient[0], told[0][1][i])
