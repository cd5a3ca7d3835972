"""Options that several commands share."""

from __future__ import annotations

import click

from vicinal.cli._command import add_options, option
from vicinal.cli._files import File
from vicinal.cli._types import DURATION, SETTING, Choice, Whole
from vicinal.learner import METHODS

DATA_FILE, MODEL_FILE = File(path_type=str), File()

LABEL = option(
    "Table", "--label", metavar="COLUMN",
    help="The column to learn, by name or by position: 1 is the first, -1 the last.",
)  # fmt: skip

SAFE_CELLS = option(
    "Table", "--safe-cells/--no-safe-cells", default=True, show_default=True,
    help="Write text that begins with = + - @ into a CSV file with an apostrophe before it, so "
    "that no spreadsheet runs it, and read it without.",
)  # fmt: skip

FORMAT = add_options(
    option("Table", "--sep", metavar="TEXT", help="What separates the columns of a CSV file; found "
           "by itself if not given."),
    option("Table", "--na", multiple=True, metavar="TEXT", help="A text that stands for a missing "
           "value, besides the empty one, NA and NaN. May be repeated."),
    option("Table", "--header/--no-header", default=None, help="Whether the first line of a CSV "
           "file names the columns; found by itself if not given."),
    option("Table", "--encoding", metavar="NAME", help="The encoding of a CSV file, such as "
           "latin-1. Default: UTF-8."),
    SAFE_CELLS,
)  # fmt: skip

COLUMNS = add_options(
    option("Columns", "--drop", multiple=True, metavar="COLUMN", help="Leave a column out. All of "
           "these may be repeated, or name several columns: --drop id,date."),
    option("Columns", "--numeric", multiple=True, metavar="COLUMN", help="Use it as a number; what "
           "is not one is missing."),
    option("Columns", "--categorical", multiple=True, metavar="COLUMN",
           help="Use it as a category, also if it looks like a number."),
    option("Columns", "--ordinal", multiple=True, metavar="COLUMN=A,B,C",
           help="Use it as a category whose values have this order."),
    option("Columns", "--text", multiple=True, metavar="COLUMN", help="Use the words in it."),
)  # fmt: skip

SET = option(
    "Method", "--set", "settings", multiple=True, type=SETTING, metavar="NAME=VALUE",
    help="Any other parameter of the method, such as alpha=0.01; mapping=mlp learns a network. May "
    "be repeated.",
)  # fmt: skip

SEED = option(
    "Method", "--seed", type=Whole(min=0), default=0, show_default=True, metavar="N",
    help="Draws all that is random: the same seed gives the same result.",
)  # fmt: skip

TIME_BUDGET = option(
    "Limits", "--time-budget", type=DURATION, metavar="TIME",
    help="Learn for at most this long: 30s, 2m, 1h. The best so far is kept.",
)  # fmt: skip

THREADS = option(
    "Limits", "--threads", type=Whole(min=1), metavar="N",
    help="Use at most so many threads. Default: all cores. The result is the same.",
)  # fmt: skip

LEARNING = add_options(
    option("Method", "--method", type=Choice("method", tuple(METHODS)), default="nca",
           show_default=True, metavar="NAME", help="What to learn by; `vicinal fit --help` lists "
           "all."),
    option("Method", "--dim", type=Whole(min=1), metavar="N",
           help="Dimensions to map to; 2 for a picture. Default: that of the method."),
    SET,
    SEED,
    TIME_BUDGET,
    THREADS,
)  # fmt: skip

KEEP = option(
    "Output", "--keep", multiple=True, metavar="COLUMN",
    help="Columns of the table to put beside the result, such as an identifier. May be repeated, "
    "or name several: --keep id,species.",
)  # fmt: skip


def _set_progress(context: click.Context, parameter: click.Parameter, value: bool | None) -> None:
    context.obj.progress = value


PROGRESS = option(
    "Output", "--progress/--no-progress", default=None, expose_value=False, callback=_set_progress,
    help="Show the iterations on standard error. Default: if that is a terminal.",
)  # fmt: skip


def _set_force(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.obj.force = context.obj.force or value


FORCE = option(
    "Output", "--force", is_flag=True, expose_value=False, callback=_set_force,
    help="Replace an existing file even if it is of another kind, such as notes by a model.",
)  # fmt: skip

OUTPUT_TABLE = add_options(
    option(
        "Output", "-o", "--output", type=File("table", path_type=str), default="-",
        show_default=True, metavar="FILE",
        help="The table to write: .csv, .tsv, .parquet or .npz; - is CSV on standard output.",
    ),
    FORCE,
)  # fmt: skip
