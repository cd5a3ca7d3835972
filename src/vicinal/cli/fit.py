"""``vicinal fit``: learn a metric from a table, and write the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import INTERRUPTED, NOT_CONVERGED, OK, Console
from vicinal.cli._files import File
from vicinal.cli._options import Whole, add_options, option
from vicinal.learner import METHODS

EXAMPLES = """
vicinal fit data.csv --label species --dim 2 -o model.vic
vicinal fit data.csv --label species --method lmnn --set k=5 --set alpha=0.01
vicinal fit houses.parquet --label price --method mlkr --time-budget 2m
cat data.csv | vicinal fit - --label -1 --drop id,name -o model.vic
vicinal fit big.csv --label y --checkpoint big.checkpoint
vicinal fit big.csv --label y --checkpoint big.checkpoint --resume big.checkpoint
"""

_LISTED = "\n".join(f"{name:<14} {info.summary}" for name, info in METHODS.items())


@_options.command("fit", EXAMPLES, {"Methods": _LISTED})
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@_options.FORMAT
@_options.COLUMNS
@_options.LEARNING
@add_options(
    option("Limits", "--early-stopping", bool, "Hold a tenth of the rows out, show their score, "
           "and stop when it no longer improves."),
    option("Limits", "--strict", bool, "End with exit code 3 if the fit did not converge."),
    option("Checkpoint", "--checkpoint", File("checkpoint", continues="resume"),
           "Keep the state of the fit in this file, so that a killed one can go on."),
    option("Checkpoint", "--every", Whole(1), "Iterations from one checkpoint to the next.",
           default=10),
    option("Checkpoint", "--resume", File(reads="checkpoint"), "Go on from a checkpoint, "
           "with the same table and options; the end is the same, bit by bit, as if the fit had "
           "never stopped."),
    _options.PROGRESS,
    option("Output", "-o --output", File("model"), "The model file to write.",
           default=Path("model.vic")),
    _options.FORCE,
)  # fmt: skip
def command(console: Console, data: str, output: Path, strict: bool, **options: Any) -> int:
    """Learn from DATA which rows are alike, and write a model file.

    DATA is a .csv, .tsv, .parquet or .npz file, or - for CSV on standard input. Categories, missing
    values and text are handled; the model file holds how. Ctrl-C keeps the best model so far.
    """
    table = _work.read(data, options)
    pipeline = _work.build(table, options)
    outcome = _work.fit(console, pipeline, table, options)
    _work.save(pipeline, output)
    facts = {
        "model": output,
        "data": data,
        "method": options["method"],
        **_work.size(table, pipeline),
        **outcome.facts(),
    }
    console.result("\n".join([_work.sentence(facts), outcome.words(), f"Model: {output}"]), facts)
    if outcome.interrupted:
        console.say(f"Interrupted: {output} holds the best model so far.")
        return INTERRUPTED
    return NOT_CONVERGED if strict and not outcome.converged else OK
