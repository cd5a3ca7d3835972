"""NCA beyond the contract of all objectives: weights, priors, posterior, neighbours that count."""

from __future__ import annotations

import warnings
from math import exp, log, sqrt

import formulas
import numpy as np
import pytest
from common.checks import assert_close
from common.clouds import points
from common.engines import compiled_only
from numba import config
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from threadpoolctl import threadpool_limits

from vicinal.objectives import nca, nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

OBJECTIVES = ["accuracy", "log"]
PRIORS = [None, "uniform", [0.2, 0.5, 0.3]]


def assert_matches_reference(Z, y, objective, rtol, sample_weight=None, priors=None, **rows):
    value, dZ = nca(Z, Labels(y, sample_weight, priors), objective, **rows)
    expected, dZ_expected = formulas.nca(
        Z, y, objective, sample_weight=sample_weight, priors=priors, **rows
    )
    assert dZ.dtype == Z.dtype
    assert value == pytest.approx(expected, rel=rtol, abs=1e-12 * rtol)
    size = np.abs(dZ_expected).max()
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + 1e-30)


def test_six_points_by_hand():
    """A hexagon of radius 1 in turn a b a b a b: d² is 1, 3, 4, 3, 1 around each point."""
    angle = np.arange(6) * np.pi / 3
    Z, y = np.stack([np.cos(angle), np.sin(angle)], axis=1), list("ababab")
    own, other = 2 * exp(-3), 2 * exp(-1) + exp(-4)
    p = own / (own + other)
    gap = (2 * exp(-1) * 1 + exp(-4) * 4) / other - 3  # mean d² of the others less of the own
    for objective, value, slope in [("accuracy", -p, p * (1 - p)), ("log", -log(p), 1 - p)]:
        for dtype, rtol in [(np.float64, 1e-13), (np.float32, 1e-6)]:
            # growing by a factor 1 + t adds 2 t d² to d²; by symmetry each row has a sixth of it
            assert_close(nca(Z.astype(dtype), y, objective), (value, -slope * gap / 3 * Z), rtol)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_settled_points_have_no_gradient(rng, objective):
    """Pairs of twins, a thousand apart: all is certain, and nothing pulls."""
    Z = np.repeat(1e3 * np.arange(40.0)[:, None], 2, axis=0) + 0.01 * rng.standard_normal((80, 2))
    value, dZ = nca(Z, np.repeat(np.arange(40), 2), objective)
    assert value == (-1.0 if objective == "accuracy" else 0.0)
    assert not dZ.any()


@pytest.mark.skipif(config.DISABLE_JIT, reason="slow in plain Python")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_own_class_out_of_reach(rng, objective):
    """Classes far apart from themselves: p_i underflows, the loss does not."""
    Z, y = points(rng, 100, 2, 2)
    Z[y == 0, 0] += 100 * np.arange((y == 0).sum())
    Z[y == 1] = Z[y == 0][: (y == 1).sum()] + 1
    got, expected = nca(Z, y, objective), formulas.nca(Z, y, objective)
    assert_close(got, expected, 1e-10)
    assert got[0] == pytest.approx(0, abs=1e-30) if objective == "accuracy" else got[0] > 1e3


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_matches_scikit_learn(rng, d, scale):
    X, y = points(rng, 150, 6, 3)
    A = scale * rng.standard_normal((d, 6))
    peer = NeighborhoodComponentsAnalysis()
    peer.n_iter_ = np.inf  # read by the method, which prints a header at 0
    total, gradient = peer._loss_grad_lbfgs(A.ravel(), X, y[:, None] == y[None, :])
    value, dZ = nca(X @ A.T, y, "accuracy")
    # theirs is the sum to be maximised (sign=1.0), ours minus the mean
    assert value == pytest.approx(-total / 150, rel=1e-9)
    expected = -gradient.reshape(d, 6) / 150
    np.testing.assert_allclose(dZ.T @ X, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("priors", PRIORS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [3, 60])
def test_weights_and_priors(rng, objective, priors, weighted, d):
    Z, y = points(rng, 250, d, 3, 1.5 / np.sqrt(d))
    y[y == 2] = np.where(rng.uniform(size=(y == 2).sum()) < 0.7, 0, 2)  # unbalanced
    weight = rng.uniform(0.1, 3, 250) if weighted else None
    if weighted:
        weight[:25] = 0.0
    rows = {"queries": np.arange(0, 180), "references": np.arange(50, 250)}
    assert_matches_reference(Z, y, objective, 1e-10, weight, priors)
    assert_matches_reference(Z, y, objective, 1e-10, weight, priors, **rows)
    assert_matches_reference(Z.astype(np.float32), y, objective, 1e-5, weight, priors)


MASSES = {
    "all 1e-9": lambda n: np.full(n, 1e-9),
    "all 1e-30": lambda n: np.full(n, 1e-30),
    "all 1e-50": lambda n: np.full(n, 1e-50),
    "all 1e20": lambda n: np.full(n, 1e20),
    "half 1e-6": lambda n: np.where(np.arange(n) % 2, 1e-6, 1.0),
    "half 1e-20": lambda n: np.where(np.arange(n) % 2, 1e-20, 1.0),
    "half 1e-50": lambda n: np.where(np.arange(n) % 2, 1e-50, 1.0),
    "1e-20 to 1": lambda n: np.logspace(-20, 0, n),
}


@pytest.mark.parametrize("masses", MASSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_weights(rng, masses, dtype):
    """Sums of masses and powers span more than float32 has, and the sums' shift must follow."""
    Z, y = points(rng, 200, 2, 3)
    Z[100:120] = Z[:20]
    v = MASSES[masses](200)
    rtol = 2e-4 if dtype == np.float32 else 1e-9
    for scale in [1, 5, 20]:
        for objective in OBJECTIVES:
            for priors in PRIORS:
                W = (scale * Z).astype(dtype)
                assert_matches_reference(W, y, objective, rtol, v, priors)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_row_outweighs_its_class(rng, objective, dtype):
    """With priors the query is left out of its class: what remains must not be 1 - 1."""
    Z, y = points(rng, 60, 2, 3)
    v = np.full(60, 1e-20)
    v[[np.flatnonzero(y == c)[5] for c in range(3)]] = [1.0, 1e-3, 1.0]
    for priors in PRIORS:
        for rows in [{}, {"queries": np.arange(40), "references": np.arange(20, 60)}]:
            rtol = 1e-5 if dtype == np.float32 else 1e-10
            assert_matches_reference(Z.astype(dtype), y, objective, rtol, v, priors, **rows)


def test_weights_whose_sum_overflows(rng):
    Z, y = points(rng, 200, 2, 3)
    for priors in PRIORS:
        value, dZ = nca(Z, Labels(y, np.full(200, 1e307), priors))
        expected, dZ_expected = nca(Z, Labels(y, None, priors))
        assert value == pytest.approx(expected, rel=1e-13)
        np.testing.assert_allclose(dZ, dZ_expected, atol=1e-15)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_extreme_priors(rng, objective):
    Z, y = points(rng, 200, 2, 3)
    for dtype, rtol in [(np.float32, 1e-4), (np.float64, 1e-9)]:
        W = (5 * Z).astype(dtype)
        for priors in [[1e-20, 1, 1], [1e-40, 1e-20, 1]]:
            assert_matches_reference(W, y, objective, rtol, None, priors)
        with warnings.catch_warnings():  # a class ruled out is one without members
            warnings.filterwarnings(
                "ignore", "67 rows have no other member .*: classes 0", UserWarning
            )
            assert_matches_reference(W, y, objective, rtol, None, [0, 1, 2])


def test_weightless_rows_are_as_good_as_absent(rng):
    Z, y = points(rng, 60, 2, 3)
    v = np.ones(60)
    v[10:20] = 0.0
    Z[10:20] = Z[:10]  # the nearest of all, were they there
    for objective in OBJECTIVES:
        value, dZ = nca(20 * Z, Labels(y, v), objective)
        rest = np.flatnonzero(v)
        expected, dZ_rest = nca(20 * Z[rest], y[rest], objective)
        assert value == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(dZ[rest], dZ_rest, atol=1e-12 * np.abs(dZ_rest).max())
        assert not dZ[10:20].any()
        value, dZ = nca(Z, Labels(y, np.zeros(60)), objective)
        assert (value, dZ.any()) == (0.0, False)


@pytest.mark.parametrize("priors", [None, "uniform", [0.1, 0.2, 0.3, 0.15, 0.25]])
def test_singleton_classes(rng, priors):
    Z, y = points(rng, 50, 2, 3)
    y[[4, 7]] = 3, 4
    names = np.array(["ant", "bee", "cow", "dog", "eel"])[y]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_matches_reference(Z, names, "accuracy", 1e-12, priors=priors)
        nca(Z, names, "log", queries=np.delete(np.arange(50), [4, 7]))
    with pytest.warns(
        UserWarning, match=r"^2 rows have no other member .* left out .* classes 'dog', 'eel'\.$"
    ) as caught:
        assert_matches_reference(Z, names, "log", 1e-12, priors=priors)
    assert len(caught) == 1
    with pytest.warns(
        UserWarning, match=r"12 rows .*: classes 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\."
    ):
        value, dZ = nca(Z[:12], np.arange(12), "log")  # nobody is left
    assert (value, dZ.any()) == (0.0, False)
    assert nca(Z[:12], np.arange(12), "accuracy")[0] == 0.0


@compiled_only
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_value_has_the_same_bits_for_any_number_of_blas_threads(rng, objective):
    """A dot product of more than 10,000 numbers is cut in as many parts as BLAS has threads."""
    Z, y = points(rng, 12_000, 2, 3)
    v = rng.uniform(0.5, 1.5, 12_000)
    values = []
    for threads in [1, 2]:
        with threadpool_limits(threads):
            values.append(nca(Z.astype(np.float32), Labels(y, v), objective, gradient=False)[0])
    assert values[0] == values[1]


def test_unknown_objective(rng):
    Z, y = points(rng, 12, 2, 3)
    with pytest.raises(ValueError, match=r"'objective' .* must be 'log' or 'accuracy'\. Got 'kl'"):
        nca(Z, y, "kl")


def test_labels(rng):
    labels = Labels(["b", "a", "b"], [1, 2, 3], [3, 1])
    assert labels.classes.tolist() == ["a", "b"]
    assert labels.codes.tolist() == [1, 0, 1]
    assert labels.priors.tolist() == [0.75, 0.25]
    part = labels.take(np.array([2, 0]))
    assert (part.codes.tolist(), part.sample_weight.tolist(), len(part)) == ([1, 1], [3, 1], 2)
    assert part.classes is labels.classes
    assert part.priors is labels.priors
    assert labels.take(None) is labels
    assert Labels([3, 5], classes=[1, 3, 5]).codes.tolist() == [1, 2]
    assert Labels([0, 1, 2, 1], priors="uniform").priors.tolist() == [1 / 3] * 3


def test_wrong_labels():
    y = ["a", "b", "b"]
    for kwargs, message in [
        ({"sample_weight": [1, 2]}, r"sample_weight must have shape \(3,\)\. Got \(2,\) instead"),
        ({"sample_weight": [1, -2, 1]}, "sample_weight must be finite and not negative"),
        ({"sample_weight": [1, np.nan, 1]}, "sample_weight must be finite and not negative"),
        ({"priors": "equal"}, r"'priors' .* None, 'uniform' or an array of 2 .* Got 'equal'"),
        ({"priors": [0.2, 0.3, 0.5]}, "'priors' parameter of Labels must hold 2 probabilities"),
        ({"priors": [-0.2, 1.2]}, "none negative and not all zero"),
        ({"priors": [0, 0]}, "none negative and not all zero"),
        ({"classes": ["b", "c"]}, "'a'.* is not among the classes"),
        ({"classes": ["a"]}, "'b'.* is not among the classes"),
    ]:
        with pytest.raises(ValueError, match=message):
            Labels(y, **kwargs)


@pytest.mark.parametrize("priors", PRIORS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "n"), [(2, 30), (3, 900), (60, 900)])
def test_posterior_matches_reference(rng, priors, weighted, d, n):
    Z, y = points(rng, n, d, 3, 2 / np.sqrt(d))
    new, _ = points(rng, 70, d, 3, 2 / np.sqrt(d))
    new[:5] *= 1e3  # far from everything: the nearest decide, not 0 / 0
    v = rng.uniform(0, 2, n) * (rng.uniform(size=n) > 0.2) if weighted else None
    expected = formulas.posterior(new, Z, y, priors, v)
    P = nca_posterior(new, Z, Labels(y, v, priors))
    assert P.dtype == np.float64
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(P, expected, rtol=1e-7, atol=1e-12)
    single = nca_posterior(new.astype(np.float32), Z.astype(np.float32), Labels(y, v, priors))
    np.testing.assert_allclose(single[5:], expected[5:], atol=2e-5)


def test_posterior_of_extreme_input(rng):
    Z, y = points(rng, 60, 2, 3)
    new, _ = points(rng, 20, 2, 3)
    for masses in MASSES.values():
        for scale, dtype in [(20, np.float32), (5, np.float32), (20, np.float64)]:
            a, b = (scale * new).astype(dtype), (scale * Z).astype(dtype)
            expected = formulas.posterior(a, b, y, sample_weight=masses(60))
            P = nca_posterior(a, b, Labels(y, masses(60)))
            np.testing.assert_allclose(P, expected, atol=2e-4 if dtype == np.float32 else 1e-10)
    far = nca_posterior(1e25 * new.astype(np.float32), Z.astype(np.float32), y)
    np.testing.assert_allclose(far.sum(axis=1), 1)
    P = nca_posterior(new, Z, Labels(y, classes=[0, 1, 2, 9]))  # a class that nobody shows
    np.testing.assert_allclose(P[:, :3], formulas.posterior(new, Z, y), rtol=1e-9)
    assert not P[:, 3].any()
    np.testing.assert_array_equal(nca_posterior(new, Z, np.zeros(60)), np.ones((20, 1)))
    by_hand = nca_posterior([[0.0]], [[1.0], [sqrt(log(3))]], ["a", "b"])  # e^-1 and 1/3
    np.testing.assert_allclose(by_hand[0, 0], exp(-1) / (exp(-1) + 1 / 3), rtol=1e-12)


def test_wrong_input_of_the_posterior(rng):
    Z, y = points(rng, 12, 2, 3)
    with pytest.raises(ValueError, match="Z_reference has 12 rows but there are 11 labels"):
        nca_posterior(Z, Z, y[1:])
    with pytest.raises(ValueError, match="Z has 1 columns but Z_reference has 2"):
        nca_posterior(Z[:, :1], Z, y)
    with pytest.raises(ValueError, match="Z_reference must be finite"):
        nca_posterior(Z, Z + np.inf, y)
    with pytest.raises(ValueError, match="At least one reference must have a positive weight"):
        nca_posterior(Z, Z, Labels(y, np.zeros(12)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "n"), [(1, 2), (2, 30), (3, 900), (60, 900)])
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_effective_n_neighbors_matches_reference(rng, weighted, d, n, scale):
    Z, _ = points(rng, n, d, 2, scale / np.sqrt(d))
    v = rng.uniform(0, 2, n) * (rng.uniform(size=n) > 0.2) if weighted else None
    expected = formulas.effective_n_neighbors(Z, v)
    np.testing.assert_allclose(nca_effective_n_neighbors(Z, v), expected, rtol=1e-9)
    single = nca_effective_n_neighbors(Z.astype(np.float32), v)
    np.testing.assert_allclose(single, expected, rtol=1e-3)


def test_effective_n_neighbors_of_extreme_input(rng):
    Z, _ = points(rng, 40, 2, 2)
    for masses in MASSES.values():
        for scale in [1, 20]:
            expected = formulas.effective_n_neighbors(scale * Z, masses(40))
            got = nca_effective_n_neighbors(scale * Z, masses(40))
            np.testing.assert_allclose(got, expected, rtol=1e-9)
    np.testing.assert_allclose(nca_effective_n_neighbors(0 * Z), 39, rtol=1e-12)
    for dtype in [np.float32, np.float64]:
        for scale in [1e8, 1e15, 1e30]:  # a hard choice, and no trace of what is far
            far = nca_effective_n_neighbors((scale * Z).astype(dtype))
            np.testing.assert_allclose(far, 1, rtol=1e-5)
    v = np.zeros(40)
    assert not nca_effective_n_neighbors(Z, v).any()
    v[3] = 2.0  # the only choice of all but itself
    np.testing.assert_array_equal(nca_effective_n_neighbors(Z, v), np.arange(40) != 3)
    assert nca_effective_n_neighbors(Z[:1]).tolist() == [0]


@pytest.mark.parametrize("n", [20, 600])
def test_no_queries_have_no_posterior(rng, n):
    Z, y = rng.standard_normal((n, 2)), np.arange(n) % 3
    assert nca_posterior(Z[:0], Z, y).shape == (0, 3)
    assert nca_effective_n_neighbors(Z, Z_query=Z[:0]).shape == (0,)
