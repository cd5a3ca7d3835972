"""The plain formulas share nothing with what they are compared with."""

import ast
import sys
from pathlib import Path

import formulas
import pytest

FILES = sorted(Path(formulas.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_formulas_import_numpy_and_themselves(path):
    packages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add(node.module.partition(".")[0])
    assert packages <= {"formulas", "numpy", "scipy"} | sys.stdlib_module_names
