"""The oracle itself: checked against pencil, finite differences, print and scikit-learn."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest
from formulas import (
    effective_n_neighbors,
    finite_difference,
    nca,
    nca_gradient_printed,
    posterior,
    squared_distances,
)
from scipy.optimize import minimize
from sklearn.neighbors import NeighborhoodComponentsAnalysis

OBJECTIVES = ["accuracy", "log"]

# every way of calling `nca` on the 12 points of `lattice`
VARIANTS = {
    "plain": {},
    "queries": {"queries": [0, 3, 4, 11]},
    "references": {"references": [1, 2, 3, 5, 6, 8, 10]},
    "held-out": {"queries": [0, 4, 7, 9], "references": [1, 2, 3, 5, 6, 8, 10, 11]},
    "weights": {"sample_weight": [1.0, 0.3, 2.0, 0.0, 1.5, 1.0, 0.7, 3.0, 1.0, 0.2, 1.0, 1.0]},
    "uniform": {"priors": "uniform"},
    "priors": {"priors": [0.2, 0.5, 0.3]},
    "weights, priors, queries": {
        "sample_weight": [1.0, 0.3, 2.0, 0.0, 1.5, 1.0, 0.7, 3.0, 1.0, 0.2, 1.0, 1.0],
        "priors": [0.6, 0.1, 0.3],
        "queries": [0, 1, 2, 3, 7],
        "references": [1, 2, 4, 5, 6, 8, 9, 10, 11],
    },
}


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def lattice(rng, scale):
    """Twelve points with near-ties at any scale, so that the gradient never vanishes."""
    grid = np.array([[i, j] for i in range(4) for j in range(3)], dtype=float)
    y = np.array([0, 1, 2, 1, 0, 0, 2, 2, 1, 0, 1, 2])
    return scale * grid + 0.3 / scale * rng.standard_normal(grid.shape), y


def blobs(rng, n=24, D=4, n_classes=3):
    y = np.arange(n) % n_classes
    return rng.standard_normal((n, D)) + 0.7 * rng.standard_normal((n_classes, D))[y], y


def brute_force(Z, y, i, references, v, priors):
    """p_i by two loops and Bayes' rule as spelled; moderate distances only."""
    density, mass = {}, {}
    for c in np.unique(y):
        members = [j for j in references if j != i and y[j] == c]
        mass[c] = sum(v[j] for j in members)
        kernels = sum(v[j] * exp(-np.sum((Z[i] - Z[j]) ** 2)) for j in members)
        density[c] = kernels / mass[c] if mass[c] > 0 else 0.0
    prior = mass if priors is None else dict(zip(np.unique(y), priors, strict=True))
    evidence = sum(density[c] * prior[c] for c in density)
    return density[y[i]] * prior[y[i]] / evidence


@pytest.mark.parametrize("variant", VARIANTS)
def test_value_matches_bayes_rule_by_loops(rng, variant):
    Z, y = lattice(rng, 1.0)
    kwargs = VARIANTS[variant]
    v = np.asarray(kwargs.get("sample_weight", np.ones(12)))
    priors = kwargs.get("priors")
    priors = [1 / 3] * 3 if isinstance(priors, str) else priors
    q, r = kwargs.get("queries", range(12)), kwargs.get("references", range(12))
    p = np.array([brute_force(Z, y, i, r, v, priors) for i in q])
    weight = v[list(q)]
    assert nca(Z, y, "accuracy", **kwargs)[0] == pytest.approx(-weight @ p / weight.sum())
    counts = p > 0
    expected = -(weight * counts) @ np.log(np.where(counts, p, 1)) / (weight * counts).sum()
    assert nca(Z, y, "log", **kwargs)[0] == pytest.approx(expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradient_matches_finite_differences(rng, objective, scale, variant):
    Z, y = lattice(rng, scale)
    kwargs = VARIANTS[variant]
    _, dZ = nca(Z, y, objective, **kwargs)
    numeric = finite_difference(lambda W: nca(W, y, objective, **kwargs)[0], Z, 1e-4 / scale)
    size = np.abs(dZ).max()
    assert size > 0.01  # near-ties: nothing is compared to zero
    np.testing.assert_allclose(dZ, numeric, rtol=1e-5, atol=1e-6 * size)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradient_at_a_converged_map(rng, objective):
    X, y = blobs(rng)

    def fun(a):
        value, dZ = nca(X @ a.reshape(2, 4).T, y, objective)
        return value + 0.01 * a @ a, (dZ.T @ X).ravel() + 0.02 * a  # the penalty bounds the scale

    start = 0.5 * rng.standard_normal(8)
    end = minimize(fun, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-6})
    assert np.abs(end.jac).max() < 1e-5 < 1e-3 < np.abs(fun(start)[1]).max()
    Z = X @ end.x.reshape(2, 4).T
    _, dZ = nca(Z, y, objective)  # points still pull: only the map is at rest
    assert np.abs(dZ).max() > 1e-3
    numeric = finite_difference(lambda W: nca(W, y, objective)[0], Z, 1e-6)
    np.testing.assert_allclose(dZ, numeric, atol=1e-5 * np.abs(dZ).max())


def hexagon():
    """Side 1, so radius 1; squared distances 1, 3, 4, 3, 1; (z_i - z_j).z_i = d2_ij / 2."""
    angle = np.pi / 3 * np.arange(6)
    return np.c_[np.cos(angle), np.sin(angle)]


def test_six_points_by_hand():
    """Labels a b a b a b: every point is alike, and the gradient is radial.

    Own class: two at d2 = 3.  Others: two at d2 = 1, one at d2 = 4.  w_ij = w_ji, therefore
    z_i.dZ_i = -(1/6) 2 sum_j 2 w_ij d2_ij / 2 = -(1/3) sum_j w_ij d2_ij.
    """
    Z, y = hexagon(), list("ababab")
    own, other = 2 * exp(-3), 2 * exp(-1) + exp(-4)
    p = own / (own + other)
    mean_d2_own = 3
    mean_d2_other = (2 * exp(-1) * 1 + exp(-4) * 4) / other
    for objective, value, slope in [("accuracy", -p, p * (1 - p)), ("log", -log(p), 1 - p)]:
        radial = -slope * (mean_d2_other - mean_d2_own) / 3  # positive: the loss grows outwards
        got, dZ = nca(Z, y, objective)
        assert got == pytest.approx(value, rel=1e-13)
        assert radial > 0
        np.testing.assert_allclose(dZ, radial * Z, rtol=1e-12, atol=1e-15)


def test_six_points_by_hand_in_halves():
    """Labels a a a b b b: points 1 and 4 sit in the middle of their class, four at its ends."""
    Z, y = hexagon(), list("aaabbb")
    own_mid, other_mid = 2 * exp(-1), 2 * exp(-3) + exp(-4)
    own_end, other_end = exp(-1) + exp(-3), exp(-1) + exp(-3) + exp(-4)
    p_mid, p_end = own_mid / (own_mid + other_mid), own_end / (own_end + other_end)
    values = {
        "accuracy": -(2 * p_mid + 4 * p_end) / 6,
        "log": -(2 * log(p_mid) + 4 * log(p_end)) / 6,
    }
    for objective in OBJECTIVES:
        power = 1 if objective == "accuracy" else 0
        s_mid, s_end = p_mid**power * (1 - p_mid), p_end**power * (1 - p_end)
        # sum_j w_1j d2_1j, then sum_j w_j1 d2_j1 over j = 0, 2 (own), 3, 5 and 4 (other)
        outgoing = s_mid * ((2 * exp(-3) * 3 + exp(-4) * 4) / other_mid - 1)
        from_ends = s_end * (2 * exp(-3) / other_end * 3 - 2 * exp(-1) / own_end * 1)
        from_mid = s_mid * exp(-4) / other_mid * 4
        radial = -(outgoing + from_ends + from_mid) / 6  # z_1.dZ_1; sideways cancels by mirror
        got, dZ = nca(Z, y, objective)
        assert got == pytest.approx(values[objective], rel=1e-13)
        np.testing.assert_allclose(dZ[[1, 4]], radial * Z[[1, 4]], rtol=1e-12, atol=1e-15)


def test_far_own_class_and_certain_rows_by_hand():
    """p_0 = exp(-9999) / (1 + exp(-9999)): where exp(-d2) or max(p, eps) loses everything."""
    Z, y = np.array([[0.0], [1.0], [100.0]]), [0, 1, 0]
    value, dZ = nca(Z, y, "log", queries=[0])
    assert value == pytest.approx(100**2 - 1)  # -log p_0 = d2_02 - d2_01 up to exp(-9999)
    np.testing.assert_allclose(dZ, [[2 * (0 - 100) - 2 * (0 - 1)], [2 * (0 - 1)], [2 * 100]])
    Z = np.array([[0.0], [10.0], [1.0]])  # and the other end: 1 - p_0 = exp(-99)
    value, dZ = nca(Z, y, "log", queries=[0])
    assert value == pytest.approx(exp(-99), rel=1e-12, abs=0)
    assert dZ[1, 0] == pytest.approx(-2 * (10 - 0) * exp(-99), rel=1e-12, abs=0)


def test_settled_rows_keep_their_gradient():
    """W = p - p_own, as printed, cancels when p_i -> 1; own and other classes apart do not."""
    for dtype, far, loss in [(np.float32, 10, 1e-4), (np.float32, 20, 0.5), (np.float64, 30, 1e-4)]:
        k = np.exp(-np.array([0.3, 0.5, far], dtype=dtype))
        printed = -(k[0] / k.sum() - k[0] / k[:2].sum())  # eq. (7) without x, as a loss
        Z = np.sqrt([[0.0], [0.3], [0.5], [far]])
        _, dZ = nca(Z, [0, 0, 0, 1], "log", queries=[0])
        own, other = exp(-0.3) + exp(-0.5), exp(-far)
        exact = other / (own + other) * exp(-0.3) / own
        assert abs(printed / exact - 1) > loss
        assert dZ[1, 0] == pytest.approx(exact * 2 * sqrt(0.3), rel=1e-12, abs=0)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_pull_back_equals_printed_gradient(rng, d):
    X, y = blobs(rng)
    A = 0.6 * rng.standard_normal((d, 4))
    printed = dict(zip(OBJECTIVES, nca_gradient_printed(A, X, y), strict=True))
    for objective in OBJECTIVES:
        _, dZ = nca(X @ A.T, y, objective)
        np.testing.assert_allclose(-len(X) * dZ.T @ X, printed[objective], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_matches_scikit_learn(rng, d, scale):
    X, y = blobs(rng, n=60)
    A = scale * rng.standard_normal((d, 4))
    peer = NeighborhoodComponentsAnalysis()
    peer.n_iter_ = np.inf  # read by the method, which prints a header at 0
    total, gradient = peer._loss_grad_lbfgs(A.ravel(), X, y[:, None] == y[None, :])
    value, dZ = nca(X @ A.T, y, "accuracy")
    # theirs is the sum to be maximised (sign=1.0), ours minus the mean
    assert value == pytest.approx(-total / len(X), rel=1e-9)
    expected = -gradient.reshape(d, 4) / len(X)
    np.testing.assert_allclose(dZ.T @ X, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_empirical_priors_with_the_query_left_out(rng, objective):
    """Bayes' rule is plain NCA for p(c) = (N_c - 1)/(N - 1) and N_c/(N - 1): a prior a query."""
    Z, y = lattice(rng, 1.0)
    y = np.where(np.arange(12) < 6, 0, y)  # unbalanced
    n_c = np.bincount(y)
    value, dZ = 0.0, np.zeros_like(Z)
    for i in range(12):
        priors = (n_c - (np.arange(3) == y[i])) / 11
        assert priors.sum() == pytest.approx(1)
        value_i, dZ_i = nca(Z, y, objective, queries=[i], priors=priors)
        value, dZ = value + value_i / 12, dZ + dZ_i / 12
    expected, dZ_expected = nca(Z, y, objective)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(dZ, dZ_expected, rtol=1e-10, atol=1e-14)


def test_fixed_priors_raise_the_odds_of_the_own_class(rng):
    """p(c) = N_c/N during learning is not plain NCA: the odds gain N_c / (N_c - 1)."""
    Z, y = lattice(rng, 1.0)
    n_c = np.bincount(y)
    for i in range(12):
        plain = -nca(Z, y, queries=[i])[0]
        bayes = -nca(Z, y, queries=[i], priors=n_c / 12)[0]
        factor = n_c[y[i]] / (n_c[y[i]] - 1)
        assert bayes / (1 - bayes) == pytest.approx(factor * plain / (1 - plain), rel=1e-12)


def test_fixed_empirical_priors_are_plain_for_held_out_rows(rng):
    Z, y = lattice(rng, 1.0)
    held_out = {"queries": [0, 4, 7], "references": [1, 2, 3, 5, 6, 8, 9, 10, 11]}
    shares = np.bincount(y[held_out["references"]]) / 9
    for objective in OBJECTIVES:
        value, dZ = nca(Z, y, objective, **held_out)
        bayes, dZ_bayes = nca(Z, y, objective, **held_out, priors=shares)
        assert bayes == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(dZ_bayes, dZ, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("priors", [None, "uniform", [0.2, 0.5, 0.3]])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_are_repetitions_that_do_not_see_each_other(rng, objective, priors):
    """v_i copies of row i = weight v_i, if the references of a copy are the rows not equal to it.

    Then the gradient of a weighted row is the sum over its copies.  If the copies do see each
    other, each finds a twin of its own class at distance 0, and the two differ.
    """
    Z, y = lattice(rng, 1.0)
    v = np.array([1, 3, 1, 2, 1, 1, 4, 1, 1, 2, 1, 1])
    origin = np.repeat(np.arange(12), v)
    value, dZ = 0.0, np.zeros_like(Z)
    for copy, i in enumerate(origin):
        others = np.flatnonzero(origin != i)
        term, dZ_copies = nca(Z[origin], y[origin], objective, [copy], others, priors=priors)
        value += term / v.sum()
        np.add.at(dZ, origin, dZ_copies / v.sum())
    weighted, dZ_weighted = nca(Z, y, objective, sample_weight=v, priors=priors)
    assert weighted == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(dZ_weighted, dZ, rtol=1e-10, atol=1e-14)
    assert nca(Z[origin], y[origin], objective, priors=priors)[0] < weighted - 0.01


def test_weights_are_repetitions_of_references_that_are_no_queries(rng):
    Z, y = lattice(rng, 1.0)
    q, r = np.array([0, 4, 7]), np.array([1, 2, 3, 5, 6, 8, 9, 10, 11])
    v = np.array([1, 1, 3, 2, 1, 1, 4, 1, 1, 2, 1, 5])
    repeated = np.repeat(r, v[r])
    for priors in [None, "uniform"]:
        P = posterior(Z[q], Z[r], y[r], priors, v[r])
        np.testing.assert_allclose(P, posterior(Z[q], Z[repeated], y[repeated], priors), rtol=1e-12)
        weight = np.where(np.isin(np.arange(12), q), 1, v)
        value, dZ = nca(Z, y, "log", q, r, weight, priors)
        again, dZ_again = nca(Z, y, "log", q, repeated, priors=priors)
        assert again == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(dZ_again, dZ, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("priors", [None, "uniform", [0.2, 0.5, 0.3]])
def test_posterior_of_the_own_class_is_p_i(rng, priors):
    Z, y = lattice(rng, 1.0)
    q, r = np.array([0, 4, 7]), np.array([1, 2, 3, 5, 6, 8, 9, 10, 11])
    v = rng.uniform(0.5, 2, 12)
    P = posterior(Z[q], Z[r], y[r], priors, v[r])
    np.testing.assert_allclose(P.sum(axis=1), 1)
    for row, i in zip(P, q, strict=True):
        value, _ = nca(Z, y, "accuracy", [i], r, v, priors)
        assert row[y[i]] == pytest.approx(-value, rel=1e-12)
    far = posterior(1e4 + Z[q], Z[r], y[r], priors, v[r])  # no underflow to 0 / 0
    np.testing.assert_allclose(far.sum(axis=1), 1)


def test_value_adds_over_queries(rng):
    Z, y = lattice(rng, 1.0)
    for objective in OBJECTIVES:
        parts = [nca(Z, y, objective, queries=[i]) for i in range(12)]
        value, dZ = nca(Z, y, objective)
        assert value == pytest.approx(np.mean([part[0] for part in parts]), rel=1e-13)
        np.testing.assert_allclose(dZ, np.mean([part[1] for part in parts], axis=0), atol=1e-14)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("variant", ["plain", "weights", "priors"])
def test_invariances(rng, objective, variant):
    Z, y = lattice(rng, 1.0)
    kwargs = dict(VARIANTS[variant])
    value, dZ = nca(Z, y, objective, **kwargs)
    np.testing.assert_allclose(dZ.sum(axis=0), 0, atol=1e-14)  # translations cost nothing
    Q, _ = np.linalg.qr(rng.standard_normal((2, 2)))
    moved, dZ_moved = nca(Z @ Q.T + [3.0, -5.0], y, objective, **kwargs)
    assert moved == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(dZ_moved, dZ @ Q.T, atol=1e-13)
    order = rng.permutation(12)
    names = np.array(["x", "y", "z"])[y]  # the same order as 0, 1, 2
    if "sample_weight" in kwargs:
        kwargs["sample_weight"] = np.asarray(kwargs["sample_weight"])[order]
    shuffled, dZ_shuffled = nca(Z[order], names[order], objective, **kwargs)
    assert shuffled == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(dZ_shuffled, dZ[order], atol=1e-14)


def test_scale_of_weights_and_priors_does_not_matter(rng):
    Z, y = lattice(rng, 1.0)
    v, prior = rng.uniform(0.5, 2, 12), np.array([0.2, 0.5, 0.3])
    value, dZ = nca(Z, y, "log", sample_weight=v, priors=prior)
    again, dZ_again = nca(Z, y, "log", sample_weight=7 * v, priors=3 * prior)
    assert again == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(dZ_again, dZ, atol=1e-14)


@pytest.mark.parametrize("priors", [None, "uniform", [0.2, 0.3, 0.1, 0.4]])
def test_singletons(rng, priors):
    """Accuracy counts them at 0, log leaves them out; as references they push all the same."""
    Z, y = lattice(rng, 1.0)
    y[5] = 3
    rest = np.delete(np.arange(12), 5)
    for objective, n_counting in [("accuracy", 12), ("log", 11)]:
        value, dZ = nca(Z, y, objective, priors=priors)
        without, dZ_without = nca(Z, y, objective, queries=rest, priors=priors)
        assert value == pytest.approx(11 / n_counting * without, rel=1e-13)
        np.testing.assert_allclose(dZ, 11 / n_counting * dZ_without, atol=1e-14)
        assert np.abs(dZ[5]).max() > 1e-3
        alone, dZ_alone = nca(Z, y, objective, queries=[5], priors=priors)
        assert alone == 0.0
        assert not dZ_alone.any()


def test_degenerate_input(rng):
    Z, y = lattice(rng, 1.0)
    for objective, value in [("accuracy", -1.0), ("log", 0.0)]:  # one class: p_i = 1
        got, dZ = nca(Z, np.zeros(12), objective)
        assert (got, dZ.any()) == (value, False)
        got, dZ = nca(Z[:1], y[:1], objective)  # a single row has no reference
        assert (got, dZ.any()) == (0.0, False)
        got, dZ = nca(np.zeros((4, 2)), [0, 0, 1, 1], objective)  # all rows equal: p_i = 1/3
        assert got == pytest.approx(-1 / 3 if objective == "accuracy" else log(3))
        assert not dZ.any()
        got, dZ = nca(Z, y, objective, sample_weight=np.zeros(12))
        assert (got, dZ.any()) == (0.0, False)
    np.testing.assert_array_equal(np.diag(squared_distances(1e8 * Z)), 0)


def test_effective_n_neighbors(rng):
    Z, _ = lattice(rng, 1.0)
    np.testing.assert_allclose(effective_n_neighbors(0 * Z), 11)  # all alike: every other point
    np.testing.assert_allclose(effective_n_neighbors(1e3 * Z), 1)  # far apart: the nearest
    assert effective_n_neighbors(Z[:1]) == [0]
    triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, sqrt(log(3))]])  # point 0: e^-1 and 1/3
    p = exp(-1) / (exp(-1) + 1 / 3)
    by_hand = exp(-p * log(p) - (1 - p) * log(1 - p))
    assert effective_n_neighbors(triangle)[0] == pytest.approx(by_hand, rel=1e-13)
    masses = effective_n_neighbors(triangle, [1.0, exp(1), 3.0])  # both kernels brought to 1
    assert masses[0] == pytest.approx(2, rel=1e-13)


def test_errors(rng):
    Z, y = lattice(rng, 1.0)
    with pytest.raises(ValueError, match=r"objective must be 'accuracy' or 'log'\. Got 'kl'"):
        nca(Z, y, "kl")
    with pytest.raises(ValueError, match="priors must be 3 numbers >= 0"):
        nca(Z, y, priors=[0.5, 0.5])
    with pytest.raises(ValueError, match="priors must be None, 'uniform' or an array"):
        nca(Z, y, priors="empirical")
    with pytest.raises(ValueError, match="sample_weight must be 12 numbers >= 0"):
        nca(Z, y, sample_weight=-np.ones(12))
