"""``vicinal predict``: classes or numbers for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import Console, Failure
from vicinal.cli._options import option

EXAMPLES = """
vicinal predict model.vic new.csv > predicted.csv
vicinal predict model.vic new.csv --proba --keep id -o predicted.parquet
vicinal predict model.vic test.csv --label species
"""


@_options.command("predict", EXAMPLES)
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("data", type=_options.DATA_FILE, default="-")
@option(
    "Table", "--label", str, "The column with the truth, if it is known: the accuracy, or R² for "
    "numbers, is shown.", metavar="COLUMN",
)  # fmt: skip
@_options.FORMAT
@option("Output", "--proba", bool, "Add a column with the probability of each class.")
@_options.KEEP
@_options.OUTPUT_TABLE
def command(
    console: Console, model: Path, data: str, proba: bool, output: str, **options: Any
) -> None:
    """Predict the class, or the number, of each row of DATA by a MODEL file.

    Writes a table with a column 'prediction'. Without DATA, standard input is read.
    """
    learner = _work.load_model(model)
    for method in ("predict", "predict_proba") if proba else ("predict",):
        if not hasattr(learner, method):
            name = type(getattr(learner, "steps", [("", learner)])[-1][1]).__name__
            raise Failure(
                f"{model}: {name} has no {method}. Learn by nca, knca, lmnn or mcml to predict "
                "classes, or by mlkr or nca-regressor to predict numbers."
            )
    table = _work.read(data, options)
    frame, score = _work.predicted(learner, table, proba, options["keep"])
    facts = {} if score is None else {score[0]: score[1], "n_rows": len(frame)}
    if score is not None:
        console.say(f"{score[0]}: {score[1]:.4f} of {len(frame)} rows")
    _work.write(console, frame, output, data, options["safe_cells"], facts)
