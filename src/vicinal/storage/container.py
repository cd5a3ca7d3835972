"""The file: arrays in safetensors' layout, a JSON header among their metadata, and a checksum."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vicinal._atomic import replace_file
from vicinal.core.types import Array

FORMAT = "vicinal"  # the key of the header among the metadata
SCHEMA = 1
DTYPES = tuple(
    np.dtype(name)
    for name in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
)
_CHECKSUM = "sha256"  # the name of its array
_HEAD = 2**24  # bytes of the largest header: 16 MiB
_PARTS = 500_000  # values in a header: each takes about a hundred bytes of memory
_DIGITS = 20  # of an int


class FileError(ValueError):
    """A model file that cannot be read: no such file, damaged, or not allowed."""


def write(path: Any, header: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Replace a file in one step by one with this header and these arrays.

    Parameters
    ----------
    path : str or path-like
        A reader sees the former file or the new one, never a part.
    header : dict
        JSON values: no NaN, no infinity.
    arrays : dict of arrays
        Numbers or bools, of the types in `DTYPES`.
    """
    content = content_of(header, arrays)

    def write_all(file: BinaryIO) -> None:
        file.write(content)

    replace_file(Path(path), write_all)


def content_of(header: dict[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """The bytes of a file."""
    from safetensors.numpy import save as file_of  # here: most fits write no file

    plain = {name: _plain(name, array) for name, array in arrays.items()}
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    content = file_of({**plain, _CHECKSUM: _checksum(text, plain)}, {FORMAT: text})
    n_head = int.from_bytes(content[:8], "little")
    n_parts = _n_parts(content[8 : 8 + n_head].decode("utf-8"))
    if n_head > _HEAD or n_parts > _PARTS:
        raise ValueError(
            f"The header of a model file must have at most {_HEAD} bytes and {_PARTS} values. "
            f"Got {n_head} bytes and {n_parts} values instead."
        )
    return content


def read(path: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a file, after their checksum was compared.

    Memory is at most three times the size of the file, and some hundred MB for the largest
    header.  Nothing of the file is executed.

    Raises
    ------
    FileError
        If the file cannot be read; the message names it and says what is wrong.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as arrays_of

    path = Path(path)
    try:
        content, head = _content(path)
        text = _metadata(head)
        header = parse(text)
        arrays = {name: _own(name, array) for name, array in arrays_of(content).items()}
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}.") from error
    except (SafetensorError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{path} is not a model file, or it is damaged: {error}") from error
    except MemoryError as error:
        raise FileError(f"{path} needs more memory than there is.") from error
    checksum = arrays.pop(_CHECKSUM, None)
    if checksum is None or not np.array_equal(_checksum(text, arrays), checksum):
        raise FileError(f"{path} is damaged: its checksum differs from the one that it states.")
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise FileError(f"{path} is not a model file of vicinal.")
    schema = header.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise FileError(
            f"{path} has schema {schema!r}; this release of vicinal reads schemas 1 to {SCHEMA}. "
            "A file with a higher one was written by a later release: update vicinal."
        )
    return header, arrays


def parse(text: str) -> Any:
    """JSON within limits: values, digits, no numbers that are not finite."""
    if _n_parts(text) > _PARTS:
        raise FileError(f"The header has more than {_PARTS} values.")
    return json.loads(text, parse_int=_int, parse_float=_float, parse_constant=_no_constant)


def _content(path: Path) -> tuple[bytes, bytes]:
    """The whole file, and the JSON head of it."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise FileError("It is not a regular file.")
        start = file.read(8)
        n_head = int.from_bytes(start, "little")
        if len(start) < 8 or n_head > about.st_size - 8:
            raise FileError("It is not a model file: it is cut short, or of another kind.")
        if n_head > _HEAD:
            raise FileError(f"Its header has {n_head} bytes; at most {_HEAD} are allowed.")
        content = start + file.read()
    return content, content[8 : 8 + n_head]


def _metadata(head: bytes) -> str:
    """Our header, from the head of a safetensors file."""
    found = parse(head.decode("utf-8"))
    metadata = found.get("__metadata__") if isinstance(found, dict) else None
    text = metadata.get(FORMAT) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise FileError("It is not a model file of vicinal: it has no such header.")
    return text


def _n_parts(text: str) -> int:
    """At least the number of values in a JSON text."""
    return sum(text.count(mark) for mark in ",[{")


def _int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise FileError(f"An int in the header has {len(digits)} digits.")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FileError(f"The number {digits[:20]} in the header is not finite in float64.")
    return number


def _no_constant(name: str) -> Any:
    raise FileError(f"The header holds {name}, which is not JSON.")


def _plain(name: str, array: Array) -> Array:
    """The array in C order and little-endian."""
    array = np.asarray(array)
    if array.dtype.newbyteorder("=") not in DTYPES:
        raise TypeError(f"The array {name!r} has dtype {array.dtype}, which a file cannot hold.")
    shape = array.shape  # ascontiguousarray makes vectors of numbers
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(shape)


def _own(name: str, array: Array) -> Array:
    """A copy in memory of its own, which can be written to, as that of any array."""
    if array.dtype not in DTYPES:
        raise FileError(f"The array {name!r} has dtype {array.dtype}, which is not allowed.")
    return np.array(array, dtype=array.dtype.newbyteorder("="))


def _checksum(text: str, arrays: Mapping[str, Array]) -> Array:
    """SHA-256 of the header, and of the name, type, shape and bytes of each array, by name."""
    found = hashlib.sha256(text.encode("utf-8"))
    for name in sorted(arrays):
        array = arrays[name]
        about = json.dumps([name, array.dtype.name, list(array.shape)])
        found.update(about.encode("utf-8"))
        found.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).data)
    return np.frombuffer(found.digest(), np.uint8)
