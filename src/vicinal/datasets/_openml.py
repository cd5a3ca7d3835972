"""Data sets from OpenML, under the names that the papers use."""

from __future__ import annotations

import os
from http.client import HTTPException
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from vicinal._validation import warn
from vicinal.core.types import Array
from vicinal.datasets._parts import NotFoundHereError, Table


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


def read(name: str, data_home: str | os.PathLike[str] | None) -> Table:
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
