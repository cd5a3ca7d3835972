"""Ranks and penalties that a fit chooses itself: n_components="auto", alpha="auto"."""

import warnings
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from common.callbacks import Stop
from common.checks import needs_callbacks, unfinished
from common.hooks import hooked
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning

from vicinal import NCA
from vicinal.callbacks import Checkpoint, StopAfter
from vicinal.datasets import make_rings
from vicinal.estimators import _nca
from vicinal.fit import search
from vicinal.fit.method import ALPHAS, DEFAULT_ALPHA
from vicinal.fit.report import HAS_CALLBACKS, Reports
from vicinal.fit.search import cross_validation


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "parameters",
    [
        {"alpha": "auto"},
        {"n_components": "auto"},
        {"n_components": "auto", "alpha": "auto", "objective": "accuracy"},
        {"alpha": "auto", "early_stopping": True},
        {"alpha": "auto", "mapping": "diagonal"},
        {"alpha": "auto", "rule": "knn", "n_neighbors": "auto"},
        {"n_components": "auto", "init": "random"},
    ],
)
def test_the_fit_is_no_worse_than_that_of_the_chosen_parameters(iris, parameters):
    X, y = iris
    model = NCA(random_state=0, cv=3, **parameters).fit(X, y)
    same = clone(model).set_params(n_components=model.n_components_, alpha=model.alpha_)
    if parameters.get("mapping") == "diagonal":
        same.set_params(n_components=None)
    same.fit(X, y)
    if not model.early_stopping:  # it judges by rows held out instead
        assert model.loss_ <= same.loss_ + 1e-9
    assert model.components_.shape == same.components_.shape
    assert not hasattr(same, "cv_results_")
    results = model.cv_results_
    chosen = (results["param_n_components"] == model.n_components_) & (
        results["param_alpha"] == model.alpha_
    )
    assert chosen.any()
    assert np.isfinite(results["mean_test_score"]).all()
    assert sum(name.startswith("split") for name in results) == 3
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.components_, again.components_)


def test_the_penalty_is_chosen_by_a_question(iris):
    X, y = iris
    model = NCA(random_state=0).fit(X, y)
    scaled = NCA(alpha="scaled", random_state=0).fit(X, y)
    assert model.alpha_ == scaled.alpha_
    assert "a stronger one is not clearly better for held-out rows" in model.plan_.reason
    np.testing.assert_array_equal(model.components_, scaled.components_)
    np.testing.assert_array_equal(
        model.cv_results_["param_alpha"], [model.alpha_, 4 * model.alpha_]
    )
    assert np.all(model.cv_results_["mean_test_score"] > 0.9)


def noisy_table():
    return make_classification(500, 60, n_informative=4, n_redundant=0, flip_y=0.3, random_state=0)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_a_noisy_table_gets_four_times_the_penalty(early_stopping):
    X, y = noisy_table()
    model = NCA(random_state=1, early_stopping=early_stopping).fit(X, y)
    scaled = NCA(alpha="scaled", random_state=1, early_stopping=early_stopping).fit(X, y)
    assert model.alpha_ == 4 * scaled.alpha_
    assert "a stronger one is clearly better" in model.plan_.reason


def test_noisy_tables_of_many_rows_are_learnt_on_batches(monkeypatch):
    monkeypatch.setattr("vicinal.fit.plan._NOISY_FROM", 300)
    monkeypatch.setattr("vicinal.fit.plan._NOISY_BATCH", 100)
    X, y = noisy_table()
    model = NCA(random_state=0, warm_start=True).fit(X, y)
    assert model.plan_.sampling.size == 100
    assert model.n_iter_ == model.plan_.max_iter == 150
    assert "noisy tables learn better from small batches" in model.plan_.reason
    first = model.components_
    assert model.fit(X, y).plan_.sampling.size == 100  # another schedule
    assert not np.array_equal(model.components_, first)
    assert NCA(random_state=0, sampling="full").fit(X, y).plan_.exact
    assert NCA(random_state=0, solver="lbfgs").fit(X, y).plan_.exact
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr("vicinal.fit.plan._NOISY_FROM", 100)
    assert NCA(random_state=0).fit(X, y).plan_.exact


@needs_callbacks
@unfinished
@pytest.mark.parametrize("after", [3, 20, 40])
def test_an_interrupted_fit_on_batches_after_a_question_is_completed(after, monkeypatch):
    monkeypatch.setattr("vicinal.fit.plan._NOISY_FROM", 300)
    monkeypatch.setattr("vicinal.fit.plan._NOISY_BATCH", 100)
    X, y = noisy_table()
    settings = {"n_components": 2, "random_state": 0, "max_iter": 30}
    whole = NCA(**settings).set_callbacks(InterruptOnce(0)).fit(X, y)
    model = NCA(**settings, warm_start=True).set_callbacks(InterruptOnce(after))
    with suppress(KeyboardInterrupt):
        model.fit(X, y)
    assert_same_fit(model.set_callbacks().fit(X, y), whole)
    assert model.plan_.sampling == whole.plan_.sampling


def test_the_penalty_is_searched_with_a_cv(iris):
    X, y = iris
    model = NCA(cv=5, random_state=0).fit(X, y)
    assert model.alpha_ in ALPHAS
    assert f"alpha={model.alpha_:g} by 5-fold cross-validation" in model.plan_.reason
    same = NCA(alpha=model.alpha_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.components_, same.components_)
    assert DEFAULT_ALPHA in ALPHAS


def test_the_penalties_have_the_unit_of_the_columns(iris):
    X, y = iris
    plain, large = (
        NCA(scaling=None, random_state=0).fit(factor * X, y) for factor in (1.0, 1024.0)
    )
    assert large.alpha_ == pytest.approx(1024.0**2 * plain.alpha_)
    np.testing.assert_allclose(1024.0 * large.components_, plain.components_, rtol=1e-6)


def test_a_sample_chooses_for_many_rows(iris, monkeypatch):
    X, y = iris
    monkeypatch.setattr("vicinal.fit.search.ROWS", 60)
    model = NCA(cv=5, random_state=0).fit(X, y)
    assert "5-fold cross-validation, on 60 of 150 rows" in model.plan_.reason
    # the penalty weighs as much against the sum of the losses
    assert any(model.alpha_ == pytest.approx(0.4 * alpha) for alpha in ALPHAS)
    model.set_params(cv=None).fit(X, y)
    assert "for held-out rows, on 60 of 150 rows" in model.plan_.reason
    assert model.alpha_ == pytest.approx(0.4 * 4 / 150)
    assert model.cv_results_["param_alpha"][0] == pytest.approx(0.4 * 4 / 60)


def test_a_sample_of_many_classes_holds_whole_classes(monkeypatch):
    monkeypatch.setattr("vicinal.fit.search.ROWS", 60)
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(40), 5)
    X = rng.standard_normal((40, 3))[y] * 10 + rng.standard_normal((200, 3))
    problem = SimpleNamespace(X=X, rows=np.arange(200), target=SimpleNamespace(strata=y, draw=None))
    rows = search.search_rows(problem, rng, 60)
    assert 50 <= len(rows) <= 60
    assert np.bincount(y[rows])[np.unique(y[rows])].min() == 5
    assert NCA(random_state=0).fit(X, y).score(X, y) > 0.8


def test_few_rows_get_a_constant():
    X, y = np.arange(8.0).reshape(4, 2), [0, 0, 1, 1]
    model = NCA(random_state=0).fit(X, y)
    assert model.alpha_ == DEFAULT_ALPHA
    assert "no class has three rows to choose it by" in model.plan_.reason
    assert not hasattr(model, "cv_results_")


def test_attributes_without_a_search(iris):
    X, y = iris
    model = NCA(2, alpha=0.02).fit(X, y)
    assert (model.n_components_, model.alpha_) == (2, 0.02)
    model.set_params(alpha="auto", cv=2).fit(X, y)
    assert hasattr(model, "cv_results_")
    model.set_params(alpha=0.02).fit(X, y)
    assert not hasattr(model, "cv_results_")


def test_auto_finds_the_rank_of_the_data():
    # two informative directions among ten columns: more of them only help to over-fit
    rng = np.random.RandomState(0)
    centres = np.array([[0, 0], [4, 0], [0, 4], [4, 4], [2, 8], [8, 2]])
    y = rng.randint(6, size=400)
    X = np.hstack([centres[y] + rng.normal(size=(400, 2)), rng.normal(size=(400, 8))])
    X = X @ np.linalg.qr(rng.normal(size=(10, 10)))[0]
    assert NCA("auto", random_state=0).fit(X, y).n_components_ == 2


def test_auto_penalises_noise_more_than_signal():
    X, y = make_classification(300, 20, n_informative=2, n_redundant=0, flip_y=0.3, random_state=0)
    noisy = NCA(alpha="auto", random_state=0).fit(X, y)
    # thin layers without noise: only a large map can tell them apart
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(300, 3))
    layered = NCA(alpha="auto", random_state=0).fit(X, np.floor(6 * X[:, 0]).astype(int))
    assert noisy.alpha_ > layered.alpha_


def test_the_search_keeps_off_the_rows_that_stop_early(iris, monkeypatch):
    X, y = iris
    seen = []

    def spy(problem, *arguments):
        folds = cross_validation(problem, *arguments)
        seen.append((problem.held_out, folds))
        return folds

    monkeypatch.setattr("vicinal.fit.search.cross_validation", spy)
    NCA(alpha="auto", early_stopping=True, cv=2, random_state=0).fit(X, y)
    ((kept, folds),) = seen
    for fold in folds:
        assert not set(kept) & (set(fold.train) | set(fold.held_out))


def test_bits_do_not_depend_on_the_threads(iris):
    from threadpoolctl import threadpool_limits

    X, y = load_wine(return_X_y=True)
    maps = []
    for limit in (1, 4):
        with threadpool_limits(limit):
            maps.append(NCA("auto", alpha="auto", cv=2, random_state=0).fit(X, y).components_)
    np.testing.assert_array_equal(*maps)


def test_verbose_tells_of_each_candidate(iris, capsys):
    X, y = iris
    model = NCA(alpha="auto", cv=2, random_state=0, verbose=1).fit(X, y)
    lines = [line for line in capsys.readouterr().out.splitlines() if "held-out accuracy" in line]
    assert len(lines) == len(model.cv_results_["param_alpha"])
    assert lines[0].startswith(f"[NCA] n_components=4, alpha={ALPHAS[0]:g}: held-out accuracy ")


def test_warm_start_does_not_search_again(iris, monkeypatch):
    X, y = iris
    model = NCA(alpha="auto", cv=2, warm_start=True, random_state=0, max_iter=3)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    alpha, results, loss = model.alpha_, model.cv_results_, model.loss_
    monkeypatch.setattr("vicinal.fit.search.Search", None)  # a call of it would raise
    model.set_params(max_iter=200).fit(X, y)
    assert model.alpha_ == alpha
    assert model.cv_results_ is results
    assert model.loss_ < loss


@pytest.mark.parametrize("change", ["labels", "rows", "rule", "cv"])
def test_another_question_is_searched_anew(iris, change):
    X, y = iris
    model = NCA(alpha="auto", cv=2, warm_start=True, random_state=0).fit(X, y)
    before = model.cv_results_
    if change == "labels":
        y = np.random.RandomState(0).randint(5, size=len(y))
    elif change == "rows":
        X = X[::2] * 2.0
        y = y[::2]
    else:
        model.set_params(**{"rule": {"rule": "knn"}, "cv": {"cv": 3}}[change])
    model.fit(X, y)
    assert model.cv_results_ is not before
    if change == "labels":
        assert model.cv_results_["mean_test_score"].max() < 0.5


def test_given_values_are_not_those_of_an_earlier_search(iris):
    X, y = load_wine(return_X_y=True)
    model = NCA("auto", cv=2, warm_start=True, random_state=0).fit(X, y)
    rank = model.n_components_
    model.set_params(n_components=9, alpha=0.05).fit(X, y)
    assert not hasattr(model, "cv_results_")
    model.set_params(n_components="auto", alpha=3e-3).fit(X, y)
    assert (model.n_components_, model.alpha_) == (rank, 3e-3)
    assert hasattr(model, "cv_results_")


def test_interrupt_ends_the_search_and_the_fit_goes_on(iris, monkeypatch):
    X, y = iris
    count = 0
    on_iteration = Reports.on_iteration

    def interrupt(self, searching=False, path=()):
        tell = on_iteration(self, searching, path)

        def interrupted(info, *arguments):
            nonlocal count
            count += searching and info.iteration == 0
            if searching and count > 3:  # in the second candidate of two folds
                raise KeyboardInterrupt
            return tell(info, *arguments)

        return interrupted

    monkeypatch.setattr(Reports, "on_iteration", interrupt)
    with pytest.warns(ConvergenceWarning, match="search of NCA was stopped.*found nothing"):
        model = NCA(alpha="auto", cv=2, random_state=0, n_jobs=1).fit(X, y)
    # the default has not been judged yet, and stays
    assert model.alpha_ == 3e-3
    assert len(model.cv_results_["param_alpha"]) == 1
    assert model.score(X, y) > 0.9


def test_interrupt_outside_of_a_descent(monkeypatch):
    X, y = load_wine(return_X_y=True)
    make_model, count = _nca._make_model, 0

    def interrupted(*arguments, **options):
        nonlocal count
        count += 1
        if count == 10:  # in the fifth candidate of two folds
            raise KeyboardInterrupt
        return make_model(*arguments, **options)

    monkeypatch.setattr(_nca, "_make_model", interrupted)
    with pytest.warns(ConvergenceWarning, match="was stopped early") as told:
        model = NCA(alpha="auto", cv=2, random_state=2, max_iter=20, tol=1e-3, n_jobs=1).fit(X, y)
    assert len(model.cv_results_["param_alpha"]) == 4
    # the default was among them, so that the best of the four is taken
    assert f"had found alpha={model.alpha_:g} by 2-fold" in str(told[0].message)
    assert model.alpha_ in model.cv_results_["param_alpha"]


def test_interrupt_before_anything_is_known(iris, monkeypatch):
    X, y = iris

    def interrupt(info, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(Reports, "on_iteration", lambda self, searching=False, path=(): interrupt)
    with pytest.raises(KeyboardInterrupt):
        NCA(alpha="auto", n_jobs=1).fit(X, y)


class InterruptOnce(Stop):
    """Ctrl-C in one of the iterations of a fit, which are counted from the search on."""

    n, in_search = 0, 0

    def on_fit_task_end(self, estimator, context):
        self.n += context.parent is not None
        self.in_search += context.parent is not None and np.isnan(estimator.history_["loss"][-1])
        if self.n == self.after:
            raise KeyboardInterrupt


@needs_callbacks
@unfinished
@pytest.mark.parametrize(
    ("searched", "share"),
    [
        ({"alpha": "auto"}, 0.05),
        ({"alpha": "auto"}, 0.4),
        ({"alpha": "auto"}, 0.7),
        ({"alpha": "auto"}, 1.0),
        ({"n_components": "auto"}, 0.5),
        ({"n_components": "auto", "alpha": "auto"}, 0.9),
        ({"alpha": "auto", "cv": None}, 0.2),
        ({"alpha": "auto", "cv": None}, 0.8),
        ({"n_components": "auto", "alpha": "auto", "cv": None}, 0.98),
    ],
)
def test_a_fit_whose_search_was_interrupted_is_completed(searched, share):
    """Cut in the first candidate, which leaves nothing, or in a later one."""
    X, y = (part[::2] for part in load_wine(return_X_y=True))
    settings = {"n_components": 2, "alpha": 3e-3, "cv": 2, "max_iter": 6, "random_state": 0}
    count = InterruptOnce(0)
    whole = NCA(**settings | searched).set_callbacks(count).fit(X, y)
    cut = InterruptOnce(int(np.ceil(share * count.in_search)))
    model = NCA(**settings | searched, warm_start=True).set_callbacks(cut)
    with suppress(KeyboardInterrupt):
        model.fit(X, y)
    assert 0 < cut.after <= cut.n
    assert_same_fit(model.set_callbacks().fit(X, y), whole)


@unfinished
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_a_fit_interrupted_inside_a_step_of_its_search_is_completed(share):
    """The last seventh of all evaluations is that of the fit after the search."""
    X, y = (part[::2] for part in load_wine(return_X_y=True))
    calls, at = [], []

    def evaluated(Z, kwargs):
        calls.append(len(Z))
        if len(calls) in at:
            raise KeyboardInterrupt

    make = partial(hooked(NCA, evaluated), 2, alpha="auto", cv=2, max_iter=6, random_state=0)
    whole = make().fit(X, y)
    at.append(int(share * len(calls)))
    calls.clear()
    model = make(warm_start=True)
    with suppress(KeyboardInterrupt):
        model.fit(X, y)
    assert len(calls) >= at[0]
    assert_same_fit(model.fit(X, y), whole)


def assert_same_fit(model, whole):
    np.testing.assert_array_equal(model.components_, whole.components_)
    assert (model.alpha_, model.n_components_) == (whole.alpha_, whole.n_components_)
    assert model.history_["loss"] == whole.history_["loss"]
    for name, column in whole.cv_results_.items():
        np.testing.assert_array_equal(model.cv_results_[name], column, err_msg=name)


class StopAt:
    """Asks to stop from an iteration on."""

    def __init__(self, iteration):
        self.left = iteration

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.left -= 1
        return self.left <= 0

    def teardown(self, estimator, context): ...


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
@pytest.mark.filterwarnings("ignore:NCA did not converge")
@pytest.mark.parametrize(("cv", "iteration"), [(None, 1), (None, 10), (5, 30), (5, 60), (5, 150)])
def test_a_stopped_search_is_worth_what_it_took(cv, iteration):
    X, y = make_rings(200, random_state=0)
    model = NCA(2, alpha="auto", cv=cv, random_state=0).set_callbacks(StopAt(iteration))
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model.fit(X, y)
    assert model.n_iter_ == 1
    # one step from the start, or from where a fold had come to; one of five is chance
    assert model.score(X, y) > 0.75


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
@pytest.mark.filterwarnings("ignore:NCA did not converge")
def test_callbacks_reach_into_the_search(iris, tmp_path):
    X, y = iris
    model = NCA("auto", alpha="auto", random_state=0).fit(X, y)
    # what a search before has left must not be in the file of the next one
    path = tmp_path / "nca.joblib"
    model.set_callbacks(StopAfter(seconds=0.0), Checkpoint(path, every=1))
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model.fit(X, y)
    assert model.n_iter_ == 1
    assert model.n_components_ == 2
    assert Checkpoint.load(path).predict(X).shape == y.shape


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
def test_a_checkpoint_of_a_search_knows_nothing_of_the_one_before(iris, tmp_path):
    X, y = iris
    path = tmp_path / "nca.joblib"
    seen = []

    class Look(StopAt):
        def on_fit_task_end(self, estimator, context):
            seen.append((hasattr(estimator, "cv_results_"), estimator._choice is not None))
            return False

    model = NCA(alpha="auto", cv=2, random_state=0, warm_start=True).fit(X, y)
    model.set_params(cv=3).set_callbacks(Look(0), Checkpoint(path, every=1)).fit(X, y)
    assert seen[0] == (False, False)
    assert seen[-1] == (True, True)


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
def test_callbacks_do_not_hear_of_a_fit_that_cannot_begin(iris):
    begun = []

    class Look(StopAt):
        def on_fit_task_begin(self, estimator, context):
            begun.append(context)

    X, y = iris
    with pytest.raises(ValueError, match="X has no column that varies"):
        NCA(2).set_callbacks(Look(0)).fit(np.ones_like(X), y)
    assert not begun


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
def test_a_wanted_loss_is_that_of_the_fit(iris):
    X, y = iris
    model = NCA(2, alpha="auto", cv=2, random_state=0).set_callbacks(StopAfter(loss=10.0))
    with pytest.warns(ConvergenceWarning, match="a callback stopped it after 1 iter"):
        model.fit(X, y)
    assert len(model.cv_results_["param_alpha"]) > 1


def test_folds_do_not_warn_of_what_is_not_the_users(iris):
    X, y = iris[0][::3], iris[1][::3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NCA(alpha="auto", rule="knn", n_neighbors=45, cv=3, random_state=0).fit(X, y)


def test_a_map_of_nothing_is_told_of(iris):
    with pytest.warns(UserWarning, match="has collapsed under the penalty alpha=100"):
        NCA(alpha=100.0).fit(*iris)


def test_bad_values(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"'cv' parameter of NCA must be an int in \[2, inf\)"):
        NCA(cv=1).fit(X, y)
    with pytest.raises(ValueError, match=r"'cv' parameter of NCA .* \[2, 150\].*Got 151"):
        NCA(alpha="auto", cv=151).fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* an int if 'init' is an array"):
        NCA("auto", init=np.eye(4)[:3]).fit(X, y)
    with pytest.raises(ValueError, match=r"'alpha' .* inf\) or 'auto' or 'scaled'. Got 'best'"):
        NCA(alpha="best").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* or None or 'auto'. Got 'all'"):
        NCA("all").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* or None. Got 'auto'"):
        NCA("auto", mapping="diagonal").fit(X, y)


def test_a_map_pressed_to_nothing_is_not_gone_on_from(iris, monkeypatch):
    X, y = iris
    # nothing is left of the map under such a penalty, and so no gradient either
    monkeypatch.setattr(_nca, "ALPHAS", (1e3, 0.01))
    after = NCA(alpha="auto", cv=2, random_state=0).fit(X, y).cv_results_["mean_test_score"]
    monkeypatch.setattr(_nca, "ALPHAS", (0.01,))
    alone = NCA(alpha="auto", cv=2, random_state=0).fit(X, y).cv_results_["mean_test_score"]
    assert after[0] < alone[0] - 0.05
    np.testing.assert_allclose(after[1], alone[0], atol=0.02)


def test_classes_of_two_are_too_small_to_judge_by():
    with pytest.raises(ValueError, match=r"'auto'.* needs a class of at least 3 samples.*has 2"):
        NCA("auto").fit(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1])
