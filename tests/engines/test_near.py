"""What is left out of the exact sums changes no bit of them, and what is planned covers all."""

from __future__ import annotations

import itertools

import formulas
import numpy as np
import pytest
from numba import config

from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines.cpu import near as _near
from vicinal.engines.cpu import tiles as _tiles
from vicinal.kernels import _blocks
from vicinal.objectives import nca, nca_posterior
from vicinal.targets import Labels

COMPACT, GAUSSIAN, LAPLACE, STUDENT = Compact(), Gaussian(), Laplace(), Student()


def clusters(rng, n, d, n_clusters=12, n_classes=4, dtype=np.float64):
    """Clusters one unit wide and far apart; each class has several."""
    which = rng.integers(0, n_clusters, n)
    Z = 12 * rng.standard_normal((n_clusters, d))[which] + rng.standard_normal((n, d))
    return Z.astype(dtype), which % n_classes


@pytest.fixture
def order_few(monkeypatch):
    """Have even few rows ordered, in blocks of 256."""
    blocks = _tiles.block_edges
    monkeypatch.setattr(_tiles, "ORDER_FROM", 1)
    monkeypatch.setattr(_tiles, "share_out_of_reach", lambda *args: 1.0)
    monkeypatch.setattr(_tiles, "block_edges", lambda n: blocks(n, 256, 4))


def assert_same_bits_with_everything(monkeypatch, *args, least=0.5, **kwargs):
    """The value to the last bit, the gradient to rounding; return the share computed."""
    report = {}
    value, dZ = nca(*args, report=report, **kwargs)
    with monkeypatch.context() as patch:
        patch.setattr(_tiles, "LEAVE_OUT", False)
        expected, dZ_expected = nca(*args, **kwargs)
    assert report["share_of_pairs"] < least
    assert value == expected
    eps = np.finfo(dZ.dtype).eps
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=4 * eps * np.abs(dZ_expected).max())


@pytest.mark.usefixtures("order_few")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 5])
def test_leaving_out_changes_no_bit_of_the_value(rng, monkeypatch, dtype, d):
    Z, y = clusters(rng, 3000, d, 8, 8, dtype=dtype)
    labels = Labels(y, rng.uniform(0.1, 2, 3000), np.arange(1, 9))
    rows = {"queries": np.arange(2500), "references": np.arange(300, 3000)}
    for scale in [1, 3, 10]:
        W = (scale * Z).astype(dtype)
        for objective in ["log", "accuracy"]:
            assert_same_bits_with_everything(monkeypatch, W, y, objective)
        assert_same_bits_with_everything(monkeypatch, W, labels)
        assert_same_bits_with_everything(monkeypatch, W, labels, **rows)


@pytest.mark.usefixtures("order_few")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_sums_keep_all_their_bits(rng, monkeypatch, dtype):
    n = 3000
    Z, y = clusters(rng, n, 3, 8, dtype=dtype)
    Q, _ = _tiles.kernel_points(Z, y, np.ones(n), np.zeros(3, dtype), 1.2, ordered=True)
    for kernel in [GAUSSIAN, COMPACT]:
        sums, minima = _tiles.Tiles(Q, Q, np.arange(n), kernel).sums()
        with monkeypatch.context() as patch:
            patch.setattr(_tiles, "LEAVE_OUT", False)
            engine = _tiles.Tiles(Q, Q, np.arange(n), kernel)
            everything, same_minima = engine.sums()
        assert engine.share < 0.5
        np.testing.assert_array_equal(sums, everything)
        np.testing.assert_array_equal(minima, same_minima)


@pytest.mark.usefixtures("order_few")
def test_matches_reference(rng):
    for n, n_classes in [(900, 4), (500, 150), (300, 1)]:  # the middle one: chunks of many classes
        Z, _ = clusters(rng, n, 2)
        y = np.arange(n) % n_classes
        for scale in [0.1, 1.0, 5.0]:
            value, dZ = nca(scale * Z, y)
            expected, dZ_expected = formulas.nca(scale * Z, y, "log")
            assert value == pytest.approx(expected, rel=1e-10)
            size = np.abs(dZ_expected).max()
            np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=1e-10 * size + 1e-30)


@pytest.mark.usefixtures("order_few")
@pytest.mark.parametrize(("kernel", "name"), [(STUDENT, "student"), (COMPACT, "compact")])
def test_other_kernels_match_reference(rng, kernel, name):
    Z, y = clusters(rng, 900, 2)
    y = rng.permutation(y)
    rows = {"queries": np.arange(700), "references": np.arange(200, 900)}
    report = {}
    for scale in [0.3, 3.0]:
        for kwargs in [{}, rows]:
            value, dZ = nca(scale * Z, y, "accuracy", kernel=kernel, report=report, **kwargs)
            expected = formulas.nca(scale * Z, y, "accuracy", kernel=name, **kwargs)
            assert value == pytest.approx(expected[0], rel=1e-10)
            size = np.abs(expected[1]).max()
            np.testing.assert_allclose(dZ, expected[1], rtol=0, atol=1e-10 * size)
    assert (report["share_of_pairs"] < 0.6) == (name == "compact")


@pytest.mark.usefixtures("order_few")
def test_student_tails_that_vanish(rng, monkeypatch):
    """In many dimensions even they do: (1 + d²)^-11 falls below 2**-60 at d² = 44."""
    Z, y = clusters(rng, 800, 20)
    assert_same_bits_with_everything(monkeypatch, 3e3 * Z, y, kernel=STUDENT, least=0.99)


@pytest.mark.usefixtures("order_few")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_tail_of_laplace_is_left_out(rng, monkeypatch, dtype):
    """Beyond some forty times the width, in place of the Gaussian's six."""
    Z, y = clusters(rng, 1200, 2, 8, 8, dtype=dtype)
    for scale in [10, 100]:
        W = (scale * Z).astype(dtype)
        assert_same_bits_with_everything(monkeypatch, W, y, kernel=LAPLACE)
    expected = formulas.nca(W, y, "log", kernel="laplace")
    value, dZ = nca(W, y, kernel=LAPLACE)
    rtol = 1e-4 if dtype == np.float32 else 1e-10
    assert value == pytest.approx(expected[0], rel=rtol)
    np.testing.assert_allclose(dZ, expected[1], rtol=0, atol=rtol * np.abs(expected[1]).max())


@pytest.mark.usefixtures("order_few")
@pytest.mark.parametrize("kernel", [GAUSSIAN, COMPACT])
def test_thread_count_agnosticism(rng, monkeypatch, kernel):
    Z, y = clusters(rng, 1600, 2, dtype=np.float32)
    got = []
    for threads in [1, 2, 3]:
        for module in (_tiles, _near):
            monkeypatch.setattr(module, "n_threads", lambda threads=threads: threads)
        got.append(nca(Z, y, "accuracy", kernel=kernel))
    for value, dZ in got[1:]:
        assert value == got[0][0]
        np.testing.assert_array_equal(dZ, got[0][1])


@pytest.mark.usefixtures("order_few")
def test_posterior_of_ordered_rows(rng):
    Z, y = clusters(rng, 700, 2)
    new, _ = clusters(rng, 300, 2)
    P = nca_posterior(new, Z, y)
    np.testing.assert_allclose(P, formulas.posterior(new, Z, y), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("order_few")
def test_twins_and_outliers(rng, monkeypatch):
    Z, y = clusters(rng, 800, 2)
    Z[:100] = Z[0]  # a cell without extent
    Z[100:103] *= 1e6
    Z[400:500, 1] = 0.0
    for scale in [1.0, 10.0]:
        assert_same_bits_with_everything(monkeypatch, scale * Z, y, least=0.95)
        value, dZ = nca(scale * Z, y, "accuracy")
        expected = formulas.nca(scale * Z, y, "accuracy")
        assert value == pytest.approx(expected[0], rel=1e-9)
        np.testing.assert_allclose(dZ, expected[1], atol=1e-9 * np.abs(expected[1]).max())


@pytest.mark.nojit
@pytest.mark.parametrize("kernel", [GAUSSIAN, STUDENT, LAPLACE, COMPACT])
def test_few_rows_in_small_chunks(rng, monkeypatch, kernel):
    blocks = _tiles.block_edges
    monkeypatch.setattr(_tiles, "ORDER_FROM", 1)
    monkeypatch.setattr(_tiles, "share_out_of_reach", lambda *args: 1.0)
    monkeypatch.setattr(_tiles, "block_edges", lambda n: blocks(n, 12, 1))
    if config.DISABLE_JIT:
        for module in (_blocks, _near):
            monkeypatch.setattr(module, "CHUNK", 4)
    Z, y = clusters(rng, 40, 2, 6, 2)
    objective = "accuracy" if kernel is COMPACT else "log"
    name = type(kernel).__name__.lower()
    rows = {"queries": np.arange(30), "references": np.arange(8, 40)}
    for kwargs in [{}, rows]:
        value, dZ = nca(Z, y, objective, kernel=kernel, **kwargs)
        expected = formulas.nca(Z, y, objective, kernel=name, **kwargs)
        assert value == pytest.approx(expected[0], rel=1e-9)
        np.testing.assert_allclose(dZ, expected[1], atol=1e-9 * np.abs(expected[1]).max())


def test_report_of_all_pairs(rng):
    Z, y = clusters(rng, 60, 2)
    report = {}
    nca(Z, y, report=report)
    assert report == {"share_of_pairs": 1.0}


@pytest.mark.nojit
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 5), (8, 8), (3, 7), (7, 3)])
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_rounds_touch_nothing_twice(rng, rows, columns, share):
    mirror = rows == columns
    wanted = rng.uniform(size=(rows, columns)) <= share
    p, q = np.nonzero(np.triu(wanted) if mirror else wanted)
    plan = list(_near.rounds(p, q, 10 * p + q, rows, columns, mirror))
    for triples in plan:
        touched = [{p, q} for p, q, _ in triples] if mirror else None
        for blocks in zip(*((p, q) for p, q, _ in triples), strict=True):
            assert len(set(blocks)) == len(blocks)
        if mirror:
            assert len(set().union(*touched)) == sum(map(len, touched))
    met = sorted(triple for triples in plan for triple in triples)
    assert met == sorted((a, b, 10 * a + b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
    if share == 1:
        assert len(plan) <= (rows + 1 if mirror else max(rows, columns))


@pytest.mark.parametrize("n", [1, 31, 33, 64, 65, 300, 1000])
def test_order_keeps_blocks_chunks_and_tiles_together(rng, n):
    """Along one dimension the order is that of the line, cell by cell."""
    points = rng.standard_normal((1, n))
    edges = [0, n // 3, n]
    order = _near.order_within_classes(points, np.zeros(n, int), edges)
    assert sorted(order) == list(range(n))
    if n >= _blocks.CHUNK:
        cuts = np.unique([*_near._chunk_edges(edges, np.zeros(n, int))])
        highest = -np.inf
        for first, last in itertools.pairwise(cuts):
            cell = points[0, order[first:last]]
            assert cell.min() >= highest
            highest = cell.max()


def test_ordered_only_where_much_is_out_of_reach(rng, monkeypatch):
    monkeypatch.setattr(_tiles, "ORDER_FROM", 1000)
    Z, y = clusters(rng, 1000, 2)
    mass = rng.uniform(0.5, 1, 1000)

    def worth(scale, kernel=GAUSSIAN, rows=slice(None)):
        part = scale * Z[rows], y[rows]
        return _tiles.worth_ordering(*part, scale * Z, y, mass, kernel)

    assert [worth(scale) for scale in [0.1, 1, 10]] == [False, True, True]
    assert [worth(scale, COMPACT) for scale in [0.01, 1]] == [False, True]
    assert not worth(10, STUDENT)
    assert [worth(scale, LAPLACE) for scale in [1, 100]] == [False, True]
    assert not worth(10, rows=slice(999))  # too few
    wide = np.tile(10 * Z, (1, 20))
    assert not _tiles.worth_ordering(wide, y, wide, y, mass, GAUSSIAN)
    alone = _tiles.worth_ordering(10 * Z, np.arange(1000), 10 * Z, np.arange(1000), mass, GAUSSIAN)
    assert alone  # no class has two members: that kind of sum asks for nothing
