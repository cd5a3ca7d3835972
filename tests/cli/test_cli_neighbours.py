"""`vicinal neighbours`: what `kneighbors` finds, with labels and columns."""

import io

import numpy as np
import pytest

pytest.importorskip("pandas")
import pandas as pd

import vicinal

FIT = ("--label", "species", "--set", "alpha=0.01")


def frame_of(done):
    return pd.read_csv(io.StringIO(done.stdout))


def test_the_nearest_training_rows_with_labels_and_columns(iris, run, run_json):
    run("fit", "iris.csv", *FIT, "-o", "m.vic")
    train, test = pd.read_csv("iris.csv"), pd.read_csv("test.csv")
    model = vicinal.load("m.vic")
    found = frame_of(run("neighbours", "m.vic", "test.csv", "--k", "3"))
    assert found.columns.tolist() == ["query", "rank", "row", "distance", "species"]
    distances, rows = model[-1].kneighbors(model[:-1].transform(test.iloc[:, :4]), 3)
    np.testing.assert_array_equal(found["row"], rows.ravel())
    np.testing.assert_allclose(found["distance"], distances.ravel(), rtol=1e-6, atol=1e-9)
    assert (found["species"] == train["species"].to_numpy()[found["row"]]).all()
    more = ("--table", "iris.csv", "--show", "petal_width", "--keep", "petal_width")
    shown = frame_of(run("neighbours", "m.vic", "test.csv", "--k", "3", *more))
    np.testing.assert_array_equal(shown["row"], found["row"])
    np.testing.assert_allclose(shown["distance"], found["distance"], rtol=1e-6, atol=1e-9)
    assert (shown["petal_width"] == train["petal_width"].to_numpy()[rows.ravel()]).all()
    assert (shown["query petal_width"] == test["petal_width"].to_numpy()[shown["query"]]).all()
    told = run_json("neighbors", "m.vic", "test.csv", "--k", "3")["neighbors"]
    assert pd.DataFrame(told)["row"].tolist() == found["row"].tolist()
    assert (
        "must be an int in [1, 50]"
        in run("neighbours", "m.vic", "test.csv", "--k", "51", code=1).stderr
    )


def test_no_row_of_the_same_table_is_its_own_neighbour(iris, run):
    run("fit", "iris.csv", *FIT, "-o", "m.vic")
    found = frame_of(run("neighbours", "m.vic", "iris.csv", "--table", "iris.csv", "--k", "49"))
    assert (found["row"] != found["query"]).all()
    assert (
        "--k: iris.csv has 50 rows. Got 50."
        in run("neighbours", "m.vic", "iris.csv", "--table", "iris.csv", "--k", "50", code=2).stderr
    )


def test_numbers_are_those_that_were_learnt(iris, run):
    words = ("--label", "petal_width", "--drop", "species", "--method", "mlkr")
    run("fit", "iris.csv", *words, "--set", "max_iter=3", "-o", "m.vic")
    found = frame_of(run("neighbours", "m.vic", "test.csv", "--k", "2"))
    train = pd.read_csv("iris.csv")
    np.testing.assert_allclose(found["petal_width"], train["petal_width"].to_numpy()[found["row"]])


@pytest.mark.parametrize("method", ["rca", "chi2-lmnn", "itml"])
def test_models_of_other_kinds(iris, run, method):
    table = pd.read_csv("iris.csv")
    numbers = table.columns[:4]
    table[numbers] = table[numbers].div(table[numbers].sum(axis=1), axis=0)
    table.to_csv("iris.csv", index=False)
    run("fit", "iris.csv", "--label", "species", "--method", method, "-o", "m.vic")
    if method == "chi2-lmnn":
        kept = frame_of(run("neighbours", "m.vic", "test.csv"))
    else:
        told = run("neighbours", "m.vic", "test.csv", code=1).stderr
        assert "keeps no training rows. Name the table to search: --table TRAIN.csv" in told
    found = frame_of(run("neighbours", "m.vic", "test.csv", "--table", "iris.csv"))
    assert len(found) == 250
    if method == "chi2-lmnn":
        np.testing.assert_allclose(found["distance"], kept["distance"], rtol=1e-6)
