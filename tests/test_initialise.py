"""Starts: against plain formulas, against scikit-learn, and on data that would break them."""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.covariance import OAS
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vicinal.initialise import (
    LDA,
    PCA,
    RCA,
    Auto,
    Given,
    Identity,
    Random,
    Start,
    Whiten,
    base_scale,
    resolve,
    scale_start,
    scatter,
    spaces,
    spectral,
)

SPECTRAL = [PCA(), PCA(whiten=False), Whiten(), LDA(), RCA(), Auto()]
PARTS = [Identity(), Random(), *SPECTRAL]


class Rows:
    """The least a start needs to know of the data: centred and scaled rows in blocks."""

    def __init__(self, X, block_size=64, scaling=True):
        X = np.asarray(X, dtype=np.float64)
        constant = np.ptp(X, axis=0) == 0
        X = X - X.mean(axis=0)
        X[:, constant] = 0.0
        if scaling:
            X = X / np.where(constant, 1.0, X.std(axis=0))
        self.X, self.shape, self.block_size = X, X.shape, block_size

    def blocks(self):
        for start in range(0, len(self.X), self.block_size):
            rows = slice(start, min(start + self.block_size, len(self.X)))
            yield rows, self.X[rows]

    def matmul(self, B):
        return self.X @ B

    def rmatmul(self, V):
        return self.X.T @ V


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture(params=[load_wine, load_iris], ids=["wine", "iris"])
def clean(request):
    X, y = request.param(return_X_y=True)
    return Rows(X), y


def plain_scatter(X, y, v=None):
    """S and S_W, term by term."""
    v = np.ones(len(X)) if v is None else v
    mean = np.average(X, axis=0, weights=v)
    S = sum(w * np.outer(x - mean, x - mean) for x, w in zip(X, v, strict=True))
    S_W = np.zeros_like(S)
    for c in np.unique(y):
        mean_c = np.average(X[y == c], axis=0, weights=v[y == c])
        for x, w in zip(X[y == c], v[y == c], strict=True):
            S_W += w * np.outer(x - mean_c, x - mean_c)
    return S / v.sum(), S_W / v.sum()


def projector(A):
    """Orthogonal projector onto the row space."""
    return np.linalg.pinv(A) @ A


# Scatter


@pytest.mark.parametrize("weighted", [False, True])
def test_scatter_matches_plain_formula(clean, rng, weighted):
    X, y = clean
    v = rng.uniform(0.1, 3, size=len(y)) if weighted else None
    S, S_W = plain_scatter(X.X, y, v)
    found = scatter(X, y, y.max() + 1, v)
    assert_allclose(found.total, S, atol=1e-13)
    assert_allclose(found.within, S_W, atol=1e-13)
    assert_allclose(found.deviations.T @ found.deviations, S - S_W, atol=1e-13)
    counts = np.bincount(y, weights=v)
    assert_allclose(found.counts, counts)
    for c in range(y.max() + 1):
        mean = np.average(X.X[y == c], axis=0, weights=None if v is None else v[y == c])
        assert_allclose(found.means[c], mean, atol=1e-13)


def test_scatter_keeps_its_digits_when_classes_are_far_apart(rng):
    noise = rng.normal(size=(60, 3))
    y = np.arange(60) % 3
    X = Rows(noise + 1e7 * y[:, None], scaling=False)
    _, S_W = plain_scatter(noise, y)
    assert_allclose(scatter(X, y, 3).within, S_W, rtol=1e-7, atol=1e-8)


def test_scatter_with_zero_weight_equals_scatter_without_the_row(clean):
    X, y = clean
    v = np.ones(len(y))
    v[::3] = 0
    rest = Rows(X.X[v > 0], scaling=False)
    a, b = scatter(X, y, y.max() + 1, v), scatter(rest, y[v > 0], y.max() + 1)
    assert_allclose(a.total, b.total, atol=1e-13)
    assert_allclose(a.within, b.within, atol=1e-13)


def test_scatter_of_an_absent_class_is_finite(clean):
    X, y = clean
    found = scatter(X, y, y.max() + 3)
    assert all(np.isfinite(part).all() for part in found)
    assert_array_equal(found.counts[-2:], 0)


# Directions on clean data


@pytest.mark.parametrize("part", [LDA(), RCA()], ids=repr)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_within_scatter_becomes_the_identity(clean, rng, part, d):
    X, y = clean
    A = part(X, y, d, rng)
    _, S_W = plain_scatter(X.X, y)
    assert_allclose(A @ S_W @ A.T, np.eye(d), atol=1e-10)


@pytest.mark.parametrize("part", [LDA(), RCA()], ids=repr)
def test_discriminant_subspace_equals_sklearn(clean, rng, part):
    X, y = clean
    peer = LinearDiscriminantAnalysis(solver="eigen").fit(X.X, y)
    for d in range(1, y.max() + 1):
        A = part(X, y, d, rng)
        assert_allclose(projector(A), projector(peer.scalings_[:, :d].T), atol=1e-8)


def test_discriminant_rows_come_in_order_of_their_ratio(clean, rng):
    X, y = clean
    S, _ = plain_scatter(X.X, y)
    D, C = X.shape[1], y.max() + 1
    for part in (LDA(), RCA()):
        A = part(X, y, D, rng)
        ratio = np.diag(A @ S @ A.T)
        assert np.all(np.diff(ratio[:C]) < 1e-10)
        # past C - 1 the total scatter is the within scatter, and the shortest rows go first
        assert_allclose(ratio[C - 1 :], 1.0, atol=1e-9)
        assert np.all(np.diff(np.linalg.norm(A[C - 1 :], axis=1)) > -1e-10)


def test_full_rank_rca_is_the_inverse_root_up_to_rotation(clean, rng):
    X, y = clean
    A = RCA()(X, y, X.shape[1], rng)
    _, S_W = plain_scatter(X.X, y)
    assert_allclose(A.T @ A, np.linalg.inv(S_W), rtol=1e-8, atol=1e-8)


def test_discriminants_do_not_see_the_scale_of_columns(rng):
    X, y = load_wine(return_X_y=True)
    factors = 10.0 ** rng.uniform(-8, 8, size=X.shape[1])
    for part in (LDA(), RCA()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            a = part(Rows(X, scaling=False), y, 2, rng)
            b = part(Rows(X * factors, scaling=False), y, 2, rng) * factors
        # rows may turn round: the largest entry of b is another column's
        assert_allclose(np.abs(b), np.abs(a), rtol=1e-6, atol=1e-9 * np.abs(a).max())


@pytest.mark.parametrize("whiten", [False, True])
def test_pca_equals_sklearn(clean, rng, whiten):
    X, y = clean
    d = 3
    A = PCA(whiten=whiten)(X, y, d, rng)
    peer = SklearnPCA(d).fit(X.X)
    assert_allclose(projector(A), projector(peer.components_), atol=1e-10)
    S, _ = plain_scatter(X.X, y)
    if whiten:
        assert_allclose(A @ S @ A.T, np.eye(d), atol=1e-10)
    else:
        assert_allclose(A @ A.T, np.eye(d), atol=1e-12)


def test_whiten_is_the_symmetric_root_at_full_rank(clean, rng):
    X, y = clean
    D = X.shape[1]
    A = Whiten()(X, y, D, rng)
    S, _ = plain_scatter(X.X, y)
    assert_allclose(A, A.T, atol=1e-11)
    assert_allclose(A @ S @ A.T, np.eye(D), atol=1e-9)
    assert_allclose(Whiten()(X, y, 2, rng), PCA()(X, y, 2, rng))


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_clean_data_give_no_warning_and_the_same_bits(clean, part):
    X, y = clean
    for d in (2, X.shape[1]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A = part(X, y, d, np.random.RandomState(3))
        assert A.shape == (d, X.shape[1])
        assert A.dtype == np.float64
        assert isinstance(part, Start)
        assert_array_equal(A, part(X, y, d, np.random.RandomState(3)))


@pytest.mark.parametrize("part", SPECTRAL, ids=repr)
def test_block_size_agnosticism(clean, part):
    X, y = clean
    whole = part(Rows(X.X, 10_000), y, 3, np.random.RandomState(0))
    for block_size in (1, 7, 50):
        A = part(Rows(X.X, block_size), y, 3, np.random.RandomState(0))
        assert_allclose(A, whole, atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize("part", SPECTRAL, ids=repr)
def test_largest_entry_is_positive(clean, rng, part):
    X, y = clean
    A = part(X, y, 3, rng)
    assert np.all(A[np.arange(3), np.abs(A).argmax(axis=1)] > 0)


def test_sign_does_not_hang_on_the_last_bit():
    A = np.array([[-1.0, 1.0 + 1e-12, 0.5], [-1.0 - 1e-12, 1.0, 0.5], [0.0, 0.0, 0.0]])
    assert_allclose(spectral.orient(A)[:, 0], [1.0, 1.0, 0.0])


def test_weights_reach_the_start(rng):
    X, y = load_wine(return_X_y=True)
    v = rng.uniform(size=len(y)) * (np.arange(len(y)) % 4 > 0)
    S, S_W = plain_scatter(Rows(X).X, y, v)
    A = RCA()(Rows(X), y, 4, rng, v)
    assert_allclose(A @ S_W @ A.T, np.eye(4), atol=1e-10)
    A = PCA()(Rows(X), y, 4, rng, v)
    assert_allclose(A @ S @ A.T, np.eye(4), atol=1e-10)


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
def test_singular_within_scatter_warns_once_and_stays_finite(data, part, rng):
    X, y = data(rng)
    X = Rows(X)
    for d in (2, X.shape[1]):
        with pytest.warns(UserWarning, match=r"within-class scatter .* singular \(rank") as seen:
            A = part(X, y, d, rng)
        assert len(seen) == 1
        assert f"init={type(part).__name__}(shrinkage" in str(seen[0].message)
        assert A.shape == (d, X.shape[1])
        assert np.isfinite(A).all()
        Z = X.matmul(A.T)
        assert np.all(Z[:, :2].std(axis=0) > 1e-3)
        assert np.abs(Z).max() < 1e4


@pytest.mark.parametrize("part", [PCA(), PCA(whiten=False), Whiten()], ids=repr)
@pytest.mark.parametrize("data", [transfusion_like, fewer_rows_than_columns, duplicates_only])
def test_singular_total_scatter_warns_only_when_its_null_space_is_asked_for(data, part, rng):
    X, y = data(rng)
    X = Rows(X)
    with pytest.warns(UserWarning, match=r"total scatter matrix is singular \(rank") as seen:
        A = part(X, y, X.shape[1], rng)
    assert len(seen) == 1
    assert np.isfinite(A).all()
    # no weight, at full rank, on directions in which no row differs from another
    null = np.eye(X.shape[1]) - projector(X.X)
    assert_allclose(A @ null, 0, atol=1e-6 * np.abs(A).max())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(part(X, y, 2, rng)).all()


def test_the_shrinkage_of_the_warning_is_the_one_used(rng):
    X, y = fewer_rows_than_columns(rng)
    X = Rows(X @ rng.normal(size=(60, 6)) @ rng.normal(size=(6, 60)) + X)
    with pytest.warns(UserWarning, match="shrunk by 0"):
        A = RCA()(X, y, 3, rng)
    _, S_W = plain_scatter(X.X, y)
    rho = spectral.oas_shrinkage(S_W, 60, 24 - 3)
    assert 0.05 < rho < 1
    shrunk = (1 - rho) * S_W + rho * np.trace(S_W) / 60 * np.eye(60)
    assert_allclose(A @ shrunk @ A.T, np.eye(3), atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_allclose(RCA(shrinkage=rho)(X, y, 3, rng), A, atol=1e-10)


def test_oas_shrinkage_is_close_to_sklearns(rng):
    X = rng.normal(size=(30, 40)) * np.linspace(0.2, 2, 40)
    peer = OAS(assume_centered=True).fit(X)
    # scikit-learn leaves the 2/p terms of the formula out
    assert spectral.oas_shrinkage(X.T @ X / 30, 40, 30) == pytest.approx(peer.shrinkage_, rel=0.05)
    assert spectral.oas_shrinkage(np.eye(3), 3, 10) == 1.0


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_zero_columns_get_zero_weight(part, rng):
    X, y = load_wine(return_X_y=True)
    X[:, [0, 5]] = 3.0
    for d in (2, 13):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A = part(Rows(X), y, d, rng)
        assert_array_equal(A[:, [0, 5]], 0)
        assert np.isfinite(A).all()
        assert np.linalg.matrix_rank(A) == min(d, 11)


@pytest.mark.parametrize("wide", [2, 2000])
@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_nothing_but_constant_columns(part, wide, rng, monkeypatch):
    monkeypatch.setattr(spaces, "WIDE", wide)
    A = part(Rows(np.ones((6, 3))), np.arange(6) % 2, 2, rng)
    assert_array_equal(A, np.zeros((2, 3)))


@pytest.mark.filterwarnings("ignore:The (within-class|total) scatter")
@pytest.mark.parametrize("part", PARTS, ids=repr)
@pytest.mark.parametrize("sizes", [(143, 77, 52, 35, 20, 5, 2, 2), (1, 2, 5), (1, 1), (2, 1)])
def test_tiny_classes(part, sizes, rng):
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(y), 7)) + y[:, None]
    for d in (1, 3, 7):
        A = part(Rows(X), y, d, rng)
        assert A.shape == (d, 7)
        assert np.isfinite(A).all()
        assert np.abs(A[0]).max() > 0


# Wide data


@pytest.mark.parametrize("part", SPECTRAL, ids=repr)
def test_wide_path_equals_narrow_path(clean, part, monkeypatch):
    X, y = clean
    narrow = part(X, y, 3, np.random.RandomState(0))
    monkeypatch.setattr(spaces, "WIDE", 2)
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
    monkeypatch.setattr(spaces, "WIDE", 2)
    wide = part(X, y, d, np.random.RandomState(0))
    assert_array_equal(wide[:, 7], 0)
    # compare the metrics: the order of two close eigenvalues is nobody's business
    assert_allclose(wide.T @ wide, narrow.T @ narrow, atol=1e-6 * np.abs(narrow.T @ narrow).max())


def test_wide_sparse_data_never_meet_a_square_matrix(rng):
    n, D = 60, 10_000  # D x D would be 800 MB
    y = np.arange(n) % 3
    S = sparse.random_array((n, D), density=0.01, rng=np.random.default_rng(0), format="csr")
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


# Identity, random, a given array, names


def test_identity_takes_the_first_columns_that_vary(rng):
    X, y = load_iris(return_X_y=True)
    assert_array_equal(Identity()(Rows(X), y, 4, rng), np.eye(4))
    assert_array_equal(Identity()(Rows(X), y, 2, rng), np.eye(2, 4))
    X[:, 0] = 1
    assert_array_equal(Identity()(Rows(X), y, 2, rng), np.eye(4)[[1, 2]])
    assert_array_equal(Identity()(Rows(X), y, 4, rng), np.diag([0, 1, 1, 1]))


def test_random_follows_the_generator_it_is_given():
    X, y = load_wine(return_X_y=True)
    X = Rows(X)
    a, b, c = (Random()(X, y, 2, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.01
    assert resolve("random").n_init == 1


def test_given_array_is_copied(rng):
    X, y = load_wine(return_X_y=True)
    array = rng.normal(size=(2, 13))
    A = resolve(array)(Rows(X), y, 2, rng)
    assert_array_equal(A, array)
    assert not np.shares_memory(A, array)
    assert_array_equal(resolve(array.tolist())(Rows(X), y, 2, rng), array)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((3, 13)), r"of NCA must be an array of shape \(2, 13\). Got \(3, 13\) instead"),
        (np.ones((2, 12)), r"of NCA must be an array of shape \(2, 13\). Got \(2, 12\) instead"),
        (np.ones(13), r"of NCA must be an array of shape \(2, 13\). Got \(13,\) instead"),
        (np.full((2, 13), np.nan), r"of NCA must be an array of finite numbers. Got nan instead"),
        ([["a"] * 13] * 2, r"of NCA must be an array of numbers. Got \[\["),
        ([[1, 2], [1]], r"of NCA must be an array of numbers. Got \[\["),
    ],
)
def test_given_array_is_checked(array, message, rng):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="The 'init' parameter " + message):
        resolve(array)(Rows(X), y, 2, rng)
    with pytest.raises(ValueError, match="of LMNN must be"):
        Given(array, owner="LMNN")(Rows(X), y, 2, rng)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("auto", Auto),
        ("identity", Identity),
        ("random", Random),
        ("pca", PCA),
        ("lda", LDA),
        ("rca", RCA),
        ("whiten", Whiten),
    ],
)
def test_resolve_names_and_parts(name, part):
    assert resolve(name) == part()
    own = part()
    assert resolve(own) is own


@pytest.mark.parametrize("init", ["umap", None, 3, RCA])
def test_resolve_refuses_by_name(init):
    message = "The 'init' parameter of RCA must be one of 'auto', 'identity', .*Got .* instead"
    with pytest.raises(ValueError, match=message):
        resolve(init, owner="RCA")


@pytest.mark.parametrize("value", [0, 1.5, "auto", True, np.nan])
@pytest.mark.parametrize("part", [PCA, Whiten, LDA, RCA])
def test_shrinkage_is_checked(part, value, rng):
    X, y = load_iris(return_X_y=True)
    message = rf"'shrinkage' parameter of {part.__name__} must be None or a float in \(0, 1\]. Got"
    with pytest.raises(ValueError, match=message):
        part(shrinkage=value)(Rows(X), y, 2, rng)


def test_n_init_is_checked(rng):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"'n_init' parameter of Random must be an int in \[1"):
        Random(n_init=0)(Rows(X), y, 2, rng)


def test_auto_needs_rows_for_rca(rng):
    X, y = load_digits(return_X_y=True)
    assert Auto().choose(Rows(X), y, 2) == RCA()
    assert Auto().choose(Rows(X[:100]), y[:100], 2) == PCA(whiten=False)
    assert Auto().choose(Rows(X), None, 2) == PCA(whiten=False)
    assert Auto().choose(Rows(X), np.zeros_like(y), 2) == PCA(whiten=False)


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
