"""What every start keeps to: shape, finite numbers, the same bits, whatever the table."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from common.histograms import counts
from common.starts import PARTS, SPECTRAL, Rows
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from threadpoolctl import threadpool_limits

from vicinal._features import Features
from vicinal.starts import (
    LDA,
    PCA,
    RCA,
    Annealing,
    AutoBins,
    BinGroups,
    BinIdentity,
    BinStart,
    RandomBins,
    Start,
    Whiten,
    resolve,
    resolve_bins,
)

MORE = [PCA(shrinkage=0.2), Whiten(shrinkage="oas"), LDA("oas"), RCA(0.3)]
STARTS = [*PARTS, *MORE]
BINS = [AutoBins(), BinGroups(), BinGroups(sharpness=1e6), BinGroups(sharpness=0.0), BinIdentity(),
        RandomBins()]  # fmt: skip
each_start = pytest.mark.parametrize("part", STARTS, ids=repr)
each_spectral = pytest.mark.parametrize("part", [*SPECTRAL, *MORE], ids=repr)
each_bins = pytest.mark.parametrize("part", BINS, ids=repr)
each_part = pytest.mark.parametrize("part", [*STARTS, *BINS], ids=repr)
quiet = pytest.mark.filterwarnings("ignore:The (within-class|total) scatter")


def seed(value=3):
    return np.random.RandomState(value)


@pytest.fixture(params=[load_wine, load_iris], ids=["wine", "iris"])
def clean(request):
    X, y = request.param(return_X_y=True)
    return Rows(X), y


def bins(X):
    return Features.as_they_are(X / X.sum(axis=1, keepdims=True))


@each_start
def test_clean_data_give_no_warning_and_the_same_bits(clean, part):
    X, y = clean
    before = X.X.copy()
    for d in (1, 2, X.shape[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A = part(X, y, d, seed())
        assert A.shape == (d, X.shape[1])
        assert A.dtype == np.float64
        assert np.isfinite(A).all()
        assert isinstance(part, Start)
        np.testing.assert_array_equal(A, part(X, y, d, seed()))
    np.testing.assert_array_equal(X.X, before)


@each_start
def test_thread_count_agnosticism(clean, part):
    X, y = clean
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            answers.append(part(X, y, 2, seed()))
    np.testing.assert_array_equal(*answers)


@each_spectral
def test_block_size_agnosticism(clean, part):
    X, y = clean
    whole = part(Rows(X.X, 10_000), y, 3, seed())
    for block_size in (1, 7, 50):
        A = part(Rows(X.X, block_size), y, 3, seed())
        np.testing.assert_allclose(A, whole, atol=1e-12 * np.abs(whole).max())


@each_spectral
def test_order_of_rows_and_names_of_classes(clean, rng, part):
    X, y = clean
    A = part(X, y, 2, seed())
    order = rng.permutation(len(y))
    B = part(Rows(X.X[order], scaling=False), y[order], 2, seed())
    np.testing.assert_allclose(B, A, atol=1e-8 * np.abs(A).max())
    renamed = np.array([2, 0, 1])[y]
    np.testing.assert_allclose(part(X, renamed, 2, seed()), A, atol=1e-8 * np.abs(A).max())


@each_spectral
def test_largest_entry_is_positive(clean, part):
    X, y = clean
    A = part(X, y, 3, seed())
    assert np.all(A[np.arange(3), np.abs(A).argmax(axis=1)] > 0)


@each_start
def test_constant_columns_get_no_weight(part):
    X, y = load_wine(return_X_y=True)
    X[:, [0, 5]] = 3.0
    for d in (2, 13):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A = part(Rows(X), y, d, seed())
        np.testing.assert_array_equal(A[:, [0, 5]], 0)
        assert np.isfinite(A).all()
        assert np.linalg.matrix_rank(A) == min(d, 11)


@each_start
def test_rows_without_classes(clean, part):
    """A start makes a map of them, or says that it needs classes."""
    X, _ = clean
    if getattr(part, "needs_classes", False):
        with pytest.raises(ValueError, match=r"The start (LDA|RCA) needs the class codes"):
            part(X, None, 2, seed())
        return
    for d in (1, X.shape[1]):
        A = part(X, None, d, seed())
        assert A.shape == (d, X.shape[1])
        assert np.isfinite(A).all()
        assert np.linalg.matrix_rank(A) == d
    assert part in [*PARTS[:5], PARTS[-1], *MORE[:2]]


@quiet
@each_start
@pytest.mark.parametrize("sizes", [(143, 77, 52, 35, 20, 5, 2, 2), (1, 2, 5), (1, 1), (2, 1)])
def test_tiny_classes(part, sizes, rng):
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(y), 7)) + y[:, None]
    for d in (1, 3, 7):
        A = part(Rows(X), y, d, seed())
        assert A.shape == (d, 7)
        assert np.isfinite(A).all()
        assert np.abs(A[0]).max() > 0


@quiet
@each_start
def test_fewer_rows_than_columns_twins_and_any_scale(part, rng):
    y = np.arange(24) % 3
    X = rng.normal(size=(24, 60)) + y[:, None] * (np.arange(60) < 5)
    for rows in (X, X[np.arange(24) % 8], X * 1e-8, X * 1e8, X + 1e6):
        A = part(Rows(rows), y, 3, seed())
        assert A.shape == (3, 60)
        assert np.isfinite(A).all()
        assert np.abs(A).max() > 0


# Starts of histograms


@each_bins
@pytest.mark.parametrize("r", [1, 2, 5, 9])
def test_columns_are_on_the_simplex(rng, part, r):
    X, y = counts(rng, 60, 9)
    X[:, 4] = 0.0  # a bin that is empty in all rows
    L = part(bins(X), y, r, seed())
    assert L.shape == (r, 9)
    assert L.dtype == np.float64
    assert (L >= 0).all()
    np.testing.assert_allclose(L.sum(axis=0), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(part(bins(X), y, r, seed()), L)
    assert isinstance(part, BinStart)


@each_bins
def test_sparse_is_dense(rng, part):
    X, y = counts(rng, 60, 9)
    X /= X.sum(axis=1, keepdims=True)
    dense, sparse = (
        part(Features.as_they_are(wrap(X)), y, 3, seed()) for wrap in (np.asarray, sp.csr_array)
    )
    np.testing.assert_allclose(sparse, dense, atol=1e-9)


# The part itself


@pytest.mark.parametrize("part", [*STARTS, *BINS], ids=repr)
def test_parts_clone_pickle_and_compare(part):
    assert clone(part, safe=False) == part
    assert pickle.loads(pickle.dumps(part)) == part
    assert copy.deepcopy(part) == part
    assert hash(part) == hash(copy.deepcopy(part))
    assert (resolve_bins if part in BINS else resolve)(part) is part
    with pytest.raises(AttributeError):
        part.shrinkage = 3


@pytest.mark.parametrize(
    ("name", "part"),
    [("auto", PARTS[-1]), ("identity", PARTS[0]), ("random", PARTS[1]), ("pca", PCA()),
     ("lda", LDA()), ("rca", RCA()), ("whiten", Whiten())],
)  # fmt: skip
def test_names(name, part):
    assert resolve(name) == part
    assert isinstance(resolve("annealing"), Annealing)


@pytest.mark.parametrize(
    ("name", "part"),
    [("auto", AutoBins()), ("groups", BinGroups()), ("identity", BinIdentity()),
     ("random", RandomBins())],
)  # fmt: skip
def test_names_of_starts_of_histograms(name, part):
    assert resolve_bins(name) == part


@pytest.mark.parametrize("init", ["umap", None, 3, RCA])
def test_wrong_starts_are_named(init):
    for find in (resolve, resolve_bins):
        message = "The 'init' parameter of LMNN must be one of 'auto', .*Got .* instead"
        with pytest.raises(ValueError, match=message):
            find(init, owner="LMNN")
