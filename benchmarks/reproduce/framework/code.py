"""Which code gives a result: a digest for finished jobs, and the commit that pages name.

Comments and docstrings change nothing that is computed, so neither counts.
"""

from __future__ import annotations

import ast
import csv
import functools
import subprocess
from pathlib import Path

__all__ = ["ROOT", "bare", "present_commit"]

ROOT = Path(__file__).parents[3]
LIBRARY = "src/vicinal"


@functools.cache
def bare(source: str) -> str:
    """The code of a module without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def present_commit(root: Path = ROOT) -> str:
    """A commit with the code that the library has now; ``-dirty`` if no commit has it.

    Commits of pages and scripts, comments and docstrings do not change what a fit gives.  Of the
    commits with the same code it is one that a page names already, so that all pages of one code
    name one commit; else the last that changed the code.
    """
    commits = _git(root, "log", "--format=%h", "--abbrev=10", "--", LIBRARY).split()
    if not commits:
        return "unknown"
    changed = _git(root, "diff", "--name-only", "HEAD", "--", LIBRARY).split()
    if any(_differs(root, "HEAD", None, path) for path in changed):
        return f"{commits[0]}-dirty"
    same = commits[: _last_change(root, commits) + 1]
    named = _named(root)
    return next((commit for commit in same if commit in named), same[-1])


def _last_change(root: Path, commits: list[str]) -> int:
    """The first of the commits, newest first, that changed more than comments and docstrings."""
    for at, commit in enumerate(commits):
        before = f"{commit}^"
        changed = _git(root, "diff", "--name-only", before, commit, "--", LIBRARY).split()
        if not changed or any(_differs(root, before, commit, path) for path in changed):
            return at
    return len(commits) - 1


def _named(root: Path) -> set[str]:
    """The commits that pages of results name: the second column of their numbers."""
    found = set()
    for path in (root / "docs" / "results" / "data").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            found |= {line[1] for line in csv.reader(file)}
    return found


def _differs(root: Path, before: str, after: str | None, path: str) -> bool:
    """Whether the code of a file differs between two commits; None is the working tree."""
    old = _git(root, "show", f"{before}:{path}")
    if after is None:
        new = (root / path).read_text("utf-8") if (root / path).exists() else ""
    else:
        new = _git(root, "show", f"{after}:{path}")
    if not path.endswith(".py"):
        return old != new
    return bare(old) != bare(new)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()
