"""kNCA where rows are few: a k that none could win by, classes and batches too small for it."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from vicinal import KNCA
from vicinal.objectives._votes import can_win, usable_votes
from vicinal.samplers import MiniBatches, StochasticQueries, Subsample

VOTES = ["majority", "all"]
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def rows():
    """A third of wine: 60 rows of three classes."""
    X, y = load_wine(return_X_y=True)
    return X[::3], y[::3]


@pytest.fixture
def small_classes(rng):
    """Five classes of six rows: by vote="all", five of them can vote just so."""
    y = np.repeat(np.arange(5), 6)
    return rng.normal(size=(30, 5)) + 6 * np.eye(5)[y], y


def wins(counts, own, k, vote):
    """Whether a row of class ``own`` wins by any set, by looking at all of them."""
    others = np.repeat(np.arange(len(counts)), counts - (np.arange(len(counts)) == own))
    for chosen in combinations(others, k):
        votes = np.bincount(chosen, minlength=len(counts))
        rivals = np.delete(votes, own)
        if votes[own] == k if vote == "all" else (votes[own] > rivals).all():
            return True
    return False


@pytest.mark.nojit
@pytest.mark.parametrize("vote", VOTES)
def test_whocan_win(vote):
    for counts in ([2, 1], [3, 3], [1, 4], [2, 2, 1], [1, 2, 4], [2, 2, 2, 1]):
        counts = np.array(counts)
        able = {}
        for k in range(1, counts.sum()):
            able[k] = [wins(counts, own, k, vote) for own in range(len(counts))]
            np.testing.assert_array_equal(can_win(counts, k, vote), able[k])
        for k in range(1, 9):
            largest = max(few for few in able if few <= k and any(able[few]))
            assert usable_votes(counts, k, vote) == largest


@pytest.mark.parametrize(
    ("sizes", "vote", "k", "words"),
    [
        ((2, 1), "majority", 1, "has only 2 others to pick: k=1"),
        ((2, 2), "majority", 1, "has only 3 others to pick: k=1"),
        ((3, 2), "majority", 3, "has only 4 others to pick: k=3"),
        ((4, 4, 4), "all", 3, "no row could win a vote of that many: k=3"),
    ],
)
def test_a_default_fit_of_few_rows_votes_by_fewer(rng, sizes, vote, k, words):
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(y), 2)) + 5 * y[:, None]
    with pytest.warns(UserWarning, match="'k' parameter of KNCA is 5, but") as told:
        model = KNCA(vote=vote, random_state=0).fit(X, y)
    told = [str(warning.message) for warning in told if "'k' parameter" in str(warning.message)]
    assert len(told) == 1
    assert f"The 'k' parameter of KNCA is 5, but {words} is used" in told[0].replace("a row ", "")
    assert model.k_ == model.n_neighbors_ == k
    assert model.score(X, y) == 1.0


def test_classes_that_cannot_win_are_named(rows):
    X, y = rows
    names = np.array(["first", "second", "third"])[y]
    names[:3] = "rare"
    for vote, warns in (("all", True), ("majority", False)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = KNCA(2, k=3, vote=vote, random_state=0).fit(X, names)
        assert [str(w.message) for w in told if "Rows of these classes" in str(w.message)] == (
            [
                "Rows of these classes have too few others of their class to win any vote of k=3 "
                "by vote='all': 'rare'. As queries they add nothing to the objective."
            ]
            if warns
            else []
        )
        assert model.k_ == 3
        assert "rare" in model.classes_


@unfinished
def test_batches_too_thin_for_a_class_are_told(rng):
    y = np.repeat([0, 1, 2], [80, 80, 9])
    X = rng.normal(size=(169, 3)) + 2 * y[:, None]
    settings = {"k": 3, "vote": "all", "max_iter": 3, "random_state": 0}
    for sampling in (MiniBatches(30, clusters="random"), Subsample(30)):
        with pytest.warns(UserWarning, match=r"Of 30 rows at a time, .* them: 2\. Use larger"):
            KNCA(2, sampling=sampling, **settings).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        KNCA(2, sampling=StochasticQueries(30), **settings).fit(X, y)


# Rows held out


def test_rows_held_out_do_not_vote(small_classes):
    X, y = small_classes
    settings = {"vote": "all", "early_stopping": True, "validation_fraction": 0.17}  # a row of each
    with pytest.warns(UserWarning, match="is 5, but no row could win .*: k=4 is used"):
        model = KNCA(2, random_state=0, **settings).fit(X, y)
    assert model.k_ == model.n_neighbors_ == 4
    assert model.history_["loss"][0] > 0.1  # there is something to learn from
    assert model.score(X, y) > 0.9


@unfinished
@pytest.mark.parametrize("cv", [2, 3])
def test_a_search_votes_by_what_each_fold_has(small_classes, cv):
    X, y = small_classes
    model = KNCA(2, vote="all", alpha="auto", cv=cv, max_iter=20, random_state=0).fit(X, y)
    assert model.k_ == 5
    assert np.median(model.cv_results_["mean_test_score"]) > 0.6  # nothing learnt: 0.2
    assert model.score(X, y) > 0.9


# Streams


def test_a_stream_must_remember_more_rows_than_vote(rows):
    model = KNCA(2, k=9, reservoir_size=9)
    with pytest.raises(ValueError, match=r"'reservoir_size' .* must be more than k=9.* Got 9 inst"):
        model.partial_fit(*rows, classes=[0, 1, 2])
    assert KNCA(2, k=9, reservoir_size=10).partial_fit(*rows, classes=[0, 1, 2]).k_ <= 9
