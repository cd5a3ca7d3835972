"""FromLabels: learners of pairs and quadruplets, fitted from class labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from vicinal import ITML, LSML, MMC, NCA, SDML, FromLabels, PairNCA
from vicinal.targets import pairs_from_labels, quadruplets_from_labels


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


PAIRS = [ITML(), MMC(), SDML(), PairNCA(2, alpha=0.1, random_state=0)]


@pytest.mark.parametrize("learner", PAIRS, ids=lambda e: type(e).__name__)
def test_equals_the_learner_on_pairs_drawn_from_the_labels(learner, wine):
    X, y = wine
    pairs, labels = pairs_from_labels(y, 50, random_state=7)
    by_hand = clone(learner).fit(X[pairs], labels)
    model = FromLabels(learner, 50, random_state=7).fit(X, y)
    np.testing.assert_array_equal(model.components_, by_hand.components_)
    np.testing.assert_array_equal(model.constraints_, pairs)
    assert model.learner_.threshold_ == by_hand.threshold_
    np.testing.assert_array_equal(model.pair_distance(X[pairs]), by_hand.pair_distance(X[pairs]))
    assert not hasattr(learner, "components_")  # a clone was fitted


def test_equals_the_learner_on_quadruplets_drawn_from_the_labels(wine):
    X, y = wine
    quadruplets = quadruplets_from_labels(y, 50, random_state=7)
    by_hand = LSML().fit(X[quadruplets])
    model = FromLabels(LSML(), 50, random_state=7).fit(X, y)
    np.testing.assert_array_equal(model.components_, by_hand.components_)


def test_learns_a_metric_in_which_neighbours_are_alike(wine):
    X, y = wine
    rough = X * np.r_[1e4, np.ones(12)]  # one column dominates all distances
    model = make_pipeline(FromLabels(ITML(), random_state=0), KNeighborsClassifier(3))
    assert model.fit(rough[::2], y[::2]).score(rough[1::2], y[1::2]) > 0.93
    assert KNeighborsClassifier(3).fit(rough[::2], y[::2]).score(rough[1::2], y[1::2]) < 0.75


def test_parameters_of_the_learner_can_be_searched(wine):
    X, y = wine
    model = FromLabels(ITML(2.0), random_state=0)
    assert model.get_params()["learner__gamma"] == 2.0
    search = GridSearchCV(
        make_pipeline(model, KNeighborsClassifier(3)),
        {"fromlabels__learner__gamma": [0.1, 1.0], "fromlabels__n_constraints": [30, 100]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.9
    best = search.best_estimator_[0]
    assert best.learner_.gamma == best.learner.gamma
    assert best.learner is not model.learner


def test_a_learner_without_a_seed_gets_one(wine):
    X, y = wine
    learner = ITML(prior="random")
    a, b, c = (FromLabels(learner, random_state=s).fit(X, y).components_ for s in (0, 0, 1))
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)
    seeded = FromLabels(ITML(prior="random", random_state=5), random_state=0).fit(X, y)
    assert seeded.learner_.random_state == 5


def test_names_frames_and_sparse_rows(wine):
    pd = pytest.importorskip("pandas")
    X, y = wine
    frame = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    model = FromLabels(LSML(), random_state=0).set_output(transform="pandas").fit(frame, y)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert list(model.transform(frame).columns) == [f"fromlabels{j}" for j in range(13)]
    sparse = FromLabels(LSML(), random_state=0).fit(sp.csr_matrix(X), y)
    np.testing.assert_array_equal(sparse.components_, model.components_)
    np.testing.assert_allclose(sparse.transform(sp.csr_matrix(X)), model.transform(frame))


def test_labels_of_any_kind(wine):
    X, y = wine
    first = FromLabels(ITML(), random_state=0).fit(X, y)
    other = FromLabels(ITML(), random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    np.testing.assert_array_equal(first.components_, other.components_)
    assert other.classes_.tolist() == ["a", "b", "c"]
    # −1 is a class like any other
    assert -1 in FromLabels(ITML(), random_state=0).fit(X, y - 1).classes_


@pytest.mark.parametrize("learner", [ITML(), LSML()], ids=lambda e: type(e).__name__)
def test_rows_without_a_label_are_left_out(wine, learner):
    X, y = wine
    some = np.where(np.arange(len(y)) % 3, y, -1)
    model = FromLabels(learner, 40, random_state=0, unlabeled=-1).fit(X, some)
    assert model.classes_.tolist() == [0, 1, 2]
    assert (some[model.constraints_] >= 0).all()
    alone = FromLabels(learner, 40, random_state=0).fit(X[some >= 0], some[some >= 0])
    np.testing.assert_array_equal(model.components_, alone.components_)


def test_what_cannot_be_fitted_is_refused(wine):
    X, y = wine
    for bad in (NCA(), ITML, None, "itml"):
        with pytest.raises(ValueError, match="'learner' parameter of FromLabels must be an estima"):
            FromLabels(bad).fit(X, y)
    with pytest.raises(ValueError, match="'n_constraints' parameter of FromLabels must be an int"):
        FromLabels(ITML(), 0).fit(X, y)
    with pytest.raises(ValueError, match=r"at least 2 classes.*Got 1 instead"):
        FromLabels(ITML()).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="class of at least 2 rows"):
        FromLabels(ITML()).fit(X, np.arange(len(X)))
    with pytest.raises(ValueError, match="requires y to be passed"):
        FromLabels(ITML()).fit(X, None)
    model = FromLabels(ITML(), random_state=0).fit(X, y)
    before = model.learner_
    with pytest.raises(ValueError, match="'gamma' parameter of ITML"):
        model.set_params(learner__gamma=-1).fit(X, y)
    assert model.learner_ is before
