"""Stable names: they never change, and every class behind them can be made and read."""

from __future__ import annotations

import hashlib
import inspect

import pytest

from vicinal.storage.fields import fields_of, is_estimator, is_plain_class, types_of
from vicinal.storage.names import HOMES, class_of, name_of


def test_names_lead_to_classes_and_back():
    for name in HOMES:
        assert name_of(class_of(name)) == name


def test_names_are_never_removed():
    """Whoever moves code changes where a name leads; whoever removes a name breaks old files."""
    old = sorted(name for name in HOMES if name not in ADDED_LATER)
    assert hashlib.sha256(" ".join(old).encode()).hexdigest()[:16] == "a392796f6477d6ef"


ADDED_LATER: set[str] = {
    "MetricVote",
    "MetricVoteRegressor",
    "map.Bins",
    "fitted.FittedMaps",
    "rows.Bend",
    "model.VoteModel",
    "model.VoteRegressionModel",
    "model.Ballots",
    "model.Elsewhere",
}


@pytest.mark.parametrize("name", ["os:system", "NCA2", "", "builtins:eval", None, 3, "fit."])
def test_other_classes_are_refused(name):
    with pytest.raises(ValueError, match="is not a class that a model file may hold"):
        class_of(name)


def test_every_public_part_is_in_the_table():
    """A solver, sampler, kernel, start, map or neighbourhood that can be named can be saved."""
    from vicinal import densities, maps, neighborhoods, samplers, solvers, starts

    protocols = {"FirstMap", "Scatter", "Start", "BinStart", "GivenBins", "Positions", "LeftOut",
                 "Iteration"}  # fmt: skip
    for module in (densities, starts, maps, neighborhoods, samplers, solvers):
        for public in module.__all__:
            part = getattr(module, public)
            if inspect.isclass(part) and is_plain_class(part) and public not in protocols:
                assert name_of(part) is not None, part


def test_every_class_says_what_its_fields_are():
    for name in HOMES:
        kind = class_of(name)
        needed, more = fields_of(kind)
        assert needed | more or is_plain_class(kind)
        assert not needed & more
        if is_estimator(kind):
            assert "_map" in more
        else:
            assert needed <= types_of(kind).keys() or hasattr(kind, "stored_fields"), name
