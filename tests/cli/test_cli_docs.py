"""docs/cli.md: every command and option is there, and its examples run."""

import re
import shlex
from pathlib import Path

import click
import pytest
from common.checks import needs_callbacks

pytest.importorskip("pandas")

from vicinal.cli import _group
from vicinal.cli._console import CODES, Console

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
NAMES = [name for names in _group.COMMANDS.values() for name in names]


def get(name):
    return _group.vicinal.get_command(click.Context(_group.vicinal), name)


def section(name):
    return TEXT.split(f"\n## `vicinal {name}`\n")[1].partition("\n## ")[0]


def examples(text):
    """Command lines of vicinal in a text, without pipes and what is around them."""
    for line in text.splitlines():
        for part in re.split(r"\|(?!\|)|&&", line.strip()):
            if part.strip().startswith("vicinal "):
                yield shlex.split(part.partition(">")[0].strip())[1:]


def in_blocks():
    return [words for block in re.findall(r"```bash\n(.*?)```", TEXT, re.S)
            for words in examples(block)]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_documented(name):
    shared = TEXT.partition("\n## `vicinal fit`\n")[0]
    for parameter in get(name).params:
        if isinstance(parameter, click.Option):
            longest = max(parameter.opts, key=len)
            assert re.search(rf"`[^`]*{longest}\b", section(name) + shared), longest


@pytest.mark.parametrize("name", NAMES)
def test_help_has_examples_that_parse(name):
    command = get(name)
    told = [*examples(command.sections["Examples"]), *[w for w in in_blocks() if w[0] == name]]
    assert told
    for words in told:
        inner = get(words[0])
        inner.make_context(words[0], words[1:], obj=Console())


def test_exit_codes_are_documented():
    for code in CODES:
        assert re.search(rf"^\| {code} \|", TEXT, re.M)


SLOW = ("demo", "evaluate", "embed", "report", "completion")


@needs_callbacks
def test_quick_examples_run(tmp_path, monkeypatch, run):
    """In the order of the page, with a table that is there from the start."""
    monkeypatch.chdir(tmp_path)
    table = run("datasets", "wine").stdout
    (tmp_path / "wine.csv").write_text(table)
    for words in in_blocks():
        if words[0] in SLOW or words[:2] == ["datasets", "digits"]:
            continue
        more = ["--set", "alpha=0.01"] if words[0] == "fit" else []
        run(*words, *more, stdin=table)
    assert (tmp_path / "mapped.parquet").exists()
    assert (tmp_path / "row12.png").exists()
