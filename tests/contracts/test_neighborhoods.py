"""What every neighbourhood keeps to: lists without the row itself, of references, by a seed."""

from __future__ import annotations

import pickle
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from common.checks import each_dtype, set_threads
from common.clouds import points
from sklearn.base import clone

from vicinal.core.types import Pairs
from vicinal.engines.cpu.trees import Bounded
from vicinal.neighborhoods import (
    Nearest,
    Neighborhood,
    RandomPairs,
    Tree,
    mass_left_out,
    resolve,
    sets_left_out,
)
from vicinal.objectives import knca, nca

needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")
NEAREST = [
    Nearest(7),
    Nearest(7, own=3),
    Nearest(7, radius=0.6),
    Nearest(7, min_probability=0.05),
    Nearest(7, search="tree"),
    Nearest(7, search="brute"),
    pytest.param(Nearest(7, search="faiss"), marks=needs_faiss),
]
LISTS = [*NEAREST, RandomPairs(8)]
PARTS = [*LISTS, Tree(0.1), Tree(0.1, always=True, each_class=False)]
each_list = pytest.mark.parametrize("part", LISTS, ids=repr)
each_part = pytest.mark.parametrize("part", PARTS, ids=repr)


def as_lists(pairs):
    assert pairs.indptr.dtype == np.int64
    assert pairs.indices.dtype == np.int32
    assert pairs.indptr[-1] == len(pairs.indices)
    return np.split(pairs.indices, pairs.indptr[1:-1])


@each_list
@each_dtype
def test_lists_hold_other_references_once_and_some_of_the_own_class(rng, part, dtype):
    Z, y = points(rng, 150, 3, 3)
    Z = Z.astype(dtype)
    Z[:20] = Z[0]  # more twins than a list is long
    before = Z.copy()
    for references in (None, np.arange(30, 140), rng.permutation(150)[:90]):
        known = np.arange(150) if references is None else references
        pairs = part.pairs(Z, y, references, random_state=0)
        assert isinstance(pairs, Pairs)
        lists = as_lists(pairs)
        assert len(lists) == 150
        for i, rows in enumerate(lists):
            assert len(set(rows)) == len(rows) > 0
            assert i not in rows
            assert np.isin(rows, known).all()
            assert (y[rows] == y[i]).any()
            if getattr(part, "radius", None) is getattr(part, "min_probability", None) is None:
                assert part.m <= len(rows) <= part.m + getattr(part, "own", 0)
    np.testing.assert_array_equal(Z, before)


@each_part
def test_the_seed_decides(rng, part):
    Z, y = points(rng, 80, 2, 3)
    one, again, other = (part.pairs(Z, y, None, seed) for seed in (3, 3, 4))
    if isinstance(one, Bounded):
        assert one == again == other
        return
    np.testing.assert_array_equal(one.indices, again.indices)
    assert np.array_equal(one.indices, other.indices) == isinstance(part, Nearest)


@each_list
def test_thread_count_agnosticism(rng, monkeypatch, part):
    Z, y = points(rng, 2600, 3, 4)
    Z[100:300] = Z[:200]
    set_threads(monkeypatch, 1)
    expected = part.pairs(Z, y, np.arange(2500), 3)
    for threads in (2, 3):
        set_threads(monkeypatch, threads)
        got = part.pairs(Z, y, np.arange(2500), 3)
        np.testing.assert_array_equal(got.indptr, expected.indptr)
        np.testing.assert_array_equal(got.indices, expected.indices)


@pytest.mark.parametrize("part", NEAREST, ids=repr)
def test_order_of_rows(rng, part):
    """Nearest rows are the same rows, whatever their positions."""
    Z, y = points(rng, 90, 3, 3)
    order = rng.permutation(90)
    straight = as_lists(part.pairs(Z, y))
    shuffled = as_lists(part.pairs(Z[order], y[order]))
    for place, i in enumerate(order):
        assert set(order[shuffled[place]]) == set(straight[i])


@pytest.mark.parametrize("objective", ["log", "accuracy"])
@pytest.mark.parametrize("part", [Nearest(50), RandomPairs(50)], ids=repr)
def test_as_many_as_there_are_is_exact(rng, part, objective):
    Z, y = points(rng, 20, 2, 3)
    with pytest.warns(UserWarning, match=r"'m' parameter of .* is 50, but .* only 20 ref"):
        pairs = part.pairs(Z, y, random_state=0)
    assert [sorted(rows) for rows in as_lists(pairs)] == [
        [j for j in range(20) if j != i] for i in range(20)
    ]
    for function in (nca, knca):
        value, dZ = function(Z, y, objective=objective, pairs=pairs, warn=False)
        expected, dZ_expected = function(Z, y, objective=objective, warn=False)
        assert value == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(dZ, dZ_expected, atol=1e-14)
    assert mass_left_out(Z, y, pairs).largest < 1e-12
    assert sets_left_out(Z, pairs, 3).largest < 1e-12


@each_list
def test_a_class_of_one_row(rng, part):
    Z, y = points(rng, 30, 2, 3)
    y[4] = 9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lists = as_lists(part.pairs(Z, y, random_state=0))
    assert all(len(rows) for i, rows in enumerate(lists) if i != 4)


@pytest.mark.parametrize("part", [Nearest(7), Nearest(5, radius=1.0), RandomPairs(6)], ids=repr)
def test_rows_without_classes_are_of_one_class(rng, part):
    Z = rng.standard_normal((60, 2))
    references = np.arange(0, 60, 2)
    without = part.pairs(Z, None, references, 0)
    of_one = part.pairs(Z, np.zeros(60, int), references, 0)
    np.testing.assert_array_equal(without.indices, of_one.indices)
    np.testing.assert_array_equal(without.indptr, of_one.indptr)
    np.testing.assert_allclose(
        mass_left_out(Z, None, without, references),
        mass_left_out(Z, np.arange(60) % 3, without, references),
    )


@each_list
def test_no_references_are_refused(rng, part):
    Z, y = points(rng, 20, 2, 3)
    with pytest.raises(ValueError, match="at least one reference"):
        part.pairs(Z, y, references=[], random_state=0)


@each_part
def test_parts_clone_pickle_print_and_compare(part):
    assert isinstance(part, Neighborhood)
    assert clone(part, safe=False) == part
    assert pickle.loads(pickle.dumps(part)) == part
    assert eval(repr(part)) == part
    assert hash(part) == hash(eval(repr(part)))
    assert resolve(part) is part
    with pytest.raises(AttributeError):
        part.refresh = 3


def test_names():
    assert resolve("all") is None
    assert resolve("nearest") == Nearest()
    assert resolve("random") == RandomPairs()
    assert resolve("tree") == Tree()
    with pytest.raises(
        ValueError, match=r"'neighborhood' parameter of X .* \['all', .* Got 'near' inst"
    ):
        resolve("near", "X")
    for wrong in [Nearest, 3, None]:
        with pytest.raises(TypeError, match=r"'neighborhood' parameter of NCA must be a str among"):
            resolve(wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Nearest(0), r"'m' parameter of Nearest must be an int in \[1, inf\)\. Got 0"),
        (lambda: Nearest(2.5), r"'m' parameter of Nearest must be an int"),
        (lambda: Nearest(radius=0.0), r"'radius' .* in \(0\.0, inf\) or None\. Got 0\.0"),
        (lambda: Nearest(radius=-1), r"'radius' parameter of Nearest"),
        (lambda: Nearest(min_probability=0.0), r"'min_probability' .* in \(0\.0, 1\.0\) or None"),
        (lambda: Nearest(search="hnsw"), r"'search' .* 'auto', 'tree', 'brute', 'faiss'\. Got"),
        (lambda: Nearest(own=0), r"'own' parameter of Nearest must be an int in \[1, inf\)"),
        (lambda: Nearest(refresh=0), r"'refresh' parameter of Nearest"),
        (lambda: RandomPairs(1), r"'m' parameter of RandomPairs must be an int in \[2, inf\)"),
        (lambda: RandomPairs(refresh=0), r"'refresh' parameter of RandomPairs"),
        (lambda: Tree(-0.1), r"'tolerance' parameter of Tree must be a float in \[0\.0, 0\.5\]"),
        (lambda: Tree(always=1), r"'always' parameter of Tree must be True or False\. Got 1"),
    ],
)
def test_wrong_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
