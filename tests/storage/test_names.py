"""Stable names: they never change, and every class behind them can be made and read."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect

import pytest

from vicinal.core.coding import is_plain_class
from vicinal.storage.fields import allowed_fields, is_estimator
from vicinal.storage.names import HOMES, class_of, name_of


def test_names_lead_to_classes_and_back():
    for name in HOMES:
        assert name_of(class_of(name)) == name


def test_names_are_never_removed():
    """Whoever moves code changes where a name leads; whoever removes a name breaks old files."""
    old = sorted(name for name in HOMES if name not in ADDED_LATER)
    assert hashlib.sha256(" ".join(old).encode()).hexdigest()[:16] == "8712bcfe5c16c4ba"


ADDED_LATER: set[str] = set()


@pytest.mark.parametrize("name", ["os:system", "NCA2", "", "builtins:eval", None, 3, "fit."])
def test_other_classes_are_refused(name):
    with pytest.raises(ValueError, match="is not a class that a model file may hold"):
        class_of(name)


def test_every_public_part_is_in_the_table():
    """A solver, sampler, kernel, start, map or neighbourhood that can be named can be saved."""
    from vicinal import densities, initialise, maps, neighborhoods, samplers, solvers

    protocols = {"FirstMap", "Scatter", "Start", "BinStart", "GivenBins", "Positions", "LeftOut",
                 "Iteration"}  # fmt: skip
    for module in (densities, initialise, maps, neighborhoods, samplers, solvers):
        for public in module.__all__:
            part = getattr(module, public)
            if inspect.isclass(part) and is_plain_class(part) and public not in protocols:
                assert name_of(part) is not None, part


def test_every_class_has_a_list_of_fields():
    for name in HOMES:
        kind = class_of(name)
        needed, more = allowed_fields(name, kind)
        assert needed or more or (dataclasses.is_dataclass(kind) and not dataclasses.fields(kind))
        assert not needed & more
        if is_estimator(kind):
            assert "_map" in more
