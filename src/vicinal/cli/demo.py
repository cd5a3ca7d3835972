"""``vicinal demo``: the commands at work on data that is at hand."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import click

from vicinal.cli import _options
from vicinal.cli._console import Console

#: titles, and the commands under them
CHAPTERS = (
    (
        "Three rings in a plane, hidden among four columns of noise. The Euclidean distance and "
        "PCA see the noise, LDA sees classes of the same mean; NCA finds the plane.",
        (
            "datasets rings -o {folder}/rings.csv",
            "evaluate {folder}/rings.csv --label label --dim 2 --folds 3",
            "plot {folder}/rings.csv --label label -o {folder}/rings.png",
            "report {folder}/rings.csv --label label --dim 2 -o {folder}/rings.html",
        ),
    ),
    (
        "Handwritten digits of 64 pixels, mapped to a plane by a network. A fifth of the rows on "
        "the page was held out.",
        (
            "datasets digits -o {folder}/digits.csv",
            "report {folder}/digits.csv --label label --dim 2 --set mapping=mlp --images 8x8 "
            "--title Digits --model-out {folder}/digits.vic -o {folder}/digits.html",
            "info {folder}/digits.vic",
        ),
    ),
)

EXAMPLES = """
vicinal demo
vicinal demo -o /tmp/vicinal-demo
"""


@_options.command("demo", EXAMPLES)
@_options.option(
    "Output", "-o --output", click.Path(file_okay=False, path_type=Path),
    "Where to write tables, pictures, the page and the model.", default=Path("demo"),
    metavar="FOLDER",
)  # fmt: skip
@_options.FORCE
def command(console: Console, output: Path) -> None:
    """Learn on two built-in data sets, and show each command, to be repeated on your own table.

    Writes tables, a picture, a page to open in a browser, and a model file.
    """
    from vicinal.cli._group import check_part, run_part

    output.mkdir(parents=True, exist_ok=True)
    chapters = [
        (title, [[word.format(folder=output) for word in shlex.split(line)] for line in lines])
        for title, lines in CHAPTERS
    ]
    for _, commands in chapters:
        for words in commands:  # before the first of them writes anything
            check_part(words, console.part())
    began, ran = time.perf_counter(), []
    for title, commands in chapters:
        _say(console, f"\n{title}\n")
        for words in commands:
            line, part = shlex.join(["vicinal", *words]), console.part()
            _say(console, f"$ {line}")
            run_part(words, part)
            ran.append({"command": line, **part.told})
            _say(console, "")
    seconds = time.perf_counter() - began
    pages = [output / "rings.html", output / "digits.html"]
    console.result(
        f"Done in {seconds:.0f} s. Open {pages[0]} and {pages[1]} in a browser, and click on a "
        "point.\n"
        "Repeat it on a table of your own:\n"
        "  vicinal evaluate TABLE.csv --label COLUMN\n"
        "  vicinal report TABLE.csv --label COLUMN -o report.html",
        {"folder": output, "reports": pages, "seconds": round(seconds, 1), "commands": ran},
    )


def _say(console: Console, text: str) -> None:
    if not console.as_json:
        click.echo(text)
