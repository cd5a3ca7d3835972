"""Find phrases that must be read twice, long how-to pages, and pictures without words.

    python tools/prose.py

`make lint` runs it.  The phrases are those of CONTRIBUTING.md, "Language", as regular expressions;
what is written in code, between quotation marks or in a comment that ends with ``prose: ok`` does
not count.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = (
    "*.md", "docs/**/*.md", "docs/**/*.rst", "docs/*.py", "benchmarks/**/*.md",
    "benchmarks/**/*.py", "examples/*.py", "src/**/*.py",
)  # fmt: skip
#: made by tools, or older than the rule: kernels are compiled again after any edit
LEFT_OUT = re.compile(r"^docs/(gallery|reference/generated)/|^src/vicinal/kernels/")
SETS = "balance|dslr|ecoli|glass|ionosphere|pima|segment|spectf"
PATTERNS = {
    re.compile(pattern): better
    for pattern, better in (
        (r"\bminus (?!infinity|one\b)[^.:;|]*? (?:is|are|was)\b \S?\d",
         "X is 1.5 points ahead of Y"),
        (r"(?<=[ (])(?<!if )beside (?=[a-z`])", "compared with, next to"),
        (r"\b(?:[Oo]n|[Ii]n) the mean\b(?! loss| squared| log| of)", "on average"),
        (r"\b[Aa]s (?:it|they) comes?\b(?! in)", "with defaults"),
        (r"\banew\b", "again"),
        (r"\bso many\b", "this many"),
        (r"\bof which (?:one|two|three|some|most|\d+)\b", "two of them"),
        (r"\b[Ll]earn(?:s|t)? by (?:L-BFGS|Adam|SGD|a |the )", "with, from, through"),
        (rf"\bwithout (?:{SETS})\b", "without the data set `balance`"),
        (r"\[(?:seen|measured|compared|how|fewer|table|here|[Tt]his page|[Ii]t supports)\]\(",
         "a link text that says what the page shows"),
        (r"\b(?:is|are) told of\b", "who does it: the fit warns"),
        (r"\bmaps? that bends?\b|\btruth values?\b", "nonlinear map, boolean"),
    )
}  # fmt: skip
_MOST_WORDS = {"README.md": 450, "docs/howto/*.md": 400}
_CODE = re.compile(r"```.*?```|<!-- picture\n.*?-->|``[^`]*``|`[^`]*`|\"[^\"\n]*\"", re.S)


def blank(found: re.Match[str]) -> str:
    """As many lines of nothing, so that line numbers stay."""
    return "\n" * found[0].count("\n") + "` `"


def phrases(path: Path) -> Iterator[str]:
    """Phrases that the list knows, with their lines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = _CODE.sub(blank, text)
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, better in PATTERNS.items():
            found = pattern.search(line)
            if found and "prose: ok" not in line:
                yield f"{number}: {found[0].strip()!r}: write {better}"


def pictures(path: Path) -> Iterator[str]:
    """Pictures without a text for those who cannot see them."""
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"!\[\s*\]\(|<img(?![^>]*\balt=)", line):
            yield f"{number}: a picture without a text"


def words(path: Path) -> int:
    """Words of the prose of a page: neither code nor addresses of links."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S)
    return len(re.sub(r"\]\([^)]*\)", "]", text).split())


def main() -> int:
    """Print what was found; 1 if there is anything."""
    paths = sorted({path for each in FILES for path in ROOT.glob(each)})
    told = []
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        if LEFT_OUT.search(name):
            continue
        checks = [phrases] if name != "CONTRIBUTING.md" else []
        checks += [pictures] if path.suffix == ".md" else []
        told += [f"{name}:{each}" for check in checks for each in check(path)]
    for pattern, most in _MOST_WORDS.items():
        for path in sorted(ROOT.glob(pattern)):
            if words(path) > most:
                told.append(f"{path.relative_to(ROOT)}: {words(path)} words, of at most {most}")
    print("\n".join(told))
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
