"""The state of a training run, from which warm starts, checkpoints and model files resume.

A :class:`FitState` is plain data.  ``arrays()`` gives it as a dict of JSON values and a dict of
NumPy arrays, and ``from_arrays`` makes it from those: it can be stored without pickle.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.types import Array, Sampling

__all__ = ["Best", "FitState", "Round", "Window", "decode", "encode"]

SCHEMA = 1


class Best(NamedTuple):
    """The best parameters of a run so far: highest score, or lowest loss if there are no scores."""

    theta: Array
    value: float
    score: float = -np.inf


class Window(NamedTuple):
    """What the stop rules of a loop compare the newest iteration with.

    Parameters
    ----------
    first : float
        The loss at the start of the loop.
    since : int
        Number of rows of the history before the first step of the loop.
    top_score, top_iteration : float, int
        The best score so far, and when it was reached.
    scored : bool
        Whether the newest iteration was scored, other than because it was the last.
    map_size : float
        The largest entry of the map, in which gradients are measured.
    """

    first: float
    since: int
    top_score: float
    top_iteration: int
    scored: bool
    map_size: float


class Round(NamedTuple):
    """Where a run stands between two refreshes.

    The problem of the round is not stored: it is made again from what is stored here.

    Parameters
    ----------
    theta : array
        The parameters at the refresh that began the round.
    iteration : int
        The number of the last iteration before it.
    memory : dict
        The memory of the `Refresh` before it.
    rng : tuple or None
        The state of the random generator before it.
    fresh : float or None
        The loss right after it, if losses can be compared.
    top, top_score : array or None, float
        The best parameters of all rounds before, by their held-out score.
    stale : int
        Iterations without a better score.
    """

    theta: Array
    iteration: int
    memory: dict[str, Any]
    rng: Any
    fresh: float | None
    top: Array | None
    top_score: float
    stale: int


class FitState(NamedTuple):
    """The state of a run after any iteration.

    Parameters
    ----------
    stage : int
        Number of the current stage.
    part : Solver
        The solver of that stage, with its learning rate.
    solver : NamedTuple
        The state of the solver; its ``theta`` are the current parameters.
    sampling : Sampling or None
        The position in the sequence of batches.
    best : Best
        The best parameters so far.
    history : dict of lists
        One row for each iteration.
    kept : array or None
        The result of the last refresh: weights of backgrounds, target neighbours.
    window : Window or None
        What the stop rules compare with.  None: the whole history.
    round : Round or None
        The position between two refreshes, in a stage that has a `Refresh`.
    rng : tuple or None
        The state of the random generator, as from ``RandomState.get_state()``.
    left : int or None
        Number of iterations that the run may still make.
    pending : bool
        Whether the stop rules have not seen the newest iteration yet.
    """

    stage: int
    part: Any
    solver: Any
    sampling: Sampling | None
    best: Best
    history: dict[str, list]
    kept: Any = None
    window: Window | None = None
    round: Round | None = None
    rng: Any = None
    left: int | None = None
    pending: bool = False

    def arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The state as JSON values and arrays; see `from_arrays`."""
        arrays: dict[str, Array] = {}
        values = {name: encode(getattr(self, name), name, arrays) for name in self._fields}
        return {"schema": SCHEMA, **values}, arrays

    @classmethod
    def from_arrays(
        cls, values: Mapping[str, Any], arrays: Mapping[str, Array], classes: tuple[type, ...] = ()
    ) -> FitState:
        """Restore a state from the output of `arrays`.

        Parameters
        ----------
        values, arrays : dicts
            The two results of `arrays`.
        classes : tuple of types
            Named tuples and dataclasses from outside vicinal that the state may hold, such as the
            state of your own solver.

        Raises
        ------
        ValueError
            If the schema is unknown, or the state holds a class that is not allowed.
        """
        if values.get("schema") != SCHEMA:
            raise ValueError(
                f"The state of a fit must have schema {SCHEMA}. Got {values.get('schema')!r}."
            )
        return cls(**{name: decode(values[name], arrays, classes) for name in cls._fields})


def encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A value as JSON; arrays go into ``arrays`` under names that begin with ``name``.

    Numbers that JSON cannot represent (infinite, NaN) and lists of numbers become arrays.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic) or (isinstance(value, float) and not np.isfinite(value)):
        value = np.asarray(value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"The array {name!r} must hold numbers or strings. Got objects.")
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {"dict": {str(k): encode(v, f"{name}.{k}", arrays) for k, v in value.items()}}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = {k: encode(getattr(value, k), f"{name}.{k}", arrays) for k in value._fields}
        return {"class": _name_of(type(value)), "fields": fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        fields = {k: encode(getattr(value, k), f"{name}.{k}", arrays) for k in names}
        return {"class": _name_of(type(value)), "fields": fields}
    if isinstance(value, list | tuple):
        if len(value) > 0 and all(isinstance(v, int | float | np.generic) for v in value):
            arrays[name] = np.asarray(value)
            return {"numbers": name, "tuple": isinstance(value, tuple)}
        items = [encode(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
        return {"list": items, "tuple": isinstance(value, tuple)}
    raise TypeError(f"{name!r} cannot be stored without pickle: it is a {type(value).__name__}.")


def decode(value: Any, arrays: Mapping[str, Array], classes: tuple[type, ...] = ()) -> Any:
    """Invert `encode`."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        array = arrays[value["array"]]
        return array[()] if array.ndim == 0 else array
    if "numbers" in value:
        numbers = arrays[value["numbers"]].tolist()
        return tuple(numbers) if value["tuple"] else numbers
    if "dict" in value:
        return {k: decode(v, arrays, classes) for k, v in value["dict"].items()}
    if "list" in value:
        items = [decode(v, arrays, classes) for v in value["list"]]
        return tuple(items) if value["tuple"] else items
    fields = {k: decode(v, arrays, classes) for k, v in value["fields"].items()}
    return _class_of(value["class"], classes)(**fields)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class_of(name: str, classes: tuple[type, ...]) -> type:
    """The class with this name: a named tuple or dataclass of vicinal, or one of ``classes``."""
    for kind in classes:
        if _name_of(kind) == name:
            return kind
    module, _, qualname = name.partition(":")
    found: Any = None
    if module.split(".")[0] == "vicinal" and qualname.isidentifier():
        found = getattr(importlib.import_module(module), qualname, None)
    plain = isinstance(found, type) and (
        dataclasses.is_dataclass(found) or (issubclass(found, tuple) and hasattr(found, "_fields"))
    )
    if not plain:
        raise ValueError(f"The class {name!r} is not allowed in the state of a fit.")
    return found
