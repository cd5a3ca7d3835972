"""What every model of prediction keeps to: a distribution over the classes for each query."""

from __future__ import annotations

from functools import partial

import formulas
import numpy as np
import pytest
from common.checks import each_dtype, set_threads
from common.clouds import points

from vicinal.densities import Compact, Laplace, Student
from vicinal.objectives import knca_posterior, nca_posterior
from vicinal.targets import Labels

BETA = np.array([0.3, 0.05, 0.7])


def plain_background(Z_query, Z, y, priors=None, sample_weight=None):
    """Mixtures of a normal and kernels, class by class."""
    v = np.ones(len(Z)) if sample_weight is None else sample_weight
    prior = [v[y == c].sum() for c in range(3)] if priors is None else priors
    normals, _ = formulas.class_normals(Z[v > 0], v[v > 0], y[v > 0], 3)
    joint = np.empty((len(Z_query), 3))
    for i, z in enumerate(Z_query):
        for c in range(3):
            parts = formulas.mixture_densities(z, Z[y == c], v[y == c], normals[c], None)
            joint[i, c] = prior[c] * (BETA[c] * parts[0] + (1 - BETA[c]) * parts[1])
    return joint / joint.sum(axis=1, keepdims=True)


# P = model(Z_query, Z, labels), the same by the formula, and whether it knows weights and priors
MODELS = {
    "nca": (nca_posterior, formulas.posterior, True),
    "student": (
        partial(nca_posterior, kernel=Student()),
        partial(formulas.posterior, kernel="student"),
        True,
    ),
    "laplace": (
        partial(nca_posterior, kernel=Laplace()),
        partial(formulas.posterior, kernel="laplace"),
        True,
    ),
    "compact": (
        partial(nca_posterior, kernel=Compact()),
        partial(formulas.posterior, kernel="compact"),
        True,
    ),
    "background": (partial(nca_posterior, background=BETA), plain_background, True),
    **{
        f"knca {k} {vote}": (
            partial(knca_posterior, k=k, vote=vote),
            partial(formulas.knca_posterior, k=k, vote=vote),
            False,
        )
        for k, vote in [(1, "all"), (3, "majority"), (4, "all")]
    },
}
each_model = pytest.mark.parametrize(
    ("model", "formula", "weighted"),
    [
        pytest.param(
            *parts, id=name, marks=() if name in ("nca", "knca 3 majority") else pytest.mark.options
        )
        for name, parts in MODELS.items()
    ],
)
# of a compact kernel: queries out of range
pytestmark = pytest.mark.filterwarnings("ignore:[0-9]+ of [0-9]+ rows have no reference in range")


def data(rng, n, n_queries=9, d=2, scale=0.4):
    Z, y = points(rng, n + n_queries, d, 3, scale)
    return Z[n:], Z[:n], np.arange(n) % 3


@pytest.mark.nojit
@each_model
def test_matches_reference(rng, model, formula, weighted):
    for d in (1, 2, 50):
        Z_query, Z, y = data(rng, 12, 5, d, 0.5 / np.sqrt(d))
        np.testing.assert_allclose(
            model(Z_query, Z, y), formula(Z_query, Z, y), rtol=1e-9, atol=1e-12
        )
    if weighted:
        weight, priors = rng.uniform(0.1, 2, 12), [0.2, 0.5, 0.3]
        for labels in ((weight, None), (None, priors), (weight, priors)):
            P = model(Z_query, Z, Labels(y, *labels))
            expected = formula(Z_query, Z, y, priors=labels[1], sample_weight=labels[0])
            np.testing.assert_allclose(P, expected, rtol=1e-9, atol=1e-12)


@each_model
@each_dtype
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 30.0, 1e8])
def test_is_a_distribution(rng, model, formula, weighted, dtype, scale):
    Z_query, Z, y = data(rng, 60, 20)
    P = model((scale * Z_query).astype(dtype), (scale * Z).astype(dtype), y)
    assert (P.shape, P.dtype) == ((20, 3), np.float64)
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-9)
    if not weighted:  # nca_posterior of no queries divides by their number
        assert model(Z_query[:0], Z, y).shape == (0, 3)


@each_model
@pytest.mark.parametrize("d", [3, 60])
def test_thread_count_agnosticism(rng, monkeypatch, model, formula, weighted, d):
    Z_query, Z, y = data(rng, 700, 600, d, 1 / np.sqrt(d))
    set_threads(monkeypatch, 1)
    expected = model(Z_query, Z, y)
    for threads in (2, 3):
        set_threads(monkeypatch, threads)
        np.testing.assert_array_equal(model(Z_query, Z, y), expected)


@each_model
def test_float32_near_float64(rng, model, formula, weighted):
    Z_query, Z, y = data(rng, 300, 60)
    single = model(Z_query.astype(np.float32), Z.astype(np.float32), y)
    np.testing.assert_allclose(single, model(Z_query, Z, y), atol=2e-5)


@each_model
def test_order_of_rows_and_names_of_classes(rng, model, formula, weighted):
    Z_query, Z, y = data(rng, 90, 20)
    P = model(Z_query, Z, y)
    order, asked = rng.permutation(90), rng.permutation(20)
    np.testing.assert_allclose(model(Z_query, Z[order], y[order]), P, atol=1e-12)
    np.testing.assert_allclose(model(Z_query[asked], Z, y), P[asked], atol=1e-12)
    np.testing.assert_allclose(model(Z_query[3:4], Z, y), P[3:4], atol=1e-12)
    named = model(Z_query, Z, np.array(["ant", "bee", "cow"])[y])
    np.testing.assert_array_equal(named, P)


@each_model
def test_input_is_not_changed(rng, model, formula, weighted):
    arrays = data(rng, 40, 9)
    before = [part.copy() for part in arrays]
    expected = model(*arrays)
    for part, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(part, old)
        part.setflags(write=False)
    Z_query, Z, y = arrays
    turned = model(np.asfortranarray(Z_query), Z[:, ::-1][:, ::-1], list(y))
    np.testing.assert_allclose(turned, expected, rtol=1e-12)


@each_model
def test_wrong_input_is_named(rng, model, formula, weighted):
    Z, y = points(rng, 12, 2, 3)
    for args, message in [
        ((Z, Z, y[:-1]), "Z_reference has 12 rows but there are 11 labels"),
        ((Z, Z[:, :1], y), "Z has 2 columns but Z_reference has 1"),
        ((Z, np.nan * Z, y), "Z_reference must be finite"),
        ((np.inf * Z, Z, y), "Z must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            model(*args)
    if not weighted:
        with pytest.raises(ValueError, match="labels of knca_posterior must not have sample_w"):
            model(Z, Z, Labels(y, np.ones(12)))
        with pytest.raises(ValueError, match="labels of knca_posterior must not have priors"):
            model(Z, Z, Labels(y, priors="uniform"))
