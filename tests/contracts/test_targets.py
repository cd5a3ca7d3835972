"""What every target keeps to: it has a length, strata, and can be taken apart by rows."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from common.clouds import points, some_targets

from vicinal.affinities import affinities
from vicinal.core.types import Target
from vicinal.engines import choose
from vicinal.objectives import (
    KSNELoss,
    MatchLoss,
    MLKRLoss,
    PairNCALoss,
    knca,
    lmnn,
    nca,
    nca_matches,
)
from vicinal.targets import (
    Affinities,
    LabelDistributions,
    Labels,
    Matches,
    NearNumbers,
    Numbers,
    PairWeights,
    TargetNeighbors,
)

Y = np.arange(30) % 3
WEIGHT = 0.5 + np.arange(30) % 4
NEIGHBOURS = some_targets(np.random.default_rng(0), Y, 4)
NAMES = np.array(["ant", "bee", "cow"])
# a target of thirty rows, and an objective that it is for
TARGETS = {
    "labels": (Labels(Y), nca),
    "labels by name": (Labels(NAMES[Y]), nca),
    "labels of votes": (Labels(Y), knca),
    "weights": (Labels(Y, WEIGHT), nca),
    "weights and priors": (Labels(Y, WEIGHT, [0.2, 0.5, 0.3]), nca),
    "uniform priors": (Labels(Y, priors="uniform"), nca),
    "classes not shown": (Labels(Y, classes=[0, 1, 2, 7]), nca),
    "neighbors": (TargetNeighbors(Y, NEIGHBOURS), lmnn),
    "neighbours by name": (TargetNeighbors(NAMES[Y], NEIGHBOURS, NAMES), lmnn),
}
each_labelled = pytest.mark.parametrize(("target", "objective"), TARGETS.values(), ids=TARGETS)
# targets without classes
TABLE = np.random.default_rng(2).standard_normal((30, 3))
TWO = TABLE[:, :2] + [[5.0, -3.0]]
SHARES = np.random.default_rng(3).dirichlet([0.3, 0.5, 0.2], 30)
PARTNERS = np.triu(np.random.default_rng(4).uniform(size=(30, 30)), 22 / 30) > 0.8  # not symmetric
PARTNERS = PARTNERS * np.linspace(0.2, 1.0, 30)
UNLABELLED = {
    "affinities": (affinities(TABLE, 6.0, 2), KSNELoss(k=2)),
    "numbers": (Numbers(TABLE[:, 0], WEIGHT), MLKRLoss()),
    "several numbers": (Numbers(TWO), MLKRLoss()),
    "distributions": (LabelDistributions(SHARES, WEIGHT), MatchLoss()),
    "matches": (Matches(PARTNERS), MatchLoss("accuracy")),
    "matches with weights": (Matches(PARTNERS, WEIGHT), MatchLoss()),
    "pairs": (
        PairWeights(30, np.argwhere(PARTNERS > 0), WEIGHT.mean() * PARTNERS[PARTNERS > 0]),
        PairNCALoss(),
    ),
    "near numbers": (NearNumbers(TWO, 0.7, sample_weight=WEIGHT), MatchLoss()),
    "nearly equal numbers": (NearNumbers(TABLE[:, 1], 0.4, hard=True), MatchLoss("accuracy")),
}
each_target = pytest.mark.parametrize(
    ("target", "objective"), (TARGETS | UNLABELLED).values(), ids=TARGETS | UNLABELLED
)
ROWS = {
    "positions": np.array([3, 17, 5, 22, 9, 28, 0, 11]),
    "slice": slice(2, 26),
    "steps": slice(None, None, 2),
    "mask": np.arange(30) > 12,
    "none of them": np.array([], dtype=int),
    "all, shuffled": np.random.default_rng(1).permutation(30),
}
each_rows = pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)


def fields(target):
    """All that a target tells, as arrays."""
    if isinstance(target, Affinities | Matches):
        return vars(target) | {"matrix": target.matrix.toarray()}
    if not isinstance(target, Labels):
        return vars(target)
    told = {"codes": target.codes, "classes": target.classes}
    for name in ("sample_weight", "priors", "neighbors"):
        if getattr(target, name, None) is not None:
            told[name] = getattr(target, name)
    return told


def assert_same(one, other):
    assert type(one) is type(other)
    assert fields(one).keys() == fields(other).keys()
    for name, value in fields(one).items():
        np.testing.assert_array_equal(value, fields(other)[name], err_msg=name)


@each_target
def test_length_and_strata(target, objective):
    assert isinstance(target, Target)
    assert len(target) == 30
    if not isinstance(target, Labels):
        if isinstance(target, LabelDistributions):
            np.testing.assert_array_equal(target.strata, SHARES.argmax(axis=1))
        else:
            assert target.strata is None
        return
    np.testing.assert_array_equal(target.strata, Y)
    np.testing.assert_array_equal(target.classes[target.codes], target.classes[Y])


@each_labelled
@each_rows
def test_take_keeps_the_rows_and_the_classes(target, objective, rows):
    before = pickle.dumps(target)
    part, chosen = target.take(rows), np.arange(30)[rows]
    assert len(part) == len(chosen)
    np.testing.assert_array_equal(part.codes, Y[chosen])
    assert part.classes is target.classes
    assert part.priors is target.priors
    if target.sample_weight is not None:
        np.testing.assert_array_equal(part.sample_weight, WEIGHT[chosen])
    if isinstance(target, TargetNeighbors):
        assert part.neighbors.dtype == np.int32
        assert part.neighbors.shape == (len(chosen), 4)
        for row, new in zip(chosen, part.neighbors, strict=True):
            kept = [old if old in chosen else -1 for old in NEIGHBOURS[row]]
            assert [chosen[found] if found >= 0 else -1 for found in new] == kept
    assert pickle.dumps(target) == before


@each_target
def test_take_of_all_is_the_target(target, objective):
    assert target.take(None) is target
    assert_same(target.take(np.arange(30)), target)
    assert_same(target.take(slice(None)), target)


@each_target
@each_rows
def test_take_twice_is_take_once(target, objective, rows):
    part = target.take(rows)
    few = np.arange(len(part))[::3]
    assert_same(part.take(few), target.take(np.arange(30)[rows][few]))


@each_labelled
@each_rows
def test_objective_of_taken_rows_is_that_of_the_rows(rng, target, objective, rows):
    """As a target made of those rows alone would have it."""
    Z, _ = points(rng, 30, 2, 3)
    options = {} if objective is lmnn else {"warn": False}
    chosen = np.arange(30)[rows]
    part = target.take(rows)
    y, classes = target.classes[Y[chosen]], target.classes
    if isinstance(target, TargetNeighbors):
        fresh = TargetNeighbors(y, part.neighbors, classes)
    else:
        weight = None if target.sample_weight is None else WEIGHT[chosen]
        fresh = Labels(y, weight, target.priors, classes)
    assert_same(part, fresh)
    value, dZ = objective(Z[chosen], part, **options)
    expected, dZ_expected = objective(Z[chosen], fresh, **options)
    assert value == expected
    np.testing.assert_array_equal(dZ, dZ_expected)


@each_rows
def test_affinities_of_taken_rows_are_those_for_each_other(rows):
    target, _ = UNLABELLED["affinities"]
    before, part, chosen = pickle.dumps(target), target.take(rows), np.arange(30)[rows]
    P = target.matrix.toarray()[np.ix_(chosen, chosen)]
    np.testing.assert_array_equal(part.matrix.toarray(), P)
    np.testing.assert_array_equal(part.entropy, target.entropy[chosen])
    assert (part.k, part.missing) == (target.k, target.missing)
    assert (part.indptr.dtype, part.indices.dtype) == (np.int64, np.int32)
    assert pickle.dumps(target) == before


@pytest.mark.parametrize(("target", "loss"), UNLABELLED.values(), ids=UNLABELLED)
@each_rows
def test_loss_of_taken_rows_is_that_of_the_rows_among_themselves(target, loss, rows):
    """Whether they are taken or named."""
    chosen, before = np.arange(30)[rows], pickle.dumps(target)
    part = target.take(rows)
    assert len(part) == len(chosen)
    assert pickle.dumps(target) == before
    if len(chosen):
        value, dZ, *_ = loss(TABLE[chosen], part)
        expected, dZ_expected, *_ = loss(TABLE, target, queries=chosen, references=chosen)
        assert value == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(dZ, dZ_expected[chosen], atol=1e-12)


@pytest.mark.parametrize(
    "target", [target for target, _ in UNLABELLED.values() if not isinstance(target, Affinities)]
)
def test_fingerprint_knows_all_arrays(target):
    """What a fit that resumes compares: classes, weights and contents."""
    known = [target.strata, target.sample_weight, *target.contents]
    for name, entry in vars(target).items():
        if isinstance(entry, np.ndarray):
            assert any(entry is array for array in known), name


@each_target
def test_pickles(target, objective):
    assert_same(pickle.loads(pickle.dumps(target)), target)


# Batches


def small_target():
    """Nine rows, one of them with a single target neighbour, some wanted by many."""
    y = np.repeat([0, 1, 2], 3)
    neighbours = [[1, -1], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4], [7, 8], [6, -1], [6, 7]]
    return TargetNeighbors(y, np.array(neighbours))


@pytest.mark.parametrize("dense_up_to", [500, 0])
@pytest.mark.parametrize("distance", ["squared", "chi2"])
@pytest.mark.parametrize("size", [2, 5])
def test_random_batches_estimate_the_loss_without_bias(
    rng, monkeypatch, dense_up_to, distance, size
):
    """The mean over all batches of a size is the loss of all rows, and its gradient."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", dense_up_to)
    target, n = small_target(), 9
    Z = rng.dirichlet(np.ones(3), n) if distance == "chi2" else 0.7 * rng.standard_normal((n, 3))
    options = {"mu": 0.7, "margin": 0.2 if distance == "chi2" else 1.0, "distance": distance}
    value, dZ = lmnn(Z, target, **options)
    mean, slope, batches = 0.0, np.zeros_like(Z), list(itertools.combinations(range(n), size))
    for batch in batches:
        rows, part, queries = target.in_batch(np.array(batch), (size - 1) / (n - 1))
        np.testing.assert_array_equal(rows[queries], batch)
        got = lmnn(Z[rows], part, queries=queries, **options)
        mean += got[0] / len(batches)
        slope[rows] += got[1] / len(batches)
    assert mean == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(slope, dZ, atol=1e-12 * np.abs(dZ).max())


def test_a_batch_by_place_counts_each_impostor_once(rng):
    """All rows in one batch are all rows; fewer have no more impostors, and all their targets."""
    target, Z = small_target(), 0.7 * rng.standard_normal((9, 3))
    rows, part, queries = target.in_batch(np.arange(9))
    np.testing.assert_array_equal(lmnn(Z, part)[1], lmnn(Z, target)[1])
    rows, part, queries = target.in_batch(np.array([0, 4]))
    np.testing.assert_array_equal(rows, [0, 1, 3, 4, 5])
    assert part.weight is None
    np.testing.assert_array_equal(part.neighbors[queries], [[1, -1], [2, 4]])
    assert (np.delete(part.neighbors, queries, axis=0) == -1).all()
    assert lmnn(Z[rows], part, queries)[0] <= lmnn(Z, target, queries=[0, 4])[0]


def test_a_batch_of_training_rows_knows_no_others(rng):
    """Held-out rows are nobody's followers, and never embedded."""
    target, train = small_target(), np.array([0, 1, 3, 4, 5, 6, 7])
    rows, part, _ = target.in_batch(np.array([1, 4]), 1 / 6, train)
    np.testing.assert_array_equal(rows, [0, 1, 3, 4, 5])
    # followers among the training rows: one of rows 0 and 1, two each of 3, 4 and 5
    drawn = 1 - (1 - 1 / 6) * (1 - 1 / 5) * np.array([1, 1, 3 / 4, 3 / 4, 3 / 4])
    np.testing.assert_allclose(1 / part.weight, drawn)


# Matches


def test_matches_forget_the_diagonal_and_zeros():
    M = sp.coo_array(([0.5, 0.2, 0.0, 1.0, 1e-31], ([0, 0, 1, 2, 1], [0, 1, 2, 2, 0])), (3, 3))
    target = Matches(M)
    np.testing.assert_array_equal(target.matrix.toarray(), [[0, 0.2, 0], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(target.counts, [1, 0, 0])
    assert (target.indptr.dtype, target.indices.dtype) == (np.int64, np.int32)


def test_matches_between_some_rows():
    target, q, r = Matches(PARTNERS), np.array([7, 2, 3]), np.array([25, 28, 2, 29])
    block = target.between(q, r).toarray()
    np.testing.assert_array_equal(block, target.matrix.toarray()[np.ix_(q, r)])
    assert block.any()


@pytest.mark.parametrize("size", [2, 5])
def test_random_batches_estimate_the_sums_over_rows_that_do_not_match(rng, size):
    """The mean over all batches, of the sum that each query has, is the sum over all rows."""
    n, M = 9, np.zeros((9, 9))
    for i, partners in enumerate([[1, 2], [0], [], [4, 5, 6], [3], [4], [3, 7], [8], [7]]):
        M[i, partners] = rng.uniform(0.2, 1.0, len(partners))
    target, K = Matches(M), rng.uniform(0.1, 1.0, (n, n))
    expected = np.sum(K * (1 - M) * (1 - np.eye(n)), axis=1)
    total, times = np.zeros(n), np.zeros(n)
    for batch in itertools.combinations(range(n), size):
        rows, part, queries = target.in_batch(np.array(batch), (size - 1) / (n - 1))
        np.testing.assert_array_equal(rows[queries], batch)
        m = part.matrix.toarray()
        np.testing.assert_array_equal(m[queries], M[np.ix_(batch, rows)])
        np.testing.assert_array_equal(m.sum(axis=1)[queries], M[list(batch)].sum(axis=1))
        assert not np.delete(m, queries, axis=0).any()
        rest = np.where(m > 0, 1 - m, part.weight) * (1 - np.eye(len(rows)))
        total[list(batch)] += np.sum(rest * K[np.ix_(rows, rows)], axis=1)[queries]
        times[list(batch)] += 1
    np.testing.assert_allclose(total / times, expected, rtol=1e-12)


def test_a_batch_of_matches_embeds_the_partners_among_the_training_rows(rng):
    target = Matches(PARTNERS, WEIGHT)
    partners = np.flatnonzero(PARTNERS[2])
    assert len(partners) > 1
    rows, part, queries = target.in_batch(np.array([2, 1]), None, np.setdiff1d(np.arange(30), [29]))
    assert part.weight is None
    wanted = np.union1d([1, 2], np.flatnonzero(PARTNERS[[1, 2]].any(axis=0)))
    np.testing.assert_array_equal(rows, np.setdiff1d(wanted, [29]))
    np.testing.assert_array_equal(rows[queries], [2, 1])
    np.testing.assert_array_equal(part.sample_weight, WEIGHT[rows])
    rows, part, queries = target.in_batch(np.arange(30), 1.0)
    np.testing.assert_array_equal(part.weight, 1.0)
    assert nca_matches(TABLE, part, warn=False)[0] == nca_matches(TABLE, target, warn=False)[0]


def test_scores_have_names_and_chances():
    assert Numbers(Y).score_name == NearNumbers(Y, 1.0).score_name == "R²"
    assert LabelDistributions(SHARES).score_name == "expected accuracy"
    assert Matches(PARTNERS).score_name == "share of matches"
    T = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    assert LabelDistributions(T).chance == pytest.approx(1.6 / 3)
    assert LabelDistributions(T, [1, 0, 1]).chance == pytest.approx(0.6)
    T = np.array([[0.99999, 0.0]])  # probabilities with few digits
    np.testing.assert_array_equal(LabelDistributions(T).values, [[1.0, 0.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numbers([1.0, np.nan]), "'y' parameter of Numbers must be finite"),
        (lambda: Numbers(["a", "b"]), "'y' parameter of Numbers must hold numbers"),
        (lambda: Numbers(np.zeros((2, 0))), r"shape \(n,\) or \(n, q\) .* Got \(2, 0\)"),
        (lambda: Numbers(np.zeros((2, 2, 2))), r"Got \(2, 2, 2\) instead"),
        (lambda: Numbers([1, 2], [1, 2, 3]), r"'sample_weight' .* shape \(2,\)\. Got \(3,\)"),
        (lambda: Numbers([1, 2], [1, -2]), r"finite and not negative\. Got -2"),
        (lambda: NearNumbers([1, 2], 0.0), r"'width' parameter of NearNumbers .* \(0"),
        (lambda: NearNumbers([1, 2], -1.0, hard=True), r"'width' .* Got -1\.0 instead"),
        (lambda: NearNumbers([1, 2], np.inf), r"'width' .* Got inf instead"),
        (lambda: NearNumbers([1, 2], 1.0, hard="yes"), "'hard' .* Got 'yes' instead"),
        (lambda: LabelDistributions([0.5, 0.5]), r"shape \(n, n_classes\)\. Got \(2,\)"),
        (lambda: LabelDistributions([[0.5, 0.6]]), r"'T' .* to one\. Got a sum of 1\.1 in row 0"),
        (lambda: LabelDistributions([[1.5, -0.5]]), r"not negative .* Got -0\.5"),
        (lambda: Matches(np.zeros((2, 3))), r"'M' .* shape \(n, n\)\. Got \(2, 3\)"),
        (lambda: Matches([[0, 1.5], [0, 0]]), r"numbers in \[0, 1\].* Got 1\.5"),
        (lambda: Matches([[0, -0.5], [0, 0]]), r"numbers in \[0, 1\].* Got -0\.5"),
        (lambda: Matches([[0, np.nan], [0, 0]]), r"Got nan instead"),
        (lambda: Matches(sp.coo_array(([0.6, 0.6], ([0, 0], [1, 1])), (2, 2))), "up. Got 1.2"),
        (lambda: Matches([[0, 1j], [0, 0]]), "numbers. Got the type complex128"),
        (lambda: Matches(np.eye(2), [1.0]), r"'sample_weight' parameter of Matches .* \(2,\)"),
    ],
)  # fmt: skip
def test_wrong_targets_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_hard_numbers_of_width_zero_match_if_they_are_equal():
    target = NearNumbers([1.0, 2.0, 1.0], 0, hard=True)
    rows = np.arange(3)
    np.testing.assert_array_equal(np.exp(-target.energies(rows, rows))[0], [1, 0, 1])
