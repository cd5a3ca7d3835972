"""``vicinal plot``: pictures of what was learnt."""

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
from vicinal.cli._types import Choice, Whole

#: pictures by name: the class in `vicinal.plotting`, and what they show
KINDS = {
    "embedding": ("EmbeddingDisplay", "the rows before and after learning, side by side"),
    "regions": ("DecisionRegionsDisplay", "which class is predicted where (two dimensions)"),
    "convergence": ("ConvergenceDisplay", "the loss by iteration, also on held-out rows"),
    "metric": ("MetricDisplay", "which columns matter, and the matrix of the metric"),
    "neighbors": ("NeighborsDisplay", "the nearest rows of one row, before and after"),
    "accuracy": ("AccuracyDisplay", "accuracy against the number of neighbours"),
    "rank": ("AccuracyDisplay", "accuracy against the number of dimensions"),
    "quality": ("EmbeddingQualityDisplay", "how well the map keeps neighbours (R_NX)"),
}

EXAMPLES = """
vicinal plot data.csv --label species -o picture.png
vicinal plot data.csv --label species --model model.vic --kind metric -o metric.svg
vicinal plot train.csv --label species --model model.vic --test test.csv
vicinal plot data.csv --label species --kind neighbors --row 12 -o row12.png
"""

_LISTED = "\n".join(f"{name:<12} {about}" for name, (_, about) in KINDS.items())


@_command("plot", EXAMPLES, {"Pictures": _LISTED})
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@option(
    "Table",
    "--test",
    type=_options.DATA_FILE,
    metavar="FILE",
    help="A table of rows that were not learnt from.",
)
@_options.FORMAT
@_options.COLUMNS
@option(
    "Method",
    "--model",
    type=_options.MODEL_FILE,
    metavar="FILE",
    help="Draw this model, which was fitted to DATA. Default: learn from 70 % of the rows and "
    "hold the others out.",
)
@_options.LEARNING
@option(
    "Picture",
    "--kind",
    type=Choice("picture", tuple(KINDS)),
    default="embedding",
    show_default=True,
    metavar="NAME",
    help="What to draw; see below.",
)
@option(
    "Picture",
    "--row",
    type=Whole(min=0),
    metavar="N",
    help="The row whose neighbours are drawn; 0 is the first.",
)
@option(
    "Picture",
    "--dpi",
    type=Whole(min=20, max=1200),
    default=150,
    show_default=True,
    metavar="N",
    help="Dots per inch of a .png file.",
)
@_options.PROGRESS
@option(
    "Output",
    "-o",
    "--output",
    type=File("picture"),
    default=Path("picture.png"),
    show_default=True,
    metavar="FILE",
    help="The picture to write: .png, .svg or .pdf.",
)
@_options.FORCE
def command(console: Console, data: str, output: Path, **options: Any) -> int:
    """Draw what was learnt from DATA.

    Dimensions: the picture 'regions' needs a map to two dimensions, and 'embedding' draws two or
    three; without --model and --dim, two are learnt.
    """
    from vicinal.cli import _drawing

    kind = options["kind"]
    if (kind == "neighbors") != (options["row"] is not None):
        raise click.UsageError("--row and --kind neighbors belong together.")
    subject = _drawing.subject(console, data, options)
    _drawing.draw(KINDS[kind][0], kind, subject, options).savefig(output, dpi=options["dpi"])
    facts = {"picture": output, "kind": kind, "data": data, "model": options["model"],
             "interrupted": subject.interrupted}  # fmt: skip
    console.result(f"Picture: {output}", facts)
    return INTERRUPTED if subject.interrupted else OK
