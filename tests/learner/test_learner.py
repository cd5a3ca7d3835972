"""What the pipeline of make_learner remembers, and what it does about rows and labels."""

import numpy as np
import pandas as pd
import pytest

import vicinal
from vicinal import make_learner
from vicinal.learner.errors import TableNote
from vicinal.learner.targets import target_kind

X = pd.DataFrame(np.random.RandomState(0).randn(40, 3), columns=list("abc"))
Y = np.repeat(["u", "v"], 20).astype(object)


def test_rows_without_a_label_are_left_out(tmp_path):
    y = Y.copy()
    y[[0, 5, 25]] = None, "?", np.nan
    weights = np.ones(40)
    model = make_learner(X, y, max_iter=3, alpha=0.01, random_state=0)
    with pytest.warns(TableNote, match=r"3 of 40 rows have no label and are left out\."):
        model.fit(X, y, learn__sample_weight=weights)
    kept = ~np.isin(np.arange(40), [0, 5, 25])
    alone = make_learner(X[kept], y[kept], max_iter=3, alpha=0.01, random_state=0)
    alone.fit(X[kept], y[kept], learn__sample_weight=weights[kept])
    np.testing.assert_array_equal(model.transform(X), alone.transform(X))
    assert model.score(X, y) == alone.score(X[kept], y[kept])
    vicinal.save(model, tmp_path / "m.vic")
    loaded = vicinal.load(tmp_path / "m.vic")
    assert loaded.notes_ == model.notes_ == ["3 of 40 rows have no label and are left out."]
    assert (loaded.task_, loaded.left_out_) == ("classes", {})
    assert model.fit_transform(X, y).shape == (40, 3)


#: labels, and what they are
KINDS = {
    "fractions": ([0.5, 1.0, 1.5] * 4, "numbers"),
    "three whole numbers": ([1.0, 2.0, 3.0] * 4, "classes"),
    "21 whole numbers": (range(21), "numbers"),
    "20 whole numbers": (range(20), "classes"),
    "21 strings": ([f"k{i}" for i in range(21)], "classes"),
    "numbers as text": ([f"${i},000" for i in range(1, 40)], "numbers"),
    "few numbers as text": (["1", "2", "3"] * 9, "classes"),
    "truth values": ([True, False] * 9, "classes"),
    "a categorical type": (pd.Categorical(range(30)), "classes"),
    "nullable whole numbers": (pd.array([*range(30), None], dtype="Int64"), "numbers"),
    "Arrow": (pd.array(range(30), dtype="int64[pyarrow]"), "numbers"),
}


@pytest.mark.parametrize("case", KINDS)
def test_what_labels_are(case):
    y, kind = KINDS[case]
    assert target_kind(pd.Series(y)) == kind


@pytest.mark.filterwarnings("ignore")
def test_numbers_are_predicted_as_numbers_unless_said_otherwise():
    y = np.arange(40) // 1.5
    with pytest.warns(TableNote, match=r"27 different numbers.* task='classes' takes each"):
        model = make_learner(X, y, max_iter=3, random_state=0).fit(X, y)
    assert (type(model[-1]).__name__, model.task_) == ("NCARegressor", "numbers")
    text = [f"{value:,.1f}" for value in y]
    same = make_learner(X, text, max_iter=3, random_state=0).fit(X, text)
    y = np.round(y, 1)
    model = make_learner(X, y, max_iter=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), model.predict(X))
    y = np.repeat([0.5, 1.5, 2.5, 3.5], 10)
    model = make_learner(X, y, task="classes", max_iter=3, alpha=0.01).fit(X, y)
    assert set(model.predict(X)) <= {"0.5", "1.5", "2.5", "3.5"}
    assert 0 < model.score(X, y) <= 1
    whole = np.arange(40) // 2
    assert type(make_learner(X, whole, task="numbers")[-1]).__name__ == "MetricVoteRegressor"
    with pytest.raises(ValueError, match=r"Method 'nca' does not learn numbers. Use meth"):
        make_learner(X, y, "nca", task="numbers")
    with pytest.raises(ValueError, match="'task' parameter"):
        make_learner(X, y, task="ranks")
    with pytest.raises(ValueError, match=r"fractions.*Use vicinal.MLKR"):
        make_learner(X, y, "nca").fit(X, y)
    model = make_learner(X, max_iter=3).fit(X, np.tile(np.arange(1, 41), 1) // 1 % 25)
    assert "y holds 25 different numbers, taken as classes." in model.notes_


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "MetricVote"),
        ({"n_folds": 3}, "MetricVote"),
        ({"n_components": 2}, "NCA"),
        ({"alpha": 0.01}, "NCA"),
        ({"task": "numbers"}, "MetricVoteRegressor"),
        ({"task": "numbers", "n_components": 1}, "NCARegressor"),
    ],
)
def test_a_vote_is_the_usual_method(options, name):
    """Unless something is asked for that only a single metric has."""
    assert type(make_learner(X, **options)[-1]).__name__ == name


def test_rare_and_common_classes_are_noted_once():
    y = Y.copy()
    y[3] = "rare"
    with pytest.warns(UserWarning, match="one row") as caught:
        make_learner(X, y, "nca", max_iter=2, alpha=0.01).fit(X, y)
    told = [str(w.message) for w in caught if "one row" in str(w.message)]
    assert told == ["Class 'rare' has one row: there is no other row to learn or test it by."]
    y = np.array(["no"] * 36 + ["yes"] * 4)
    with pytest.warns(TableNote, match=r"'no' has 90 % of the rows; .*priors='uniform'"):
        make_learner(X, y, max_iter=2, alpha=0.01).fit(X, y)


def test_a_table_without_labels_is_refused():
    with pytest.raises(ValueError, match="missing in all 40 rows"):
        make_learner(X, [None] * 40)
