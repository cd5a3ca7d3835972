"""Class probabilities of many rows: far references are left out, and float32, within bounds."""

import formulas
import numpy as np
import pytest

from vicinal import densities
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.engines.cpu import class_sums_near
from vicinal.objectives import nca_posterior
from vicinal.targets import Labels

N, CLASSES = 900, 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks so small that a few hundred points have many, on the compiled engine."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", 0)
    monkeypatch.setattr(class_sums_near, "_ROWS", 16)
    monkeypatch.setattr(class_sums_near, "_COLUMNS", 32)
    monkeypatch.setattr(class_sums_near, "_POINTS_FROM", 1)


def clusters(rng, d, dtype=np.float64, spread=8.0):
    """References of three classes in nine clusters, and new points among them."""
    centres = spread * rng.standard_normal((9, d))
    kind = rng.integers(0, 9, N + 300)
    Z = (centres[kind] + rng.standard_normal((N + 300, d))).astype(dtype)
    return Z[N:], Z[:N], kind[:N] % CLASSES


def plain(Z, references, y, kernel, mass=None):
    """The formula in NumPy: sums over each class, normalised."""
    squared = np.sum((Z[:, None].astype(float) - references[None].astype(float)) ** 2, axis=2)
    energy = kernel.energy(squared, Z.shape[1])[0]
    # one unit for all pairs of a point: those far from everything underflow otherwise
    weight = np.exp(energy.min(axis=1, keepdims=True) - energy)
    weight = weight if mass is None else weight * mass
    sums = np.stack([weight[:, y == c].sum(axis=1) for c in range(CLASSES)], axis=1)
    return sums / sums.sum(axis=1, keepdims=True)


def share_of_pairs(Z, references, y, kernel):
    data = Data(references, y, np.ones(len(y)), np.arange(0), np.arange(len(y)))
    return class_sums_near.near_sums_by_class(Z, data, kernel, CLASSES).share


@pytest.mark.parametrize("d", [1, 2, 5, 8])
@pytest.mark.parametrize("kernel", [densities.Gaussian(), densities.Student(), densities.Laplace()])
def test_matches_reference(rng, d, kernel):
    Z, R, y = clusters(rng, d)
    P = nca_posterior(Z, R, y, kernel)
    np.testing.assert_allclose(P, plain(Z, R, y, kernel), rtol=0, atol=1e-9)
    assert share_of_pairs(Z, R, y, kernel) <= 1.0


def test_matches_the_plain_formulas(rng):
    Z, R, y = clusters(rng, 2)
    expected = formulas.posterior(Z, R, y)
    np.testing.assert_allclose(nca_posterior(Z, R, y), expected, rtol=0, atol=1e-9)


def test_compact_kernel(rng):
    Z, R, y = clusters(rng, 2)
    Z, R = 0.3 * Z, 0.3 * R
    kernel = densities.Compact(background=False)
    near = np.sum((Z[:, None] - R[None]) ** 2, axis=2).min(axis=1) < 0.9
    P = nca_posterior(Z[near], R, y, kernel)
    np.testing.assert_allclose(P, plain(Z[near], R, y, kernel), rtol=0, atol=1e-9)
    assert share_of_pairs(Z[near], R, y, kernel) < 0.8


def test_far_blocks_are_left_out(rng):
    Z, R, y = clusters(rng, 2, spread=20.0)
    assert share_of_pairs(Z, R, y, densities.Gaussian()) < 0.5
    assert share_of_pairs(0.01 * Z, 0.01 * R, y, densities.Gaussian()) == 1.0
    assert share_of_pairs(20.0 * Z, 20.0 * R, y, densities.Laplace()) < 0.5


def test_left_out_stays_within_the_tolerance(rng, monkeypatch):
    """At a tolerance that shows: what is left out is more than nothing, and no more than that."""
    Z, R, y = clusters(rng, 2, spread=1.5)
    exact = plain(Z, R, y, densities.Gaussian())
    for tolerance in (1e-1, 1e-2, 1e-4):
        monkeypatch.setattr(class_sums_near, "TOLERANCE", tolerance)
        error = np.abs(nca_posterior(Z, R, y) - exact).max()
        assert 0 < error <= tolerance


def test_thread_count_agnosticism(rng, monkeypatch):
    Z, R, y = clusters(rng, 3)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(class_sums_near, "n_threads", lambda threads=threads: threads)
        results.append(nca_posterior(Z, R, y))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_weights_and_outliers(rng):
    Z, R, y = clusters(rng, 3)
    Z[0], Z[1] = 1e4, -3e3  # far from all references
    weight = rng.uniform(0.1, 3.0, len(y))
    P = nca_posterior(Z, R, Labels(y, weight))
    mass = weight / weight.max()
    np.testing.assert_allclose(P, plain(Z, R, y, densities.Gaussian(), mass), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("kernel", "far"), [(densities.Gaussian(), 300.0), (densities.Laplace(), 3e5)]
)
def test_float32_where_pairs_are_many(rng, monkeypatch, kernel, far):
    """Points far out, for which float32 has too few digits, are computed in float64."""
    monkeypatch.setattr(class_sums_near, "SINGLE_FROM", 1)
    Z, R, y = clusters(rng, 5, spread=1.0)
    exact = plain(Z, R, y, kernel)
    error = np.abs(nca_posterior(Z, R, y, kernel) - exact).max()
    assert 1e-12 < error < 1e-5
    Z[:20] = far * rng.standard_normal((20, 5))
    exact = plain(Z, R, y, kernel)
    P = nca_posterior(Z, R, y, kernel)
    np.testing.assert_allclose(P[:20], exact[:20], rtol=0, atol=1e-9)
    assert np.abs(P - exact).max() < 1e-5
    # beyond the range of float32: all of it in float64
    far = 1e10
    np.testing.assert_allclose(nca_posterior(Z + far, R + far, y, kernel).sum(axis=1), 1.0)


def test_logarithms_keep_all_digits(rng):
    Z, R, y = clusters(rng, 2, spread=30.0)
    assert np.isfinite(nca_posterior(Z, R, y, log=True)).all()
