"""Chi2LMNN among others: parameters, precision, threads, warm starts, frames, pictures."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from common.histograms import assert_on_simplex, counts, each_constraint, unfinished
from common.hooks import hooked
from sklearn.base import clone

from vicinal import Chi2LMNN, plotting, starts


@pytest.fixture
def rows(rng):
    return counts(rng)


# Parameters


@pytest.mark.parametrize(
    ("name", "bound", "value"),
    [
        ("n_components", r"an int in \[1, 8\] or None", 0),
        ("n_components", r"an int in \[1, 8\] or None", 9),
        ("n_components", r"an int in \[1, 8\] or None", 2.0),
        ("n_components", r"an int in \[1, 8\] or None", "auto"),
        ("k", r"an int in \[1, inf\)", 0),
        ("k", r"an int in \[1, inf\) or None", "5"),
        ("mu", r"a float in \(0.0, inf\)", 0.0),
        ("mu", r"a float in \(0.0, inf\)", "auto"),
        ("margin", r"a float in \(0.0, inf\) or 'auto'", 0.0),
        ("margin", r"a float in \(0.0, inf\) or 'auto'", np.inf),
        ("margin", r"a float in \(0.0, inf\) or 'auto'", "best"),
        ("margin", r"a float in \(0.0, inf\) or 'auto'", None),
        ("constraint", "one of 'projection', 'softmax'", "simplex"),
        ("constraint", "one of 'projection', 'softmax'", None),
        ("normalize", "True or False", 1),
        ("refresh_targets", r"an int in \[1, inf\) or None", 0),
        ("n_neighbors", r"an int in \[1, inf\) or None or 'auto'", 0),
        ("n_neighbors", r"an int in \[1, inf\) or None or 'auto'", "local"),
        ("solver", "'auto', 'projected', 'adaptive', 'bold_driver'.*", "lbfgs"),
        ("solver", "a str among .*'projected'.* or a solver such as .*", "newton"),
        ("init", "one of 'auto', 'groups', 'identity', 'random', a start.*array.*", "pca"),
        ("init", "one of 'auto', 'groups', 'identity', 'random', .*", starts.BinGroups),
        ("init", r"have shape \(3, 8\)", np.ones((8, 3)) / 8),
        ("init", "have columns that sum to one and no negative entry", np.ones((3, 8))),
        ("init", "have columns that sum to one", [[1.5] * 8, [-0.5] * 8, [0] * 8]),
        ("init", "have columns that sum to one", np.full((3, 8), np.nan)),
        ("init", "an array of numbers", [["a"] * 8] * 3),
        ("early_stopping", "True or False", "yes"),
        ("max_iter", r"an int in \[1, inf\) or 'auto'", 0),
        ("tol", r"a float in \[0.0, inf\)", -1.0),
        ("time_budget", r"a float in \(0.0, inf\) or None", 0),
        ("warm_start", "True or False", None),
        ("random_state", r"an int in \[0, 4294967295\], .*", "seed"),
    ],
)
def test_unknown_options_are_named(rows, name, bound, value):
    model = Chi2LMNN(3).set_params(**{name: value})
    what = f"The '{name}' parameter of Chi2LMNN must (be )?{bound}.* Got "
    with pytest.raises((ValueError, TypeError), match=what):
        model.fit(*rows)
    assert not hasattr(model, "components_")


def test_a_wrong_start_is_described(rows):
    with pytest.raises(ValueError, match=r"entry of -0\.5 and a column that sums to 1\.25"):
        Chi2LMNN(2, init=[[1.5] * 8, [-0.5] * 7 + [-0.25]]).fit(*rows)


def test_solvers_that_do_not_project_are_for_the_softmax(rows):
    with pytest.raises(ValueError, match=r"'solver' parameter of Chi2LMNN .* Got LBFGS"):
        Chi2LMNN(3, solver="lbfgs").fit(*rows)
    model = Chi2LMNN(3, solver="lbfgs", constraint="softmax", random_state=0).fit(*rows)
    same = Chi2LMNN(3, constraint="softmax", random_state=0).fit(*rows)
    np.testing.assert_array_equal(model.components_, same.components_)  # "auto"
    assert "ProjectedGradient" in str(Chi2LMNN(3, random_state=0).fit(*rows).plan_)


@each_constraint
@pytest.mark.parametrize("kind", [list, np.float32, np.float64])
def test_a_given_start_is_where_it_starts(rng, rows, constraint, kind):
    L = rng.dirichlet(np.ones(3), 8).T
    given = L.tolist() if kind is list else L.astype(kind)
    model = Chi2LMNN(3, init=given, constraint=constraint, tol=1e9).fit(*rows)
    assert_on_simplex(model.components_)
    np.testing.assert_allclose(model.components_, L, rtol=1e-3, atol=1e-6)


def test_there_are_no_weights(rows):
    with pytest.raises(TypeError, match="sample_weight"):
        Chi2LMNN(3).fit(*rows, sample_weight=np.ones(60))


def test_small_classes_warn(rng):
    X, y = counts(rng)
    keep = np.concatenate([np.flatnonzero(y < 2), np.flatnonzero(y == 2)[:3]])
    names = np.array(["a", "b", "c"])[y[keep]]
    with pytest.warns(UserWarning, match=r"'k' parameter of Chi2LMNN is 4, .*: 'c'") as told:
        model = Chi2LMNN(3, k=4, random_state=0).fit(X[keep], names)
    assert [warning.filename for warning in told] == [__file__]
    assert model.k_ == 4
    names[-2:] = "b"
    with pytest.warns(UserWarning, match="single row to learn from.*: 'c'"):
        model = Chi2LMNN(3, random_state=0).fit(X[keep], names)
    assert np.isfinite(model.components_).all()
    with pytest.warns(UserWarning, match="'k' parameter of Chi2LMNN is 50"):
        assert Chi2LMNN(3, k=50, random_state=0).fit(X, y).k_ == 19


@pytest.mark.filterwarnings("ignore:The map has collapsed")
def test_equal_rows_do_no_harm(rows):
    X, y = rows
    for same in (np.ones_like(X), np.zeros_like(X), np.repeat(X[:3], 20, axis=0)):
        model = Chi2LMNN(3, random_state=0).fit(same, y)
        assert_on_simplex(model.components_)
        assert model.margin_ > 0
        assert np.isfinite(model.predict_proba(same)).all()


# Company


def test_float32_stays_float32(rows):
    X, y = rows
    double = Chi2LMNN(3, random_state=0).fit(X, y)
    single = Chi2LMNN(3, random_state=0).fit(X.astype(np.float32), y)
    assert single.components_.dtype == np.float32
    assert_on_simplex(single.components_, atol=1e-6)
    for rows_32 in (X.astype(np.float32), sp.csr_array(X.astype(np.float32))):
        assert single.transform(rows_32).dtype == np.float32
    pairs = np.stack([X[:-1], X[1:]], axis=1).astype(np.float32)
    assert single.pair_distance(pairs).dtype == np.float32
    assert single.loss_ == pytest.approx(double.loss_, rel=1e-2)


@unfinished
def test_travels_in_float32_and_arrives_in_float64(rows, monkeypatch):
    straight = Chi2LMNN(3, tol=1e-4, random_state=0).fit(*rows)
    monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 50)
    seen = []

    watched = hooked(Chi2LMNN, lambda Z, kwargs: seen.append(Z.dtype))
    model = watched(3, tol=1e-4, random_state=0).fit(*rows)
    assert np.float32 in seen
    assert seen[-1] == np.float64
    assert_on_simplex(model.components_)
    assert model.loss_ == pytest.approx(straight.loss_, rel=0.05)


@unfinished
def test_many_rows_begin_with_few(rng, monkeypatch):
    monkeypatch.setattr("vicinal.estimators._margins._COARSE_FROM", 100)
    monkeypatch.setattr("vicinal.estimators._margins._COARSE_ROWS", 60)
    X, y = counts(rng, 240)
    for constraint in ("projection", "softmax"):
        model = Chi2LMNN(3, constraint=constraint, max_iter=10, random_state=0).fit(X, y)
        assert_on_simplex(model.components_)
        again = clone(model).fit(X, y)
        np.testing.assert_array_equal(again.components_, model.components_)


@unfinished
@each_constraint
@pytest.mark.parametrize("refresh_targets", [None, 2])
def test_warm_start_on_other_rows_goes_on_from_the_last_map(rng, constraint, refresh_targets):
    X, y = counts(rng, 90)
    settings = {"constraint": constraint, "refresh_targets": refresh_targets, "margin": 0.05}
    model = Chi2LMNN(3, warm_start=True, max_iter=30, random_state=0, **settings).fit(X, y)
    cold = Chi2LMNN(3, max_iter=1, random_state=0, **settings).fit(X[:60], y[:60])
    first = len(model.history_["loss"])
    model.set_params(max_iter=4).fit(X[:60], y[:60])
    assert model.history_["loss"][first] < 0.9 * cold.history_["loss"][0]
    assert len(model._model.Z) == 60
    assert_on_simplex(model.components_)


@unfinished
@each_constraint
def test_warm_start_from_another_precision(rows, constraint):
    X, y = rows
    single = Chi2LMNN(3, constraint=constraint, warm_start=True, random_state=0)
    single.fit(X.astype(np.float32), y)
    last = single.components_.copy()
    single._resume = None  # as a pickle of another release might have it
    single.set_params(tol=1e9).fit(X, y)
    assert single.components_.dtype == np.float64
    assert_on_simplex(single.components_)
    np.testing.assert_allclose(single.components_, last, atol=1e-4)


@unfinished
def test_early_stopping_restores_the_best_and_refers_to_all_rows(rng):
    X, y = counts(rng, 240, 12)
    settings = {
        "early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 3, "tol": 0.0,
        "random_state": 0,
    }  # fmt: skip
    model = Chi2LMNN(5, max_iter=100, **settings).fit(X, y)
    scores = model.history_["validation_score"]
    assert np.isfinite(scores).all()
    assert len(model._model.Z) == 240  # all rows classify
    assert model.n_iter_ < 100
    best = int(np.argmax(scores))
    stopped = Chi2LMNN(5, max_iter=max(best, 1), **settings).fit(X, y)
    np.testing.assert_array_equal(stopped.components_, model.components_)


def test_rows_can_be_drawn(rows):
    pytest.importorskip("matplotlib")
    X, y = rows
    Z = Chi2LMNN(2, random_state=0).fit_transform(X, y)
    axes = plotting.scatter(Z, y)
    drawn = np.concatenate([np.asarray(part.get_offsets()) for part in axes.collections])
    assert len(drawn) == 60
