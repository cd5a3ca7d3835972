"""Predictions for dask arrays, one block of rows at a time, when they are computed."""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vicinal.dask._cluster import in_one_thread
from vicinal.estimators._classifier import settle


def is_lazy(X: Any) -> bool:
    """Whether X is a dask collection."""
    from dask.base import is_dask_collection

    return bool(is_dask_collection(X))


def on_host(values: Any) -> Any:
    """Labels or weights in memory."""
    return np.asarray(values.compute()) if is_lazy(values) else values


def transform(model: Any, X: Any) -> Any:
    """The embedded rows of a dask array or data frame, lazily.

    Parameters
    ----------
    model : estimator or pipeline
        Fitted, of vicinal or of scikit-learn: all that its ``transform`` needs goes to the workers.
        A `vicinal.KSNE` that was fitted to a sample places any number of further rows.
    X : dask array or dask DataFrame of shape (n_samples, n_features)
        Blocks of whole rows.  What is in memory is transformed at once.

    Returns
    -------
    Z : dask array of shape (n_samples, n_components)
    """
    return lazily(model, "transform", X)


def predict(model: Any, X: Any) -> Any:
    """The predictions for a dask array or data frame, lazily.

    Parameters
    ----------
    model, X
        As in :func:`transform`.

    Returns
    -------
    y : dask array of shape (n_samples,) or (n_samples, n_outputs)
    """
    return lazily(model, "predict", X)


def predict_proba(model: Any, X: Any) -> Any:
    """The class probabilities for a dask array or data frame, lazily.

    Parameters
    ----------
    model, X
        As in :func:`transform`.

    Returns
    -------
    P : dask array of shape (n_samples, n_classes)
    """
    return lazily(model, "predict_proba", X)


def lazily(model: Any, method: str, X: Any) -> Any:
    """A method of a fitted model, block by block; at once for what is in memory."""
    if not is_lazy(X) or "references_" in vars(model):
        return getattr(model, method)(X)
    settle(model)
    width, dtype = _result(model, method, X)
    shape = () if width is None else (width,)
    return by_block(X, [(shape, dtype)], _light(model, method), method)[0]


def _light(model: Any, method: str) -> Any:
    """The model, without what this method does not need."""
    if method != "transform" or vars(model).get("_map") is None:
        return model
    light = copy.copy(model)
    for name in ("_model", "_resume", "history_", "_choice", "cv_results_"):
        vars(light).pop(name, None)
    return light


def _result(model: Any, method: str, X: Any) -> tuple[int | None, np.dtype]:
    """The columns and the dtype of what the method returns: that of a row, if nothing tells."""
    classes = getattr(model, "classes_", None)
    if classes is not None and method == "predict":
        return None, classes.dtype
    if classes is not None and method == "predict_proba":
        return len(classes), np.dtype(np.float64)
    row = np.zeros((1, X.shape[1]), X.dtype) if hasattr(X, "chunks") else X._meta_nonempty
    found = np.asarray(getattr(model, method)(row))
    return (found.shape[1] if found.ndim == 2 else None), found.dtype


def by_block(
    X: Any, shapes: Sequence[tuple[tuple[int, ...], Any]], model: Any, method: str, *args: Any
) -> list[Any]:
    """Dask arrays of what a method returns for each block of rows of X: an array, or several."""
    from dask.delayed import delayed

    held = delayed(model, name=f"vicinal-model-{uuid.uuid4().hex}", traverse=False)
    answer = delayed(_answer, pure=False, nout=len(shapes))
    parts, lengths = blocks_of(X, type(model).__name__)
    return as_arrays([answer(held, method, part, *args) for part in parts], lengths, shapes)


def blocks_of(X: Any, owner: str) -> tuple[list[Any], Sequence[float]]:
    """The blocks of rows of X, lazily, and their lengths; what is in memory is one block."""
    from dask.delayed import delayed

    if not is_lazy(X):
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        return [delayed(X, traverse=False)], [n]
    if hasattr(X, "chunks"):
        check_whole_rows(X, owner)
        return list(X.to_delayed()[:, 0]), X.chunks[0]
    parts = X.to_delayed()
    return parts, [np.nan] * len(parts)


def as_arrays(
    done: Sequence[Any], lengths: Sequence[float], shapes: Sequence[tuple[tuple[int, ...], Any]]
) -> list[Any]:
    """Dask arrays of what has been found for each block of rows: an array, or several."""
    import dask.array as da

    found = []
    for i, (shape, dtype) in enumerate(shapes):
        arrays = [
            da.from_delayed(
                part[i] if len(shapes) > 1 else part, (n, *shape), dtype=dtype,
                meta=np.empty((0,) * (1 + len(shape)), dtype),
            )
            for part, n in zip(done, lengths, strict=True)
        ]  # fmt: skip
        found.append(da.concatenate(arrays, allow_unknown_chunksizes=True))
    return found


def _answer(model: Any, method: str, X: Any, *args: Any) -> Any:
    call: Callable[..., Any] = getattr(model, method)
    if not len(X) if not hasattr(X, "shape") else not X.shape[0]:
        return _of_no_rows(call, X, *args)
    return in_one_thread(call, X, *args)


def _of_no_rows(call: Callable[..., Any], X: Any, *args: Any) -> Any:
    """What the method returns for no rows: most refuse them."""
    found = in_one_thread(call, np.zeros((1, X.shape[1]), X.dtype), *args)
    return tuple(part[:0] for part in found) if isinstance(found, tuple) else found[:0]


def check_whole_rows(X: Any, owner: str) -> None:
    """Refuse what is no table of blocks of whole rows, and say what makes one."""
    if not hasattr(X, "chunks"):
        raise TypeError(
            f"The X of vicinal.dask.{owner}.fit must be a dask array. Got a {type(X).__name__} "
            "instead. Use X.to_dask_array(lengths=True)."
        )
    if X.ndim != 2:
        raise ValueError(
            f"The X of vicinal.dask.{owner} must have shape (n_samples, n_features). Got a dask "
            f"array of {X.ndim} dimensions instead."
        )
    if X.numblocks[1] != 1:
        raise ValueError(
            f"The blocks of X must hold whole rows for vicinal.dask.{owner}. Got {X.numblocks[1]} "
            "blocks of columns instead. Use X.rechunk({1: -1})."
        )
