"""The file itself: layout, checksum, limits."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from vicinal.storage import FileError, container, read, write

HEADER = {"format": "vicinal", "schema": 1, "kind": "test"}


def arrays():
    return {
        "matrix": np.arange(6.0).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
        "big endian": np.arange(3, dtype=">i8"),
        "number": np.array(3.5, np.float32),
        "none": np.empty((0, 4)),
        "flags": np.array([True, False]),
    }


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "a.vic"
    write(path, HEADER, arrays())
    header, found = read(path)
    assert header == HEADER
    assert found.keys() == arrays().keys()
    for name, array in arrays().items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].flags.writeable
        assert found[name].flags.aligned


def test_safetensors_reads_the_file(tmp_path):
    path = tmp_path / "a.vic"
    write(path, HEADER, arrays())
    np.testing.assert_array_equal(load_file(path)["matrix"], arrays()["matrix"])
    with safe_open(path, "np") as file:
        assert json.loads(file.metadata()["vicinal"]) == HEADER


def test_the_same_contents_are_the_same_bytes(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        write(path, HEADER, arrays())
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_every_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "a.vic"
    write(path, HEADER, {"matrix": np.arange(6.0)})
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FileError, match=r"a\.vic"):
            read(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=r"a\.vic"):
            read(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format": "other", "schema": 1}, "not a model file of vicinal"),
        ({"format": "vicinal", "schema": 2}, "has schema 2; .* update vicinal"),
        ({"format": "vicinal", "schema": True}, "has schema True"),
        ([], "not a model file of vicinal"),
    ],
)
def test_foreign_headers_are_refused(tmp_path, header, message):
    path = tmp_path / "a.vic"
    write(path, header, {})
    with pytest.raises(FileError, match=message):
        read(path)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        read(tmp_path / "missing.vic")
    with pytest.raises(FileError, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(FileError, match="not a regular file"):
        read(os.devnull)
    path = tmp_path / "a.vic"
    path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    with pytest.raises(FileError, match="cut short"):
        read(path)
    with open(path, "wb") as file:  # a file with a hole: it takes no room on the disk
        file.write((2**40).to_bytes(8, "little"))
        file.truncate(2**41)
    with pytest.raises(FileError, match="at most"):
        read(path)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "1" * 5000, "1e999", "NaN", "-Infinity", "[" + "0," * 600_000 + "0]", '"\\ud8'],
)
def test_json_beyond_its_limits_is_refused(text, tmp_path, monkeypatch):
    path = tmp_path / "a.vic"
    with monkeypatch.context() as patched:
        patched.setattr(container.json, "dumps", lambda value, **_: text)
        patched.setattr(container, "_PARTS", np.inf)
        write(path, {}, {})
    with pytest.raises(FileError, match=r"a\.vic"):
        read(path)


def test_what_has_no_place_in_a_file_is_not_written(tmp_path):
    with pytest.raises(TypeError, match="'a' has dtype complex128"):
        write(tmp_path / "a.vic", HEADER, {"a": np.zeros(2, complex)})
    with pytest.raises(ValueError, match=r"at most .* and 500000 values"):
        write(tmp_path / "a.vic", {"a": [0] * 600_000}, {})
    assert list(tmp_path.iterdir()) == []
