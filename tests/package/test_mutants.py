"""Mistakes in the source are found by the tests: in `make test-long` alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "tools" / "mutants.py"
_SPEC = importlib.util.spec_from_file_location("mutants", _PATH)
mutants = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(mutants)


pytestmark = pytest.mark.long


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=lambda mutant: mutant.name)
def test_mistakes_are_found(mutant, tmp_path):
    assert mutants.run(mutant, tmp_path) == "killed"


def test_mistakes_can_be_made():
    """Texts to be replaced are there, once: else a mutant would be stale."""
    source = Path(__file__).parents[2] / "src" / "vicinal"
    for mutant in mutants.MUTANTS:
        text = (source / mutant.file).read_text()
        assert text.count(mutant.old) >= 1, mutant.name
    assert len({mutant.name for mutant in mutants.MUTANTS}) == len(mutants.MUTANTS)
