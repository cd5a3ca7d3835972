"""NCA over candidate lists: the plain sums over the same pairs, and all pairs in the limit."""

from __future__ import annotations

import numpy as np
import pytest
from formulas import finite_difference, squared_distances

from vicinal.core.types import Pairs
from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines.cpu import lists as _lists
from vicinal.objectives import nca
from vicinal.targets import Labels

OBJECTIVES = ["log", "accuracy"]
KERNELS = [Gaussian(), Student(), Laplace(), Compact()]
# the logarithm needs a kernel that reaches everywhere
JOBS = [(k, o) for k in KERNELS for o in OBJECTIVES if (k, o) != (Compact(), "log")]
each_job = pytest.mark.parametrize(
    ("kernel", "objective"), JOBS, ids=[f"{type(k).__name__}-{o}" for k, o in JOBS]
)
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)


def points(rng, n, d, n_classes=3, dtype=np.float64):
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    Z = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((n_classes, d))[y]
    return (0.7 / np.sqrt(d) * Z).astype(dtype), y


def all_rows(n):
    return Pairs(np.arange(n + 1) * n, np.tile(np.arange(n, dtype=np.int32), n))


def some_rows(rng, n, m):
    """Lists of several lengths, one of them empty, the row itself among some."""
    lists = [rng.permutation(n)[: rng.integers(m // 2, m)] for _ in range(n)]
    lists[3] = lists[3][:0]
    lengths = [len(rows) for rows in lists]
    return Pairs(np.cumsum([0, *lengths]), np.concatenate(lists).astype(np.int32))


def kappa(kernel, d2, d):
    if isinstance(kernel, Gaussian):
        return np.exp(-d2)
    if isinstance(kernel, Student):
        return (1 + d2) ** (-(d + 1) / 2)
    if isinstance(kernel, Laplace):
        return np.exp(-np.sqrt(d2))
    return np.maximum(1 - d2, 0) ** 2


def plain(Z, y, objective, pairs, kernel, v=None, queries=None, references=None):
    """The value from an n x n mask of the pairs."""
    n, d = Z.shape
    v = np.ones(n) if v is None else v
    mask = np.zeros((n, n))
    for i in range(n):
        mask[i, pairs.indices[pairs.indptr[i] : pairs.indptr[i + 1]]] = 1
    np.fill_diagonal(mask, 0)
    if references is not None:
        mask[:, np.setdiff1d(np.arange(n), references)] = 0
    W = mask * v * kappa(kernel, squared_distances(Z), d)
    own = (W * (y[:, None] == y)).sum(axis=1)
    q = np.arange(n) if queries is None else queries
    q = q[own[q] > 0] if objective == "log" else q
    p = own[q] / np.where(W.sum(axis=1) > 0, W.sum(axis=1), 1)[q]
    return np.average(-np.log(p) if objective == "log" else -p, weights=v[q])


@pytest.mark.nojit
@each_job
@pytest.mark.parametrize("d", [1, 2, 5])
def test_value_and_gradient(rng, kernel, objective, d):
    n = 24
    Z, y = points(rng, n, d)
    pairs = some_rows(rng, n, 14)
    v = rng.uniform(0.5, 2, n)
    for rows in [{}, {"queries": np.arange(4, 15), "references": np.arange(8, 24)}]:
        labels = Labels(y, v)
        value, dZ = nca(Z, labels, objective, kernel=kernel, pairs=pairs, warn=False, **rows)
        assert value == pytest.approx(plain(Z, y, objective, pairs, kernel, v, **rows), rel=1e-12)
        slow = finite_difference(lambda Z: plain(Z, y, objective, pairs, kernel, v, **rows), Z)  # noqa: B023
        np.testing.assert_allclose(dZ, slow, rtol=0, atol=1e-7 * max(np.abs(slow).max(), 0.01))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("priors", [None, "uniform"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_full_lists_equal_tiles(rng, objective, priors, dtype):
    """m -> N: all pairs in lists are the exact objective, to rounding."""
    n = 300
    Z, y = points(rng, n, 5, dtype=dtype)
    for scale in [1, 30]:
        for v in [None, rng.uniform(0.2, 3, n)]:
            for rows in [{}, {"queries": np.arange(100), "references": np.arange(60, n)}]:
                args = (dtype(scale) * Z, Labels(y, v, priors), objective)
                expected, dZ_expected = nca(*args, **rows)
                value, dZ = nca(*args, pairs=all_rows(n), **rows)
                rtol = 2e-5 if dtype == np.float32 else 1e-12
                assert dZ.dtype == dtype
                assert value == pytest.approx(expected, rel=rtol)
                size = np.abs(dZ_expected).max()
                np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size)


@each_job
def test_float32_near_float64(rng, kernel, objective):
    Z, y = points(rng, 200, 6)
    pairs = some_rows(rng, 200, 60)
    a = nca(Z, y, objective, kernel=kernel, pairs=pairs, warn=False)
    b = nca(Z.astype(np.float32), y, objective, kernel=kernel, pairs=pairs, warn=False)
    assert b[0] == pytest.approx(a[0], rel=1e-5)
    np.testing.assert_allclose(b[1], a[1], rtol=0, atol=2e-5 * np.abs(a[1]).max())


@each_kernel
def test_thread_count_agnosticism(rng, monkeypatch, kernel):
    n = 1500
    Z, y = points(rng, n, 3, dtype=np.float32)
    pairs = some_rows(rng, n, 20)
    results = []
    for threads in [1, 2, 3]:
        monkeypatch.setattr(_lists, "n_threads", lambda threads=threads: threads)
        results.append(nca(Z, y, "accuracy", kernel=kernel, pairs=pairs, warn=False))
    for value, dZ in results[1:]:
        assert value == results[0][0]
        np.testing.assert_array_equal(dZ, results[0][1])


def test_value_adds_over_queries(rng):
    n = 100
    Z, y = points(rng, n, 3)
    pairs = all_rows(n)
    whole = nca(Z, y, pairs=pairs)
    halves = [nca(Z, y, queries=rows, pairs=pairs) for rows in np.split(rng.permutation(n), 2)]
    assert np.mean([value for value, _ in halves]) == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(np.mean([dZ for _, dZ in halves], axis=0), whole[1], atol=1e-15)


def test_order_of_a_list_and_rows_that_are_no_references_do_not_matter(rng):
    n = 60
    Z, y = points(rng, n, 3)
    pairs = some_rows(rng, n, 40)
    lists = np.split(pairs.indices, pairs.indptr[1:-1])
    references = np.arange(0, n, 2)
    expected = nca(Z, y, references=references, pairs=pairs, warn=False)
    lists = [rng.permutation(rows[rows % 2 == 0]) for rows in lists]
    lengths = [len(rows) for rows in lists]
    shorter = Pairs(np.cumsum([0, *lengths]), np.concatenate(lists))
    got = nca(Z, y, references=references, pairs=shorter, warn=False)
    assert got[0] == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(got[1], expected[1], atol=1e-15)


@each_job
def test_far_rows(rng, kernel, objective):
    """A far own class neither overflows nor becomes 0 / 0; out of reach, it is left out."""
    Z, y = points(rng, 40, 3, dtype=np.float32)
    Z[y == 0] += 1e3 * rng.standard_normal((np.sum(y == 0), 3)).astype(np.float32)
    value, dZ = nca(Z, y, objective, kernel=kernel, pairs=all_rows(40), warn=False)
    assert np.isfinite(value)
    assert np.isfinite(dZ).all()


def test_rows_without_their_own_class_in_the_list(rng):
    Z, y = points(rng, 30, 2)
    pairs = all_rows(30)
    lists = np.split(pairs.indices.copy(), 30)
    lists[4] = np.flatnonzero(y != y[4]).astype(np.int32)
    lengths = [len(rows) for rows in lists]
    pairs = Pairs(np.cumsum([0, *lengths]), np.concatenate(lists))
    rest = np.delete(np.arange(30), 4)
    with pytest.warns(UserWarning, match=r"^1 rows have no other member .* left out of the log"):
        value, dZ = nca(Z, y, pairs=pairs)
    expected = nca(Z, y, queries=rest, pairs=pairs)
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(dZ, expected[1], atol=1e-15)
    value, _ = nca(Z, y, "accuracy", pairs=pairs)
    expected = nca(Z, y, "accuracy", queries=rest, pairs=pairs)
    assert value == pytest.approx(expected[0] * 29 / 30, rel=1e-12)


def test_rates_of_samples_enter_the_odds(rng):
    """Sums over samples are divided by the rates: here every other row counts for two."""
    n = 40
    y = np.repeat(np.arange(20) % 2, 2)
    Z = np.repeat(rng.standard_normal((20, 2)), 2, axis=0)  # in pairs of twins
    queries = np.arange(0, n, 2)
    lists = [np.setdiff1d(np.arange(0, n, 2), i - i % 2) for i in range(n)]
    halves = Pairs(
        np.arange(n + 1) * 19,
        np.concatenate(lists).astype(np.int32),
        np.stack([np.zeros(n), np.full(n, -1.0)]),  # of the own class, one half
    )
    others = Pairs(
        np.cumsum([0] + [19 + np.sum(y[rows] == y[i]) for i, rows in enumerate(lists)]),
        np.concatenate(
            [np.concatenate([rows, rows[y[rows] == y[i]] + 1]) for i, rows in enumerate(lists)]
        ).astype(np.int32),
    )
    for objective in OBJECTIVES:
        value, _ = nca(Z, y, objective, queries=queries, pairs=halves)
        expected, _ = nca(Z, y, objective, queries=queries, pairs=others)
        assert value == pytest.approx(expected, rel=1e-12)


def test_wrong_lists(rng):
    Z, y = points(rng, 6, 2)
    good = all_rows(6)
    for pairs, message in [
        (good._replace(indptr=good.indptr[:-1]), r"one list for each of the 6 rows\. Got .*\(6,\)"),
        (good._replace(indptr=good.indptr.astype(float)), r"dtype float64 instead"),
        (good._replace(indices=good.indices.astype(int)), r"vector of int32 .* dtype int64"),
        (good._replace(indptr=good.indptr + 1), r"ends within its 36 indices"),
        (good._replace(indptr=good.indptr[::-1]), r"never decreases"),
        (good._replace(indices=good.indices + np.int32(1)), r"in \[0, 5\]\. Got 1\.\.6 instead"),
        (good._replace(indices=good.indices - np.int32(1)), r"in \[0, 5\]\. Got -1\.\.4 instead"),
    ]:
        with pytest.raises(ValueError, match=message):
            nca(Z, y, pairs=pairs)
    with pytest.raises(
        TypeError, match=r"'pairs' parameter of nca must be Pairs, Bounded .* Got 'near'"
    ):
        nca(Z, y, pairs="near")
