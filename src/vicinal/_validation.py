"""Checks of parameters and labels, all with the same words: name, bound, value."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from vicinal._types import Array

__all__ = ["check_bool", "check_classes", "check_number", "check_option", "check_weights"]


def check_option(owner: Any, name: str, options: Sequence[Any]) -> None:
    """Refuse a value that is not one of a few."""
    value = getattr(owner, name)
    if not any(value is option or (isinstance(value, str) and value == option)
               for option in options):  # fmt: skip
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(_template(owner, name, f"one of {listed}", value))


def check_bool(owner: Any, name: str) -> None:
    """Refuse anything but True and False."""
    if not isinstance(getattr(owner, name), bool | np.bool_):
        raise ValueError(_template(owner, name, "True or False", getattr(owner, name)))


def check_number(
    owner: Any,
    name: str,
    low: float,
    high: float = np.inf,
    *,
    integer: bool = False,
    open_ends: bool = False,
    or_else: Sequence[Any] = (),
) -> None:
    """Refuse a number outside ``[low, high]`` (or inside but on the ends), or of another kind."""
    value = getattr(owner, name)
    if any(value is other or (isinstance(value, str) and value == other) for other in or_else):
        return
    kind = Integral if integer else Real
    if isinstance(value, kind) and not isinstance(value, bool):
        inside = low < value < high if open_ends else low <= value <= high
        if inside and np.isfinite(float(value)):
            return
    left, right = ("(", ")") if open_ends else ("[", "]" if np.isfinite(high) else ")")
    bounds = f"{left}{low}, {high}{right}"
    others = "".join(f" or {other!r}" for other in or_else)
    what = f"{'an int' if integer else 'a float'} in {bounds}{others}"
    raise ValueError(_template(owner, name, what, value))


def check_classes(y: Any, owner: str) -> tuple[Array, Array]:
    """The sorted classes and the code of each row; at least two classes are needed."""
    y = np.asarray(y)
    check_classification_targets(y)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise ValueError(
            f"The labels y must all be of one type that can be sorted. Got {', '.join(kinds)} "
            "instead."
        ) from error
    if len(classes) < 2:
        raise ValueError(
            f"{owner} needs samples of at least 2 classes. "
            f"Got 1 class instead: {classes.tolist()!r}."
        )
    return classes, codes


def check_weights(sample_weight: Any, n: int) -> Array | None:
    """Sample weights as float64, or None; a single number weighs all rows alike."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},). Got {weight.shape} instead.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must be finite and not negative.")
    if not weight.any():
        raise ValueError("sample_weight must not be zero for all rows.")
    return weight


def _template(owner: Any, name: str, bound: str, value: Any) -> str:
    return (
        f"The {name!r} parameter of {type(owner).__name__} must be {bound}. Got {value!r} instead."
    )
