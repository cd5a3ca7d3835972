"""Tables that are cut off or broken, and text that a spreadsheet would run."""

import gzip
import io
import itertools
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
import pandas as pd

from vicinal.cli._tables import read_table, write_table

GZIP = gzip.compress(b"a,b,y\n" + b"1,2,u\n3,5,v\n4,2,u\n0,1,v\n" * 9, mtime=0)


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def archive(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(name, content)
    return file.getvalue()


X = np.arange(40.0).reshape(20, 2)
NPZ = npz(X=X, y=np.arange(20) % 2)
BROKEN = [
    ("t.csv.gz", GZIP[:-20], "t.csv.gz is cut off: its compressed data have no end."),
    ("t.csv.gz", GZIP[:20] + b"\xff" * 9 + GZIP[29:], "t.csv.gz is broken: "),
    ("t.csv", b"a,y\n" + b"x" * 200_000 + b",u\n", "t.csv cannot be read as a table: field larger"),
    ("t.npz", NPZ[:-20], "t.npz is broken, or it is no NPZ file of plain arrays: "),
    ("t.npz", NPZ[:60] + b"\xff" * 30 + NPZ[90:], "t.npz is broken"),
    ("t.npz", b"hello", "t.npz is broken"),
    ("t.npz", npz(X=np.array([[1, None]], dtype=object)), "t.npz is broken"),
    ("t.npz", archive("X", b"hello"), "t.npz must have an array X with rows and columns."),
    ("t.npz", npz(X=X, feature_names=np.array(["a"])), "feature_names must have shape (2,)."),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=range(len(BROKEN)))
def test_broken_tables_are_named(tmp_path, monkeypatch, run, name, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    done = run("fit", name, "--label", "y", code=1)
    assert f"Error: {message}" in done.stderr or f"Error: {name}: {message}" in done.stderr


def test_a_broken_parquet_file_is_named(tmp_path, run):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": [1, 2]}, metadata={"pandas": "{}"}), path)
    done = run("fit", path, "--label", "y", code=1)
    assert "t.parquet cannot be read as Parquet" in done.stderr


def test_a_file_without_end_is_no_interrupt(iris, run):
    (iris / "old.pkl").write_bytes(pickle.dumps(list(range(999)), protocol=3)[:500])
    words = ("fit", "iris.csv", "--label", "species", "--set", "alpha=0.01")
    assert "cut short" in run(*words, "--resume", "old.pkl", code=1).stderr


FORMULAS = ("=1+1", "+49 89", "-", "@me", "\ttab", "\rline", "-1+2", "'=x", "''+")
TEXTS = ("a", "it's", "'a", "'", "1.5", "-1.5", "+2e-3", "-1,5", "a=b", "café")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_text_is_written_safely_and_read_as_it_was(tmp_path, suffix):
    path, frame = tmp_path / f"t{suffix}", pd.DataFrame({"'=t": [*FORMULAS, *TEXTS]})
    frame["x"] = -np.arange(len(frame)) - 0.5
    with pytest.warns(UserWarning, match=f"^{len(FORMULAS) + 1} values begin with"):
        write_table(path, frame)
    with open(path, newline="", encoding="utf-8") as file:
        written = pd.read_csv(file, sep="," if suffix == ".csv" else "\t", dtype=str)
    assert list(written.columns) == ["''=t", "x"]
    assert written["''=t"].tolist() == [*(f"'{text}" for text in FORMULAS), *TEXTS]
    assert written["x"].astype(float).tolist() == frame["x"].tolist()
    with pytest.warns(UserWarning, match=f"{len(FORMULAS)} values begin with an apostrophe"):
        read = read_table(path).X
    pd.testing.assert_frame_equal(read, frame, check_dtype=False)


@pytest.mark.parametrize("alphabet", ["'=-+@1a.", "'=\ta", "'=\r\na,"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_short_text_is_read_as_it_was(tmp_path, alphabet):
    texts = ["".join(t) for n in (1, 2, 3) for t in itertools.product(alphabet, repeat=n)]
    write_table(tmp_path / "t.csv", pd.DataFrame({"t": texts, "x": range(len(texts))}))
    assert read_table(tmp_path / "t.csv").X["t"].tolist() == texts


def test_unsafe_text_stays_as_it_is(tmp_path, recwarn):
    path, frame = tmp_path / "t.csv", pd.DataFrame({"t": ["=1", "'=1"], "x": [1, 2]})
    write_table(path, frame, safe=False)
    assert path.read_text() == "t,x\n=1,1\n'=1,2\n"
    assert read_table(path, safe=False).X["t"].tolist() == ["=1", "'=1"]
    assert not recwarn.list


def test_missing_values_are_known_with_their_apostrophe(tmp_path):
    (tmp_path / "t.csv").write_text("t,x\n'-,1\na,2\n-,3\n")
    assert read_table(tmp_path / "t.csv", na=["-"]).X["t"].isna().tolist() == [True, False, True]


def test_dangerous_labels_are_predicted_and_scored(iris, run, run_json):
    """The labels of a table that a command wrote are those that the model learnt."""
    table = pd.read_csv("iris.csv").replace({"setosa": "=SUM(A1)", "virginica": "-"})
    table.to_csv("t.csv", index=False)
    words = ("--label", "species", "--set", "alpha=0.01")
    run("fit", "t.csv", *words, "-o", "m.vic")
    more = ("--keep", "species", "--label", "species")
    done = run("predict", "m.vic", "t.csv", *more, "-o", "p.csv")
    assert "Note: " in done.stderr
    written = pd.read_csv("p.csv")
    assert set(written["prediction"]) == {"'=SUM(A1)", "versicolor", "'-"}
    table["species"] = written["species"]
    table.to_csv("safe.csv", index=False)
    told = [run_json("predict", "m.vic", name, *more) for name in ("t.csv", "safe.csv")]
    assert told[0]["accuracy"] == told[1]["accuracy"] > 0.9
    assert told[0]["rows"] == told[1]["rows"]
    assert "=SUM(A1)" in {row[1] for row in told[0]["rows"]}  # JSON holds text as it is
    run("fit", "safe.csv", *words, "-o", "n.vic")
    assert run("predict", "n.vic", "t.csv").stdout == run("predict", "m.vic", "t.csv").stdout
    unsafe = run("predict", "m.vic", "t.csv", "--no-safe-cells", "--only-prediction")
    assert "\n=SUM(A1)\n" in unsafe.stdout
    assert "Note: " not in unsafe.stderr


def test_rows_without_a_label_are_left_out_and_numbers_are_learnt_as_numbers(iris, run, run_json):
    table = pd.read_csv("iris.csv")
    table["code"] = pd.Series(np.arange(50) % 2).where(np.arange(50) % 5 > 0)
    table["price"] = np.where(np.arange(50) % 9, table["petal_length"].astype(str), "?")
    table.to_csv("t.csv", index=False)
    done = run("fit", "t.csv", "--label", "code", "--drop", "species,price", "-o", "m.vic")
    assert "Note: 10 of 50 rows have no label and are left out." in done.stderr
    told = run_json("info", "m.vic")["about"]
    assert told["classes"] == [0, 1]  # not 0.0 and 1.0
    assert told["target"] == "code"
    done = run("fit", "t.csv", "--label", "code", "--strict-columns", "--drop", "price", code=1)
    assert "has no label in 10 of 50 rows: line 2, line 7, line 12" in done.stderr
    assert "Without --strict-columns these rows are left out." in done.stderr
    words = ("--label", "price", "--drop", "code,petal_length")
    done = run("fit", "t.csv", *words, "-o", "m.vic")
    assert "different numbers and is learnt as a number; --task classes" in done.stderr
    assert run_json("info", "m.vic")["about"]["estimator"] == "MetricVoteRegressor"
    told = run_json("predict", "m.vic", "t.csv", "--label", "price")
    assert told["r2"] > 0.8
    assert told["mean_absolute_error"] < 1
    assert told["n_rows"] == 50


def test_names_of_columns_may_be_quoted_or_occur_twice(tmp_path, recwarn):
    (tmp_path / "t.csv").write_text("'a'\t'b'\t'a'\n1\t'x y'\t3\n2\tz\t4\n")
    table = read_table(tmp_path / "t.csv")
    assert table.X.columns.tolist() == ["a", "b", "a 2"]
    assert table.X["b"].tolist() == ["x y", "z"]
    assert "has several columns named 'a': column 3 is called 'a 2'" in str(recwarn[0].message)


def test_strict_columns_refuses_a_table_with_titles(iris, run):
    text = Path("iris.csv").read_text()
    Path("t.csv").write_text(f"Flowers of the garden\n{text}")
    done = run("fit", "t.csv", "--label", "species", "--set", "max_iter=2", "-o", "m.vic")
    assert "Note: t.csv: line 1 above or below the table is left out." in done.stderr
    done = run("fit", "t.csv", "--label", "species", "--strict-columns", code=1)
    assert "line 1 above or below the table is left out. --strict-columns refuses" in done.stderr
