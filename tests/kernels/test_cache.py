"""Compiled code on disk: wherever the package is, and whatever has happened to the files."""

import gc
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config
from numba.core import event

import vicinal
from vicinal.kernels import _cache, _jit, neighbours

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

# Calls the kernel that compiles fastest; prints its result, cache hits and misses.
CHILD = """
import numpy as np
from vicinal.kernels.neighbours import close_gaps
if {wait}:
    input()
for dtype in (np.int32, np.int64):
    flat = np.arange(12, dtype=dtype)
    close_gaps(flat, 4, np.array([2, 3, 1]))
    print(flat[:6].tolist())
stats = close_gaps.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), flush=True)
print(stats.cache_path)
"""
CLOSED = "[0, 1, 4, 5, 6, 8]"


def child(folder, wait=False, **environment):
    """A process that keeps its compiled code in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD.format(wait=wait)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(process):
    """Hits, misses, folder and standard error of a child that has computed what it should."""
    out, errors = process.communicate("\n", timeout=120)
    assert process.returncode == 0, errors
    *results, counts, folder = out.splitlines()
    assert results == [CLOSED, CLOSED]
    return (*map(int, counts.split()), Path(folder), errors)


def test_a_read_only_installation(tmp_path):
    """Folders that are files: not even root can write there."""
    package = tmp_path / "vicinal"
    shutil.copytree(
        Path(vicinal.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "kernels" / "__pycache__").touch()
    nowhere = str(tmp_path / "file")
    Path(nowhere).touch()
    environment = {
        "PYTHONPATH": str(tmp_path),
        "HOME": nowhere,
        "XDG_CACHE_HOME": nowhere,
        "LOCALAPPDATA": nowhere,
        "TMPDIR": str(tmp_path),
    }
    hits, misses, folder, errors = outcome(child("", **environment))
    assert (hits, misses) == (0, 2)
    assert folder.parent.parent == tmp_path
    assert folder.parent.name.startswith("vicinal-numba-")
    assert not folder.parent.exists()  # any longer
    assert errors.count("UserWarning") == 1
    assert "set the environment variable NUMBA_CACHE_DIR" in errors


def test_the_temporary_folder_is_private(monkeypatch, tmp_path):
    monkeypatch.setattr(_cache.tempfile, "tempdir", str(tmp_path))
    make = _cache._private_folder.__wrapped__
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
        folder = make()
    try:
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert _cache._is_private(folder)
        os.chmod(folder, 0o755)
        assert os.name != "posix" or not _cache._is_private(folder)
    finally:
        _cache._remove(folder, os.getpid() + 1)  # a forked child leaves it
        assert Path(folder).exists()
        _cache._remove(folder, os.getpid())
    assert not Path(folder).exists()
    assert not _cache._is_private(folder)


def test_no_folder_at_all(monkeypatch):
    def no_locator(function):
        raise RuntimeError(f"cannot cache function {function}: no locator available for file ''")

    monkeypatch.setattr(_cache, "CompileResultCacheImpl", no_locator)
    monkeypatch.setattr(_cache, "_private_folder", lambda: None)
    kernel = _jit.kernel(neighbours.close_gaps.py_func)
    flat = np.arange(12, dtype=np.int32)
    kernel(flat, 4, np.array([2, 3, 1]))
    assert str(flat[:6].tolist()) == CLOSED


def damage_truncated(content):
    return content[: len(content) // 2]


def damage_emptied(content):
    return b""


def damage_garbage(content):
    return bytes(range(256)) * 8


def damage_zeroed_tail(content):
    """As after a power failure: the length is written, the data are not."""
    return content[:-2000] + bytes(2000)


def damage_other_sources(content):
    """Of other sources than these; not damaged, but no use."""
    body = content[_cache._HEAD :].replace(_cache._sources().encode(), b"0" * 64)
    return _cache._MAGIC + _cache.hashlib.sha256(body).digest() + body


DAMAGES = [
    damage_truncated,
    damage_emptied,
    damage_garbage,
    damage_zeroed_tail,
    damage_other_sources,
]


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """Returns the folder in which kernels decorated from now on are kept."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def call_anew():
    """Decorate a function anew, as the next process would; call it, return its cache misses."""
    kernel = _jit.kernel(neighbours.close_gaps.py_func)
    flat = np.arange(12, dtype=np.int32)
    kernel(flat, 4, np.array([2, 3, 1]))
    assert str(flat[:6].tolist()) == CLOSED
    return sum(kernel.stats.cache_misses.values())


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_compiled_again(damage, own_cache):
    assert call_anew() == 1
    assert call_anew() == 0
    (path,) = own_cache.rglob("*.nbc")
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert call_anew() == 1
    assert call_anew() == 0
    assert [path] == list(own_cache.rglob("*.nb*"))  # and nothing is left beside it


def test_a_folder_that_fills_up(monkeypatch, own_cache):
    """The code is used, and a warning says that it is not kept."""
    monkeypatch.setattr(_cache, "_warn_unsaved", _cache._warn_unsaved.__wrapped__)

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(UserWarning, match=r"\(No space left on device\).*NUMBA_CACHE_DIR"):
        assert call_anew() == 1


def test_no_garbage_is_collected_while_compiling(own_cache):
    """It would take a tenth of the time; afterwards the collector runs as before."""
    seen = []

    class Listener(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        assert call_anew() == 1
    assert seen == [False]
    assert gc.isenabled()


def test_flush(own_cache):
    call_anew()
    _jit.kernel(neighbours.close_gaps.py_func)._cache.flush()
    assert not list(own_cache.rglob("*.nbc"))


@pytest.mark.long
def test_damaged_files_in_a_new_process(tmp_path):
    assert outcome(child(tmp_path))[:2] == (0, 2)
    for path, damage in zip(tmp_path.rglob("*.nbc"), DAMAGES, strict=False):
        path.write_bytes(damage(path.read_bytes()))
    assert outcome(child(tmp_path))[:2] == (0, 2)
    assert outcome(child(tmp_path))[:2] == (2, 0)


@pytest.mark.slow
def test_two_processes_compile_at_once(tmp_path):
    both = [child(tmp_path, wait=True) for _ in range(2)]
    for process in both:
        process.stdin.write("\n")  # begin together
        process.stdin.flush()
    for process in both:
        hits, misses, _, _ = outcome(process)
        assert hits + misses == 2
    assert outcome(child(tmp_path))[:2] == (2, 0)
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2
