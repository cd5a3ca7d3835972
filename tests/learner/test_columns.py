"""Columns that cannot be used: the error names the column, a row, its value and the option."""

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from vicinal import make_learner
from vicinal.learner.errors import ColumnError, TableNote
from vicinal.learner.preparation import check_new_rows
from vicinal.learner.text import TextColumns

N = 30
DAYS = pd.date_range("2024-01-01", periods=N)

REFUSED = {
    "identifier": ([f"K{i:03}" for i in range(N)], r"identifier: 30 .*row 0: 'K000'.*drop=\['c'\]"),
    "date": (DAYS, r"holds dates \(row 0: .*drop=\['c'\]"),
    "date as text": (DAYS.strftime("%Y-%m-%d"), r"holds dates \(row 0: '2024-01-01'\)"),
    "row numbers": (np.random.RandomState(0).permutation(N) + 1, "looks like row numbers"),
    "words": ([*map(str, range(N - 1)), "n/a"], r"not in every row \(row 29: 'n/a'\).*na_values"),
    "numbers as text": ([f"{i}.5" for i in range(N)], r"numbers as text.*numeric=\['c'\] to read"),
    "nothing": ([np.nan] * N, r"has no value in any row\. Use drop=\['c'\]"),
    "infinite": ([1.5] * (N - 1) + [np.inf], r"infinite numbers \(row 29: inf\)"),
    "mixed": ([1, "one", *"ab" * (N // 2 - 1)], r"both strings and other values \(row 1: 'one'\)"),
    "lists": ([[1]] * N, r"values of type list.*row 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    values, message = REFUSED[case]
    X = pd.DataFrame({"u": np.random.RandomState(0).randn(N), "c": values})
    with pytest.raises(ColumnError, match=message) as raised:
        make_learner(X, strict=True)
    assert raised.value.column == "c"
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    model = make_learner(X, drop=["c"])  # what every message offers
    assert model[0].transformers[0][2] == ["u"]


def test_gap_rows_are_counted_in_the_table():
    X = pd.DataFrame({"c": [None, None, *(f"K{i}" for i in range(N))], "u": 0.5})
    with pytest.raises(ColumnError, match="row 2: 'K0'"):
        make_learner(X, strict=True)


def test_polars_is_refused_alike():
    X = pl.DataFrame({"u": np.linspace(0, 0.9, N), "c": DAYS})
    with pytest.raises(ColumnError, match="'c' holds dates"):
        make_learner(X, strict=True)


def test_options_use_what_would_be_refused():
    ids = [f"K{i:03}" for i in range(N)]
    X = pd.DataFrame({"row": range(N), "id": ids})
    y = np.repeat(["a", "b"], N // 2)
    model = make_learner(X, y, "rca", numeric=["row"], categorical=["id"]).fit(X, y)
    assert model[-1].n_features_in_ == 1 + 30
    assert "missing" not in str(make_learner(X, numeric=["row"], drop=["id"]))


def test_a_message_in_other_words():
    """A command line spells options and rows in its own way."""
    error = ColumnError("age", "holds numbers", [("na", "to skip it")], 3, "?")
    spelt = error.text(lambda name, column, value: f"--na {value}", lambda row: f"line {row + 2}")
    assert spelt == "Column 'age' holds numbers (line 5: '?'). Use --na ? to skip it."


def test_missing_labels_name_their_rows():
    X = pd.DataFrame({"u": np.random.RandomState(0).randn(6)})
    with pytest.raises(ValueError, match="2 of 6 are, in row 1, 4"):
        make_learner(X, ["a", None, "b", "a", np.nan, "b"], strict=True)
    with pytest.raises(ValueError, match="X has 6 rows, but y has 5"):
        make_learner(X, [0] * 5)


def test_masked_labels_are_missing():
    X = pd.DataFrame({"u": np.random.RandomState(0).randn(6)})
    with pytest.raises(ValueError, match="1 of 6 are, in row 2"):
        make_learner(X, np.ma.array([0, 1, 5, 0, 1, 0], mask=[0, 0, 1, 0, 0, 0]), strict=True)


def test_text_is_reduced_and_missing_texts_are_empty():
    rng = np.random.RandomState(0)
    words = [f"word{i}" for i in range(300)]
    texts = [[" ".join(rng.choice(words, 30))] for _ in range(60)]
    texts[3] = [None]
    columns = TextColumns(5, random_state=0)
    Z = columns.fit_transform(texts)
    assert Z.shape == (60, 5)
    assert not Z[3].any()
    assert columns.get_feature_names_out()[0] == "x0_0"
    np.testing.assert_array_equal(columns.transform(texts), Z)
    with pytest.raises(ValueError, match="'x0' has no word that occurs in two rows"):
        TextColumns().fit([["one"], ["two"]])


def test_names_that_are_numbers_and_names_that_are_there_twice():
    """A number is a position to scikit-learn's ColumnTransformer, not a name."""
    y = np.repeat(["a", "b"], 10)
    X = pd.DataFrame({7: y, 5: np.random.RandomState(0).randn(20)})
    model = make_learner(X, y, "rca").fit(X, y)
    assert model[-1].n_features_in_ == 3
    assert make_learner(X, y, "rca", drop=[7]).fit(X, y)[-1].n_features_in_ == 1
    X.columns = ["u", "u"]
    with pytest.raises(ValueError, match=r"several columns of one name.*'u' is called 'u 2'"):
        make_learner(X, y, strict=True)
    with pytest.warns(TableNote, match=r"Another column 'u' is called 'u 2'\."):
        model = make_learner(X, y, "rca", drop=["u"]).fit(X, y)
    assert model[:-1].get_feature_names_out().tolist() == ["u 2"]
    assert np.isfinite(model.transform(X)).all()


def test_decimals_and_ordered_numbers():
    y = ["a", "b", "c"] * 10
    X = pd.DataFrame(
        {"price": [Decimal("1.5"), None, Decimal("2.5")] * 10, "stars": 10 * [1, 2, 5]}
    )
    for ordinal in (["stars"], {"stars": [1, 2, 3, 4, 5]}):
        rows = make_learner(X, y, "covariance", ordinal=ordinal)[:-1].fit_transform(X)
        assert np.isfinite(rows).all()
    with pytest.raises(ValueError, match="'stars' holds numbers, which have an order of their own"):
        make_learner(X, y, ordinal={"stars": [5, 2, 1]})


def test_one_message_names_all_columns():
    ids = [f"K{i:03}" for i in range(N)]
    X = pd.DataFrame({"row": range(N), "id": ids, "u": np.random.RandomState(0).randn(N)})
    with pytest.raises(ColumnError) as raised:
        make_learner(X, strict=True)
    lines = str(raised.value).splitlines()
    assert [line.split()[1] for line in lines] == ["'row'", "'id'"]
    spelt = raised.value.text(lambda name, column, value: f"--{name} {column}")
    assert "--drop row" in spelt
    assert "--drop id" in spelt


def test_new_rows_with_words_and_without_columns():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"age": rng.randn(N), "size": rng.randn(N), "kind": ["x", "y"] * (N // 2)})
    y = np.repeat(["a", "b"], N // 2)
    model = make_learner(X, y, "rca").fit(X, y)
    check_new_rows(model, X.assign(other="?"))
    check_new_rows(model, pl.from_pandas(X))
    words = X.astype({"age": object})
    words.loc[4, "age"], words.loc[5, "age"] = "unknown", "?"
    with pytest.warns(
        TableNote, match=r"Column 'age': 'unknown' among its numbers is read as missing\."
    ) as caught:
        Z = model.transform(words)
    assert len(caught) == 1
    gaps = X.copy()
    gaps.loc[4:5, "age"] = np.nan
    np.testing.assert_array_equal(model.transform(gaps), Z)
    with pytest.raises(
        ValueError, match=r"lacks 2 of the 3 columns .*'age', 'kind'. Did you mean 'Age'"
    ):
        check_new_rows(model, X.rename(columns={"age": "Age"}).drop(columns="kind"))


def test_copies_are_left_out():
    rng = np.random.RandomState(0)
    X = pd.DataFrame({"a": rng.randint(0, 9, N), "kind": rng.choice(["x", "y"], N)})
    X["b"], X["sort"], X["c"] = X["a"].astype(float), X["kind"].astype("category"), -X["a"]
    with pytest.warns(TableNote) as caught:
        model = make_learner(X)
    assert model.left_out == {"b": "the same as 'a'", "sort": "the same as 'kind'"}
    assert [str(w.message) for w in caught] == [
        "Column 'b': left out, the same as 'a'.",
        "Column 'sort': left out, the same as 'kind'.",
    ]
    few = make_learner(X.iloc[[0, 1, 2, 3, 9]]).left_out
    assert "b" not in few  # it may be chance
    assert make_learner(X.select_dtypes("number").to_numpy())[0].__class__.__name__ == "MetricVote"


def test_columns_of_which_the_same_is_said_share_a_note():
    X = pd.DataFrame({f"c{j}": [j] * N for j in range(12)}).assign(u=range(0, 3 * N, 3))
    with pytest.warns(TableNote) as caught:
        make_learner(X)
    (told,) = [str(w.message) for w in caught]
    assert told.endswith("'c6', 'c7' and 4 more: left out, one value only.")


def test_a_table_without_a_usable_column_is_refused():
    X = pd.DataFrame({"a": [1] * N, "b": [None] * N})
    with pytest.raises(ValueError, match=r"No column is left .*'a' \(one value only\), 'b' \(no v"):
        make_learner(X)


def test_new_formats_become_missing_and_new_values_rare():
    rng, days = np.random.RandomState(0), pd.date_range("2021-02-03", periods=N, freq="11D")
    X = pd.DataFrame({"when": days.strftime("%d.%m.%Y"), "kind": rng.choice(["x", "y"], N)})
    X["price"] = [f"{1234.5 * i:,.2f}".translate(str.maketrans(",.", ".,")) for i in range(N)]
    y = np.repeat(["a", "b"], N // 2)
    model = make_learner(X, y, "lfda").fit(X, y)
    rows = model[:-1].transform(X.head(2))
    new = X.head(2).copy()
    new["when"] = days[:2]  # stored as dates now, and prices as numbers
    new["price"] = [0.0, 1234.5]
    np.testing.assert_array_equal(model[:-1].transform(new), rows)
    new["when"], new["kind"] = ["2021-02-03", "soon"], ["z", None]
    with pytest.warns(TableNote, match="'when': '2021-02-03' among its dates is read as missing"):
        assert np.isfinite(model.transform(new)).all()
