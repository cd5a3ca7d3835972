"""The names that a parameter takes: the type of the constructor and the docstring say the same."""

from __future__ import annotations

import re
import typing

import pytest

import vicinal

ESTIMATORS = sorted(
    name for name in vicinal.__all__ if hasattr(getattr(vicinal, name), "get_metadata_routing")
)


def named(hint: object) -> set[str]:
    """The strings of all Literals in a type."""
    if typing.get_origin(hint) is typing.Literal:
        return {value for value in typing.get_args(hint) if isinstance(value, str)}
    return set().union(*map(named, typing.get_args(hint)))


def documented(estimator: type) -> dict[str, set[str]]:
    """The strings in the type of each parameter in the docstring of a class."""
    found = re.findall(r"^    (\w+) : (.*(?:\n        .*)*?)default=", estimator.__doc__, re.M)
    return {name: set(re.findall(r'"(\w+)"', kind)) for name, kind in found}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_types_name_what_the_docstring_names(name):
    estimator = getattr(vicinal, name)
    hints = typing.get_type_hints(estimator.__init__)
    documents = documented(estimator)
    typed = {key: named(hint) for key, hint in hints.items() if named(hint)}
    assert typed == {key: documents.get(key, set()) for key in typed}
