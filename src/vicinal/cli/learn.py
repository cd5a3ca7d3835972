"""Commands that learn: ``vicinal fit``, ``evaluate`` and ``embed``."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import INTERRUPTED, NOT_CONVERGED, OK, Console
from vicinal.cli._files import File
from vicinal.cli._learning import thread_limit
from vicinal.cli._options import Choice, Duration, Setting, Whole, add_options, option
from vicinal.learner import METHODS, usual_method
from vicinal.learner.errors import near

if TYPE_CHECKING:
    from vicinal.cli._tables import Table


_LISTED = "\n".join(f"{name:<14} {info.summary}" for name, info in METHODS.items())


@_options.command(
    """
vicinal fit data.csv --label species --dim 2 -o model.vic
vicinal fit data.csv --label species --method lmnn --set k=5 --set alpha=0.01
vicinal fit houses.parquet --label price --method mlkr --time-budget 2m
cat data.csv | vicinal fit - --label -1 --drop id,name -o model.vic
vicinal fit big.csv --label y --checkpoint big.checkpoint
vicinal fit big.csv --label y --checkpoint big.checkpoint --resume big.checkpoint
""",
    {"Methods": _LISTED},
)
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
def fit(console: Console, data: str, output: Path, strict: bool, **options: Any) -> int:
    """Learn from DATA which rows are alike, and write a model file.

    DATA is a .csv, .tsv, .parquet or .npz file, or - for CSV on standard input. Categories, missing
    values and text are handled; the model file holds how. Ctrl-C keeps the best model so far.
    """
    table = _work.read_labelled(data, options)
    options["method"] = _work.method_of(table, options)
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


@_options.command("""
vicinal evaluate data.csv --label species
vicinal evaluate data.csv --label species --method nca --method lmnn --dim 2 --repeats 5
vicinal evaluate houses.csv --label price --method mlkr
vicinal evaluate data.csv --label species --json > scores.json
""")
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@_options.TASK
@_options.FORMAT
@_options.COLUMNS
@add_options(
    option("Method", "--method methods", Choice("method", METHODS),
           "A method to compare with the usual ones. May be repeated. Default: that of "
           "`vicinal fit`, which lists all in its --help.",
           multiple=True),
    option("Method", "--dim", Whole(1), "Dimensions that every method maps to. Default: that of "
           "each method."),
    option("Method", "--set settings", Setting(), "A parameter of the methods that have it, such "
           "as alpha=0.01. May be repeated.", multiple=True),
    _options.SEED,
    option("Scores", "--folds", Whole(2), "Number of folds.", default=5),
    option("Scores", "--repeats", Whole(1), "How often the folds are drawn.", default=1),
    option("Scores", "--neighbors", Whole(1), "Number of neighbours that vote.", default=5,
           metavar="K"),
    option("Limits", "--time-budget", Duration(), "For all fits together: 30s, 2m, 1h. Folds that "
           "would begin too late are left out."),
    _options.THREADS,
)  # fmt: skip
def evaluate(console: Console, data: str, **options: Any) -> None:
    """Compare methods on rows of DATA that they have not seen.

    Every method is fitted to all folds but one, with its preparation of the columns, and predicts
    the rows of that fold. The table shows the mean accuracy of these predictions, or R² if the
    label is a number, with its standard error; the balanced accuracy, the mean of the recalls of
    all classes; the log loss, which also judges how sure a method is; and as K-NN the accuracy of
    a vote of the nearest rows in the space that it learnt. The usual methods are always there:
    the most frequent class, nearest neighbours by Euclidean distance and after PCA, LDA, logistic
    regression, a random forest and boosted trees. The best of them is what others are compared
    with; a difference of up to two standard errors is not called one. "seconds" is the time for
    all folds.
    """
    from vicinal.model_selection import compare_methods

    table = _work.read_labelled(data, options)
    if table.y is None:
        raise _work.no_label(table)
    numbers = _learns_numbers(table, options)
    columns = _work.column_options(table, options)
    if options["strict_columns"]:
        with _work.spoken_columns(table):
            _work.make_pipeline(table, "rca", {}, strict=True, **columns)
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


def _learns_numbers(table: Table, options: dict[str, Any]) -> bool:
    """Whether the label is a number: the command line says, or the methods, or its values."""
    from vicinal.learner.targets import target_kind

    targets = {METHODS[name].target for name in options["methods"] if name in METHODS} - {"none"}
    if "numbers" in targets and targets - {"numbers"}:
        raise click.UsageError(
            "--method: some of these learn numbers and others classes, so there is no common score."
        )
    learnt = "numbers" if "numbers" in targets else "classes" if targets else None
    if options["task"] and learnt not in (None, options["task"]):
        raise click.UsageError(f"--task {options['task']}: the methods learn {learnt}.")
    numbers = (options["task"] or learnt or target_kind(table.y)) == "numbers"
    if not numbers:
        table.check_classes()
    elif not options["task"] and not learnt:
        _work.note_numbers(table)
    return numbers


def _methods(
    table: Table, numbers: bool, columns: dict[str, Any], options: dict[str, Any]
) -> list[Any]:
    """The usual methods, and those that were asked for, with their settings."""
    from vicinal.model_selection._baselines import usual_rivals

    kind = "numbers" if numbers else "classes"
    chosen: list[Any] = usual_rivals(kind, 0 if numbers else table.n_different)
    usual = usual_method(kind, _work.parameters_asked(options))
    asked = dict.fromkeys(options["methods"]) or [usual]
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
        else:
            chosen.append(name)
    return chosen


@_options.command("""
vicinal embed data.csv > places.csv
vicinal embed data.csv --label species --plot picture.png -o places.csv
vicinal embed data.csv --perplexity 50 --dim 3 -o places.parquet
vicinal embed data.csv --model-out picture.vic && vicinal embed new.csv --model picture.vic
vicinal fit data.csv --label species && vicinal embed data.csv --model model.vic --plot learnt.png
""")
@click.argument("data", type=_options.DATA_FILE)
@option(
    "Table", "--label", str, "A column that only colours the picture, by name or position; it is "
    "written next to the places and not used otherwise.", metavar="COLUMN",
)  # fmt: skip
@_options.FORMAT
@_options.COLUMNS
@add_options(
    option("Method", "--model", _options.MODEL_FILE, "Place the rows with this model: in the "
           "picture that it holds, or, if it is a metric, by the distances that it learnt."),
    option("Method", "--k", Whole(1), "Size of a neighbourhood; 1 is t-SNE.", default=1),
    option("Method", "--perplexity", click.FloatRange(min=1), "How many neighbours each row looks "
           "at.", default=30.0, metavar="N"),
    option("Method", "--dim", Whole(1), "Dimensions of the picture.", default=2),
    _options.SET,
    _options.SEED,
    _options.TIME_BUDGET,
    _options.THREADS,
    _options.PROGRESS,
    _options.KEEP,
    option("Output", "--plot", File("picture"), "Draw the picture too: .png, .svg or .pdf."),
    option("Output", "--model-out", File("model"), "Write a model file too, which places further "
           "rows."),
    _options.OUTPUT_TABLE,
)  # fmt: skip
def embed(
    console: Console, data: str, output: str, plot: Path | None, model: Path | None,
    model_out: Path | None, **options: Any,
) -> int:  # fmt: skip
    """Place the rows of DATA in a plane, alike ones together, without labels (t-SNE, kt-SNE).

    Writes a table with the places of the rows. Ctrl-C keeps the places so far.
    """
    if model is not None and model_out is not None:
        raise click.UsageError("--model and --model-out: no model is learnt that could be written.")
    table = _work.read(data, options)
    options["method"] = "kt-sne"
    fitted = None if model is None else _work.load_model(model)
    outcome = None
    if fitted is not None and hasattr(_work.last_step(fitted), "embedding_"):
        pipeline = fitted
        with _work.spoken_columns(table):
            Z = pipeline.transform(_work.known_columns(pipeline, table))
    else:
        rows = table if fitted is None else _work.mapped(fitted, table)
        scaling = "auto" if fitted is None else None
        more = {name: options[name] for name in ("k", "perplexity")}
        pipeline = _work.build(rows, options, scaling, **more)
        outcome = _work.fit(console, pipeline, rows, options)
        Z = _work.last_step(pipeline).embedding_
    keep = [*options["keep"], *([] if table.label is None else [table.label])]
    frame = _work.places(pipeline, Z, table, keep)
    if plot is not None:
        from vicinal.cli.look import display

        drawn = display("EmbeddingDisplay").from_embeddings(
            {"kt-SNE": Z}, table.colours, target_name=table.label
        )
        drawn.figure_.savefig(plot, dpi=150)
    if model_out is not None:
        _work.save(pipeline, model_out)
    facts = {"data": data, "plot": plot, "model": model_out or model}
    facts |= {} if outcome is None else outcome.facts()
    _work.write(console, frame, output, data, options["safe_cells"], facts)
    if outcome is None:
        return OK
    console.say(outcome.words())
    return INTERRUPTED if outcome.interrupted else OK
