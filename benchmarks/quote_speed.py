"""The tables that the documentation quotes from the reports of speed, written anew.

    python benchmarks/quote_speed.py      # after a report has changed; all_speed.py does it too

A quoted table stands between ``<!-- from REPORT -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from _idle import BUSY
from reproduce.framework.numbers import cells, table

__all__ = ["QUOTES", "quoted", "with_quote", "write_quotes"]

ROOT = Path(__file__).parents[1]
RESULTS = "benchmarks/results"
NOT_YET = "*To be measured on an idle machine.*"


def rows_of_table(report: str, at: int = 0) -> list[list[str]]:
    """The cells of a table of a report, header first, without the line beneath it."""
    blocks = re.findall(r"(?:^\|.*\|\n?)+", report, re.M)
    lines = [cells(line) for line in blocks[at].splitlines()]
    return [lines[0], *lines[2:]]


def pieces_of_work(report: str) -> list[list[list[str]]]:
    """The rows of each piece of work; the first of them is vicinal's."""
    found: list[list[list[str]]] = []
    for row in rows_of_table(report)[1:]:
        if row[0]:
            found.append([])
        found[-1].append(row)
    return found


def fastest(report: str) -> str:
    """For the first work of each method, the fastest library that has the same method."""
    shown: dict[str, str] = {}
    for ours, *rest in pieces_of_work(report):
        # lines of vicinal, and of other methods, name more than a library
        peers = [row for row in rest if row[4].endswith("×") and not _another(row[2])]
        if peers and ours[0] not in shown:
            least = min(peers, key=lambda row: float(row[4][:-1]))
            shown[ours[0]] = f"{least[4]} ({least[2]})"
    return table(shown, [shown.values()])


def _another(library: str) -> bool:
    return library.startswith(("vicinal", "NCA", "scikit-learn,"))


def methods(report: str) -> str:
    """One line for each piece of work: vicinal's seconds and memory, then those of the others."""
    lines = []
    for ours, *others in pieces_of_work(report):
        shown = [ours[0], ours[1], f"{ours[3]}, {ours[6]}", "; ".join(map(_other, others)) or "–"]
        lines.append(shown)
    header = ["method", "work", "vicinal: time, memory", "others: time (times vicinal's), memory"]
    return table(header, lines)


def _other(row: list[str]) -> str:
    if row[4] == "–":  # it did not end
        return f"{row[2]}: {row[3]}"
    return f"{row[2]}: {row[3]} ({row[4]}), {row[6]}"


def migration(report: str) -> str:
    """The first table: all sets together."""
    header, *rows = rows_of_table(report)
    return table(header, rows)


#: page: the report that it quotes, and what it takes from there
QUOTES: dict[str, tuple[str, Callable[[str], str]]] = {
    "README.md": ("methods_speed.md", fastest),
    "docs/comparison.md": ("methods_speed.md", methods),
    "docs/migration.md": ("metric_learn_migration.md", migration),
}


def quoted(page: str, root: Path = ROOT) -> str:
    """The table that a page is to quote; figures of a busy machine are not quoted."""
    name, take = QUOTES[page]
    report = (root / RESULTS / name).read_text("utf-8")
    load = re.search(r"other programs kept (\d+\.\d+) of", report)
    return NOT_YET if load and float(load[1]) >= BUSY else take(report)


def with_quote(text: str, report: str, quote: str) -> str:
    """The text of a page with another table between the marks."""
    begin = f"<!-- from {RESULTS}/{report} -->"
    before, mark, rest = text.partition(begin)
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise ValueError(f"The page must have '{begin}' and '<!-- end -->'.")
    return f"{before}{begin}\n\n{quote.strip()}\n\n{end}{after}"


def write_quotes(root: Path = ROOT) -> list[str]:
    """Write all pages anew; returns those that have changed."""
    changed = []
    for page, (report, _) in QUOTES.items():
        path = root / page
        old = path.read_text("utf-8")
        new = with_quote(old, report, quoted(page, root))
        if new != old:
            path.write_text(new, "utf-8")
            changed.append(page)
    return changed


if __name__ == "__main__":
    print("\n".join(write_quotes()) or "nothing to change")
