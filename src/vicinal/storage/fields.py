"""What a model file holds of an object, and how the object is made again.

That is: the fields of a named tuple or a dataclass, the attributes that another class declares
with a type in its body, and an estimator's parameters, its fitted attributes (``classes_``), and
the others that it declares.  An attribute that is nothing of these cannot be saved: whoever adds
one decides whether it belongs into files.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from functools import cache, cached_property
from types import UnionType
from typing import Any

import numpy as np

from vicinal.core.checks import need
from vicinal.storage.names import name_of

#: attributes of estimators that belong to the process, not to the model
_NOT_STORED = frozenset({"_skl_callbacks", "_sklearn_output_config", "_metadata_request"})


def is_plain_class(kind: Any) -> bool:
    """Whether this is a dataclass or a class of named tuples, and no estimator."""
    if not isinstance(kind, type) or is_estimator(kind):
        return False
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def is_estimator(kind: type) -> bool:
    """Whether a class of the table is an estimator."""
    return hasattr(kind, "get_params")


@cache
def fields_of(kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """The fields that an object in a file must have, and those that it may have besides."""
    names: set[str]
    if is_estimator(kind):
        asked = _parameters(kind)
        names = asked.keys() | _declared(kind)
        optional = {key for key in names if asked.get(key) is not inspect.Parameter.empty}
    elif issubclass(kind, tuple):
        names, optional = set(kind._fields), set(kind._field_defaults)  # type: ignore[attr-defined]
    elif dataclasses.is_dataclass(kind):
        fields, missing = [f for f in dataclasses.fields(kind) if f.init], dataclasses.MISSING
        names = {f.name for f in fields}
        optional = {f.name for f in fields if {f.default, f.default_factory} != {missing}}
    else:
        names = _declared(kind)
        optional = {name for name in names if hasattr(kind, name)}
    return frozenset(names - optional), frozenset(optional)


def _parameters(kind: type) -> dict[str, Any]:
    """The parameters of an estimator and their defaults."""
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    found = signature.parameters.items()
    return {name: p.default for name, p in found if name != "self" and p.kind in named}


def _declared(kind: type) -> set[str]:
    """The attributes whose types stand in the body of a class, or of one of its bases."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("vicinal")]
    return {
        name
        for base in ours
        if not getattr(base, "_is_protocol", False)
        for name, hint in inspect.get_annotations(base).items()
        if not str(hint).startswith("ClassVar")
    }


def unknown_fields(kind: type, names: Any) -> list[str]:
    """Names of fields that objects of a class do not have."""
    needed, more = fields_of(kind)
    fitted = {name for name in names if name.endswith("_") and not name.startswith("_")}
    return sorted(set(names) - needed - more - (fitted if is_estimator(kind) else set()))


def _is_made_again(kind: type, name: str) -> bool:
    """Whether an attribute is no part of the object: a cache, or one of the process."""
    cached = isinstance(inspect.getattr_static(kind, name, None), cached_property)
    return cached or (is_estimator(kind) and name in _NOT_STORED)


def stored_fields(value: Any) -> dict[str, Any]:
    """The fields of an object that go into a file."""
    kind: Any = type(value)
    if hasattr(value, "stored_fields"):  # a map that has parts of another library
        return value.stored_fields()
    if is_plain_class(kind):
        names = getattr(kind, "_fields", None) or [f.name for f in dataclasses.fields(kind)]
        return {key: getattr(value, key) for key in names}
    found = {key: item for key, item in vars(value).items() if not _is_made_again(kind, key)}
    unknown, missing = unknown_fields(kind, found), sorted(fields_of(kind)[0] - found.keys())
    if unknown or missing:
        raise TypeError(
            f"A model file cannot hold this {kind.__name__}: "
            f"no field for {unknown}, no value for {missing}."
        )
    # public ones first: they give shared arrays their names
    return {key: found[key] for key in sorted(found, key=lambda key: (key.startswith("_"), key))}


def made_of(kind: type, fields: dict[str, Any]) -> Any:
    """An object from its fields, whose types are compared with those that the class states."""
    if is_plain_class(kind):
        made = kind(**fields)
    else:
        made = object.__new__(kind)
        defaults = _parameters(kind) if is_estimator(kind) else {}
        made.__dict__.update(defaults | fields)
    # dataclasses with parameters check these themselves, as an estimator does in a fit
    if name_of(kind) and not is_estimator(kind) and not hasattr(kind, "__post_init__"):
        for key, hint in types_of(kind).items():
            need(key not in fields or has_type(fields[key], hint), f"{key} must be of type {hint}")
    if hasattr(made, "check_fields"):
        made.check_fields()
    return made


@cache
def types_of(kind: type) -> dict[str, Any]:
    """The types that a class states for its fields."""
    return typing.get_type_hints(kind)


def has_type(value: Any, hint: Any) -> bool:
    """Whether a value has a type, whatever is in it."""
    kind = typing.get_origin(hint) or hint
    if kind is Any:
        return True
    if kind in (UnionType, typing.Union):
        return any(has_type(value, part) for part in typing.get_args(hint))
    if kind in (int, float):
        numbers = int | np.integer if kind is int else int | np.integer | float | np.floating
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, bool | np.bool_ if kind is bool else kind)
