"""Ranks and penalties chosen by cross-validation: n_components="auto", alpha="auto"."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning

from vicinal import NCA
from vicinal.estimators import _search
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


@pytest.mark.parametrize("n_folds", [2, 3, 5, 100])
@pytest.mark.parametrize("train", [None, np.arange(3, 40)])
def test_folds_judge_each_row_once_and_leave_two_of_each_class(n_folds, train):
    codes = np.repeat([0, 1, 2, 3, 4], [20, 12, 5, 2, 1])
    problem = FoldStub(codes, train=train)
    folds = cross_validation(problem, n_folds, np.random.RandomState(0))
    rows = np.arange(len(codes)) if train is None else train
    judged = np.concatenate([fold.held_out for fold in folds])
    in_large_class = np.bincount(codes[rows])[codes[rows]] > 2
    assert sorted(judged) == sorted(rows[in_large_class])
    assert len(folds) == min(n_folds, in_large_class.sum())
    sizes = [len(fold.held_out) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    for fold in folds:
        assert not set(fold.train) & set(fold.held_out)
        assert set(fold.train) | set(fold.held_out) == set(rows)
        if n_folds > 2:
            counts = np.bincount(codes[fold.train], minlength=5)
            whole = np.bincount(codes[rows], minlength=5)
            assert (counts >= np.minimum(whole, 2)).all()


def test_classes_of_two_are_too_small_to_judge_by():
    with pytest.raises(ValueError, match=r"'auto' needs a class of at least 3 samples.*has 2"):
        NCA(alpha="auto").fit(np.arange(8.0).reshape(4, 2), [0, 0, 1, 1])


def test_ranks():
    assert ranks(4, 32) == [2, 3, 4]
    assert ranks(2, 32) == [2]
    assert ranks(1, 32) == [1]
    assert ranks(100, 32)[-1] == 32
    assert ranks(100, 32)[:3] == [2, 3, 4]
    assert ranks(9, 32)[-2:] == [8, 9]


def search_over(scores):
    """A search whose folds score as the table says: candidate -> one score a fold."""
    n_folds = len(next(iter(scores.values())))
    folds = [FoldStub(np.zeros(1), fold=f) for f in range(n_folds)]
    asked = []

    def learn(fold, theta):
        candidate = fold.alpha if fold.mapping is None else fold.mapping
        asked.append((candidate, theta))
        if scores[candidate] is Stopped:
            raise Stopped("callback")
        return np.array([float(candidate)])

    def score(fold, theta):
        candidate = fold.alpha if fold.mapping is None else fold.mapping
        return scores[candidate][fold.fold]

    return Search(folds, learn, score, lambda trial: None), asked


def test_growing_stops_after_three_ranks_without_a_better_score():
    table = {2: [0.1] * 2, 3: [0.5] * 2, 4: [0.4] * 2, 5: [0.45] * 2, 6: [0.5] * 2, 7: [9.0] * 2}
    search, asked = search_over(table)
    assert search.rank([2, 3, 4, 5, 6, 7], 0.1, lambda d: d) == 3
    assert {candidate for candidate, _ in asked} == {2, 3, 4, 5, 6}
    assert all(theta is None for _, theta in asked)  # each rank has a start of its own


def test_the_least_rank_within_an_error_of_the_best():
    # rank 3 beats 2 by 0.1 in each fold; 4 beats 3 by 0.02 +- 0.2
    table = {2: [0.1, 0.5, 0.9], 3: [0.2, 0.6, 1.0], 4: [0.42, 0.42, 1.02], 5: [0, 0, 0]}
    search, _ = search_over(table)
    assert search.rank([2, 3, 4, 5], 0.1, lambda d: d) == 3


def test_the_path_goes_on_from_the_last_map():
    table = {0.1: [0.0, 0.0], 0.03: [0.2, 0.1], 0.01: [0.4, 0.3], 0.003: [0.1, 0.1], 0.0: [0, 0]}
    search, asked = search_over(table)
    assert search.alpha([0.1, 0.03, 0.01, 0.003, 0.0], 2) == 0.01
    assert [theta for candidate, theta in asked if candidate == 0.1] == [None, None]
    assert [theta for candidate, theta in asked if candidate == 0.01] == [0.03, 0.03]
    results = search.results()
    assert results["param_alpha"].tolist() == [0.1, 0.03, 0.01, 0.003, 0.0]
    np.testing.assert_allclose(results["mean_test_score"], [0.0, 0.15, 0.35, 0.1, 0.0])
    assert results["split1_test_score"].tolist() == [0.0, 0.1, 0.3, 0.1, 0.0]


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
    assert search.alpha([0.1, 0.03, 0.01], 2) == 0.03


def test_a_stopped_search_keeps_what_it_has():
    search, _ = search_over({0.1: [0.0], 0.03: [0.2], 0.01: Stopped})
    assert search.alpha([0.1, 0.03, 0.01], 2) == 0.03
    assert search.stopped
    search, _ = search_over({0.2: [1.0], 0.1: Stopped})
    with pytest.raises(Stopped):
        search.alpha([0.1, 0.2], 2)


def test_sparing_keeps_the_best_of_one_fold():
    trials = [Trial({"d": 2}, np.array([0.1])), Trial({"d": 3}, np.array([0.2]))]
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
def test_the_fit_is_that_of_the_chosen_parameters(iris, parameters):
    X, y = iris
    model = NCA(random_state=0, cv=3, **parameters).fit(X, y)
    same = clone(model).set_params(n_components=model.n_components_, alpha=model.alpha_)
    if parameters.get("mapping") == "diagonal":
        same.set_params(n_components=None)
    same.fit(X, y)
    np.testing.assert_array_equal(model.components_, same.components_)
    assert not hasattr(same, "cv_results_")
    results = model.cv_results_
    chosen = (results["param_n_components"] == model.n_components_) & (
        results["param_alpha"] == model.alpha_
    )
    assert chosen.any()
    assert np.isfinite(results["mean_test_score"]).all()
    assert sum(name.startswith("split") for name in results) == 3


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
    alpha, results = model.alpha_, model.cv_results_
    monkeypatch.setattr("vicinal.estimators._auto.Search", None)  # a call of it would raise
    model.set_params(max_iter=200).fit(X, y)
    assert model.alpha_ == alpha
    assert model.cv_results_ is results
    straight = NCA(alpha=alpha, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.components_, straight.components_)


def test_another_question_is_searched_anew(iris):
    X, y = iris
    model = NCA(alpha="auto", cv=2, warm_start=True, random_state=0).fit(X, y)
    model.set_params(n_components="auto").fit(X, y)
    assert len(set(model.cv_results_["param_n_components"])) > 1


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
    with pytest.warns(ConvergenceWarning, match="search of NCA was stopped.*alpha=0.1"):
        model = NCA(alpha="auto", cv=2, random_state=0).fit(X, y)
    assert model.alpha_ == ALPHAS[0]
    assert len(model.cv_results_["param_alpha"]) == 1
    assert model.score(X, y) > 0.8


def test_interrupt_before_anything_is_known(iris, monkeypatch):
    X, y = iris

    def interrupt(self, info, report, problem, single, searching):
        raise KeyboardInterrupt

    monkeypatch.setattr(NCA, "_tell", interrupt)
    with pytest.raises(KeyboardInterrupt):
        NCA(alpha="auto").fit(X, y)


def test_callbacks_reach_into_the_search(iris, tmp_path):
    pytest.importorskip("sklearn.callback")
    from vicinal.callbacks import Checkpoint, StopAfter

    X, y = iris
    model = NCA("auto", alpha="auto", random_state=0)
    model.set_callbacks(StopAfter(seconds=0.0), Checkpoint(tmp_path / "nca.joblib", every=1))
    with pytest.warns(ConvergenceWarning, match="stopped before its end"):
        model.fit(X, y)
    assert model.n_iter_ == 1
    assert model.n_components_ == 2
    assert Checkpoint.load(tmp_path / "nca.joblib").predict(X).shape == y.shape
    # a loss is a wish for the fit, not for the folds
    model = NCA(2, alpha="auto", cv=2, random_state=0).set_callbacks(StopAfter(loss=10.0))
    with pytest.warns(ConvergenceWarning, match="a callback stopped it after 1 iter"):
        model.fit(X, y)
    assert len(model.cv_results_["param_alpha"]) > 1


def test_bad_values(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"'cv' parameter of NCA must be an int in \[2, inf\)"):
        NCA(cv=1).fit(X, y)
    with pytest.raises(ValueError, match=r"'alpha' .* in \[0.0, inf\) or 'auto'. Got 'best'"):
        NCA(alpha="best").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* or None or 'auto'. Got 'all'"):
        NCA("all").fit(X, y)
    with pytest.raises(ValueError, match=r"'n_components' .* or None. Got 'auto'"):
        NCA("auto", mapping="diagonal").fit(X, y)
