"""What every objective of embedded points keeps to.  A new one is a line in `OBJECTIVES`."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from math import exp, log
from typing import NamedTuple

import numpy as np
import pytest
from numba import config
from scipy.optimize import minimize
from scipy.stats import special_ortho_group
from threadpoolctl import threadpool_limits

from vicinal import reference
from vicinal.engines.cpu import tiles as _tiles
from vicinal.objectives import nca
from vicinal.reference import finite_difference


class Case(NamedTuple):
    name: str
    fast: Callable  # value, dZ = fast(Z, y, queries=None, references=None)
    plain: Callable  # the same, from `vicinal.reference`
    bounds: tuple[float, float]  # of the value
    worst: float  # the value of a query whose class is out of reach, inf if there is no bound


OBJECTIVES = [
    Case(
        f"nca {objective}",
        functools.partial(nca, objective=objective),
        functools.partial(reference.nca, objective=objective),
        bounds,
        worst,
    )
    for objective, bounds, worst in [
        ("accuracy", (-1.0, 0.0), 0.0),
        ("log", (0.0, np.inf), np.inf),
    ]
]
each_objective = pytest.mark.parametrize("case", OBJECTIVES, ids=lambda case: case.name)


def points(rng, n, d, n_classes, scale=1.0):
    """Overlapping classes whose members are spread over the rows."""
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return scale * (rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n_classes, d))[y]), y


def lattice(rng, scale):
    """Near-ties at any scale, so that the gradient never vanishes."""
    grid = np.array([[i, j] for i in range(4) for j in range(3)], dtype=float)
    y = np.array([0, 1, 2, 1, 0, 0, 2, 2, 1, 0, 1, 2])
    return scale * grid + 0.3 / scale * rng.standard_normal(grid.shape), y


def assert_close(got, expected, rtol):
    """Values relative to themselves, gradients to the largest entry (float32's least is 0)."""
    (value, dZ), (value_expected, dZ_expected) = got, expected
    assert value == pytest.approx(value_expected, rel=rtol, abs=1e-12 * rtol)
    size = np.abs(dZ_expected).max()
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + 1e-30)


def force_blocks(monkeypatch, size, multiple):
    blocks = _tiles.block_edges
    monkeypatch.setattr(_tiles, "block_edges", lambda n: blocks(n, size, multiple))


def assert_same_bits(got, expected):
    assert got[0] == expected[0]
    np.testing.assert_array_equal(got[1], expected[1])


# 5 and 60 are one tile, 800 two blocks of rows, 1700 more blocks and tiles wider than one; from 48
# dimensions on distances are matrix products
SHAPES = [(5, 2, 2), (5, 3, 3), (60, 1, 3), (60, 2, 20), (60, 5, 4), (60, 13, 2), (60, 50, 3)]
SHAPES += [(800, 2, 2), (800, 3, 260), (800, 13, 5), (800, 60, 7), (1700, 2, 3), (1700, 5, 600)]


@each_objective
@pytest.mark.parametrize(("n", "d", "n_classes"), SHAPES)
def test_matches_reference(rng, case, n, d, n_classes):
    Z, y = points(rng, n, d, n_classes, 1 / np.sqrt(d))
    if n == 5:
        y = np.array([0, 1, 0, 1, 0])  # else a class may be left with one member
    for scale in [0.3, 3.0, 20.0] if n < 100 else [3.0]:
        assert_close(case.fast(scale * Z, y), case.plain(scale * Z, y), 1e-10)


@each_objective
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0])
def test_gradient_matches_finite_differences(rng, case, scale):
    Z, y = lattice(rng, scale)
    dZ = case.fast(Z, y)[1]
    size = np.abs(dZ).max()
    assert size > 0.01  # nothing is compared to zero
    numeric = finite_difference(lambda W: case.fast(W, y)[0], Z, 1e-4 / scale)
    np.testing.assert_allclose(dZ, numeric, rtol=1e-5, atol=1e-6 * size)


@each_objective
def test_gradient_matches_finite_differences_at_a_converged_map(rng, case):
    X, y = points(rng, 40, 4, 3)

    def loss(a):
        value, dZ = case.fast(X @ a.reshape(2, 4).T, y)
        return value + 1e-3 * a @ a, (dZ.T @ X).ravel() + 2e-3 * a

    start = 0.5 * rng.standard_normal(8)
    end = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "ftol": 0})
    assert np.abs(end.jac).max() < 1e-5 < 1e-3 < np.abs(loss(start)[1]).max()
    A = 1.7 * end.x.reshape(2, 4)  # and further along, where NCA would go without the penalty
    for Z in [X @ end.x.reshape(2, 4).T, X @ A.T]:
        numeric = finite_difference(lambda W: case.fast(W, y)[0], Z, 1e-5)
        dZ = case.fast(Z, y)[1]
        np.testing.assert_allclose(dZ, numeric, rtol=1e-5, atol=1e-6 * np.abs(dZ).max())


@each_objective
def test_value_adds_over_queries(rng, case):
    Z, y = points(rng, 900, 3, 4)
    value, dZ = case.fast(Z, y)
    parts = np.array_split(rng.permutation(900), [1, 50, 830])
    got = [case.fast(Z, y, queries=part) for part in parts]
    share = np.array([len(part) / 900 for part in parts])
    assert share @ [part[0] for part in got] == pytest.approx(value, rel=1e-12)
    total = sum(s * part[1] for s, part in zip(share, got, strict=True))
    np.testing.assert_allclose(total, dZ, atol=1e-12 * np.abs(dZ).max())


@each_objective
@pytest.mark.parametrize("d", [3, 60])
def test_queries_and_references(rng, case, monkeypatch, d):
    force_blocks(monkeypatch, 60, 1)
    Z, y = points(rng, 300, d, 4, 1.5 / np.sqrt(d))
    order = rng.permutation(300)
    mask = np.zeros(300, dtype=bool)
    mask[order[:100]] = True
    for q, r in [
        (order[:30], order[30:]),
        (order[:280], order[260:]),
        (order, order[100:]),
        (order[:100], None),
        (None, order[:70]),
        (order[5:6], order[:90]),
        (np.sort(order[:50]), order[:50]),
        (mask, mask),
    ]:
        got = case.fast(Z, y, queries=q, references=r)
        q, r = (np.flatnonzero(rows) if rows is mask else rows for rows in (q, r))
        assert_close(got, case.plain(Z, y, queries=q, references=r), 1e-10)
        touched = np.concatenate([np.arange(300) if rows is None else rows for rows in (q, r)])
        assert not np.delete(got[1], touched, axis=0).any()


@each_objective
@pytest.mark.parametrize("d", [3, 60])
@pytest.mark.parametrize(("size", "multiple"), [(7, 1), (50, 3), (100_000, 4)])
def test_tile_size_agnosticism(rng, case, monkeypatch, d, size, multiple):
    Z, y = points(rng, 200, d, 5, 2 / np.sqrt(d))
    q = {"queries": rng.permutation(200)[:90], "references": rng.permutation(200)[:120]}
    whole, held_out = case.fast(Z, y), case.fast(Z, y, **q)
    force_blocks(monkeypatch, size, multiple)
    assert_close(case.fast(Z, y), whole, 1e-12)
    assert_close(case.fast(Z, y, **q), held_out, 1e-12)


@each_objective
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 60])
def test_thread_count_agnosticism(rng, case, monkeypatch, dtype, d):
    Z, y = points(rng, 1700, d, 5, 3 / np.sqrt(d))
    Z = Z.astype(dtype)
    q = {"queries": np.arange(850), "references": np.arange(300, 1700)}
    monkeypatch.setattr(_tiles, "n_threads", lambda: 1)
    force_blocks(monkeypatch, 180, 1)  # ten blocks of them: an odd share for each
    whole, held_out = case.fast(Z, y), case.fast(Z, y, **q)
    for threads in [2, 3, 7]:
        monkeypatch.setattr(_tiles, "n_threads", lambda threads=threads: threads)
        assert_same_bits(case.fast(Z, y), whole)
        assert_same_bits(case.fast(Z, y, **q), held_out)


@each_objective
@pytest.mark.parametrize("d", [2, 60])
def test_thread_count_agnosticism_under_threadpoolctl(rng, case, d):
    Z, y = points(rng, 1700, d, 5, 3 / np.sqrt(d))
    expected = case.fast(Z, y)
    for threads in [1, 2]:
        with threadpool_limits(threads):
            assert_same_bits(case.fast(Z, y), expected)


@each_objective
@pytest.mark.parametrize("d", [1, 3, 13])
def test_translation_and_rotation(rng, case, d):
    Z, y = points(rng, 300, d, 4)
    value, dZ = case.fast(Z, y)
    np.testing.assert_allclose(dZ.sum(axis=0), 0, atol=1e-13)  # a common step costs nothing
    Q = special_ortho_group.rvs(d, random_state=7) if d > 1 else -np.eye(1)
    assert_close(case.fast(Z @ Q.T + rng.uniform(-50, 50, d), y), (value, dZ @ Q.T), 1e-10)


@each_objective
def test_order_of_rows_and_names_of_classes(rng, case):
    Z, y = points(rng, 300, 3, 4)
    value, dZ = case.fast(Z, y)
    order = rng.permutation(300)
    assert_close(case.fast(Z[order], y[order]), (value, dZ[order]), 1e-12)
    for names in [np.array(list("zebu")), np.array([-7, 1e9, 3, 0.5]), np.array([2, 0, 3, 1])]:
        assert_close(case.fast(Z, names[y]), (value, dZ), 1e-12)


@each_objective
@pytest.mark.parametrize(("scale", "rtol"), [(1.0, 2e-6), (10.0, 5e-5)])
def test_float32_near_float64(rng, case, scale, rtol):
    """d² is known to eps d², and that is the relative error of exp(-d²): 1e-7 * 4 * scale²."""
    Z, y = points(rng, 500, 3, 4)
    Z = (scale * Z).astype(np.float32)
    value, dZ = case.fast(Z, y)
    assert dZ.dtype == np.float32
    assert_close((value, dZ), case.fast(Z.astype(np.float64), y), rtol)


def test_six_points_by_hand():
    """A hexagon of radius 1 in turn a b a b a b: d² is 1, 3, 4, 3, 1 around each point."""
    angle = np.arange(6) * np.pi / 3
    Z, y = np.stack([np.cos(angle), np.sin(angle)], axis=1), list("ababab")
    own, other = 2 * exp(-3), 2 * exp(-1) + exp(-4)
    p = own / (own + other)
    gap = (2 * exp(-1) * 1 + exp(-4) * 4) / other - 3  # mean d² of the others less of the own
    for case, value, slope in zip(OBJECTIVES, [-p, -log(p)], [p * (1 - p), 1 - p], strict=True):
        for dtype, rtol in [(np.float64, 1e-13), (np.float32, 1e-6)]:
            # growing by a factor 1 + t adds 2 t d² to d²; by symmetry each row has a sixth of it
            assert_close(case.fast(Z.astype(dtype), y), (value, -slope * gap / 3 * Z), rtol)


@each_objective
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shape_and_dtype_of_the_gradient(rng, case, dtype):
    Z, y = points(rng, 40, 3, 2)
    Z = np.asfortranarray(Z.astype(dtype))
    before, y_before = Z.copy(), y.copy()
    value, dZ = case.fast(Z, y)
    assert type(value) is float
    assert (dZ.shape, dZ.dtype) == (Z.shape, Z.dtype)
    np.testing.assert_array_equal(Z, before)
    np.testing.assert_array_equal(y, y_before)
    Z.setflags(write=False)
    assert_same_bits(case.fast(Z[:, ::-1][:, ::-1], list(y)), (value, dZ))
    for other in [Z.astype(np.float16), (5 * Z).astype(int), (5 * Z).astype(int).tolist()]:
        assert case.fast(other, y)[1].dtype == np.float64


@each_objective
def test_without_the_gradient(rng, case):
    Z, y = points(rng, 900, 3, 4)
    value, dZ = case.fast(Z, y, gradient=False)
    assert value == case.fast(Z, y)[0]
    assert dZ.shape == Z.shape
    assert not dZ.any()


@each_objective
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_duplicates(rng, case, dtype):
    Z, y = points(rng, 300, 3, 4, 3.0)
    Z[150:] = Z[:150]  # half of the pairs with another label
    rtol = 1e-5 if dtype == np.float32 else 1e-10
    Z = Z.astype(dtype)
    assert_close(case.fast(Z, y), case.plain(Z, y), rtol)
    value, dZ = case.fast(np.ones((300, 3), dtype), y)  # all rows alike
    assert_close((value, dZ), case.plain(np.ones((300, 3)), y), 1e-6)
    assert not dZ.any()


@each_objective
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [3, 60])
def test_far_outliers(rng, case, dtype, d):
    """A few rows a million away, alone or together: the others keep all their digits."""
    Z, y = points(rng, 300, d, 3, 2 / np.sqrt(d))
    Z[:4] += 1e6 * np.array([[1.0], [-1.0], [2.0], [1.0]])
    Z = Z.astype(dtype)
    rows = {"queries": np.arange(4, 300)}
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert_close(case.fast(Z, y, **rows), case.plain(Z, y, **rows), tolerance)
    got, expected = case.fast(Z, y), case.plain(Z, y)
    if dtype == np.float64:
        assert_close(got, expected, 1e-8)
    else:  # two of them are neighbours, known to 0.06 each: theirs is a share of 2 / 300
        assert got[0] == pytest.approx(expected[0], rel=1e-4, abs=2 / 300)


@each_objective
@pytest.mark.parametrize("scale", [1e-8, 1e8, 1e14, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_and_tiny_scales(rng, case, scale, dtype):
    Z, y = points(rng, 100, 3, 3)
    Z = (scale * Z).astype(dtype)
    got = case.fast(Z, y)
    assert case.bounds[0] <= got[0] <= case.bounds[1]
    assert_close(got, case.plain(Z, y), 1e-3 if dtype == np.float32 else 1e-8)


@each_objective
def test_settled_points_have_no_gradient(rng, case):
    """Pairs of twins, a thousand apart: all is certain, and nothing pulls."""
    Z = np.repeat(1e3 * np.arange(40.0)[:, None], 2, axis=0) + 0.01 * rng.standard_normal((80, 2))
    value, dZ = case.fast(Z, np.repeat(np.arange(40), 2))
    assert value == case.bounds[0]
    assert not dZ.any()


@each_objective
def test_one_class_and_few_rows(rng, case):
    Z, _ = points(rng, 50, 2, 2)
    value, dZ = case.fast(Z, np.zeros(50))
    assert (value, dZ.any()) == (case.bounds[0], False)
    for n in [0, 1]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            value, dZ = case.fast(Z[:n], np.zeros(n))
        assert (value, dZ.any(), dZ.shape) == (0.0, False, (n, 2))
    for rows in [{"queries": []}, {"references": []}]:
        value, dZ = case.fast(Z, np.zeros(50), **rows)
        assert (value, dZ.any()) == (0.0, False)


@each_objective
def test_wrong_input(rng, case):
    Z, y = points(rng, 12, 2, 2)
    bad = Z.copy()
    bad[3, 1] = np.nan
    wrong = [
        ((bad, y), {}, r"Z must be finite\. Got NaN"),
        ((np.where(np.isnan(bad), np.inf, Z), y), {}, r"Z must be finite\. Got NaN or infinity"),
        ((1e120 * Z, y), {}, r"Z must lie within ±1e\+100\. Got \d"),
        ((Z[:, 0], y), {}, r"Z must have shape \(n, d\) with d >= 1\. Got \(12,\) instead"),
        ((Z[:, :0], y), {}, r"Got \(12, 0\) instead"),
        ((Z, y[:-1]), {}, "Z has 12 rows but there are 11 labels"),
        ((Z, y[:, None]), {}, "labels must be one-dimensional. Got 2 dimensions"),
        ((Z, y), {"queries": [0, 12]}, r"'queries' parameter of \w+ must lie in \[0, 11\]"),
        ((Z, y), {"references": [-1, 2]}, r"'references' parameter .* Got -1\.\.2 instead"),
        ((Z, y), {"queries": [1, 2, 1]}, "'queries' parameter of .* must not repeat a row"),
        ((Z, y), {"queries": [0.5]}, "'queries' parameter of .* vector of row positions"),
        ((Z, y), {"references": [[1]]}, "'references' parameter of .* vector of row positions"),
        ((Z, y), {"queries": np.ones(5, dtype=bool)}, "'queries' .* vector of row positions"),
    ]
    for args, kwargs, message in wrong:
        with pytest.raises(ValueError, match=message):
            case.fast(*args, **kwargs)


@pytest.mark.skipif(config.DISABLE_JIT, reason="slow in plain Python")
@each_objective
def test_own_class_out_of_reach(rng, case):
    """Classes far apart from themselves: p_i underflows, the loss does not."""
    Z, y = points(rng, 100, 2, 2)
    Z[y == 0, 0] += 100 * np.arange((y == 0).sum())
    Z[y == 1] = Z[y == 0][: (y == 1).sum()] + 1
    got, expected = case.fast(Z, y), case.plain(Z, y)
    assert_close(got, expected, 1e-10)
    assert got[0] == pytest.approx(0, abs=1e-30) if case.worst == 0 else got[0] > 1e3
