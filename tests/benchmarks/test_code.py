"""Pages name the commit of the library's code; comments, docstrings and pages do not count."""

import subprocess

import pytest
from benchmarks_common import FOLDER

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")


@pytest.fixture
def history(tmp_path):
    """A repository of one module: ``history(text)`` commits it and returns the commit."""
    module = tmp_path / "src" / "vicinal" / "module.py"
    module.parent.mkdir(parents=True)

    def git(*arguments):
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", *names, *arguments]
        done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(text):
        module.write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", "a change")
        return git("log", "-1", "--format=%h", "--abbrev=10")

    git("init", "-q")
    commit.root, commit.module = tmp_path, module
    return commit


def test_comments_and_docstrings_do_not_make_another_commit(history):
    from reproduce.framework.code import present_commit

    history("x = 1\n")
    second = history("x = 2\n")
    third = history('"""A docstring."""\nx = 2  # why\n')
    assert present_commit(history.root) == second
    data = history.root / "docs" / "results" / "data"
    data.mkdir(parents=True)
    (data / "page.csv").write_text(f"kind,commit\nrow,{third}\n")
    assert present_commit(history.root) == third, "the one that pages name already"
    history.module.write_text("x = 2  # another comment\n")
    assert present_commit(history.root) == third
    history.module.write_text("x = 3\n")
    assert present_commit(history.root) == f"{third}-dirty"
    fourth = history("x = 3\n")
    assert present_commit(history.root) == fourth


def test_without_commits_there_is_no_name(history):
    from reproduce.framework.code import present_commit

    assert present_commit(history.root) == "unknown"
