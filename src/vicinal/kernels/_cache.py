"""Compiled kernels on disk: one file for each kernel and signature.

Numba finds the folder (``NUMBA_CACHE_DIR``, beside the package, or in the home directory) and turns
compiled code into bytes; the files are ours, because numba's

- raise an error whenever they are damaged, until somebody deletes them: ours carry a checksum, and
  what does not match it is thrown away and compiled again;
- have an index of numbered entries: if two processes write it at once, a signature may get the
  number, and so the code, of another one;
- know nothing of the functions that a kernel calls in other files: ours are compiled again after
  an edit in any file of the kernels.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import pickle
import shutil
import stat
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, NullCache
from numba.core.serialize import dumps

_MAGIC = b"vicinal 1\n"  # the format of a file: this line, the SHA-256 of the rest, the rest
_HEAD = len(_MAGIC) + 32
_ADVICE = "To keep it, set the environment variable NUMBA_CACHE_DIR to a folder that you can write."


def make_cache(function: Any) -> Any:
    """The cache of a kernel.

    Where numba finds no folder (a read-only installation, and a home that is missing or read-only),
    it is in a private temporary folder, or in memory alone if there is none.
    """
    try:
        return KernelCache(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
    folder = _private_folder()
    if folder is None:
        return NullCache()
    before = config.CACHE_DIR
    config.CACHE_DIR = folder  # for this function alone: others may be of other packages
    try:
        return KernelCache(function, private=folder)
    except RuntimeError:  # numba caches only what it has the source of
        return NullCache()
    finally:
        config.CACHE_DIR = before


@functools.cache
def _private_folder() -> str | None:
    """A new folder that only this user can open, removed at exit; None if none can be made."""
    try:
        folder = tempfile.mkdtemp(prefix="vicinal-numba-")
    except OSError:
        folder = None
    where = "in memory" if folder is None else f"in {folder}"
    warnings.warn(
        "Neither the folder of the package nor a folder in your home can be written: compiled code "
        f"is kept {where} until this process ends. {_ADVICE}",
        stacklevel=2,
    )
    if folder is not None:
        atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not at the exit of a forked child
        shutil.rmtree(folder, ignore_errors=True)


def _is_private(folder: str) -> bool:
    """Whether a folder is still ours: a forked child may outlive it, and others may make another.

    What is loaded from it is executed.
    """
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    if not hasattr(os, "geteuid"):  # Windows: temporary folders are in the home of the user
        return True
    mine = status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return stat.S_ISDIR(status.st_mode) and mine


@functools.cache
def _sources() -> str:
    """What the code of all kernels depends on, besides the machine: their files, and numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _warn_unsaved(folder: str, reason: str) -> None:
    warnings.warn(
        f"Compiled code cannot be written to {folder} ({reason}): other processes compile it "
        f"again. {_ADVICE}",
        stacklevel=2,
    )


class KernelCache:
    """The compiled code of one function, as numba's dispatchers ask for it.

    Parameters
    ----------
    function : callable
        The kernel in Python.
    private : str, default=None
        Temporary folder that the files are in.
    """

    def __init__(self, function: Any, private: str | None = None) -> None:
        self._impl = CompileResultCacheImpl(function)
        self._private = private
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return self._impl.locator.get_cache_path()

    def enable(self) -> None:
        """Use the files."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the files."""
        self._enabled = False

    def flush(self) -> None:
        """Remove all entries of the function."""
        for path in Path(self.cache_path).glob(f"{self._impl.filename_base}.*.nbc"):
            path.unlink(missing_ok=True)

    def path(self, signature: Any, codegen: Any) -> Path:
        """The file of a signature on this kind of machine."""
        key = hashlib.sha256(repr((signature, codegen.magic_tuple())).encode()).hexdigest()
        return Path(self.cache_path) / f"{self._impl.filename_base}.{key[:24]}.nbc"

    @property
    def _usable(self) -> bool:
        return self._enabled and (self._private is None or _is_private(self._private))

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled code for a signature, or None if there is none that fits."""
        context.refresh()
        if not self._usable:
            return None
        path = self.path(signature, context.codegen())
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head, body = content[:_HEAD], content[_HEAD:]
        if head == _MAGIC + hashlib.sha256(body).digest():
            about, reduced = pickle.loads(body)
            if about == (_sources(), signature):
                return self._impl.rebuild(context, pickle.loads(reduced))
        else:
            path.unlink(missing_ok=True)  # damaged
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write the compiled code for a signature."""
        if not self._usable or not self._impl.check_cachable(result):
            return
        body = dumps(((_sources(), signature), dumps(self._impl.reduce(result))))
        path = self.path(signature, result.codegen)
        # written beside it and renamed: readers see all of it or nothing
        partial = path.with_name(f"{path.name}.tmp.{uuid.uuid4().hex[:16]}")
        try:
            self._impl.locator.ensure_cache_path()
            try:
                partial.write_bytes(_MAGIC + hashlib.sha256(body).digest() + body)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            if not path.exists():  # Windows does not replace a file that somebody reads
                _warn_unsaved(self.cache_path, error.strerror or type(error).__name__)
