"""Cross-validation inside a fit: folds, paths, ranks, and which candidate is taken."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedShuffleSplit

from vicinal.fit.search import cross_validation
from vicinal.fit.trials import Candidate, FoldScore, Search, Stopped, Trial, ranks, sparing


class FoldStub:
    """A problem as `cross_validation` and `Search` use it."""

    def __init__(self, codes, **parts):
        self.X = self.codes = self.strata = codes
        self.parts = {"train": None, "mapping": None, "alpha": None, **parts}
        self.__dict__.update(self.parts, target=self)
        self.rows = np.arange(len(codes)) if self.train is None else self.train

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


def test_ranks():
    assert ranks(4) == [2, 3, 4]
    assert ranks(2) == [2]
    assert ranks(1) == [1]
    assert ranks(32)[-1] == 32
    assert ranks(32)[:3] == [2, 3, 4]
    assert ranks(9)[-2:] == [8, 9]


def search_over(scores, **options):
    """A search whose folds score as the table says: candidate -> one score a fold.

    The map of a candidate is the candidate.
    """
    n_folds = len(next(iter(scores.values())))
    folds = [FoldStub(np.zeros(1), fold=f) for f in range(n_folds)]
    asked = []

    def candidate(fold):
        return fold.alpha if fold.mapping is None else fold.mapping

    def evaluate(number, fold):
        asked.append(candidate(fold))
        if scores[candidate(fold)] in (Stopped, KeyboardInterrupt):
            raise scores[candidate(fold)]("callback" if scores[candidate(fold)] is Stopped else "")
        return FoldScore(scores[candidate(fold)][number], abs(candidate(fold)) < 1e-4)

    return Search(folds, evaluate, lambda trial: None, **options), asked


def test_splits_beyond_the_rows_are_refused():
    problem = FoldStub(np.repeat([0, 1], 3))
    with pytest.raises(ValueError, match=r"'cv' parameter of NCA must split the 6 rows.*row 9 "):
        cross_validation(problem, [([0, 1, 2], [3, 9])], np.random.RandomState(0))


def rank_of(search, candidates):
    tried = [Candidate({"n_components": d, "alpha": 0.1}, {"mapping": d}) for d in candidates]
    return search.best("n_components", tried).parameters["n_components"]


def alpha_of(search, candidates):
    tried = [Candidate({"n_components": 2, "alpha": a}, {"alpha": a}) for a in candidates]
    return search.best("alpha", tried).parameters["alpha"]


def test_growing_stops_after_three_ranks_without_a_better_score():
    table = {2: [0.1] * 2, 3: [0.5] * 2, 4: [0.4] * 2, 5: [0.45] * 2, 6: [0.5] * 2, 7: [9.0] * 2}
    search, asked = search_over(table)
    assert rank_of(search, [2, 3, 4, 5, 6, 7]) == 3
    assert set(asked) == {2, 3, 4, 5, 6}


def test_the_least_rank_within_an_error_of_the_best():
    # rank 3 beats 2 by 0.1 in each fold; 4 beats 3 by 0.02 +- 0.2
    table = {2: [0.1, 0.5, 0.9], 3: [0.2, 0.6, 1.0], 4: [0.42, 0.42, 1.02], 5: [0, 0, 0]}
    search, _ = search_over(table)
    assert rank_of(search, [2, 3, 4, 5]) == 3


def test_the_results_of_a_search_are_those_of_scikit_learn():
    table = {1.0: [0.1, 0.0], 0.03: [0.2, 0.1], 0.01: [0.4, 0.3], 0.003: [0.1, 0.1], 0.0: [0, 0]}
    search, asked = search_over(table)
    assert alpha_of(search, list(table)) == 0.01
    assert asked == [alpha for alpha in table for _ in range(2)]
    results = search.results()
    assert results["param_alpha"].tolist() == list(table)
    assert results["params"][2] == {"n_components": 2, "alpha": 0.01}
    assert results["stage"].tolist() == ["alpha"] * 5
    assert results["rank_test_score"].tolist() == [4, 2, 1, 3, 5]
    np.testing.assert_allclose(results["mean_test_score"], [0.05, 0.15, 0.35, 0.1, 0.0])
    assert results["split1_test_score"].tolist() == [0.0, 0.1, 0.3, 0.1, 0.0]


def test_the_path_ends_when_two_in_turn_are_clearly_worse():
    table = {a: [s, s] for a, s in zip([5.0, 4.0, 3.0, 2.0, 1.0], [0.9, 0.9, 0.5, 0.5, 0.5],
                                       strict=True)}  # fmt: skip
    search, asked = search_over({**table, 0.5: [1.0, 1.0]})
    assert alpha_of(search, [5.0, 4.0, 3.0, 2.0, 1.0, 0.5]) == 5.0
    assert 1.0 not in asked
    # but not on a plateau
    search, asked = search_over({**{key: [0.5, 0.5] for key in table}, 0.5: [1.0, 1.0]})
    assert alpha_of(search, [5.0, 4.0, 3.0, 2.0, 1.0, 0.5]) == 0.5


def test_the_strongest_penalty_within_an_error_of_the_best():
    table = {0.1: [0.3, 0.4, 0.35], 0.03: [0.6, 1.0, 0.8], 0.01: [0.85, 0.8, 0.8]}
    search, _ = search_over(table)
    assert alpha_of(search, [0.1, 0.03, 0.01]) == 0.03


def test_what_is_no_better_than_nothing_is_not_simple():
    noisy = {0.1: [0.5, 0.5], 1.0: [0.5, 0.5], 0.2: [0.4, 0.7]}
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
        alpha_of(search, [0.1, 0.2])


def test_sparing_keeps_the_best_of_one_fold():
    trials = [Trial({"d": 2}, np.array([0.1]), []), Trial({"d": 3}, np.array([0.2]), [])]
    assert sparing(trials) is trials[1]
