"""Pages in markdown: a template filled with the parts that the numbers give, and their index."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reproduce.framework.catalogue import PAPERS
from reproduce.framework.experiment import Done, Experiment
from reproduce.framework.numbers import Numbers, read, table

__all__ = ["bullets", "fill", "places", "render", "table", "write_index"]

_PLACE = re.compile(r"\{([a-z]\w*)\}")


def render(experiment: Experiment, folder: Path) -> str:
    """The page of the numbers in ``folder/data``."""
    numbers = read(folder / "data" / f"{experiment.name}.csv")
    parts = numbers.printed
    if not parts:
        parts = {**experiment.parts(numbers.done), "facts": _facts(experiment, numbers.done)}
    body = fill(experiment.page.read_text("utf-8"), parts)
    return f"# {experiment.title}\n\n{_origin(experiment, numbers)}\n\n{body}"


def places(template: str) -> list[str]:
    """The names of the parts that a template asks for."""
    return list(dict.fromkeys(_PLACE.findall(template)))


def fill(template: str, parts: dict[str, Any]) -> str:
    """The template with every ``{part}`` in its place; parts without text leave no gap."""
    text = _PLACE.sub(lambda found: _text(parts.get(found[1])), template)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def bullets(*lines: str) -> str:
    """A list in markdown."""
    return "\n".join(f"- {line}" for line in lines)


def write_index(experiments: Iterable[Experiment], folder: Path) -> None:
    """List the pages of a folder, each with its title and first sentence."""
    blocks = [
        "# Results",
        "The papers' tables and figures computed anew, and questions of our own. "
        "`python benchmarks/reproduce NAME` computes one; its numbers are in `data/NAME.csv`, from "
        "which the page is rendered, and every page names the commit of the code that gave them. "
        "`make check-results` computes a few jobs of each page again.",
    ]
    lines: dict[str, list[str]] = {}
    for each in experiments:
        path = folder / f"{each.name}.md"
        if path.exists():
            lines.setdefault(each.paper, []).append(_entry(path))
    for paper, entries in lines.items():
        blocks += [f"## {PAPERS.get(paper, 'Others')}", "\n".join(entries)]
    (folder / "README.md").write_text("\n\n".join(blocks) + "\n", "utf-8")


def _entry(path: Path) -> str:
    title, _, finding, *_ = path.read_text("utf-8").split("\n\n")
    words = " ".join(finding.replace("**", "").split())
    first = re.split(r"(?<=[a-z%)\d])\. (?=[A-Z])", words)[0].rstrip(".:")
    return f"- [{title.removeprefix('# ')}]({path.name}). {first}."


def _text(part: Any) -> str:
    return "" if part is None else str(part)


def _origin(experiment: Experiment, numbers: Numbers) -> str:
    """One line: of which commit the numbers are."""
    commits = ", ".join(f"`{commit}`" for commit in numbers.commits)
    file = f"[data/{experiment.name}.csv](data/{experiment.name}.csv)"
    if numbers.printed:
        return (
            f"*As printed at commit {commits}, before the library was rebuilt: the tables and the "
            f"sentences with numbers are in {file}, the results of single splits were not kept.*"
        )
    return f"*Computed at commit {commits} ({file}).*"


def _facts(experiment: Experiment, done: list[Done]) -> str:
    hours = sum(each.seconds for each in done) / 3600
    jobs = f"{len(done)} jobs, {hours:.2f} core hours"
    return f"`python benchmarks/reproduce {experiment.name}`, {jobs}."
