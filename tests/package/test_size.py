"""The tool that keeps the library from growing counts what it says."""

import importlib.util
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "__init__.py": "",
    "core.py": '''
        """Two lines of documentation,
        and four of code."""

        # a comment
        def twice(x):
            """Twice a number."""
            return 2 * getattr(x, "value", x)

        LATER = "toy.late:part"
        PLAIN = "toy.late"
    ''',
    "late.py": "part = 1",
    "estimators/__init__.py": "",
    "estimators/_base.py": "from typing import Any\nclass Base: ...\nclass Deep(Base): x: Any",
    "estimators/first.py": "from toy.estimators._base import Deep as D\nclass First(D): ...",
    "estimators/second.py": (
        "from toy import core\nfrom toy.estimators._base import Base\nclass Second(Base): ..."
    ),
}
CONTRACTS = """
    [[tool.importlinter.contracts]]
    type = "layers"
    layers = ["estimators", "core | late"]
"""


@pytest.fixture(scope="module")
def size():
    spec = importlib.util.spec_from_file_location("size", ROOT / "tools" / "size.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_toy_package(size, tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    project = tmp_path / "pyproject.toml"
    project.write_text(textwrap.dedent(CONTRACTS), encoding="utf-8")
    assert size.static_figures(tmp_path / "toy", project) == {
        "lines": 10 + 1 + 3 + 2 + 3,
        "lines of code": 4 + 1 + 3 + 2 + 3,
        "files": 7,
        "files in estimators/": 4,
        "Any in estimators/ and fit/": 1,
        "getattr and hasattr in the numeric packages": 1,
        "import-linter layers": 2,
        "short files with one importer": 2,  # core by second, late by core
        "modules loaded by a string": 1,
        "own classes of an estimator, at most": 3,
        "own classes of First": 3,
        "own classes of Second": 2,
    }


def test_the_page_gets_the_table(size):
    found = {"NCA().fit, resumed": {"files": ["a.py", "b.py"], "frames": 7, "back": ["_fit"]}}
    page = size.page_with(f"before\n{size.BEGIN}old\n{size.END}after\n", found)
    head, table = page.split(size.BEGIN)
    assert (head, table.split(size.END)[1]) == ("before\n", "after\n")
    assert "\n| `NCA().fit`, resumed | 2 | 7 | 1 |\n" in table
    assert "old" not in table
    assert size.page_with(page, found) == page
