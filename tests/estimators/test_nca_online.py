"""NCA on a stream: partial_fit, and the rows it remembers."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

from vicinal import NCA, starts
from vicinal.densities import Compact
from vicinal.fit.stream import Reservoir
from vicinal.neighborhoods import Tree
from vicinal.samplers import MiniBatches, StochasticQueries
from vicinal.solvers import SGD, Adam, InverseTime


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    return X[order], y[order]


@pytest.fixture(scope="module")
def blobs():
    """600 rows of five classes in ten columns, most of which are noise."""
    X, y = make_blobs(600, 3, centers=5, cluster_std=1.6, random_state=3)
    noise = np.random.RandomState(0).normal(scale=3.0, size=(600, 7))
    return np.hstack([X, noise]), y


def streamed(model, X, y, size=50, first=0, **kwargs):
    """Feed rows in batches; the classes come with the first."""
    classes = np.unique(y) if model._stream is None else None
    for start in range(first, len(y), size):
        rows = slice(start, start + size)
        weight = {name: value[rows] for name, value in kwargs.items()}
        model.partial_fit(X[rows], y[rows], classes=classes, **weight)
        classes = None
    return model


# What comes out


def test_a_stream_learns_nearly_as_well_as_a_fit(blobs):
    X, y = blobs
    train, test = slice(0, 450), slice(450, None)
    fitted = NCA(2, random_state=0, alpha=3e-3).fit(X[train], y[train])
    model = NCA(2, random_state=0, alpha=3e-3)
    for _ in range(4):
        streamed(model, X[train], y[train])
    start = NCA(2, random_state=0, tol=1e300, alpha=3e-3).fit(X[:50], y[:50])
    assert model.score(X[test], y[test]) > fitted.score(X[test], y[test]) - 0.05
    assert model.score(X[test], y[test]) > start.score(X[test], y[test])


@pytest.mark.parametrize("n", [300, 1100])  # all rows, and a sample of them
def test_the_first_batch_is_learnt_from(n, capsys):
    X, y = make_blobs(n + 200, 3, centers=5, cluster_std=1.6, random_state=3)
    X = np.hstack([X, np.random.RandomState(0).normal(scale=3.0, size=(n + 200, 7))])
    model = NCA(2, random_state=0, verbose=1).partial_fit(X[:n], y[:n], classes=range(5))
    assert f"improved on {min(n, 1000)} rows" in capsys.readouterr().out
    fitted = NCA(2, random_state=0, alpha=3e-3).fit(X[:n], y[:n])
    assert model.score(X[n:], y[n:]) > fitted.score(X[n:], y[n:]) - 0.03
    # the loss of the rows of a step before it is made: the map had been learnt by then
    assert model.history_["loss"][0] < 1.3 * fitted.loss_


def test_a_given_map_is_the_start_of_a_stream(iris, capsys):
    X, y = iris
    A = np.eye(2, 4)
    NCA(2, init=A, verbose=1, random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    assert "improved" not in capsys.readouterr().out


def test_all_that_is_documented_is_there(iris):
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3)
    with pytest.raises(NotFittedError):
        model.transform(X)
    streamed(model, X, y, 40)
    assert model.transform(X).shape == (150, 2)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.9
    assert model.n_samples_seen_ == 150
    assert model.n_iter_ == 4
    assert model.n_components_ == 2
    assert model.alpha_ == 3e-3
    assert model.n_features_in_ == 4
    assert model.rounds_ == {}
    assert model.n_neighbors_ == 5
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert len(model.effective_n_neighbors()) == 150
    assert model.effective_n_neighbors().mean() >= 1.0
    assert len(model.local_n_neighbors(X)) == 150
    assert isinstance(model.plan_.solver, Adam)
    assert model.plan_.sampling == StochasticQueries(200)
    assert "stream" in str(model.plan_)
    fitted = NCA(2, alpha=3e-3).fit(X, y)
    assert set(model.history_) == set(fitted.history_)
    assert model.history_["iteration"] == [4]  # of the last call: a stream may have no end
    assert model.history_["loss"] == [model.loss_]
    assert isinstance(model.get_metric()(X[0], X[1]), float)


def test_attributes_follow_the_stream(iris):
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X[:60], y[:60], classes=[0, 1, 2])
    assert len(model.effective_n_neighbors()) == 60
    model.partial_fit(X[60:], y[60:])
    assert len(model.effective_n_neighbors()) == 150
    assert not hasattr(model.fit(X, y), "n_samples_seen_")


def test_verbose_tells_of_each_step(iris, capsys):
    X, y = iris
    model = NCA(2, verbose=1, random_state=0, sampling=StochasticQueries(50), alpha=3e-3)
    model.partial_fit(X, y, classes=[0, 1, 2])
    lines = capsys.readouterr().out.splitlines()
    assert "the start was improved on 150 rows" in lines[0]
    assert "a stream, one batch after the other" in lines[1]
    assert lines[2].split()[1:] == ["iteration", "loss", "gradient", "seconds"]
    assert len(lines) == 6
    assert model.n_iter_ == 3


def test_transform_may_speak_pandas(iris):
    pytest.importorskip("pandas")
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3).set_output(transform="pandas")
    frame = model.partial_fit(X, y, classes=[0, 1, 2]).transform(X)
    assert list(frame.columns) == ["nca0", "nca1"]


@pytest.mark.parametrize("rule", ["posterior", "knn"])
def test_rows_one_by_one(iris, rule):
    X, y = iris
    model = NCA(2, rule=rule, random_state=0, alpha=3e-3).partial_fit(
        X[:100], y[:100], classes=[0, 1, 2]
    )
    streamed(model, X[100:], y[100:], 1)
    assert model.n_iter_ == 51
    assert model.n_samples_seen_ == 150
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "student"},
        {"kernel": "compact"},
        {"kernel": Compact(background=False), "objective": "accuracy"},
        {"mapping": "diagonal"},
        {"objective": "accuracy"},
        {"solver": "momentum"},
        {"solver": SGD(InverseTime(1.0, 20.0), momentum=0.5)},
        {"scaling": None, "alpha": "scaled"},
        {"scaling": "global", "init": starts.Random(2)},
        {"priors": [0.2, 0.3, 0.5]},
        {"sampling": "stochastic", "n_neighbors": "auto", "rule": "knn"},
    ],
    ids=repr,
)
def test_parts_go_with_a_stream(iris, settings):
    X, y = iris
    model = streamed(NCA(random_state=0, **settings), X, y)
    assert model.score(X, y) > 0.85
    assert np.isfinite(model.components_).all()


def test_a_stream_has_the_penalty_of_an_earlier_fit_or_a_constant(iris):
    X, y = iris
    model = streamed(NCA(random_state=0), X, y)
    assert model.alpha_ == 3e-3
    assert "alpha=0.003, as a search needs all rows" in model.plan_.reason
    model = NCA(random_state=0).fit(X, y)
    chosen = model.alpha_
    assert chosen != 3e-3
    assert model.partial_fit(X, y).alpha_ == chosen


@pytest.mark.parametrize("kernel", ["gaussian", "compact"])
def test_a_class_may_come_later(iris, kernel):
    X, y = iris
    early = y < 2
    model = NCA(2, kernel=kernel, random_state=0, alpha=3e-3)
    model.partial_fit(X[early], y[early], classes=[0, 1, 2])
    P = model.predict_proba(X)
    np.testing.assert_array_equal(P[:, 2], 0.0)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    for rows in np.array_split(np.flatnonzero(~early), 5):
        model.partial_fit(X[rows], y[rows])
    assert model.score(X[~early], y[~early]) > 0.6


def test_the_compact_background_follows_the_counts(iris):
    X, y = iris
    model = NCA(2, kernel="compact", random_state=0, alpha=3e-3)
    model.partial_fit(X[:30], y[:30], classes=[0, 1, 2]).partial_fit(X[30:], y[30:])
    np.testing.assert_allclose(model._model.background, 1 / (np.bincount(y) + 1))


# Scaling, precision, tables


def test_a_rank_of_no_effect_is_complained_about_once(iris):
    X, y = iris
    model = NCA(2, mapping="diagonal", random_state=0, alpha=3e-3)
    with pytest.warns(UserWarning, match="n_components=2 has no effect"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with warnings.catch_warnings(action="error"):
        model.partial_fit(X, y)


def test_the_scaling_is_that_of_the_first_batch(iris):
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    scale, shift = model._map.scale, model._map.shift
    np.testing.assert_allclose(scale, 1 / X[:100].std(axis=0))
    before = model.transform(X[:100])
    # rows of another size: they move the map by a step of learning, not by their scale
    model.partial_fit(X[100:] * 1.5 + 1.0, y[100:])
    np.testing.assert_array_equal(model._map.scale, scale)
    np.testing.assert_array_equal(model._map.shift, shift)
    assert np.abs(model.transform(X[:100]) - before).max() < 0.3 * np.ptp(before)


def test_a_column_without_variance_stays_without_weight(iris):
    X, y = iris
    X = np.insert(X, 2, 0.0, axis=1)
    model = NCA(random_state=0, alpha=3e-3).partial_fit(X[:75], y[:75], classes=[0, 1, 2])
    X[75:, 2] = np.arange(75)
    model.partial_fit(X[75:], y[75:])
    np.testing.assert_array_equal(model.components_[:, 2], 0.0)
    assert model.feature_importances_[2] == 0.0


def test_precision_and_threads(iris):
    X, y = iris
    for dtype in (np.float32, np.float64):
        models = []
        for threads in (1, 2):
            with threadpool_limits(threads):
                models.append(streamed(NCA(2, random_state=0, alpha=3e-3), X.astype(dtype), y))
        assert models[0].components_.dtype == dtype
        assert models[0].transform(X.astype(dtype)).dtype == dtype
        np.testing.assert_array_equal(models[0].components_, models[1].components_)


def test_sparse_tables(iris):
    X, y = iris
    X = np.where(X > 1.5, X, 0.0)
    dense = streamed(NCA(2, random_state=0, alpha=3e-3), X, y)
    sparse = streamed(NCA(2, random_state=0, alpha=3e-3), sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.components_, dense.components_, rtol=1e-6, atol=1e-9)
    mixed = NCA(2, random_state=0, alpha=3e-3).partial_fit(X[:50], y[:50], classes=[0, 1, 2])
    mixed.partial_fit(sp.csr_array(X[50:100]), y[50:100]).partial_fit(X[100:], y[100:])
    np.testing.assert_allclose(mixed.components_, dense.components_, rtol=1e-6, atol=1e-9)


# Weights


def test_rows_of_weight_zero_are_not_there(iris):
    X, codes = iris
    y = np.array(["no", "perhaps", "yes"])[codes]
    weight = 0.5 + np.arange(150) % 3
    weight[::5] = 0.0
    kept = weight > 0
    model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X, y, np.unique(y), sample_weight=weight)
    without = NCA(2, random_state=0, alpha=3e-3)
    without.partial_fit(X[kept], y[kept], np.unique(y), sample_weight=weight[kept])
    np.testing.assert_array_equal(model.components_, without.components_)
    assert model.n_samples_seen_ == kept.sum()
    plain = NCA(2, random_state=0, alpha=3e-3).partial_fit(X, y, np.unique(y))
    assert not np.allclose(plain.components_, model.components_)
    with pytest.raises(ValueError, match="sample_weight must not be zero for all rows"):
        model.partial_fit(X, y, sample_weight=np.zeros(150))


@pytest.mark.parametrize("factor", [2.0**-664, 2.0**664, 2.0**1020])
def test_a_common_factor_of_all_batches_changes_no_bit(iris, factor):
    X, y = iris
    weight = 0.5 + np.arange(150) % 7
    models = []
    for unit in (1.0, factor):
        model = NCA(2, random_state=0, alpha=3e-3)
        for rows in (slice(0, None, 3), slice(1, None, 3), slice(2, None, 3)):
            model.partial_fit(X[rows], y[rows], [0, 1, 2], sample_weight=unit * weight[rows])
        models.append(model)
    np.testing.assert_array_equal(models[1].components_, models[0].components_)
    np.testing.assert_array_equal(models[1].predict_proba(X), models[0].predict_proba(X))


def test_batches_weigh_as_given_against_each_other(iris):
    """The second batch outweighs the first, although all of its rows are alike."""
    X, y = iris
    shares = []
    for weight in (1.0, 64.0):
        model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X[y < 2], y[y < 2], [0, 1, 2])
        model.partial_fit(X[y == 2], y[y == 2], sample_weight=np.full(50, weight))
        shares.append(model.predict_proba(X[y == 1])[:, 2].mean())
    assert shares[1] > 2 * shares[0]


def test_classes_weigh_as_much_as_in_the_stream(rng):
    # nine in ten are of class 0, and the columns tell nothing: so should the posterior say
    y = (rng.uniform(size=2000) < 0.1).astype(int)
    X = rng.normal(size=(2000, 2))
    model = streamed(NCA(2, alpha=0.1, reservoir_size=100, random_state=0), X, y, 500)
    counts = np.bincount(model._stream.reservoir.codes)
    np.testing.assert_array_equal(counts, [50, 50])
    P = model.predict_proba(X[:200])
    assert P[:, 0].mean() == pytest.approx(0.9, abs=0.05)


# The reservoir


@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_reservoir_is_a_uniform_sample_of_each_class(size):
    # Rows are their numbers; over many streams each is kept equally often.
    n, capacity, runs = 30, 4, 150
    codes = (np.arange(n) % 3 == 0).astype(int)  # 20 and 10 rows
    times = np.zeros(n)
    random_state = np.random.RandomState(0)
    for _ in range(runs):
        reservoir = Reservoir(capacity)
        for start in range(0, n, size):
            rows = np.arange(start, min(start + size, n))
            reservoir.add(rows[:, None] * 1.0, codes[rows], np.ones(len(rows)), random_state)
            assert np.bincount(reservoir.codes, minlength=2).max() <= capacity
        kept = reservoir.X[:, 0].astype(int)
        assert len(np.unique(kept)) == len(kept) == 2 * capacity
        np.testing.assert_array_equal(reservoir.codes, codes[kept])
        times[kept] += 1
    for c in (0, 1):
        assert chisquare(times[codes == c]).pvalue > 0.01


def test_a_reservoir_of_all_classes_is_a_uniform_sample_of_the_stream():
    n, capacity = 30, 8
    codes = (np.arange(n) % 3 == 0).astype(int)
    times = np.zeros(n)
    random_state = np.random.RandomState(0)
    for _ in range(150):
        reservoir = Reservoir(capacity, by_class=False)
        for rows in np.array_split(np.arange(n), 4):
            reservoir.add(rows[:, None] * 1.0, codes[rows], np.ones(len(rows)), random_state)
        kept = reservoir.X[:, 0].astype(int)
        assert len(np.unique(kept)) == len(kept) == capacity
        np.testing.assert_array_equal(reservoir.codes, codes[kept])
        times[kept] += 1
    assert chisquare(times).pvalue > 0.01


def test_no_more_rows_are_remembered_than_asked_for(blobs):
    X, y = blobs
    model = NCA(2, reservoir_size=52, random_state=0, alpha=3e-3)
    sizes = []
    for rows in np.array_split(np.arange(600), 12):
        model.partial_fit(X[rows], y[rows], classes=range(5))
        sizes.append(len(model._stream.reservoir))
    assert max(sizes) == sizes[-1] == 50  # ten of each class
    assert len(model._model.Z) == 50
    assert len(pickle.dumps(model)) < 50_000


# Before, after and between


def test_fit_forgets_the_stream(iris):
    X, y = iris
    model = streamed(NCA(2, random_state=0, alpha=3e-3), X[:100], y[:100]).fit(X, y)
    np.testing.assert_array_equal(
        model.components_, NCA(2, random_state=0, alpha=3e-3).fit(X, y).components_
    )
    assert model.partial_fit(X, y).n_samples_seen_ == 150  # another, of the same classes
    with pytest.raises(ValueError, match="is not the same as on the last call"):
        model.partial_fit(X, y, classes=[0, 1])


def test_a_stream_after_a_fit_begins_at_its_map(iris):
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3).fit(X, y)
    before = model.transform(X)
    model.partial_fit(X[:30], y[:30], classes=[0, 1, 2])
    assert model.n_samples_seen_ == 30
    assert len(model._model.Z) == 30  # nothing else is remembered
    assert np.abs(model.transform(X) - before).max() < 0.2 * np.ptp(before)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_fit_after_a_stream_begins_at_its_map(iris):
    X, y = iris
    model = streamed(NCA(2, random_state=0, warm_start=True, max_iter=1, alpha=3e-3), X, y)
    Z = model.transform(X)
    model.fit(X, y)
    assert np.abs(model.transform(X) - Z).max() < 0.5 * np.ptp(Z)


def test_pickles_and_copies(iris):
    X, y = iris
    model = streamed(NCA(2, random_state=0, alpha=3e-3), X[:80], y[:80], 40)
    again = pickle.loads(pickle.dumps(model))
    for one in (model, again):
        streamed(one, X[80:], y[80:], 20)
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model)._stream is None
    assert clone(model).get_params() == model.get_params()
    other = streamed(NCA(2, random_state=0, alpha=3e-3), X[:80], y[:80], 40)
    streamed(other, X[80:], y[80:], 20)
    np.testing.assert_array_equal(other.components_, model.components_)


# Bad input


def test_classes_are_declared_once(iris):
    X, y = iris
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        NCA(alpha=3e-3).partial_fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        NCA(alpha=3e-3).partial_fit(X, y, classes=[1])
    with pytest.raises(ValueError, match=r"among the classes declared .* Got \[2\] instead"):
        NCA(alpha=3e-3).partial_fit(X, y, classes=[0, 1])
    model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X[:50], y[:50], classes=[0, 1, 2])
    model.partial_fit(X[50:60], y[50:60], classes=[2, 1, 0])
    with pytest.raises(ValueError, match="is not the same as on the last call to partial_fit"):
        model.partial_fit(X[60:], y[60:], classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"must be among the classes declared .* Got \[7\]"):
        model.partial_fit(X[60:], np.full(90, 7))
    model.partial_fit(X[60:], y[60:])  # nothing is lost
    assert model.n_samples_seen_ == 150


def test_the_first_batch_has_two_classes(iris):
    X, y = iris
    model = NCA(2, alpha=3e-3)
    with pytest.raises(ValueError, match=r"must hold rows of at least 2 classes.* Got \[1\] alone"):
        model.partial_fit(X[y == 1], y[y == 1], classes=[0, 1, 2])
    assert model.partial_fit(X, y, classes=[0, 1, 2]).n_samples_seen_ == 150


def test_features_may_not_change_in_number(iris):
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="X has 3 features, but NCA is expecting 4 features"):
        model.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(X, y[:10])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((2, 4), np.nan), y[:2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"early_stopping": True}, "'early_stopping' .* no end to stop before"),
        ({"time_budget": 3.0}, "'time_budget' .* each call takes its own time"),
        ({"n_components": "auto"}, "'n_components' .* a search needs all rows"),
        ({"neighborhood": Tree()}, "'neighborhood' .* the reservoir bounds their number"),
        ({"sampling": MiniBatches()}, "'sampling' .* new rows are the queries"),
        ({"sampling": "full"}, "'sampling' .* new rows are the queries"),
        ({"kernel": Compact(beta="em")}, "'kernel' .* learning 'beta' needs all rows"),
        ({"solver": "lbfgs"}, "'solver' .* for partial_fit, which sees each batch once"),
        ({"solver": "sgd"}, "or an SGD with a learning rate for partial_fit"),
        ({"reservoir_size": 5}, "two rows for each of the 3 classes, 6 in all. Got 5"),
        ({"n_components": 9}, "'n_components' parameter of NCA must be an int in"),
    ],
    ids=repr,
)
def test_what_a_stream_cannot_honour_is_refused(iris, settings, message):
    X, y = iris
    with pytest.raises((ValueError, AttributeError)) as told:
        NCA(alpha=3e-3, **settings).partial_fit(X, y, classes=[0, 1, 2])
    reason = told.value
    if isinstance(reason, AttributeError):  # scikit-learn's way to say that a method is missing
        assert not hasattr(NCA(alpha=3e-3, **settings), "partial_fit")
        reason = reason.__cause__
    assert re.search(message, str(reason))


@pytest.mark.parametrize(
    "changed",
    [{"alpha": 1.0}, {"kernel": "student"}, {"solver": Adam(0.1)}, {"priors": [0.2, 0.3, 0.5]}],
    ids=lambda changed: next(iter(changed)),
)
def test_what_the_first_call_has_settled_may_not_change(iris, changed):
    X, y = iris
    settings = {"priors": np.full(3, 1 / 3), "sampling": StochasticQueries(40), "random_state": 0}
    model = NCA(2, alpha=3e-3, **settings).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    model = pickle.loads(pickle.dumps(model)).set_params(priors=np.full(3, 1 / 3))  # equal: fine
    model.set_params(verbose=0, rule="knn").partial_fit(X[100:], y[100:])
    (name,) = changed
    with pytest.raises(ValueError, match=f"'{name}' parameter of NCA must stay"):
        model.set_params(**changed).partial_fit(X, y)
    model.fit(X, y)  # begins anew
    model.partial_fit(X, y, classes=[0, 1, 2])


def test_rows_far_out_do_no_silent_harm(iris):
    X, y = iris
    model = NCA(2, random_state=0, alpha=3e-3).partial_fit(X, y, classes=[0, 1, 2])
    before = model.components_
    with warnings.catch_warnings(action="error"), pytest.raises(ValueError, match="not finite"):
        model.partial_fit(X[:10] * 1e150, y[:10])
    np.testing.assert_array_equal(model.components_, before)
    model.partial_fit(X[:10], y[:10])
    assert model.score(X, y) > 0.9
