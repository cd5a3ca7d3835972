"""Tables of the command line: what is read, and what the errors say."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from vicinal.cli._tables import read_table, write_table
from vicinal.learner.errors import TableNote

CSV = "size,colour,kind\n1.5,red,a\n2.5,blue,b\n\n3.5,,a\n"


@pytest.fixture
def file(tmp_path):
    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("label", ["kind", "3", -1, "-1", 3])
def test_label_by_name_and_position(file, label):
    table = read_table(file(CSV), label)
    assert list(table.X.columns) == ["size", "colour"]
    assert table.y.tolist() == ["a", "b", "a"]
    assert table.label == "kind"


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
def test_separators_are_found(file, sep):
    table = read_table(file(CSV.replace(",", sep)), "kind")
    assert table.X["size"].tolist() == [1.5, 2.5, 3.5]
    assert table.X["colour"].isna().tolist() == [False, False, True]


def test_decimal_commas(file):
    table = read_table(file("size;kind\n1,5;a\n2,5;b\n"), "kind")
    assert table.X["size"].tolist() == [1.5, 2.5]


def test_files_without_a_header(file):
    content = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.1,2.8,virginica\n"
    table = read_table(file(content), -1)
    assert list(table.X.columns) == ["c1", "c2"]
    assert len(table.y) == 3
    assert table.place(0) == "line 1"
    assert list(read_table(file(content), header=True).X.columns) == ["5.1", "3.5", "setosa"]


def test_files_with_spaces(file):
    table = read_table(file("  1.5   2  7\n  2.5  10  8\n"), -1)
    assert table.X.to_numpy().tolist() == [[1.5, 2], [2.5, 10]]
    assert read_table(file("1.5,2\n")).X.to_numpy().tolist() == [[1.5, 2]]


def test_lines_count_empty_lines_and_quoted_breaks(file):
    table = read_table(file('a,b\n1,"x\ny"\n\n2,z\n'))
    assert [table.place(row) for row in (0, 1)] == ["line 2", "line 5"]
    table = read_table(file("a,b\n\n1,2\n3,4\n"))
    assert [table.place(row) for row in (0, 1)] == ["line 3", "line 4"]


def test_standard_input_and_gzip(file, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(CSV.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    table = read_table("-", "kind")
    assert table.name == "standard input"
    zipped = read_table(file(gzip.compress(CSV.encode()), "data.csv.gz"), "kind")
    pd.testing.assert_frame_equal(zipped.X, table.X)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.npz"])
def test_round_trip(tmp_path, name):
    frame = pd.DataFrame({"u": np.float32([0.1, 1 / 3]), "v": np.float32([3, 4])})
    write_table(tmp_path / name, frame.assign(y=["p", "q"]))
    table = read_table(tmp_path / name, "y")
    kept = np.float32 if name in ("t.parquet", "t.npz") else np.float64
    assert (table.X.dtypes == kept).all()
    np.testing.assert_array_equal(table.X.astype(np.float32), frame)
    assert table.y.tolist() == ["p", "q"]


def test_names_that_npz_cannot_hold(tmp_path):
    with pytest.raises(ValueError, match="NPZ cannot hold a column named 'file'"):
        write_table(tmp_path / "t.npz", pd.DataFrame({"u": [0.5], "file": ["a"]}))
    assert not list(tmp_path.iterdir())


def test_standard_output(capsys):
    write_table("-", pd.DataFrame({"u": [0.5], "s": ["a,b"]}))
    assert capsys.readouterr().out == 'u,s\n0.5,"a,b"\n'


def test_npz_brings_its_label(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.ones((2, 3)), y=[1, 0], class_names=["no", "yes"])
    table = read_table(path)
    assert (table.label, table.y.tolist()) == ("y", ["yes", "no"])
    assert list(table.X.columns) == ["x0", "x1", "x2"]


LATIN = "name,kind\nJosé,a\nAnn,b\n".encode("latin-1")

ERRORS = {
    "empty": ("", {}, "is empty"),
    "no rows": ("a,b\n", {}, "has a header and no rows"),
    "no label": (
        CSV,
        {"label": "knd"},
        "no column 'knd'. Did you mean 'kind'.*columns: size, co",
    ),
    "no place": (CSV, {"label": "4"}, "no column '4'.*position, from 1 to 3"),
    "separator": (CSV, {"label": "kind", "sep": ";"}, "1 columns.*Use --sep"),
    "two characters": (CSV, {"sep": ";;"}, "--sep must be one character"),
    "too many": ("a,b\n1,2\n1,2,3\n", {}, "line 3 has 3 values, but there are 2 columns"),
    "too few": ("a,b\n1,2\n\n1\n", {}, "line 4 has 1 values, but there are 2 columns"),
    "encoding": (LATIN[:-1] + b"\x81", {}, "not UTF-8: byte 0xe9 in line 2.*--encoding latin-1"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(file, case):
    content, options, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        read_table(file(content), **options)


def test_other_errors(file):
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        read_table(file("nothing", "x.parquet"))
    with pytest.raises(ValueError, match="is broken, or it is no NPZ file"):
        read_table(file("nothing", "x.npz"))
    assert read_table(file(LATIN), encoding="latin-1").X["name"][0] == "José"


def test_words_that_are_missing_values(file):
    content = "age,kind\n41,a\n?,b\n"
    assert read_table(file(content), "kind").X["age"].tolist() == ["41", "?"]
    assert read_table(file(content), "kind", na=["?"]).X["age"].isna().tolist() == [False, True]


def test_names_that_occur_twice_get_a_number(file):
    with pytest.warns(UserWarning, match="several columns named 'a': column 3 is called 'a 2'"):
        assert list(read_table(file("a,b,a\n1,2,3\n")).X.columns) == ["a", "b", "a 2"]


def test_rows_without_a_label(file):
    table = read_table(file(CSV), "colour")
    with pytest.raises(ValueError, match=r"'colour'.* no label in 1 of 3 rows: line 5"):
        table.labelled(strict=True)
    with pytest.warns(TableNote, match="1 of 3 rows have no label"):
        assert table.labelled(strict=False).y.tolist() == ["red", "blue"]


def test_labels_that_are_no_classes(file):
    def table(values):
        rows = "".join(f"{i},{value}\n" for i, value in enumerate(values))
        return read_table(file("u,y\n" + rows), "y")

    with pytest.raises(ValueError, match=r"column 'y' .* one class only, 'a'"):
        table("aaaa").check_classes()
    with pytest.raises(ValueError, match=r"looks like identifiers, not classes: 60 different"):
        table([f"k{i}" for i in range(60)]).check_classes()
    table([1, 2, 1, 2]).check_classes()


def test_files_of_windows_are_read(file):
    with pytest.warns(UserWarning, match="not UTF-8 and is read as cp1252; --encoding says"):
        table = read_table(
            file("name;price;kind\nJosé;5 €;a\nAnn;7 €;b\n".encode("cp1252")), "kind"
        )
    assert table.X.iloc[0].tolist() == ["José", "5 €"]


def test_titles_above_and_sources_below_are_left_out(file):
    text = "Sales report,,\n\n# by month\nsize,colour,kind\n1,red,a\n2,blue,b\n\nSource: ours\n"
    with pytest.warns(UserWarning, match="lines 1, 3, 8 above or below the table are left out"):
        table = read_table(file(text), "kind")
    assert table.X.to_dict("list") == {"size": [1, 2], "colour": ["red", "blue"]}
    assert table.place(1) == "line 6"


def test_codes_keep_their_zeros(file):
    table = read_table(file("zip,n,kind\n02139,1,a\n10001,2,b\n,3,a\n"), "kind")
    assert table.X["zip"].tolist()[:2] == ["02139", "10001"]
    assert table.X["zip"].isna().tolist() == [False, False, True]
    assert table.X["n"].tolist() == [1, 2, 3]
