"""kSNE and kt-SNE: what is special to them; `tests/contracts` has what all objectives keep to."""

from __future__ import annotations

from itertools import combinations
from math import log

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from common.affinities import some_affinities
from common.checks import assert_close
from common.engines import compiled_only

from vicinal.engines import choose, set_sums
from vicinal.objectives import KSNELoss, ksne
from vicinal.targets import Affinities

each_kernel = pytest.mark.parametrize("kernel", ["cauchy", "gaussian"])


def squared_distances(Z):
    return ((Z[:, None] - Z) ** 2).sum(axis=2)


def log_weights(Z, kernel):
    d2 = squared_distances(Z)
    own = np.eye(len(Z), dtype=bool)
    return np.where(own, -np.inf, -d2 if kernel == "gaussian" else -np.log1p(d2))


def target_of(P, k, entropy=None):
    """Affinities with these marginals."""
    P = sp.csr_array(P)
    entropy = np.zeros(P.shape[0]) if entropy is None else entropy
    return Affinities(P.indptr.astype(np.int64), P.indices.astype(np.int32), P.data, k, entropy)


def plain(Z, target, kernel="cauchy", kappa=0.0, exaggeration=1.0):
    P = target.matrix.toarray()
    value, dZ = formulas.ksne(Z, P, target.k, kernel, kappa, exaggeration=exaggeration)
    return value - target.entropy.mean(), dZ


def assert_matches(Z, k, kernel="cauchy", rtol=1e-10, atol=1e-14, **options):
    """Value and gradient equal the plain formula; returns what the evaluation reports."""
    target, report = some_affinities(len(Z), k), {}
    got = ksne(Z, target, kernel, report=report, **options)
    assert_close(got, plain(Z, target, kernel, **options), rtol, atol)
    return report


# By hand and by enumeration


def test_six_points_by_hand():
    """On a line, d² of the first to the others 1, 2, 4, 6, 10: weights 1/2, 1/3, 1/5, 1/7, 1/11."""
    Z = np.sqrt([[0.0], [1.0], [2.0], [4.0], [6.0], [10.0]])
    P = np.zeros((6, 6))
    P[0, 1:] = p = np.array([0.9, 0.5, 0.3, 0.2, 0.1])
    w = 1 / np.array([2.0, 3, 5, 7, 11])
    sets = [list(s) for s in combinations(range(5), 2)]
    weight = np.array([w[s].prod() for s in sets])
    q = np.array([sum(weight[t] for t, s in enumerate(sets) if j in s) for j in range(5)])
    q /= weight.sum()
    value, dZ = ksne(Z, target_of(P, 2, np.full(6, 0.25)), queries=[0])
    expected = p @ np.log([2, 3, 5, 7, 11]) + log(weight.sum()) - 0.25
    assert value == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(dZ[1:, 0], 2 * (p - q) * w * Z[1:, 0], rtol=1e-12)
    assert dZ[0, 0] == pytest.approx(-dZ[1:, 0].sum(), rel=1e-12)


@each_kernel
@pytest.mark.parametrize("k", [1, 2, 3, 6, 7])
def test_loss_is_the_divergence_of_the_sets(rng, kernel, k):
    """Summed set by set; the sets of all seven others are one set, with nothing to learn."""
    n = 8
    Z, log_w = rng.standard_normal((n, 2)), 1.5 * rng.standard_normal((n, n))
    log_v, P, entropy, divergence = log_weights(Z, kernel), np.zeros((n, n)), np.zeros(n), []
    for i in range(n):
        others = np.delete(np.arange(n), i)
        sets = [others[list(s)] for s in combinations(range(n - 1), k)]
        p, q = (np.array([row[i, s].sum() for s in sets]) for row in (log_w, log_v))
        p, q = p - np.logaddexp.reduce(p), q - np.logaddexp.reduce(q)
        for s, log_p in zip(sets, p, strict=True):
            P[i, s] += np.exp(log_p)
        entropy[i] = -np.exp(p) @ p
        divergence.append(np.exp(p) @ (p - q))
    value, dZ = ksne(Z, target_of(P, k, entropy), kernel)
    assert value == pytest.approx(np.mean(divergence), rel=1e-11, abs=1e-13)
    if k == n - 1:
        np.testing.assert_allclose(dZ, 0, atol=1e-13)


@pytest.mark.parametrize("n", [40, 700])
def test_one_neighbour_is_row_wise_sne_and_t_sne(rng, n):
    """The gradients as they stand in the papers on SNE and t-SNE, with rows that add up to one."""
    Z, target = rng.standard_normal((n, 2)), some_affinities(n, 1)
    P = target.matrix.toarray()
    difference, d2 = Z[:, None] - Z, squared_distances(Z)
    for kernel, w in [("gaussian", np.exp(-d2)), ("cauchy", 1 / (1 + d2))]:
        np.fill_diagonal(w, 0.0)
        Q = w / w.sum(axis=1, keepdims=True)
        attract = P - Q + P.T - Q.T
        pull = attract if kernel == "gaussian" else attract * w
        expected = 2 / n * np.einsum("ij,ijc->ic", pull, difference)
        some = P > 0
        divergence = np.sum(P[some] * np.log(P[some] / Q[some])) / n
        report = {}
        got = ksne(Z, target, kernel, report=report)
        assert_close(got, (divergence, expected), 1e-11)
        if kernel == "cauchy":
            assert report["chain_rows"] == 0


# Where Newton's identities cancel


def test_isolated_pairs_and_points_go_to_the_chain(rng):
    """A near twin carries nearly all weight of its row, so that e_2 is a difference of equals."""
    Z = 30 * rng.standard_normal((200, 2))
    Z[:10] = 1e4 * rng.standard_normal((10, 2))
    Z[10:20] = Z[:10] + 1e-3  # pairs, far from all others
    Z[20:24] = 1e7 * rng.standard_normal((4, 2))  # and single points
    for k in (2, 5, 10):
        report = assert_matches(Z, k)
        assert 20 <= report["chain_rows"] < 200


def test_no_chain_where_the_identities_are_safe(rng):
    Z = rng.standard_normal((300, 2))
    assert assert_matches(Z, 5)["chain_rows"] == 0


@pytest.mark.parametrize("apart", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_clusters_smaller_than_the_sets(rng, k, apart):
    """Sets must reach into other clusters, whose weights are apart**-2 of those nearby."""
    centres = apart * rng.standard_normal((30, 2))
    Z = np.repeat(centres, 4, axis=0) + 0.1 * rng.standard_normal((120, 2))
    assert_matches(Z, k)


@each_kernel
@pytest.mark.parametrize("n", [7, 90])
def test_all_points_equal(kernel, n):
    """Every set has the same chance: log e_k is log C(n - 1, k), and nothing moves."""
    from scipy.special import comb

    for k in (1, 3, n - 1):
        target = some_affinities(n, k)
        value, dZ = ksne(np.full((n, 2), 7.3), target, kernel)
        expected = np.log(comb(n - 1, k)) - target.entropy.mean()
        assert value == pytest.approx(expected, rel=1e-11, abs=1e-11)
        np.testing.assert_allclose(dZ, 0, atol=1e-13)


@each_kernel
@pytest.mark.parametrize("k", [11, 10, 9])
def test_nearly_all_references(rng, kernel, k):
    """Of twelve rows; k = 11 is the only set there is."""
    for scale in (0.1, 1.0, 5.0):
        assert_matches(scale * rng.standard_normal((12, 2)), k, kernel, atol=1e-11)


@each_kernel
def test_few_references_for_some_of_the_queries(rng, kernel):
    """A query that is a reference has one reference less than the others, and counts as alone."""
    Z, target = rng.standard_normal((9, 2)), some_affinities(9, 3)
    for m in range(1, 6):
        references = rng.permutation(9)[:m]
        report = {}
        value, dZ = ksne(Z, target, kernel, references=references, report=report)
        parts = [i for i in range(9) if m > 1 or i not in references]
        assert report["left_out"] == 9 - len(parts)
        one_by_one = [ksne(Z, target, kernel, [i], references) for i in parts]
        expected = [np.mean([part[field] for part in one_by_one], axis=0) for field in (0, 1)]
        assert abs(value) > 0.1
        assert_close((value, dZ), expected, 1e-11)
        P = target.matrix.toarray()
        for i, got in zip(parts, one_by_one, strict=True):
            others = references[references != i]
            query = np.array([i])
            value, dZ = formulas.ksne(Z, P, min(3, len(others)), kernel, 0.0, query, others)
            assert_close(got, (value - target.entropy[i], dZ), 1e-10, 1e-14)
    for rows in ({"queries": [4], "references": [4]}, {"references": []}):
        value, dZ = ksne(Z, target, kernel, **rows)
        assert (value, dZ.any()) == (0.0, False)


def test_large_k(rng):
    """Binomials of thousands over hundreds leave the range of floats unless they are scaled."""
    Z = rng.standard_normal((400, 2))
    for k in (60, 200):
        target, q = some_affinities(400, 3), np.arange(3)
        target = Affinities(target.indptr, target.indices, target.marginals, k, target.entropy)
        got = ksne(Z, target, queries=q)
        P = target.matrix.toarray()
        value, dZ = formulas.ksne(Z, P, k, queries=q)
        assert_close(got, (value - target.entropy[q].mean(), dZ), 1e-9)


@pytest.mark.parametrize("scale", [10.0, 100.0])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_gaussian_at_large_scales(rng, scale, k):
    """Weights differ by thousands of orders; d² is known to a rounding, and so is log w."""
    Z = scale * rng.standard_normal((60, 2))
    assert_matches(Z, k, "gaussian", rtol=1e-12 + 1e-14 * k * scale**2)


@each_kernel
def test_twins_and_a_far_outlier(rng, kernel):
    Z = rng.standard_normal((80, 3))
    Z[40:60], Z[3] = Z[:20], 1e3
    for k in (1, 2, 5):
        assert_matches(Z, k, kernel, rtol=1e-8)


@each_kernel
def test_constant_of_uni_sne(rng, kernel):
    for kappa in (1e-9, 0.01, 3.0, 1e6):
        for scale in (0.3, 20.0, 1e4):
            report = assert_matches(
                scale * rng.standard_normal((50, 2)), 4, kernel, kappa=kappa, rtol=1e-9
            )
            assert np.isfinite(report["chain_rows"])


# The chain as a function of its own


@compiled_only
@each_kernel
@pytest.mark.parametrize("kappa", [0.0, 0.1])
def test_chain_of_some_rows(rng, engine, kernel, kappa):
    """Whatever the rows, safe or not: log e_k, and its gradient by all points."""
    from vicinal.engines.cpu.sets import TileSets, chain_rows

    Z = 3 * rng.standard_normal((150, 2))
    Z[:6], everyone = 1e3 * rng.standard_normal((6, 2)), np.arange(150)
    for k, rows in [(1, np.array([0, 7])), (5, rng.permutation(150)[:31]), (9, everyone)]:
        factors = rng.uniform(0.2, 1, len(rows))
        log_total, dZ = chain_rows(Z, rows, k, kernel, kappa, everyone, factors)
        other = TileSets(Z, k, kernel, kappa, everyone, everyone)
        np.testing.assert_allclose(log_total, other.sums()[rows], rtol=1e-12)
        every_factor = np.zeros(150)
        every_factor[rows] = factors
        expected = other.pull(every_factor)
        np.testing.assert_allclose(dZ, expected, atol=1e-11 * np.abs(expected).max())


# Parameters


def test_exaggeration_is_a_factor_of_the_attraction(rng):
    Z, target = rng.standard_normal((30, 2)), some_affinities(30, 3)
    values, gradients = zip(
        *(ksne(Z, target, exaggeration=factor) for factor in (1.0, 2.0, 5.0)), strict=True
    )
    assert values[2] - values[0] == pytest.approx(4 * (values[1] - values[0]), rel=1e-12)
    np.testing.assert_allclose(
        gradients[2] - gradients[0], 4 * (gradients[1] - gradients[0]), atol=1e-15
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, r"'k' parameter of KSNELoss must be an int in \[1, inf\)\. Got 0"),
        ({"k": 2.0}, r"'k' parameter of KSNELoss must be an int .* Got 2\.0"),
        ({"kernel": "student"}, r"'kernel' .* must be one of 'cauchy', 'gaussian'\. Got 'student'"),
        ({"kappa": -0.1}, r"'kappa' .* must be a float in \[0, inf\)\. Got -0\.1"),
        ({"kappa": "big"}, r"'kappa' .* must be a float in \[0, inf\)\. Got 'big'"),
        ({"kappa": np.nan}, r"'kappa' .* must be a float in \[0, inf\)\. Got nan"),
        ({"exaggeration": 0}, r"'exaggeration' .* must be a float in \(0, inf\)\. Got 0"),
        ({"exaggeration": np.inf}, r"'exaggeration' .* a float in \(0, inf\)\. Got inf"),
        ({"method": "tree"}, r"'method' .* must be one of 'auto', 'exact', 'fft'\. Got 'tree'"),
    ],
)
def test_wrong_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        KSNELoss(**options)


def test_wrong_targets_are_named(rng):
    Z, target = rng.standard_normal((20, 2)), some_affinities(20, 3)
    with pytest.raises(ValueError, match=r"'k' .* that of the affinities, 3\. Got 5 instead"):
        KSNELoss(5)(Z, target)
    with pytest.raises(TypeError, match="'affinities' parameter of ksne must be Affinities"):
        ksne(Z, np.arange(20))
    with pytest.raises(TypeError, match="'pairs' parameter of ksne must be None"):
        KSNELoss(3)(Z, target, pairs=[])


@pytest.mark.parametrize(
    "options", [{"kernel": "gaussian"}, {"kappa": 0.1}, {"queries": [0, 1]}, {"d": 3}]
)
def test_interpolation_is_refused_where_it_is_not_for(rng, options):
    options = dict(options)
    Z = rng.standard_normal((20, options.pop("d", 2)))
    with pytest.raises(ValueError, match="method='fft' of KSNE needs the kernel 'cauchy'"):
        ksne(Z, some_affinities(20, 3), method="fft", **options)


def test_engine_goes_by_the_size(monkeypatch):
    monkeypatch.setattr(choose, "DENSE_UP_TO", 500)
    monkeypatch.setattr(set_sums, "FFT_FROM", 3000)
    for n, options, expected in [
        (500, {}, "dense"),
        (501, {}, "tiles"),
        (3000, {}, "tiles"),
        (3001, {}, "fft"),
        (3001, {"method": "exact"}, "tiles"),
        (3001, {"kernel": "gaussian"}, "tiles"),
        (3001, {"kappa": 0.1}, "tiles"),
        (3001, {"d": 3}, "tiles"),
        (3001, {"everything": False}, "tiles"),
        (100, {"method": "fft"}, "fft"),
    ]:
        options = {"d": 2, "kernel": "cauchy", "kappa": 0.0, **options}
        assert set_sums.set_sums_engine(n, **options) == expected
