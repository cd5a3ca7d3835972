"""``vicinal evaluate``: is a learnt metric better? By cross-validation, beside simple methods."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._command import option
from vicinal.cli._console import Console
from vicinal.cli._types import DURATION, SETTING, Choice, Whole
from vicinal.learner import METHODS

BASELINES = ("euclidean", "pca", "lda")  # always compared

EXAMPLES = """
vicinal evaluate data.csv --label species
vicinal evaluate data.csv --label species --method nca --method lmnn --dim 2 --repeats 5
vicinal evaluate houses.csv --label price --method mlkr
vicinal evaluate data.csv --label species --json > scores.json
"""


@_command("evaluate", EXAMPLES)
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@_options.FORMAT
@_options.COLUMNS
@option(
    "Method",
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    type=Choice("method", (*BASELINES, *METHODS)),
    help="A method to compare with the Euclidean distance, PCA and LDA. May be repeated. "
    "Default: nca, or mlkr if the label is a number; `vicinal fit --help` lists all.",
)
@option(
    "Method",
    "--dim",
    type=Whole(min=1),
    metavar="N",
    help="Dimensions that every method maps to. Default: that of each method.",
)
@option(
    "Method",
    "--set",
    "settings",
    multiple=True,
    type=SETTING,
    metavar="NAME=VALUE",
    help="A parameter of the methods that have it, such as alpha=0.01. May be repeated.",
)
@_options.SEED
@option(
    "Scores",
    "--folds",
    type=Whole(min=2),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of folds.",
)
@option(
    "Scores",
    "--repeats",
    type=Whole(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Draw the folds so many times.",
)
@option(
    "Scores",
    "--neighbors",
    type=Whole(min=1),
    default=5,
    show_default=True,
    metavar="K",
    help="Number of neighbours that vote.",
)
@option(
    "Limits",
    "--time-budget",
    type=DURATION,
    metavar="TIME",
    help="For all fits together: 30s, 2m, 1h. Folds that would begin too late are left out.",
)
@_options.THREADS
def command(console: Console, data: str, **options: Any) -> None:
    """Compare methods on rows of DATA that they have not seen.

    Every method is fitted to all folds but one, with its preparation of the columns, and the rows
    of that fold get the class of their nearest neighbours: the table shows the mean accuracy, or R²
    if the label is a number, and its standard error over the folds.
    """
    from vicinal.cli import _comparing, _work
    from vicinal.cli._learning import thread_limit
    from vicinal.model_selection import compare_methods

    table = _work.read(data, options)
    if table.y is None:
        raise _work.no_label(table, "evaluate")
    numbers = _comparing.learns_numbers(table, options["methods"])
    columns = _work.column_options(table, options)
    methods = _comparing.methods(table, numbers, columns, options)
    with (
        console.status() as show, thread_limit(options["threads"]), _work.spoken_columns(table),
        redirect_stdout(sys.stderr),  # for --set verbose=1
    ):  # fmt: skip
        comparison = compare_methods(
            table.X, table.y, methods, target="numbers" if numbers else "classes",
            n_components=options["dim"], cv=options["folds"], repeats=options["repeats"],
            n_neighbors=options["neighbors"], random_state=options["seed"],
            time_budget=options["time_budget"], **columns,
            progress=lambda done, total, name: show(f"{name}: fit {done + 1} of {total} …"),
        )  # fmt: skip
    console.result(str(comparison), {"data": data, "label": table.label, **comparison.to_dict()})
