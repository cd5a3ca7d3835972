"""Kernels other than the Gaussian in the exact objective, the posterior and the neighbours."""

from __future__ import annotations

import warnings

import formulas
import numpy as np
import pytest
from sklearn.datasets import make_blobs

from vicinal.core.types import Pairs
from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.cpu import tiles as _tiles
from vicinal.engines.cpu.trees import Bounded
from vicinal.objectives import (
    NCALoss,
    nca,
    nca_effective_n_neighbors,
    nca_matches,
    nca_posterior,
)
from vicinal.targets import LabelDistributions, Labels

# (kernel, its name in `reference`, objective): the logarithm needs a kernel that reaches everywhere
CASES = [
    pytest.param(Student(), "student", "log", id="student-log"),
    pytest.param(Student(), "student", "accuracy", id="student-accuracy"),
    pytest.param(Laplace(), "laplace", "log", id="laplace-log"),
    pytest.param(Compact(), "compact", "accuracy", id="compact-accuracy"),
]
each_case = pytest.mark.parametrize(("kernel", "name", "objective"), CASES)
each_kernel = pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Gaussian(), "gaussian"),
        (Student(), "student"),
        (Laplace(), "laplace"),
        (Compact(), "compact"),
    ],
    ids=["gaussian", "student", "laplace", "compact"],
)


def points(rng, n, d, n_classes):
    """Mean squared distance of about one, so that the scale says how many are in range of 1."""
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return (rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[y]) / np.sqrt(d), y


def assert_matches_reference(Z, y, case, rtol, weight=None, priors=None, **rows):
    kernel, name, objective = case
    value, dZ = nca(Z, Labels(y, weight, priors), objective, kernel=kernel, **rows)
    expected, dZ_expected = formulas.nca(
        Z, y, objective, sample_weight=weight, priors=priors, kernel=name, **rows
    )
    assert dZ.dtype == Z.dtype
    assert value == pytest.approx(expected, rel=rtol, abs=1e-12 * rtol)
    size = np.abs(dZ_expected).max()
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + 1e-30)


@pytest.mark.nojit
@each_case
def test_few_points_in_small_blocks(rng, monkeypatch, kernel, name, objective):
    blocks = _tiles.block_edges
    monkeypatch.setattr(_tiles, "block_edges", lambda n: blocks(n, 7, 1))
    Z, y = points(rng, 12, 3, 3)
    case = (kernel, name, objective)
    for blas_from in [48, 2]:
        monkeypatch.setattr(_tiles, "BLAS_FROM", blas_from)
        for scale in [0.3, 2.0]:
            assert_matches_reference(scale * Z, y, case, 1e-9)
            rows = {"queries": np.arange(8), "references": np.arange(2, 12)}
            assert_matches_reference(scale * Z, y, case, 1e-9, np.linspace(0.5, 1, 12), **rows)


def nearly_equal(rng, dtype, kind, d):
    """Points of which some, or all, lie at no distance or almost none."""
    n = 24
    Z = rng.standard_normal((n, d))
    if kind == "all equal":
        Z[:] = 3.7
    elif kind == "twins":
        Z[::2] = Z[1::2]
    elif kind == "denormal":  # whose squares are zero, or so small that they have few digits
        Z = np.rint(2 * Z) + float(np.finfo(dtype).tiny) ** 0.5 * 1e-3 * Z
        Z[:8] -= np.rint(Z[:8])
    else:
        Z = 5.0 + 1e-7 * Z
    return Z.astype(dtype), np.arange(n) % 3


@pytest.mark.nojit
@pytest.mark.parametrize("engine", ["dense", "tiles", "products", "lists", "trees", "blocks"])
@pytest.mark.parametrize("kind", ["all equal", "twins", "denormal", "near"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kink_of_laplace(rng, monkeypatch, dtype, kind, engine):
    """Rows at distance zero have no effect on each other, in whatever way sums are computed."""
    Z, y = nearly_equal(rng, dtype, kind, 2 if engine != "products" else 50)
    n = len(Z)
    monkeypatch.setattr(choose, "DENSE_UP_TO", n if engine == "dense" else 0)
    options = {"kernel": Laplace()}
    if engine == "lists":
        rows = np.tile(np.arange(n, dtype=np.int32), n)
        options["pairs"] = Pairs(n * np.arange(n + 1), rows)
    elif engine == "trees":
        options["pairs"] = Bounded(0.0, always=True)
    if engine == "blocks":
        value, dZ = nca_matches(Z, LabelDistributions(np.eye(3)[y]), **options)
    else:
        value, dZ = nca(Z, y, **options)
    # the gradient of a pair is no longer than its probability, for either of its points
    assert np.linalg.norm(dZ, axis=1).sum() <= 4.0
    expected, dZ_expected = formulas.nca(Z, y, "log", kernel="laplace")
    loose = 1e-3 if dtype == np.float32 else 1e-6
    assert value == pytest.approx(expected, rel=loose)
    if kind == "all equal":
        assert not dZ.any()
    elif kind == "twins":
        np.testing.assert_allclose(dZ, dZ_expected, atol=loose * np.abs(dZ_expected).max())


@pytest.mark.nojit
def test_compact_kernel_out_of_range():
    Z = np.array([[0.0], [0.5], [10.0], [10.25], [20.0], [1.5]])  # 1.0 apart is out of range
    y = np.array([0, 0, 0, 1, 1, 1])
    value, dZ = nca(Z, y, "accuracy", kernel=Compact())
    # rows 0 and 1 have each other alone, row 2 and 3 a wrong one, 4 and 5 none
    assert value == pytest.approx(-2 / 6)
    assert not dZ.any()
    value, dZ = nca(100 * Z, y, "accuracy", kernel=Compact())
    assert (value, dZ.any()) == (0.0, False)


def test_compact_kernel_has_no_logarithm(rng):
    Z, y = points(rng, 12, 2, 3)
    with pytest.raises(ValueError, match="'log' objective of nca needs a kernel that reaches ever"):
        nca(Z, y, "log", kernel=Compact())


@pytest.mark.nojit
def test_posterior_of_rows_out_of_range(rng):
    Z, y = points(rng, 40, 2, 3)
    y[:10] = 0
    new = np.vstack([Z[:5], Z[:3] + 100])
    weight = rng.uniform(0.1, 2, 40)
    for priors in [None, [0.2, 0.5, 0.3]]:
        labels = Labels(y, weight, priors)
        with pytest.warns(UserWarning, match="^3 of 8 rows have no reference in range") as caught:
            P = nca_posterior(new, Z, labels, Compact())
        assert len(caught) == 1
        expected = formulas.posterior(new, Z, y, priors, weight, "compact")
        np.testing.assert_allclose(P, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(P.sum(axis=1), 1)
        if priors is not None:
            np.testing.assert_allclose(P[5:], [priors] * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nca_posterior(new[:5], Z, labels, Compact())


@pytest.mark.nojit
@each_kernel
def test_effective_n_neighbors_matches_reference(rng, kernel, name):
    Z, _ = points(rng, 40, 2, 3)
    new = Z[:9] + 0.2
    for scale in [0.01, 1.0, 5.0]:
        for weight in [None, rng.uniform(0, 2, 40)]:
            for query in [None, scale * new]:
                expected = formulas.effective_n_neighbors(scale * Z, weight, query, name)
                got = nca_effective_n_neighbors(scale * Z, weight, query, kernel)
                np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_reference_refuses_an_unknown_kernel(rng):
    with pytest.raises(ValueError, match=r"kernel must be 'gaussian', .* Got 'box' instead"):
        formulas.effective_n_neighbors(np.zeros((3, 1)), kernel="box")


def test_a_background_does_not_choose_the_scale(rng):
    """Where no row is in range of another, backgrounds still classify: scales would not matter."""
    Z, y = make_blobs(60, 2, centers=3, cluster_std=1.0, random_state=0)
    labels = Labels(y)
    loss = NCALoss("log", Compact()).suited_to(labels)
    far = 1e3 * Z
    chooser, factor = loss.for_start(2)
    assert chooser(Z, labels).value < chooser(far, labels).value
    assert factor == 0.5
    assert loss.for_scaling().background is not None
    assert loss(far, labels).value == pytest.approx(loss(10 * far, labels).value)
    assert NCALoss("accuracy").for_start(2)[0].kind == "log"


@pytest.mark.parametrize("d", [1, 2, 5, 30])
def test_the_compact_kernel_as_wide_as_the_gaussian(d):
    u = np.linspace(0.0, 10.0, 200_001)

    def spread(density):
        weight = density * u ** (d - 1)
        return np.sum(weight * u**2) / np.sum(weight)

    compact = np.where(u < 1.0, (1.0 - u**2) ** 2, 0.0)
    wanted = Compact().gaussian_scale(d) ** 2 * spread(np.exp(-(u**2)))
    assert spread(compact) == pytest.approx(wanted, rel=1e-4)
