"""``vicinal transform``: the rows of a table in the learnt space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._console import Console

EXAMPLES = """
vicinal transform model.vic new.csv > embedded.csv
vicinal transform model.vic new.parquet --keep id,species -o embedded.parquet
cat new.csv | vicinal transform model.vic - | head
"""


@_command("transform", EXAMPLES)
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
    from vicinal.cli import _results, _work

    learner = _work.load_model(model)
    table = _work.read(data, options)
    frame = _results.mapped(learner, table, options["keep"])
    _results.write(console, frame, output, data, options["safe_cells"])
