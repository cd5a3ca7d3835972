"""The guide for users of metric-learn names what there is, and shows measured figures."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import vicinal
from vicinal.compat import metric_learn as ml

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "migration.md"
RESULTS = ROOT / "benchmarks" / "results" / "metric_learn_migration.md"

pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="not shipped in wheels")


def tables(path):
    """The tables of a page, each a list of lines."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", path.read_text(encoding="utf-8") + "\n", re.M)
    return [block.splitlines() for block in blocks]


def test_the_measured_table_is_the_printed_one():
    assert tables(GUIDE)[-1] == tables(RESULTS)[0]


def test_every_class_is_in_both_tables():
    classes, measured = tables(GUIDE)[0], tables(GUIDE)[-1]
    first = " ".join(line.split("|")[1] for line in classes)
    assert set(ml.__all__) <= set(re.findall(r"`(\w+)`", first))
    rows = {line.split("|")[1].strip(" `") for line in measured[2:]}
    # learners from pairs are measured through their supervised forms, RCA likewise; MLKR has a
    # table of its own, of numbers
    assert rows == {
        name for name in ml.__all__ if not {name, f"{name}_Supervised"} <= set(ml.__all__)
    } - {"MLKR"}


def test_our_names_and_keywords_exist():
    for line in tables(GUIDE)[0][2:]:
        theirs, ours, keywords = (cell.strip() for cell in line.strip("|").split("|"))
        for name in re.findall(r"`(\w+)(?:`|\()", ours):
            assert hasattr(vicinal, name) or hasattr(vicinal.targets, name), line
        (name,) = re.findall(r"^`([A-Z]\w+)`$", ours) or [None]
        if name is None:
            continue
        known = set(inspect.signature(getattr(vicinal, name)).parameters)
        for keyword in re.findall(r"→ `(\w+)[`=]", keywords):
            assert keyword in known or keyword == "fit", (theirs, keyword)
