"""Objects as JSON and arrays: by stable names, and with a check of all that is decoded."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.coding import Coding
from vicinal.core.types import Array
from vicinal.storage.checks import check_random_state, check_sparse, need
from vicinal.storage.container import DTYPES
from vicinal.storage.fields import allowed_fields, is_estimator, parameters_of, stored_fields
from vicinal.storage.fit_checks import check_estimator, check_object
from vicinal.storage.names import class_of, name_of

_INLINE = 8  # numbers, at most, of a list that stands in the header
_MANY = 256  # strings, from which on they are stored as bytes
_CHARACTERS = 2**26  # in all arrays of strings together
_TABLES = 16  # sparse ones
_DATES = re.compile(r"[<>=]?[mM]8(\[\d{0,9}[A-Za-z]{1,2}\])?")
_SCALARS = ("float32", "float64")
_SPARSE = {name: getattr(sp, name) for name in ("csr_matrix", "csr_array")}
#: what a coded value consists of, by the key that says its kind
_KEYS = {
    "array": {"order", "view"},
    "float": set(),
    "numbers": {"tuple"},
    "dict": set(),
    "pairs": set(),
    "list": {"tuple"},
    "class": {"fields"},
    "strings": {"shape", "dtype"},
    "utf8": {"ends", "shape", "dtype"},
    "objects": {"shape"},
    "bytes": set(),
    "dtype": set(),
    "type": set(),
    "random_state": set(),
    "sparse": {"shape", "data", "indices", "indptr"},
}


def encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A value as JSON; arrays go into ``arrays`` under names that begin with ``name``."""
    return ModelCoding(arrays).encode(value, name)


def decode(value: Any, arrays: Mapping[str, Array], module: Any = None) -> Any:
    """Invert `encode`, and check everything: an error is a ValueError or another exception."""
    return ModelCoding(arrays, module).decode(value)


class ModelCoding(Coding):
    """As `Coding`, with classes by their stable names, and more kinds of values.

    Parameters
    ----------
    arrays : dict, default=None
        Where arrays are put, and taken from, by their names.
    module : torch.nn.Module, default=None
        The module of a `TorchMap` that is decoded.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None, module: Any = None) -> None:
        super().__init__(arrays)
        self.module, self.used_module = module, False
        self._owners: dict[str, str] = {}
        self._used: set[str] = set()
        self._characters = 0  # of arrays of strings
        self._tables: dict[Any, Any] = {}  # sparse ones that have been decoded
        self._in_columns: dict[str, Array] = {}

    # to JSON

    def fields_of(self, value: Any, name: str) -> tuple[str, dict[str, Any]] | None:
        kind = type(value)
        stable = name_of(kind)
        if stable is None:
            if isinstance(value, list | tuple) and kind in (list, tuple):
                return None
            self._refuse_unknown(value, name)
            return None
        self._owners[name] = kind.__name__
        if hasattr(value, "stored_fields"):  # a map that has parts of another library
            return stable, value.stored_fields()
        return stable, stored_fields(stable, value)

    def _refuse_unknown(self, value: Any, name: str) -> None:
        """Refuse what `encode_other` does not know."""
        known = np.dtype | bytes | np.random.RandomState
        if isinstance(value, known) or sp.issparse(value) or _is_number_type(value):
            return
        raise TypeError(
            f"{self._place(name)} is {_a(value)}, which a model file cannot hold. Set it to a "
            "value that is made of vicinal's parts, numbers and names before saving, or use "
            "joblib.dump, whose files run code when they are loaded."
        )

    def _place(self, name: str) -> str:
        """Where a value was found, in words."""
        parts = name.split(".")
        for end in range(len(parts) - 1, 0, -1):
            owner = self._owners.get(".".join(parts[:end]))
            if owner is not None:
                return f"The {parts[end]!r} parameter of {owner}"
        return f"{name!r}"

    def encode(self, value: Any, name: str) -> Any:
        if type(value) is int and not -(2**63) <= value < 2**64:
            raise TypeError(f"{self._place(name)} must fit into 64 bits. Got {value!r} instead.")
        if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
            items = enumerate(value.items())
            return {"pairs": [[self.encode(k, f"{name}.{i}.key"), self.encode(v, f"{name}.{i}")]
                              for i, (k, v) in items]}  # fmt: skip
        return super().encode(value, name)

    def are_numbers(self, values: Any) -> bool:
        kinds = {type(v) for v in values}
        if len(values) <= _INLINE and kinds <= {int, float}:
            return False
        return kinds <= {float, np.float64} or kinds <= {bool} or (
            kinds <= {int, np.int64} and all(-(2**63) <= v < 2**63 for v in values)
        )  # fmt: skip

    def encode_array(self, array: Array, name: str) -> Any:
        if type(array) is not np.ndarray:
            array = self._only_array(array, name)
        kind, shape = array.dtype.kind, list(array.shape)
        if kind in "mM":
            view = np.ascontiguousarray(array).view(np.int64)
            return {"array": self.put(view, name), "view": array.dtype.str}
        if kind == "U":
            return {**self._strings(array.ravel().tolist(), name), "shape": shape,
                    "dtype": array.dtype.newbyteorder("=").name}  # fmt: skip
        if kind == "O":
            items = [self.encode(v, f"{name}.{i}") for i, v in enumerate(array.ravel().tolist())]
            return {"objects": items, "shape": shape}
        if array.dtype.newbyteorder("=") not in DTYPES:
            raise TypeError(f"{self._place(name)} has dtype {array.dtype}: not in a model file.")
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            return {"array": self.put(array, name), "order": "F"}
        return {"array": self.put(array, name)}

    def _only_array(self, array: Array, name: str) -> Array:
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{self._place(name)} is a masked array: not in a model file.")
        return np.asarray(array)

    def _strings(self, texts: list[str], name: str) -> dict[str, Any]:
        if len(texts) <= _MANY:
            return {"strings": texts}
        parts = [text.encode("utf-8") for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        whole = np.frombuffer(b"".join(parts), np.uint8)
        return {"utf8": self.put(whole, name), "ends": self.put(ends, f"{name}.ends")}

    def encode_other(self, value: Any, name: str) -> Any:
        if isinstance(value, bytes):
            return {"bytes": self.put(np.frombuffer(value, np.uint8), name)}
        if isinstance(value, np.dtype) and value.name in _SCALARS:
            return {"dtype": value.name}
        if _is_number_type(value):
            return {"type": np.dtype(value).name}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.encode(value.get_state(), name)}
        if sp.issparse(value):
            kind = type(value).__name__
            if kind not in _SPARSE:
                value, kind = sp.csr_array(value), "csr_array"
            parts = {k: self.encode_array(getattr(value, k), f"{name}.{k}")
                     for k in ("data", "indices", "indptr")}  # fmt: skip
            return {"sparse": kind, "shape": [int(n) for n in value.shape], **parts}
        return super().encode_other(value, name)

    # from JSON

    def _decoded(self, value: dict[str, Any]) -> Any:
        kind = next(iter(value), "")  # the first key says what a value is
        need(kind in _KEYS, f"unknown kind of value: {sorted(value)[:5]}")
        need(value.keys() - {kind} <= _KEYS[kind], f"unknown keys in {sorted(value)[:6]}")
        return super()._decoded(value) if kind in _OF_CODING else self.decode_other(value)

    def array(self, name: str) -> Array:
        need(isinstance(name, str) and name in self.arrays, f"no array {str(name)[:60]!r}")
        self._used.add(name)
        return self.arrays[name]

    def check_all_used(self) -> None:
        """Refuse arrays that nothing refers to, and a module that nothing needs."""
        need(self.module is None or self.used_module, "it holds no TorchMap: 'module' must be None")
        extra = sorted(self.arrays.keys() - self._used)
        need(not extra, f"arrays that nothing refers to: {extra[:5]}")

    def make(self, name: str, fields: dict[str, Any]) -> Any:
        kind = class_of(name)
        needed, more = allowed_fields(name, kind)
        need(needed <= fields.keys(), f"{name} lacks {sorted(needed - fields.keys())[:5]}")
        unknown = fields.keys() - needed - more
        need(not unknown, f"{name} has no field {sorted(unknown)[:5]}")
        if hasattr(kind, "from_stored_fields"):
            made = kind.from_stored_fields(fields, self.module)
            self.used_module = True
        elif is_estimator(kind):
            made = object.__new__(kind)
            defaults = {k: v for k, v in parameters_of(kind).items() if k not in fields}
            made.__dict__.update(defaults | fields)
            check_estimator(made)
        elif isinstance(getattr(kind, "_fields", None), tuple) or hasattr(
            kind, "__dataclass_fields__"
        ):
            made = kind(**fields)
        else:
            made = object.__new__(kind)
            made.__dict__.update(fields)
        check_object(name, made)
        return made

    def decode_other(self, value: dict[str, Any]) -> Any:
        if "array" in value:
            return self._special_array(value)
        if "pairs" in value:
            return {self.decode(k): self.decode(v) for k, v in value["pairs"]}
        if "strings" in value or "utf8" in value:
            return self._string_array(value)
        if "objects" in value:
            items = [self.decode(v) for v in value["objects"]]
            plain = all(v is None or isinstance(v, bool | int | float | str) for v in items)
            need(plain, "an array of objects may hold numbers, strings and None alone")
            found = np.empty(len(items), dtype=object)
            found[:] = items
            return found.reshape(_shape(value["shape"]))
        if "bytes" in value:
            self.copy_once(value["bytes"])
            return self.array(value["bytes"]).tobytes()
        if "dtype" in value or "type" in value:
            name = value.get("dtype", value.get("type"))
            need(name in _SCALARS, f"unknown dtype {str(name)[:20]!r}")
            return np.dtype(name) if "dtype" in value else np.dtype(name).type
        if "random_state" in value:
            state = self.decode(value["random_state"])
            check_random_state(state)
            rng = np.random.RandomState()
            rng.set_state(state)
            return rng
        data, indices, indptr = (self.decode(value[k]) for k in ("data", "indices", "indptr"))
        shape, kind = _shape(value["shape"]), value["sparse"]
        key = (kind, shape, id(data), id(indices), id(indptr))
        if key not in self._tables:
            need(len(self._tables) < _TABLES, "there are too many sparse tables")
            check_sparse(data, indices, indptr, shape)
            self._tables[key] = _SPARSE[kind]((data, indices, indptr), shape=shape)
        return self._tables[key]

    def _special_array(self, value: dict[str, Any]) -> Array:
        """An array of dates, one in Fortran's order, or a plain one."""
        name = value["array"]
        array = self.array(name)
        if "view" in value:
            dates = isinstance(value["view"], str) and _DATES.fullmatch(value["view"])
            need(bool(dates) and array.dtype == np.int64, "dates must be int64")
            return array.view(np.dtype(value["view"]))
        if "order" in value:
            need(value["order"] == "F", "the order of an array must be F")
            if name not in self._in_columns:  # once, or a small file could fill the memory
                self._in_columns[name] = np.asfortranarray(array)
            array = self._in_columns[name]
        return array[()] if array.ndim == 0 else array

    def _string_array(self, value: dict[str, Any]) -> Array:
        shape, dtype = _shape(value["shape"]), str(value["dtype"])
        texts = value["strings"] if "strings" in value else self._texts(value)
        need(isinstance(texts, list) and all(isinstance(t, str) for t in texts), "strings")
        bits = dtype.removeprefix("str")
        known = dtype.startswith("str") and bits.isdecimal() and len(bits) <= 10
        need(known, f"unknown dtype {dtype[:20]!r}")
        length = int(bits) // 32  # the room that each entry has
        self._characters += length * len(texts)
        need(self._characters <= _CHARACTERS, "strings take too much memory")
        need(all(len(text) <= length for text in texts), "a string is longer than its array allows")
        return np.array(texts, dtype=f"U{length}").reshape(shape)

    def _texts(self, value: dict[str, Any]) -> list[str]:
        self.copy_once(value["utf8"])
        whole, ends = self.array(value["utf8"]), self.array(value["ends"])
        need(whole.dtype == np.uint8 and ends.dtype == np.int64, "strings are UTF-8 bytes")
        need(whole.ndim == ends.ndim == 1, "strings have one axis")
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        need(bool(np.all(ends >= starts)) and bool(np.all(starts >= 0)), "strings overlap")
        need(len(whole) == (ends[-1] if len(ends) else 0), "strings do not fill their bytes")
        text = whole.tobytes()
        return [text[a:b].decode("utf-8") for a, b in zip(starts, ends, strict=True)]


_OF_CODING = ("float", "numbers", "dict", "list", "class")


def _is_number_type(value: Any) -> bool:
    return isinstance(value, type) and value in (np.float32, np.float64)


def _shape(shape: Any) -> tuple[int, ...]:
    """A shape, checked."""
    whole = isinstance(shape, list) and 1 <= len(shape) <= 4
    need(whole and all(type(n) is int and 0 <= n < 2**40 for n in shape), "not a shape")
    need(math.prod(shape) < 2**62, "a shape is too large")
    return tuple(shape)


def _a(value: Any) -> str:
    """What a value is, in words."""
    if callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
        return f"the function {value.__name__!r}"
    return f"an object of class {type(value).__name__}"
