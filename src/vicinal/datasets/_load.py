"""Named data sets, from the first source that has them."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from vicinal._validation import check_bool, check_option, parameters_of
from vicinal.datasets._sources import (
    BUILTIN,
    NotFoundHereError,
    Table,
    folder_names,
    from_folder,
    from_openml,
    from_scikit_learn,
)

_SOURCES = ("folder", "builtin", "openml")  # nearest first


def load(
    name: str,
    *,
    source: str | None = None,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Any:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        Name of the set, as in the papers: "balance", "landsat", "wine", ….  Any other name is
        looked up at OpenML unchanged.  ``"name:version"`` is OpenML's own name and version, and is
        looked up only there.
    source : {"folder", "builtin", "openml"}, default=None
        Where to look; None looks everywhere, in this order:

        - "folder": a file ``name.npz`` in the folder named by the environment variable
          ``VICINAL_DATA``, with the arrays listed in the Notes;
        - "builtin": "breast_cancer", "digits", "iris" and "wine", from scikit-learn itself;
        - "openml": the internet, by `sklearn.datasets.fetch_openml`.
    data_home : str or path-like, default=None
        Where scikit-learn caches data from OpenML; None: its usual folder.
    return_X_y : bool, default=False
        Whether to return only ``(data, target)``.

    Returns
    -------
    dataset : Bunch
        With the attributes

        - data: array of shape (n_samples, n_features), float32 or float64 as stored; small
          integers, such as pixels, become float32;
        - target: class codes (int64), or a continuous target (float64);
        - feature_names: list of str;
        - target_names: names of the class codes; empty for a continuous target;
        - is_train: the training rows as booleans, if the set has an official split, else None;
        - name, source: the name, and the source where it was found;
        - DESCR: size and origin, in a sentence or two.
    (data, target) : tuple of ndarrays
        If ``return_X_y`` is True.

    Raises
    ------
    OSError
        If no source has the set; the message says what was tried.
    ValueError
        If a source has it, but not as a numeric table without missing values.

    Notes
    -----
    A file in the folder is read by ``numpy.load(path, allow_pickle=False)`` and holds ``X``, ``y``
    (integer codes, or floats for a continuous target), ``feature_names``, ``class_names`` (empty
    for a continuous target) and, where there is an official split, ``is_train`` (bool).

    Sets of the same name need not be equal: two rows of UCI's iris differ from scikit-learn's, and
    OpenML's copy of a set may differ in size from that of the papers, which gives a warning.  From
    OpenML, constant columns of "ionosphere" and "segment" are left out, as in [Oneata2011];
    ``DESCR`` names them.
    """
    given = parameters_of("load", source=source, return_X_y=return_X_y)
    check_option(given, "source", (None, *_SOURCES))
    check_bool(given, "return_X_y")
    version = _version_of(name)
    if version and source not in (None, "openml"):
        raise ValueError(f"Only OpenML has versions. Got name={name!r} and source={source!r}.")
    places = (source,) if source else ("openml",) if version else _SOURCES
    tried = []
    for place in places:
        try:
            if place == "openml":
                table = from_openml(name, data_home)
            else:
                table = from_folder(name) if place == "folder" else from_scikit_learn(name)
            return _finish(name, place, table, return_X_y)
        except NotFoundHereError as miss:
            tried.append(f"- {place}: {miss}")
    raise OSError(f"The data set {name!r} was not found.\n" + "\n".join(tried))


def available() -> dict[str, list[str]]:
    """List the names that `load` finds without a network.

    Returns
    -------
    names : dict of str to list of str
        The sorted names of each source, "folder" and "builtin".
    """
    return {"folder": folder_names(), "builtin": sorted(BUILTIN)}


def _version_of(name: Any) -> str | None:
    """The version at the end of a name, or None; a name that could be a path is an error."""
    if isinstance(name, str) and name.isprintable():
        match = re.fullmatch(r"[^\s./\\:][^/\\:]*(?::([1-9][0-9]*))?", name)
        if match:
            return match[1]
    raise ValueError(
        "The 'name' parameter of load must be the plain name of a data set, or 'name:version' for "
        f"OpenML. Got {name!r} instead."
    )


def _finish(name: str, place: str, table: Table, return_X_y: bool) -> Any:
    n, d = table.data.shape
    classes = len(table.target_names)
    # NumPy promotes to float32 what it holds exactly: float16 and integers of up to 16 bits
    single = np.result_type(table.data.dtype, np.float32) == np.float32
    data = np.ascontiguousarray(table.data, dtype=np.float32 if single else np.float64)
    target = table.target.astype(np.int64 if classes else np.float64)
    if return_X_y:
        return data, target
    kind = f"{classes} classes" if classes else "a continuous target"
    about = f"{name}: {n} rows, {d} features, {kind}; {table.origin}."
    if table.is_train is not None:
        n_train = int(table.is_train.sum())
        about += f" Its official split has {n_train} training and {n - n_train} test rows."
    return Bunch(
        data=data,
        target=target,
        feature_names=table.feature_names,
        target_names=table.target_names,
        is_train=table.is_train,
        name=name,
        source=place,
        DESCR=about,
    )
