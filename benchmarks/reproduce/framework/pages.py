"""Pages in markdown: a template filled with the parts that the numbers give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from reproduce.framework.experiment import Done, Experiment
from reproduce.framework.numbers import Numbers, read, table
from reproduce.framework.statistics import with_minus

__all__ = ["bullets", "fill", "places", "render", "table"]

_PLACE = re.compile(r"\{([a-z]\w*)\}")


def render(experiment: Experiment, folder: Path) -> str:
    """The page of the numbers in ``folder/data``."""
    numbers = read(folder / "data" / f"{experiment.name}.csv")
    parts = {**experiment.parts(numbers.done), "facts": _facts(experiment, numbers.done)}
    body = with_minus(fill(experiment.page.read_text("utf-8"), parts))
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


def _text(part: Any) -> str:
    return "" if part is None else str(part)


def _origin(experiment: Experiment, numbers: Numbers) -> str:
    """One line: of which commit and processor the numbers are."""
    commits = ", ".join(f"`{commit}`" for commit in numbers.commits)
    file = f"[data/{experiment.name}.csv](data/{experiment.name}.csv)"
    on = " and ".join(filter(None, numbers.processors))
    where = f" on {on}" if on else ""
    return f"*Computed with the library of commit {commits}{where} ({file}).*"


def _facts(experiment: Experiment, done: list[Done]) -> str:
    hours = sum(each.seconds for each in done) / 3600
    spent = f"{hours:.2f}" if hours >= 5e-3 else "under 0.01"
    unit = "core hours" if experiment.threads else "hours on all cores"
    jobs = f"{len(done)} jobs, {spent} {unit}"
    return f"`python benchmarks/reproduce {experiment.name}`, {jobs}."
