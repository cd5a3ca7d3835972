"""NCA with a normal background in each class: value, gradient, limits, posterior, its share."""

from __future__ import annotations

import warnings

import formulas
import numpy as np
import pytest
from common.engines import engine  # noqa: F401

from vicinal.densities import Compact, Gaussian, Laplace, Student, resolve
from vicinal.objectives import background_weights, em_background, nca, nca_posterior
from vicinal.objectives.background import Normals
from vicinal.targets import Labels

OBJECTIVES = ["accuracy", "log"]
PRIORS = [None, [0.2, 0.5, 0.3]]
BETA = np.array([0.3, 0.05, 0.7])
KERNELS = {"gaussian": Gaussian(), "student": Student(), "compact": Compact()}


def points(rng, n=24, d=2, scale=1.0, n_classes=3):
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return scale * (rng.standard_normal((n, d)) + rng.standard_normal((n_classes, d))[y]), y


def assert_matches(Z, y, objective, rtol=1e-9, kernel="gaussian", beta=BETA, **options):
    rows = {name: options.pop(name, None) for name in ("queries", "references")}
    labels = Labels(y, options.get("sample_weight"), options.get("priors"))
    value, dZ = nca(Z, labels, objective, **rows, kernel=KERNELS[kernel], background=beta)
    expected, dZ_expected = formulas.nca_background(
        Z, y, beta, objective, **rows, **options, kernel=kernel
    )
    assert dZ.dtype == Z.dtype
    assert value == pytest.approx(expected, rel=rtol, abs=1e-15)
    size = np.abs(dZ_expected).max()
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + 1e-30)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_gradient_matches_finite_differences(rng, objective, kernel):
    v, rows = rng.uniform(0.5, 2, 10), {"queries": np.arange(7), "references": np.arange(2, 10)}
    options = {"kernel": KERNELS[kernel], "background": BETA, "warn": False, **rows}
    for d, scale in ((2, 0.5), (2, 2.0), (5, 0.4)):  # the last: fewer rows than dimensions
        Z, y = points(rng, 10, d, scale)
        for labels in (Labels(y), Labels(y, v, PRIORS[1])):
            _, dZ = nca(Z, labels, objective, **options)
            expected = formulas.finite_difference(
                lambda Z, labels=labels: nca(Z, labels, objective, **options, gradient=False)[0], Z
            )
            size = np.abs(expected).max()
            np.testing.assert_allclose(dZ, expected, rtol=0, atol=3e-6 * size + 1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("priors", PRIORS)
def test_matches_reference(rng, objective, scale, priors, kernel):
    for d in (1, 3, 7):  # in the last no class has more rows than dimensions
        Z, y = points(rng, 18, d, scale / np.sqrt(d))
        v = rng.uniform(0.1, 3, 18)
        v[:3] = 0.0
        assert_matches(Z, y, objective, kernel=kernel, priors=priors, sample_weight=v)
    assert_matches(Z, y, objective, kernel=kernel, priors=priors)


@pytest.mark.filterwarnings("ignore:[0-9]+ rows have no other member")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("priors", PRIORS)
def test_queries_and_references(rng, objective, priors):
    Z, y = points(rng, 30)
    v = rng.uniform(0.1, 3, 30)
    options = {"priors": priors, "sample_weight": v}
    some, rest = np.arange(12), np.arange(12, 30)
    assert_matches(Z, y, objective, queries=some, references=rest, **options)  # held out
    assert_matches(Z, y, objective, queries=some, **options)
    assert_matches(Z, y, objective, queries=rest[::-1], references=rng.permutation(30)[:20])
    y[rest[y[rest] == 2]] = 1  # a class that the references do not show
    assert_matches(Z, y, objective, queries=some, references=rest, **options)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("priors", PRIORS)
def test_class_of_one(rng, objective, priors):
    Z, y = points(rng, 20, n_classes=2)
    y[5] = 2  # nobody else: it cannot be right, and remains a reference
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_matches(Z, y, objective, priors=priors)
        # as a query that is no reference a row may be right by the one that there is
        y[6] = 2
        rows = {"queries": np.arange(6), "references": np.arange(6, 20)}
        assert_matches(Z, y, objective, priors=priors, **rows)
    if objective == "log":
        y[6] = 0
        with pytest.warns(UserWarning, match="1 rows have no other member"):
            nca(Z, y, background=BETA)


@pytest.mark.nojit
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("priors", PRIORS)
def test_no_background_is_kernel_nca(rng, kernel, priors):
    Z, y = points(rng, 40, scale=0.2)
    labels, part = Labels(y, rng.uniform(0.1, 3, 40), priors), KERNELS[kernel]
    for objective in OBJECTIVES if kernel != "compact" else ["accuracy"]:
        value, dZ = nca(Z, labels, objective, kernel=part)
        for beta, rtol in ((0.0, 0.0), (1e-12, 1e-8)):
            mixed, dZ_mixed = nca(Z, labels, objective, kernel=part, background=np.full(3, beta))
            assert mixed == pytest.approx(value, rel=rtol, abs=0)
            np.testing.assert_allclose(dZ_mixed, dZ, rtol=0, atol=rtol * np.abs(dZ).max())
    P = nca_posterior(Z[:9], Z, labels, part)
    mixed = nca_posterior(Z[:9], Z, labels, part, background=np.zeros(3))
    np.testing.assert_array_equal(mixed, P)


def test_no_background_out_of_range(rng):
    Z, y = points(rng, 20, scale=30.0)  # nobody reaches anybody
    value, dZ = nca(Z, y, "accuracy", kernel=Compact(), background=np.zeros(3))
    assert value == nca(Z, y, "accuracy", kernel=Compact())[0]
    assert not dZ.any()
    with pytest.raises(ValueError, match="needs a kernel that reaches everywhere"):
        nca(Z, y, "log", kernel=Compact(), background=[0.1, 0.0, 0.1])
    # with one, the value is that of the normals alone
    normal = formulas.nca_background(Z, y, np.full(3, 0.5), "log", kernel="compact")[0]
    value, dZ = nca(Z, y, "log", kernel=Compact(), background=np.full(3, 0.01))
    assert value == pytest.approx(normal, rel=1e-9)
    assert np.abs(dZ).max() > 0


def plain_posterior(new, Z, y, v, priors, beta, kernel):
    prior = [v[y == c].sum() for c in range(3)] if priors is None else priors
    normals, _ = formulas.class_normals(Z, v, y, 3)
    joint = np.empty((len(new), 3))
    for i, z in enumerate(new):
        for c in range(3):
            parts = formulas.mixture_densities(z, Z[y == c], v[y == c], normals[c], None, kernel)
            joint[i, c] = prior[c] * (beta[c] * parts[0] + (1 - beta[c]) * parts[1])
    return joint / joint.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("priors", PRIORS)
def test_posterior(rng, priors, kernel):
    Z, y = points(rng, 40)
    new, v = 2 * rng.standard_normal((15, 2)), rng.uniform(0.1, 3, 40)
    labels = Labels(y, v, priors)
    P = nca_posterior(new, Z, labels, KERNELS[kernel], background=BETA)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-14)
    expected = plain_posterior(new, Z, y, v, priors, BETA, kernel)
    np.testing.assert_allclose(P, expected, rtol=1e-9)
    single = nca_posterior(
        new.astype("f4"), Z.astype("f4"), labels, KERNELS[kernel], background=BETA
    )
    np.testing.assert_allclose(single, P, atol=1e-4)
    for far in (1e3, 1e30, 1e90):
        P = nca_posterior(far * new, Z, labels, KERNELS[kernel], background=BETA)
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-14)


def test_posterior_of_a_held_out_row_is_its_loss(rng):
    Z, y = points(rng, 40)
    queries, references = np.arange(10), np.arange(10, 40)
    P = nca_posterior(Z[queries], Z[references], y[references], background=BETA)
    value, _ = nca(Z, y, "accuracy", queries, references, background=BETA)
    assert value == pytest.approx(-P[queries, y[queries]].mean(), rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e3, 1e8, 1e30, 1e90])
def test_finite_at_any_scale(rng, objective, scale, kernel):
    Z, y = points(rng, 30, 3, scale)
    for rows in ({}, {"queries": np.arange(8), "references": np.arange(8, 30)}):
        args = {"kernel": KERNELS[kernel], "background": BETA, **rows}
        value, dZ = nca(Z, y, objective, **args)
        assert np.isfinite(value)
        assert np.isfinite(dZ).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_finite_far_from_everyone(rng, objective, kernel):
    Z, y = points(rng, 30)
    Z[4] += 1e4  # held out: neither a kernel nor a normal reaches it
    rows = {"queries": np.arange(8), "references": np.arange(8, 30)}
    value, dZ = nca(Z, y, objective, kernel=KERNELS[kernel], background=BETA, **rows)
    assert np.isfinite(value)
    assert np.isfinite(dZ).all()
    if objective == "log":  # it is not forgotten by the gradient either
        assert np.abs(dZ[4]).max() > 0
    Z[:] = Z[0]  # and all in one place
    assert np.isfinite(nca(Z, y, objective, kernel=KERNELS[kernel], background=BETA)[1]).all()


def test_background_explains_what_is_out_of_reach(rng):
    # a straggler of class 0 near the middle of class 1's scatter, far from all kernels
    Z = np.concatenate([6 * rng.standard_normal((30, 2)), 60 + 0.1 * rng.standard_normal((30, 2))])
    y = np.repeat([0, 1], 30)
    value, _ = nca(30 * Z, y, "log", background=background_weights([30, 30]))
    assert value < 0.1


def test_weights_of_the_background():
    np.testing.assert_allclose(background_weights([4, 9], "count"), [0.2, 0.1])
    np.testing.assert_allclose(background_weights([4, 9], "em"), [0.2, 0.1])
    np.testing.assert_allclose(background_weights([4, 9], 0.3), [0.3, 0.3])
    assert background_weights([0])[0] < 1
    for bad in (0.0, 1.0, -1, "counts", None, np.nan):
        with pytest.raises(ValueError, match="'beta' parameter of background_weights must be"):
            background_weights([4, 9], bad)


def own_densities(Z, y, v, kernel):
    """Normal and kernel density of each row in its class, (2, n), the row left out."""
    densities = np.zeros((2, len(y)))
    normals, _ = formulas.class_normals(Z[v > 0], v[v > 0], y[v > 0], 3)
    for i, c in enumerate(y):
        rows = np.flatnonzero((y == c) & (v > 0))
        left_out = int(np.flatnonzero(rows == i)[0]) if i in rows else None
        densities[:, i] = formulas.mixture_densities(
            Z[i], Z[rows], v[rows], normals[c], left_out, kernel
        )
    return densities


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_em_never_lowers_the_likelihood(rng, kernel, weighted):
    Z, y = points(rng, 45)
    v = rng.uniform(0, 2, 45) if weighted else np.ones(45)
    labels = Labels(y, v if weighted else None, [0.1, 0.1, 0.8])
    normal, kernels = own_densities(Z, y, v, kernel)

    def likelihood(beta):
        return np.bincount(y, v * np.log(beta[y] * normal + (1 - beta[y]) * kernels))

    beta = BETA
    for _ in range(4):
        new = em_background(Z, labels, beta, kernel=KERNELS[kernel])
        assert (likelihood(new) >= likelihood(beta)).all()
        beta = new
    many = em_background(Z, labels, BETA, kernel=KERNELS[kernel], steps=4)
    np.testing.assert_allclose(many, beta, rtol=1e-12)
    best = likelihood(em_background(Z, labels, BETA, kernel=KERNELS[kernel], steps=2000))
    for share in np.linspace(0.01, 0.99, 12):
        assert (likelihood(np.full(3, share)) <= best + 1e-5).all()


def test_em_step_by_hand(rng):
    Z, y = points(rng, 30)
    queries, references = np.arange(20), np.arange(8, 30)  # some are both
    new = em_background(Z, y, BETA, queries, references)
    normals, _ = formulas.class_normals(Z[references], np.ones(22), y[references], 3)
    for c in range(3):
        rows, shares = references[y[references] == c], []
        for i in queries[y[queries] == c]:
            left_out = int(np.flatnonzero(rows == i)[0]) if i in rows else None
            v = np.ones(len(rows))
            parts = formulas.mixture_densities(Z[i], Z[rows], v, normals[c], left_out)
            parts = np.array(parts) * [BETA[c], 1 - BETA[c]]
            shares.append(parts[0] / parts.sum())
        assert new[c] == pytest.approx(np.mean(shares), rel=1e-10)


def test_em_at_the_edges(rng):
    Z, y = points(rng, 20, n_classes=2)
    y[3] = 2
    beta = em_background(Z, y, BETA)
    assert beta[2] == BETA[2]  # nobody to learn from
    assert em_background(1e6 * Z, y, BETA)[:2] == pytest.approx(1 - 1e-6)
    assert em_background(Z, y, [0.0, 0.1, 0.1])[0] == 0
    none = np.empty(0, dtype=int)
    np.testing.assert_array_equal(em_background(Z, y, BETA, none), BETA)
    with pytest.raises(ValueError, match="'queries' parameter of em_background must lie"):
        em_background(Z, y, BETA, [99])
    with pytest.raises(ValueError, match="20 rows but there are 19 labels"):
        em_background(Z, y[1:], BETA)


def covariances(Z, codes, weight=None):
    """The shrunk covariances, from the whiteners."""
    weight = np.ones(len(Z)) if weight is None else weight
    normals = Normals(Z, codes, weight, codes.max() + 1)
    return [np.linalg.inv(W.T @ W) for W in normals.whitener]


def test_shrinkage_leaves_large_classes_alone(rng):
    Z = rng.standard_normal((5000, 3)) * [1.0, 2.0, 0.5]
    Z[:2500, 0] *= 3.0
    shrunk = covariances(Z, np.repeat([0, 1], 2500))
    for part, covariance in zip((Z[:2500], Z[2500:]), shrunk, strict=True):
        np.testing.assert_allclose(covariance, np.cov(part.T, bias=True), atol=0.02)


def test_shrinkage_is_that_of_further_rows(rng):
    # two classes of the same spread: d + 1 rows of the common covariance change nothing
    Z, d = rng.standard_normal((12, 2)), 2
    S = np.cov(Z.T, bias=True)
    pooled = (1 - 3 / 25) * S + 3 / 25 * np.trace(S) / d * np.eye(d)
    expected = (12 * S + 3 * pooled) / 15 + 1e-6 * (np.trace(S) / d + 1) * np.eye(d)
    for covariance in covariances(np.concatenate([Z, Z + 7.0]), np.repeat([0, 1], 12)):
        np.testing.assert_allclose(covariance, expected, rtol=1e-9)
    # a row of next to no weight does not count as one
    weight, codes = np.array([1.0, 1e-12, 1.0, 1.0]), np.array([0, 0, 1, 1])
    S = 2 / 3 * np.cov(Z[2:4].T, bias=True)  # within both classes
    pooled = 1 / 4 * S + 3 / 4 * np.trace(S) / d * np.eye(d)
    one, _ = covariances(Z[:4], codes, weight)
    np.testing.assert_allclose(one, 3 / 4 * pooled + 1e-6 * np.eye(d), rtol=1e-6, atol=1e-9)


def test_a_constant_column_of_a_class_is_no_peak(rng):
    """A class without spread in a direction takes that of the others, not a ridge of 1e-6."""
    Z, codes = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], 20)
    Z[:20, 1] = 0.3
    first, *_ = covariances(Z, codes)
    pooled = np.mean([np.var(Z[codes == c, 1]) for c in range(3)])
    assert first[1, 1] == pytest.approx(4 / 24 * pooled, rel=0.1)
    value, _ = nca(Z, codes, "log", kernel=Compact(), background=np.full(3, 0.05))
    assert value < 3.0  # a row off the constant is unlikely in that class, not impossible


@pytest.mark.parametrize(
    "bad", [[0.1, 0.1], [0.1, 0.1, 1.0], [0.1, -0.1, 0.1], [0.1, np.nan, 0.1], "em"]
)
def test_bad_background(rng, bad):
    Z, y = points(rng, 12)
    message = "'background' parameter of {} must be 3 numbers in"
    with pytest.raises(ValueError, match=message.format("nca")):
        nca(Z, y, background=bad)
    with pytest.raises(ValueError, match=message.format("nca_posterior")):
        nca_posterior(Z, Z, y, background=bad)
    with pytest.raises(ValueError, match=message.format("em_background")):
        em_background(Z, y, bad)


def test_kernels_by_name_and_their_parameters():
    assert resolve("compact") == Compact(background=True, beta="count")
    assert resolve("gaussian") == Gaussian() == Gaussian(background=False)
    assert resolve(Student(beta=0.1)) == Student(beta=0.1)
    with pytest.raises(ValueError, match="'kernel' parameter of KNCA must be a str among"):
        resolve("cauchy", "KNCA")
    with pytest.raises(TypeError, match="'kernel' parameter of NCA must be a str among"):
        resolve(Compact)
    with pytest.raises(ValueError, match="'beta' parameter of Compact must be a float in"):
        Compact(beta=1.0)
    with pytest.raises(ValueError, match=r"\(0, 1\) or 'count' or 'em' or 'gradient'. Got 'auto'"):
        Gaussian(beta="auto")
    with pytest.raises(ValueError, match="'background' parameter of Student must be True or False"):
        Student(background="em")


@pytest.mark.parametrize("kernel", [Gaussian(), Student(), Laplace(), Compact()])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_kernel_integrals(kernel, d):
    name = type(kernel).__name__.lower()
    at_zero, _ = formulas.kernel_density(name, 0.0, d)  # kappa(0) = 1
    assert np.exp(-kernel.log_integral(d)) == pytest.approx(at_zero, rel=1e-12)
    # over shells: surface of the unit sphere times u^(d-1), with u = t / (1 - t)
    t = (np.arange(200_000) + 0.5) / 200_000
    u = t / (1 - t)
    sphere = {1: 2.0, 2: 2 * np.pi, 3: 4 * np.pi}[d]
    k, _ = formulas.kernel_density(name, u**2, d)
    assert np.mean(sphere * u ** (d - 1) * k / (1 - t) ** 2) == pytest.approx(1, abs=1e-4)
