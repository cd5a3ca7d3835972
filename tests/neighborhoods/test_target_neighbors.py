"""Target neighbours: the nearest of the own class by brute force, and what is told of them."""

from __future__ import annotations

import numpy as np
import pytest
from common.checks import (
    each_dtype,
)
from common.clouds import (
    points,
)
from formulas import squared_distances

from vicinal import _search
from vicinal.neighborhoods import target_neighbors
from vicinal.targets import Labels, TargetNeighbors


def plain(Z, y, k, references=None):
    """By sorting all distances to the other rows of the class."""
    d2 = squared_distances(Z)
    references = np.arange(len(y)) if references is None else references
    out = np.full((len(y), k), -1)
    for i in range(len(y)):
        own = np.setdiff1d(references[y[references] == y[i]], [i])
        own = own[np.argsort(d2[i, own], kind="stable")][:k]
        out[i, : len(own)] = own
    return out


@each_dtype
@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_nearest_of_the_own_class(rng, dtype, d, k):
    """By a tree and by brute force."""
    Z, y = points(rng, 120, d, 4)
    Z = Z.astype(dtype)
    got = target_neighbors(Z, y, k)
    assert (got.dtype, got.shape) == (np.int32, (120, k))
    np.testing.assert_array_equal(got, plain(Z, y, k))


@pytest.mark.parametrize("d", [2, 12])
def test_among_references_only(rng, d):
    Z, y = points(rng, 90, d, 3)
    references = rng.permutation(90)[:50]
    got = target_neighbors(Z, y, 3, references)
    np.testing.assert_array_equal(got, plain(Z, y, 3, np.sort(references)))
    assert set(got.ravel()) <= {-1, *references.tolist()}
    with pytest.raises(ValueError, match="at least one reference"):
        target_neighbors(Z, y, 3, np.arange(0))


@pytest.mark.parametrize("k", [0, -1, 2.0])
def test_wrong_k_is_named(rng, k):
    with pytest.raises(
        ValueError, match=rf"'k' parameter .* an int in \[1, inf\)\. Got {k} instead"
    ):
        target_neighbors(*points(rng, 10, 2, 2), k)


def test_classes_that_are_too_small(rng):
    Z, y = rng.standard_normal((14, 2)), np.repeat([0, 1, 2, 3], [7, 4, 2, 1])
    got = target_neighbors(Z, y, 5)
    np.testing.assert_array_equal(got, plain(Z, y, 5))
    np.testing.assert_array_equal((got >= 0).sum(axis=1), np.repeat([5, 3, 1, 0], [7, 4, 2, 1]))
    np.testing.assert_array_equal(got[13], -1)
    assert target_neighbors(Z, y, 40).shape == (14, 40)


@each_dtype
@pytest.mark.parametrize("d", [2, 12])
def test_twins_are_neighbours_and_no_row_is_its_own(rng, dtype, d):
    """More equal rows than neighbours: a row need not be among the first that are found."""
    Z = np.repeat(rng.standard_normal((5, d)), 12, axis=0).astype(dtype)
    y = np.zeros(60, int)
    got = target_neighbors(Z, y, 3)
    assert (got != np.arange(60)[:, None]).all()
    assert all(len(set(row)) == 3 for row in got.tolist())
    np.testing.assert_array_equal(got // 12, np.repeat(np.arange(60) // 12, 3).reshape(60, 3))
    np.testing.assert_array_equal(target_neighbors(Z, np.arange(60), 3), -1)


def test_points_may_come_as_they_are_asked_for(rng, monkeypatch):
    monkeypatch.setattr("vicinal.neighborhoods.targets._CHUNK", 7)
    Z, y = points(rng, 60, 3, 2)
    asked = []

    def some(rows):
        asked.append(len(rows))
        return Z[rows]

    np.testing.assert_array_equal(target_neighbors(some, y, 4), plain(Z, y, 4))
    assert max(asked) == 30  # the members of a class, and never all rows
    assert sorted(asked)[:-2] == [2, 2, *[7] * 8]


def test_another_finder(rng):
    """City blocks, with one that finds nothing for the first row."""
    Z, y = points(rng, 40, 2, 2)

    def finder(members):
        def find(queries, k):
            D = np.abs(queries[:, None] - members).sum(axis=2)
            order = np.argsort(D, axis=1)[:, :k]
            order[(queries == Z[0]).all(axis=1)] = -1
            return order, np.take_along_axis(D, order, axis=1)

        return find

    got = target_neighbors(Z, y, 3, finder=finder)
    np.testing.assert_array_equal(got[0], -1)
    D = np.abs(Z[:, None] - Z).sum(axis=2)
    D[y[:, None] != y] = np.inf
    np.fill_diagonal(D, np.inf)
    np.testing.assert_array_equal(got[1:], np.argsort(D, axis=1)[1:, :3])


# What an objective is told


def test_labels_with_neighbours():
    targets = TargetNeighbors(list("babb"), [[2, -1], [-1, -1], [3, 0], [0, 2]])
    assert isinstance(targets, Labels)
    assert targets.classes.tolist() == ["a", "b"]
    assert targets.codes.tolist() == [1, 0, 1, 1]
    assert targets.neighbors.dtype == np.int32
    assert len(targets) == 4
    assert targets.sample_weight is None
    known = TargetNeighbors([5, 5], [[1], [0]], classes=[3, 5])
    assert known.codes.tolist() == [1, 1]
    unsigned = TargetNeighbors([0, 0], np.array([[1], [0]], np.uint64))
    assert unsigned.neighbors.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    "rows", [[3, 0, 5], slice(1, 5), slice(None, None, 2), [], np.arange(6) > 2]
)
def test_take_keeps_those_that_are_among_the_rows(rng, rows):
    y = np.array([0, 0, 1, 0, 1, 0])
    J = np.array([[1, 3], [5, 0], [4, -1], [5, 1], [2, -1], [0, 3]])
    targets = TargetNeighbors(y, J)
    assert targets.take(None) is targets
    part = targets.take(rows)
    chosen = np.arange(6)[rows]
    assert part.codes.tolist() == y[chosen].tolist()
    assert part.classes.tolist() == [0, 1]
    assert part.neighbors.dtype == np.int32
    assert part.neighbors.shape == (len(chosen), 2)
    for row, new in zip(chosen, part.neighbors, strict=True):
        for old, found in zip(J[row], new, strict=True):
            assert (chosen[found] if found >= 0 else -1) == (old if old in chosen else -1)
    again = TargetNeighbors(part.codes, part.neighbors, [0, 1])  # as it must be
    np.testing.assert_array_equal(again.neighbors, part.neighbors)


def test_inverse_has_the_places_of_each_row(rng):
    y = np.arange(50) % 3
    J = np.full((50, 4), -1)
    for i in range(50):
        others = np.setdiff1d(np.flatnonzero(y == y[i]), [i])
        J[i, : i % 5] = rng.permutation(others)[: i % 5]
    targets = TargetNeighbors(y, J)
    first, sources = targets.inverse
    assert len(first) == 51
    for q in range(50):
        places = sources[first[q] : first[q + 1]]
        np.testing.assert_array_equal(places, np.flatnonzero(J.ravel() == q))
    again, sources = targets.take(np.arange(50)[::-1]).inverse  # has its own
    np.testing.assert_array_equal(np.diff(again), np.diff(first)[::-1])
    assert len(sources) == J.size
    none = TargetNeighbors([0, 0], [[-1], [-1]])
    assert none.inverse[0].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("neighbours", "message"),
    [
        ([[0.0], [1.0], [2.0]], r"ints of shape \(3, k\)\. Got float64 of shape \(3, 1\) instead"),
        ([1, 0, -1], r"ints of shape \(3, k\)\. Got int64 of shape \(3,\) instead"),
        ([[1], [0]], r"ints of shape \(3, k\)\. Got int64 of shape \(2, 1\) instead"),
        ([[1], [3], [-1]], r"must lie in \[-1, 2\]\. Got -1\.\.3 instead"),
        ([[1], [-2], [-1]], r"must lie in \[-1, 2\]\. Got -2\.\.1 instead"),
        ([[1], [2], [-1]], "other rows of the same class. Got 2 for row 1, which is of another"),
        ([[1], [0], [2]], "other rows of the same class. Got 2 for row 2, which is itself"),
    ],
)
def test_wrong_neighbours_are_named(neighbours, message):
    with pytest.raises(ValueError, match=message):
        TargetNeighbors([0, 0, 1], neighbours)


def test_wrong_labels_are_named():
    with pytest.raises(ValueError, match="one-dimensional"):
        TargetNeighbors([[0, 0]], [[1], [0]])
    with pytest.raises(ValueError, match=r"4.* is not among the classes"):
        TargetNeighbors([0, 4], [[-1], [-1]], classes=[0, 1])


@each_dtype
@pytest.mark.parametrize("kind", ["cloud", "duplicates", "outliers", "far", "one point"])
def test_the_filter_of_a_search_changes_no_neighbour(rng, monkeypatch, kind, dtype):
    """Inner products in float32 leave out only what cannot be among the nearest."""
    cloud = rng.standard_normal((2500, 12))
    queries = cloud[:40].copy()
    if kind == "duplicates":
        cloud[::3] = cloud[0]
    elif kind == "outliers":
        cloud[7] *= 1e3
    elif kind == "far":
        cloud += 1e4
        queries = np.vstack([queries + 1e4, [np.full(12, 1e15)]])
    elif kind == "one point":
        cloud[:] = cloud[0]
    cloud, queries = cloud.astype(dtype), queries.astype(dtype)
    near, d2 = _search.finder("brute", cloud)(queries, 6)
    D = np.square(queries[:, None].astype(float) - cloud).sum(axis=2)
    expected = np.argsort(D, axis=1, kind="stable")[:, :6]
    found = np.take_along_axis(D, near, axis=1)
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(found, np.take_along_axis(D, expected, axis=1), rtol, rtol)
    np.testing.assert_allclose(d2, found, rtol, 100 * rtol)
    if kind in ("cloud", "outliers"):
        np.testing.assert_array_equal(near, expected)
    # distances to all points are computed only where float32 cannot tell them apart
    monkeypatch.setattr(_search, "euclidean_distances", lambda *_, **__: 1 / 0)
    if kind not in ("outliers", "one point"):
        _search.finder("brute", cloud)(queries, 6)
    else:
        with pytest.raises(ZeroDivisionError):
            _search.finder("brute", cloud)(queries, 6)
