"""Engines with part of the references each: their sums are merged, and their gradients add up."""

from __future__ import annotations

from functools import partial, reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from common.clouds import all_rows, lists_of

from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.base import Data, Means, merge, merge_means
from vicinal.engines.cpu import backend as cpu
from vicinal.engines.cpu import tiles
from vicinal.engines.cpu.trees import Bounded
from vicinal.targets import LabelDistributions, Matches, NearNumbers

N = 600
REACHING = [Gaussian(), Student(), Laplace()]


def cloud(rng, n, scale):
    """Groups that hold rows of all classes, so that most pairs of rows are far apart."""
    Z = 0.3 * rng.standard_normal((n, 2)) + 20.0 * rng.integers(0, 6, (n, 2))
    return scale * Z, rng.integers(0, 3, n)


def some_lists(rng, n, sampled):
    lists = [rng.permutation(n)[: rng.integers(100, 200)] for _ in range(n)]
    return lists_of(lists, np.log2(rng.uniform(0.2, 1.0, (2, n))) if sampled else None)


def a_target(rng, y, kind):
    n = len(y)
    if kind == "distributions":
        return LabelDistributions(rng.dirichlet(np.full(4, 0.3), n))
    if kind == "partners":
        return Matches(sp.random(n, n, 0.05, "csr", rng=rng))
    return NearNumbers(rng.standard_normal(n), 0.4, hard=kind == "hard numbers")


def assert_parts_make_the_whole(rng, data, make, rtol=1e-11):
    """Three parts of odd sizes; their references are shuffled, so that each sorts as it likes."""
    n = len(data.reference_rows)
    shuffled, edges = rng.permutation(data.reference_rows), [0, n * 10 // 21, n * 20 // 21, n]
    whole = make(data)
    parts = [make(data._replace(reference_rows=shuffled[a:b])) for a, b in pairwise(edges)]
    expected = whole.sums()
    join = merge_means if isinstance(expected, Means) else merge
    joint = reduce(join, [part.sums() for part in parts])
    np.testing.assert_array_equal(np.sort(joint.rows), np.sort(data.query_rows))
    order, wanted = np.argsort(joint.rows), np.argsort(expected.rows)
    found = (joint.log2 - joint.shift)[..., order]
    atol = rtol * max(1.0, np.abs(expected.shift[np.isfinite(expected.shift)]).max(initial=0.0))
    np.testing.assert_allclose(
        found, (expected.log2 - expected.shift)[..., wanted], rtol=0, atol=atol
    )
    slopes = rng.standard_normal(np.shape(getattr(joint, "means", joint.log2)))
    slopes_of_whole = np.empty_like(slopes)
    if join is merge_means:
        np.testing.assert_allclose(joint.means[order], expected.means[wanted], atol=10 * atol)
        slopes_of_whole[wanted] = slopes[order]
    else:
        slopes_of_whole[:, wanted] = slopes[:, order]
    dZ = sum(part.pull(joint, slopes) for part in parts)
    expected_dZ = whole.pull(expected, slopes_of_whole)
    np.testing.assert_allclose(dZ, expected_dZ, rtol=0, atol=10 * atol * np.abs(expected_dZ).max())
    assert np.abs(expected_dZ).max() > 0
    return whole, parts


def test_tiles_in_an_order_of_their_own(rng):
    """Large parts put near rows together, to leave far tiles out; small parts keep the order."""
    Z, y = cloud(rng, 9000, 3.0)
    rows = np.arange(9000)
    data = Data(Z, y, np.ones(9000), rows, rows)
    make = partial(choose.class_sums, kernel=Gaussian())
    _, parts = assert_parts_make_the_whole(rng, data, make)
    assert (parts[0].query_rows != parts[2].query_rows).any()
    assert all(part.share < 0.5 for part in parts[:2])


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("dense_up_to", [1000, 0])
def test_sums_over_classes(rng, monkeypatch, dense_up_to, scale):
    monkeypatch.setattr(choose, "DENSE_UP_TO", dense_up_to)
    monkeypatch.setattr(tiles, "ORDER_FROM", 100)
    Z, y = cloud(rng, N, scale)
    some = rng.permutation(N)
    for queries in (np.arange(N), some[:400]):
        data = Data(Z, y, rng.uniform(0.1, 1.0, N), queries, some[100:])
        for kernel in REACHING:
            assert_parts_make_the_whole(rng, data, partial(choose.class_sums, kernel=kernel))


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("pairs", ["all", "some", "sampled", "trees"])
def test_sums_over_classes_by_lists_and_trees(rng, pairs, scale):
    Z, y = cloud(rng, N, scale)
    some = rng.permutation(N)
    data = Data(Z, y, rng.uniform(0.1, 1.0, N), some[:400], some[100:])
    if pairs == "trees":
        pairs = Bounded(0.0, always=True)
    else:
        pairs = all_rows(N) if pairs == "all" else some_lists(rng, N, pairs == "sampled")
    for kernel in REACHING:
        make = partial(choose.class_sums, kernel=kernel, pairs=pairs)
        assert_parts_make_the_whole(rng, data, make)


def test_sums_in_range(rng, monkeypatch):
    monkeypatch.setattr(cpu, "INDEX_FROM", 100)
    Z, y = cloud(rng, N, 1.0)
    some, kernel = rng.permutation(N), Compact()
    data = Data(Z, y, rng.uniform(0.1, 1.0, N), some[:100], some)
    index = cpu.make_index(Z, y, some, kernel, 100)
    assert index is not None
    for pairs in (None, index):
        make = partial(choose.class_sums, kernel=kernel, pairs=pairs)
        assert_parts_make_the_whole(rng, data, make)


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("engine", ["dense", "blocks", "lists"])
def test_sums_over_matches_and_means(rng, monkeypatch, engine, scale):
    monkeypatch.setattr(choose, "DENSE_UP_TO", 1000 if engine == "dense" else 0)
    Z, y = cloud(rng, N, scale)
    some = rng.permutation(N)
    data = Data(Z, 0 * y, rng.uniform(0.1, 1.0, N), some[:400], some[100:])
    pairs = all_rows(N) if engine == "lists" else None
    charges = rng.standard_normal((N, 2))
    backend = choose.backend(Z, N)
    for kernel in REACHING:
        more = {"kernel": kernel, "pairs": pairs}
        whole, _ = assert_parts_make_the_whole(
            rng, data, partial(backend.charged_sums, charges=charges, **more)
        )
        assert whole.name == engine
        for kind in ("distributions", "numbers", "hard numbers", "partners"):
            make = partial(backend.match_sums, target=a_target(rng, y, kind), **more)
            assert_parts_make_the_whole(rng, data, make)


def test_sums_of_other_queries_are_refused(rng):
    Z, y = cloud(rng, 40, 1.0)
    rows = np.arange(40)
    data = Data(Z, y, np.ones(40), rows, rows)
    charges = rng.standard_normal((40, 2))
    backend = choose.backend(Z, 40)
    for make, join in [
        (partial(choose.class_sums, kernel=Gaussian()), merge),
        (partial(backend.charged_sums, charges=charges, kernel=Gaussian()), merge_means),
    ]:
        whole, few = make(data), make(data._replace(query_rows=rows[3:]))
        message = r"same queries .* Got 37 and 40 queries, .* alone are the rows \[0, 1, 2\]"
        with pytest.raises(ValueError, match=message):
            join(whole.sums(), few.sums())
        with pytest.raises(ValueError, match=r"same queries .* Got 37 and 40 queries"):
            whole.pull(few.sums(), np.ones((2, 37)) if join is merge else np.ones((37, 2)))
