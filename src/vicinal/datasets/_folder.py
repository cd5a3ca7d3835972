"""Data sets in a user's folder: one NumPy archive for each, checked before use."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from vicinal.core.types import Array
from vicinal.datasets._parts import NotFoundHereError, Table

_VARIABLE = "VICINAL_DATA"
_NEEDED = ("X", "y", "feature_names", "class_names")
_BROKEN = (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile, zlib.error)


def names() -> list[str]:
    """The names of all data files in the folder; empty if there is no folder."""
    folder = os.environ.get(_VARIABLE)
    return sorted(path.stem for path in Path(folder).glob("[!.]*.npz")) if folder else []


def read(name: str) -> Table:
    """The contents of a file, with their stored dtypes."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        raise NotFoundHereError(f"the environment variable {_VARIABLE} is not set.")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        missing = path.name if path.parent.is_dir() else "such folder"
        raise NotFoundHereError(f"{_VARIABLE} is {folder!r}, and there is no {missing}.")
    arrays = _open(path)
    try:
        _check(arrays)
    except ValueError as error:
        raise ValueError(f"The file {str(path)!r} is not a valid data set: {error}") from None
    return Table(
        data=arrays["X"],
        target=arrays["y"],
        feature_names=arrays["feature_names"].tolist(),
        target_names=arrays["class_names"].astype(str),
        is_train=arrays.get("is_train"),
        origin=f"from the file {str(path)!r}",
    )


def _open(path: Path) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path):  # np.load would take any file that is no archive for a pickle
            pass
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in (*_NEEDED, "is_train") if key in file.files}
    except _BROKEN as error:
        raise ValueError(
            f"The file {str(path)!r} cannot be read as a NumPy archive of plain arrays: {error}"
        ) from error


def _check(arrays: dict[str, Array]) -> None:
    lacking = [key for key in _NEEDED if key not in arrays]
    if lacking:
        raise ValueError(f"it lacks {', '.join(map(repr, lacking))}.")
    X, y, features, classes = (arrays[key] for key in _NEEDED)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "buif":
        raise ValueError(f"'X' must be a matrix of numbers. Got {_shown(X)} instead.")
    n, d = X.shape
    for key, size, kinds, what in (
        ("y", n, "iuf", "integers or floats"),
        ("feature_names", d, "U", "strings"),
        ("is_train", n, "b", "booleans"),
    ):
        array = arrays.get(key)
        if array is not None and (array.shape != (size,) or array.dtype.kind not in kinds):
            raise ValueError(f"{key!r} must hold {size} {what}. Got {_shown(array)} instead.")
    if classes.ndim != 1 or (len(classes) and classes.dtype.kind != "U"):
        raise ValueError(f"'class_names' must be a list of strings. Got {_shown(classes)} instead.")
    n_bad = n - int((np.isfinite(X).all(axis=1) & np.isfinite(y)).sum())
    if n_bad:
        raise ValueError(f"{n_bad} of {n} rows have missing or infinite values.")
    if y.dtype.kind == "f":
        if len(classes):
            raise ValueError(f"'y' holds floats, but there are {len(classes)} 'class_names'.")
    elif y.min() < 0 or y.max() >= len(classes):
        raise ValueError(
            f"'y' must hold codes in [0, {len(classes) - 1}], one for each of the "
            f"{len(classes)} 'class_names'. Got codes from {y.min()} to {y.max()} instead."
        )


def _shown(array: Array) -> str:
    return f"an array of shape {array.shape} and dtype {array.dtype}"
