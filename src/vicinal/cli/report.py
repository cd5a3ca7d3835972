"""``vicinal report``: a page to explore and to show to others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import INTERRUPTED, OK, Console, Failure
from vicinal.cli._files import File
from vicinal.cli._learning import watched
from vicinal.cli._options import ImageShape, add_options, option

EXAMPLES = """
vicinal report data.csv --label species -o report.html
vicinal report data.csv --label species --method lmnn --model-out model.vic
vicinal report train.csv --label species --model model.vic --test test.csv
vicinal report digits.csv --label digit --images 8x8 --title "Digits" -o digits.html
"""


@_options.command("report", EXAMPLES)
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@option(
    "Table", "--test", _options.DATA_FILE,
    "A table of rows that were not learnt from. Default: a fifth of the rows of DATA are held out.",
)  # fmt: skip
@_options.FORMAT
@_options.COLUMNS
@option(
    "Method", "--model", _options.MODEL_FILE,
    "Show this model, which was fitted to DATA, instead of learning one.",
)  # fmt: skip
@_options.LEARNING
@add_options(
    option("Page", "--images", ImageShape(), "The columns are the pixels of an image of this "
           "height and width: show thumbnails.", metavar="HxW"),
    option("Page", "--title", str, "Title of the page."),
    _options.PROGRESS,
    option("Output", "-o --output", File("page"), "The page to write: one file that needs no "
           "network.", default=Path("report.html")),
    option("Output", "--model-out", File("model"), "Write the model that was learnt, too."),
    _options.FORCE,
)  # fmt: skip
def command(
    console: Console, data: str, output: Path, model: Path | None, test: str | None,
    model_out: Path | None, title: str | None, images: Any, **options: Any,
) -> int:  # fmt: skip
    """Learn from DATA, and write a page that shows what was learnt.

    The page is one HTML file: what the metric does in plain words, accuracy on held-out rows before
    and after, an interactive picture, the neighbours of each row, the columns that matter.

    With --dim 2 the picture is what was learnt; without, the metric has more dimensions, and the
    picture shows two principal axes of them.
    """
    from vicinal import report

    table = _work.read(data, options)
    held_out = None if test is None else _work.read(test, options)
    pipeline = _work.build(table, options) if model is None else _work.load_model(model)
    with watched(console, pipeline, options) as watch, _work.spoken_columns(table):
        made = report(
            pipeline, table.X, table.y, images=images, title=title,
            X_test=None if held_out is None else held_out.X,
            y_test=None if held_out is None else held_out.y,
            random_state=options["seed"], progress=console.step,
        )  # fmt: skip
    try:
        made.save(output, model=model_out)  # the page says how to load the model
    except OSError as error:  # it names a temporary file
        raise Failure(f"{output}: the page cannot be written: {error.strerror}.") from error
    facts = {
        "report": output,
        "model": model_out or model,
        "sentences": made.contents.sentences,
        "warnings": made.contents.warnings,
        "score": made.contents.score_name,
        "scores": [
            {"name": each.name, "mean": each.mean, "error": each.error, "learnt": each.learnt}
            for each in made.contents.scores
        ],
        "interrupted": watch.interrupted,
    }
    console.result("\n".join([*made.contents.sentences, f"Page: {output}"]), facts)
    return INTERRUPTED if watch.interrupted else OK
