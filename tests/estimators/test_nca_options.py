"""NCA's options: scaling, early stopping, priors, weights, warm starts, the same bits again."""

from __future__ import annotations

import warnings

import formulas
import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from vicinal import NCA, starts
from vicinal.datasets import make_rings

KEYS = ["iteration", "loss", "grad_norm", "validation_score", "seconds", "n_evaluations",
        "share_of_pairs"]  # fmt: skip
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


def same_history(one, other, but=("seconds",)):
    for key in KEYS:
        if key not in but:
            np.testing.assert_array_equal(one.history_[key], other.history_[key], err_msg=key)


# Scaling


@pytest.mark.parametrize("scaling", ["standard", "global", None])
def test_scaling_is_folded_into_the_map(wine, scaling):
    X, y = wine
    model = NCA(2, scaling=scaling, alpha=0.01).fit(X, y)
    scale = {"standard": X.std(axis=0), "global": np.sqrt(X.var(axis=0).mean()), None: 1.0}[scaling]
    value, _ = formulas.nca(model.transform(X - X.mean(axis=0)), y, "log")
    penalty = 0.01 * np.sum((model.components_ * scale) ** 2)
    assert model.loss_ == pytest.approx(value + penalty, rel=1e-8)


def test_columns_of_any_size_give_the_same_answers(wine):
    X, y = wine
    units = 10.0 ** np.linspace(-8, 8, 13)
    plain, hard = NCA(2, alpha=3e-3).fit(X, y), NCA(2, alpha=3e-3).fit(X * units + 3 * units, y)
    np.testing.assert_allclose(hard.components_ * units, plain.components_, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(hard.predict_proba(X * units + 3 * units), plain.predict_proba(X),
                               atol=1e-4)  # fmt: skip
    assert hard.loss_ == pytest.approx(plain.loss_, rel=1e-6)


@unfinished
@pytest.mark.parametrize("scaling", ["standard", "global", None])
@pytest.mark.parametrize("mapping", ["linear", "diagonal"])
def test_columns_without_variance_get_no_weight(wine, mapping, scaling):
    X, y = wine
    wide = np.insert(X, [0, 5, 13], [7.0, 0.0, 1e6], axis=1)
    model = NCA(mapping=mapping, scaling=scaling, max_iter=10, tol=0.0, alpha=3e-3).fit(wide, y)
    np.testing.assert_array_equal(model.components_[:, [0, 6, 15]], 0.0)
    without = NCA(mapping=mapping, scaling=scaling, max_iter=10, tol=0.0, alpha=3e-3).fit(X, y)
    assert model.loss_ == pytest.approx(without.loss_, rel=1e-3)
    np.testing.assert_allclose(model.predict_proba(wide), without.predict_proba(X), atol=0.01)


@unfinished
@pytest.mark.parametrize("far", [1e2, 1e5, 1e9])
def test_far_outliers_leave_everything_finite(wine, far):
    X, y = wine
    X = np.vstack([X, X[:2] * far])
    y = np.append(y, y[:2])
    for scaling, init in (("standard", "auto"), ("global", "pca"), (None, "identity")):
        for alpha in (0.0, 3e-3):
            model = NCA(2, scaling=scaling, init=init, alpha=alpha, max_iter=50).fit(X, y)
            assert np.isfinite(model.components_).all()
            assert np.isfinite(model.predict_proba(X)).all()
            assert np.isfinite(model.history_["loss"]).all()
            assert np.isfinite(model.effective_n_neighbors()).all()


def test_outliers_do_no_harm(wine):
    # Up to some dozen deviations; beyond, the deviation is the outlier's own, and the penalty keeps
    # the map from growing to the size of the others.
    X, y = wine
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    X_train = np.vstack([X_train, X_train[:2] * 20])
    y_train = np.append(y_train, y_train[:2])
    assert NCA(2, alpha=3e-3).fit(X_train, y_train).score(X_test, y_test) > 0.9


def test_float32_with_a_large_offset_keeps_its_digits(wine):
    X, y = wine
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    near, far = NCA(2, alpha=3e-3).fit(X, y), NCA(2, alpha=3e-3).fit(X + np.float32(4096), y)
    assert far.score(X + np.float32(4096), y) == pytest.approx(near.score(X, y), abs=0.01)
    P = far.predict_proba(X + np.float32(4096))
    np.testing.assert_allclose(P, near.predict_proba(X), atol=0.02)


# Early stopping


@unfinished
def test_early_stopping_restores_the_best_and_refers_to_all_rows(digits):
    X, y = digits
    settings = {"early_stopping": True, "validation_fraction": 0.3, "init": "pca",
                "random_state": 1}  # fmt: skip
    model = NCA(2, n_iter_no_change=3, alpha=0.0, **settings).fit(X, y)
    scores = np.array(model.history_["validation_score"])
    assert np.isfinite(scores).all()
    assert scores.argmax() < len(scores) - 1  # it went on past the best, and came back
    assert len(scores) - 1 - scores.argmax() == 3
    stopped = NCA(2, max_iter=int(scores.argmax()), alpha=0.0, **settings).fit(X, y)
    np.testing.assert_array_equal(model.components_, stopped.components_)
    P = formulas.posterior(model.transform(X[:9]), model.transform(X), y)
    np.testing.assert_allclose(model.predict_proba(X[:9]), P, rtol=1e-6, atol=1e-12)
    assert len(model.effective_n_neighbors()) == len(y)


@unfinished
@pytest.mark.parametrize("init", ["auto", "lda", "rca", "random"])
def test_held_out_rows_have_no_say_in_the_start(digits, init):
    X, y = digits
    # Labels without meaning: a start that has seen those of the held-out rows scores far better.
    y = np.random.RandomState(0).permutation(y)
    model = NCA(8, init=init, early_stopping=True, validation_fraction=0.5, max_iter=1,
                random_state=0, alpha=3e-3).fit(X, y)  # fmt: skip
    assert model.history_["validation_score"][0] < -2.25  # guessing has -log(10) = -2.30


@unfinished
def test_held_out_score_is_that_of_held_out_rows_against_training_rows(digits):
    from vicinal.core.seeds import rng_for
    from vicinal.fit.plan import hold_out
    from vicinal.fit.resume import seed_of

    X, y = digits
    model = NCA(2, early_stopping=True, validation_fraction=0.2, init="pca", random_state=5,
                max_iter=1, scaling=None, alpha=3e-3).fit(X, y)  # fmt: skip
    train, held_out = hold_out(y, 0.2, rng_for(seed_of(NCA(random_state=5)), "held out"))
    assert len(held_out) == 60
    Z = model.transform(X)
    value, _ = formulas.nca(Z, y, "log", queries=held_out, references=train)
    assert max(model.history_["validation_score"]) == pytest.approx(-value, rel=1e-8)
    loss, _ = formulas.nca(Z, y, "log", queries=train, references=train)
    penalty = model.alpha * np.sum(model.components_**2)
    assert model.loss_ == pytest.approx(loss + penalty, rel=1e-8)


def test_early_stopping_leaves_tiny_classes_alone(rng):
    y = np.repeat([0, 1, 2, 3], [40, 2, 1, 20])
    X = rng.normal(size=(63, 3)) + y[:, None]
    with pytest.warns(UserWarning, match="no other row of their class to pick.*: 2"):
        model = NCA(early_stopping=True, random_state=0, alpha=3e-3).fit(X, y)
    assert np.isfinite(model.history_["validation_score"]).all()
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3])


# Priors and weights


def test_priors_move_the_odds(wine):
    X, y = wine
    empirical = NCA(2, priors=np.bincount(y) / len(y), alpha=0.05).fit(X, y)
    plain = NCA(2, alpha=0.05).fit(X, y)
    np.testing.assert_allclose(empirical.predict_proba(X), plain.predict_proba(X), atol=0.05)
    tilted = NCA(2, priors=[0.98, 0.01, 0.01], alpha=0.05).fit(X, y)
    assert tilted.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.01
    uniform, thirds = (NCA(2, priors=p, alpha=3e-3).fit(X, y) for p in ("uniform", [5, 5, 5]))
    np.testing.assert_array_equal(uniform.components_, thirds.components_)


@pytest.mark.parametrize("mapping", ["linear", "diagonal"])
def test_rows_of_weight_zero_are_not_there(wine, mapping):
    X, y = wine
    weight = np.where(np.arange(len(y)) % 3, 0.5 + np.arange(len(y)) % 2, 0.0)
    kept = weight > 0
    zero = NCA(mapping=mapping, random_state=0, alpha=3e-3).fit(X, y, sample_weight=weight)
    removed = NCA(mapping=mapping, random_state=0, alpha=3e-3).fit(X[kept], y[kept], weight[kept])
    np.testing.assert_array_equal(zero.components_, removed.components_)
    np.testing.assert_array_equal(zero.predict_proba(X), removed.predict_proba(X))
    assert len(zero.effective_n_neighbors()) == kept.sum()


def test_only_the_proportion_of_weights_matters(wine):
    X, y = wine
    weight = 0.2 + np.arange(len(y)) % 5
    one, same = NCA(2, alpha=3e-3).fit(X, y, weight), NCA(2, alpha=3e-3).fit(X, y, 1024 * weight)
    np.testing.assert_allclose(one.components_, same.components_, rtol=1e-9)
    ones = NCA(2, alpha=3e-3).fit(X, y, np.ones(len(y)))
    np.testing.assert_allclose(
        ones.components_, NCA(2, alpha=3e-3).fit(X, y).components_, rtol=1e-6
    )
    assert np.abs(one.components_ - ones.components_).max() > 1e-3 * np.abs(ones.components_).max()


@pytest.mark.parametrize("objective", ["log", "accuracy"])
def test_weighted_objective_is_the_formula(wine, objective):
    X, y = wine
    weight = 0.2 + np.arange(len(y)) % 5
    model = NCA(2, objective=objective, alpha=0.0, max_iter=30, tol=1e-3).fit(X, y, weight)
    Z = model.transform(X - X.mean(axis=0))
    value, _ = formulas.nca(Z, y, objective, sample_weight=weight)
    assert model.loss_ == pytest.approx(value, rel=1e-8)
    expected = formulas.effective_n_neighbors(Z, weight)
    np.testing.assert_allclose(model.effective_n_neighbors(), expected, rtol=1e-6)


# The record of a fit


def test_history_is_a_table(wine):
    model = NCA(2, alpha=3e-3).fit(*wine)
    assert list(model.history_) == KEYS
    assert {len(column) for column in model.history_.values()} == {model.n_iter_ + 1}
    assert model.history_["iteration"] == list(range(model.n_iter_ + 1))
    assert model.history_["loss"][-1] == pytest.approx(model.loss_, rel=1e-12)
    assert np.isnan(model.history_["validation_score"]).all()
    assert np.all(np.diff(model.history_["seconds"]) >= 0)
    assert np.all(np.diff(model.history_["n_evaluations"]) >= 1)


def test_a_fit_that_is_at_rest_has_made_one_iteration(wine):
    model = NCA(2, tol=1e9, alpha=3e-3).fit(*wine)
    assert model.n_iter_ == 1


# Warm starts


@unfinished
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"solver": "cg", "objective": "accuracy"},
        {"solver": "momentum", "mapping": "diagonal"},
        {"solver": "adam", "early_stopping": True, "random_state": 4, "n_iter_no_change": 50},
    ],
)
@pytest.mark.parametrize("single", [False, True])
def test_two_warm_fits_equal_one_long_fit(digits, settings, single, monkeypatch):
    if single:
        monkeypatch.setattr("vicinal.fit.plan.SINGLE_FROM", 100)
    settings = {"n_components": None, "tol": 0.0, **settings}
    long = NCA(max_iter=20, alpha=3e-3, **settings).fit(*digits)
    warm = NCA(max_iter=10, warm_start=True, alpha=3e-3, **settings).fit(*digits)
    assert warm.n_iter_ == 10
    warm.fit(*digits)
    # The loss at the seam is evaluated again: whether the data are the same is not known before.
    same_history(long, warm, but=("seconds", "n_evaluations"))
    np.testing.assert_array_equal(warm.components_, long.components_)
    assert warm.history_["n_evaluations"][-1] == long.history_["n_evaluations"][-1] + 1
    assert long._resume is None  # nothing is kept that no later fit will use


@unfinished
def test_warm_start_on_other_data_begins_at_the_last_map(wine):
    X, y = wine
    model = NCA(2, warm_start=True, alpha=3e-3).fit(X, y)
    A = model.components_
    model.set_params(max_iter=1).fit(X[::2] * 2, y[::2])
    start, _ = formulas.nca(X[::2] * 2 @ A.T, y[::2], "log")
    penalty = model.alpha * np.sum((A * 2 * X[::2].std(axis=0)) ** 2)
    assert model.history_["loss"][0] == pytest.approx(start + penalty, rel=1e-8)


@unfinished
def test_warm_start_with_another_shape_begins_anew(wine):
    X, y = wine
    model = NCA(1, warm_start=True, random_state=0, alpha=3e-3).fit(X, y)
    for change in ({"n_components": 3}, {"n_components": None, "mapping": "diagonal"},
                   {"n_components": 1, "mapping": "linear"}):  # fmt: skip
        model.set_params(**change).fit(X, y)
        fresh = NCA(random_state=0, alpha=3e-3, **change).fit(X, y)
        np.testing.assert_array_equal(model.components_, fresh.components_)
        same_history(model, fresh)
    model.fit(X[:, :6], y)
    np.testing.assert_array_equal(
        model.components_, NCA(1, random_state=0, alpha=3e-3).fit(X[:, :6], y).components_
    )


@unfinished
def test_warm_start_follows_the_best_of_the_restarts(wine):
    settings = {"init": starts.Random(3), "random_state": 0, "tol": 0.0}
    model = NCA(2, warm_start=True, max_iter=5, alpha=3e-3, **settings).fit(*wine)
    best = model.loss_
    model.fit(*wine)
    assert model.history_["loss"][5] == best >= model.loss_
    assert model.history_["iteration"][-1] == 10


# The same again


@pytest.mark.parametrize("init", ["auto", "pca", "random"])
def test_the_log_objective_chooses_the_scale_of_a_start(wine, init):
    X, y = wine
    # a tolerance that no step can fail: the start itself
    log, accuracy = (
        NCA(2, objective=objective, init=init, alpha=0.0, tol=1e300, random_state=0).fit(X, y)
        for objective in ("log", "accuracy")
    )
    np.testing.assert_array_equal(log.components_, accuracy.components_)
    # the accuracy's own choice would consult next to nobody
    assert accuracy.effective_n_neighbors().mean() > 5


def test_the_accuracy_finds_the_plane_of_the_rings():
    found = 0
    for draw in range(4):
        X, y = make_rings(300, random_state=draw)
        A = NCA(2, objective="accuracy", alpha=0.0, random_state=draw).fit(X, y).components_
        found += np.linalg.norm(A[:, 2]) < 0.1 * np.linalg.norm(A)
    assert found >= 3


def test_a_wide_gap_between_training_and_held_out_rows_is_told(capsys):
    """In accuracies, and only if rows were held out."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 60)), np.arange(300) % 2
    X[:, 0] += y
    settings = {"alpha": 0.0, "init": "identity", "random_state": 2, "verbose": 1}
    with pytest.warns(UserWarning, match=r"NCA over-fits: \d.*increase 'alpha' or decrease 'n_c"):
        NCA(early_stopping=True, validation_fraction=0.3, **settings).fit(X, y)
    assert "of the held-out rows are classified rightly" in capsys.readouterr().out
    X[:, 0] += 10 * y
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        NCA(2, early_stopping=True, **{**settings, "alpha": 0.1}).fit(X, y)
        assert "100.0 % of the training rows and 100.0 %" in capsys.readouterr().out
        NCA(2, **settings).fit(X, y)
        assert "classified rightly" not in capsys.readouterr().out
        searched = NCA(2, **{**settings, "alpha": "auto", "cv": 2, "max_iter": 5}).fit(X, y)
    told = f"and {100 * searched.cv_results_['mean_test_score'].max():.1f} % of the held-out rows"
    assert told in capsys.readouterr().out
