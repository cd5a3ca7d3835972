"""Numbers quoted in the documentation: each names its page and part, and is filled in by rendering.

A quote is written ``<!--defaults:ahead-->2.3 ± 0.3<!---->``: readers see the number alone.
``claim_1`` is the figure of a page's first line in the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from reproduce.framework.experiment import Experiment
from reproduce.framework.index import claims_of
from reproduce.framework.numbers import read
from reproduce.framework.statistics import with_minus

__all__ = ["documents", "fill_quotes"]

_QUOTE = re.compile(r"<!--([a-z][\w.-]*):(\w+)-->(.*?)<!---->", re.S)


def documents(root: Path) -> Iterator[Path]:
    """README and all pages of the documentation but the results, which are rendered whole."""
    yield root / "README.md"
    yield from (
        each for each in sorted((root / "docs").rglob("*.md")) if "results" not in each.parts
    )


def fill_quotes(text: str, experiments: Iterable[Experiment], results: Path) -> str:
    """The text with every quote as its page has it now."""
    by_name = {each.name: each for each in experiments}
    parts: dict[str, dict[str, object]] = {}

    def quoted(found: re.Match[str]) -> str:
        name, part, _ = found.groups()
        if name not in by_name:
            raise ValueError(f"a quote names the page {name!r}, which does not exist")
        if name not in parts:
            parts[name] = _parts(by_name[name], results)
        if part not in parts[name]:
            raise ValueError(f"a quote names {part!r}, which is not a part of the page {name}")
        words = with_minus(str(parts[name][part]))
        if "\n" in words:  # a table needs lines of its own
            words = f"\n\n{words}\n\n"
        return f"<!--{name}:{part}-->{words}<!---->"

    return _QUOTE.sub(quoted, text)


def _parts(experiment: Experiment, results: Path) -> dict[str, object]:
    """The parts of a page, and the figures of its claims."""
    done = read(results / "data" / f"{experiment.name}.csv").done
    found = experiment.parts(done) if done else {}
    claims = enumerate(claims_of(experiment, results), 1)
    return {**found, **{f"claim_{at}": claim.figure for at, claim in claims}}
