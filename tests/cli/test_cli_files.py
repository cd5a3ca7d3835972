"""No command loses a file: what it reads, other results, and files of other kinds."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

pytest.importorskip("pandas")

import vicinal
from vicinal.cli import _group, more
from vicinal.cli._files import File
from vicinal.fit.report import HAS_CALLBACKS

QUICK = ("--label", "species", "--set", "alpha=0.01", "--dim", "2")
POSIX = pytest.mark.skipif(os.name != "posix", reason="links, shells and devices of POSIX")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """A fitted model, and one that holds the state of its fit, as a checkpoint does."""
    import pandas as pd
    from sklearn.datasets import load_iris

    folder = tmp_path_factory.mktemp("models")
    X, y = load_iris(return_X_y=True)
    X = pd.DataFrame(X, columns=["sepal_length", "sepal_width", "petal_length", "petal_width"])
    for name, warm in (("m.vic", False), ("c.checkpoint", True)):
        model = vicinal.NCA(2, alpha=0.01, warm_start=warm, random_state=0)
        vicinal.save(model.fit(X, y), folder / name)
    return folder


@pytest.fixture
def files(iris, models):
    """The folder of `iris`, with a model, a checkpoint and notes; a function that sees changes."""
    for name in ("m.vic", "c.checkpoint"):
        Path(name).write_bytes((models / name).read_bytes())
    Path("notes.txt").write_text("Dear diary,\n\nnothing happened today, again.\n")
    return lambda: {path.name: path.read_bytes() for path in iris.iterdir() if path.is_file()}


#: command lines, and how the answer goes on after "Error: "; IRIS is the table and its label
REFUSED = [
    ("fit IRIS -o iris.csv", "-o iris.csv: this is the same file as DATA iris.csv. Name another "
     "file, such as -o iris.vic."),
    ("fit IRIS --checkpoint iris.csv", "--checkpoint iris.csv: this is the same file as DATA"),
    ("fit IRIS --resume c.checkpoint -o c.checkpoint", "-o c.checkpoint: this is the same file as "
     "--resume c.checkpoint. Name another file, such as -o c.vic."),
    ("fit IRIS -o a.vic --checkpoint ./a.vic", "-o a.vic: this is the same file as --checkpoint"),
    ("fit IRIS --checkpoint model.vic", "-o model.vic: this is the same file as --checkpoint"),
    ("report IRIS -o ./iris.csv", "-o iris.csv: this is the same file as DATA iris.csv."),
    ("report IRIS --test test.csv -o test.csv", "-o test.csv: this is the same file as --test"),
    ("report IRIS --model m.vic -o m.vic", "-o m.vic: this is the same file as --model m.vic."),
    ("report IRIS -o new.html --model-out NEW.html", "--model-out NEW.html: this is the same file "
     "as -o new.html. Name another file, such as --model-out NEW.vic."),
    ("plot IRIS --test test.csv --model m.vic -o iris.csv", "-o iris.csv: a picture is a .png"),
    ("embed iris.csv -o iris.csv", "-o iris.csv: this is the same file as DATA iris.csv. Name "
     "another file, such as -o iris-2.csv."),
    ("embed iris.csv --model-out iris.csv", "--model-out iris.csv: this is the same file as DATA"),
    ("embed iris.csv --plot a.png -o a.png", "-o a.png: this is the same file as --plot a.png."),
    ("embed iris.csv --plot a.doc", "--plot a.doc: a picture is a .png, .svg or .pdf file."),
    ("transform m.vic iris.csv -o m.vic", "-o m.vic: this is the same file as MODEL m.vic."),
    ("predict m.vic iris.csv -o iris.csv", "-o iris.csv: this is the same file as DATA iris.csv."),
    ("fit IRIS -o notes.txt", "-o notes.txt: this file exists, it is not the model of a finished "
     "fit, and it would be lost. Name another file, such as -o notes.vic, or use --force"),
    ("fit IRIS -o c.checkpoint", "-o c.checkpoint: this file exists"),
    ("fit IRIS --checkpoint m.vic", "--checkpoint m.vic: this file exists, it is not a checkpoint"),
    ("fit IRIS --checkpoint notes.txt", "--checkpoint notes.txt: this file exists"),
    ("report IRIS -o notes.txt", "-o notes.txt: this file exists, it is not an HTML page"),
    ("report IRIS --model-out test.csv", "--model-out test.csv: this file exists"),
    ("transform m.vic iris.csv -o notes.txt", "-o notes.txt: this file exists, it is not a table"),
    ("transform m.vic iris.csv -o c.checkpoint", "-o c.checkpoint: this file exists"),
    ("datasets iris -o m.vic", "-o m.vic: this file exists"),
    ("datasets iris -o notes.txt", "-o notes.txt: this file exists"),
    ("fit IRIS -o -", "-o -: only tables go to standard output. Name a file"),
    ("fit IRIS -o .", "-o .: this is a folder. Name a file"),
    ("fit IRIS --checkpoint .", "--checkpoint .: this is a folder. Name a file"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_no_file_is_lost(files, run, line, message):
    before = files()
    done = run(*line.replace("IRIS", "iris.csv --label species").split(), code=1)
    assert f"Error: {message}" in done.stderr
    assert files() == before


@POSIX
@pytest.mark.parametrize("path", ["soft.csv", "hard.csv", "in/iris.csv", "../{}/iris.csv"])
def test_no_file_is_lost_by_another_path(files, run, path):
    os.symlink("iris.csv", "soft.csv")
    os.link("iris.csv", "hard.csv")
    os.symlink(".", "in")
    before, path = files(), path.format(Path.cwd().name)
    assert "same file as DATA iris.csv" in run("embed", "iris.csv", "-o", path, code=1).stderr
    assert "same file as DATA" in run("embed", path, "-o", "iris.csv", code=1).stderr
    assert files() == before


@POSIX
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("embed - -o iris.csv < iris.csv", "-o iris.csv: this is the same file as standard input"),
        ("transform m.vic iris.csv >> iris.csv", "standard output: this is the same file as DATA "
         "iris.csv. Name another file, such as > iris-2.csv."),
        ("fit iris.csv --label species -o n.vic >> n.vic", "standard output: this is the same"),
    ],
)  # fmt: skip
def test_redirected_streams_are_files_too(files, line, message):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m vicinal {line}"], capture_output=True, text=True
    )
    assert message in done.stderr
    assert done.returncode == 1
    assert Path("iris.csv").read_text().count("\n") == 51


@POSIX
@pytest.mark.parametrize("path", ["null", "pipe", "/dev/fd/1"])
def test_devices_are_not_replaced(files, run, path):
    """Never /dev/null itself: without the check, a test run by root would replace it."""
    os.mkfifo("pipe")
    os.symlink("/dev/null", "null")
    done = run("transform", "m.vic", "iris.csv", "-o", path, code=1)
    assert f"-o {path}: this is a device or a stream" in done.stderr
    assert "Use -o - for standard output" in done.stderr


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("fit IRIS -o", "notes.txt"),
        ("datasets iris -o", "notes.txt"),
        ("datasets iris -o", "m.vic"),
    ],
)
def test_force_replaces_files_of_other_kinds(files, run, line, output):
    before = files()[output]
    words = [*line.replace("IRIS", " ".join(("iris.csv", *QUICK))).split(), output]
    run(*words, code=1)
    run(*words, "--force")
    assert files()[output] != before
    run(*words)  # it is of the right kind now


def test_force_replaces_no_input(files, run):
    before = files()
    run("embed", "iris.csv", "-o", "iris.csv", "--force", code=1)
    assert files() == before


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.parquet", "a.npz"])
def test_tables_are_replaced_by_tables(files, run, name):
    run("datasets", "wine", "-o", name)
    before = files()[name]
    run("transform", "m.vic", "iris.csv", "-o", name)
    assert files()[name] != before


@pytest.mark.parametrize("content", [b"", b"a;b\n1;caf\xe9\n"])
def test_empty_files_and_tables_of_other_encodings_are_replaced(files, run, content):
    Path("a.csv").write_bytes(content)
    run("transform", "m.vic", "iris.csv", "-o", "a.csv")


@pytest.mark.parametrize(
    "content", [b"<html>1,2\n", b"%PDF-1.7\n1,2\n", b"1,2\0\n", b"\x89PNG\r\n\x1a\n\0"]
)
def test_a_table_is_told_by_its_content(files, run, content):
    Path("a.csv").write_bytes(content)
    run("transform", "m.vic", "iris.csv", "-o", "a.csv", code=1)
    assert files()["a.csv"] == content


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")
def test_a_fit_goes_on_in_its_checkpoint(files, run):
    run("fit", "iris.csv", *QUICK, "--checkpoint", "d.checkpoint", "-o", "a.vic")
    words = ("--checkpoint", "d.checkpoint", "--resume", "d.checkpoint", "-o", "a.vic")
    run("fit", "iris.csv", *QUICK, *words)
    run("fit", "iris.csv", *QUICK, *words[:2], "-o", "a.vic")


def test_pages_and_pictures_are_replaced(files, run):
    pytest.importorskip("matplotlib")
    words = ("plot", "iris.csv", "--label", "species", "--kind", "metric", "--set", "alpha=0.01")
    run(*words, "-o", "a.svg")
    run(*words, "-o", "a.svg")
    Path("a.png").write_bytes(files()["a.svg"])
    assert "it is not a picture" in run(*words, "-o", "a.png", code=1).stderr
    Path("a.html").write_text("\ufeff<!DOCTYPE html>\n<html></html>", encoding="utf-8")
    # The page may be replaced: what is wrong comes later.
    assert "no column" in run("report", "iris.csv", "--label", "y", "-o", "a.html", code=1).stderr


def test_a_data_set_of_the_folder_is_not_lost(files, run, monkeypatch):
    import numpy as np

    monkeypatch.setenv("VICINAL_DATA", str(Path.cwd()))
    codes = np.arange(6) % 2
    np.savez("mine.npz", X=np.eye(6), y=codes, feature_names=list("abcdef"), class_names=["u", "v"])
    before = files()
    assert "same file as NAME" in run("datasets", "mine", "-o", "mine.npz", code=1).stderr
    assert files() == before
    run("datasets", "mine", "-o", "mine.csv")


def test_demo_looks_at_its_files_first(tmp_path, monkeypatch, run):
    lines = ("datasets iris -o {folder}/iris.csv", "fit {folder}/iris.csv --label label "
             "--set alpha=0.01 -o {folder}/iris.vic")  # fmt: skip
    monkeypatch.setattr(more, "CHAPTERS", (("Flowers.", lines),))
    (tmp_path / "iris.vic").write_text("my thesis")
    done = run("demo", "-o", tmp_path, code=1)
    assert "this file exists" in done.stderr
    assert not (tmp_path / "iris.csv").exists()
    run("demo", "-o", tmp_path, "--force")
    assert (tmp_path / "iris.csv").exists()


NAMES = [name for names in _group.COMMANDS.values() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_every_file_of_a_command_is_checked(name):
    """An option or argument of another type would not be looked at."""
    command = _group.vicinal.get_command(click.Context(_group.vicinal), name)
    context = click.Context(command)
    options = {option for each in command.params for option in each.opts}
    for parameter in command.params:
        shown = (parameter.get_help_record(context) or [parameter.name])[0]
        if shown.endswith(" FILE") or shown in ("data", "model"):
            assert isinstance(parameter.type, File), parameter.name
        if isinstance(parameter.type, File) and parameter.type.kind is not None:
            assert "--force" in options
