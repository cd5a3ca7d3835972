"""``vicinal evaluate``: is a learnt metric better? By cross-validation, beside simple methods."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import Console
from vicinal.cli._learning import thread_limit
from vicinal.cli._options import Choice, Duration, Setting, Whole, add_options, option
from vicinal.learner import METHODS
from vicinal.learner.errors import near

if TYPE_CHECKING:
    from vicinal.cli._tables import Table

BASELINES = ("euclidean", "pca", "lda")  # always compared

EXAMPLES = """
vicinal evaluate data.csv --label species
vicinal evaluate data.csv --label species --method nca --method lmnn --dim 2 --repeats 5
vicinal evaluate houses.csv --label price --method mlkr
vicinal evaluate data.csv --label species --json > scores.json
"""


@_options.command("evaluate", EXAMPLES)
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@_options.FORMAT
@_options.COLUMNS
@add_options(
    option("Method", "--method methods", Choice("method", (*BASELINES, *METHODS)),
           "A method to compare with the Euclidean distance, PCA and LDA. May be repeated. Default:"
           " nca, or mlkr if the label is a number; `vicinal fit --help` lists all.",
           multiple=True),
    option("Method", "--dim", Whole(1), "Dimensions that every method maps to. Default: that of "
           "each method."),
    option("Method", "--set settings", Setting(), "A parameter of the methods that have it, such "
           "as alpha=0.01. May be repeated.", multiple=True),
    _options.SEED,
    option("Scores", "--folds", Whole(2), "Number of folds.", default=5),
    option("Scores", "--repeats", Whole(1), "Draw the folds so many times.", default=1),
    option("Scores", "--neighbors", Whole(1), "Number of neighbours that vote.", default=5,
           metavar="K"),
    option("Limits", "--time-budget", Duration(), "For all fits together: 30s, 2m, 1h. Folds that "
           "would begin too late are left out."),
    _options.THREADS,
)  # fmt: skip
def command(console: Console, data: str, **options: Any) -> None:
    """Compare methods on rows of DATA that they have not seen.

    Every method is fitted to all folds but one, with its preparation of the columns, and the rows
    of that fold get the class of their nearest neighbours: the table shows the mean accuracy, or R²
    if the label is a number, and its standard error over the folds.
    """
    from vicinal.model_selection import compare_methods

    table = _work.read(data, options)
    if table.y is None:
        raise _work.no_label(table, "evaluate")
    numbers = _learns_numbers(table, options["methods"])
    columns = _work.column_options(table, options)
    methods = _methods(table, numbers, columns, options)
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


def _learns_numbers(table: Table, names: tuple[str, ...]) -> bool:
    """Whether the label is a number: the methods say, or its values."""
    targets = {METHODS[name].target for name in names if name in METHODS} - {"none"}
    numbers = "numbers" in targets or (not targets and _work.is_number(table.y))
    if numbers and targets - {"numbers"}:
        raise click.UsageError(
            "--method: some of these learn numbers and others classes, so there is no common score."
        )
    _work.check_target(table, "numbers" if numbers else "classes")
    return numbers


def _methods(
    table: Table, numbers: bool, columns: dict[str, Any], options: dict[str, Any]
) -> list[Any]:
    """The baselines, and the methods that were asked for, with their settings."""
    chosen: list[Any] = [name for name in BASELINES if name != "lda" or not numbers]
    asked = dict.fromkeys(options["methods"]) or ["mlkr" if numbers else "nca"]
    parameters = {name: METHODS[name].parameters() for name in asked if name in METHODS}
    settings = _work.settings_of(options)
    known = {each for names in parameters.values() for each in names}
    for name in settings:
        if name not in known:
            raise click.UsageError(
                f"--set: none of the methods has a parameter {name!r}.{near(name, known)}"
            )
    for name in asked:
        own = {key: value for key, value in settings.items() if key in parameters.get(name, ())}
        if own:
            rank = options["dim"] if "n_components" in parameters[name] else None
            rank = own.pop("n_components", rank)
            chosen.append((name, _work.make_pipeline(
                table, name, own, n_components=rank, random_state=options["seed"], **columns
            )))  # fmt: skip
        elif name not in chosen:
            chosen.append(name)
    return chosen
