"""Synthetic data sets: where the classes are, and which methods see them."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from vicinal import NCA, datasets

MAKERS = [datasets.make_rings, datasets.make_stripes, datasets.make_histograms]


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_rows(make):
    X, y = make(101, n_classes=3, random_state=3)
    again = make(101, n_classes=3, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert not np.array_equal(X, make(101, n_classes=3, random_state=4)[0])
    assert len(X) == 101
    assert sorted(np.bincount(y)) == [33, 34, 34]
    assert y.dtype == np.int64
    assert np.any(np.diff(y) < 0)  # not in the order of the classes


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("parameter", "value", "bound"),
    [
        ("n_samples", 2, r"an int in \[3, inf\)"),
        ("n_samples", 7.5, r"an int in \[3, inf\)"),
        ("n_classes", 0, r"an int in \[[12], inf\)"),
        ("random_state", "seed", r"an int in \[0, 4294967295\]"),
    ],
)
def test_bad_parameters(make, parameter, value, bound):
    message = f"The '{parameter}' parameter of {make.__name__} must be {bound}.*Got {value!r}"
    with pytest.raises(ValueError, match=message):
        make(**{"n_classes": 3, parameter: value})


@pytest.mark.parametrize(
    ("make", "parameter", "value", "bound"),
    [
        (datasets.make_rings, "noise", -1, r"a float in \[0, inf\)"),
        (datasets.make_rings, "radial_noise", np.nan, r"a float in \[0, inf\)"),
        (datasets.make_stripes, "n_classes", 1, r"an int in \[2, inf\)"),
        (datasets.make_stripes, "n_repeats", 0, r"an int in \[1, inf\)"),
        (datasets.make_stripes, "length", "long", r"a float in \[0, inf\)"),
        (datasets.make_stripes, "noise", np.inf, r"a float in \[0, inf\)"),
        (datasets.make_histograms, "n_bins", 2, r"an int in \[3, inf\)"),
        (datasets.make_histograms, "concentration", 0, r"a float in \(0, inf\)"),
        (datasets.make_histograms, "contrast", -0.1, r"a float in \[0, inf\)"),
    ],
)
def test_bad_parameters_of_one(make, parameter, value, bound):
    message = f"The '{parameter}' parameter of {make.__name__} must be {bound}. Got {value!r}"
    with pytest.raises(ValueError, match=message):
        make(**{parameter: value})


def test_rings_are_concentric(global_random_seed):
    X, y = datasets.make_rings(1000, n_classes=4, random_state=global_random_seed)
    radius = np.linalg.norm(X[:, :2], axis=1)
    for c in range(4):
        assert radius[y == c].mean() == pytest.approx((c + 1) / 4, abs=0.01)
        assert radius[y == c].std() == pytest.approx(0.02, rel=0.3)
    assert X[:, 2].std() == pytest.approx(1, rel=0.15)
    assert np.abs(np.corrcoef(np.column_stack([X, radius, y]).T)[2, [0, 1, 3, 4]]).max() < 0.15


def test_rings_fool_pca_and_lda_but_not_nca(global_random_seed):
    X, y = datasets.make_rings(random_state=global_random_seed)
    pca = PCA(n_components=2).fit(X)
    assert abs(pca.components_[0, 2]) > 0.95
    assert accuracy(pca.transform(X), y) < 0.6
    assert accuracy(LinearDiscriminantAnalysis(n_components=2).fit_transform(X, y), y) < 0.7
    nca = NCA(n_components=2, random_state=0, alpha=3e-3).fit(X, y)
    assert np.linalg.norm(nca.components_[:, 2]) < 0.1 * np.linalg.norm(nca.components_)
    assert accuracy(nca.transform(X), y) > 0.97


def test_stripes_alternate():
    X, y = datasets.make_stripes(400, n_classes=3, n_repeats=2, noise=0.0, random_state=0)
    stripes = np.unique(np.column_stack([X[:, 1], y]), axis=0)
    assert stripes[:, 0].tolist() == list(range(-4, 5))
    assert stripes[:, 1].tolist() == [0, 1, 2, 1, 0, 1, 2, 1, 0]
    assert np.abs(X[:, 0]).max() <= 100


def test_stripes_fool_pca_but_not_nca(global_random_seed):
    X, y = datasets.make_stripes(random_state=global_random_seed)
    for c in range(2):  # one mean, for LDA to see nothing
        assert abs(X[y == c, 1].mean()) < 0.5
    assert accuracy(X, y) < 0.75
    assert accuracy(PCA(n_components=1).fit_transform(X), y) < 0.65
    nca = NCA(n_components=1, random_state=0, alpha=3e-3).fit(X, y)
    assert accuracy(nca.transform(X), y) > 0.97


def test_histograms_add_up_and_prefer_their_group(global_random_seed):
    X, y = datasets.make_histograms(
        2000, n_classes=3, n_bins=7, contrast=2.0, random_state=global_random_seed
    )
    assert X.shape == (2000, 7)
    assert X.min() >= 0
    np.testing.assert_allclose(X.sum(axis=1), 1)
    for c, group in enumerate([[0, 1, 2], [3, 4], [5, 6]]):
        alpha = np.ones(7)
        alpha[group] += 2
        np.testing.assert_allclose(X[y == c].mean(axis=0), alpha / alpha.sum(), atol=0.02)


def test_ordinary_histograms_are_those_of_numpy():
    X, y = datasets.make_histograms(300, n_bins=6, concentration=0.3, random_state=3)
    rng = np.random.RandomState(3)
    np.testing.assert_array_equal(y, rng.permutation(np.arange(300) % 3))
    for c in range(3):
        alpha = 0.3 * (1 + 2.0 * (np.arange(6) // 2 == c))
        np.testing.assert_array_equal(X[y == c], rng.dirichlet(alpha, size=100))


@pytest.mark.parametrize("concentration", [1e-3, 3e-4, 1e-4, 1e-10, 1e-100, 1e-300, 1e-320, 1e307])
def test_histograms_of_any_concentration(concentration):
    """Where concentrations are tiny, rows have one bin: bin b with probability alpha_b / sum."""
    X, y = datasets.make_histograms(
        6000, n_bins=3, contrast=0.5, concentration=concentration, random_state=0
    )
    assert X.min() >= 0
    np.testing.assert_allclose(X.sum(axis=1), 1)
    for c in range(3):
        alpha = 1 + 0.5 * (np.arange(3) == c)
        np.testing.assert_allclose(X[y == c].mean(axis=0), alpha / alpha.sum(), atol=0.05)


def test_histograms_drawn_in_logarithms_have_the_same_distribution():
    class Underflowing(np.random.RandomState):
        def dirichlet(self, alpha, size):
            return np.full((size, len(alpha)), np.nan)

    X, y = datasets.make_histograms(
        30_000, n_bins=3, concentration=0.4, random_state=Underflowing(0)
    )
    for c in range(3):
        alpha = 0.4 * (1 + 2.0 * (np.arange(3) == c))
        mean = alpha / alpha.sum()
        variance = mean * (1 - mean) / (alpha.sum() + 1)
        np.testing.assert_allclose(X[y == c].mean(axis=0), mean, atol=0.01)
        np.testing.assert_allclose(X[y == c].var(axis=0), variance, atol=0.01)


def accuracy(Z, y):
    """Share of rows whose nearest other row has their label."""
    other = KNeighborsClassifier(1).fit(Z, y).kneighbors(return_distance=False)[:, 0]
    return np.mean(y[other] == y)


def test_rings_among_columns_of_noise():
    X, y = datasets.make_rings(200, n_classes=2, n_noise=3, noise=0.5, random_state=0)
    assert X.shape == (200, 5)
    np.testing.assert_allclose(np.hypot(X[:, 0], X[:, 1]), (y + 1) / 2, atol=0.1)
    assert np.all(np.abs(X[:, 2:].std(axis=0) - 0.5) < 0.1)
    with pytest.raises(ValueError, match=r"'n_noise' parameter of make_rings must be an int"):
        datasets.make_rings(n_noise=-1)
