"""Ranks and penalties chosen by cross-validation: n_components="auto", alpha="auto"."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit

from vicinal import NCA
from vicinal._callback_support import HAS_CALLBACKS
from vicinal.callbacks import Checkpoint, StopAfter
from vicinal.datasets import make_rings
from vicinal.estimators import _search
from vicinal.estimators._rules import NeighbourRules
from vicinal.estimators._search import ALPHAS, Search, Stopped, Trial, cross_validation, ranks


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


class FoldStub:
    """A problem as `cross_validation` and `Search` use it."""

    def __init__(self, codes, **parts):
        self.X = self.codes = codes
        self.parts = {"train": None, "mapping": None, "alpha": None, **parts}
        self.__dict__.update(self.parts, targets=self)

    def replace(self, **changes):
        return FoldStub(self.codes, **{**self.parts, **changes})

    def embed(self, theta):
        return np.array([[0.0], 1000.0 * theta])


@pytest.mark.parametrize("n_folds", [2, 3, 5, 30])
@pytest.mark.parametrize("train", [None, np.arange(3, 44)])
def test_folds_leave_two_of_each_class(n_folds, train):
    codes = np.repeat([0, 1, 2, 3, 4, 5, 6], [20, 12, 5, 4, 3, 2, 1])
    problem = FoldStub(codes, train=train)
    folds = cross_validation(problem, n_folds, np.random.RandomState(0))
    rows = np.arange(len(codes)) if train is None else train
    judged = np.concatenate([fold.held_out for fold in folds])
    assert len(folds) == n_folds
    assert len(set(judged)) == len(judged)
    whole = np.bincount(codes[rows], minlength=7)
    # all rows of large classes judge once, none of the classes of one and two
    expected = np.minimum(whole, n_folds * np.maximum(whole - 2, 0))
    assert np.bincount(codes[judged], minlength=7).tolist() == expected.tolist()
    sizes = [len(fold.held_out) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    for fold in folds:
        assert not set(fold.train) & set(fold.held_out)
        assert set(fold.train) | set(fold.held_out) == set(rows)
        left = np.bincount(codes[fold.train], minlength=7)
        assert (left >= np.minimum(whole, 2)).all()


def test_other_folds_are_those_of_scikit_learn():
    codes = np.repeat([0, 1], 10)
    problem = FoldStub(codes, train=np.arange(2, 18))
    shuffled = StratifiedShuffleSplit(3, test_size=0.25, random_state=0)
    folds = cross_validation(problem, shuffled, np.random.RandomState(0))
    assert [len(fold.held_out) for fold in folds] == [4, 4, 4]
    for fold in folds:
        assert set(fold.train) | set(fold.held_out) == set(range(2, 18))
    (fold,) = cross_validation(problem, [([0, 1, 2], [3, 5])], np.random.RandomState(0))
    assert fold.train.tolist() == [2, 3, 4]
    assert fold.held_out.tolist() == [5, 7]


def test_classes_of_two_are_too_small_to_judge_by():
    with pytest.raises(ValueError, match=r"'auto'.* needs a class of at least 3 samples.*has 2"):
        NCA(alpha="auto").fit(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1])


def test_ranks():
    assert ranks(4, 32) == [2, 3, 4]
    assert ranks(2, 32) == [2]
    assert ranks(1, 32) == [1]
    assert ranks(100, 32)[-1] == 32
    assert ranks(100, 32)[:3] == [2, 3, 4]
    assert ranks(9, 32)[-2:] == [8, 9]


def search_over(scores, losses=None, **options):
    """A search whose folds score as the table says: candidate -> one score a fold.

    The map of a candidate is the candidate; it has the loss 1.0 from the start, and from the last
    map what ``losses`` says.
    """
    n_folds = len(next(iter(scores.values())))
    folds = [FoldStub(np.zeros(1), fold=f) for f in range(n_folds)]
    asked = []

    def candidate(fold):
        return fold.alpha if fold.mapping is None else fold.mapping

    def learn(fold, last):
        asked.append((candidate(fold), last))
        if scores[candidate(fold)] in (Stopped, KeyboardInterrupt):
            raise scores[candidate(fold)]("callback" if scores[candidate(fold)] is Stopped else "")
        loss = 1.0 if last is None else (losses or {}).get(candidate(fold), 0.5)
        return np.array([float(candidate(fold)) + (last is not None)]), loss

    def score(fold, theta):
        return scores[candidate(fold)][fold.fold]

    return Search(folds, learn, score, lambda trial: None, **options), asked


def rank_of(search, candidates):
    return search.rank(candidates, 0.1, lambda d: d).parameters["n_components"]


def alpha_of(search, candidates):
    return search.alpha(candidates, 2).parameters["alpha"]


def test_growing_stops_after_three_ranks_without_a_better_score():
    table = {2: [0.1] * 2, 3: [0.5] * 2, 4: [0.4] * 2, 5: [0.45] * 2, 6: [0.5] * 2, 7: [9.0] * 2}
    search, asked = search_over(table)
    assert rank_of(search, [2, 3, 4, 5, 6, 7]) == 3
    assert {candidate for candidate, _ in asked} == {2, 3, 4, 5, 6}
    assert all(theta is None for _, theta in asked)  # each rank has a start of its own


def test_the_least_rank_within_an_error_of_the_best():
    # rank 3 beats 2 by 0.1 in each fold; 4 beats 3 by 0.02 +- 0.2
    table = {2: [0.1, 0.5, 0.9], 3: [0.2, 0.6, 1.0], 4: [0.42, 0.42, 1.02], 5: [0, 0, 0]}
    search, _ = search_over(table)
    assert rank_of(search, [2, 3, 4, 5]) == 3


def test_the_path_goes_on_from_the_last_map_or_the_start():
    table = {1.0: [0.1, 0.0], 0.03: [0.2, 0.1], 0.01: [0.4, 0.3], 0.003: [0.1, 0.1], 0.0: [0, 0]}
    search, asked = search_over(table, losses={0.01: 2.0})
    assert alpha_of(search, table) == 0.01
    assert [theta for candidate, theta in asked if candidate == 1.0] == [None, None]
    # the stub's map is its alpha, plus one where it went on from the last
    assert [theta for candidate, theta in asked if candidate == 0.03] == [None, 1.0, None, 1.0]
    assert [theta for candidate, theta in asked if candidate == 0.01] == [None, 1.03, None, 1.03]
    # at 0.01 the start has ended lower
    assert [theta for candidate, theta in asked if candidate == 0.003] == [None, 0.01, None, 0.01]
    results = search.results()
    assert results["param_alpha"].tolist() == list(table)
    assert results["params"][2] == {"n_components": 2, "alpha": 0.01}
    assert results["stage"].tolist() == ["alpha"] * 5
    assert results["rank_test_score"].tolist() == [4, 2, 1, 3, 5]
    np.testing.assert_allclose(results["mean_test_score"], [0.05, 0.15, 0.35, 0.1, 0.0])
    assert results["split1_test_score"].tolist() == [0.0, 0.1, 0.3, 0.1, 0.0]


def test_the_path_ends_when_three_in_turn_are_clearly_worse():
    table = {a: [s, s] for a, s in zip([5.0, 4.0, 3.0, 2.0, 1.0], [0.9, 0.9, 0.5, 0.5, 0.5],
                                       strict=True)}  # fmt: skip
    search, asked = search_over({**table, 0.5: [1.0, 1.0]})
    assert alpha_of(search, [5.0, 4.0, 3.0, 2.0, 1.0, 0.5]) == 5.0
    assert 0.5 not in {candidate for candidate, _ in asked}
    # but not on a plateau
    search, asked = search_over({**{key: [0.5, 0.5] for key in table}, 0.5: [1.0, 1.0]})
    assert alpha_of(search, [5.0, 4.0, 3.0, 2.0, 1.0, 0.5]) == 0.5


def test_a_map_pressed_to_nothing_is_not_gone_on_from(iris, monkeypatch):
    X, y = iris
    # nothing is left of the map under such a penalty, and so no gradient either
    monkeypatch.setattr("vicinal.estimators._auto.ALPHAS", (1e3, 0.01))
    after = NCA(alpha="auto", cv=2, random_state=0).fit(X, y).cv_results_["mean_test_score"]
    monkeypatch.setattr("vicinal.estimators._auto.ALPHAS", (0.01,))
    alone = NCA(alpha="auto", cv=2, random_state=0).fit(X, y).cv_results_["mean_test_score"]
    assert after[0] < alone[0] - 0.05
    np.testing.assert_allclose(after[1], alone[0], atol=0.02)


def test_the_strongest_penalty_within_an_error_of_the_best():
    table = {0.1: [0.3, 0.4, 0.35], 0.03: [0.6, 1.0, 0.8], 0.01: [0.85, 0.8, 0.8]}
    search, _ = search_over(table)
    assert alpha_of(search, [0.1, 0.03, 0.01]) == 0.03


def test_what_is_no_better_than_nothing_is_not_simple():
    noisy = {0.1: [0.5, 0.5], 1.0: [0.5, 0.5], 0.2: [0.4, 0.9]}
    search, _ = search_over(noisy, chance=0.5)
    assert alpha_of(search, [1.0, 0.2]) == 0.2
    search, _ = search_over(noisy)  # without a chance to beat, 1.0 is within an error
    assert alpha_of(search, [1.0, 0.2]) == 1.0
    search, _ = search_over({0.0: [0.5, 0.5], 0.2: [0.4, 0.9]})  # a map of zero
    assert alpha_of(search, [0.0, 0.2]) == 0.2


@pytest.mark.parametrize("stop", [Stopped, KeyboardInterrupt])
def test_a_stopped_search_keeps_what_it_has(stop):
    search, _ = search_over({0.1: [0.0], 0.3: [0.2], 0.2: stop})
    assert alpha_of(search, [0.1, 0.3, 0.2]) == 0.3
    assert search.reason == ("callback" if stop is Stopped else "interrupted")
    search, _ = search_over({0.2: [1.0], 0.1: stop})
    with pytest.raises(Stopped):
        search.alpha([0.1, 0.2], 2)


def test_sparing_keeps_the_best_of_one_fold():
    trials = [Trial({"d": 2}, np.array([0.1]), []), Trial({"d": 3}, np.array([0.2]), [])]
    assert _search.sparing(trials) is trials[1]


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
        assert model.objective_ <= same.objective_ + 1e-9
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

    def spy(problem, n_folds, rng):
        folds = cross_validation(problem, n_folds, rng)
        seen.append((problem.held_out, folds))
        return folds

    monkeypatch.setattr("vicinal.estimators._auto.cross_validation", spy)
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
    alpha, results, loss = model.alpha_, model.cv_results_, model.objective_
    monkeypatch.setattr("vicinal.estimators._auto.Search", None)  # a call of it would raise
    model.set_params(max_iter=200).fit(X, y)
    assert model.alpha_ == alpha
    assert model.cv_results_ is results
    assert model.objective_ < loss


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
    tell = NCA._tell

    def interrupt(self, info, report, problem, single, searching):
        nonlocal count
        count += searching and info.iteration == 0
        if searching and count > 3:  # in the second candidate of two folds
            raise KeyboardInterrupt
        return tell(self, info, report, problem, single, searching)

    monkeypatch.setattr(NCA, "_tell", interrupt)
    with pytest.warns(ConvergenceWarning, match="search of NCA was stopped.*come to nothing"):
        model = NCA(alpha="auto", cv=2, random_state=0).fit(X, y)
    # the default has not been judged yet, and stays
    assert model.alpha_ == 3e-3
    assert len(model.cv_results_["param_alpha"]) == 1
    assert model.score(X, y) > 0.9


def test_interrupt_outside_of_a_descent(monkeypatch):
    X, y = load_wine(return_X_y=True)
    rules, count = NeighbourRules, 0

    def interrupted(*arguments):
        nonlocal count
        count += 1
        if count == 12:  # in the sixth candidate of two folds
            raise KeyboardInterrupt
        return rules(*arguments)

    monkeypatch.setattr("vicinal.estimators._auto.NeighbourRules", interrupted)
    with pytest.warns(ConvergenceWarning, match=r"come to alpha=0\.\d+; the fit goes on"):
        model = NCA(alpha="auto", cv=2, random_state=0, max_iter=20, tol=1e-3).fit(X, y)
    assert len(model.cv_results_["param_alpha"]) == 5
    assert model.alpha_ <= 3e-3 or model.alpha_ in ALPHAS


def test_interrupt_before_anything_is_known(iris, monkeypatch):
    X, y = iris

    def interrupt(self, info, report, problem, single, searching):
        raise KeyboardInterrupt

    monkeypatch.setattr(NCA, "_tell", interrupt)
    with pytest.raises(KeyboardInterrupt):
        NCA(alpha="auto").fit(X, y)


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
@pytest.mark.parametrize("iteration", [30, 60, 150])
def test_a_stopped_search_is_worth_what_it_took(iteration):
    X, y = make_rings(200, random_state=0)
    model = NCA(2, alpha="auto", random_state=0).set_callbacks(StopAt(iteration))
    with pytest.warns(ConvergenceWarning, match="stopped before its end"):
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
    with pytest.warns(ConvergenceWarning, match="stopped before its end"):
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
            seen.append((hasattr(estimator, "cv_results_"), hasattr(estimator, "_choice")))
            return False

    model = NCA(alpha="auto", cv=2, random_state=0, warm_start=True).fit(X, y)
    model.set_params(cv=3).set_callbacks(Look(0), Checkpoint(path, every=1)).fit(X, y)
    assert seen[0] == (False, False)
    assert seen[-1] == (True, True)


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
    with pytest.warns(UserWarning, match="alpha=100 has pressed the map to nothing"):
        NCA(alpha=100.0).fit(*iris)


def test_bad_values(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"'cv' parameter of NCA must be an int in \[2, inf\)"):
        NCA(cv=1).fit(X, y)
    with pytest.raises(ValueError, match=r"'cv' parameter must be an int in \[2, 150\].*Got 151"):
        NCA(alpha="auto", cv=151).fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* an int where 'init' is an array"):
        NCA("auto", init=np.eye(4)[:3]).fit(X, y)
    with pytest.raises(ValueError, match=r"'alpha' .* in \[0.0, inf\) or 'auto'. Got 'best'"):
        NCA(alpha="best").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* or None or 'auto'. Got 'all'"):
        NCA("all").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* or None. Got 'auto'"):
        NCA("auto", mapping="diagonal").fit(X, y)
