"""``vicinal predict``: classes or numbers for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._command import option
from vicinal.cli._console import Console
from vicinal.cli._exit import Failure

EXAMPLES = """
vicinal predict model.vic new.csv > predicted.csv
vicinal predict model.vic new.csv --proba --keep id -o predicted.parquet
vicinal predict model.vic test.csv --label species
"""


@_command("predict", EXAMPLES)
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("data", type=_options.DATA_FILE, default="-")
@option(
    "Table",
    "--label",
    metavar="COLUMN",
    help="The column with the truth, if it is known: the accuracy, or R² for numbers, is shown.",
)
@_options.FORMAT
@option("Output", "--proba", is_flag=True, help="Add a column with the probability of each class.")
@_options.KEEP
@_options.OUTPUT_TABLE
def command(
    console: Console, model: Path, data: str, proba: bool, output: str, **options: Any
) -> None:
    """Predict the class, or the number, of each row of DATA by a MODEL file.

    Writes a table with a column 'prediction'. Without DATA, standard input is read.
    """
    from vicinal.cli import _results, _work

    learner = _work.load_model(model)
    for method in ("predict", "predict_proba") if proba else ("predict",):
        if not hasattr(learner, method):
            name = type(getattr(learner, "steps", [("", learner)])[-1][1]).__name__
            raise Failure(
                f"{model}: {name} has no {method}. Learn by nca, knca, lmnn or mcml to predict "
                "classes, or by mlkr or nca-regressor to predict numbers."
            )
    table = _work.read(data, options)
    frame, score = _results.predicted(learner, table, proba, options["keep"])
    facts = {} if score is None else {score[0]: score[1], "n_rows": len(frame)}
    if score is not None:
        console.say(f"{score[0]}: {score[1]:.4f} of {len(frame)} rows")
    _results.write(console, frame, output, data, options["safe_cells"], facts)
