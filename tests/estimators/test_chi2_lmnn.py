"""Chi2LMNN as an estimator: the simplex at every step, its loss, histograms, χ² votes."""

from __future__ import annotations

import warnings

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from common.histograms import (
    CONSTRAINTS,
    as_histograms,
    assert_on_simplex,
    counts,
    each_constraint,
    unfinished,
)
from formulas import finite_difference
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.utils import get_tags

from vicinal import LMNN, Chi2LMNN, solvers, starts
from vicinal.fit.report import Reports
from vicinal.metrics import Chi2Index, chi2_distances
from vicinal.samplers import MiniBatches, StochasticQueries


@pytest.fixture
def rows(rng):
    return counts(rng)


@pytest.fixture
def fitted(rows):
    return Chi2LMNN(3, random_state=0).fit(*rows)


def targets_by_hand(H, y, k):
    D = chi2_distances(H)
    D[(y[:, None] != y) | np.eye(len(y), dtype=bool)] = np.inf
    return np.argsort(D, axis=1, kind="stable")[:, :k]


def watch(monkeypatch):
    """Each iteration of the fits to come: its problem and its theta."""
    seen = []
    on_iteration = Reports.on_iteration

    def watched(self, searching=False, path=()):
        tell = on_iteration(self, searching, path)

        def told(info, problem, *args):
            seen.append((problem, info.theta))
            return tell(info, problem, *args)

        return told

    monkeypatch.setattr(Reports, "on_iteration", watched)
    return seen


# What is learnt


@unfinished
@pytest.mark.parametrize("r", [2, 3, 8])
@pytest.mark.parametrize("init", ["auto", "random"])
@pytest.mark.parametrize(
    ("constraint", "solver"),
    [(c, s) for c in CONSTRAINTS for s in ("projected", "adaptive", "bold_driver", "adam")]
    + [("softmax", s) for s in ("lbfgs", "cg")]
    + [("projection", s) for s in ("momentum", "sgd")],
)
def test_every_step_is_on_the_simplex(rows, monkeypatch, r, init, constraint, solver):
    seen = watch(monkeypatch)
    model = Chi2LMNN(
        r, constraint=constraint, solver=solver, init=init, max_iter=15, tol=0.0, random_state=0
    ).fit(*rows)
    assert len(seen) == len(model.history_["loss"])
    for problem, theta in seen:
        L = problem.mapping.components(theta)
        assert L.shape == (r, 8)
        assert_on_simplex(L)
    assert_on_simplex(model.components_)
    if r > 1:
        assert model.history_["loss"][-1] < model.history_["loss"][0]


@each_constraint
def test_gradient_matches_finite_differences(rng, monkeypatch, constraint):
    """Of the whole chain, theta to the loss of a fit, away from kinks."""
    X, y = counts(rng, 24, 5)
    seen = watch(monkeypatch)
    with pytest.warns(ConvergenceWarning):
        Chi2LMNN(
            3, k=2, mu=0.3, margin=0.07, constraint=constraint, init="random", max_iter=2, tol=0.0,
            random_state=0,
        ).fit(X, y)  # fmt: skip
    problem = seen[0][0].replace(dtype=np.float64)
    theta = problem.mapping.theta(rng.dirichlet(np.ones(3), 5).T)
    value, grad = problem(theta, None)
    H, L = as_histograms(X), problem.mapping.components(theta)
    expected = formulas.lmnn(
        H @ L.T, y, targets_by_hand(H, y, 2), 0.3, 0.07, distance="chi2"
    )[0]  # fmt: skip
    assert value == pytest.approx(expected, rel=1e-12)
    # small enough that no triple begins or ends to count
    numeric = finite_difference(lambda theta: problem(theta, None)[0], theta, 1e-7)
    np.testing.assert_allclose(grad, numeric, atol=1e-6 * np.abs(numeric).max())


@unfinished
@each_constraint
@pytest.mark.parametrize("settings", [{}, {"mu": 0.3, "margin": 0.2}, {"k": 1}, {"k": 5}], ids=repr)
def test_the_loss_is_the_formula(rows, constraint, settings):
    X, y = rows
    model = Chi2LMNN(3, constraint=constraint, max_iter=15, random_state=0, **settings).fit(X, y)
    H = as_histograms(X)
    value, _ = formulas.lmnn(
        H @ model.components_.T, y, targets_by_hand(H, y, model.k_), model.mu, model.margin_, "chi2"
    )
    assert model.loss_ == pytest.approx(value, rel=1e-9)
    assert model.loss_ == pytest.approx(min(model.history_["loss"]), rel=1e-12)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert {len(column) for column in model.history_.values()} == {model.n_iter_ + 1}
    assert model.history_["n_impostors"][0] > min(model.history_["n_impostors"])


def noisy(rng):
    """Half of the bins say nothing, and hold most of the mass."""
    X, y = counts(rng, 150, 6, 3.5)
    X = np.hstack([X, 10 * rng.poisson(2, (150, 6))])
    return train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)


@each_constraint
def test_learns_a_better_metric_than_chi2(rng, constraint):
    X, X_test, y, y_test = noisy(rng)
    near = Chi2Index(as_histograms(X)).kneighbors(as_histograms(X_test), 1, False)[:, 0]
    plain = np.mean(y[near] == y_test)
    model = Chi2LMNN(constraint=constraint, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > min(plain + 0.1, 0.9)


def test_the_softmax_does_not_rest_where_it_is_flat(rng):
    """At the identity the entries of its gradient are exp(-10) of those of the projection."""
    X, _, y, _ = noisy(rng)
    ends = [Chi2LMNN(constraint=c, random_state=0).fit(X, y) for c in CONSTRAINTS]
    assert ends[1].loss_ < 0.5 * ends[1].history_["loss"][0]
    assert ends[1].loss_ < 2 * ends[0].loss_


@unfinished
@pytest.mark.parametrize(
    "settings",
    [
        {"init": "groups"},
        {"init": "identity"},
        {"init": starts.RandomBins(n_init=3)},
        {
            "init": starts.BinGroups(sharpness=1.0),
            "solver": solvers.ProjectedGradient(memory=1),
        },
        {"n_components": None},
        {"early_stopping": True},
        {"early_stopping": True, "constraint": "softmax", "refresh_targets": 3},
        {"refresh_targets": 4},
        {"time_budget": 60.0, "n_neighbors": "auto"},
        {"constraint": "softmax", "solver": "momentum", "max_iter": 40},
        {"sampling": StochasticQueries(20), "max_iter": 30},
        {"sampling": MiniBatches(20, "random"), "max_iter": 30, "refresh_targets": 9},
        {"sampling": MiniBatches(20, "random"), "max_iter": 30, "constraint": "softmax"},
        {"sampling": StochasticQueries(30), "early_stopping": True, "solver": "sgd"},
    ],
    ids=repr,
)
def test_every_way_lowers_the_loss(rows, settings):
    settings = {"n_components": 3, "max_iter": 12, "random_state": 0, **settings}
    model = Chi2LMNN(**settings).fit(*rows)
    assert min(model.history_["loss"]) < model.history_["loss"][0]
    assert_on_simplex(model.components_)
    assert model.score(*rows) > 0.5
    again = clone(model).fit(*rows)
    np.testing.assert_array_equal(again.components_, model.components_)


@unfinished
def test_targets_are_chosen_anew(rows):
    X, y = rows
    model = Chi2LMNN(3, refresh_targets=3, max_iter=12, tol=0.0, random_state=0).fit(X, y)
    new = model.rounds_["share_of_new_targets"]
    assert (len(new), new[0]) == (4, 0.0)
    assert any(share > 0 for share in new)
    # at the map that is kept, some of the nearest are not those from before learning
    once = Chi2LMNN(3, max_iter=12, tol=0.0, random_state=0).fit(X, y)
    assert once.rounds_ == {}
    assert not np.array_equal(model.components_, once.components_)


def test_auto_margin_is_measured_and_kept(rows):
    X, y = rows
    H = as_histograms(X)
    nearest = chi2_distances(H)[np.arange(60), targets_by_hand(H, y, 1)[:, 0]]
    model = Chi2LMNN(3, random_state=0).fit(X, y)
    assert model.margin_ == pytest.approx(np.median(nearest[nearest > 0]) / 6, rel=1e-12)
    assert model.margin == "auto"
    # rows half-way to the uniform histogram are nearer
    closer = Chi2LMNN(3, random_state=0).fit(H + 1 / 8, y)
    assert 0 < closer.margin_ < model.margin_ / 2
    assert Chi2LMNN(3, margin=0.3, random_state=0).fit(X, y).margin_ == 0.3


@pytest.mark.filterwarnings("error")
def test_a_small_margin_is_no_complaint(rng):
    X, y = counts(rng, contrast=20.0)
    model = Chi2LMNN(3, margin=1e-6, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize(
    ("model", "advice"),
    [(Chi2LMNN(3, mu=1e-9), "Increase 'mu' or 'margin'"),
     (LMNN(2, mu=1e-9, alpha=0.0), r"Increase 'mu'\."),
     (LMNN(2, alpha=1e9), "Increase 'mu' or decrease 'alpha'")],
    ids=repr,
)  # fmt: skip
def test_a_map_that_comes_to_nothing_is_told(rows, model, advice):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(UserWarning, match=f"The map has collapsed.*{advice}"):
            model.fit(*rows)


# Rows


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_negative_values_are_refused_by_row(rows, fitted, sparse, normalize):
    X, y = rows
    H = as_histograms(X)
    H[7, 2], H[9, 1] = -0.25, -0.5
    H = sp.csr_array(H) if sparse else H
    model = fitted.set_params(normalize=normalize)
    for ask in (lambda: clone(model).fit(H, y), lambda: model.predict(H),
                lambda: model.predict_proba(H), lambda: model.transform(H)):  # fmt: skip
        with pytest.raises(ValueError, match=r"Negative values in data.* Row 7 has -0\.25"):
            ask()


@pytest.mark.parametrize("sparse", [False, True])
def test_other_sums_are_refused_by_row_unless_normalized(rows, fitted, sparse):
    X, y = rows
    H = as_histograms(X)
    model = Chi2LMNN(3, normalize=False, random_state=0).fit(sp.csr_array(H) if sparse else H, y)
    np.testing.assert_allclose(model.components_, fitted.components_, atol=1e-6)
    H[11] *= 1.5
    H = sp.csr_array(H) if sparse else H
    for ask in (lambda: clone(model).fit(H, y), lambda: model.predict(H),
                lambda: model.transform(H)):  # fmt: skip
        with pytest.raises(ValueError, match=r"normalize=False.*Row 11 sums to 1\.5"):
            ask()
    model.set_params(normalize=True)  # counts at once
    assert model.transform(H).shape == (60, 3)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_without_mass_is_uniform(rows, fitted, sparse):
    X, y = rows
    uniform = X.copy()
    X[5], uniform[5] = 0.0, 3.0
    wrap = sp.csr_array if sparse else np.asarray
    model = Chi2LMNN(3, random_state=0).fit(wrap(X), y)
    same = Chi2LMNN(3, random_state=0).fit(wrap(uniform), y)
    np.testing.assert_allclose(model.components_, same.components_, atol=1e-9)
    np.testing.assert_allclose(
        fitted.transform(wrap(0 * X[:2])), fitted.components_.mean(axis=1)[None].repeat(2, axis=0)
    )
    with pytest.raises(ValueError, match="Row 5 sums to 0"):
        Chi2LMNN(3, normalize=False).fit(wrap(as_histograms(X) * (X.sum(axis=1) > 0)[:, None]), y)


def test_the_scale_of_rows_does_not_matter(rows, fitted):
    X, y = rows
    scaled = X * np.logspace(-150, 150, 60)[:, None]
    other = Chi2LMNN(3, random_state=0).fit(scaled, y)
    np.testing.assert_allclose(other.components_, fitted.components_, atol=1e-6)
    np.testing.assert_allclose(fitted.transform(scaled), fitted.transform(X), rtol=1e-12)


# What is answered


@pytest.mark.parametrize("n_neighbors", [None, 1, 4])
def test_votes_are_of_the_nearest_by_chi2(rng, rows, n_neighbors):
    X, y = rows
    model = Chi2LMNN(3, n_neighbors=n_neighbors, random_state=0).fit(X, y)
    assert model.n_neighbors_ == (n_neighbors or 3)
    queries = rng.gamma(0.5, size=(40, 8))
    D = chi2_distances(model.transform(queries), model.transform(X))
    near = np.argsort(D, axis=1, kind="stable")[:, : model.n_neighbors_]
    shares = np.array([[np.mean(y[row] == c) for c in range(3)] for row in near])
    np.testing.assert_allclose(model.predict_proba(queries), shares, atol=1e-12)
    np.testing.assert_array_equal(model.predict(queries), shares.argmax(axis=1))


def test_transform_maps_histograms_to_histograms(rows, fitted):
    X, _ = rows
    Z = fitted.transform(X)
    np.testing.assert_allclose(Z, as_histograms(X) @ fitted.components_.T, rtol=1e-12)
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(fitted.transform(sp.csr_array(X)), Z, rtol=1e-12)
    np.testing.assert_array_equal(
        fitted.get_feature_names_out(), ["chi2lmnn0", "chi2lmnn1", "chi2lmnn2"]
    )


def test_the_metric_is_chi2_after_the_map(rows, fitted):
    X, y = rows
    squared = chi2_distances(fitted.transform(X))
    expected = np.sqrt(squared)
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    np.testing.assert_allclose(fitted.pair_distance(pairs), np.diag(expected, 1), atol=1e-8)
    np.testing.assert_array_equal(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    metric = fitted.get_metric()
    assert metric(X[0], 7 * X[1]) == pytest.approx(expected[0, 1])
    assert metric(X[0], X[1], squared=True) == pytest.approx(squared[0, 1])
    # by a ball tree too, which relies on the triangle inequality
    for algorithm in ("brute", "ball_tree"):
        nearest = NearestNeighbors(metric=metric, algorithm=algorithm).fit(X).kneighbors(X[:9], 2)
        np.testing.assert_allclose(nearest[0], np.sort(expected[:9], axis=1)[:, :2], atol=1e-7)
    voters = KNeighborsClassifier(3, metric=metric, algorithm="brute").fit(X, y)
    np.testing.assert_array_equal(voters.predict(X), fitted.predict(X))
    fitted.set_params(init="identity", n_components=2).fit(X, y)
    assert metric(X[0], X[1]) == pytest.approx(expected[0, 1])  # a copy


def test_pairs_of_other_shapes_are_refused(rows, fitted):
    X, _ = rows
    with pytest.raises(ValueError, match=r"pairs must have shape \(n_pairs, 2, 8\). Got \(60, 8\)"):
        fitted.pair_distance(X)
    with pytest.raises(ValueError, match="Negative values"):
        fitted.pair_score(-np.ones((1, 2, 8)))
    with pytest.raises(ValueError, match="NaN"):
        fitted.pair_score(np.full((1, 2, 8), np.nan))
    for ask in ("get_metric", "pair_distance"):
        with pytest.raises(NotFittedError):
            getattr(Chi2LMNN(), ask)(*([X] if ask != "get_metric" else []))


def test_what_a_quadratic_form_has_is_not_there(fitted):
    for name in ("get_mahalanobis_matrix", "feature_importances_", "partial_fit"):
        assert not hasattr(fitted, name)
    for name in ("alpha", "scaling", "mapping", "cv", "rule"):
        assert name not in fitted.get_params()
    assert get_tags(fitted).input_tags.positive_only
