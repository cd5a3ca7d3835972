"""Centred and scaled rows: the same products from a copy, folded, sparse or block by block."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from threadpoolctl import threadpool_limits

from vicinal import _features
from vicinal._features import SCALINGS, Features, copy_limit


def table(rng, n=300, D=6):
    """Columns of many sizes and offsets, the last one constant."""
    X = (rng.standard_normal((n, D)) + np.linspace(-2, 2, D)) * np.logspace(-3, 3, D)
    X[:, -1] = 0.1
    return X


def with_zeros(rng, X):
    """Two thirds of the entries at zero, the last column left as it is."""
    X = X * (rng.uniform(size=X.shape) < 0.33)
    X[:, -1] = 0.1
    return X


def plainly_scaled(X, scaling, weight=None):
    """(X - mean) / deviation in one line each, and columns that do not vary at 0."""
    X = np.asarray(X, dtype=np.float64)
    mean = np.average(X, axis=0, weights=weight)
    variance = np.average((X - mean) ** 2, axis=0, weights=weight)
    varies = np.ptp(X, axis=0) > 0
    divisor = {
        "standard": np.sqrt(np.where(varies, variance, 1.0)),
        "global": np.sqrt(variance[varies].mean()),
        None: 1.0,
    }[scaling]
    return (X - mean) / divisor * varies


KINDS = ["copied", "folded", "unfolded", "sparse", "sparse array"]


def make(kind, X, scaling, monkeypatch, weight=None):
    """Features of X held in one of the ways, with blocks of 64 rows."""
    monkeypatch.setattr(_features, "_BLOCK", 64)
    if kind != "copied":
        monkeypatch.setattr(_features, "_COPY_BELOW", 0)
    if kind.startswith("sparse"):
        X = sp.csr_array(X) if kind == "sparse array" else sp.csr_matrix(X)
    features = Features(X, scaling, weight)
    if kind == "unfolded":
        features._fold = False
    assert features._ready == (kind == "copied")
    assert features._fold == (kind == "folded" or kind.startswith("sparse"))
    return features


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_products(rng, monkeypatch, kind, scaling, weighted):
    X = with_zeros(rng, table(rng)) if kind.startswith("sparse") else table(rng)
    weight = rng.uniform(0, 2, 300) if weighted else None
    before = X.copy()
    features = make(kind, X, scaling, monkeypatch, weight)
    S = plainly_scaled(X, scaling, weight)
    assert (features.shape, len(features)) == ((300, 6), 300)
    B, V, a = rng.standard_normal((6, 3)), rng.standard_normal((300, 3)), rng.standard_normal(6)
    close = {"rtol": 1e-10, "atol": 1e-10 * np.abs(S).max()}
    np.testing.assert_allclose(features.matmul(B), S @ B, **close)
    np.testing.assert_allclose(features.rmatmul(V), S.T @ V, rtol=1e-9, atol=300 * close["atol"])
    np.testing.assert_allclose(features.columns_times(a), S * a, **close)
    W = rng.standard_normal((300, 6))
    dots = features.column_dots(W)
    np.testing.assert_allclose(dots, np.sum(S * W, axis=0), rtol=1e-9, atol=300 * close["atol"])
    dense = np.concatenate([block for _, block in features.blocks()])
    np.testing.assert_allclose(dense, S, **close)
    np.testing.assert_array_equal(X, before)
    rows = rng.permutation(300)[:70]
    part = features.take(rows)
    np.testing.assert_allclose(part.matmul(B), (S @ B)[rows], **close)  # scaled as the whole
    np.testing.assert_allclose(part.rmatmul(V[:70]), S[rows].T @ V[:70], atol=300 * close["atol"])
    assert features.take(None) is features


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_float32(rng, monkeypatch, kind, scaling):
    X = with_zeros(rng, table(rng)) if kind.startswith("sparse") else table(rng)
    X = X.astype(np.float32)
    features = make(kind, X, scaling, monkeypatch)
    S = plainly_scaled(X, scaling)
    B, V = rng.standard_normal((6, 3)), rng.standard_normal((300, 3)).astype(np.float32)
    Z = features.matmul(B, np.float32)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, S @ B, rtol=0, atol=1e-6 * np.abs(S @ B).max())
    back = features.rmatmul(V)
    assert back.dtype == np.float64
    size = np.linalg.norm(S, axis=0).max() * np.linalg.norm(V, axis=0).max()
    np.testing.assert_allclose(back, S.T @ V, rtol=0, atol=1e-6 * size)
    assert features.columns_times(B[:, 0], np.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_constant_columns_get_no_weight(rng, monkeypatch, kind, scaling, dtype):
    """Whatever their value, and also where its mean is not exactly it."""
    X = table(rng)
    X[:, [1, 3, 5]] = [0.0, 1e6 / 3, 0.1]
    X = X.astype(dtype)
    features = make(kind, X, scaling, monkeypatch, rng.uniform(0.1, 1, 300))
    np.testing.assert_array_equal(features.scale[[1, 3, 5]], 0)
    assert (features.scale[[0, 2, 4]] > 0).all()
    assert not features.columns_times(np.ones(6))[:, [1, 3, 5]].any()
    np.testing.assert_array_equal(features.rmatmul(rng.standard_normal((300, 2)))[[1, 3, 5]], 0)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_long_constant_column_is_still_one(sparse):
    """The mean of 200,000 times 0.1 is off by more than its last digits."""
    X = np.full((200_000, 1), 0.1)
    features = Features(sp.csr_matrix(X) if sparse else X, "standard")
    assert features.scale == [0]
    np.testing.assert_allclose(features.shift, 0.1, rtol=1e-15)
    X[:100_000] += 1e-12  # and this is no constant
    features = Features(sp.csr_matrix(X) if sparse else X, "standard")
    np.testing.assert_allclose(features.scale, 2e12, rtol=1e-3)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_all_columns_constant(scaling):
    features = Features(np.full((5, 3), 7.3), scaling)
    assert not features.matmul(np.ones((3, 2))).any()


@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**-120, 2.0**120, 2.0**1000])
@pytest.mark.parametrize("scaling", ["standard", "global"])
@pytest.mark.parametrize("kind", KINDS)
def test_issue_14_columns_of_extreme_size(rng, monkeypatch, kind, scaling, factor):
    """A power of two changes the scale of the columns, and nothing of what is computed with it."""
    X = with_zeros(rng, table(rng)) if kind.startswith("sparse") else table(rng)
    usual = make(kind, X, scaling, monkeypatch)
    if kind == "folded":  # float32 could not hold the rows: they are scaled one block at a time
        kind = "unfolded"
    extreme = make(kind, factor * X, scaling, monkeypatch)
    np.testing.assert_array_equal(extreme.scale, usual.scale / factor)
    np.testing.assert_array_equal(extreme.shift, usual.shift * factor)
    assert extreme.total_variance == usual.total_variance
    B, V = rng.standard_normal((6, 3)), rng.standard_normal((300, 3))
    for dtype, close in ((np.float64, 1e-10), (np.float32, 1e-4)):
        S = usual.matmul(B)
        np.testing.assert_allclose(
            extreme.matmul(B, dtype), S, rtol=close, atol=close * np.abs(S).max()
        )
        back = usual.rmatmul(V)
        np.testing.assert_allclose(
            extreme.rmatmul(V.astype(dtype)), back, rtol=close, atol=close * np.abs(back).max()
        )


@pytest.mark.parametrize("kind", ["copied", "large", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offsets_of_many_deviations(rng, monkeypatch, kind, dtype):
    """A million away, differences are all that counts: folding would eat the digits in float32."""
    X = (rng.standard_normal((300, 4)) + 1e6).astype(dtype)
    X[:, 3] = rng.standard_normal(300)
    if kind != "copied":
        monkeypatch.setattr(_features, "_COPY_BELOW", 0)
    features = Features(sp.csr_matrix(X) if kind == "sparse" else X, "standard")
    S = plainly_scaled(X, "standard")
    B, V = rng.standard_normal((4, 2)), rng.standard_normal((300, 2)).astype(np.float32)
    np.testing.assert_allclose(features.matmul(B, np.float32), S @ B, rtol=0, atol=1e-5)
    np.testing.assert_allclose(features.rmatmul(V), S.T @ V, rtol=0, atol=1e-3)
    np.testing.assert_allclose(features.matmul(B), S @ B, rtol=0, atol=1e-8)


def test_weights_of_rows(rng):
    """A weight of two is a row twice; only ratios count; a row of weight 0 is not there."""
    X = table(rng)
    weight = np.ones(300)
    weight[:10], weight[10:20] = 2.0, 0.0
    features = Features(X, "standard", weight)
    repeated = Features(np.concatenate([X[:10], X[:10], X[20:]]), "standard")
    np.testing.assert_allclose(features.shift, repeated.shift, rtol=1e-12)
    np.testing.assert_allclose(features.scale, repeated.scale, rtol=1e-12)
    for factor in [1e-300, 1e307]:
        other = Features(X, "standard", factor * weight)
        np.testing.assert_allclose(other.scale, features.scale, rtol=1e-12)
        np.testing.assert_allclose(other.shift, features.shift, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thread_count_agnosticism(rng, monkeypatch, kind, dtype):
    X = rng.standard_normal((3000, 150)).astype(dtype)
    if kind.startswith("sparse"):
        X = with_zeros(rng, X)
    B, V = rng.standard_normal((150, 20)), rng.standard_normal((3000, 20)).astype(dtype)
    a = rng.standard_normal(150)

    def results():
        features = make(kind, X, "standard", monkeypatch)
        both = features.columns_times(a, dtype)
        yield from (features.shift, features.scale, features.matmul(B, dtype))
        yield from (features.rmatmul(V), both, features.column_dots(both))

    monkeypatch.setattr(_features, "n_threads", lambda: 1)
    expected = list(results())
    for threads in [2, 3, 7]:
        monkeypatch.setattr(_features, "n_threads", lambda threads=threads: threads)
        for got, one in zip(results(), expected, strict=True):
            np.testing.assert_array_equal(got, one)
    monkeypatch.undo()
    monkeypatch.setattr(_features, "n_threads", lambda: 2)
    for threads in [1, 2]:
        with threadpool_limits(threads):
            for got, one in zip(results(), expected, strict=True):
                np.testing.assert_array_equal(got, one)


def test_copy_follows_the_working_memory(rng):
    X = rng.standard_normal((1000, 200))  # 1.6 MB
    assert Features(X, "standard")._ready
    with config_context(working_memory=1):
        assert copy_limit() == 2**20
        assert not Features(X, "standard")._ready
    with config_context(working_memory=10**6):
        assert copy_limit() == _features._COPY_BELOW


def ordinary(rng, n=400):
    """Columns without gross outliers: a heavy tail, rare ones, counts, one rare large value."""
    return np.stack(
        [
            rng.normal(5.0, 2.0, n),
            np.exp(0.7 * rng.standard_normal(n)),
            (np.arange(n) < 3).astype(float),
            (np.arange(n) % 40 == 0) * rng.integers(1, 5, n).astype(float),
            rng.poisson(0.1, n).astype(float),
            np.where(np.arange(n) == 7, 100.0, 0.0),
        ],
        axis=1,
    )


@pytest.mark.parametrize("scaling", ["standard", "global"])
@pytest.mark.parametrize("sparse", [False, True])
def test_ordinary_columns_keep_their_moments(rng, scaling, sparse):
    X = ordinary(rng)
    X = sp.csr_array(X) if sparse else X
    found, plain = Features(X, scaling), Features(X, scaling, limit_outliers=False)
    assert found.limits is None
    np.testing.assert_array_equal(found.scale, plain.scale)
    np.testing.assert_array_equal(found.shift, plain.shift)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("size", [1e3, -1e3, 1e30])
def test_issue_14_gross_outliers_do_not_count(rng, dtype, sparse, size):
    X = ordinary(rng)
    bad = np.array([11, 390])
    X[bad, :5] = 10.0
    clean = np.delete(X, bad, axis=0)
    X[bad, :5] *= size
    X = X.astype(dtype)
    given = sp.csr_array(X) if sparse else X.copy()
    found = Features(given, "standard")
    plain = Features(clean, "standard")
    touched = np.isfinite(found.limits.high)
    np.testing.assert_array_equal(touched[:2], True)  # of rare ones, two rows are a large part
    np.testing.assert_allclose(found.scale[0], plain.scale[0], rtol=1e-5)
    np.testing.assert_allclose(found.shift[0], plain.shift[0], rtol=1e-5)
    # of a heavy tail the end is cut off too
    np.testing.assert_allclose(found.scale[touched], plain.scale[touched], rtol=0.1)
    np.testing.assert_allclose(found.total_variance, 6.0, rtol=1e-5)
    # the outliers are moved to the limit, all other values are as they were
    Z = np.concatenate([part for _, part in found.blocks()])[:, touched]
    assert 4 < np.abs(Z[bad]).min() <= np.abs(Z[bad]).max() < 30
    others = np.delete((X.astype(np.float64) - found.shift) * found.scale, bad, axis=0)[:, touched]
    inside = np.abs(others) < 4
    np.testing.assert_allclose(
        np.delete(Z, bad, axis=0)[inside], others[inside], rtol=1e-4, atol=1e-5
    )
    np.testing.assert_array_equal(given.toarray() if sparse else given, X)
    # in any order of the rows, and for rows that come later
    turned = Features(given[::-1], "standard")
    np.testing.assert_allclose(turned.scale, found.scale, rtol=1e-12)
    later = Features.scaled_as(found, given[bad])
    np.testing.assert_allclose(next(later.blocks())[1][:, touched], Z[bad], rtol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_zeros_can_be_outliers(rng, sparse):
    X = rng.normal(1000.0, 1.0, (200, 2))
    X[:4] = 0.0  # say, missing values
    found = Features(sp.csr_array(X) if sparse else X, "standard")
    np.testing.assert_allclose(found.scale, 1 / X[4:].std(axis=0))
    Z = next(found.blocks())[1]
    assert -10 < Z[:4].min() <= Z[:4].max() < -5


def test_rows_as_they_are_keep_their_outliers(rng):
    X = rng.normal(size=(200, 2))
    X[:2] *= 1e6
    assert Features(X, None).limits is None


@pytest.mark.parametrize("kind", ["copied", "in blocks"])
def test_robust_scaling_by_hand(rng, monkeypatch, kind):
    """(x - median) / IQR, z / sqrt(1 + z^2/9), deviation one; two values only shifted or kept."""
    if kind != "copied":
        monkeypatch.setattr(_features, "_COPY_BELOW", 0)
    n = 401
    skewed, hot = np.exp(2 * rng.standard_normal(n)), (rng.uniform(size=n) < 0.2).astype(float)
    X = np.column_stack([skewed, hot, 3.0 + 2.0 * hot, np.full(n, 0.1)])
    features = Features(X, "robust")
    found = np.concatenate([block for _, block in features.blocks()])
    low, median, high = np.quantile(skewed, [0.25, 0.5, 0.75], method="hazen")
    z = (skewed - median) / ((high - low) / 1.349)
    bent = z / np.sqrt(1 + (z / 3) ** 2)
    np.testing.assert_allclose(found[:, 0], bent / bent.std(), atol=1e-12)
    np.testing.assert_array_equal(found[:, 1], hot)
    np.testing.assert_allclose(np.ptp(found[:, 2]), 1.0, atol=1e-12)
    assert not found[:, 3].any()
    B = rng.standard_normal((4, 2))
    np.testing.assert_allclose(features.matmul(B), found @ B, atol=1e-12)
    new = Features.scaled_as(features, np.array([[1e300, 1, 5, 0.1], [-1e300, 0, 3, 7]]))
    far = new.dense(slice(None), np.float64)[:, 0]
    np.testing.assert_allclose(far, [3 / bent.std(), -3 / bent.std()], atol=1e-9)


def test_robust_scaling_is_for_dense_rows(rng):
    with pytest.raises(ValueError, match="'scaling' parameter must be 'standard', 'global' or"):
        Features(sp.csr_array(np.eye(5)), "robust")
