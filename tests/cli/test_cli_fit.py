"""`vicinal fit`, and what uses the model: `transform`, `predict`, `info`."""

import io
import json
import os

import numpy as np
import pytest
from common.checks import needs_callbacks

pytest.importorskip("pandas")
import pandas as pd

import vicinal
from vicinal.learner import METHODS

QUICK = ("--label", "species", "--set", "alpha=0.01", "--dim", "2")


def frame_of(text):
    return pd.read_csv(io.StringIO(text))


def test_model_file_gives_what_the_library_gives(iris, run, run_json):
    told = run_json("fit", "iris.csv", *QUICK, "-o", "m.vic")
    assert (told["n_rows"], told["n_columns"], told["n_classes"], told["n_components"]) == (
        50,
        4,
        3,
        2,
    )
    assert told["converged"]
    assert told["iterations"] > 1
    train, test = pd.read_csv("iris.csv"), pd.read_csv("test.csv")
    expected = vicinal.NCA(2, alpha=0.01, random_state=0).fit(train.iloc[:, :4], train["species"])
    places = frame_of(run("transform", "m.vic", "test.csv", "--keep", "species").stdout)
    np.testing.assert_allclose(places.iloc[:, 1:], expected.transform(test.iloc[:, :4]), rtol=1e-9)
    assert (places["species"] == test["species"]).all()
    done = run("predict", "m.vic", "test.csv", "--proba", "--label", "species")
    whole = frame_of(done.stdout)
    pd.testing.assert_frame_equal(whole.iloc[:, :5], test)
    guesses = whole.iloc[:, 5:]
    assert (guesses["prediction"] == expected.predict(test.iloc[:, :4])).all()
    np.testing.assert_allclose(guesses.iloc[:, 1:].sum(axis=1), 1)
    accuracy = (guesses["prediction"] == test["species"]).mean()
    assert f"accuracy: {accuracy:.4g}" in done.stderr
    assert "learnt from" not in done.stderr
    alone = run("predict", "m.vic", "iris.csv", "--label", "species", "--only-prediction")
    assert frame_of(alone.stdout).columns.tolist() == ["prediction"]
    assert (
        "Note: All of these rows are equal to rows that the model has learnt from" in alone.stderr
    )


def test_standard_input_and_output(iris, run):
    table = (iris / "iris.csv").read_text()
    run("fit", "-", *QUICK, "-o", "m.vic", stdin=table)
    places = frame_of(run("transform", "m.vic", stdin=table).stdout)
    assert places.shape == (50, 2)


def test_label_by_position(iris, run_json):
    assert run_json("fit", "iris.csv", "--label", "-1", *QUICK[2:])["label"] == "species"
    assert (iris / "model.vic").exists()


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".tsv"])
def test_tables_of_other_kinds(iris, run, run_json, suffix):
    run("fit", "iris.csv", *QUICK, "-o", "m.vic")
    told = run_json("transform", "m.vic", "iris.csv", "-o", f"out{suffix}")
    assert told["n_rows"] == 50
    first = run_json("transform", "m.vic", "iris.csv")["rows"][0]
    found = {
        ".parquet": lambda p: pd.read_parquet(p).to_numpy(),
        ".npz": lambda p: np.load(p)["X"],
        ".tsv": lambda p: pd.read_csv(p, sep="\t").to_numpy(),
    }[suffix](f"out{suffix}")
    np.testing.assert_allclose(found[0], first)


def test_info_names_what_is_in_the_file(iris, run, run_json):
    run("fit", "iris.csv", *QUICK, "-o", "m.vic")
    shown = run("info", "m.vic").stdout
    for word in ("NCA", "sepal_length", "setosa", "alpha", vicinal.__version__):
        assert word in shown
    assert run_json("info", "m.vic")["kind"] == "pipeline"


def test_same_seed_and_any_threads_give_the_same_file(iris, run):
    run("fit", "iris.csv", *QUICK, "--threads", "1", "-o", "a.vic")
    run("fit", "iris.csv", *QUICK, "--threads", "2", "-o", "b.vic")
    places = [run("transform", name, "test.csv").stdout for name in ("a.vic", "b.vic")]
    assert places[0] == places[1]


def test_time_budget_and_strict(iris, run, run_json):
    told = run_json("fit", "iris.csv", *QUICK, "--time-budget", "1m")
    assert told["converged"]
    done = run("fit", "iris.csv", *QUICK, "--set", "max_iter=2", "--strict", code=3)
    assert "Note: " in done.stderr
    assert (iris / "model.vic").exists()
    run("fit", "iris.csv", *QUICK, "--set", "max_iter=2")


@needs_callbacks
def test_checkpoint_resumes_to_the_same_bits(iris, run):
    more = ("--set", "max_iter=40", "--set", "tol=1e-9")
    run("fit", "iris.csv", *QUICK, *more, "-o", "whole.vic")
    run("fit", "iris.csv", *QUICK, *more, "--checkpoint", "c.vic", "--every", "3", "-o", "x.vic")
    run("fit", "iris.csv", *QUICK, *more, "--resume", "c.vic", "-o", "resumed.vic")
    places = [run("transform", name, "test.csv").stdout for name in ("whole.vic", "resumed.vic")]
    assert places[0] == places[1]


#: command lines, exit codes, and what the answer says; IRIS stands for the table and its label
MISTAKES = [
    ("fit iris.csv --label specis", 1, "Did you mean 'species'?"),
    ("fit iris.csv", 2, "Name the column to learn: --label COLUMN. iris.csv has sepal_length"),
    ("fit iriss.csv --label species", 1, "There is no file iriss.csv. Did you mean 'iris.csv'?"),
    ("fit IRIS --method ncaa", 2, "Did you mean 'nca'?"),
    ("fit IRIS --set alphax=1", 2, "Did you mean 'alpha'?"),
    ("fit IRIS --set alpha", 2, "name=value"),
    ("fit IRIS --set max_iter=0", 1, "The 'max_iter' parameter of NCA"),
    ("fit IRIS --dim 9", 1, "'n_components' parameter of NCA"),
    ("fit IRIS --dim 2 --set n_components=3", 2, "give one of them"),
    ("fit IRIS --set random_state=0", 2, "--set random_state: --seed draws all that is random. Use "
     "--seed 0."),
    ("fit IRIS --set random_state=None", 2, "Use --seed N, a whole number from 0 on."),
    ("evaluate IRIS --set random_state=3", 2, "Use --seed 3."),
    ("evaluate IRIS --dim 2 --set n_components=3", 2, "give one of them"),
    ("fit IRIS --time-budget 1m --set time_budget=9", 2, "--time-budget and --set time_budget say"),
    ("fit IRIS --early-stopping --set early_stopping=False", 2, "--early-stopping and --set"),
    ("embed iris.csv --k 3 --set k=4", 2, "--k and --set k say the same: give one of them"),
    ("embed iris.csv --dim 3 --set n_components=4", 2, "give one of them"),
    ("fit IRIS --drop sepal_with", 2, "no column 'sepal_with'. Did you mean 'sepal_width'?"),
    ("fit IRIS --time-budget soon", 2, "30s, 2m or 1h30m"),
    ("fit IRIS --method rca --time-budget 1s", 2, "no iterations"),
    ("fit IRIS --method rca --checkpoint c", 2, "no iterations"),
    ("fit IRIS --resume none.vic", 1, "there is no such checkpoint"),
    ("fit IRIS -o no/where/m.vic", 1, "the folder no/where does not exist"),
    ("fit IRIS --method mlkr", 1, "The labels y must be numbers for this method. Got 'setosa'."),
    ("evaluate IRIS --method nca --task numbers", 2, "--task numbers: the methods learn classes."),
    ("neighbours none.vic iris.csv", 1, "none.vic: there is no such model file"),
    ("neighbors none.vic iris.csv", 1, "none.vic: there is no such model file"),
    ("transform iris.csv iris.csv", 1, "iris.csv: It is not a model file"),
    ("fit m.vic --label species", 1, "m.vic: this is a model file"),
    ("fit IRIS --dim two", 2, "not a valid whole number"),
    ("transform none.vic iris.csv", 1, "there is no such model file"),
    ("info none.vic", 1, "none.vic: there is no such model file"),
    ("embed . -o places.csv", 1, ". is a folder. Name a file."),
    ("plot IRIS -o a.doc", 1, ".png, .svg or .pdf"),
    ("plot IRIS --kind neighbour", 2, "Did you mean 'neighbors'?"),
    ("evaluate iris.csv", 2, "Name the column to learn"),
    ("evaluate IRIS --set alphax=1", 2, "Did you mean 'alpha'?"),
    ("datasets wines", 1, "'wines' was not found"),
    ("report IRIS --images 8", 2, "such as 28x28"),
]  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="Windows allows links to few users")
@pytest.mark.parametrize(
    ("target", "words"),
    [("no/where/m.vic", "no/where does not exist"), ("link.vic", "leads back to itself")],
)
def test_a_link_that_cannot_be_written_through_is_refused_before_the_fit(iris, run, target, words):
    (iris / "link.vic").symlink_to(target)
    done = run(
        "fit", "iris.csv", "--label", "species", "-o", "link.vic", "--set", "alpha=-1", code=1
    )
    assert words in done.stderr
    assert "alpha" not in done.stderr


@pytest.mark.parametrize(("line", "code", "message"), MISTAKES)
def test_mistakes_are_answered_in_one_sentence(iris, run, line, code, message, monkeypatch):
    monkeypatch.setattr("vicinal.datasets._sources.fetch_openml", _offline)
    words = line.replace("IRIS", "iris.csv --label species").split()
    done = run(*words, code=code)
    assert message in done.stderr
    assert done.stdout == ""
    told = json.loads(run(*words, "--json", code=code).stdout)
    assert told["exit_code"] == code
    assert message in told["error"]


def _offline(*_, **__):
    raise OSError("no network")


def test_missing_column_at_prediction_is_named(iris, run):
    run("fit", "iris.csv", *QUICK, "-o", "m.vic")
    pd.read_csv("test.csv").drop(columns="petal_width").to_csv("less.csv", index=False)
    done = run("predict", "m.vic", "less.csv", code=1)
    assert "'petal_width'" in done.stderr


def test_methods_without_predictions_say_so(iris, run):
    run("fit", "iris.csv", "--label", "species", "--method", "rca", "-o", "m.vic")
    done = run("predict", "m.vic", "test.csv", code=1)
    assert "RCA has no predict" in done.stderr


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("nca", "rca")])
def test_every_method_fits_and_maps(iris, run, run_json, method):
    more = ("--set", "max_iter=3") if "max_iter" in METHODS[method].parameters() else ()
    if METHODS[method].target == "numbers":
        more += ("--drop", "species", "--label", "petal_width")
    else:
        more += ("--label", "species")
    if method == "chi2-lmnn":
        table = pd.read_csv("iris.csv")
        numbers = table.columns[:4]
        table[numbers] = table[numbers].div(table[numbers].sum(axis=1), axis=0)
        table.to_csv("iris.csv", index=False)
    run("fit", "iris.csv", "--method", method, *more, "-o", "m.vic")
    assert run_json("transform", "m.vic", "iris.csv")["n_rows"] == 50


def test_a_table_as_people_have_it(tmp_path, monkeypatch, run, run_json):
    """Categories, an order, gaps, text and an identifier."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 60
    kind = rng.integers(2, size=n)
    table = pd.DataFrame({
        "id": [f"r{i}" for i in range(n)],
        "colour": np.where(rng.random(n) < 0.8, np.array(["red", "blue"])[kind], "green"),
        "size": rng.choice(["S", "M", "L"], n),
        "weight": np.where(rng.random(n) < 0.2, np.nan, kind + rng.standard_normal(n)),
        "kind": np.array(["a", "b"])[kind],
    })  # fmt: skip
    table.loc[3, "size"] = None
    table.to_csv("t.csv", index=False)
    refused = run("fit", "t.csv", "--label", "kind", "--strict-columns", code=1)
    assert "Column 'id'" in refused.stderr
    pasted = "\nFor example: vicinal fit t.csv --label kind --strict-columns --drop id"
    assert pasted in refused.stderr
    told = run_json("fit", "t.csv", "--label", "kind", "--drop", "id", "--ordinal", "size=S,M,L",
                    "--set", "alpha=0.01", "--dim", "1")  # fmt: skip
    assert told["n_classes"] == 2
    guesses = run_json("predict", "model.vic", "t.csv", "--label", "kind", "--keep", "id,kind")
    assert guesses["columns"] == ["id", "kind", "prediction"]
    assert guesses["accuracy"] > 0.75
