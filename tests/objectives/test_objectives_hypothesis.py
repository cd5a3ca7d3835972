"""Whatever the points are: no NaN, the plain formula, no net force, a value in its range."""

from __future__ import annotations

import warnings

import formulas
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vicinal.engines.cpu import tiles as _tiles
from vicinal.objectives import nca, nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

BOUNDS = {"accuracy": (-1.0, 0.0), "log": (0.0, np.inf)}
objectives = st.sampled_from(sorted(BOUNDS))


@st.composite
def clouds(draw, dtypes=(np.float32, np.float64)):
    """Rows at any scale, some equal, some far away; labels; sometimes weights and priors."""
    n, d = draw(st.integers(2, 40)), draw(st.sampled_from([1, 2, 3, 4, 5, 7, 13, 50]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(dtypes))
    Z = 10.0 ** draw(st.sampled_from([-8, -3, -1, 0, 0.5, 1, 3, 8])) * rng.standard_normal((n, d))
    kind = draw(st.sampled_from(["plain", "duplicates", "integers", "outlier", "constant"]))
    if kind == "duplicates":
        Z = Z[rng.integers(0, n, n)]
    elif kind == "integers":  # exact ties
        Z = np.rint(2 * Z / np.abs(Z).max())
    elif kind == "outlier":
        Z[0] += 1e6
    elif kind == "constant":
        Z[:] = Z[0]
    y = rng.integers(0, draw(st.integers(1, n)), n)
    weight = None
    if draw(st.booleans()):
        weight = 10.0 ** (draw(st.sampled_from([0, 3, 20])) * rng.uniform(-1, 0, n))
    priors = draw(st.sampled_from([None, "uniform", "random"]))
    if priors == "random":
        priors = rng.uniform(0.05, 1, len(np.unique(y)))
    return Z.astype(dtype), y, weight, priors


def quiet_nca(*args, **kwargs):
    """Classes of one member are part of the game here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*no other member of their class", UserWarning)
        return nca(*args, **kwargs)


def assert_sound(value, dZ, Z, objective):
    low, high = BOUNDS[objective]
    assert low - 1e-12 <= value <= high
    assert np.isfinite(value)
    assert np.isfinite(dZ).all()
    assert (dZ.shape, dZ.dtype) == (Z.shape, Z.dtype)
    # translating all points changes nothing: the pulls of a pair cancel, up to rounding; matrix
    # products know both points and their d² to the digits of the points only
    eps = float(np.finfo(Z.dtype).eps)
    tolerance = 100 * eps * np.abs(dZ).sum(dtype=np.float64) + 1e-25
    if Z.shape[1] >= _tiles.BLAS_FROM:
        norm = np.linalg.norm(Z.astype(np.float64), axis=1).max()
        tolerance += 10 * eps * norm + 3 * eps * norm**2 * np.abs(dZ).max()
    np.testing.assert_allclose(dZ.sum(axis=0, dtype=np.float64), 0, atol=tolerance)


@given(clouds(), objectives)
def test_always_sound(cloud, objective):
    Z, y, weight, priors = cloud
    value, dZ = quiet_nca(Z, Labels(y, weight, priors), objective)
    assert_sound(value, dZ, Z, objective)


@given(clouds(dtypes=(np.float64,)), objectives)
def test_always_the_plain_formula(cloud, objective):
    """Up to the rounding of d², relative to it, which exp turns into a relative error."""
    Z, y, weight, priors = cloud
    spread = np.ptp(Z, axis=0)
    rtol = 1e-10 + 2e-15 * float(spread @ spread)
    assume(rtol <= 0.01)  # from a spread of 1e6 on, ties are decided by the last digit
    value, dZ = quiet_nca(Z, Labels(y, weight, priors), objective)
    expected, dZ_expected = formulas.nca(Z, y, objective, sample_weight=weight, priors=priors)
    assert value == pytest.approx(expected, rel=rtol, abs=1e-14)
    size = np.abs(dZ_expected).max()
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + 1e-30)


@given(clouds(), objectives, st.data())
def test_any_queries_and_references(cloud, objective, data):
    Z, y, weight, priors = cloud
    rows = st.lists(st.integers(0, len(Z) - 1), unique=True, max_size=len(Z))
    q, r = np.array(data.draw(rows), dtype=int), np.array(data.draw(rows), dtype=int)
    value, dZ = quiet_nca(Z, Labels(y, weight, priors), objective, q, r)
    assert_sound(value, dZ, Z, objective)
    if Z.dtype == np.float64 and np.ptp(Z) < 100:
        expected = formulas.nca(Z, y, objective, q, r, weight, priors)
        assert value == pytest.approx(expected[0], rel=1e-8, abs=1e-14)
        np.testing.assert_allclose(
            dZ, expected[1], rtol=0, atol=1e-8 * np.abs(expected[1]).max(initial=0) + 1e-30
        )


@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 20), st.integers(1, 4)),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    objectives,
)
def test_any_finite_float32(Z, objective):
    """From denormal numbers to those whose squares overflow."""
    value, dZ = quiet_nca(Z, np.arange(len(Z)) % 2, objective)
    low, high = BOUNDS[objective]
    assert low <= value <= high
    assert np.isfinite(value)
    assert np.isfinite(dZ).all()


@given(clouds())
def test_posterior_is_always_a_distribution(cloud):
    Z, y, weight, priors = cloud
    P = nca_posterior(Z[::-1] + Z.dtype.type(0.1), Z, Labels(y, weight, priors))
    assert (P >= 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-9)


@given(clouds())
def test_effective_n_neighbors_is_always_in_range(cloud):
    Z, _, weight, _ = cloud
    k = nca_effective_n_neighbors(Z, weight)
    assert (k >= 1 - 1e-4).all()
    assert (k <= (len(Z) - 1) * (1 + 1e-4)).all()
    if Z.dtype == np.float64 and np.ptp(Z) < 100:
        np.testing.assert_allclose(k, formulas.effective_n_neighbors(Z, weight), rtol=1e-8)
