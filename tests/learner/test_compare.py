"""compare_methods: the same folds for all, preparation inside them, honest errors."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import LMNN, NCA, make_learner
from vicinal.learner.errors import TableNote
from vicinal.learner.targets import target_kind
from vicinal.model_selection import compare_methods
from vicinal.model_selection._comparison import corrected_error

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X[::2], y[::2].map({0: "a", 1: "b", 2: "c"})


@pytest.fixture(scope="module")
def found(wine):
    methods = ["euclidean", "pca", "lda", ("quick", NCA(2, alpha=0.01, max_iter=5, random_state=0))]
    return compare_methods(*wine, methods, n_components=2, cv=3, repeats=2)


def test_euclidean_is_what_scikit_learn_computes(wine, found):
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = make_pipeline(StandardScaler(), KNeighborsClassifier(5))
    scores = cross_val_score(model, *wine, cv=folds)
    np.testing.assert_array_equal(found["euclidean"].scores, scores)


def test_a_method_is_fitted_to_the_training_rows_alone(wine, found):
    """The scores are those of `predict` under scikit-learn's cross-validation."""
    X, y = wine
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = make_learner(X, y, NCA(2, alpha=0.01, max_iter=5, random_state=0))
    quick = found["quick"]
    np.testing.assert_array_equal(quick.scores, cross_val_score(model, X, y, cv=folds))
    voting = make_pipeline(model, KNeighborsClassifier(5))
    np.testing.assert_array_equal(quick.knn_scores, cross_val_score(voting, X, y, cv=folds))
    loss = -cross_val_score(model, X, y, cv=folds, scoring="neg_log_loss").mean()
    assert quick.measures["log loss"][0] == pytest.approx(loss, rel=0.02)  # some are cut at 1 / 61
    recalls = list(quick.recalls.values())
    assert quick.measures["balanced accuracy"][0] == pytest.approx(np.mean(recalls), abs=0.01)
    right = quick.predictions.codes == np.unique(y, return_inverse=True)[1]
    assert right.mean() == pytest.approx(quick.scores[3:].mean(), abs=0.01)  # of the last repeat


def test_errors_are_corrected_for_overlapping_training_rows(found):
    lda, quick = found["lda"], found["quick"]
    assert len(lda.scores) == 6
    factor = math.sqrt(1 / 6 + 1 / 2)  # a third is held out: n_test / n_train is a half
    assert found["euclidean"].error >= factor * found["euclidean"].scores.std(ddof=1) * 0.99
    best = found[found.best_rival]
    gain = quick.scores - best.scores
    assert quick.difference == pytest.approx(gain.mean())
    assert quick.difference_error >= factor * gain.std(ddof=1) * 0.99
    assert lda.difference is lda.verdict is None
    between, within = np.array([0.0, 1.0] * 10), np.array([0.0] * 10 + [1.0] * 10)
    assert corrected_error([within[:10], within[10:]], 1.0) == pytest.approx(math.sqrt(1.5 * 0.5))
    assert corrected_error([between, between], 1.0) == pytest.approx(math.sqrt(1.5 * 0.25 / 20))
    assert corrected_error([between], 0.25) == pytest.approx(math.sqrt(1.25 * 0.25 / 20))
    assert corrected_error([np.ones(20)], 0.25, (0.0, 1.0)) > 0.01  # all right, yet not for sure


def test_how_it_is_shown(found):
    lines = str(found).splitlines()
    assert lines[0].split() == [
        "method", "accuracy", "balanced", "log", "loss", "5-NN", "vs", found.best_rival, "dim",
        "seconds",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:5]] == ["euclidean", "pca", "lda", "quick"]
    assert "no clear difference from the best rival" in str(found)
    assert "within two standard errors" in str(found)
    assert "6 folds" in lines[-1]
    assert found["pca"].n_components == 2
    told = json.loads(json.dumps(found.to_dict()))
    assert told["results"][2]["mean"] == found["lda"].mean
    assert told["results"][3]["verdict"] == "level"
    frame = found.to_frame()
    assert frame.loc["lda", "balanced accuracy"] == found["lda"].measures["balanced accuracy"][0]
    with pytest.raises(KeyError, match="knca"):
        found["knca"]


def test_the_usual_rivals_are_compared_with(wine):
    X, y = wine
    found = compare_methods(X, y, cv=2, time_budget=60)
    rivals = [one.name for one in found.results if one.rival]
    assert rivals == ["majority", "euclidean", "pca", "lda", "logistic", "forest", "boosting"]
    assert found["majority"].mean == pytest.approx(np.mean(y == "b"), abs=0.02)
    assert found.best_rival == max(rivals, key=lambda name: found[name].mean)
    assert found["vote"].difference == pytest.approx(
        found["vote"].mean - found[found.best_rival].mean
    )


def test_rare_classes_are_cross_validated(wine):
    """Classes of one and of three rows: five folds, and no word of scikit-learn."""
    X, y = wine
    keep = np.r_[np.flatnonzero(y != "c"), np.flatnonzero(y == "c")[:3]]
    X, y = X.iloc[keep], y.iloc[keep].to_numpy(object)
    y[0] = "once"
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = compare_methods(X, y, ["majority", "euclidean", "lda", "forest"])
    assert found.n_folds == 5
    assert found["euclidean"].recalls["once"] == 0.0
    assert found.uneven
    few = compare_methods(X[:4], ["a", "a", "a", "b"], ["majority", "euclidean"])
    assert few.n_folds == 3
    assert "folds were left out" in " ".join(few.notes)
    with pytest.raises(ValueError, match="One of the two classes has a single row"):
        compare_methods(X[:2], ["a", "b"], ["euclidean"])


def test_uneven_classes_are_told_with_what_would_help(rng):
    y = np.where(rng.random(300) < 0.15, "rare", "common")
    X = rng.normal(size=(300, 3)) + 1.2 * (y == "rare")[:, None]
    options = dict(alpha=0.01, max_iter=5, tol=None, random_state=0)
    methods = [
        "majority",
        ("plain", NCA(2, **options)),
        ("fair", NCA(2, priors="uniform", **options)),
    ]
    found = compare_methods(X, y, methods, cv=3)
    plain, fair = (found[name].measures["balanced accuracy"][0] for name in ("plain", "fair"))
    assert fair > plain + 0.05
    assert found["plain"].even[1] == pytest.approx(fair, abs=0.05)
    assert found["fair"].even is None
    (note,) = found.notes
    assert "plain: priors='uniform' would weigh all classes alike" in note
    assert "plain, recall by class: rare " in str(found)


def test_rivals_that_cannot_learn_are_left_out_and_large_tables_are_sampled(rng, monkeypatch):
    X, y = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    for module in ("_baselines", "_rivals", "_compare"):
        monkeypatch.setattr(f"vicinal.model_selection.{module}.MOST_ROWS", 20)
    found = compare_methods(X, y, ["pca", "logistic", "euclidean"], n_components=7, cv=2)
    assert [one.name for one in found.results] == ["logistic", "euclidean"]
    assert found.notes == [
        "pca was left out: it cannot learn from these rows.",
        "logistic learnt from 20 of 30 training rows.",
    ]


def test_the_seed_decides_all(wine):
    X, y = wine
    method = [("quick", NCA(2, alpha=0.01, max_iter=3, random_state=0))]
    first, again, other = (
        compare_methods(X, y, method, cv=2, random_state=seed)["quick"].scores for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_numbers_give_r2():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150], y[:150]
    assert target_kind(y) == "numbers"
    found = compare_methods(X, y, ["euclidean", "covariance"], cv=3)
    assert found.score_name == "R²"
    assert 0 < found["euclidean"].mean < 1
    assert 30 < found["euclidean"].measures["mean absolute error"][0] < 80
    with pytest.raises(
        ValueError, match=r"'nca' learns from classes, but y holds numbers. Use 'mlk"
    ):
        compare_methods(X, y, ["euclidean", "nca"])
    assert target_kind(["a", "b"]) == target_kind([0.0, 1.0]) == target_kind(pd.Series([1, 2]))


def test_mixed_tables(wine):
    X, y = wine
    X = X.assign(origin=np.where(X["alcohol"] > 13, "north", "south"), row=range(len(X)))
    found = compare_methods(X, y, ["euclidean", "rca"], cv=3, drop=["row"])
    assert found["rca"].n_components == 13 + 2
    with pytest.warns(TableNote, match="'row': left out, row numbers"):
        assert compare_methods(X, y, ["rca"], cv=3)["rca"].n_components == 13 + 2
    with pytest.raises(ValueError, match="'row' looks like row numbers"):
        compare_methods(X, y, strict=True)


def test_time_and_progress(wine):
    X, y = wine
    told = []
    methods = ["euclidean", ("slow", LMNN(2))]
    found = compare_methods(
        X, y, methods, cv=5, time_budget=1e-3, progress=lambda *a: told.append(a)
    )
    assert told == [(0, 10, "euclidean"), (1, 10, "slow")]  # the first fold is always done
    assert not found.complete
    assert "Time ran out after 1 of 5 folds" in found.note
    assert found["slow"].error > 0  # of the rows of the one fold


def test_warnings_of_the_folds_come_once(wine):
    method = [("hasty", NCA(2, alpha=0.01, max_iter=1))]
    with pytest.warns(UserWarning, match=r"hasty: NCA did not converge.*and 2 more") as caught:
        found = compare_methods(*wine, method, cv=3)
    assert len(caught) == 1
    assert len(found["hasty"].warnings) == 1


def test_parameters_are_checked(wine):
    for options, message in (
        ({"cv": 1}, r"'cv' parameter of compare_methods must be an int in \[2, inf\). Got 1"),
        ({"repeats": 0}, "'repeats' parameter"),
        ({"cv": StratifiedKFold(3), "repeats": 2}, "must be 1 if 'cv' is not an int"),
        ({"n_neighbors": 2.5}, "'n_neighbors' parameter"),
        ({"time_budget": 0}, "'time_budget' parameter"),
        ({"target": "ranks"}, "'target' parameter"),
        ({"methods": ["pca", "pca"]}, "different names. 'pca' is there twice"),
        ({"methods": ["ncaa"]}, "Did you mean 'nca'"),
    ):
        with pytest.raises(ValueError, match=message):
            compare_methods(*wine, **options)
    X, y = wine
    with pytest.raises(ValueError, match="Method 'pca': n_components=99 must be"):
        compare_methods(X, y, ["pca"], n_components=99)
    with pytest.raises(ValueError, match="at least 2 classes"):
        compare_methods(X, ["a"] * len(X))
    sparse = compare_methods(sp.csr_array(X.to_numpy()), y, ["euclidean", "pca"], cv=2)
    assert sparse["pca"].n_components == 12
    with pytest.raises(TypeError, match="names and pairs of a name and an estimator"):
        compare_methods(*wine, [NCA()])
