"""A file is replaced in one step, and the litter of killed writers is removed."""

import subprocess
import sys
import threading

import pytest

from vicinal._atomic import replace_file

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
