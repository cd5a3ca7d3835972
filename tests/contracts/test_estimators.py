"""What every estimator keeps to, in every configuration.  A new one is a line in `ESTIMATORS`."""

from __future__ import annotations

import copy
import functools
import inspect
import io
import json
import pickle
import re
import warnings
from dataclasses import dataclass
from time import perf_counter

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from common.callbacks import Stop
from common.checks import needs_callbacks, set_threads, unfinished
from common.elsewhere import ELSEWHERE
from common.histograms import counts
from common.soft import NCAOfDistributions, NCAOfMatches, PairNCAOfLabels, make_storable
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

import vicinal
from vicinal import (
    ITML,
    KNCA,
    LFDA,
    LMNN,
    LSML,
    MCML,
    MLKR,
    MMC,
    NCA,
    RCA,
    SDML,
    Chi2LMNN,
    Covariance,
    FromLabels,
    NCARegressor,
    starts,
)
from vicinal._features import Features
from vicinal.callbacks import Checkpoint, Progress, StopAfter
from vicinal.core.types import Map
from vicinal.densities import Compact
from vicinal.engines import choose
from vicinal.maps import MLP, Bins, Periodic
from vicinal.maps.fitted import FittedLinear, FittedMap
from vicinal.neighborhoods import Nearest, RandomPairs, Tree
from vicinal.samplers import MiniBatches, StochasticQueries, Subsample
from vicinal.solvers import BoldDriver
from vicinal.storage.codec import decode, encode

ESTIMATORS = {
    "nca": NCA(2, alpha=3e-3),
    "nca full rank": NCA(alpha=3e-3),
    "nca accuracy cg": NCA(2, objective="accuracy", solver="cg", scaling="global", alpha=3e-3),
    "nca diagonal": NCA(mapping="diagonal", solver="momentum", alpha=3e-3),
    "nca votes": NCA(2, rule="knn", n_neighbors="auto", init="pca", scaling=None, alpha=3e-3),
    "nca local votes": NCA(2, rule="knn", n_neighbors="local", alpha=3e-3),
    "nca early stopping": NCA(2, early_stopping=True, priors="uniform", solver="adam",
                              n_iter_no_change=50, alpha=3e-3),
    "nca student": NCA(2, kernel="student", alpha=3e-3),
    "nca laplace": NCA(2, kernel="laplace", alpha=3e-3),
    "nca compact": NCA(2, kernel="compact", alpha=3e-3),
    "nca em": NCA(2, kernel=Compact(beta="em"), alpha=3e-3),
    "nca queries": NCA(2, sampling=StochasticQueries(30), alpha=3e-3),
    "nca batches": NCA(2, sampling=MiniBatches(40), alpha=3e-3),
    "nca clusters": NCA(2, sampling=MiniBatches(40, "fpc", "input"), alpha=3e-3),
    "nca random clusters": NCA(2, sampling=MiniBatches(40, "random"), objective="accuracy",
                               alpha=3e-3),
    "nca subsample": NCA(2, sampling=Subsample(40), alpha=3e-3),
    "nca sgd": NCA(2, sampling=StochasticQueries(30), solver="sgd", alpha=3e-3),
    "nca lists": NCA(2, neighborhood=Nearest(40), alpha=3e-3),
    "nca random lists": NCA(2, neighborhood=RandomPairs(30), alpha=3e-3),
    "nca trees": NCA(2, neighborhood=Tree(0.05, always=True), alpha=3e-3),
    "nca of many parts": NCA(2, sampling=StochasticQueries(30), neighborhood=RandomPairs(20),
                             kernel=Compact(beta="gradient"), priors="uniform", alpha=3e-3),
    "nca restarts": NCA(2, init=starts.Random(2), alpha=3e-3),
    "nca annealing": NCA(2, init="annealing", alpha=3e-3),
    "nca searched": NCA("auto", alpha="auto", cv=2),
    "nca distributions": NCAOfDistributions(2, alpha=3e-3),
    "nca distributions votes": NCAOfDistributions(rule="knn", n_neighbors="auto", alpha=3e-3,
                                                  mapping="diagonal"),
    "nca distributions batches": NCAOfDistributions(2, sampling=MiniBatches(40, "random"),
                                                    objective="accuracy", alpha=3e-3),
    "nca distributions early": NCAOfDistributions(3, early_stopping=True, n_iter_no_change=50,
                                                  rule="knn", n_neighbors="local", alpha=3e-3),
    "nca distributions lists": NCAOfDistributions(2, neighborhood=Nearest(40), alpha=3e-3),
    "nca matches": NCAOfMatches(2, alpha=3e-3),
    "nca matches queries": NCAOfMatches(2, sampling=StochasticQueries(30), kernel="student",
                                        alpha=3e-3),
    "nca matches batches": NCAOfMatches(2, sampling=MiniBatches(30, "random"), alpha=3e-3),
    "nca matches lists": NCAOfMatches(2, neighborhood=Nearest(40), objective="accuracy",
                                      alpha=3e-3),
    "nca matches restarts": NCAOfMatches(mapping="diagonal", early_stopping=True, alpha=3e-3,
                                         n_iter_no_change=50, init=starts.Random(2)),
    "nca periodic": NCA(2, mapping=Periodic(3, 2), alpha=3e-3),
    "nca bins": NCA(2, mapping=Bins(3), alpha=3e-3),
    "nca network batches": NCA(2, mapping=MLP((4,), "tanh"), sampling=MiniBatches(40), alpha=3e-3),
    "knca network": KNCA(2, k=3, mapping=MLP((4,), residual=False)),
    "lmnn periodic": LMNN(2, mapping=Periodic(3, 2, then=MLP((4,)))),
    "knca": KNCA(2, k=3),
    "knca all": KNCA(2, k=3, vote="all", objective="accuracy", rule="knn"),
    "knca queries": KNCA(2, k=3, sampling=StochasticQueries(30), solver="adam"),
    "knca lists": KNCA(2, k=3, neighborhood=Nearest(40)),
    "knca early stopping": KNCA(mapping="diagonal", k=2, early_stopping=True, n_iter_no_change=50),
    "mcml": MCML(2),
    "mcml full rank": MCML(rule="posterior"),
    "mcml diagonal": MCML(mapping="diagonal", solver="momentum", scaling="global"),
    "mcml early stopping": MCML(2, early_stopping=True, n_iter_no_change=50, n_neighbors="local"),
    "mcml queries": MCML(2, sampling=StochasticQueries(30)),
    "mcml batches": MCML(2, sampling=MiniBatches(40, "random")),
    "mcml lists": MCML(2, neighborhood=Nearest(50)),
    "mcml random lists": MCML(2, neighborhood=RandomPairs(30)),
    "mlkr": MLKR(2, alpha=3e-3),
    "mlkr votes": MLKR(rule="knn", n_neighbors="auto", scaling="global", solver="cg", alpha=3e-3),
    "mlkr diagonal": MLKR(mapping="diagonal", kernel="student", alpha=3e-3),
    "mlkr early stopping": MLKR(2, early_stopping=True, solver="adam", init="pca", alpha=3e-3,
                                n_iter_no_change=50),
    "mlkr queries": MLKR(2, sampling=StochasticQueries(30), alpha=3e-3),
    "mlkr batches": MLKR(2, sampling=MiniBatches(40), alpha=3e-3),
    "mlkr subsample": MLKR(2, sampling=Subsample(40), alpha=3e-3),
    "mlkr lists": MLKR(2, neighborhood=Nearest(40), alpha=3e-3),
    "mlkr random lists": MLKR(2, neighborhood=RandomPairs(30), alpha=3e-3),
    "mlkr restarts": MLKR(2, init=starts.Random(2), alpha=3e-3),
    "mlkr searched": MLKR("auto", alpha="auto", cv=2),
    "nca regressor": NCARegressor(2, alpha=3e-3),
    "nca regressor hard": NCARegressor(matching="hard", objective="accuracy", rule="knn",
                                       alpha=3e-3),
    "nca regressor queries": NCARegressor(2, sampling=StochasticQueries(30), width=0.5, alpha=3e-3),
    "nca regressor lists": NCARegressor(2, neighborhood=Nearest(40), alpha=3e-3),
    "lmnn": LMNN(2),
    "lmnn diagonal": LMNN(mapping="diagonal", k=1, solver="bold_driver"),
    "lmnn early stopping": LMNN(3, early_stopping=True, refresh_targets=2, n_iter_no_change=50),
    "lmnn new targets": LMNN(3, refresh_targets=4, n_neighbors="auto"),
    "lmnn adam": LMNN(2, solver="adam", init="pca"),
    "lmnn queries": LMNN(2, sampling=StochasticQueries(30)),
    "lmnn batches": LMNN(2, sampling=MiniBatches(20, "random")),
    "lmnn clusters": LMNN(2, sampling=MiniBatches(30), refresh_targets=3),
    "lmnn subsample": LMNN(2, sampling=Subsample(40)),
    "chi2 lmnn": Chi2LMNN(3),
    "chi2 lmnn softmax": Chi2LMNN(3, constraint="softmax"),
    "chi2 lmnn early stopping": Chi2LMNN(3, early_stopping=True, n_iter_no_change=50),
    "chi2 lmnn new targets": Chi2LMNN(3, refresh_targets=2, solver="adaptive"),
    "chi2 lmnn queries": Chi2LMNN(3, sampling=StochasticQueries(20), solver="sgd"),
    "chi2 lmnn batches": Chi2LMNN(3, sampling=MiniBatches(20, "random")),
    "chi2 lmnn softmax targets": Chi2LMNN(3, constraint="softmax", refresh_targets=2, k=1),
    "pair nca": PairNCAOfLabels(2),
    "rca": RCA(2),
    "rca shrunk": RCA(shrinkage="oas", scaling=None),
    "from labels, itml": FromLabels(ITML(), random_state=0),
    "from labels, mmc": FromLabels(MMC(), random_state=0),
    "from labels, sdml": FromLabels(SDML(), random_state=0),
    "from labels, lsml": FromLabels(LSML(), random_state=0),
    "lfda": LFDA(2),
    "lfda plain": LFDA(k=3, embedding="plain", shrinkage=0.1, scaling=None),
    "lfda orthonormalized": LFDA(2, embedding="orthonormalized", scaling="global"),
    "covariance": Covariance(),
}  # fmt: skip
# closed forms: neither starts, nor iterations, nor classifiers
CLOSED = ("rca", "lfda", "covariance", "from labels")
BENT = ("nca periodic", "nca bins", "nca network batches", "knca network", "lmnn periodic")
LEARNT = [name for name in ESTIMATORS if not name.startswith(CLOSED)]
NUMBERS = ("mlkr", "nca regressor")  # learn from numbers in place of classes
CLASSIFYING = [
    name for name in LEARNT if not name.startswith((*NUMBERS, "nca matches", "pair nca"))
]
# one of each class, with nothing but the defaults that matter
PLAIN = ["nca", "knca", "mcml", "mlkr", "nca regressor", "lmnn", "chi2 lmnn", "rca", "lfda"]
LABELLED = [name for name in PLAIN if not name.startswith(NUMBERS)]
# those of `make test-fast`
FAST = [*PLAIN, "nca diagonal", "nca queries", "nca periodic"]
SCHEDULED = [
    "nca queries",
    "nca batches",
    "nca network batches",
    "nca clusters",
    "nca random clusters",
    "mcml queries",
    "mcml batches",
    "mlkr queries",
    "mlkr batches",
    "nca regressor queries",
    "nca distributions batches",
    "nca matches queries",
    "nca matches batches",
    "lmnn queries",
    "lmnn batches",
    "lmnn clusters",
    "chi2 lmnn batches",
]  # their rate ends with `max_iter`
# the runs of a search are as long as that of the fit, so that it may choose something else
SEARCHED = ("nca searched", "mlkr searched")
WEIGHTED = [name for name, model in ESTIMATORS.items() if has_fit_parameter(model, "sample_weight")]
# the rate of SGD is tuned over as many steps as the fit has, so half a fit has another one
OTHERWISE = ("nca sgd", "nca of many parts")
RESUMED = [name for name in LEARNT if name not in (*SCHEDULED, *OTHERWISE, *SEARCHED)]

pytestmark = [
    unfinished,
    pytest.mark.filterwarnings("ignore:The scatter within classes is singular"),
    pytest.mark.filterwarnings("ignore:The lists of"),
    pytest.mark.filterwarnings("ignore:The .size. parameter of"),
    pytest.mark.filterwarnings("ignore:The .m. parameter of"),
    pytest.mark.filterwarnings("ignore:.* of the rows have no"),
    pytest.mark.filterwarnings("ignore:n_components="),
]


def each(names=tuple(ESTIMATORS), goes_on=False):
    """A search, and annealing, fit many times: most of what they keep to is for `make test-long`.

    `goes_on`: whether a test is about what is only in them, as where a fit is cut.
    """
    marks = {name: pytest.mark.options for name in ESTIMATORS if name not in FAST}
    slow = pytest.mark.slow if goes_on else pytest.mark.long
    marks |= dict.fromkeys((*SEARCHED, "nca annealing"), slow)
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=marks.get(name, ())) for name in names]
    )


def make(name, **changes):
    """The estimator, unfitted, that makes but a few iterations."""
    model = clone(ESTIMATORS[name])
    known = model.get_params()
    short = {"max_iter": 6, "random_state": 0}
    return model.set_params(**{k: v for k, v in {**short, **changes}.items() if k in known})


@functools.cache
def table(name, n=60):
    """A third of wine, or histograms of three classes; more rows are made up.

    Numbers are those of the classes, and a wave along a column.
    """
    if name.startswith("chi2"):
        return counts(np.random.default_rng(0), n)
    if name.startswith(NUMBERS):
        X, y = table("nca", n)
        return X, y + 0.3 * np.sin(2 * (X[:, 1] - X[:, 1].mean()) / X[:, 1].std())
    if n == 60:
        X, y = load_wine(return_X_y=True)
        return X[::3], y[::3]
    rng = np.random.default_rng(0)
    y = np.arange(n) % 4
    X = rng.standard_normal((n, 6)) * np.logspace(-1, 1, 6)
    return X + 2 * rng.standard_normal((4, 6))[y], y


@functools.cache
def fitted(name):
    """One fit for all tests that only look."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make(name).fit(*table(name))


def parameters(model):
    """The matrix of a linear map, or the parameters of another."""
    return model.components_ if hasattr(model, "components_") else model._map.theta


def answers(model, X):
    """All that a fitted model says of rows."""
    told = [parameters(model), model.transform(X)]
    if hasattr(model, "predict"):
        told += [getattr(model, "predict_proba", model.predict)(X), model.predict(X)]
        told += [model.history_["loss"], model.loss_]
    return told


def assert_same(one, other, but=()):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


# The same again


def each_in_one_dtype():
    """Each in float32 or float64, in turn; those of `make test-fast` in both."""
    kinds = (np.float32, np.float64)
    return pytest.mark.parametrize(
        ("name", "dtype"),
        [
            pytest.param(name, dtype, id=f"{name}-{dtype.__name__}",
                         marks=() if name in FAST else
                         pytest.mark.options if number % 2 == place else pytest.mark.long)
            for number, name in enumerate(ESTIMATORS)
            for place, dtype in enumerate(kinds)
        ],
    )  # fmt: skip


@each_in_one_dtype()
def test_thread_count_agnosticism(name, dtype, monkeypatch):
    X, y = table(name, 800)  # several blocks
    told = []
    for threads in (1, 2):
        set_threads(monkeypatch, threads)
        with threadpool_limits(threads):
            told.append(answers(make(name, max_iter=3).fit(X.astype(dtype), y), X.astype(dtype)))
    assert_same(*told)


@each(["nca early stopping", "nca queries", "nca restarts", "knca queries", "lmnn early stopping"])
def test_random_state_decides(name):
    X, y = table(name)

    def fit(seed):
        return make(name, random_state=seed).fit(X, y).components_

    np.testing.assert_array_equal(fit(3), fit(3))
    np.testing.assert_array_equal(fit(3), fit(np.random.RandomState(3)))
    assert not np.array_equal(fit(3), fit(4))


@each(goes_on=True)
def test_fit_forgets_the_fit_before(name):
    """So that two fits have the same bits as well."""
    X, y = table(name)
    model = make(name).fit(X[:, ::-1][:50], y[:50])
    assert_same(answers(model.fit(X, y), X), answers(fitted(name), X))


@pytest.mark.slow
@each(["nca", "knca", "lmnn", "chi2 lmnn", "nca diagonal"])
def test_worker_processes_agree_with_this_one(name):
    X, y = table(name)
    scores = [cross_val_score(make(name), X, y, cv=3, n_jobs=jobs) for jobs in (1, 2)]
    np.testing.assert_array_equal(*scores)


# Rows


@each()
def test_does_not_change_its_input(name):
    X, y = table(name)
    kinds = (X.copy(), np.asfortranarray(X), sp.csr_array(X))
    for rows in kinds if name in FAST else kinds[1:]:
        labels = y.copy()
        if isinstance(rows, np.ndarray):
            rows.setflags(write=False)
        labels.setflags(write=False)
        model = make(name, max_iter=2).fit(rows, labels)
        model.transform(rows)
        if hasattr(model, "predict"):
            getattr(model, "predict_proba", model.predict)(rows)
        dense = rows.toarray() if sp.issparse(rows) else rows
        np.testing.assert_array_equal(dense, X)
        np.testing.assert_array_equal(labels, y)


@each()
def test_sparse_equals_dense(name):
    X, y = table(name)
    # few steps: rounding grows with them, where triples begin and end to count
    dense = make(name, max_iter=3).fit(X, y)
    for wrap in (sp.csr_array, sp.csc_matrix, sp.coo_array)[: 3 if name in FAST else 1]:
        sparse = make(name, max_iter=3).fit(wrap(X), y)
        size = np.abs(parameters(dense)).max()
        np.testing.assert_allclose(parameters(sparse), parameters(dense), atol=1e-5 * size)
        Z = sparse.transform(wrap(X))
        assert isinstance(Z, np.ndarray)
        np.testing.assert_allclose(Z, sparse.transform(X), rtol=1e-9, atol=1e-9 * np.abs(Z).max())
        if hasattr(sparse, "predict"):
            near = {"rtol": 1e-9} if name.startswith(NUMBERS) else {"rtol": 0.0}
            np.testing.assert_allclose(sparse.predict(wrap(X)), sparse.predict(X), **near)


@each()
def test_float32_stays_float32(name):
    X, y = table(name)
    X32 = X.astype(np.float32)
    model = make(name).fit(X32, y)
    assert model.transform(X32).dtype == np.float32
    assert fitted(name).transform(X).dtype == np.float64
    if name not in BENT:
        assert (model.components_.dtype, fitted(name).components_.dtype) == (np.float32, np.float64)
    pairs = np.stack([X32[:-1], X32[1:]], axis=1)
    assert model.pair_distance(pairs).dtype == np.float32
    if hasattr(model, "predict"):
        assert getattr(model, "predict_proba", model.predict)(X32).dtype == np.float64
        near = {"rel": 0.05, "abs": 1e-3} if "searched" in name else {"rel": 1e-2, "abs": 1e-3}
        assert model.loss_ == pytest.approx(fitted(name).loss_, **near)


@each([name for name in ESTIMATORS if not name.startswith(NUMBERS)])
def test_labels_of_any_sortable_type(name):
    X, y = table(name)
    for labels in (["a", "b", "c"], [-1, 0, 7], [0.0, 1.0, 2.0])[: 3 if name in FAST else 1]:
        named = np.array(labels)[y]
        model = make(name).fit(X, named)
        np.testing.assert_array_equal(parameters(model), parameters(fitted(name)))
        if hasattr(model, "predict"):
            assert model.classes_.dtype == named.dtype
            np.testing.assert_array_equal(model.classes_, np.unique(named))
            expected = np.array(labels)[fitted(name).predict(X)]
            np.testing.assert_array_equal(model.predict(X), expected)


@each(LABELLED)
def test_labels_may_be_bools(name):
    X, y = table(name)
    model = make(name).fit(X, y > 0)
    if hasattr(model, "predict"):
        assert model.classes_.tolist() == [False, True]
        assert model.predict(X).dtype == bool


@each(PLAIN)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in_and_out(name, library):
    frames = pytest.importorskip(library)
    X, y = table(name)
    names = [f"column {i}" for i in range(X.shape[1])]
    frame = frames.DataFrame({column: X[:, i] for i, column in enumerate(names)})
    numbers = name.startswith(NUMBERS)
    labels = frames.Series(y if numbers else np.array(["rot", "gelb", "blau"])[y].tolist())
    model = make(name).set_output(transform=library).fit(frame, labels)
    assert model.feature_names_in_.tolist() == names
    Z = model.transform(frame)
    assert isinstance(Z, frames.DataFrame)
    prefix = type(model).__name__.lower()
    expected = [f"{prefix}{i}" for i in range(len(model.components_))]
    assert list(Z.columns) == model.get_feature_names_out().tolist() == expected
    np.testing.assert_allclose(Z.to_numpy(), fitted(name).transform(X), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[names[::-1]])
    if numbers:
        np.testing.assert_allclose(model.predict(frame), fitted(name).predict(X), rtol=1e-9)
    elif hasattr(model, "predict"):
        assert model.classes_.tolist() == ["blau", "gelb", "rot"]
        assert set(model.predict(frame)) <= {"blau", "gelb", "rot"}
        assert model.score(frame, labels.to_numpy()) > (0.6 if name == "chi2 lmnn" else 0.95)


@each(PLAIN)
def test_odd_tables_do_no_harm(name, rng):
    """Twins, a column that does not vary, fewer rows than columns, any scale: never a NaN."""
    X, y = table(name)
    wide = np.abs(rng.normal(size=(10, 25)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows, labels in [
            (np.repeat(X[::4], 3, axis=0), np.repeat(y[::4], 3)),
            (np.repeat(X[::20], 12, axis=0), np.resize([0, 1, 2, 0], 36)),
            (np.column_stack([X, np.full(60, 3.0)]), y),
            (wide, np.arange(10) % 2),
            (1e-8 * X, y),
            (1e8 * X, y),
            (X, np.r_[7, y[1:]]),
        ]:
            model = make(name, n_components=2).fit(rows, labels)
            for part in answers(model, rows):
                assert np.isfinite(part).all()


@each(PLAIN)
@pytest.mark.parametrize("factor", [2.0**-800, 2.0**800])
def test_issue_14_extreme_units(name, factor):
    """Rows times a power of two: the same embedding, the same answers."""
    X, y = table(name)
    for wrap in (np.asarray, sp.csr_array):
        usual, extreme = make(name).fit(wrap(X), y), make(name).fit(wrap(factor * X), y)
        Z = usual.transform(X)
        near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(Z).max()}
        np.testing.assert_allclose(extreme.transform(factor * X), Z, **near)
        if hasattr(usual, "predict"):
            near = {"rtol": 1e-9} if name.startswith(NUMBERS) else {"rtol": 0.0}
            np.testing.assert_allclose(extreme.predict(factor * X), usual.predict(X), **near)
    if name != "chi2 lmnn":  # which divides rows by their sums
        with pytest.raises(ValueError, match=f"too {'large' if factor > 1 else 'small'} for sq"):
            make(name, scaling=None).fit(factor * X, y)


@each([*PLAIN, "nca diagonal", "nca periodic", "covariance", "pair nca",
       *(name for name in ESTIMATORS if name.startswith("from labels"))])  # fmt: skip
def test_float32_has_no_factor_for_tiny_units(name):
    """Float32 rows whose factors are beyond float32: the map of the same rows in float64."""
    X, y = table(name)
    X = (2.0**-143 * X).astype(np.float32)
    usual = make(name).fit(2.0**143 * X.astype(np.float64), y)
    Z = usual.transform(2.0**143 * X.astype(np.float64))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tiny = make(name).fit(X, y)
    told = [str(w.message) for w in told if "'components_' is float64" in str(w.message)]
    if name in ("chi2 lmnn", "nca periodic"):  # rows are divided by their sums; no matrix
        assert not told
        near = {"rtol": 1e-4, "atol": 1e-4 * np.abs(Z).max()}
    else:
        (message,) = told
        assert re.search(
            r"column \d+ of X .* up to \d.*e\+\d+, and float32 ends at 3.4e\+38", message
        )
        assert tiny.components_.dtype == np.float64
        near = {"rtol": 1e-9, "atol": 1e-9 * np.abs(Z).max()}
    np.testing.assert_allclose(tiny.transform(X), Z, **near)
    if name in LEARNT and name != "chi2 lmnn":
        with pytest.raises(ValueError, match=r"too small for squared distances in float32: .*None"):
            make(name, scaling=None).fit(X, y)


def test_large_fits_refuse_tiny_units_without_scaling():
    """They start in float32, which has no map for such rows."""
    X, y = table("nca", 1000)
    with pytest.raises(ValueError, match=r"too small for squared distances in float32: .*None"):
        make("nca", scaling=None).fit(2.0**-143 * X, y)


@each(WEIGHTED)
def test_a_common_factor_of_the_weights_changes_no_bit(name):
    """Powers of two, which change no digit: squares underflow, or overflow, or even the sum does.

    With other factors the weights themselves are rounded.
    """
    X, y = table(name)
    weight = np.random.default_rng(0).uniform(0.1, 1.9, len(y))
    found = answers(make(name).fit(X, y, sample_weight=weight), X)
    for factor in (2.0**-664, 2.0**664, 2.0**1022):
        assert_same(answers(make(name).fit(X, y, sample_weight=factor * weight), X), found)


def refuse_to_compute(monkeypatch):
    """Whatever goes through rows or pairs of rows raises."""

    def trap(*args, **kwargs):
        pytest.fail("an attribute computes")

    for name in vars(choose):
        if inspect.isfunction(getattr(choose, name)):
            monkeypatch.setattr(choose, name, trap)
    for owner, names in [
        (NearestNeighbors, ("fit", "kneighbors")),
        (FittedLinear, ("embed", "transform")),
        (FittedMap, ("embed", "transform")),
        (Features, ("matmul", "rmatmul", "blocks", "columns_times", "dense")),
    ]:
        for name in names:
            monkeypatch.setattr(owner, name, trap)


@each()
def test_issue_14_no_attribute_computes(name, monkeypatch):
    """Neither repr, nor HTML, nor Tab completion; whatever is set later."""
    fit = pickle.dumps(make(name, max_iter=2).fit(*table(name)))
    votes = "n_neighbors" in ESTIMATORS[name].get_params()
    refuse_to_compute(monkeypatch)
    settings = ("auto", "local", 7, -1, "nonsense") if name in FAST else ("local", "nonsense")
    for n_neighbors in settings if votes else settings[:1]:
        model = pickle.loads(fit)
        if votes:
            model.set_params(n_neighbors=n_neighbors)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            repr(model)
            assert type(model).__name__ in model._repr_html_()
            for attribute in dir(model):
                hasattr(model, attribute)


def one_hot(n=60):
    """Columns of which each triple sums to one, and a column of counts."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    kinds = (y[:, None] + rng.integers(0, 2, (n, 3))) % 3
    X = (kinds[:, :, None] == np.arange(3)).reshape(n, 9)
    return np.column_stack([X, rng.poisson(3, n)]).astype(float), y


@each([name for name in PLAIN if name not in CLOSED])
def test_issue_14_a_table_of_flags_says_nothing_about_starts(name):
    """A cross-validation warns of nothing that the caller neither set nor can change."""
    X, y = one_hot()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cross_val_score(make(name, n_components=None, max_iter=200), X, y, cv=5)
    assert not [str(w.message) for w in seen if w.category is not ConvergenceWarning]


def test_issue_14_rca_tells_of_a_singular_scatter_once():
    X, y = one_hot()
    with pytest.warns(UserWarning, match="rank 7 of 10.* Set the 'shrinkage' parameter") as seen:
        RCA().fit(X, y)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RCA(shrinkage="oas").fit(X, y)


# What people write who come from elsewhere


@pytest.mark.parametrize(
    ("model", "k"), [(LMNN(), 5), (KNCA(), 5), (Chi2LMNN(), 3)], ids=["lmnn", "knca", "chi2 lmnn"]
)
def test_issue_14_one_of_k_and_n_neighbors_sets_both(model, k):
    """Whichever of the two is given holds for both; given both, each means its own."""
    X, y = table("chi2" if isinstance(model, Chi2LMNN) else "nca")
    model = clone(model).set_params(max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for asked, learnt, voters in (
            ((None, None), k, k), ((2, None), 2, 2), ((None, 2), 2, 2), ((2, 1), 2, 1),
            ((1, 2), 1, 2), ((None, "auto"), k, None), ((2, "auto"), 2, None),
        ):  # fmt: skip
            fit = model.set_params(k=asked[0], n_neighbors=asked[1]).fit(X, y)
            assert fit.k_ == learnt
            assert voters is None or fit.n_neighbors_ == voters
        maps = [
            clone(model).set_params(**alone, random_state=0).fit(X, y).transform(X)
            for alone in ({"k": 2}, {"n_neighbors": 2}, {"k": k, "n_neighbors": 2})
        ]
    assert np.array_equal(maps[0], maps[1])  # the very same metric, not only the same vote
    assert not np.array_equal(maps[0], maps[2])
    with pytest.raises(ValueError, match=r"'k' parameter of .* in \[1, inf\) or None. Got 0"):
        model.set_params(k=0).fit(X, y)


@pytest.mark.parametrize(
    "estimator", [NCA, KNCA, MCML, MLKR, NCARegressor, LMNN, Chi2LMNN, RCA, LFDA]
)
def test_issue_14_help_names_types_and_solvers(estimator):
    for parameter in inspect.signature(estimator).parameters.values():
        assert "Any" not in str(parameter.annotation), parameter
        assert re.search(
            rf"^    {parameter.name}\b.* : |, {parameter.name}\b", estimator.__doc__, re.M
        )
    listed = re.search(r"^    solver : \{(.*?)\}", estimator.__doc__, re.M | re.S)
    if estimator in (NCA, KNCA, MCML, MLKR, NCARegressor, LMNN):
        names = set(re.findall(r'"(\w+)"', listed[1]))
        assert names == {"auto", "lbfgs", "cg", "bold_driver", "adaptive", "projected", "momentum",
                         "adam", "sgd"}  # fmt: skip
        X, y = table("nca")
        for solver in names - {"sgd"}:
            model = estimator(2, alpha=0.01, solver=solver, max_iter=2)
            assert np.isfinite(model.fit(X, y).loss_)


# Drawn predictions


@each(["nca", "knca", "mcml"])
def test_drawn_classes_have_the_probabilities_of_the_posterior(name):
    X, y = table(name)
    model = make(name, rule="draw", alpha=0.3, max_iter=2).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_array_equal(P, clone(model).set_params(rule="posterior").fit(X, y)
                                  .predict_proba(X))  # fmt: skip
    unsure = int(np.abs(P - 0.5).min(axis=1).argmin())
    drawn = model.predict(np.repeat(X[unsure : unsure + 1], 4000, axis=0))
    share = np.bincount(drawn, minlength=3) / 4000
    np.testing.assert_allclose(share, P[unsure], atol=0.04)  # five standard errors
    assert 0.05 < share.max() < 0.95
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    other = model.set_params(random_state=1).predict(np.repeat(X, 50, axis=0))
    # the accuracy that was learnt, in expectation
    assert np.mean(other == np.repeat(y, 50)) == pytest.approx(P[np.arange(60), y].mean(), abs=0.04)
    with pytest.raises(
        ValueError, match=r"'rule' parameter of .* one of 'posterior', 'knn', 'draw'"
    ):
        model.set_params(rule="guess").predict(X)


# Neighbours, logarithms, and the way back


@each([name for name in LEARNT if name != "pair nca"])  # it has partners, not neighbours
def test_kneighbors_are_those_of_all_distances(name):
    X, y = table(name)
    model = fitted(name)
    pairs = np.stack([np.repeat(X[:12], len(X), axis=0), np.tile(X, (12, 1))], axis=1)
    every = model.pair_distance(pairs).reshape(12, len(X))
    distances, near = model.kneighbors(X[:12], 4)
    assert (distances.dtype, near.dtype, near.shape) == (np.float64, np.int64, (12, 4))
    np.testing.assert_allclose(distances, np.sort(every, axis=1)[:, :4], atol=1e-6, rtol=1e-6)
    taken = np.take_along_axis(every, near, axis=1)
    np.testing.assert_allclose(taken, distances, rtol=1e-6, atol=1e-6)
    # the training rows, without themselves
    every[np.arange(12), np.arange(12)] = np.inf
    others, rows = model.kneighbors(n_neighbors=4)
    assert others.shape == rows.shape == (len(X), 4)
    np.testing.assert_allclose(others[:12], np.sort(every, axis=1)[:, :4], rtol=1e-6, atol=1e-6)
    assert not (rows == np.arange(len(X))[:, None]).any()
    np.testing.assert_array_equal(model.kneighbors(None, 4, return_distance=False), rows)
    graph = model.kneighbors_graph(X[:12], 4, mode="distance")
    assert graph.shape == (12, len(X))
    np.testing.assert_array_equal(graph.indices.reshape(12, 4), near)
    np.testing.assert_array_equal(graph.data.reshape(12, 4), distances)
    assert set(model.kneighbors_graph(n_neighbors=2).data) == {1.0}
    sparse = model.kneighbors(sp.csr_array(X[:12]), 4)
    np.testing.assert_allclose(sparse[0], distances, rtol=1e-6, atol=1e-6)


@each([name for name in PLAIN if name not in CLOSED])
def test_kneighbors_of_float32_ties_and_wrong_numbers(name):
    X, y = table(name)
    some = np.repeat(np.arange(0, 60, 3) + np.arange(20) % 3, 3)  # each row three times
    X = X[some].astype(np.float32)
    model = make(name, max_iter=3).fit(X, y[some])
    distances, near = model.kneighbors(n_neighbors=2)
    assert distances.dtype == np.float32
    np.testing.assert_array_equal(distances, 0)
    first = 3 * (np.arange(len(X)) // 3)
    expected = first[:, None] + np.array([[1, 2], [0, 2], [0, 1]] * (len(X) // 3))
    np.testing.assert_array_equal(np.sort(near, axis=1), expected)
    with config_context(working_memory=0.01):
        np.testing.assert_array_equal(model.kneighbors(X, 7)[1], model.kneighbors(X, 7)[1])
    assert model.kneighbors(X[:2])[1].shape == (2, model.n_neighbors_)
    n = len(X)
    for k, most, rows in [(0, n, X), (n + 1, n, X), (n, n - 1, None), (2.5, n, X), (True, n, X)]:
        message = rf"'n_neighbors' parameter of kneighbors must be an int in \[1, {most}\]. Got {k}"
        with pytest.raises(ValueError, match=message):
            model.kneighbors(rows, k)
    with pytest.raises(ValueError, match="'mode' parameter of kneighbors_graph must be"):
        model.kneighbors_graph(mode="affinity")
    with pytest.raises(NotFittedError):
        make(name).kneighbors(X)


def test_kneighbors_number_the_rows_as_they_were_given():
    """Rows of weight zero are not found, and rows of a stream keep their numbers."""
    X, y = table("nca")
    weight = np.tile([1.0, 0.0, 2.0], 20)
    model = make("nca").fit(X, y, weight)
    near = model.kneighbors(X, 3, return_distance=False)
    assert set(np.unique(near)) <= set(np.flatnonzero(weight))
    np.testing.assert_array_equal(near[weight > 0, 0], np.flatnonzero(weight))
    assert model.kneighbors_graph(X, 3).shape == (60, 60)
    stream = make("nca", reservoir_size=30)
    for rows in (slice(0, 25), slice(25, 60)):
        stream.partial_fit(X[rows], y[rows], classes=np.unique(y))
    near = stream.kneighbors(X, 1, return_distance=False)[:, 0]
    kept = np.unique(near)
    np.testing.assert_array_equal(near[kept], kept)  # a remembered row is its own neighbour
    assert len(kept) == 30
    with pytest.raises(ValueError, match=r"must be an int in \[1, 30\] where that .* is 'local'"):
        stream.set_params(n_neighbors="local").kneighbors(X)


@each(CLASSIFYING)
def test_log_proba_is_the_logarithm(name):
    X, _ = table(name)
    model = fitted(name)
    log_P = model.predict_log_proba(X)
    P = model.predict_proba(X)
    np.testing.assert_allclose(np.exp(log_P), P, rtol=1e-9, atol=1e-300)
    assert not np.isnan(log_P).any()


def test_log_proba_of_nca_does_not_underflow():
    X, y = table("nca")
    model = make("nca", max_iter=100).fit(X, y)
    far = 1e4 * X
    log_P, P = model.predict_log_proba(far), model.predict_proba(far)
    assert (P == 0).any()
    assert np.isfinite(log_P).all()
    Z, references = model.transform(far), model.transform(X)
    d2 = ((Z[:, None] - references) ** 2).sum(axis=2)
    sums = np.stack([logsumexp(-d2[:, y == c], axis=1) for c in range(3)], axis=1)
    expected = sums - logsumexp(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(log_P, expected, rtol=1e-6, atol=1e-6)


@each([name for name in ESTIMATORS if not name.startswith("chi2") and name not in BENT])
def test_inverse_transform_comes_back(name):
    X, _ = table(name)
    model = fitted(name)
    Z = model.transform(X)
    back = model.inverse_transform(Z)
    assert back.shape == X.shape
    near = {"rtol": 1e-6, "atol": 1e-6 * np.abs(Z).max()}
    np.testing.assert_allclose(model.transform(back), Z, **near)
    if len(model.components_) == X.shape[1]:
        np.testing.assert_allclose(back, X, rtol=1e-4, atol=1e-4 * np.abs(X).max(axis=0).max())
    # the mean comes back where the map sees nothing
    scale = X.std(axis=0)
    centre = model.transform(X.mean(axis=0)[None])
    np.testing.assert_allclose(
        model.inverse_transform(centre)[0] / scale, X.mean(axis=0) / scale, atol=1e-6
    )
    with pytest.raises(ValueError, match=r"one per component\. Got 1"):
        model.inverse_transform(Z[:, :1])


@dataclass(frozen=True)
class Bent(Map):
    """``Z = tanh(X a)``, one weight for each column."""

    def forward(self, theta, X, dtype=np.float64):
        Z = np.tanh(X.columns_times(theta, dtype))
        return Z, lambda dZ: X.column_dots(dZ * (1 - Z**2))

    def start(self, X, rng):
        return np.full(X.shape[1], 0.3)


def test_a_map_that_is_not_linear_has_no_inverse():
    assert not hasattr(fitted("chi2 lmnn"), "inverse_transform")
    X, y = table("nca")
    model = make("nca", mapping=Bent(), n_components=None).fit(X, y)
    assert not hasattr(model, "inverse_transform")
    with pytest.raises(AttributeError) as error:
        _ = model.inverse_transform
    assert "for linear maps only. The map is Bent" in str(error.value.__cause__)
    assert model.kneighbors(X[:3], 2)[0].shape == (3, 2)


# Copies


@each()
def test_clones_are_unfitted_and_equal(name):
    model = fitted(name)
    twin = clone(model)
    assert twin.get_params().keys() == model.get_params().keys()
    assert repr(twin.get_params()) == repr(model.get_params())
    assert not [key for key in vars(twin) if key.endswith("_") and not key.startswith("_")]
    with pytest.raises(NotFittedError):
        twin.transform(table(name)[0])
    for parameter, value in model.get_params().items():
        assert clone(twin).set_params(**{parameter: value}).get_params()[parameter] is value


@each()
def test_pickles_say_the_same(name, tmp_path):
    X, y = table(name)
    data = pickle.dumps(fitted(name))
    assert_same(answers(pickle.loads(data), X), answers(fitted(name), X))
    # as do deep copies, files of joblib, and files of skops, which trusts nothing else
    assert_same(answers(copy.deepcopy(fitted(name)), X), answers(fitted(name), X))
    joblib.dump(fitted(name), tmp_path / "model")
    assert_same(answers(joblib.load(tmp_path / "model"), X), answers(fitted(name), X))
    ours = type(fitted(name)).__module__.startswith("vicinal.")
    besides = [] if ours else [f"{type(fitted(name)).__module__}.{type(fitted(name)).__name__}"]
    trusted = [*vicinal.TRUSTED_TYPES, *besides]
    loaded = skops.io.loads(skops.io.dumps(fitted(name)), trusted=trusted)
    assert_same(answers(loaded, X), answers(fitted(name), X))
    # and hold no rows: of many columns, the map and the projections are few
    wide = np.hstack([X] * 20)
    many = np.vstack([wide] * 5)
    model = make(name, n_components=2, max_iter=2)
    if name in PLAIN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(**({"warm_start": True} if name not in CLOSED else {}))
            assert len(pickle.dumps(model.fit(many, np.tile(y, 5)))) < many.nbytes / 3


# Fits that go on


@each(RESUMED)
def test_two_fits_end_in_the_bits_of_one(name):
    """Of which the second goes on from a pickle."""
    X, y = table(name)
    whole = make(name, max_iter=8, tol=0.0).fit(X, y)
    half = make(name, max_iter=4, tol=0.0, warm_start=True).fit(X, y)
    assert half.n_iter_ <= 4
    half = pickle.loads(pickle.dumps(half)).fit(X, y)
    if "restarts" in name:
        assert half.loss_ <= half.history_["loss"][0]
        return
    assert_same(answers(half, X), answers(whole, X))


class Interrupted(BoldDriver):
    """A solver in whose n-th step the user loses patience."""

    step_of_interrupt = 4
    calls = 0

    def step(self, fun, theta, state, batch=None):
        type(self).calls += 1
        if type(self).calls == self.step_of_interrupt:
            raise KeyboardInterrupt
        return super().step(fun, theta, state, batch)


@each(["nca", "nca diagonal", "nca restarts", "knca", "lmnn", "lmnn new targets", "chi2 lmnn",
       "chi2 lmnn new targets"])  # fmt: skip
@pytest.mark.parametrize("call", [1, 3, 5])
def test_an_interrupt_keeps_the_best_map(name, call, monkeypatch):
    X, y = table(name)
    monkeypatch.setattr(Interrupted, "calls", 0)
    monkeypatch.setattr(Interrupted, "step_of_interrupt", call)
    model = make(name, solver=Interrupted(), tol=0.0, max_iter=30, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        model.fit(X, y)
    for part in answers(model, X):
        assert np.isfinite(part).all()
    before = model.loss_
    # less, where targets had just been chosen anew
    assert before <= min(model.history_["loss"]) * (1 + 1e-5)
    if "targets" not in name:
        assert before == pytest.approx(min(model.history_["loss"]), rel=1e-5)
    model.set_params(max_iter=6).fit(X, y)  # goes on
    assert model.loss_ < before
    assert model.history_["iteration"] == list(range(len(model.history_["loss"])))


@functools.cache
def uncut(name):
    """What a fit of nine iterations says if nothing cuts it."""
    model = make(name, max_iter=9, tol=0.0).fit(*table(name))
    return {"components": parameters(model), **bits(model)}


def bits(model):
    """All of a fit that does not depend on whether it was cut."""
    work = ("seconds", "n_evaluations", "share_of_pairs")  # evaluated once more where it goes on
    history = {key: column for key, column in model.history_.items() if key not in work}
    return {"objective": model.loss_, "rounds": model.rounds_, **history}


def assert_bits(model, expected):
    found = {"components": parameters(model), **bits(model)}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_equal(found[key], value, err_msg=key)


def through_json(cut):
    """Where a fit was cut, written without pickle and read again."""
    arrays = {}
    text = json.dumps(encode(cut, "cut", arrays), allow_nan=False)
    return decode(json.loads(text), arrays)


@needs_callbacks
@each(LEARNT, goes_on=True)
def test_a_checkpoint_goes_on_to_the_same_bits(name, tmp_path, monkeypatch):
    """After a power cut: a fit that no callback stopped, with its memory on disk."""
    make_storable(monkeypatch)
    X, y = table(name)
    path = tmp_path / "model.vic"
    model = make(name, max_iter=9, tol=0.0)
    model.set_callbacks(Checkpoint(path, every=4), Stop(6, RuntimeError("a power cut")))
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(X, y)
    saved = Checkpoint.load(path)
    assert saved.n_iter_ <= 4
    if name not in (*SEARCHED, "nca annealing"):  # these are not in the fit itself yet
        assert saved.n_iter_ == 4
        stopped = make(name, max_iter=9, tol=0.0).set_callbacks(Stop(4)).fit(X, y)
        assert_same(answers(saved, X), answers(stopped, X))
    again = make(name, max_iter=9, tol=0.0).fit(X, y, resume_from=path)
    assert_bits(again, uncut(name))
    assert again.n_iter_ == again.history_["iteration"][-1]


@needs_callbacks
@each(LEARNT, goes_on=True)
def test_a_fit_that_was_cut_goes_on_to_the_same_bits(name):
    """By a callback, or by Ctrl-C; what is left is plain data."""
    X, y = table(name)
    number = LEARNT.index(name)
    # Ctrl-C in the first candidate of a search ends the fit: there is nothing to go on from
    ctrl_c = number % 2 and name not in SEARCHED
    cut = Stop(2 + number % 7, KeyboardInterrupt() if ctrl_c else None)
    model = make(name, max_iter=9, tol=0.0, warm_start=True).set_callbacks(cut).fit(X, y)
    model.set_callbacks()
    model._resume = through_json(model._resume)
    assert_bits(model.fit(X, y), uncut(name))


@needs_callbacks
@pytest.mark.parametrize("settings", [{}, {"max_iter": 5}])
def test_a_cut_fit_makes_the_iterations_that_it_has_left_or_those_asked_for(settings):
    X, y = table("nca")
    model = make("nca", max_iter=9, tol=0.0, warm_start=True).set_callbacks(Stop(3)).fit(X, y)
    model.set_callbacks().set_params(**settings).fit(X, y)
    assert model.n_iter_ == settings.get("max_iter", 6)
    assert model.history_["iteration"][-1] == 3 + model.n_iter_
    model.set_params(max_iter=2).fit(X, y)  # now it had ended
    assert model.n_iter_ == 2


@needs_callbacks
@pytest.mark.parametrize("kind", ["none", "generator"])
@each(["nca early stopping", "nca random lists", "nca searched"], goes_on=True)
def test_a_cut_fit_goes_on_whatever_its_seed_was(name, kind):
    X, y = table(name)

    def model(**changes):
        np.random.seed(5)  # noqa: NPY002
        seed = None if kind == "none" else np.random.RandomState(7)
        return make(name, max_iter=9, tol=0.0, random_state=seed, **changes)

    whole = model().fit(X, y)
    cut = model(warm_start=True).set_callbacks(Stop(5)).fit(X, y)
    cut = pickle.loads(pickle.dumps(cut.set_callbacks()))
    np.random.seed(6)  # noqa: NPY002
    assert_bits(cut.fit(X, y), {"components": parameters(whole), **bits(whole)})


@needs_callbacks
def test_a_cut_fit_is_not_completed_on_other_rows():
    X, y = table("nca restarts")
    model = make("nca restarts", max_iter=9, warm_start=True).set_callbacks(Stop(3)).fit(X, y)
    other = np.roll(y, 1)
    model.set_callbacks().fit(X, other)
    assert model.history_["iteration"][-1] == 3 + model.n_iter_  # one run, from where it was
    assert model.n_iter_ <= 9


@needs_callbacks
@each(["nca", "knca", "mlkr", "nca regressor", "lmnn", "chi2 lmnn"])
def test_callbacks_watch_save_and_stop(name, tmp_path):
    X, y = table(name)
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    path = tmp_path / "model.joblib"
    model = make(name, early_stopping=True, n_neighbors="auto", max_iter=20)
    model.set_callbacks(Progress(console, interval=0), Checkpoint(path, every=3), StopAfter(600))
    model.fit(X, y)
    shown = console.file.getvalue()
    assert f"loss {model.history_['loss'][-1]:.6g}" in shown
    assert "held-out loss" in shown
    saved = Checkpoint.load(path)
    assert_same(answers(saved, X)[:4], answers(model, X)[:4])
    stopped = make(name, max_iter=50, tol=0.0)
    for callback, words in [
        (StopAfter(loss=1e6), "a callback stopped it"),
        (Stop(4), "a callback stopped it"),
        (Stop(4, KeyboardInterrupt()), "it was interrupted"),
    ]:
        with pytest.warns(ConvergenceWarning, match=words):
            stopped.set_callbacks(callback).fit(X, y)
        assert stopped.loss_ == pytest.approx(min(stopped.history_["loss"]), rel=1e-9)
        assert {len(column) for column in stopped.history_.values()} == {stopped.n_iter_ + 1}


# What is said and learnt


@each(LEARNT)
def test_history_is_a_table_and_the_best_map_is_kept(name):
    model = fitted(name)
    lengths = {len(column) for column in model.history_.values()}
    assert len(lengths) == 1
    assert model.history_["iteration"][-1] == model.n_iter_
    assert np.isfinite(model.loss_)
    plain = not any(
        word in name
        for word in ("early", "queries", "batches", "clusters", "sgd", "parts", "matches restarts")
    )
    if plain and not any(word in name for word in ("lists", "em", "parts", "targets", "subsample")):
        assert model.loss_ == pytest.approx(min(model.history_["loss"]), rel=1e-9)
    if "sgd" not in name:
        assert min(model.history_["loss"]) < model.history_["loss"][0]


@each(CLASSIFYING)
def test_prediction_is_the_likeliest_class(name):
    X, y = table(name)
    model = fitted(name)
    P = model.predict_proba(X)
    assert P.shape == (60, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    standard = model.get_params().get("scaling", None) in ("standard", "auto")
    assert model.score(X, y) > (0.85 if standard else 0.5)


@each()
def test_distances_agree_with_each_other(name):
    X, y = table(name)
    model = copy.deepcopy(fitted(name))
    pairs = np.stack([X[:20], X[20:40]], axis=1)
    metric, distances = model.get_metric(), model.pair_distance(pairs)
    np.testing.assert_allclose(distances, [metric(u, v) for u, v in pairs], rtol=1e-9)
    np.testing.assert_allclose(distances**2, [metric(u, v, squared=True) for u, v in pairs])
    np.testing.assert_array_equal(model.pair_score(pairs), -distances)
    if not name.startswith("chi2") and name not in BENT:
        M = model.get_mahalanobis_matrix()
        np.testing.assert_allclose(M, model.components_.T @ model.components_)
        difference = pairs[:, 0] - pairs[:, 1]
        plain = np.sqrt(np.einsum("ij,jk,ik->i", difference, M, difference))
        np.testing.assert_allclose(distances, plain, rtol=1e-9)
        Z = model.transform(X)
        np.testing.assert_allclose(Z, X @ model.components_.T, rtol=1e-9)
        np.testing.assert_allclose(distances, np.linalg.norm(Z[:20] - Z[20:40], axis=1), rtol=1e-8)
    if name in FAST:
        np.testing.assert_allclose(clone(model).fit_transform(X, y), model.transform(X), rtol=1e-9)
    before = metric(X[0], X[1])  # a later fit does not change it
    if "n_components" in model.get_params():
        model.set_params(n_components=1 if "diagonal" not in name else None)
    model.fit(X[:40], y[:40])
    assert metric(X[0], X[1]) == before
    for ask in ("get_metric", "pair_distance"):
        with pytest.raises(NotFittedError):
            getattr(clone(model), ask)(*([] if ask == "get_metric" else [pairs]))


@each(["nca", "knca", "lmnn", "chi2 lmnn", "nca diagonal"])
def test_unfinished_fits_say_so_at_the_line_of_the_user(name):
    X, y = table(name)
    model = make(name, max_iter=2, tol=0.0)
    words = f"{type(model).__name__} did not converge: the 2 iter"
    with pytest.warns(ConvergenceWarning, match=words) as told:
        model.fit(X, y)
    assert [warning.filename for warning in told] == [__file__]


@each(["nca", "knca", "mlkr", "nca regressor", "lmnn", "chi2 lmnn"])
def test_verbose_tells_the_cost_and_each_iteration(name, capsys):
    X, y = table(name)
    model = make(name, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert all(line.startswith(f"[{type(model).__name__}]") for line in lines)
    names = "iteration loss gradient seconds".split()
    assert sum(line.split()[1:] == names for line in lines) == 1  # one heading
    rest = lines[-len(model.history_["loss"]) :]
    for line, loss in zip(rest, model.history_["loss"], strict=True):
        assert f"{loss:.8f}" in line
    make(name).fit(X, y)
    assert capsys.readouterr().out == ""


@each(["nca", "knca", "mlkr", "nca regressor", "lmnn", "chi2 lmnn"])
def test_cost_is_known_before_the_fit(name):
    X, _ = table(name)
    cost = make(name).estimate_cost(X)
    assert 0 < cost.memory_bytes < 100e6
    assert cost.seconds_per_evaluation < 0.1
    assert make(name).estimate_cost(X.tolist()) == cost
    large = make(name).estimate_cost(np.broadcast_to(np.float32(0), (30_000, 400)))
    assert cost.memory_bytes < large.memory_bytes < 1e9
    assert "MiB beyond the input" in str(large)


@each(["nca", "knca", "mlkr", "nca regressor", "lmnn", "chi2 lmnn"])
def test_a_time_budget_is_kept(name):
    X, y = table(name, 3000)
    make(name, max_iter=1).fit(X, y)  # compiled
    began = perf_counter()
    model = make(name, time_budget=0.3, max_iter=10**6, tol=0.0)
    with pytest.warns(ConvergenceWarning, match=r"0\.3 seconds of 'time_budget' were used up"):
        model.fit(X, y)
    assert perf_counter() - began < 10
    assert min(model.history_["loss"]) <= model.history_["loss"][0]


@each(["nca", "knca", "mlkr", "nca regressor", "lmnn", "chi2 lmnn"])
def test_search_in_a_pipeline(name):
    X, y = table(name)
    pipeline = make_pipeline(MaxAbsScaler(), make(name, max_iter=10))
    stem = type(ESTIMATORS[name]).__name__.lower()
    grid = {f"{stem}__n_components": [1, 2], f"{stem}__tol": [1e-2, 1e-1]}
    numbers = name.startswith(NUMBERS)
    folds = KFold(3, shuffle=True, random_state=0) if numbers else 3
    search = GridSearchCV(pipeline, grid, cv=folds).fit(X, y)
    assert search.best_score_ > (0.4 if name.startswith("chi2") else 0.85)
    assert getattr(search, "predict" if numbers else "predict_proba")(X).shape[0] == 60


# Bad input


@each(PLAIN)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_nan_and_infinity_are_refused(name, bad, sparse):
    X, y = table(name)
    X, model = X.copy(), fitted(name)
    X[3, 1] = bad
    X = sp.csr_array(X) if sparse else X
    asks = [lambda: make(name).fit(X, y), lambda: model.transform(X)]
    if hasattr(model, "predict"):
        asks += [lambda: model.predict(X)]
    if hasattr(model, "predict_proba"):
        asks += [lambda: model.predict_proba(X)]
    for ask in asks:
        with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
            ask()


WRONG = [
    (lambda X, y: (X[:, 0], y), "Expected 2D array"),
    (lambda X, y: (X[:, :, None], y), "dim 3"),
    (lambda X, y: (X[:-1], y), "inconsistent numbers of samples"),
    (lambda X, y: (X, np.stack([y, y], axis=1)), "y should be a 1d array|a label distribution"),
    (lambda X, y: (X[:0], y[:0]), "0 sample"),
    (lambda X, y: (X[:, :0], y), "0 feature"),
    (lambda X, y: (X[:1], y[:1]), "minimum of 2 is required"),
    (lambda X, y: (X, None), "requires y to be passed"),
    (lambda X, y: (X, y + 0.25 * X[:, 0]), "Unknown label type"),
    (lambda X, y: (X, np.where(y < 1, np.nan, y)), "NaN"),
    (lambda X, y: (X.astype(str).astype(object) + "a", y), "could not convert"),
    (lambda X, y: (X + 1j, y), "Complex data not supported"),
    (
        lambda X, y: (X, np.array(["none" if label == 0 else 7 for label in y], dtype=object)),
        r"labels y must all be of one type\. Got int, str instead",
    ),
    # of those that classify
    (lambda X, y: (X, 0 * y), r"\w+ needs samples of at least 2 classes. Got 1 class.*\[0\]"),
    (
        lambda X, y: (X, np.arange(len(y))),
        r"\w+ needs a class of at least 2 samples\. Got \d+",
    ),
    # of those that scale columns
    (lambda X, y: (np.full_like(X, 7.0), y), r"no column that varies: all \d+ are constant"),
]


def is_wrong(name, message):
    """Whether it is to one that may do without classes, or without scales."""
    if name.startswith(NUMBERS):
        return not any(words in message for words in ("1d array", "label", "classes", "class of"))
    return {"rca": "needs", "chi2 lmnn": "varies"}.get(name, "no word") not in message


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        pytest.param(name, change, message, id=f"{name}-{message[:20]}")
        for change, message in WRONG
        for name in PLAIN
        if is_wrong(name, message)
    ],
)
def test_wrong_shapes_and_kinds_are_refused(name, change, message):
    model = make(name)
    with pytest.raises(ValueError, match=message):
        model.fit(*change(*table(name)))
    assert not hasattr(model, "components_")


@each(PLAIN)
def test_other_shapes_after_a_fit_are_refused(name):
    X, _ = table(name)
    model = fitted(name)
    D, stem = X.shape[1], type(model).__name__
    asks = ["transform", "predict", "predict_proba"]
    for ask in (ask for ask in asks if hasattr(model, ask)):
        with pytest.raises(ValueError, match=f"{D - 1} features, but {stem} is expecting {D}"):
            getattr(model, ask)(X[:, 1:])
    for ask, pairs in [("pair_distance", X), ("pair_score", np.zeros((2, 3, D)))]:
        with pytest.raises(ValueError, match=rf"pairs must have shape \(n_pairs, 2, {D}\). Got "):
            getattr(model, ask)(pairs)


class Nonsense:
    """Of no use to anybody."""


@each(PLAIN)
def test_every_parameter_is_checked_and_named(name):
    X, y = table(name)
    for parameter in ESTIMATORS[name].get_params():
        model = make(name).set_params(**{parameter: Nonsense()})
        with pytest.raises((ValueError, TypeError), match=f"'{parameter}'.*Nonsense"):
            model.fit(X, y)
        assert not hasattr(model, "components_"), parameter


def twice_stored(X):
    """A CSR matrix with two entries for every place: a quarter and three quarters of it."""
    n, D = X.shape
    data = np.stack([0.25 * X, 0.75 * X], axis=-1).ravel()
    columns = np.tile(np.repeat(np.arange(D), 2), n)
    return sp.csr_matrix((data, columns, 2 * D * np.arange(n + 1)), shape=X.shape)


@each(PLAIN)
def test_issue_14_entries_of_one_place_are_added(name):
    X, y = table(name)
    X = np.round(X * 8) / 8  # so that the sums are exact
    twice = twice_stored(X)
    once = twice.copy()
    once.sum_duplicates()
    model, expected = make(name).fit(twice, y), make(name).fit(once, y)
    assert_same(answers(model, twice), answers(expected, once))
    assert twice.nnz == 2 * X.size  # the user's own matrix is as it was


@each(PLAIN)
@pytest.mark.parametrize("wrong", ["rank", "rows", "start"])
def test_issue_14_a_refused_fit_changes_nothing(name, wrong):
    X, y = table(name)
    model = make(name).fit(X, y)
    before, told = dict(vars(model)), answers(model, X)
    names = np.array(["a", "b", "c"])[y.astype(int)]
    if wrong == "rank":
        model.set_params(n_components=99)
    elif wrong == "start" and "init" in before:
        model.set_params(init=np.full((2, 5), np.nan))
    other = np.full_like(X[:, :5], 7.0) if wrong == "rows" else X[:, :5]
    other = np.full_like(other, -1.0) if name.startswith("chi2") else other
    if name in CLOSED and wrong == "start":
        model.set_params(shrinkage=-1.0)
    with pytest.raises(ValueError):  # noqa: PT011 - each of many
        model.fit(other, names)
    for parameter in ("n_components", "init", "shrinkage"):
        if parameter in before:
            model.set_params(**{parameter: before[parameter]})
    assert vars(model).keys() == before.keys()
    assert all(value is before[key] for key, value in vars(model).items())
    assert_same(answers(model, X), told)


@each([name for name in PLAIN if hasattr(ESTIMATORS[name], "partial_fit")])
def test_issue_14_a_refused_batch_changes_nothing(name):
    X, y = table(name)
    fresh = make(name)
    with pytest.raises(ValueError, match="at least 2 classes"):
        fresh.partial_fit(X[y == 0], y[y == 0], classes=[0, 1, 2])
    assert not hasattr(fresh, "classes_")
    assert not hasattr(fresh, "n_features_in_")
    model = make(name).fit(X, y)
    told = answers(model, X)
    with pytest.raises(ValueError, match="reservoir_size"):
        model.set_params(reservoir_size=4).partial_fit(X, y + 5, classes=[5, 6, 7])
    assert_same(answers(model, X), told)
    # a stream whose second batch fails halfway
    model = make(name).partial_fit(X, y, classes=[0, 1, 2])
    told, seen = answers(model, X), model.n_samples_seen_
    kept = copy.deepcopy(model._stream)
    with pytest.raises(ValueError, match="must be among the classes"):
        model.partial_fit(X, y + 1)
    wild = np.tile(X, (20, 1))
    wild[-1] = 1e300
    with pytest.raises(ValueError, match=r"not finite|must lie within"):
        model.partial_fit(wild, np.tile(y, 20))
    assert_same(answers(model, X), told)
    assert model.n_samples_seen_ == seen
    assert model._stream.n_steps == kept.n_steps
    np.testing.assert_array_equal(model._stream.theta, kept.theta)
    np.testing.assert_array_equal(model._stream.reservoir.X, kept.reservoir.X)


@each([*PLAIN, "covariance", "from labels, itml", "nca distributions", "nca matches", "pair nca"])
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_rows_elsewhere_are_refused(name, kind):
    """Nothing is loaded without a word: the error says what does it."""
    X, y = table(name)
    remedy, moved = ELSEWHERE[kind]
    refused = pytest.raises(TypeError, match=rf"in the memory of .*\. Use \w+\.{remedy}\(\)")
    model = make(name)
    with refused:
        model.fit(moved(X), y)
    assert not hasattr(model, "n_features_in_")
    if hasattr(model, "partial_fit"):
        with refused:
            model.partial_fit(moved(X), y, classes=np.unique(y))
    if name in PLAIN:  # the others turn labels into what they learn from
        with refused:
            make(name).fit(X, moved(y))
    model = fitted(name)
    for method in ("transform", "predict", "predict_proba", "kneighbors", "inverse_transform"):
        if hasattr(model, method):
            with refused:
                getattr(model, method)(moved(X))
    if hasattr(model, "score"):
        with refused:
            model.score(moved(X), y)


@each([name for name in PLAIN if name not in CLOSED])
def test_without_a_tolerance_all_iterations_are_made(name):
    X, y = table(name)
    assert make(name, tol=1.0, max_iter=8).fit(X, y).n_iter_ < 8
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert make(name, tol=None, max_iter=8).fit(X, y).n_iter_ == 8


@each([name for name in PLAIN if name not in CLOSED])
def test_an_array_as_start_gives_the_rank(name):
    X, y = table(name)
    init = np.full((3, X.shape[1]), 1 / 3) if name.startswith("chi2") else np.eye(3, X.shape[1])
    model = make(name, n_components=None, init=init).fit(X, y)
    assert model.n_components_ == len(model.components_) == 3
    with pytest.raises(ValueError, match=r"'init' parameter of \w+ must .*shape \(2, "):
        make(name, n_components=2, init=init).fit(X, y)


@each(PLAIN)
def test_the_metric_takes_rows_and_vectors(name):
    X, _ = table(name)
    metric = fitted(name).get_metric()
    expected = metric(X[0], X[1])
    assert metric(X[:1], X[1:2]) == metric(sp.csr_array(X[:1]), X[1].tolist()) == expected
    with pytest.raises(ValueError, match=r"takes rows of shape \(\d+,\) or \(1, \d+\). Got"):
        metric(X[:2], X[1])


@each(["nca", "knca", "lmnn", "nca diagonal"])
@pytest.mark.parametrize("sparse", [False, True])
def test_issue_14_two_gross_rows_do_no_harm(name, sparse):
    X, y = load_wine(return_X_y=True)
    bad = np.array([3, 100])
    X = np.where(np.isin(np.arange(len(X)), bad)[:, None], 1000 * X, X)
    model = make(name, max_iter=10).fit(sp.csr_array(X) if sparse else X, y)
    good = np.delete(np.arange(len(X)), bad)
    assert model.score(X[good], y[good]) > 0.95
    assert np.isfinite(model.predict_proba(X[bad])).all()
    cell = X[good]
    cell[:, 4] *= 1000  # a column that matters little
    assert model.score(cell, y[good]) > 0.6
    np.testing.assert_array_equal(model.transform(X), X @ model.components_.T)
