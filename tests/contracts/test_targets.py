"""What every target keeps to: it has a length, strata, and can be taken apart by rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from common.clouds import points, some_targets

from vicinal.core.types import Target
from vicinal.objectives import knca, lmnn, nca
from vicinal.targets import Labels, TargetNeighbours

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
    "neighbours": (TargetNeighbours(Y, NEIGHBOURS), lmnn),
    "neighbours by name": (TargetNeighbours(NAMES[Y], NEIGHBOURS, NAMES), lmnn),
}
each_target = pytest.mark.parametrize(("target", "objective"), TARGETS.values(), ids=TARGETS)
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
    told = {"codes": target.codes, "classes": target.classes}
    for name in ("sample_weight", "priors", "neighbours"):
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
    np.testing.assert_array_equal(target.strata, Y)
    np.testing.assert_array_equal(target.classes[target.codes], target.classes[Y])


@each_target
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
    if isinstance(target, TargetNeighbours):
        assert part.neighbours.dtype == np.int32
        assert part.neighbours.shape == (len(chosen), 4)
        for row, new in zip(chosen, part.neighbours, strict=True):
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


@each_target
@each_rows
def test_objective_of_taken_rows_is_that_of_the_rows(rng, target, objective, rows):
    """As a target made of those rows alone would have it."""
    Z, _ = points(rng, 30, 2, 3)
    options = {} if objective is lmnn else {"warn": False}
    chosen = np.arange(30)[rows]
    part = target.take(rows)
    y, classes = target.classes[Y[chosen]], target.classes
    if isinstance(target, TargetNeighbours):
        fresh = TargetNeighbours(y, part.neighbours, classes)
    else:
        weight = None if target.sample_weight is None else WEIGHT[chosen]
        fresh = Labels(y, weight, target.priors, classes)
    assert_same(part, fresh)
    value, dZ = objective(Z[chosen], part, **options)
    expected, dZ_expected = objective(Z[chosen], fresh, **options)
    assert value == expected
    np.testing.assert_array_equal(dZ, dZ_expected)


@each_target
def test_pickles(target, objective):
    assert_same(pickle.loads(pickle.dumps(target)), target)
