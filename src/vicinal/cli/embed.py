"""``vicinal embed``: a picture of a table without labels, by t-SNE and kt-SNE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import INTERRUPTED, OK, Console
from vicinal.cli._files import File
from vicinal.cli._options import Whole, add_options, option

EXAMPLES = """
vicinal embed data.csv > places.csv
vicinal embed data.csv --label species --plot picture.png -o places.csv
vicinal embed data.csv --k 1 --perplexity 50 --dim 3 -o places.parquet
vicinal embed data.csv --model picture.vic && vicinal transform picture.vic new.csv
"""


@_options.command("embed", EXAMPLES)
@click.argument("data", type=_options.DATA_FILE)
@option(
    "Table", "--label", str, "A column that only colours the picture, by name or position; it is "
    "written beside the places and not used otherwise.", metavar="COLUMN",
)  # fmt: skip
@_options.FORMAT
@_options.COLUMNS
@add_options(
    option("Method", "--k", Whole(1), "Size of a neighbourhood; 1 is t-SNE.", default=5),
    option("Method", "--perplexity", click.FloatRange(min=1), "How many neighbours each row looks "
           "at.", default=30.0, metavar="N"),
    option("Method", "--dim", Whole(1), "Dimensions of the picture.", default=2),
    _options.SET,
    _options.SEED,
    _options.TIME_BUDGET,
    _options.THREADS,
    _options.PROGRESS,
    _options.KEEP,
    option("Output", "--plot", File("picture"), "Draw the picture too: .png, .svg or .pdf."),
    option("Output", "--model", File("model"), "Write a model file too, which places further "
           "rows."),
    _options.OUTPUT_TABLE,
)  # fmt: skip
def command(
    console: Console, data: str, output: str, plot: Path | None, model: Path | None, **options: Any
) -> int:
    """Place the rows of DATA in a plane, alike ones together, without labels (t-SNE, kt-SNE).

    Writes a table with the places of the rows. Ctrl-C keeps the places so far.
    """
    table = _work.read(data, options)
    options["method"] = "kt-sne"
    pipeline = _work.build(table, options, k=options["k"], perplexity=options["perplexity"])
    outcome = _work.fit(console, pipeline, table, options)
    Z = pipeline.steps[-1][1].embedding_
    keep = [*options["keep"], *([] if table.label is None else [table.label])]
    frame = _work.places(pipeline, Z, table, keep)
    if plot is not None:
        from vicinal.cli.plot import display

        drawn = display("EmbeddingDisplay").from_embeddings(
            {"kt-SNE": Z}, table.y, target_name=table.label
        )
        drawn.figure_.savefig(plot, dpi=150)
    if model is not None:
        _work.save(pipeline, model)
    facts = {"data": data, "plot": plot, "model": model, **outcome.facts()}
    _work.write(console, frame, output, data, options["safe_cells"], facts)
    console.say(outcome.words())
    return INTERRUPTED if outcome.interrupted else OK
