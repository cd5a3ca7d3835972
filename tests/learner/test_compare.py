"""compare_methods: the same folds for all, preparation inside them, honest errors."""

import json
import math

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
from vicinal.learner.targets import target_kind
from vicinal.model_selection import compare_methods

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
    """The scores are those of the estimator under scikit-learn's cross-validation."""
    X, y = wine
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = make_learner(X, y, NCA(2, alpha=0.01, max_iter=5, random_state=0))
    np.testing.assert_array_equal(found["quick"].own_scores, cross_val_score(model, X, y, cv=folds))
    voting = make_pipeline(model, KNeighborsClassifier(5))
    np.testing.assert_array_equal(found["quick"].scores, cross_val_score(voting, X, y, cv=folds))


def test_errors_are_corrected_for_overlapping_training_rows(found):
    scores = found["lda"].scores
    assert len(scores) == 6
    gain = scores - found["euclidean"].scores
    factor = math.sqrt(1 / 6 + 1 / 2)  # a third is held out: n_test / n_train is a half
    assert found["lda"].error == pytest.approx(factor * scores.std(ddof=1), rel=0.01)
    assert found["lda"].difference == pytest.approx(gain.mean())
    assert found["lda"].difference_error == pytest.approx(factor * gain.std(ddof=1), rel=0.01)
    assert found["euclidean"].difference is None


def test_how_it_is_shown(found):
    lines = str(found).splitlines()
    assert lines[0].split() == ["method", "accuracy", "difference", "own", "rule", "dim", "seconds"]
    assert [line.split()[0] for line in lines[1:5]] == ["euclidean", "pca", "lda", "quick"]
    assert "6 folds, 5 nearest neighbours" in lines[-1]
    assert found["pca"].n_components == 2
    told = json.loads(json.dumps(found.to_dict()))
    assert told["results"][2]["mean"] == found["lda"].mean
    frame = found.to_frame()
    assert frame.loc["lda", "own_mean"] == found["lda"].own_mean
    with pytest.raises(KeyError, match="knca"):
        found["knca"]


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
    with pytest.raises(ValueError, match="'row' looks like row numbers"):
        compare_methods(X, y)


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
    assert math.isnan(found["slow"].error)
    assert found.to_dict()["results"][1]["error"] is None


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
