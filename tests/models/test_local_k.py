"""Local K: as many voters as each query's effective number of neighbours."""

from __future__ import annotations

import pickle
import tracemalloc
from unittest import mock

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from vicinal import NCA
from vicinal.maps.fitted import FittedLinear
from vicinal.models.posterior import NCAModel
from vicinal.objectives import nca_effective_n_neighbors
from vicinal.targets import Labels

SCALES = [1e-3, 0.3, 1.0, 3.0]  # k close to n, some dozen, a few, mostly 1


@pytest.fixture(scope="module")
def halves():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def fitted(halves):
    X, _, y, _ = halves
    return NCA(2, rule="knn", n_neighbors="local", random_state=0, alpha=3e-3).fit(X, y)


@pytest.fixture
def cloud(rng):
    """References with classes and weights, queries of which some are far away."""
    Z, y, weight = rng.normal(size=(120, 3)), np.arange(120) % 3, rng.uniform(0.1, 2, 120)
    return Z, y, weight, rng.normal(size=(50, 3)) * rng.choice([0.1, 1.0, 4.0], size=(50, 1))


def brute_force(Z, y, Z_query, weight=None):
    """k and vote shares of each query, with every distance in sight."""
    v = np.ones(len(Z)) if weight is None else weight
    d2 = formulas.squared_distances(Z_query, Z)
    p = v * np.exp(d2.min(axis=1, keepdims=True) - d2)
    p /= p.sum(axis=1, keepdims=True)
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=1)
    k = np.clip(np.rint(np.exp(entropy)), 1, len(Z)).astype(int)
    shares = np.zeros((len(d2), y.max() + 1))
    for i, order in enumerate(d2.argsort(axis=1, kind="stable")):
        np.add.at(shares[i], y[order[: k[i]]], v[order[: k[i]]])
    return k, shares / shares.sum(axis=1, keepdims=True)


# The entropy of new points


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "n"), [(1, 1), (2, 30), (3, 900), (60, 900)])
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_effective_numbers_of_new_points_match_the_reference(rng, weighted, d, n, scale):
    Z, Z_query = (scale / np.sqrt(d) * rng.normal(size=(m, d)) for m in (n, 70))
    v = rng.uniform(0, 2, n) * (np.arange(n) % 5 != 1) if weighted else None
    expected = formulas.effective_n_neighbors(Z, v, Z_query)
    np.testing.assert_allclose(nca_effective_n_neighbors(Z, v, Z_query), expected, rtol=1e-9)
    single = nca_effective_n_neighbors(Z.astype(np.float32), v, Z_query.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=1e-3)


def test_a_row_as_a_query_may_choose_itself(rng):
    Z = 10 * rng.normal(size=(20, 2))
    np.testing.assert_allclose(formulas.effective_n_neighbors(0 * Z, None, 0 * Z), 20)
    np.testing.assert_allclose(nca_effective_n_neighbors(0 * Z, None, 0 * Z), 20, rtol=1e-12)
    assert (nca_effective_n_neighbors(Z, None, Z) < 1.01 * nca_effective_n_neighbors(Z)).any()
    assert not nca_effective_n_neighbors(Z, np.zeros(20), Z[:3]).any()  # nobody to choose


def test_wrong_queries_are_refused(rng):
    Z = rng.normal(size=(9, 2))
    with pytest.raises(ValueError, match="Z_query has 1 columns but Z has 2"):
        nca_effective_n_neighbors(Z, None, Z[:, :1])
    with pytest.raises(ValueError, match="Z_query must be finite"):
        nca_effective_n_neighbors(Z, None, Z + np.nan)


# Votes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_votes_are_those_of_the_brute_force(cloud, weighted, scale):
    Z, y, weight, Z_query = cloud
    weight = weight if weighted else None
    rules = NCAModel(scale * Z, Labels(y, weight), "local")
    k, shares = brute_force(scale * Z, y, scale * Z_query, weight)
    np.testing.assert_array_equal(rules.local_n_neighbors(scale * Z_query), k)
    np.testing.assert_allclose(rules.votes(scale * Z_query), shares, rtol=1e-12)
    if scale == 1.0:
        assert k.max() > 8 * k.min()  # several searches


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_votes_as_the_brute_force(halves, rng, dtype, weighted):
    X, X_test, y, _ = halves
    X, X_test = X.astype(dtype), X_test.astype(dtype)
    weight = rng.uniform(0.1, 2, len(y)) if weighted else None
    model = NCA(2, rule="knn", n_neighbors="local", alpha=0.1, random_state=0)
    model.fit(X, y, sample_weight=weight)
    centre, A = X.mean(axis=0, dtype=np.float64), model.components_.astype(np.float64)
    k, shares = brute_force((X - centre) @ A.T, y, (X_test - centre) @ A.T, weight)
    found = model.local_n_neighbors(X_test)
    assert found.dtype.kind == "i"
    assert found.min() >= 1
    assert found.max() <= len(X)
    assert len(np.unique(found)) > 5
    if dtype == np.float64:
        np.testing.assert_array_equal(found, k)
        np.testing.assert_allclose(model.predict_proba(X_test), shares, rtol=1e-12)
    same = found == k  # a projection in float32 may round to the other side of a half
    assert np.mean(same) > 0.95
    assert np.mean(model.predict_proba(X_test)[same].argmax(1) == shares[same].argmax(1)) > 0.98
    np.testing.assert_array_equal(
        model.predict(X_test), model.classes_[model.predict_proba(X_test).argmax(axis=1)]
    )


def test_priors_have_no_say_in_k(cloud):
    Z, y, weight, Z_query = cloud
    plain = NCAModel(Z, Labels(y, weight), "local")
    prior = NCAModel(Z, Labels(y, weight, [0.9, 0.1, 0.0]), "local")
    np.testing.assert_array_equal(
        prior.local_n_neighbors(Z_query), plain.local_n_neighbors(Z_query)
    )
    np.testing.assert_array_equal(prior.votes(Z_query), plain.votes(Z_query))


# Limits


def test_without_preference_all_rows_vote(rng):
    angle = rng.uniform(0, 2 * np.pi, 45)
    Z, y = 3 * np.stack([np.cos(angle), np.sin(angle)], axis=1), np.arange(45) % 2
    for circle in (Z, Z.astype(np.float32), 0 * Z):
        rules = NCAModel(circle, Labels(y), "local")
        centre = np.zeros((1, 2), circle.dtype)
        assert rules.local_n_neighbors(centre) == [45]
        np.testing.assert_allclose(rules.votes(centre), [[23 / 45, 22 / 45]])
    assert np.rint(rules.effective_n_neighbors).tolist() == [44] * 45  # each without itself


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_huge_map_is_the_nearest_neighbour(cloud, dtype):
    Z, y, weight, Z_query = ((1e6 * part).astype(dtype) if part.ndim > 1 else part
                             for part in cloud)  # fmt: skip
    local, nearest = (NCAModel(Z, Labels(y, weight), k) for k in ("local", 1))
    np.testing.assert_array_equal(local.local_n_neighbors(Z_query), 1)
    np.testing.assert_array_equal(local.votes(Z_query), nearest.votes(Z_query))
    assert (np.rint(local.effective_n_neighbors) == 1).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_references(rng, n):
    Z, Z_query = 0.01 * rng.normal(size=(n, 2)), 0.01 * rng.normal(size=(4, 2))
    rules = NCAModel(Z, Labels(np.arange(n)), "local")
    np.testing.assert_array_equal(rules.local_n_neighbors(Z_query), n)
    np.testing.assert_allclose(rules.votes(Z_query), 1 / n)
    assert (np.maximum(np.rint(rules.effective_n_neighbors), 1) == max(1, n - 1)).all()


def test_ties_go_to_the_first_class(rng):
    Z = np.array([[1.0, 0.0], [-1.0, 0.0]])
    model = NCA(2, rule="knn", n_neighbors="local", alpha=3e-3)
    model._map, model.classes_ = FittedLinear(np.eye(2), np.zeros(2), 1.0), np.array(["a", "b"])
    model.n_features_in_ = model.n_components_ = 2
    model._model = NCAModel(Z, Labels([1, 0]), "local")
    assert model.predict([[0.0, 0.3]]).tolist() == ["a"]
    np.testing.assert_allclose(model.predict_proba([[0.0, 0.3]]), 0.5)


# Whatever the company


@pytest.mark.parametrize("scale", SCALES)
def test_neither_order_nor_chunks_change_an_answer(cloud, rng, scale):
    Z, y, weight, Z_query = cloud
    Z, Z_query = np.round(Z) * scale, np.round(Z_query) * scale  # on a lattice: ties all over
    rules = NCAModel(Z, Labels(y, weight), "local")
    k, shares = rules.local_n_neighbors(Z_query), rules.votes(Z_query)
    order = rng.permutation(len(Z_query))
    np.testing.assert_array_equal(rules.local_n_neighbors(Z_query[order]), k[order])
    np.testing.assert_array_equal(rules.votes(Z_query[order]), shares[order])
    for memory in (1e-6, 5e-3):  # a row at a time, and a few
        with config_context(working_memory=memory):
            np.testing.assert_array_equal(rules.local_n_neighbors(Z_query), k)
            np.testing.assert_array_equal(rules.votes(Z_query), shares)


def test_no_query_searches_for_more_than_twice_its_k(rng):
    near, ring = 0.01 * rng.normal(size=(3, 2)), rng.normal(size=(997, 2))
    ring *= 40 / np.linalg.norm(ring, axis=1, keepdims=True)
    rules = NCAModel(np.vstack([near, ring]), Labels(np.arange(1000) % 2), "local")
    Z_query = np.vstack([0.01 * rng.normal(size=(99, 2)), [[1e4, 1e4]], 0.9 * ring[:50]])
    k = rules.local_n_neighbors(Z_query)
    assert k[:99].max() == 3
    searches = []

    def kneighbors(self, X, n_neighbors, return_distance):
        searches.append((len(X), n_neighbors))
        return find(self, X, n_neighbors, return_distance)

    find = NearestNeighbors.kneighbors
    with mock.patch.object(NearestNeighbors, "kneighbors", kneighbors):
        rules.votes(Z_query)
    assert sum(rows for rows, _ in searches) == np.sum(k <= 1000 // 16)
    assert sum(rows * width for rows, width in searches) < 2 * k[k <= 1000 // 16].sum()


@pytest.mark.parametrize("scale", [1e-3, 5.0])  # all rows vote; a few dozen do
def test_memory_is_bounded(rng, scale):
    Z, Z_query = scale * rng.normal(size=(4000, 2)), scale * rng.normal(size=(500, 2))
    rules = NCAModel(Z, Labels(np.arange(4000) % 2), "local")
    rules.votes(Z_query[:3])  # compiled, and the tree built
    with config_context(working_memory=1):
        tracemalloc.start()
        rules.votes(Z_query)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3 * 2**20  # all distances would take 15 MiB


# The estimator


def test_there_is_no_one_n_neighbors(fitted):
    with pytest.raises(AttributeError, match="each row has its own; see local_n_neighbors"):
        _ = fitted.n_neighbors_


def test_local_n_neighbors_are_the_effective_ones_rounded(fitted, halves):
    effective = fitted.effective_n_neighbors(halves[1])
    np.testing.assert_array_equal(fitted.local_n_neighbors(halves[1]), np.rint(effective))
    others = fitted.effective_n_neighbors()  # of the training rows, which leave themselves out
    assert others.shape == halves[2].shape
    assert not np.allclose(others, fitted.effective_n_neighbors(halves[0]))


def test_local_n_neighbors_under_any_rule(fitted, halves):
    X, X_test, y, _ = halves
    other = NCA(2, random_state=0, alpha=3e-3).fit(X, y)
    np.testing.assert_array_equal(other.local_n_neighbors(X_test), fitted.local_n_neighbors(X_test))
    np.testing.assert_array_equal(
        other.local_n_neighbors(sp.csr_array(X_test)), fitted.local_n_neighbors(X_test)
    )
    asked = clone(fitted).set_params(rule="posterior").fit(X, y)
    np.testing.assert_array_equal(asked.predict_proba(X_test), other.predict_proba(X_test))


def test_copies(fitted, halves):
    _, X_test, _, y_test = halves
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X_test), fitted.predict_proba(X_test))
    np.testing.assert_array_equal(again.local_n_neighbors(X_test), fitted.local_n_neighbors(X_test))
    assert fitted.score(X_test, y_test) > 0.9
    copy = clone(fitted)
    assert copy.n_neighbors == "local"
    with pytest.raises(NotFittedError):
        copy.local_n_neighbors(X_test)


def test_rows_are_checked(fitted, halves):
    _, X_test, _, _ = halves
    with pytest.raises(ValueError, match="12 features"):
        fitted.local_n_neighbors(X_test[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        fitted.local_n_neighbors(np.where(X_test > 100, np.nan, X_test))


@pytest.mark.parametrize("value", ["Local", "global", "", 0, 2.5, None])
def test_wrong_values_are_named(halves, value):
    X, _, y, _ = halves
    message = rf"'n_neighbors' parameter of NCA .* or 'auto' or 'local'. Got {value!r} instead"
    with pytest.raises(ValueError, match=message):
        NCA(rule="knn", n_neighbors=value, alpha=3e-3).fit(X, y)


def test_another_k_counts_after_a_fit_too():
    X, y = load_wine(return_X_y=True)
    model = NCA(2, rule="knn", n_neighbors=1, random_state=0, alpha=3e-3).fit(X, y)
    for k in (5, "local", "auto", 1):
        fresh = NCA(2, rule="knn", n_neighbors=k, random_state=0, alpha=3e-3).fit(X, y)
        model.set_params(n_neighbors=k)
        np.testing.assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))
        assert getattr(model, "n_neighbors_", None) == getattr(fresh, "n_neighbors_", None)
    with pytest.raises(ValueError, match=r"'n_neighbors' parameter of NCA must be .* Got 0"):
        model.set_params(n_neighbors=0).predict(X)
