"""Where data sets come from: files in a user's folder, scikit-learn, and OpenML."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import fetch_openml, load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.utils import Bunch

from vicinal._validation import warn
from vicinal.core.types import Array

_VARIABLE = "VICINAL_DATA"
_NEEDED = ("X", "y", "feature_names", "class_names")
_BROKEN = (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile, zlib.error)
#: the labelled sets that scikit-learn ships
BUILTIN: dict[str, Callable[[], Bunch]] = {
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
}


class NotFoundHereError(Exception):
    """A source does not have the set; `load` lists the messages of all sources."""


@dataclass
class Table:
    """Rows and labels from a source, and a description of where they came from."""

    data: Array
    target: Array  #: codes of target_names, or numbers if these are empty
    feature_names: list[str]
    target_names: Array
    is_train: Array | None
    origin: str


# A folder: one NumPy archive for each set, checked before use.


def folder_names() -> list[str]:
    """The names of all data files in the folder; empty if there is no folder."""
    folder = os.environ.get(_VARIABLE)
    return sorted(path.stem for path in Path(folder).glob("[!.]*.npz")) if folder else []


def from_folder(name: str) -> Table:
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


# scikit-learn


def from_scikit_learn(name: str) -> Table:
    """A set that scikit-learn ships."""
    if name not in BUILTIN:
        raise NotFoundHereError(f"scikit-learn has {', '.join(sorted(BUILTIN))}.")
    bunch = BUILTIN[name]()
    features = [str(feature) for feature in bunch.feature_names]
    classes = np.asarray(bunch.target_names).astype(str)
    return Table(bunch.data, bunch.target, features, classes, None, "from scikit-learn")


# OpenML, under the names that the papers use


class _Entry(NamedTuple):
    """Where OpenML has a set of the papers, and its numbers of rows and features there."""

    name: str
    version: int | str
    n: int
    d: int
    drop_constant: bool = False
    n_train: int | None = None  #: the first n_train rows are for training


# Sizes as in [Oneata2011].  "usps9298" is the USPS set of 7291 + 2007 rows; "usps" is the one with
# 1100 rows per digit, which OpenML may not have.
_PAPERS = {
    "balance": _Entry("balance-scale", 1, 625, 4),
    "ecoli": _Entry("ecoli", 1, 336, 7),
    "glass": _Entry("glass", 1, 214, 9),
    "housing": _Entry("boston", 1, 506, 13),
    "ionosphere": _Entry("ionosphere", 1, 351, 33, drop_constant=True),
    "landsat": _Entry("satimage", 1, 6435, 36),
    "magic": _Entry("MagicTelescope", 1, 19020, 10),
    "mnist": _Entry("mnist_784", 1, 70000, 784, n_train=60000),
    "pima": _Entry("diabetes", 1, 768, 8),
    "segment": _Entry("segment", 1, 2310, 18, drop_constant=True),
    "spectf": _Entry("spectf", "active", 267, 44),
    "transfusion": _Entry("blood-transfusion-service-center", 1, 748, 4),
    "usps": _Entry("usps", "active", 11000, 256),
    "usps9298": _Entry("usps", 2, 9298, 256),
    "wine": _Entry("wine", 1, 178, 13),
    "yeast": _Entry("yeast", 1, 1484, 8),
}


def from_openml(name: str, data_home: str | os.PathLike[str] | None) -> Table:
    """Fetch a set, or read it from scikit-learn's cache: numeric, without missing values."""
    entry = _PAPERS.get(name)
    own_name, _, version = name.partition(":")
    if entry is not None:
        own_name, version = entry.name, str(entry.version)
    bunch = _fetch(own_name, version, data_home)
    label = f"OpenML's {own_name!r}" + (f", version {version}," if version.isdigit() else "")
    data, features = _numbers(bunch, label)
    target, target_names = _labels(bunch.target, label)
    origin, is_train = f"from {label.rstrip(',')}", None
    if entry is not None:
        if entry.drop_constant:
            data, features, dropped = _varying(data, features)
            origin += f", without constant columns ({', '.join(dropped) or 'none'})"
        if data.shape != (entry.n, entry.d):
            n, d = data.shape
            warn(
                f"{label} is not the {name!r} of the papers: {n} rows and {d} features instead of "
                f"{entry.n} and {entry.d}."
            )
        elif entry.n_train is not None:
            is_train = np.arange(entry.n) < entry.n_train
    return Table(data, target, features, target_names, is_train, origin)


def _fetch(name: str, version: str, data_home: str | os.PathLike[str] | None) -> Bunch:
    try:
        # This parser needs no pandas; it encodes categories and lists them in `categories`.
        return fetch_openml(
            name,
            version=int(version) if version.isdigit() else "active",
            data_home=data_home,
            as_frame=False,
            parser="liac-arff",
        )
    except (HTTPException, OSError, ValueError) as error:
        asked = f"{name!r}, version {version}" if version.isdigit() else repr(name)
        raise NotFoundHereError(
            f"asked for {asked}, got {type(error).__name__}: {error}"
        ) from error


def _numbers(bunch: Bunch, label: str) -> tuple[Array, list[str]]:
    """The features; categories that are spelt as numbers become numbers again."""
    if issparse(bunch.data):
        raise ValueError(f"{label} is sparse; use sklearn.datasets.fetch_openml for sparse data.")
    data = np.array(bunch.data, dtype=np.float64)
    features = [str(feature) for feature in bunch.feature_names]
    n_gaps = int(np.isnan(data).any(axis=1).sum())
    if n_gaps:
        raise ValueError(f"{label} has missing values in {n_gaps} of {len(data)} rows.")
    words = []
    for column, feature in enumerate(features):
        categories = (bunch.get("categories") or {}).get(feature)
        if categories is None:
            continue
        values = _as_numbers(categories)
        if values is None:
            words.append(feature)
        else:
            data[:, column] = values[data[:, column].astype(np.intp)]
    if words:
        raise ValueError(
            f"{label} has columns that are not numbers: {', '.join(words)}. "
            "Use sklearn.datasets.fetch_openml and encode them."
        )
    return data, features


def _labels(target: Array | None, label: str) -> tuple[Array, Array]:
    """Class codes and names; for a continuous target, the target itself and no names."""
    if target is None or target.ndim != 1:
        raise ValueError(f"{label} must have one target column to be loaded here.")
    if target.dtype.kind in "iuf":
        n_gaps = int(np.isnan(target).sum())
        if n_gaps:
            raise ValueError(f"{label} has missing values in {n_gaps} of {len(target)} targets.")
        return target, np.array([], dtype=str)
    names, codes = np.unique(target.astype(str), return_inverse=True)
    values = _as_numbers(names)
    if values is not None:  # "10" belongs after "9"
        order = np.argsort(values, kind="stable")
        names, codes = names[order], np.argsort(order, kind="stable")[codes]
    return codes, names


def _varying(data: Array, features: list[str]) -> tuple[Array, list[str], list[str]]:
    varies = np.ptp(data, axis=0) > 0
    kept = [feature for feature, keep in zip(features, varies, strict=True) if keep]
    dropped = [feature for feature, keep in zip(features, varies, strict=True) if not keep]
    return data[:, varies], kept, dropped


def _as_numbers(words: Array | list[str]) -> Array | None:
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return None
