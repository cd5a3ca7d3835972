"""The shares of the backgrounds as parameters of the loss: their gradient, and descent along it."""

from __future__ import annotations

import formulas
import numpy as np
import pytest
from common.engines import engine  # noqa: F401

from vicinal import NCA
from vicinal.densities import Compact, Gaussian, Student
from vicinal.objectives import background_gradient, background_shares, descend_background, nca
from vicinal.targets import Labels

OBJECTIVES = ["accuracy", "log"]
PRIORS = [None, [0.2, 0.5, 0.3]]
BETA = np.array([0.3, 0.05, 0.7])
KERNELS = {"gaussian": Gaussian(), "student": Student(), "compact": Compact()}
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def points(rng, n=24, d=2, scale=1.0):
    y = np.arange(n) % 3
    rng.shuffle(y)
    return scale * (rng.standard_normal((n, d)) + rng.standard_normal((3, d))[y]), y


@each_kernel
@each_objective
@pytest.mark.parametrize("priors", PRIORS)
def test_matches_reference_and_finite_differences(rng, objective, kernel, priors):
    v = rng.uniform(0.1, 3, 18)
    v[:2] = 0.0
    some = {"queries": np.arange(12), "references": np.arange(4, 18)}
    for d, rows, weight in ((2, {}, None), (3, some, v), (7, {}, v)):
        Z, y = points(rng, 18, d, 1.0 / np.sqrt(d))
        labels, part = Labels(y, weight, priors), KERNELS[kernel]
        options = {"objective": objective, **rows}
        value, dbeta = background_gradient(Z, labels, BETA, kernel=part, **options)
        expected, _ = nca(Z, labels, kernel=part, background=BETA, warn=False, **options)
        assert value == pytest.approx(expected, rel=1e-12)
        plain = {"sample_weight": weight, "priors": priors, "kernel": kernel}
        by_hand = formulas.background_gradient(Z, y, BETA, **plain, **options)
        size = np.abs(by_hand).max()
        np.testing.assert_allclose(dbeta, by_hand, rtol=0, atol=1e-10 * size)
        numeric = formulas.finite_difference(
            lambda beta, Z=Z, labels=labels, options=options: nca(
                Z, labels, kernel=KERNELS[kernel], background=beta, warn=False, gradient=False,
                **options,
            )[0],
            BETA,
        )  # fmt: skip
        np.testing.assert_allclose(dbeta, numeric, rtol=0, atol=1e-6 * size + 1e-9)


@each_kernel
@each_objective
def test_descent_finds_a_stationary_point(rng, objective, kernel, engine):  # noqa: F811
    Z, y = points(rng, 60, scale=0.7)
    options = {"objective": objective, "kernel": KERNELS[kernel]}
    before, _ = background_gradient(Z, y, BETA, **options)
    few = descend_background(Z, y, BETA, **options, steps=2)
    beta = descend_background(Z, y, BETA, **options, steps=200)
    values = [background_gradient(Z, y, b, **options) for b in (few, beta)]
    assert values[1][0] <= values[0][0] < before
    inside = (beta > 1e-5) & (beta < 1 - 1e-5)
    # on an edge the loss would fall beyond it
    assert np.abs(values[1][1] * beta * (1 - beta))[inside].max(initial=0.0) < 1e-4
    assert (values[1][1][beta >= 1 - 1e-5] < 0).all()
    assert (values[1][1][beta <= 1e-5] > 0).all()


@pytest.mark.filterwarnings("error")
@each_objective
def test_edges(rng, objective):
    Z, y = points(rng, 20)
    y[3] = 2
    options = {"objective": objective, "kernel": Compact()}
    assert descend_background(Z, y, [0.0, 0.1, 0.1], **options)[0] == 0
    none = np.empty(0, dtype=int)
    np.testing.assert_array_equal(descend_background(Z, y, BETA, none, **options), BETA)
    for scale in (0.0, 1e-8, 1e8, 1e90):  # all in one place, or out of range
        beta = descend_background(scale * Z, y, BETA, **options)
        assert np.isfinite(beta).all()
        assert ((beta >= 1e-6) & (beta <= 1 - 1e-6)).all()
    single = descend_background(Z.astype("f4"), y, BETA, **options)
    double = descend_background(Z, y, BETA, **options)
    values = [background_gradient(Z, y, beta, **options)[0] for beta in (single, double)]
    assert values[0] == pytest.approx(values[1], abs=1e-3)
    with pytest.raises(ValueError, match="'background' parameter of descend_background must be 3"):
        descend_background(Z, y, BETA[:2])
    with pytest.raises(ValueError, match="'objective' parameter of background_gradient must be"):
        background_gradient(Z, y, BETA, objective="both")
    with pytest.raises(ValueError, match="20 rows but there are 19 labels"):
        background_gradient(Z, y[1:], BETA)


def test_many_rows_are_thinned(rng, monkeypatch):
    Z, y = points(rng, 600)
    whole, _ = background_gradient(Z, y, BETA)
    monkeypatch.setattr(background_shares, "_MOST", 450)
    thinned, _ = background_gradient(Z, y, BETA)
    expected, _ = nca(Z, y, queries=np.arange(0, 600, 5), background=BETA)
    assert thinned == pytest.approx(expected, rel=1e-12)
    assert thinned != whole


@each_objective
def test_nca_learns_the_shares(rng, objective):
    """Solver and refresh lower one loss: where the fit ends, no share lowers it any further."""
    X, y = points(rng, 90, 4)
    settings = {"objective": objective, "random_state": 0, "n_components": 2, "tol": 1e-7}
    model = NCA(kernel=Compact(beta="gradient"), alpha=3e-3, **settings).fit(X, y)
    assert len(model.rounds_["beta"]) > 1
    assert np.abs(model.background_ - 1 / 31).max() > 0.01  # where it began
    Z = X @ model.components_.T
    options = {"objective": objective, "kernel": Compact()}
    start = background_gradient(Z, y, model.background_, **options)[0]
    best = descend_background(Z, y, model.background_, **options, steps=100)
    assert start == pytest.approx(background_gradient(Z, y, best, **options)[0], abs=1e-3)
    assert not hasattr(model, "partial_fit")
