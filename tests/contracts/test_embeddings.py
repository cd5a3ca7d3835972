"""What every estimator of an embedding keeps to.  A new one is a line in `ESTIMATORS`."""

from __future__ import annotations

import functools
import io
import json
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from common.callbacks import Stop
from common.checks import each_dtype, needs_callbacks, set_threads
from common.elsewhere import ELSEWHERE
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from vicinal import KSNE
from vicinal.callbacks import Checkpoint, Progress, StopAfter
from vicinal.fit import embedding
from vicinal.solvers import Momentum
from vicinal.storage.codec import decode, encode

ESTIMATORS = {
    "ksne": KSNE(k=3, perplexity=8),
    "ksne gaussian": KSNE(1, 2, kernel="gaussian", perplexity=8, init="spectral"),
    "ksne unisne": KSNE(3, 1, kappa=0.01, perplexity=5, init="random", metric="manhattan"),
    "ksne linear": KSNE(k=3, mapping="linear", perplexity=8),
    "ksne linear momentum": KSNE(k=2, mapping="linear", perplexity=8, solver=Momentum(0.1)),
}
PLAIN = ["ksne", "ksne linear"]

pytestmark = pytest.mark.filterwarnings("ignore:KSNE did not converge")


def each(names=tuple(ESTIMATORS)):
    marks = {name: pytest.mark.options for name in ESTIMATORS if name not in PLAIN}
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=marks.get(name, ())) for name in names]
    )


def make(name, **changes):
    """The estimator, unfitted, with a few iterations in each of its stages."""
    short = {"max_iter": 9, "early_exaggeration_iter": 4, "random_state": 0}
    return clone(ESTIMATORS[name]).set_params(**{**short, **changes})


@functools.cache
def table(n=45):
    """A quarter of wine; more rows are made up."""
    if n == 45:
        return StandardScaler().fit_transform(load_wine().data)[::4]
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 6)) + 3 * rng.standard_normal((4, 6))[np.arange(n) % 4]


@functools.cache
def fitted(name):
    """One fit for all tests that only look."""
    return make(name).fit(table())


def answers(model, X):
    """All that a fitted model says, also of rows that it has not seen."""
    told = [model.embedding_, model.transform(X), model.transform(X[:5] * 1.01)]
    return [*told, model.history_["loss"], model.kl_divergence_]


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


# The same again


@each()
def test_two_fits_have_the_same_bits(name):
    X = table()
    assert_same(answers(make(name).fit(X), X), answers(fitted(name), X))


@each()
@each_dtype
@pytest.mark.parametrize("n", [45, 700])
def test_thread_count_agnosticism(name, dtype, n, monkeypatch):
    X, told = table(n).astype(dtype), []
    for threads in (1, 2):
        set_threads(monkeypatch, threads)
        with threadpool_limits(threads):
            told.append(answers(make(name, max_iter=5).fit(X), X))
    assert_same(*told)


def test_random_state_decides_where_something_is_drawn():
    def fit(name, seed):
        return make(name, random_state=seed).fit(table()).embedding_

    np.testing.assert_array_equal(fit("ksne unisne", 3), fit("ksne unisne", 3))
    np.testing.assert_array_equal(
        fit("ksne unisne", 3), fit("ksne unisne", np.random.RandomState(3))
    )
    assert not np.array_equal(fit("ksne unisne", 3), fit("ksne unisne", 4))
    np.testing.assert_array_equal(fit("ksne", 3), fit("ksne", 4))  # principal components


@each()
def test_fit_forgets_the_fit_before(name):
    X = table()
    model = make(name).fit(X[:, ::-1][:40])
    assert_same(answers(model.fit(X), X), answers(fitted(name), X))


@each(PLAIN)
def test_labels_are_ignored(name):
    X = table()
    y = np.array(["a", None] * 22 + [3], dtype=object)
    assert_same(answers(make(name).fit(X, y), X), answers(fitted(name), X))
    np.testing.assert_array_equal(make(name).fit_transform(X, y), fitted(name).embedding_)


# Rows


@each()
def test_transform_of_the_training_rows_is_the_embedding(name):
    X = table()
    np.testing.assert_array_equal(fitted(name).transform(X), fitted(name).embedding_)
    some = fitted(name).transform(X[7:9])
    tolerance = 1e-12 * np.abs(some).max() if "linear" in name else 0.0
    np.testing.assert_allclose(some, fitted(name).embedding_[7:9], rtol=0, atol=tolerance)


@each()
@pytest.mark.parametrize("n", [45, 700])
def test_new_rows_are_placed_each_by_itself(name, n):
    X = table(n)
    model = make(name).fit(X)
    new = X[:20] + 0.05
    together = model.transform(new)
    assert np.isfinite(together).all()
    # a map is a product of matrices, which rounds differently for other shapes
    tolerance = 1e-12 * np.abs(together).max() if "linear" in name else 0.0
    for i in (0, 7, 19):
        alone = model.transform(new[i : i + 1])[0]
        np.testing.assert_allclose(alone, together[i], rtol=0, atol=tolerance)
    back = model.transform(new[::-1])[::-1]
    np.testing.assert_allclose(back, together, rtol=0, atol=tolerance)


@each()
def test_does_not_change_its_input(name):
    X = table()
    for rows in (X.copy(), np.asfortranarray(X), sp.csr_array(X)):
        if isinstance(rows, np.ndarray):
            rows.setflags(write=False)
        make(name, max_iter=2).fit(rows).transform(rows)
        dense = rows.toarray() if sp.issparse(rows) else rows
        np.testing.assert_array_equal(dense, X)


@each()
def test_sparse_equals_dense(name):
    X = table()
    dense = make(name, max_iter=3).fit(X)
    for wrap in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        sparse = make(name, max_iter=3).fit(wrap(X))
        size = np.abs(dense.embedding_).max()
        np.testing.assert_allclose(sparse.embedding_, dense.embedding_, atol=1e-5 * size)
        near = np.abs(sparse.transform(wrap(X[:3] * 1.01)) - dense.transform(X[:3] * 1.01))
        assert near.max() < 1e-4 * size


@each()
def test_float32_stays_float32(name):
    X = table()
    model = make(name).fit(X.astype(np.float32))
    assert model.embedding_.dtype == model.transform(X.astype(np.float32)).dtype == np.float32
    assert fitted(name).embedding_.dtype == fitted(name).transform(X).dtype == np.float64
    assert model.kl_divergence_ == pytest.approx(fitted(name).kl_divergence_, rel=1e-2)


@each(PLAIN)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_in_and_out(name, library):
    frames = pytest.importorskip(library)
    X = table()
    names = [f"column {i}" for i in range(X.shape[1])]
    frame = frames.DataFrame({column: X[:, i] for i, column in enumerate(names)})
    model = make(name).set_output(transform=library)
    Z = model.fit_transform(frame)
    assert isinstance(Z, frames.DataFrame)
    assert isinstance(model.transform(frame), frames.DataFrame)
    assert model.feature_names_in_.tolist() == names
    assert list(Z.columns) == model.get_feature_names_out().tolist() == ["ksne0", "ksne1"]
    # frames are stored by columns, and sums over them round differently
    np.testing.assert_allclose(Z.to_numpy(), fitted(name).embedding_, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[names[::-1]])


@each()
def test_odd_tables_do_no_harm(name, rng):
    """Twins, constant columns, fewer rows than columns, any scale, very few rows: never a NaN."""
    X = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in [
            np.repeat(X[::4], 3, axis=0),
            np.repeat(X[::20], 12, axis=0),
            np.column_stack([X, np.full(45, 3.0)]),
            rng.normal(size=(10, 25)),
            1e-8 * X,
            1e8 * X,
            X[:2],
            X[:3],
            X[:4],
        ]:
            model = make(name).fit(rows)
            for part in answers(model, rows):
                assert np.isfinite(part).all()


# Copies


@each()
def test_clones_are_unfitted_and_equal(name):
    twin = clone(fitted(name))
    assert repr(twin.get_params()) == repr(fitted(name).get_params())
    assert not [key for key in vars(twin) if key.endswith("_") and not key.startswith("_")]
    with pytest.raises(NotFittedError):
        twin.transform(table())


@each()
def test_pickles_say_the_same(name):
    X = table()
    fitted(name).transform(X[:3] * 1.01)
    again = pickle.loads(pickle.dumps(fitted(name)))
    assert_same(answers(again, X), answers(fitted(name), X))


# Fits that go on


@each()
def test_two_fits_end_in_the_bits_of_one(name):
    """Of which the second goes on from a pickle."""
    X = table()
    whole = make(name, max_iter=12).fit(X)
    half = make(name, max_iter=6, warm_start=True).fit(X)
    assert half.n_iter_ == 6
    half = pickle.loads(pickle.dumps(half)).fit(X)
    assert_same(answers(half, X), answers(whole, X))


def through_json(state):
    """The state of a fit, written without pickle and read again."""
    arrays = {}
    return decode(json.loads(json.dumps(encode(state, "state", arrays), allow_nan=False)), arrays)


@needs_callbacks
@each()
@pytest.mark.parametrize("after", [3, 4, 5, 7])
@pytest.mark.parametrize("raises", [None, KeyboardInterrupt])
def test_a_fit_that_was_cut_goes_on_to_the_same_bits(name, after, raises):
    """Before, at and after the end of early exaggeration; what is left is plain data."""
    X = table()
    stop = Stop(after, None if raises is None else raises())
    model = make(name, warm_start=True).set_callbacks(stop)
    words = "a callback stopped it" if raises is None else "it was interrupted"
    with pytest.warns(ConvergenceWarning, match=f"{words} after .*The best picture so far is kept"):
        model.fit(X)
    assert model.n_iter_ < 9
    model._resume = model._resume._replace(state=through_json(model._resume.state))
    model.set_callbacks().fit(X)
    assert model.history_["iteration"] == list(range(10))
    assert_same(answers(model, X), answers(fitted(name), X))


@needs_callbacks
@each()
def test_a_checkpoint_goes_on_to_the_same_bits(name, tmp_path):
    """After a power cut: a fit that no callback stopped, with its memory on disk."""
    X, path = table(), tmp_path / "model.vic"
    model = make(name)
    model.set_callbacks(Checkpoint(path, every=3), Stop(7, RuntimeError("a power cut")))
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(X)
    assert not hasattr(model, "embedding_")
    saved = Checkpoint.load(path)
    assert saved.n_iter_ == 6
    stopped = make(name).set_callbacks(Stop(6)).fit(X)
    assert_same(answers(saved, X), answers(stopped, X))
    again = make(name).fit(X, resume_from=path)
    assert_same(answers(again, X), answers(fitted(name), X))
    assert again.n_iter_ == fitted(name).n_iter_


@needs_callbacks
def test_a_second_fit_that_was_cut_is_completed(tmp_path):
    """By a later fit, or from a checkpoint; the iterations of the first one do not count."""
    X, path = table(), tmp_path / "model.vic"
    whole = make("ksne", warm_start=True).fit(X).fit(X)
    cut = make("ksne", warm_start=True).fit(X)
    cut.set_callbacks(Checkpoint(path, every=1), Stop(4)).fit(X).set_callbacks().fit(X)
    assert cut.history_["loss"] == whole.history_["loss"]
    again = make("ksne", warm_start=True).fit(X, resume_from=path)
    assert again.history_["loss"] == whole.history_["loss"]
    assert again.n_iter_ == whole.n_iter_ == 9


@needs_callbacks
def test_a_cut_fit_is_not_completed_on_other_rows():
    X = table()
    model = make("ksne", warm_start=True).set_callbacks(Stop(3)).fit(X)
    model.set_callbacks().fit(X[::-1])
    assert_same(answers(model, X), answers(make("ksne").fit(X[::-1]), X))


@needs_callbacks
@each(PLAIN)
def test_callbacks_watch_save_and_stop(name, tmp_path):
    X = table()
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=100)
    path = tmp_path / "model.joblib"
    model = make(name).set_callbacks(
        Progress(console, interval=0), Checkpoint(path, every=3), StopAfter(600)
    )
    model.fit(X)
    assert f"loss {model.history_['loss'][-1]:.6g}" in console.file.getvalue()
    assert_same(answers(Checkpoint.load(path), X), answers(model, X))


@needs_callbacks
@each(PLAIN)
def test_callbacks_are_told_of_the_affinities_before_they_are_computed(name, monkeypatch):
    told, compute = [], embedding.affinities

    class Listen(Stop):
        def on_fit_activity(self, estimator, context, activity):
            told.append(activity.words)

    def affinities(*args, **kwargs):
        told.append("they are computed")
        return compute(*args, **kwargs)

    monkeypatch.setattr(embedding, "affinities", affinities)
    make(name).set_callbacks(Listen(99)).fit(table())
    expected = ["computing the affinities", "they are computed", "preparing the start", ""]
    assert [words for words in told if "compiling" not in words][:4] == expected


@needs_callbacks
@each()
def test_callbacks_find_the_embedding_at_hand(name):
    X, seen = table(), []

    class Look(Stop):
        def on_fit_task_end(self, estimator, context):
            seen.append(estimator.embedding_)

    model = make(name).set_callbacks(Look(0)).fit(X)
    assert len(seen) == 9 + 1  # the last one is that of the fit
    assert {Z.shape for Z in seen} == {model.embedding_.shape}
    assert not np.array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[-1], model.embedding_)


# What is said


@each()
def test_history_is_a_table_and_the_best_picture_is_kept(name):
    model = fitted(name)
    assert {len(column) for column in model.history_.values()} == {10}
    assert model.n_iter_ == model.history_["iteration"][-1] == 9
    assert model.kl_divergence_ == pytest.approx(min(model.history_["loss"][5:]), rel=1e-9)


@each(PLAIN)
def test_verbose_tells_the_cost_and_each_iteration(name, capsys):
    model = make(name, verbose=1).fit(table())
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert "computing the affinities" in lines[1]
    assert all(line.startswith("[KSNE]") for line in lines)
    rest = lines[-len(model.history_["loss"]) :]
    for line, loss in zip(rest, model.history_["loss"], strict=True):
        assert f"{loss:.8f}" in line
    make(name).fit(table())
    assert capsys.readouterr().out == ""


@each()
def test_cost_is_known_before_the_fit(name):
    cost = make(name).estimate_cost(table())
    assert 0 < cost.memory_bytes < 10e6
    assert cost.seconds_per_evaluation < 0.1
    assert make(name).estimate_cost(table().tolist()) == cost
    large = make(name).estimate_cost(np.broadcast_to(np.float32(0), (30_000, 400)))
    assert cost.memory_bytes < large.memory_bytes < 1e9
    assert "MiB beyond the input" in str(large)


# Bad input


@each(PLAIN)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse", [False, True])
def test_nan_and_infinity_are_refused(name, bad, sparse):
    X = table().copy()
    X[3, 1] = bad
    X = sp.csr_array(X) if sparse else X
    for ask in (make(name).fit, fitted(name).transform):
        with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
            ask(X)


WRONG = [
    (lambda X: X[:, 0], "Expected 2D array"),
    (lambda X: X[:, :, None], "dim 3"),
    (lambda X: X[:0], "0 sample"),
    (lambda X: X[:, :0], "0 feature"),
    (lambda X: X[:1], "minimum of 2 is required"),
    (lambda X: X.astype(str).astype(object) + "a", "could not convert"),
    (lambda X: X + 1j, "Complex data not supported"),
]


@each(PLAIN)
@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message[:20] for _, message in WRONG])
def test_wrong_shapes_and_kinds_are_refused(name, change, message):
    model = make(name)
    with pytest.raises(ValueError, match=message):
        model.fit(change(table()))
    assert not hasattr(model, "embedding_")


@each(PLAIN)
def test_other_shapes_after_a_fit_are_refused(name):
    D = table().shape[1]
    with pytest.raises(ValueError, match=f"{D - 1} features, but KSNE is expecting {D}"):
        fitted(name).transform(table()[:, 1:])


@each(PLAIN)
@pytest.mark.parametrize("kind", ELSEWHERE)
def test_rows_elsewhere_are_refused(name, kind):
    remedy, moved = ELSEWHERE[kind]
    for call in (make(name).fit, make(name).fit_transform, fitted(name).transform):
        with pytest.raises(TypeError, match=rf"Use X\.{remedy}\(\)"):
            call(moved(table()))


class Nonsense:
    """Of no use to anybody."""


@each(PLAIN)
def test_every_parameter_is_checked_and_named(name):
    for parameter in ESTIMATORS[name].get_params():
        model = make(name).set_params(**{parameter: Nonsense()})
        with pytest.raises((ValueError, TypeError), match=f"'{parameter}'.*Nonsense"):
            model.fit(table())
        assert not hasattr(model, "embedding_"), parameter


@each(PLAIN)
@pytest.mark.parametrize("change", [{"n_components": 0}, {"init": np.full((2, 5), np.nan)}])
def test_a_refused_fit_changes_nothing(name, change):
    X = table()
    model = make(name).fit(X)
    before, told = dict(vars(model)), answers(model, X)
    was = {key: before[key] for key in change}
    with pytest.raises(ValueError):  # noqa: PT011 - each of several
        model.set_params(**change).fit(X[:, :5])
    model.set_params(**was)
    assert vars(model).keys() == before.keys()
    assert all(value is before[key] for key, value in vars(model).items())
    assert_same(answers(model, X), told)
