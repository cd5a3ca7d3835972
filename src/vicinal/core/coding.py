"""Values as JSON and arrays, and back: how states and models are kept without pickle."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array

_DEEPEST = 64  # levels of nested values
_LONGEST = 10**7  # numbers in a list
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Coding:
    """Encodes values as JSON, with their arrays beside it, and decodes them.

    Classes are named by their module.  Subclasses may name them otherwise, and may know further
    kinds of values: see `fields_of`, `make`, `encode_other` and `decode_other`.

    Parameters
    ----------
    arrays : dict, default=None
        Where arrays are put, and taken from, by their names.
    classes : tuple of types, default=()
        Named tuples and dataclasses from outside vicinal that may be decoded.
    """

    def __init__(
        self, arrays: Mapping[str, Array] | None = None, classes: tuple[type, ...] = ()
    ) -> None:
        self.arrays: Any = {} if arrays is None else arrays
        self.classes = classes
        self._depth = 0
        self._names: dict[int, str] = {}  # of arrays that have been encoded
        self._kept: list[Any] = []  # so that no other array gets the address of one of them
        self._copied: set[str] = set()

    def encode(self, value: Any, name: str) -> Any:
        """A value as JSON; arrays go into ``arrays`` under names that begin with ``name``."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic):
            return {"array": self.put(np.asarray(value), name)}
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if isinstance(value, int | float):
            return value
        if isinstance(value, np.ndarray):
            return self.encode_array(value, name)
        if isinstance(value, dict):
            return {"dict": {str(k): self.encode(v, f"{name}.{k}") for k, v in value.items()}}
        found = self.fields_of(value, name)
        if found is not None:
            kind, fields = found
            fields = {k: self.encode(v, f"{name}.{k}") for k, v in fields.items()}
            return {"class": kind, "fields": fields}
        if isinstance(value, list | tuple):
            of_tuple = isinstance(value, tuple)
            if len(value) > 0 and self.are_numbers(value):
                return {"numbers": self.put(np.asarray(value), name), "tuple": of_tuple}
            items = [self.encode(v, f"{name}.{i}") for i, v in enumerate(value)]
            return {"list": items, "tuple": of_tuple}
        return self.encode_other(value, name)

    def put(self, array: Array, name: str) -> str:
        """Store an array, once if it is met several times; return its name."""
        known = self._names.get(id(array))
        if known is not None:
            return known
        unique, number = name, 2
        while unique in self.arrays:
            unique, number = f"{name}#{number}", number + 1
        self.arrays[unique] = array
        self._names[id(array)] = unique
        self._kept.append(array)
        return unique

    def are_numbers(self, values: Any) -> bool:
        """Whether a list is stored as one array."""
        return all(isinstance(v, int | float | np.generic) for v in values)

    def encode_array(self, array: Array, name: str) -> Any:
        """An array of numbers or strings."""
        if array.dtype.hasobject:
            raise TypeError(f"The array {name!r} must hold numbers or strings. Got objects.")
        return {"array": self.put(array, name)}

    def fields_of(self, value: Any, name: str) -> tuple[str, dict[str, Any]] | None:
        """The name of an object's class and its fields; None for other values."""
        kind = type(value)
        if not is_plain_class(kind):
            return None
        names = getattr(kind, "_fields", None) or [f.name for f in dataclasses.fields(kind)]
        return _name_of(kind), {k: getattr(value, k) for k in names}

    def encode_other(self, value: Any, name: str) -> Any:
        """Any value that is nothing of the above."""
        raise TypeError(
            f"{name!r} cannot be stored without pickle: it is a {type(value).__name__}."
        )

    def decode(self, value: Any) -> Any:
        """Invert `encode`."""
        if not isinstance(value, dict):
            if isinstance(value, list):
                raise ValueError("A list must be stored as {'list': [...], 'tuple': ...}.")
            return value
        if self._depth >= _DEEPEST:
            raise ValueError(f"Values must be nested at most {_DEEPEST} deep.")
        self._depth += 1
        try:
            return self._decoded(value)
        finally:
            self._depth -= 1

    def _decoded(self, value: dict[str, Any]) -> Any:
        if "array" in value:
            array = self.array(value["array"])
            return array[()] if array.ndim == 0 else array
        if "float" in value:
            return _FLOATS[value["float"]]
        if "numbers" in value:
            return self._numbers(value["numbers"], value["tuple"])
        if "dict" in value:
            return {k: self.decode(v) for k, v in value["dict"].items()}
        if "list" in value:
            items = [self.decode(v) for v in value["list"]]
            return tuple(items) if value["tuple"] else items
        if "class" in value:
            fields = {k: self.decode(v) for k, v in value["fields"].items()}
            return self.make(value["class"], fields)
        return self.decode_other(value)

    def array(self, name: str) -> Array:
        """The array of this name."""
        return self.arrays[name]

    def _numbers(self, name: str, of_tuple: bool) -> Any:
        self.copy_once(name)
        array = self.array(name)
        if array.size > _LONGEST:  # the list takes several times the memory of the array
            raise ValueError(f"A list must have at most {_LONGEST} numbers. Got {array.size}.")
        numbers = array.tolist()
        return tuple(numbers) if of_tuple else numbers

    def copy_once(self, name: str) -> None:
        """Refuse a second value that copies an array: a small file could fill the memory."""
        if name in self._copied:
            raise ValueError(f"The array {name!r} is used for two lists.")
        self._copied.add(name)

    def make(self, name: str, fields: dict[str, Any]) -> Any:
        """An object of the class with this name: of vicinal, or one of ``classes``."""
        return self._class_of(name)(**fields)

    def decode_other(self, value: dict[str, Any]) -> Any:
        """Invert `encode_other`."""
        raise ValueError(f"Unknown kind of value: {sorted(value)[:5]}.")

    def _class_of(self, name: str) -> type:
        for kind in self.classes:
            if _name_of(kind) == name:
                return kind
        module, _, qualname = name.partition(":")
        found: Any = None
        if module.split(".")[0] == "vicinal" and qualname.isidentifier():
            found = getattr(importlib.import_module(module), qualname, None)
        if not is_plain_class(found):
            raise ValueError(f"The class {name!r} is not allowed in the state of a fit.")
        return found


def is_plain_class(kind: Any) -> bool:
    """Whether this is a dataclass or a class of named tuples."""
    if not isinstance(kind, type):
        return False
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
