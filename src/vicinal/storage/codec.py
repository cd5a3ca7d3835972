"""Objects as JSON and arrays, and back, without pickle: by stable names, checked when decoded."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.checks import count, lists, need
from vicinal.core.types import Array
from vicinal.storage.container import DTYPES
from vicinal.storage.fields import fields_of, has_type, made_of, stored_fields, unknown_fields
from vicinal.storage.names import class_of, name_of

_DEEPEST = 64  # levels of nested values
_LONGEST = 10**7  # numbers in a list
_INLINE = 8  # numbers, at most, of a list that stands in the header
_MANY = 256  # strings, from which on they are stored as bytes
_CHARACTERS = 2**26  # in all arrays of strings together
_TABLES = 16  # sparse ones
_COLUMNS = 2**31 - 1  # of a sparse table
_DATES = re.compile(r"[<>=]?[mM]8(\[\d{0,9}[A-Za-z]{1,2}\])?")
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_SCALARS = ("float32", "float64")
_SPARSE = {name: getattr(sp, name) for name in ("csr_matrix", "csr_array")}
#: what a coded value consists of, by the key that says its kind
_KEYS: dict[str, set[str]] = {
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


class Encoder:
    """Encodes values as JSON, with their arrays next to it.

    Parameters
    ----------
    arrays : dict, default=None
        Where arrays are put, by their names.
    classes : tuple of types, default=()
        Named tuples and dataclasses from outside vicinal that may be encoded.
    """

    def __init__(
        self, arrays: dict[str, Array] | None = None, classes: tuple[type, ...] = ()
    ) -> None:
        self.arrays: dict[str, Array] = {} if arrays is None else arrays
        self._classes = {kind: name for name, kind in _by_name(classes).items()}
        self._names: dict[int, str] = {}  # of arrays that have been encoded
        self._kept: list[Any] = []  # so that no other array gets the address of one of them
        self._owners: dict[str, str] = {}

    def encode(self, value: Any, name: str) -> Any:
        """A value as JSON; arrays go into ``arrays`` under names that begin with ``name``."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic):
            return self._put(np.asarray(value), name)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                raise TypeError(
                    f"{self._place(name)} must fit into 64 bits. Got {value!r} instead."
                )
            return value
        if isinstance(value, np.ndarray):
            return self._array(value, name)
        if isinstance(value, dict):
            return self._dict(value, name)
        stable = name_of(type(value)) or self._classes.get(type(value))
        if stable is not None:
            self._owners[name] = type(value).__name__
            fields = stored_fields(value).items()
            return {
                "class": stable,
                "fields": {k: self.encode(v, f"{name}.{k}") for k, v in fields},
            }
        if type(value) in (list, tuple):
            of_tuple = isinstance(value, tuple)
            if _is_array(value):
                return {"numbers": self._put(np.asarray(value), name)["array"], "tuple": of_tuple}
            return {"list": self._all(value, name), "tuple": of_tuple}
        return self._other(value, name)

    def _all(self, values: Any, name: str) -> list[Any]:
        return [self.encode(value, f"{name}.{i}") for i, value in enumerate(values)]

    def _put(self, array: Array, name: str, **more: Any) -> dict[str, Any]:
        """Store an array, once if it is met several times; say under which name."""
        known = self._names.get(id(array))
        if known is None:
            known, number = name, 2
            while known in self.arrays:
                known, number = f"{name}#{number}", number + 1
            self.arrays[known] = array
            self._names[id(array)] = known
            self._kept.append(array)
        return {"array": known, **more}

    def _dict(self, value: dict[Any, Any], name: str) -> Any:
        if all(isinstance(key, str) for key in value):
            return {"dict": {k: self.encode(v, f"{name}.{k}") for k, v in value.items()}}
        pairs = [
            [self.encode(k, f"{name}.{i}.key"), self.encode(v, f"{name}.{i}")]
            for i, (k, v) in enumerate(value.items())
        ]
        return {"pairs": pairs}

    def _array(self, array: Array, name: str) -> Any:
        """An array of numbers, dates, strings or plain objects."""
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{self._place(name)} is a masked array: not in a model file.")
        if type(array) is not np.ndarray:
            array = np.asarray(array)
        kind, shape = array.dtype.kind, list(array.shape)
        if kind in "mM":
            view = np.ascontiguousarray(array).view(np.int64)
            return self._put(view, name, view=array.dtype.str)
        if kind == "U":
            dtype = array.dtype.newbyteorder("=").name
            return {**self._strings(array.ravel().tolist(), name), "shape": shape, "dtype": dtype}
        if kind == "O":
            return {"objects": self._all(array.ravel().tolist(), name), "shape": shape}
        if array.dtype.newbyteorder("=") not in DTYPES:
            raise TypeError(f"{self._place(name)} has dtype {array.dtype}: not in a model file.")
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        return self._put(array, name, order="F") if by_columns else self._put(array, name)

    def _strings(self, texts: list[str], name: str) -> dict[str, Any]:
        if len(texts) <= _MANY:
            return {"strings": texts}
        parts = [text.encode("utf-8") for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        whole = np.frombuffer(b"".join(parts), np.uint8)
        return {
            "utf8": self._put(whole, name)["array"],
            "ends": self._put(ends, f"{name}.ends")["array"],
        }

    def _other(self, value: Any, name: str) -> Any:
        if isinstance(value, bytes):
            return {"bytes": self._put(np.frombuffer(value, np.uint8), name)["array"]}
        if isinstance(value, np.dtype) and value.name in _SCALARS:
            return {"dtype": value.name}
        if isinstance(value, type) and value in (np.float32, np.float64):
            return {"type": np.dtype(value).name}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.encode(value.get_state(), name)}
        if sp.issparse(value):
            kind = type(value).__name__
            if kind not in _SPARSE:
                value, kind = sp.csr_array(value), "csr_array"
            parts = {
                part: self._array(getattr(value, part), f"{name}.{part}")
                for part in ("data", "indices", "indptr")
            }
            return {"sparse": kind, "shape": [int(n) for n in value.shape], **parts}
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


class Decoder:
    """Inverts `Encoder`, and checks everything: an error is a ValueError or another exception.

    Parameters
    ----------
    arrays : dict
        By their names.
    module : torch.nn.Module, default=None
        The module of a `TorchMap` that is decoded.
    classes : tuple of types, default=()
        As those of `Encoder`.
    """

    def __init__(
        self, arrays: Mapping[str, Array], module: Any = None, classes: tuple[type, ...] = ()
    ) -> None:
        self._arrays, self._module, self._used_module = arrays, module, False
        self._classes = _by_name(classes)
        self._depth = 0
        self._used: set[str] = set()
        self._copied: set[str] = set()
        self._characters = 0  # of arrays of strings
        self._tables: dict[Any, Any] = {}  # sparse ones that have been decoded
        self._in_columns: dict[str, Array] = {}

    def decode(self, value: Any) -> Any:
        """The value that was encoded."""
        need(not isinstance(value, list), "A list must be stored as {'list': [...], 'tuple': ...}.")
        if not isinstance(value, dict):
            return value
        kind = next(iter(value), "")  # the first key says what a value is
        need(kind in _KEYS, f"unknown kind of value: {sorted(value)[:5]}")
        need(value.keys() - {kind} <= _KEYS[kind], f"unknown keys in {sorted(value)[:6]}")
        need(self._depth < _DEEPEST, f"Values must be nested at most {_DEEPEST} deep.")
        self._depth += 1
        try:
            return getattr(self, f"_{kind}")(value[kind], value)
        finally:
            self._depth -= 1

    def check_all_used(self) -> None:
        """Refuse arrays that nothing refers to, and a module that nothing needs."""
        unused = self._module is not None and not self._used_module
        need(not unused, "it holds no TorchMap: 'module' must be None")
        extra = sorted(self._arrays.keys() - self._used)
        need(not extra, f"arrays that nothing refers to: {extra[:5]}")

    def _stored(self, name: Any) -> Array:
        need(isinstance(name, str) and name in self._arrays, f"no array {str(name)[:60]!r}")
        self._used.add(name)
        return self._arrays[name]

    def _copied_once(self, name: Any) -> Array:
        """An array for a copy; a second one is refused: a small file could fill the memory."""
        array = self._stored(name)
        need(name not in self._copied, f"The array {name!r} is used for two lists.")
        self._copied.add(name)
        return array

    # one method for each kind of value: its first entry, and all of them

    def _array(self, name: Any, value: dict[str, Any]) -> Any:
        array = self._stored(name)
        if "view" in value:
            dates = isinstance(value["view"], str) and _DATES.fullmatch(value["view"])
            need(dates and array.dtype == np.int64, "dates must be int64")
            return array.view(np.dtype(value["view"]))
        if "order" in value:
            need(value["order"] == "F", "the order of an array must be F")
            if name not in self._in_columns:  # once, or a small file could fill the memory
                self._in_columns[name] = np.asfortranarray(array)
            array = self._in_columns[name]
        return array[()] if array.ndim == 0 else array

    def _float(self, text: Any, value: dict[str, Any]) -> float:
        return _FLOATS[text]

    def _numbers(self, name: Any, value: dict[str, Any]) -> Any:
        array = self._copied_once(name)  # the list takes several times the memory of the array
        need(
            array.size <= _LONGEST,
            f"A list must have at most {_LONGEST} numbers. Got {array.size}.",
        )
        return tuple(array.tolist()) if value["tuple"] else array.tolist()

    def _dict(self, items: Any, value: dict[str, Any]) -> Any:
        return {key: self.decode(item) for key, item in items.items()}

    def _pairs(self, pairs: Any, value: dict[str, Any]) -> Any:
        return {self.decode(key): self.decode(item) for key, item in pairs}

    def _list(self, items: Any, value: dict[str, Any]) -> Any:
        found = [self.decode(item) for item in items]
        return tuple(found) if value["tuple"] else found

    def _class(self, name: Any, value: dict[str, Any]) -> Any:
        fields = {key: self.decode(item) for key, item in value["fields"].items()}
        kind = self._classes.get(name) or class_of(name)
        if hasattr(kind, "from_stored_fields"):
            self._used_module = True
            return kind.from_stored_fields(fields, self._module)
        missing, unknown = fields_of(kind)[0] - fields.keys(), unknown_fields(kind, fields)
        need(not missing, f"{name} lacks {sorted(missing)[:5]}")
        need(not unknown, f"{name} has no field {unknown[:5]}")
        try:
            return made_of(kind, fields)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def _strings(self, texts: Any, value: dict[str, Any]) -> Array:
        need(isinstance(texts, list) and all(isinstance(t, str) for t in texts), "strings")
        shape, dtype = _shape(value["shape"]), str(value["dtype"])
        bits = dtype.removeprefix("str")
        known = dtype.startswith("str") and bits.isdecimal() and len(bits) <= 10
        need(known, f"unknown dtype {dtype[:20]!r}")
        length = int(bits) // 32  # the room that each entry has
        self._characters += length * len(texts)
        need(self._characters <= _CHARACTERS, "strings take too much memory")
        need(all(len(text) <= length for text in texts), "a string is longer than its array allows")
        return np.array(texts, dtype=f"U{length}").reshape(shape)

    def _utf8(self, name: Any, value: dict[str, Any]) -> Array:
        whole, ends = self._copied_once(name), self._stored(value["ends"])
        need(whole.dtype == np.uint8 and ends.dtype == np.int64, "strings are UTF-8 bytes")
        need(whole.ndim == ends.ndim == 1, "strings have one axis")
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        need(np.all(ends >= starts) and np.all(starts >= 0), "strings overlap")
        need(len(whole) == (ends[-1] if len(ends) else 0), "strings do not fill their bytes")
        text = whole.tobytes()
        texts = [text[a:b].decode("utf-8") for a, b in zip(starts, ends, strict=True)]
        return self._strings(texts, value)

    def _objects(self, items: Any, value: dict[str, Any]) -> Array:
        found = np.empty(len(items), dtype=object)
        found[:] = [self.decode(item) for item in items]
        plain = all(v is None or isinstance(v, bool | int | float | str) for v in found)
        need(plain, "an array of objects may hold numbers, strings and None alone")
        return found.reshape(_shape(value["shape"]))

    def _bytes(self, name: Any, value: dict[str, Any]) -> bytes:
        return self._copied_once(name).tobytes()

    def _dtype(self, name: Any, value: dict[str, Any]) -> Any:
        need(name in _SCALARS, f"unknown dtype {str(name)[:20]!r}")
        return np.dtype(name)

    def _type(self, name: Any, value: dict[str, Any]) -> Any:
        return self._dtype(name, value).type

    def _random_state(self, coded: Any, value: dict[str, Any]) -> Any:
        state = self.decode(coded)
        _check_random_state(state)
        rng = np.random.RandomState()
        rng.set_state(state)
        return rng

    def _sparse(self, kind: Any, value: dict[str, Any]) -> Any:
        data, columns, indptr = (self.decode(value[k]) for k in ("data", "indices", "indptr"))
        shape = _shape(value["shape"])
        key = (kind, shape, id(data), id(columns), id(indptr))
        if key not in self._tables:
            need(len(self._tables) < _TABLES, "there are too many sparse tables")
            need(len(shape) == 2 and shape[1] <= _COLUMNS, "a sparse table has two axes")
            numbers = type(data) is np.ndarray and data.ndim == 1 and data.dtype.kind in "fiub"
            need(numbers, "the entries of a sparse table must be numbers")
            need(data.dtype.kind != "f" or np.isfinite(data).all(), "entries must be finite")
            lists(indptr, columns, *shape)
            need(len(data) == len(columns), "a sparse table has as many entries as columns")
            self._tables[key] = _SPARSE[kind]((data, columns, indptr), shape=shape)
        return self._tables[key]


def encode(value: Any, name: str, arrays: dict[str, Array], classes: tuple[type, ...] = ()) -> Any:
    """See `Encoder`."""
    return Encoder(arrays, classes).encode(value, name)


def decode(
    value: Any, arrays: Mapping[str, Array], module: Any = None, classes: tuple[type, ...] = ()
) -> Any:
    """See `Decoder`."""
    return Decoder(arrays, module, classes).decode(value)


def _by_name(classes: tuple[type, ...]) -> dict[str, type]:
    """Classes from outside vicinal, by names that no class of the table has."""
    return {f"{kind.__module__}:{kind.__qualname__}": kind for kind in classes}


def _is_array(values: Any) -> bool:
    """Whether a list is stored as one array."""
    kinds = {type(v) for v in values}
    if not kinds or (len(values) <= _INLINE and kinds <= {int, float}):
        return False
    return kinds <= {float, np.float64} or kinds <= {bool} or (
        kinds <= {int, np.int64} and all(-(2**63) <= v < 2**63 for v in values)
    )  # fmt: skip


def _check_random_state(state: Any) -> None:
    """Refuse a state that would make the generator read outside its array."""
    whole = isinstance(state, tuple) and len(state) == 5 and state[0] == "MT19937"
    need(whole, "the state of a random generator must be that of MT19937")
    _, key, position, has_gauss, cached = state
    need(type(key) is np.ndarray and key.dtype == np.uint32 and key.shape == (624,), "MT19937")
    count(position, "the position of MT19937", 0, 624)
    count(has_gauss, "the flag of MT19937", 0, 1)
    need(has_type(cached, float), "the cached number of MT19937")


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
