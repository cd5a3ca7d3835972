"""``vicinal embed``: a picture of a table without labels, by kt-SNE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._command import option
from vicinal.cli._console import Console
from vicinal.cli._exit import INTERRUPTED, OK
from vicinal.cli._files import File
from vicinal.cli._types import Whole

EXAMPLES = """
vicinal embed data.csv > places.csv
vicinal embed data.csv --label species --plot picture.png -o places.csv
vicinal embed data.csv --k 1 --perplexity 50 --dim 3 -o places.parquet
vicinal embed data.csv --model picture.vic && vicinal transform picture.vic new.csv
"""


@_command("embed", EXAMPLES)
@click.argument("data", type=_options.DATA_FILE)
@option(
    "Table",
    "--label",
    metavar="COLUMN",
    help="A column that only colours the picture, by "
    "name or position; it is written beside the places and not used otherwise.",
)
@_options.FORMAT
@_options.COLUMNS
@option(
    "Method",
    "--k",
    type=Whole(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Size of the neighbourhoods; 1 is t-SNE.",
)
@option(
    "Method",
    "--perplexity",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="N",
    help="How many neighbours each row looks at.",
)
@option(
    "Method",
    "--dim",
    type=Whole(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Dimensions of the picture.",
)
@_options.SET
@_options.SEED
@_options.TIME_BUDGET
@_options.THREADS
@_options.PROGRESS
@_options.KEEP
@option(
    "Output",
    "--plot",
    type=File("picture"),
    metavar="FILE",
    help="Draw the picture too: .png, .svg or .pdf.",
)
@option(
    "Output",
    "--model",
    type=File("model"),
    metavar="FILE",
    help="Write a model file too, which places further rows.",
)
@_options.OUTPUT_TABLE
def command(
    console: Console, data: str, output: str, plot: Path | None, model: Path | None, **options: Any
) -> int:
    """Place the rows of DATA in a plane, alike ones together, without labels (kt-SNE).

    Writes a table with the places of the rows. Ctrl-C keeps the places so far.
    """
    from vicinal.cli import _drawing, _results, _work

    table = _work.read(data, options)
    options["method"] = "kt-sne"
    pipeline = _work.build(table, options, k=options["k"], perplexity=options["perplexity"])
    outcome = _work.fit(console, pipeline, table, options)
    embedded = pipeline.steps[-1][1].embedding_
    keep = [*options["keep"], *([] if table.label is None else [table.label])]
    frame = _results.embedded(pipeline, embedded, table, keep)
    if plot is not None:
        _drawing.scatter(embedded, table.y, table.label, "kt-SNE").savefig(plot, dpi=150)
    if model is not None:
        _work.save(pipeline, model)
    facts = {"data": data, "plot": plot, "model": model, **outcome.facts()}
    _results.write(console, frame, output, data, options["safe_cells"], facts)
    console.say(outcome.words())
    return INTERRUPTED if outcome.interrupted else OK
