"""A file is replaced in one step, and the litter of killed writers is removed."""

import os
import subprocess
import sys
import threading

import pandas as pd
import pytest

import vicinal
from vicinal._atomic import replace_file
from vicinal.cli._tables import write_table
from vicinal.reporting.make import Report

needs_links = pytest.mark.skipif(os.name != "posix", reason="Windows allows links to few users")

LITTER = ".model.joblib.0123456789abcdef0123456789abcdef.tmp"


def test_replaces_the_file(tmp_path):
    path = tmp_path / "model.joblib"
    for text in (b"one", b"two"):
        replace_file(path, lambda file, text=text: file.write(text))
        assert path.read_bytes() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_changes_nothing(tmp_path):
    path = tmp_path / "model.joblib"
    path.write_bytes(b"before")

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(path, fail)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_removes_the_litter_of_this_file_alone(tmp_path):
    path = tmp_path / "model.joblib"
    others = [
        ".other.joblib.0123456789abcdef0123456789abcdef.tmp",
        ".model.joblib.old.0123456789abcdef0123456789abcdef.tmp",
        ".model.joblib.tmp",
        "model.joblib.0123456789abcdef0123456789abcdef.tmp",
        ".model.joblib.0123456789abcdef0123456789ABCDEF.tmp",
    ]
    for name in (LITTER, *others):
        (tmp_path / name).write_bytes(b"half")
    replace_file(path, lambda file: file.write(b"whole"))
    assert {found.name for found in tmp_path.iterdir()} == {"model.joblib", *others}


def test_the_file_of_a_living_writer_stays(tmp_path):
    """Two threads of one process write the same file at the same time."""
    path = tmp_path / "model.joblib"
    writing, finish = threading.Event(), threading.Event()

    def slow(file):
        file.write(b"slow")
        writing.set()
        assert finish.wait(10)

    thread = threading.Thread(target=replace_file, args=(path, slow))
    thread.start()
    assert writing.wait(10)
    replace_file(path, lambda file: file.write(b"fast"))
    assert path.read_bytes() == b"fast"
    finish.set()
    thread.join()
    assert path.read_bytes() == b"slow"
    assert list(tmp_path.iterdir()) == [path]


def save_page(path):
    page = Report(None, None)
    page.html = "a page"
    page.save(path)


FRAME = pd.DataFrame({"u": [0.5, 1.5]})
WRITERS = {
    "m.vic": lambda path: vicinal.save(vicinal.NCA(2), path),
    "page.html": save_page,
    "t.csv": lambda path: write_table(path, FRAME),
    "t.npz": lambda path: write_table(path, FRAME),
}


@needs_links
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("exists", [True, False], ids=["replaced", "created"])
def test_a_symbolic_link_stays_and_its_file_is_written(tmp_path, name, exists):
    """Through a chain of links, one of them relative, into another folder."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "links").mkdir()
    file, link = tmp_path / "runs" / f"of today {name}", tmp_path / "links" / name
    (tmp_path / "links" / "today").symlink_to(file)
    link.symlink_to("today")
    if exists:
        file.write_bytes(b"before")
        file.with_name(f".{file.name}.{32 * '0'}.tmp").write_bytes(b"half")
    WRITERS[name](link)
    assert os.readlink(link) == "today"
    assert list(file.parent.iterdir()) == [file]
    assert len(list(link.parent.iterdir())) == 2
    WRITERS[name](tmp_path / name)
    assert file.stat().st_size == (tmp_path / name).stat().st_size


@needs_links
def test_a_write_through_a_link_that_fails_changes_nothing(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"before")
    link.symlink_to(file)

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        replace_file(link, fail)
    assert link.is_symlink()
    assert file.read_bytes() == b"before"
    assert sorted(tmp_path.iterdir()) == [file, link]


@needs_links
def test_links_in_a_circle_are_an_error_that_names_the_file(tmp_path):
    one, two = tmp_path / "one.vic", tmp_path / "two.vic"
    one.symlink_to(two)
    two.symlink_to(one)
    with pytest.raises(OSError, match=r"link leads back to itself\. Remove it, .*one\.vic"):
        vicinal.save(vicinal.NCA(2), one)
    assert sorted(tmp_path.iterdir()) == [one, two]


KILLED = """
import pathlib, sys, time
from vicinal._atomic import replace_file

def forever(file):
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)

replace_file(pathlib.Path(sys.argv[1]), forever)
"""


def test_a_killed_writer_leaves_nothing_for_long(tmp_path):
    path = tmp_path / "model.joblib"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        replace_file(path, lambda file: file.write(b"one"))
        assert len(list(tmp_path.iterdir())) == 2  # the writer lives
        writer.kill()
    replace_file(path, lambda file: file.write(b"two"))
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"two"
