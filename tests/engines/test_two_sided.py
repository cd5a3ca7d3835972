"""Sums between two sets of rows for both at once: those of blocks are those of the whole."""

from __future__ import annotations

from functools import reduce
from itertools import combinations, pairwise

import numpy as np
import pytest
from common.checks import set_threads

from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines.base import Data, merge
from vicinal.engines.cpu import tiles
from vicinal.engines.cpu.backend import class_sums
from vicinal.engines.cpu.two_sided import TwoSidedSums

KERNELS = [Gaussian(), Student(), Laplace(), Compact()]


def cloud(rng, n, scale, d=2):
    """Groups of rows of all classes; one class is in the first half alone."""
    Z = 0.3 * rng.standard_normal((n, d)) + 5.0 * rng.integers(0, 4, (n, d))
    y = rng.integers(0, 3, n)
    y[: n // 8] = 3
    return scale * Z, y


def block_sums(Z, y, mass, edges, kernel):
    """Sums and gradient of all rows, from the pairs within blocks and between two of them."""
    parts = [np.arange(a, b) for a, b in pairwise(edges)]
    found = [[] for _ in parts]
    engines = []
    for p, rows in enumerate(parts):
        own = class_sums(Data(Z, y, mass, rows, rows), kernel)
        engines.append(((p,), own))
        found[p].append(own.sums())
    for p, q in combinations(range(len(parts)), 2):
        pair = TwoSidedSums(Data(Z, y, mass, parts[p], parts[q]), kernel)
        engines.append(((p, q), pair))
        for place, sums in zip((p, q), pair.sums(), strict=True):
            found[place].append(sums)
    return engines, [reduce(merge, sums) for sums in found]


def assert_blocks_make_the_whole(rng, Z, y, kernel, edges, rtol):
    n = len(Z)
    mass, rows = rng.uniform(0.1, 1.0, n), np.arange(n)
    whole = class_sums(Data(Z, y, mass, rows, rows), kernel)
    expected = whole.sums()
    engines, joint = block_sums(Z, y, mass, edges, kernel)
    log2, shift = np.empty((2, n)), np.empty((2, n))
    for sums in joint:
        log2[:, sums.rows], shift[:, sums.rows] = sums.log2, sums.shift
    atol = rtol * max(1.0, np.abs(expected.shift[np.isfinite(expected.shift)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(
            (log2 - shift)[:, expected.rows], expected.log2 - expected.shift, rtol=0, atol=atol
        )
    slopes = rng.standard_normal((2, n))
    expected_dZ = whole.pull(expected, slopes[:, expected.rows])
    dZ = np.zeros_like(expected_dZ)
    for places, engine in engines:
        sums = [joint[p] for p in places]
        slope = [slopes[:, part.rows] for part in sums]
        dZ += engine.pull(*((sums[0], slope[0]) if len(places) == 1 else (sums, slope)))
    np.testing.assert_allclose(dZ, expected_dZ, rtol=0, atol=10 * rtol * np.abs(expected_dZ).max())
    assert np.abs(expected_dZ).max() > 0
    return engines


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("ordered", [False, True])
def test_blocks_make_the_whole(rng, monkeypatch, kernel, scale, ordered):
    if ordered:
        monkeypatch.setattr(tiles, "ORDER_FROM", 100)
        monkeypatch.setattr(tiles, "WORTH", 0.0)
    if isinstance(kernel, Compact) and scale == 30.0:
        scale = 5.0  # beyond, no row is in range of another
    Z, y = cloud(rng, 900, scale)
    # a compact kernel has few digits at the edge of its range
    single = 2e-3 if isinstance(kernel, Compact) else 1e-4
    for dtype, rtol in ((np.float64, 1e-12), (np.float32, single)):
        edges = [0, 380, 391, 900]
        assert_blocks_make_the_whole(rng, Z.astype(dtype), y, kernel, edges, rtol)


def test_many_dimensions_by_products(rng):
    Z, y = cloud(rng, 500, 0.1, 60)
    for kernel in (Gaussian(), Student()):
        assert_blocks_make_the_whole(rng, Z, y, kernel, [0, 200, 500], 1e-9)


def test_far_tiles_are_left_out(rng):
    """What is left out changes no digit, and is most of the pairs of groups far apart."""
    Z, y = cloud(rng, 9000, 6.0)
    engines = assert_blocks_make_the_whole(rng, Z, y, Gaussian(), [0, 4500, 9000], 1e-11)
    assert engines[-1][1].share < 0.4


def test_each_pair_is_computed_once(rng):
    """Half of the work of two engines that have a direction each, which is what `share` counts."""
    Z, y = cloud(rng, 600, 1.0)
    data = Data(Z, y, np.ones(600), np.arange(250), np.arange(250, 600))
    calls = []
    engine = TwoSidedSums(data, Gaussian())
    distances = engine.tiles._points
    engine.tiles._points = lambda D: calls.append(1) or distances(D)
    there, back = engine.sums()
    assert engine.share == 1.0
    assert len(calls) == (len(engine.tiles.rows) - 1) * (len(engine.tiles.columns) - 1)
    assert np.array_equal(np.sort(there.rows), data.query_rows)
    assert np.array_equal(np.sort(back.rows), data.reference_rows)


def test_thread_count_agnosticism(rng, monkeypatch):
    Z, y = cloud(rng, 5000, 1.0)
    data = Data(Z, y, rng.uniform(0.1, 1.0, 5000), np.arange(2100), np.arange(2100, 5000))
    slopes = rng.standard_normal((2, 2100)), rng.standard_normal((2, 2900))
    told = []
    for threads in (1, 2, 3):
        set_threads(monkeypatch, threads)
        engine = TwoSidedSums(data, Gaussian())
        sums = engine.sums()
        told.append([*sums[0], *sums[1], engine.pull(sums, slopes)])
    for other in told[1:]:
        for a, b in zip(told[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_rows_in_both_sets_are_refused(rng):
    Z, y = cloud(rng, 40, 1.0)
    with pytest.raises(ValueError, match=r"must be different rows\. Got the row 19 among both"):
        TwoSidedSums(Data(Z, y, np.ones(40), np.arange(20), np.arange(19, 40)), Gaussian())
