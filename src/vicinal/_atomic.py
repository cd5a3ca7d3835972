"""Replace a file in one step, and remove what killed writers have left next to it."""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed: no lock is needed
    fcntl = None


def replace_file(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Replace ``path`` by what ``write(file)`` writes, or leave it as it is.

    A reader sees the former file or the new one, never a part.  The new one is written under
    another name in the same folder, since only files on the same disk can be renamed in one step.
    Files of that kind whose writers were killed are removed.

    Parameters
    ----------
    path : Path
        The file; its folder must exist.  A symbolic link stays, and the file that it leads to is
        replaced.
    write : callable
        ``write(file)`` writes the contents to a binary file.
    """
    path = file_behind(path)
    _remove_litter(path)
    file, temporary = _new_file(path)
    try:
        with file:
            write(file)
            file.flush()
            # Without this, a crash of the machine may leave an empty file under the name.
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked: another writer removes unlocked files
                os.replace(temporary, path)
        if fcntl is None:  # Windows renames closed files only
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_behind(path: Path) -> Path:
    """The file that a path leads to: the path itself, or what a symbolic link names.

    The file need not exist.
    """
    if not path.is_symlink():
        return path
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        told = "This symbolic link leads back to itself. Remove it, or name another file"
        raise OSError(errno.ELOOP, told, str(path)) from None
    return Path(os.path.realpath(path))


def _new_file(path: Path) -> tuple[BinaryIO, Path]:
    """A new file next to ``path``, locked as long as it is open: a sign that its writer lives."""
    while True:
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        file = open(temporary, "xb")
        # Before it was locked, another writer may have locked the file in order to remove it.
        if _lock(file) is not False and temporary.exists():
            return file, temporary
        file.close()


def _lock(file: Any) -> bool | None:
    """Whether the file is locked by us now; None if files cannot be locked here.

    A lock ends with the process that holds it.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some file systems have no locks
        return None
    return True


def _remove_litter(path: Path) -> None:
    """Remove the temporary files of this path whose writers no longer live."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}\.tmp")
    for name in os.listdir(path.parent):
        if ours.fullmatch(name) is None:
            continue
        found = path.with_name(name)
        try:
            if fcntl is None:
                found.unlink()
                continue
            with open(found, "rb") as file:
                if _lock(file):
                    found.unlink()
        except OSError:  # it has just been renamed or removed, or another process has it open
            continue
