"""``vicinal evaluate``: is a learnt metric better? By cross-validation, beside simple methods."""

from __future__ import annotations

from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._command import option
from vicinal.cli._console import Console
from vicinal.cli._types import Choice
from vicinal.learner import METHODS

__all__ = ["command"]

BASELINES = ("euclidean", "pca", "lda")

EXAMPLES = """
vicinal evaluate data.csv --label species
vicinal evaluate data.csv --label species --method nca --method lmnn --dim 2 --repeats 5
vicinal evaluate houses.csv --label price --method mlkr
vicinal evaluate data.csv --label species --json > scores.json
"""


@_command("evaluate", EXAMPLES)
@click.argument("data")
@_options.LABEL
@_options.FORMAT
@_options.COLUMNS
@option("Method", "--method", "methods", multiple=True, metavar="NAME",
        type=Choice("method", (*BASELINES, *METHODS)),
        help="A method to compare with Euclidean distance, PCA and LDA. May be repeated. Default: "
        "nca, or mlkr if the label is a number.")
@option("Method", "--dim", type=click.IntRange(min=1), metavar="N",
        help="Dimensions of all methods. Default: that of each method.")
@option("Method", "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N",
        help="Draws the folds, and all else that is random.")
@option("Scores", "--folds", type=click.IntRange(min=2), default=5, show_default=True, metavar="N",
        help="Number of folds.")
@option("Scores", "--repeats", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
        help="Draw the folds so many times.")
@option("Scores", "--neighbours", type=click.IntRange(min=1), metavar="K",
        help="Neighbours that vote.")
@option("Limits", "--threads", type=click.IntRange(min=1), metavar="N",
        help="Use at most so many threads. Default: all cores. The result is the same.")
def command(console: Console, data: str, **options: Any) -> None:
    """Compare methods on rows of DATA that they have not seen.

    Every method is fitted on all folds but one, with its preparation of the columns, and the rows
    of that fold get the class of their nearest neighbours: the table shows the mean accuracy, or R²
    if the label is a number, and its standard error over the folds.
    """
