"""Pipelines with our estimators, converted by skl2onnx and by ``vicinal.to_onnx``."""

import sys

import numpy as np
import pandas as pd
import pytest
import skl2onnx
from onnxruntime import InferenceSession
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import vicinal
from vicinal.onnx import feed, register

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

_X, _Y = (part[::2] for part in load_iris(return_X_y=True))


def nca():
    return vicinal.NCA(alpha=1e-2, max_iter=3, random_state=0)


def run(graph, inputs):
    session = InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def test_an_estimator_transforms_in_the_middle_and_predicts_at_the_end():
    middle = make_pipeline(nca(), KNeighborsClassifier(3))
    end = make_pipeline(StandardScaler(), nca())
    beside = make_pipeline(make_union(StandardScaler(), make_pipeline(StandardScaler(), nca())))
    beside.steps.append(("learn", nca()))
    for model in (middle, end, beside):
        model.fit(_X, _Y)
        labels, probabilities = run(vicinal.to_onnx(model), {"X": _X})
        np.testing.assert_array_equal(labels, model.predict(_X))
        np.testing.assert_allclose(probabilities, model.predict_proba(_X), atol=1e-10)


def test_skl2onnx_converts_by_itself():
    register()
    register()  # a second call changes nothing
    X = _X.astype(np.float32)
    model = make_pipeline(StandardScaler(), nca()).fit(X, _Y)
    labels, probabilities = run(skl2onnx.to_onnx(model, X), {"X": X})
    np.testing.assert_array_equal(labels, model.predict(X))
    found = np.array([[row[c] for c in model.classes_] for row in probabilities])  # its default
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-5)
    options = {id(model.steps[-1][1]): {"output": "transform"}}
    (Z,) = run(skl2onnx.to_onnx(model, X, options=options), {"X": X})
    np.testing.assert_allclose(Z, model.transform(X), atol=1e-4)


def test_dictionaries_of_probabilities_are_made_on_request():
    X = _X.astype(np.float32)
    model = nca().fit(X, _Y)
    probabilities = run(vicinal.to_onnx(model, X, zipmap=True), {"X": X})[1]
    expected = model.predict_proba(X)
    assert list(probabilities[0]) == [0, 1, 2]
    assert probabilities[7][1] == pytest.approx(expected[7, 1], abs=1e-6)


def test_a_data_frame_gives_one_input_for_each_column():
    rng = np.random.RandomState(0)
    table = pd.DataFrame({
        "length": _X[:, 0],
        "petals": np.rint(_X[:, 2]).astype(int),
        "colour": rng.choice(["red", "blue"], size=75),
    })  # fmt: skip
    columns = [
        ("numbers", StandardScaler(), ["length", "petals"]),
        ("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]),
    ]
    y = np.array(["setosa", "versicolor", "virginica"])[_Y]
    model = Pipeline([("prepare", ColumnTransformer(columns)), ("learn", nca())]).fit(table, y)
    graph = vicinal.to_onnx(model, table)
    assert [column.name for column in graph.graph.input] == list(table)
    assert '["length", "petals", "colour"]' in [fact.value for fact in graph.metadata_props]
    new = table.iloc[:20].assign(colour="green")  # an unknown category
    for rows in (table, new):
        labels, probabilities = run(graph, feed(graph, rows))
        np.testing.assert_array_equal(labels, model.predict(rows))
        np.testing.assert_allclose(probabilities, model.predict_proba(rows), atol=1e-10)
    with pytest.raises(ValueError, match="X must have the columns \\['colour'\\]"):
        feed(graph, table[["length", "petals"]])
    with pytest.raises(ValueError, match="'X' parameter of to_onnx must be a data frame"):
        vicinal.to_onnx(model)


def _table(rng, n=90):
    """Numbers, gaps, categories, rare ones, missing strings, an order and truth values."""
    y = rng.randint(3, size=n)
    table = pd.DataFrame({
        "weight": rng.normal(size=n) + y,
        "height": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n) * y),
        "count": pd.array(rng.randint(50, size=n), dtype="Int64"),
        "colour": rng.choice(["red", "blue", "green"], size=n),
        "coat": np.where(rng.uniform(size=n) < 0.1, None, rng.choice(["long", "short"], size=n)),
        "city": [f"city {i}" for i in rng.zipf(1.5, size=n) % 40],
        "size": pd.Categorical(rng.choice(["S", "M", "L"], size=n), ["S", "M", "L"], ordered=True),
        "wild": rng.uniform(size=n) < 0.5,
    })  # fmt: skip
    return table, y


def test_a_learner_of_a_table_predicts_as_its_pipeline():
    table, y = _table(np.random.RandomState(0))
    model = vicinal.make_learner(
        table, y, n_components=2, max_categories=5, max_iter=3, alpha=1e-2, random_state=0
    ).fit(table, y)
    graph = vicinal.to_onnx(model, table)
    new = _table(np.random.RandomState(1))[0].assign(colour="pink", city="nowhere", weight=np.nan)
    new.loc[:3, "count"] = pd.NA
    for rows in (table, new):
        labels, probabilities = run(graph, feed(graph, rows))
        np.testing.assert_array_equal(labels, model.predict(rows))
        np.testing.assert_allclose(probabilities, model.predict_proba(rows), atol=1e-10)


def test_columns_of_extreme_size_convert():
    table, y = _table(np.random.RandomState(0))
    table["weight"] *= 1e200
    model = vicinal.make_learner(table, y, max_iter=2, alpha=1e-2, random_state=0).fit(table, y)
    probabilities = run(vicinal.to_onnx(model, table), feed(vicinal.to_onnx(model, table), table))[
        1
    ]
    np.testing.assert_allclose(probabilities, model.predict_proba(table), atol=1e-10)


def test_text_and_dates_are_refused():
    table, y = _table(np.random.RandomState(0))
    words = "a mild and sunny day with some clouds and no rain at all".split()
    rng = np.random.RandomState(2)
    texts = [" ".join(rng.choice(words, size=6)) for _ in y]
    text = table[["weight"]].assign(note=texts)
    model = vicinal.make_learner(text, y, text=["note"], max_iter=2, alpha=1e-2).fit(text, y)
    with pytest.raises(ValueError, match="cannot convert columns of text, note: ONNX has no"):
        vicinal.to_onnx(model, text)
    empty = table[["weight"]].assign(coat=np.where(y == 0, "", "long"))
    model = vicinal.make_learner(empty, y, max_iter=2, alpha=1e-2).fit(empty, y)
    graph = vicinal.to_onnx(model, empty)  # it is a missing value
    np.testing.assert_array_equal(run(graph, feed(graph, empty))[0], model.predict(empty))
    dates = table[["weight"]].assign(day=pd.date_range("2024-01-01", periods=len(y)))
    model = vicinal.make_learner(dates, y, max_iter=2, alpha=1e-2).fit(dates, y)
    with pytest.raises(ValueError, match="cannot convert columns of dates, day: ONNX has no"):
        vicinal.to_onnx(model, dates)


def test_numbers_in_text_are_inputs_of_numbers():
    table, y = _table(np.random.RandomState(0))
    table = table[["weight", "coat"]].assign(price=[f"${value:,}" for value in 997 * y + 3000])
    table.loc[:9, "price"] = "?"
    model = vicinal.make_learner(table, y, max_iter=2, alpha=1e-2).fit(table, y)
    graph = vicinal.to_onnx(model, table)
    fed = feed(graph, table)
    assert fed["price"].dtype == np.float64
    np.testing.assert_array_equal(run(graph, fed)[0], model.predict(table))


def test_numbers_in_text_are_read_as_they_were_in_the_fit():
    """A few rows do not tell what a comma means, or that "kg" is a unit."""
    table, y = _table(np.random.RandomState(0))
    tenths = [f"{value},125" for value in 10 * y + np.arange(len(y)) % 7]
    mass = [f"{value} kg" for value in 90 + 30 * y]
    table = table[["coat"]].assign(price=tenths, mass=mass)
    table.loc[0, "price"] = "1.234,5"
    model = vicinal.make_learner(table, y, max_iter=2, alpha=1e-2).fit(table, y)
    graph = vicinal.to_onnx(model, table)
    few = table.iloc[1:3]
    np.testing.assert_array_equal(feed(graph, few)["price"], feed(graph, table)["price"][1:3])
    assert feed(graph, few)["price"].max() < 100
    np.testing.assert_array_equal(run(graph, feed(graph, few))[0], model.predict(few))


@pytest.mark.parametrize("encoder", [OneHotEncoder(sparse_output=False), OrdinalEncoder()])
def test_categories_without_digits_in_the_precision_of_the_inputs_are_refused(encoder):
    rng = np.random.RandomState(0)
    column = ColumnTransformer([("code", encoder, ["code"])], remainder="passthrough")
    model = Pipeline([("prepare", column), ("learn", nca())])
    y = np.arange(60) % 3
    numbers = rng.normal(size=60).astype(np.float32)
    whole = np.array([5, 2**63, 2**63 + 1], dtype=np.uint64)
    for codes, kind in ((whole, np.uint64), ([5.0, 0.1, 0.1 + 1e-12], np.float32)):
        table = pd.DataFrame({"number": numbers, "code": np.array(codes)[y]})
        model.fit(table, y)
        types = table.astype({"code": kind})
        with pytest.raises(ValueError, match=r"different numbers in float.*as strings, X.astype"):
            vicinal.to_onnx(model, types)
        table = table.astype({"code": str})  # the remedy
        model.fit(table, y)
        graph = vicinal.to_onnx(model, table)
        found = run(graph, feed(graph, table))[1]
        np.testing.assert_allclose(found, model.predict_proba(table), atol=1e-4)  # in float32


def test_an_estimator_takes_the_columns_of_a_data_frame():
    pl = pytest.importorskip("polars")
    for table in (pd.DataFrame(_X, columns=list("abcd")), pl.DataFrame(_X, schema=list("abcd"))):
        model = vicinal.LFDA(n_components=2).fit(table, _Y)
        graph = vicinal.to_onnx(model, table)
        np.testing.assert_allclose(run(graph, feed(graph, table))[0], model.transform(table))


def test_another_last_step_has_no_output_to_choose():
    model = make_pipeline(nca(), KNeighborsClassifier(3)).fit(_X, _Y)
    with pytest.raises(ValueError, match="must be 'auto' for a pipeline that ends with KNeigh"):
        vicinal.to_onnx(model, output="transform")


def test_without_the_packages_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx needs onnx and skl2onnx: pip install 'vicinal"):
        vicinal.to_onnx(nca())
