"""Starts on data that would break them: singular, tiny classes, wide, of any scale."""

import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from common.starts import (
    PARTS,
    SPECTRAL,
    Rows,
    clean_rows,  # noqa: F401 (fixture)
    plain_scatter,
    projector,
    random_state,  # noqa: F401 (fixture)
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.covariance import OAS
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA as SklearnPCA

from vicinal.core.stopping import TimeUp
from vicinal.starts import (
    LDA,
    PCA,
    RCA,
    Auto,
    Whiten,
    base_scale,
    repair_scale,
    scale_start,
    scatter,
    spectral,
)

# Singular data


def transfusion_like(rng):
    X = rng.gamma(2.0, size=(200, 4))
    X[:, 2] = 250 * X[:, 1]
    return X, (X[:, 0] + rng.normal(size=200) > 2).astype(int)


def fewer_rows_than_columns(rng):
    y = np.arange(24) % 3
    return rng.normal(size=(24, 60)) + y[:, None] * (np.arange(60) < 5), y


def classes_of_one(rng):
    return rng.normal(size=(30, 4)), np.arange(30)


def duplicates_only(rng):
    y = np.arange(40) % 4
    return rng.normal(size=(4, 5))[y], y


def leaked_label(rng):
    X, y = rng.normal(size=(80, 4)), np.arange(80) % 2
    X[:, 1] = y
    return X, y


SINGULAR = [
    transfusion_like,
    fewer_rows_than_columns,
    classes_of_one,
    duplicates_only,
    leaked_label,
]


@pytest.mark.parametrize("part", [LDA(), RCA()], ids=repr)
@pytest.mark.parametrize("data", SINGULAR)
def test_singular_within_scatter_stays_finite_without_a_word(data, part, rng):
    X, y = data(rng)
    X = Rows(X)
    for d in (2, X.shape[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A = part(X, y, d, rng)
        assert A.shape == (d, X.shape[1])
        assert np.isfinite(A).all()
        Z = X.matmul(A.T)
        assert np.all(Z[:, :2].std(axis=0) > 1e-3)
        assert np.abs(Z).max() < 1e4


@pytest.mark.parametrize("part", [PCA(), PCA(whiten=False), Whiten()], ids=repr)
@pytest.mark.parametrize("data", [transfusion_like, fewer_rows_than_columns, duplicates_only])
def test_singular_total_scatter_gives_its_null_space_no_weight(data, part, rng):
    X, y = data(rng)
    X = Rows(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A = part(X, y, X.shape[1], rng)
    assert np.isfinite(A).all()
    # no weight, at full rank, on directions in which no row differs from another
    null = np.eye(X.shape[1]) - projector(X.X)
    assert_allclose(A @ null, 0, atol=1e-6 * np.abs(A).max())
    assert np.isfinite(part(X, y, 2, rng)).all()


@pytest.mark.parametrize("part", [LDA(), RCA(), RCA("oas"), Auto(), PCA(), Whiten()], ids=repr)
def test_a_column_that_is_constant_in_the_rows_with_weight_gets_none(part, rng):
    """Rare pixels: the only row with another value is held out, so that its weight is zero."""
    X, y = rng.normal(size=(90, 5)), np.arange(90) % 3
    X[:, 2] = 0.1
    X[7, 2] = 5.0
    weight = np.ones(90)
    weight[7] = 0.0
    A = part(Rows(X), y, 3, rng, weight)
    assert_array_equal(A[:, 2], 0.0)
    rest = part(Rows(np.delete(X, 2, axis=1)), y, 3, rng, weight)
    assert_allclose(np.delete(A, 2, axis=1), rest, atol=1e-12)


def test_a_singular_scatter_is_shrunk_as_oas_says(rng):
    X, y = fewer_rows_than_columns(rng)
    X = Rows(X @ rng.normal(size=(60, 6)) @ rng.normal(size=(6, 60)) + X)
    A, complaint = RCA().rows(X, y, 3, rng)
    assert "singular (rank 21 of 60)" in complaint
    _, S_W = plain_scatter(X.X, y)
    rho = spectral.oas_shrinkage(S_W, 60, 24 - 3)
    assert 0.05 < rho < 1
    shrunk = (1 - rho) * S_W + rho * np.trace(S_W) / 60 * np.eye(60)
    assert_allclose(A @ shrunk @ A.T, np.eye(3), atol=1e-10)
    assert_allclose(RCA(shrinkage=rho)(X, y, 3, rng), A, atol=1e-10)
    assert RCA("oas").rows(X, y, 3, rng)[1] == ""  # that is what was asked for
    for part in (RCA("oas"), Auto()):
        assert_array_equal(part(X, y, 3, rng), A)


def test_oas_shrinks_regular_scatters_without_a_word(clean, rng):
    X, y = clean
    S, S_W = plain_scatter(X.X, y)
    D = X.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in (LDA("oas"), RCA("oas")):
            A = part(X, y, D, rng)
            rho = spectral.oas_shrinkage(S_W / np.diag(S), D, len(y) - y.max() - 1)
            shrunk = (1 - rho) * S_W + rho * np.trace(S_W) / D * np.eye(D)
            assert_allclose(A @ shrunk @ A.T, np.eye(D), atol=1e-9)
        A = PCA(shrinkage="oas")(X, y, 2, rng)
    rho = spectral.oas_shrinkage(S, D, len(y) - 1)
    assert_allclose(A @ ((1 - rho) * S + rho * np.eye(D)) @ A.T, np.eye(2), atol=1e-9)


def test_oas_shrinkage_is_close_to_sklearns(rng):
    X = rng.normal(size=(30, 40)) * np.linspace(0.2, 2, 40)
    peer = OAS(assume_centered=True).fit(X)
    # scikit-learn leaves the 2/p terms of the formula out
    assert spectral.oas_shrinkage(X.T @ X / 30, 40, 30) == pytest.approx(peer.shrinkage_, rel=0.05)
    assert spectral.oas_shrinkage(np.eye(3), 3, 10) == 1.0


@pytest.mark.parametrize("wide", [2, 2000])
@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_nothing_but_constant_columns(part, wide, rng, monkeypatch):
    monkeypatch.setattr(spectral, "WIDE", wide)
    A = part(Rows(np.ones((6, 3))), np.arange(6) % 2, 2, rng)
    assert_array_equal(A, np.zeros((2, 3)))


# Wide data


@pytest.mark.parametrize("part", SPECTRAL, ids=repr)
def test_wide_path_equals_narrow_path(clean, part, monkeypatch):
    X, y = clean
    narrow = part(X, y, 3, np.random.RandomState(0))
    monkeypatch.setattr(spectral, "WIDE", 2)
    wide = part(X, y, 3, np.random.RandomState(0))
    assert_allclose(wide, narrow, atol=1e-8 * np.abs(narrow).max())


@pytest.mark.filterwarnings("ignore:The (within-class|total) scatter")
@pytest.mark.parametrize("d", [2, 60])
@pytest.mark.parametrize("part", SPECTRAL, ids=repr)
def test_wide_path_equals_narrow_path_when_singular(part, d, rng, monkeypatch):
    X, y = fewer_rows_than_columns(rng)
    X[:, 7] = 1.0
    X[:, 8] = -X[:, 9]
    X = Rows(X)
    narrow = part(X, y, d, np.random.RandomState(0))
    monkeypatch.setattr(spectral, "WIDE", 2)
    wide = part(X, y, d, np.random.RandomState(0))
    assert_array_equal(wide[:, 7], 0)
    # compare the metrics: the order of two close eigenvalues is nobody's business
    assert_allclose(wide.T @ wide, narrow.T @ narrow, atol=1e-6 * np.abs(narrow.T @ narrow).max())


def test_wide_basis_cut_short_is_not_singular(rng, monkeypatch):
    y = np.arange(500) % 3
    noise = rng.normal(size=(500, 40))
    X = Rows(noise + (y[:, None] == np.arange(3)) @ rng.normal(size=(3, 40)), scaling=False)
    monkeypatch.setattr(spectral, "WIDE", 2)
    monkeypatch.setattr(spectral, "basis_size", lambda n, D, n_components: 10)
    basis = SklearnPCA(10).fit(X.X).components_
    for part in (LDA(), RCA(), RCA("oas"), PCA(), Whiten()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A = part(X, y, 2, rng)
        assert np.linalg.matrix_rank(A) == 2
        if not isinstance(part, (LDA, RCA)):
            assert_allclose(projector(A), projector(basis[:2]), atol=0.1)


def test_wide_sparse_data_never_meet_a_square_matrix(rng):
    n, D = 60, 10_000  # D x D would be 800 MB
    y = np.arange(n) % 3
    S = sparse.csr_array(np.where(rng.uniform(size=(n, D)) < 0.01, rng.uniform(size=(n, D)), 0.0))
    S = sparse.csr_array(S + sparse.csr_array((y[:, None] * (np.arange(D) < 40)).astype(float)))

    class Sparse:
        shape = (n, D)
        mean = S.mean(axis=0)

        def blocks(self):
            raise AssertionError("dense blocks of wide data")

        def matmul(self, B):
            return S @ B - self.mean @ B

        def rmatmul(self, V):
            return S.T @ V - np.outer(self.mean, V.sum(axis=0))

    for part in (LDA(), PCA(), Auto()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tracemalloc.start()
            A = part(Sparse(), y, 2, rng)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 20 * 8 * n * D
        assert A.shape == (2, D)
        assert np.isfinite(A).all()
        Z = Sparse().matmul(A.T)
        own = scatter(Rows(Z, scaling=False), y, 3)
        assert np.trace(own.within) < 0.5 * np.trace(own.total)


# Scale


def log_loss(X, y):
    """-mean log p_i of NCA, plainly."""
    same = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)

    def loss(A):
        Z = X.matmul(A.T)
        d2 = ((Z[:, None] - Z) ** 2).sum(axis=2)
        np.fill_diagonal(d2, np.inf)
        p = np.exp(-(d2 - d2.min(axis=1, keepdims=True)))
        with np.errstate(divide="ignore"):
            return -np.mean(np.log((p * same).sum(axis=1) / p.sum(axis=1)))

    return loss


@pytest.mark.parametrize("factor", [1e-8, 1e-3, 1.0, 1e8, 1e150])
def test_scaled_start_does_not_depend_on_the_scale_of_the_start(factor, rng):
    X, y = load_iris(return_X_y=True)
    X = Rows(X)
    A = PCA()(X, y, 2, rng)
    loss = log_loss(X, y)
    fine = scale_start(A, loss, base_scale(X.matmul(A.T), rng)) * A
    raw = factor * A
    s = scale_start(raw, loss, base_scale(X.matmul(raw.T), rng))
    assert_allclose(s * raw, fine, rtol=1e-9)
    assert loss(fine) < min(loss(A / 100), loss(A * 100))


@pytest.mark.parametrize("evaluations", range(9))
def test_scales_are_the_best_so_far_if_the_time_is_up(evaluations):
    """Of a grid around the base, and of Brent's method, which begins with the map as it is."""
    tried = []

    def loss(s):
        if len(tried) == evaluations:
            raise TimeUp
        tried.append((abs(np.log2(s / 3)), s))
        return tried[-1][0]

    for choose, otherwise in ((repair_scale, 1.0), (partial(scale_start, 1.0, base=0.7), 0.7)):
        tried.clear()
        assert choose(loss) == min(tried, default=(0.0, otherwise))[1]


def test_scale_start_takes_the_best_of_the_grid():
    A = np.ones((1, 1))
    assert scale_start(A, lambda A: abs(np.log2(A[0, 0] / 3)), base=1.5) == 3.0
    assert scale_start(A, lambda A: 1.0, base=0.7) == 0.7
    assert scale_start(A, lambda A: np.nan, base=0.7) == 0.7
    assert scale_start(A, lambda A: np.nan if A[0, 0] >= 1 else 0.0) == 0.5
    assert scale_start(A, lambda A: -A[0, 0], ratio=3.0, n_steps=2) == 9.0


def test_base_scale_by_hand(rng):
    Z = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 4.0]])
    assert base_scale(Z, rng) == pytest.approx(1 / 3)  # nearest: 3, 3, 4


def test_base_scale_ignores_duplicates_and_outliers(rng):
    Z = rng.normal(size=(300, 2))
    plain = base_scale(Z, rng)
    assert 1 < plain < 30
    doubled = np.vstack([Z, Z])[:, :2][rng.permutation(600)[:450]]
    assert 0.3 < base_scale(doubled, rng) / plain < 3
    far = np.vstack([Z, [[1e9, -1e9]]])
    assert base_scale(far, rng) == pytest.approx(plain, rel=0.05)
    assert base_scale(np.ones((5, 2)), rng) == 1.0
    assert base_scale(np.ones((1, 2)), rng) == 1.0
    pair = np.repeat([[0.0], [2.0]], 10, axis=0)
    assert base_scale(pair, rng) == pytest.approx(0.5)


def test_base_scale_samples_large_data(rng):
    Z = rng.normal(size=(5000, 3))
    assert base_scale(Z, rng) == pytest.approx(base_scale(Z[:500], rng), rel=0.2)
