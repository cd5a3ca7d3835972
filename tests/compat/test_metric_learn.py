"""metric-learn's classes here: its signatures, keywords, methods, and comparable metrics."""

from __future__ import annotations

import inspect
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import vicinal
from vicinal.compat import metric_learn as ml

STORED = json.loads(
    Path(__file__).parents[1].joinpath("data").joinpath("metric_learn_facts.json").read_text()
)
DATA = {key: np.array(value) for key, value in STORED["data"].items()}
PAIRS = ("ITML", "MMC", "SDML")
ROWS = [name for name in ml.__all__ if name not in (*PAIRS, "LSML")]
each_class = pytest.mark.parametrize("name", ml.__all__)


def told(name):
    """The arguments of ``fit``."""
    X = DATA["X"]
    if name in PAIRS:
        return X[DATA["pairs"]], DATA["similar"]
    if name == "LSML":
        return (X[DATA["quadruplets"]],)
    if name == "Covariance":
        return (X,)
    return X, DATA[{"RCA": "chunks", "MLKR": "numbers"}.get(name, "y")]


def fitted(name, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(ml, name)(**keywords).fit(*told(name))


@each_class
def test_has_the_signature_of_metric_learn(name):
    """The same keywords, in the same order and with the same defaults; none that are deprecated."""
    found = STORED["signatures"][name].items()
    stored = {key: default for key, default in found if default != "deprecated"}
    parameters = inspect.signature(getattr(ml, name)).parameters
    assert list(parameters) == list(stored)
    assert {key: parameters[key].default for key in stored} == stored
    made = getattr(ml, name)(**stored)
    assert clone(made).get_params() == made.get_params()


def test_has_all_classes_of_metric_learn_but_scml():
    assert set(STORED["signatures"]) == set(ml.__all__)
    with pytest.raises(ImportError, match="vicinal has no SCML: sparse compositional"):
        from vicinal.compat.metric_learn import SCML  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'SDLM'"):
        ml.SDLM  # noqa: B018


@each_class
def test_fits_with_the_defaults_and_has_the_methods(name):
    model = fitted(name)
    X = DATA["X"]
    assert np.isfinite(model.components_).all()
    M = model.get_mahalanobis_matrix()
    assert M.shape == (4, 4)
    pairs = X[DATA["pairs"]]
    distances = model.pair_distance(pairs)
    np.testing.assert_allclose(model.pair_score(pairs), -distances)
    np.testing.assert_allclose([model.get_metric()(a, b) for a, b in pairs], distances)
    np.testing.assert_allclose(model.transform(X), X @ model.components_.T)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.components_, model.components_)
    with pytest.raises(NotFittedError):
        clone(model).transform(X)
    assert hasattr(model, "predict") == (name in (*PAIRS, "LSML"))


@each_class
def test_rows_may_be_indices_into_a_preprocessor(name):
    X = DATA["X"]
    rows, *rest = told(name)
    indices = {"LSML": DATA["quadruplets"]}.get(name, np.arange(len(X)))
    indices = DATA["pairs"] if name in PAIRS else indices
    keywords = {"random_state": 0} if "random_state" in STORED["signatures"][name] else {}
    plain = fitted(name, **keywords)
    for preprocessor in (X, lambda at: X[at]):
        model = getattr(ml, name)(preprocessor=preprocessor, **keywords)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(indices, *rest)
        np.testing.assert_array_equal(model.components_, plain.components_)
        np.testing.assert_array_equal(model.transform(np.arange(5)), plain.transform(X[:5]))
        np.testing.assert_array_equal(
            model.pair_distance(DATA["pairs"]), plain.pair_distance(X[DATA["pairs"]])
        )


@each_class
def test_a_subclass_may_have_fewer_keywords(name):
    parent = getattr(ml, name)
    seed = {"random_state": 0} if "random_state" in STORED["signatures"][name] else {}

    class Narrow(parent):
        def __init__(self, preprocessor=None):
            super().__init__(preprocessor=preprocessor, **seed)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(Narrow()).fit(*told(name))
    np.testing.assert_array_equal(model.components_, fitted(name, **seed).components_)


@pytest.mark.parametrize("name", ["LFDA", "ITML"])
def test_an_index_outside_of_the_preprocessor_is_refused(name):
    model = getattr(ml, name)(preprocessor=DATA["X"])
    rows = DATA["pairs"] if name == "ITML" else np.arange(42)
    for outside in (-1, 42):
        rows = np.where(rows == rows.flat[-1], outside, rows)
        with pytest.raises(
            ValueError, match=rf"'preprocessor' of {name}.*\[0, 41\]. Got {outside}"
        ):
            model.fit(rows, DATA["similar" if name == "ITML" else "y"])


def near(M, N, scale_free):
    """How far two metrics are apart, as a share of the larger one."""
    M, N = np.array(M), np.array(N)
    if scale_free:
        M, N = M / np.linalg.norm(M), N / np.linalg.norm(N)
    return np.linalg.norm(M - N) / np.linalg.norm(N)


# class: largest difference of the metrics, and whether the scale counts; LFDA differs on purpose,
# NCA and MLKR have no penalty that would end the growth of their maps, and what is drawn at random
# is drawn otherwise
NEAR = {"RCA": (1e-6, False), "Covariance": (1e-6, False), "LSML": (0.05, False),
        "ITML": (0.6, True), "LMNN": (0.3, False), "NCA": (0.9, True),
        "MLKR": (0.9, True), "RCA_Supervised": (0.6, False), "ITML_Supervised": (0.6, True),
        "LSML_Supervised": (0.3, False)}  # fmt: skip


@pytest.mark.parametrize(
    "case", [fit for fit in STORED["fits"] if fit["class"] in NEAR],
    ids=lambda fit: f"{fit['class']} {fit['keywords']}",
)  # fmt: skip
def test_metrics_are_comparable(case):
    most, scale_free = NEAR[case["class"]]
    M = fitted(case["class"], **case["keywords"]).get_mahalanobis_matrix()
    assert near(M, case["M"], scale_free) < most


@pytest.mark.parametrize("case", [fit for fit in STORED["fits"] if fit["class"] == "MMC"],
                         ids=lambda fit: str(fit["keywords"]))  # fmt: skip
def test_mmc_is_not_worse_than_that_of_metric_learn(case):
    """By its own criterion, which has no scale; metric-learn's projections end too early."""
    pairs, y = told("MMC")
    x = pairs[:, 0] - pairs[:, 1]

    def ratio(M):
        d2 = np.einsum("ij,jk,ik->i", x, M, x)
        return d2[y > 0].mean() / np.sqrt(np.maximum(d2[y < 0], 0)).mean() ** 2

    ours = fitted("MMC", **case["keywords"]).get_mahalanobis_matrix()
    assert ratio(ours) <= ratio(np.array(case["M"])) * 1.001


def test_sdml_of_metric_learn_fails_and_ours_does_not():
    assert all("M" not in fit for fit in STORED["fits"] if fit["class"].startswith("SDML"))
    model = fitted("SDML")
    assert model.score(*told("SDML")) > 0.6


@pytest.mark.parametrize(
    ("name", "keywords", "why"),
    [("LMNN", {"learn_rate": 1e-3}, "L-BFGS chooses"), ("LMNN", {"min_iter": 5}, "converged"),
     ("MMC", {"max_proj": 5}, "nothing is projected"), ("MMC", {"init": "random"}, "convex"),
     ("MMC_Supervised", {"diagonal_c": 2.0}, "met exactly"),
     ("ITML", {"verbose": True}, "prints nothing"),
     ("LSML_Supervised", {"weights": np.ones(3)}, "equal weights")],
)  # fmt: skip
def test_keywords_without_effect_are_told(name, keywords, why):
    (keyword,) = keywords
    with pytest.warns(UserWarning, match=f"'{keyword}' parameter of {name} has no effect: .*{why}"):
        getattr(ml, name)(**keywords).fit(*told(name))


def test_keywords_arrive():
    X, y = told("LMNN")
    model = fitted("LMNN", n_neighbors=2, regularization=0.2, max_iter=7, n_components=2,
                   convergence_tol=0.42, init="pca")  # fmt: skip
    asked = model.estimator_.get_params()
    assert (asked["k"], asked["n_components"], asked["max_iter"]) == (2, 2, 7)
    assert asked["mu"] == pytest.approx(4.0)
    assert asked["tol"] == pytest.approx(0.01)
    assert (asked["scaling"], asked["alpha"], asked["init"]) == (None, 0.0, "pca")
    assert fitted("NCA").estimator_.get_params()["objective"] == "accuracy"
    assert fitted("NCA", n_components=2).estimator_.init == "lda"
    assert fitted("NCA", n_components=3).estimator_.init == "pca"
    assert fitted("NCA").estimator_.init == "identity"
    assert fitted("LFDA").estimator_.k == 7
    asked = fitted("ITML_Supervised", gamma=0.5, n_constraints=9).estimator_.get_params()
    assert (asked["learner__gamma"], asked["n_constraints"]) == (0.5, 9)
    assert fitted("SDML").estimator_.balance == "auto"
    assert fitted("SDML", balance_param=0.001).estimator_.balance_ == 0.001
    for name in ("NCA", "LMNN", "MLKR"):
        with pytest.raises(
            ValueError, match=f"'n_components' parameter of {name} .* Got 0 instead"
        ):
            fitted(name, n_components=0)
    with pytest.raises(ValueError, match=r"'regularization' parameter of LMNN .* \(0.0, 1.0\)"):
        ml.LMNN(regularization=0.0).fit(X, y)


def test_an_array_starts_the_fit():
    X, y = told("NCA")
    A = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ml.NCA(init=A, max_iter=1).fit(X, y)
    assert model.components_.shape == (2, 4)


def test_pair_classifiers_calibrate_and_predict():
    pairs, y = told("ITML")
    model = ml.ITML().fit(pairs, y)
    assert set(model.predict(pairs)) <= {-1, 1}
    assert 0.5 < model.score(pairs, y) <= 1.0
    strict = ml.ITML().fit(pairs, y, calibration_params={"strategy": "max_tnr", "min_rate": 0.1})
    assert strict.threshold_ < model.threshold_
    assert (model.set_threshold(0.0).predict(pairs) == -1).all()
    for bounds in ((0.5, 4.0), np.array([[0.5, 4.0]]), np.array([[0.5], [4.0]])):
        bounded = ml.ITML().fit(pairs, y, bounds=bounds)
        assert bounded.bounds_ == (0.5, 4.0)
        assert not np.allclose(bounded.components_, model.components_)
    unfitted = ml.ITML()
    with pytest.raises(ValueError, match=r"'strategy' parameter of ITML.calibrate_threshold"):
        unfitted.fit(pairs, y, calibration_params={"strategy": "weird"})
    assert not hasattr(unfitted, "components_")


def test_quadruplets_are_compared_by_the_components():
    quadruplets = told("LSML")[0]
    lsml = ml.LSML().fit(quadruplets, weights=np.arange(1, 41))
    assert lsml.score(quadruplets) == np.mean(lsml.predict(quadruplets) == 1)
    lsml.components_ = np.eye(4)[:1]  # as metric-learn's users may do
    near, far = (np.abs(quadruplets[:, i, 0] - quadruplets[:, i + 1, 0]) for i in (0, 2))
    np.testing.assert_allclose(lsml.decision_function(quadruplets), far - near)
    np.testing.assert_array_equal(lsml.predict(quadruplets), np.where(far > near, 1, -1))


def test_chunklets_are_the_second_argument_of_rca():
    X, chunks = told("RCA")
    inside = chunks >= 0
    expected = vicinal.RCA(2, scaling=None).fit(X[inside], chunks=chunks[inside])
    np.testing.assert_array_equal(ml.RCA(2).fit(X, chunks).components_, expected.components_)
    with pytest.warns(UserWarning, match="'n_chunks' parameter .* is 100, but there are 21 disj"):
        ml.RCA_Supervised(random_state=0).fit(X, DATA["y"])


@pytest.mark.parametrize("name", [f"{name}_Supervised" for name in (*PAIRS, "LSML")])
def test_negative_labels_are_unknown(name):
    X, y = load_iris(return_X_y=True)
    some = np.where(np.arange(150) % 3 == 0, -2, y)
    for labels in (some, some.astype(float)):
        model = getattr(ml, name)(random_state=0).fit(X, labels)
        used = model.estimator_.constraints_
        assert used.size
        assert (used % 3 != 0).all()


def test_rows_of_unknown_classes_are_in_no_chunklet():
    X, y = load_iris(return_X_y=True)
    model = ml.RCA_Supervised(n_chunks=30, random_state=0)
    known = np.arange(150) % 3 != 0
    expected = clone(model).fit(X[known], y[known]).components_
    for unknown in (-2, -1.0):
        found = model.fit(X, np.where(known, y, unknown)).components_
        np.testing.assert_array_equal(found, expected)


def test_scikit_learn_takes_them():
    X, y = load_iris(return_X_y=True)
    for model in (ml.NCA(n_components=2, max_iter=20), ml.ITML_Supervised(random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            score = cross_val_score(make_pipeline(model, KNeighborsClassifier(3)), X, y, cv=3)
        assert score.mean() > 0.9


CHECKED = [ml.NCA(max_iter=20), ml.LMNN(max_iter=20), ml.MLKR(max_iter=20), ml.LFDA(),
           ml.RCA_Supervised(), ml.ITML_Supervised(), ml.MMC_Supervised(), ml.SDML_Supervised(),
           ml.LSML_Supervised(), ml.Covariance()]  # fmt: skip
# not RCA, whose second argument is no y but chunks


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    check(estimator)
