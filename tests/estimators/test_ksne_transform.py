"""New rows in a finished picture of kSNE, and the minimiser that places them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness
from sklearn.metrics import pairwise_distances

from vicinal import KSNE
from vicinal.affinities import new_affinities
from vicinal.engines import choose
from vicinal.models.equal_rows import EqualRows
from vicinal.models.placement import Lists, place
from vicinal.objectives.ksne import KSNELoss
from vicinal.targets import Affinities

X, NEW = np.split(load_digits().data[:230], [180])


@pytest.fixture(scope="module")
def model():
    return KSNE(k=3, perplexity=10, max_iter=300, early_exaggeration_iter=100).fit(X)


def test_new_rows_come_to_their_neighbours(model):
    Z = np.concatenate([model.embedding_, model.transform(NEW)])
    both = np.concatenate([X, NEW])
    assert trustworthiness(both, Z) > trustworthiness(X, model.embedding_) - 0.02


def loss_of(model, new):
    """The loss of one new row as a function of its place, by the objective itself."""
    n, made = len(X), new_affinities(new[None], X, model.perplexity_, 3)
    indptr = np.append(np.zeros(n + 1, np.int64), made.indptr[1])
    entropy = np.append(np.zeros(n), made.entropy)
    target = Affinities(indptr, made.indices, made.marginals, 3, entropy)

    def loss(z):
        Z = np.concatenate([model.embedding_, z[None]])
        found = KSNELoss(3)(Z, target, queries=np.array([n]), references=np.arange(n))
        return found.value, found.dZ[n]

    return loss


def test_a_new_row_minimises_its_own_loss(model):
    for new, z in zip(NEW[:6], model.transform(NEW[:6]), strict=True):
        loss = loss_of(model, new)
        value, gradient = loss(z)
        assert np.abs(gradient).max() < 1e-4
        near = minimize(loss, z + 0.01, jac=True, method="BFGS")
        assert value < near.fun + 1e-6


def test_equal_rows_get_the_place_of_the_first(model):
    twins = np.concatenate([X, X[:4]])
    again = KSNE(k=3, perplexity=10, init="random", max_iter=20, random_state=0).fit(twins)
    np.testing.assert_array_equal(again.transform(twins[-4:]), again.embedding_[:4])
    np.testing.assert_array_equal(model.transform(sp.csr_array(X[3:5])), model.embedding_[3:5])
    signed = np.where(X[:2] == 0, -0.0, X[:2])
    np.testing.assert_array_equal(model.transform(signed), model.embedding_[:2])
    moved = X[:2] + 1e-9
    assert not np.array_equal(model.transform(moved), model.embedding_[:2])


def test_given_distances_place_as_rows_do(model):
    given = KSNE(k=3, perplexity=10, metric="precomputed", max_iter=30, random_state=0)
    given.fit(pairwise_distances(X))
    rows = KSNE(k=3, perplexity=10, init="spectral", max_iter=30, random_state=0).fit(X)
    np.testing.assert_allclose(given.embedding_, rows.embedding_, atol=1e-6)
    D = pairwise_distances(NEW[:8], X)
    np.testing.assert_allclose(given.transform(D), rows.transform(NEW[:8]), atol=1e-3)
    D[0, 17] = 0.0
    np.testing.assert_array_equal(given.transform(D)[0], given.embedding_[17])
    with pytest.raises(ValueError, match="179 features, but KSNE is expecting 180"):
        given.transform(D[:, 1:])


def test_float32_pictures_and_rows(model):
    single = KSNE(k=3, perplexity=10, max_iter=20).fit(X.astype(np.float32))
    np.testing.assert_array_equal(single.transform(X), single.embedding_)  # equal numbers
    assert single.transform(NEW).dtype == np.float32


@pytest.mark.parametrize(
    ("kernel", "kappa"), [("cauchy", 0.0), ("gaussian", 0.0), ("cauchy", 0.01)]
)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_places_are_minima_whatever_the_kernel(kernel, kappa, d, rng):
    scale = 8.0 if kernel == "cauchy" else 1.5
    Z = scale * rng.standard_normal((90, d))
    near = np.argsort(np.sum((Z[:, None] - Z[:7]) ** 2, axis=2), axis=0)[:12].T
    p = rng.random((7, 12))
    p *= 3 / p.sum(axis=1, keepdims=True)
    lists = Lists(np.arange(8) * 12, near.ravel(), np.minimum(p, 1.0).ravel())
    potential = choose.backend(Z, len(Z)).set_potential(Z, 3, kernel, kappa)
    places = place(Z, lists, potential, kernel, kappa)

    def loss(z, i):
        d2 = np.sum((z - Z[near[i]]) ** 2, axis=1)
        smooth = np.exp(-d2) if kernel == "gaussian" else 1 / (1 + d2)
        attraction = -np.sum(np.minimum(p[i], 1.0) * np.log(smooth + kappa))
        return attraction + potential(z[None])[0][0]

    for i, z in enumerate(places):
        best = minimize(loss, z, args=(i,), method="Nelder-Mead", options={"maxiter": 300}).fun
        assert loss(z, i) < best + 1e-5


def test_keys_tell_rows_apart(rng):
    rows = rng.integers(0, 3, (500, 8)).astype(float)
    known = EqualRows(rows)
    _, first, groups = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    for kind in np.asarray, sp.csr_array, np.float32:
        np.testing.assert_array_equal(known.first(kind(rows)), first[groups.ravel()])
    np.testing.assert_array_equal(known.first(rows[7:9]), known.first(rows)[7:9])
