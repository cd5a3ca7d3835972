"""Engines of soft matches and of means of charges: dense, compiled, over samples, in parts."""

from __future__ import annotations

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import assert_close
from common.clouds import all_rows, lists_of
from threadpoolctl import threadpool_limits

from vicinal.core.types import EvaluationSize, PairCost
from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.base import Data, merge, merge_means
from vicinal.engines.dense.matches import DenseChargedSums, DenseMatchSums
from vicinal.neighborhoods import Nearest, RandomPairs
from vicinal.objectives import MatchLoss, MLKRLoss, NCALoss, mlkr, nca_matches
from vicinal.targets import LabelDistributions, Labels, Matches, NearNumbers, Numbers

KERNELS = [Gaussian(), Student(), Laplace()]
N = 90


def cloud(rng, scale, n=N):
    """Points with twins and a far outlier, and a class of one row."""
    Z, y = rng.standard_normal((n, 3)), rng.integers(0, 4, n)
    y[0], Z[10:14], Z[30] = 4, Z[20:24], 40.0
    return scale * Z, y


def some_matches(rng, n):
    return rng.uniform(size=(n, n)) * (rng.uniform(size=(n, n)) < 0.05)


def targets(rng, y):
    n, weight = len(y), rng.uniform(0.1, 1.0, len(y))
    numbers = rng.standard_normal((n, 2))
    numbers[7] = 30.0  # matches nobody, or to a degree that underflows
    partners = some_matches(rng, n)
    return {
        "distributions": LabelDistributions(rng.dirichlet(np.full(5, 0.3), n), weight),
        "labels": LabelDistributions(np.eye(5)[y]),
        "partners": Matches(partners, weight),
        "near": NearNumbers(numbers, 0.4, sample_weight=weight),
        "hard": NearNumbers(numbers[:, 0], 0.3, hard=True),
        "one": Numbers(numbers[:, 0]),
        "two": Numbers(numbers, weight),
    }


def loss_for(target, kind="log", kernel=KERNELS[0]):
    return MLKRLoss(kernel) if type(target) is Numbers else MatchLoss(kind, kernel)


@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["log", "accuracy"])
def test_dense_and_compiled_engines_agree(rng, monkeypatch, kind, kernel, scale):
    Z, y = cloud(rng, scale)
    rows = {"queries": rng.permutation(N)[:45], "references": rng.permutation(N)[:60]}
    # the rounding of squared distances, in the weights of the farthest points
    rtol = 1e-11 + 8 * np.finfo(float).eps * np.max(np.sum(Z**2, axis=1))
    for target in targets(rng, y).values():
        loss = loss_for(target, kind, kernel)
        for some in ({}, rows):
            with monkeypatch.context() as patch:
                patch.setattr(choose, "DENSE_UP_TO", N)
                dense = loss(Z, target, **some)
                patch.setattr(choose, "DENSE_UP_TO", 0)
                compiled = loss(Z, target, **some)
            listed = loss(Z, target, pairs=all_rows(N), **some)
            engines = [found.facts["engine"] for found in (dense, compiled, listed)]
            assert engines == ["dense", "blocks", "lists"]
            for found in (compiled, listed):
                assert_close(found[:2], dense[:2], rtol, 1e-15)  # of differences of ones
                assert found.facts["left_out"] == dense.facts["left_out"]


@pytest.mark.parametrize("dense_up_to", [500, 0])
def test_twins_that_match_with_the_rest_far_away(monkeypatch, dense_up_to):
    """Beside a match at no distance, the sum over the rest is less than the least number."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", dense_up_to)
    Z = np.array([[0.0], [0.0], [26.7], [26.7], [53.5], [80.3]])
    y = np.array([0, 0, 1, 1, 0, 1])
    for target in [LabelDistributions(np.eye(2)[y]), Matches(y[:, None] == y),
                   NearNumbers(y, 0.5, hard=True)]:  # fmt: skip
        for kind in ("log", "accuracy"):
            expected = NCALoss(kind)(Z, Labels(y))
            assert_close(MatchLoss(kind)(Z, target)[:2], expected[:2], 1e-11)


def far_ties():
    """Targets of rows at -s, 0 and s, and log m of the first two rows and of the last two."""

    def logs(values, width):
        return -(np.diff(values) ** 2) / (2 * width**2)

    T = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    values = np.array([0.0, 1.0, 3.0])
    M = sp.csr_array(T @ T.T)
    return [
        (LabelDistributions(T), np.log([0.9, 0.1])),
        (Matches(M), np.log([0.9, 0.1])),
        (NearNumbers(values, 1.0), logs(values, 1.0)),
        (NearNumbers(values, 0.3), logs(values, 0.3)),
        (NearNumbers(values, 0.01), logs(values, 0.01)),
    ]


@pytest.mark.parametrize("engine", ["dense", "blocks", "lists"])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplace()])
def test_matches_count_however_far_the_points_are(monkeypatch, kernel, engine):
    """The energy of a pair may be so large that the sum with that of its match loses the match."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", 0 if engine == "blocks" else 500)
    pairs = all_rows(3) if engine == "lists" else None
    Z = np.array([[-1.0], [0.0], [1.0]])
    for target, log_m in far_ties():
        tie = np.logaddexp(*log_m) - np.log(2.0)  # the row in the middle picks either end
        expected = {"log": -np.mean([*log_m, tie]), "accuracy": -np.mean(np.exp([*log_m, tie]))}
        for kind in ("log", "accuracy"):
            loss, forces = MatchLoss(kind, kernel), []
            scales = [1e2, 1e5, 1e7, 1e9, 1e12, 1e15, 1e16, 1e19, 1e40, 1e99]
            for scale, dtype in [*((s, np.float64) for s in scales), (1e3, "f4"), (1e5, "f4")]:
                found = loss((scale * Z).astype(dtype), target, pairs=pairs)
                assert found.facts["engine"] == engine
                assert found.value == pytest.approx(
                    expected[kind], rel=1e-5 if dtype == "f4" else 1e-11
                )
                forces.append(found.dZ / scale if kernel == Gaussian() else found.dZ)
            np.testing.assert_allclose(forces[:-2], [forces[0]] * 10, rtol=1e-9, atol=1e-15)
            np.testing.assert_allclose(forces[-2:], [forces[0]] * 2, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("engine", ["dense", "blocks", "lists"])
@pytest.mark.parametrize("scale", [1e2, 1e9, 1e15, 1e30])
def test_machines_may_exchange_sums_over_far_points(monkeypatch, engine, scale):
    monkeypatch.setattr(choose, "DENSE_UP_TO", 0 if engine == "blocks" else 500)
    Z, rows = scale * np.array([[-1.0], [0.0], [1.0]]), np.arange(3)
    slopes = np.array([[0.3, 0.2, 0.5], [-0.1, -0.7, -0.2]])
    data = Data(Z, 0 * rows, np.ones(3), rows, rows)
    backend, pairs = choose.backend(Z, 3), all_rows(3) if engine == "lists" else None
    for target, _ in far_ties():
        whole, *parts = (
            backend.match_sums(data._replace(reference_rows=some), target, Gaussian(), pairs)
            for some in (rows, rows[:1], rows[1:])
        )
        expected, joint = whole.sums(), merge(*(part.sums() for part in parts))
        odds = [
            (sums.log2[0] - sums.log2[1] - (sums.shift[0] - sums.shift[1]))[np.argsort(sums.rows)]
            for sums in (expected, joint)
        ]
        np.testing.assert_allclose(odds[1], odds[0], rtol=1e-11, atol=1e-12)
        found = sum(part.pull(joint, slopes[:, joint.rows]) for part in parts)
        expected = whole.pull(expected, slopes[:, expected.rows])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.parametrize("dense_up_to", [500, 0])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["log", "accuracy"])
def test_classes_told_in_any_way_are_nca(rng, monkeypatch, kind, kernel, dense_up_to):
    """Labels, one-hot distributions, blocks of matches and numbers that encode classes."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", dense_up_to)
    y, weight = rng.integers(0, 4, N), rng.uniform(0.1, 1.0, N)
    rows = {"queries": np.arange(50), "references": np.arange(20, N)}
    for scale in (0.3, 1.0, 5.0):
        Z = scale * rng.standard_normal((N, 3))
        for some in ({}, rows):
            expected = NCALoss(kind, kernel)(Z, Labels(y, weight), **some)
            for target in [
                Labels(y, weight),
                LabelDistributions(np.eye(4)[y], weight),
                Matches(sp.csr_array(y[:, None] == y), weight),
                NearNumbers(y, 0.5, hard=True, sample_weight=weight),
                NearNumbers(y, 0.01, sample_weight=weight),
            ]:
                found = MatchLoss(kind, kernel)(Z, target, **some)
                assert_close(found[:2], expected[:2], 1e-12)
                assert found.facts["left_out"] == expected.facts["left_out"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_machines_may_exchange_sums(rng, kernel):
    """Two engines with half of the references each: sums are merged, gradients add up."""
    Z, y = cloud(rng, 1.0)
    rows, mass, zeros = np.arange(N), rng.uniform(0.1, 1.0, N), np.zeros(N, dtype=int)
    halves = rows[:40], rows[40:]
    charges, slopes = rng.standard_normal((N, 2)), rng.standard_normal((N, 2))
    whole, *parts = (
        DenseChargedSums(Data(Z, zeros, mass, rows, some), charges, kernel)
        for some in (rows, *halves)
    )
    joint, expected = merge_means(*(part.sums() for part in parts)), whole.sums()
    np.testing.assert_allclose(joint.means, expected.means, atol=1e-13)
    found = sum(part.pull(joint, slopes) for part in parts)
    np.testing.assert_allclose(found, whole.pull(expected, slopes), rtol=1e-9, atol=1e-12)
    target = targets(rng, y)["near"]
    whole, *parts = (
        DenseMatchSums(Data(Z, zeros, mass, rows, some), target, kernel) for some in (rows, *halves)
    )
    joint, expected = merge(*(part.sums() for part in parts)), whole.sums()
    np.testing.assert_allclose(joint.log2 - joint.shift, expected.log2 - expected.shift, atol=1e-12)
    found = sum(part.pull(joint, slopes.T) for part in parts)
    np.testing.assert_allclose(found, whole.pull(expected, slopes.T), rtol=1e-9, atol=1e-12)


def test_same_bits_for_any_number_of_blas_threads(rng, monkeypatch):
    monkeypatch.setattr(choose, "DENSE_UP_TO", 500)
    Z, y = cloud(rng, 0.3, n=450)
    for target in targets(rng, y).values():
        results = []
        for threads in (1, 2, 4):
            with threadpool_limits(threads):
                results.append(loss_for(target)(Z, target))
        for value, dZ, *_ in results[1:]:
            assert value == results[0].value
            np.testing.assert_array_equal(dZ, results[0].dZ)


# Samples


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_of_random_lists_are_undone(rng, weighted):
    """A pair counts by the reciprocal of its rate; matches that a matrix names are always there."""
    n, weight = 40, rng.uniform(0.2, 1.0, 40) if weighted else None
    Z, y = rng.standard_normal((n, 2)), rng.integers(0, 3, n)
    T = 0.7 * np.eye(3)[y] + 0.1
    lists = [rng.permutation(n)[:15] for _ in range(n)]
    rates = np.log2(rng.uniform(0.2, 1.0, (2, n)))
    pairs = lists_of(lists, rates)
    M = some_matches(rng, n)
    for target, degrees in [
        (LabelDistributions(T, weight), formulas.matches_of_distributions(T)),
        (Matches(M, weight), M),
        (Numbers(Z[:, 0] ** 2, weight), None),
    ]:
        strata = np.zeros(n, dtype=int) if target.strata is None else target.strata
        total, mass = 0.0, np.ones(n) if weight is None else weight
        counts = 0.0
        for i in range(n):
            v = np.zeros(n)
            v[lists[i]] = (mass / np.exp2(rates[(strata == strata[i]).astype(int), i]))[lists[i]]
            if isinstance(target, Matches):
                v = np.where(degrees[i] > 0, mass, v)
            v[i] = 0.0
            others = np.arange(n)[v > 0]
            if degrees is None:
                loss = formulas.mlkr(Z, target.values, [i], others, np.maximum(v, 1e-9))[0]
            else:
                if not degrees[i, others].any():
                    continue
                loss = formulas.nca_matches(Z, degrees, "log", [i], others, np.maximum(v, 1e-9))[0]
            total, counts = total + mass[i] * loss, counts + mass[i]
        found = loss_for(target)(Z, target, pairs=pairs)
        assert found.value == pytest.approx(total / counts, rel=1e-11)


def test_random_lists_estimate_mlkr(rng):
    """Samples of one rate: the mean over many draws is near the loss of all pairs."""
    Z, target = 0.3 * rng.standard_normal((600, 2)), Numbers(rng.standard_normal(600))
    codes = np.zeros(600, dtype=int)
    drawn = [MLKRLoss()(Z, target, pairs=RandomPairs(200).pairs(Z, codes, None, seed)).value
             for seed in range(5)]  # fmt: skip
    assert np.mean(drawn) == pytest.approx(MLKRLoss()(Z, target).value, rel=0.02)


def test_near_lists_hold_most_of_the_weight(rng):
    Z = 2.0 * rng.standard_normal((600, 2))
    pairs = Nearest(60).pairs(Z, np.zeros(600, dtype=int))
    target = Numbers(Z[:, 0] + 0.1 * rng.standard_normal(600))
    found, expected = MLKRLoss()(Z, target, pairs=pairs), MLKRLoss()(Z, target)
    assert found.facts["share_of_pairs"] < 0.11
    assert found.value == pytest.approx(expected.value, rel=0.25)


@pytest.mark.parametrize("dense_up_to", [500, 0])
def test_batches_of_matches_count_other_rows_by_their_chance(rng, monkeypatch, dense_up_to):
    """``weight`` multiplies what does not match, in all engines."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", dense_up_to)
    Z, M = rng.standard_normal((60, 2)), some_matches(rng, 60)
    rows, part, queries = Matches(M).in_batch(rng.permutation(60)[:20], 19 / 59)
    Z, m, weight = Z[rows], part.matrix.toarray(), part.weight
    K = np.exp(-np.sum((Z[:, None] - Z) ** 2, axis=2)) * (1 - np.eye(len(rows)))
    right = np.sum(K * m, axis=1)[queries]
    wrong = np.sum(K * np.where(m > 0, 1 - m, weight), axis=1)[queries]
    there = right > 0
    expected = np.mean(np.log1p(wrong[there] / right[there]))
    for pairs in (None, all_rows(len(rows))):
        found = MatchLoss()(Z, part, queries=queries, pairs=pairs)
        assert found.value == pytest.approx(expected, rel=1e-12)


# What is refused, and what is told


@pytest.mark.parametrize("kernel", [Compact(background=False), Gaussian(background=True)])
def test_kernels_that_end_are_refused_by_name(kernel):
    for make, name in [(lambda: MatchLoss("log", kernel), "MatchLoss"),
                       (lambda: MLKRLoss(kernel), "MLKRLoss"),
                       (lambda: mlkr(np.eye(3), np.arange(3), kernel=kernel), "mlkr"),
                       (lambda: nca_matches(np.eye(3), Labels([0, 0, 1]), kernel=kernel),
                        "nca_matches")]:  # fmt: skip
        with pytest.raises(ValueError, match=rf"'kernel' parameter of {name} must reach .* Got"):
            make()


def test_wrong_targets_and_kinds_are_named():
    Z = np.eye(3)
    with pytest.raises(TypeError, match=r"'target' parameter of nca_matches .* Got ndarray"):
        nca_matches(Z, np.arange(3))
    with pytest.raises(ValueError, match="must not have class priors"):
        nca_matches(Z, Labels([0, 0, 1], priors="uniform"))
    with pytest.raises(ValueError, match=r"'kind' parameter of MatchLoss .* Got 'square'"):
        MatchLoss("square")
    with pytest.raises(ValueError, match=r"'objective' parameter of nca_matches .* Got 'square'"):
        nca_matches(Z, Labels([0, 0, 1]), "square")


def test_rows_without_a_match_are_counted(rng):
    Z = rng.standard_normal((5, 2))
    target = Matches(np.eye(5, k=1))
    with pytest.warns(UserWarning, match="1 rows match no row that they may pick"):
        value, _ = nca_matches(Z, target)
    assert value == nca_matches(Z, target, queries=[0, 1, 2, 3])[0]
    accuracy = nca_matches(Z, target, "accuracy")[0]
    assert accuracy == pytest.approx(0.8 * nca_matches(Z, target, "accuracy", [0, 1, 2, 3])[0])
    assert MatchLoss("accuracy").for_scaling().kind == "log"


def test_costs_know_the_target(rng):
    size = EvaluationSize(600, 20, 3, 8, 10)
    for target in targets(rng, cloud(rng, 1.0)[1]).values():
        cost = loss_for(target).cost(target)
        assert not cost.both_ways
        assert 0 < cost.more(size) < 1e6
        assert cost.pair_bytes >= 24
    assert MatchLoss().cost(Labels([0, 1])) == PairCost()
    assert MatchLoss().cost().single == MatchLoss().cost(NearNumbers([1, 2], 1.0)).single
    assert MLKRLoss().cost().single == MLKRLoss().cost(Numbers([1, 2])).single
    assert MatchLoss().cost(Matches(np.eye(4, k=1) + np.eye(4, k=-1))).company == 2
