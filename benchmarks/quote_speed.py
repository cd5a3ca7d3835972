"""Write what the documentation quotes from the reports of speed.

    python benchmarks/quote_speed.py      # after a report has changed; all_speed.py does it too

A quote stands between ``<!-- from REPORT -->`` and ``<!-- end -->``.
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


def exact_nca(report: str) -> str:
    """How exact NCA in two dimensions compares with scikit-learn's, in a phrase."""
    ratios, memories = [], []
    for ours, *others in pieces_of_work(report):
        theirs = [row for row in others if row[2] == "scikit-learn"]
        if ours[0] == "NCA" and "→ 2" in ours[1] and theirs:
            ratios.append(float(theirs[0][4].rstrip("×")))
            memories.append((theirs[0][6], ours[6]))
    most, least = max(memories, key=lambda pair: float(pair[0].split()[0].replace(",", "")))
    return (
        f"{min(ratios):.0f} to {max(ratios):.0f} times as fast as scikit-learn's, in {least} "
        f"where it takes {most}"
    )


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
    "README.md": ("methods_speed.md", exact_nca),
    "docs/comparison.md": ("methods_speed.md", methods),
    "docs/migration.md": ("metric_learn_migration.md", migration),
}


def quoted(page: str, root: Path = ROOT) -> str:
    """What a page is to quote; figures of a busy machine are not quoted."""
    name, take = QUOTES[page]
    report = (root / RESULTS / name).read_text("utf-8")
    load = re.search(r"other programs kept (\d+\.\d+) of", report)
    return NOT_YET if load and float(load[1]) >= BUSY else take(report)


def with_quote(text: str, report: str, quote: str) -> str:
    """The text of a page with another quote between the marks."""
    begin = f"<!-- from {RESULTS}/{report} -->"
    before, mark, rest = text.partition(begin)
    _, end, after = rest.partition("<!-- end -->")
    if not mark or not end:
        raise ValueError(f"The page must have '{begin}' and '<!-- end -->'.")
    quote = quote.strip()
    if "\n" in quote:  # a table needs lines of its own
        quote = f"\n\n{quote}\n\n"
    return f"{before}{begin}{quote}{end}{after}"


def write_quotes(root: Path = ROOT) -> list[str]:
    """Write all pages; returns the names of those that have changed."""
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
