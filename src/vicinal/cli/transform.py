"""``vicinal transform``: the rows of a table in the learnt space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import Console

EXAMPLES = """
vicinal transform model.vic new.csv > embedded.csv
vicinal transform model.vic new.parquet --keep id,species -o embedded.parquet
cat new.csv | vicinal transform model.vic - | head
"""


@_options.command("transform", EXAMPLES)
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("data", type=_options.DATA_FILE, default="-")
@_options.FORMAT
@_options.KEEP
@_options.OUTPUT_TABLE
def command(console: Console, model: Path, data: str, output: str, **options: Any) -> None:
    """Map the rows of DATA by a MODEL file: one column for each dimension.

    In this space the Euclidean distance is the learnt one. Columns are found by name; others, such
    as the label, are left out. Without DATA, standard input is read.
    """
    learner = _work.load_model(model)
    table = _work.read(data, options)
    with _work.spoken_columns(table):
        Z = learner.transform(_work.known_columns(learner, table))
    frame = _work.places(learner, Z, table, options["keep"])
    _work.write(console, frame, output, data, options["safe_cells"])
