"""Commands that use a model file: ``vicinal transform``, ``predict`` and ``info``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _neighbours, _options, _work
from vicinal.cli._console import Console, Failure
from vicinal.cli._files import same_file
from vicinal.cli._options import Whole, option
from vicinal.cli._work import listed

_SEEN = 0.1  # share of the rows from which on a score of rows that were learnt from is noted


@_options.command("""
vicinal transform model.vic new.csv > embedded.csv
vicinal transform model.vic new.parquet --keep id,species -o embedded.parquet
vicinal transform model.vic parts --keep id -o embedded
cat new.csv | vicinal transform model.vic - | head
""")
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("data", type=_options.DATA_FILES, default="-")
@_options.FORMAT
@_options.SCHEDULER
@_options.KEEP
@_options.OUTPUT_TABLE
def transform(
    console: Console, model: Path, data: str, output: str, scheduler: str | None, **options: Any
) -> None:
    """Map the rows of DATA by a MODEL file: one column for each dimension.

    In this space the Euclidean distance is the learnt one. Columns are found by name; others, such
    as the label, are left out. Without DATA, standard input is read. If DATA is a folder of tables,
    -o names a folder, which gets a table for each.
    """
    learner = _work.load_model(model)
    if Path(data).is_dir():
        _of_folder(console, learner, data, output, "transform", options["keep"], False, scheduler,
                   options)  # fmt: skip
        return
    _refuse_scheduler(scheduler)
    table = _work.read(data, options)
    with _work.spoken_columns(table):
        Z = learner.transform(_work.known_columns(learner, table))
    frame = _work.places(learner, Z, table, options["keep"])
    _work.write(console, frame, output, data, options["safe_cells"])


@_options.command("""
vicinal predict model.vic new.csv > predicted.csv
vicinal predict model.vic new.csv --proba --keep id,name -o predicted.parquet
vicinal predict model.vic test.csv --label species
""")
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("data", type=_options.DATA_FILES, default="-")
@option(
    "Table", "--label", str, "The column with the truth, if it is known: the accuracy, or R² for "
    "numbers, is shown.", metavar="COLUMN",
)  # fmt: skip
@_options.FORMAT
@_options.SCHEDULER
@option("Output", "--proba", bool, "Add a column with the probability of each class.")
@option(
    "Output", "--keep", str, "Write only these columns of DATA next to the prediction. May be "
    "repeated, or name several: --keep id,species. Default: all.", multiple=True, metavar="COLUMN",
)  # fmt: skip
@option("Output", "--only-prediction", bool, "Write none of the columns of DATA.")
@_options.OUTPUT_TABLE
def predict(
    console: Console, model: Path, data: str, proba: bool, output: str, only_prediction: bool,
    scheduler: str | None, **options: Any,
) -> None:  # fmt: skip
    """Predict the class, or the number, of each row of DATA by a MODEL file.

    Writes DATA with a further column 'prediction'. Without DATA, standard input is read. If DATA
    is a folder of tables, -o names a folder, which gets a table for each. If DATA holds the rows
    that the model learnt from, the score says little, and a note says so.
    """
    if only_prediction and options["keep"]:
        raise click.UsageError("--only-prediction and --keep contradict each other.")
    learner = _work.load_model(model)
    for method in ("predict", "predict_proba") if proba else ("predict",):
        if not hasattr(learner, method):
            name = type(getattr(learner, "steps", [("", learner)])[-1][1]).__name__
            raise Failure(
                f"{model}: {name} has no {method}. Learn by nca, knca, lmnn or mcml to predict "
                "classes, or by mlkr or nca-regressor to predict numbers."
            )
    keep = [] if only_prediction else options["keep"] or None
    if Path(data).is_dir():
        _of_folder(console, learner, data, output, "predict", keep, proba, scheduler, options)
        return
    _refuse_scheduler(scheduler)
    table = _work.read(data, options)
    frame, tally = _work.predicted(learner, table, proba, keep)
    facts: dict[str, Any] = {}
    if tally is not None:
        with _work.spoken_columns(table):
            seen = _neighbours.share_learnt(learner, table)
        facts = {**_scores(console, tally, seen), "n_rows": len(frame), "seen": seen}
    _work.write(console, frame, output, data, options["safe_cells"], facts)


def _scores(console: Console, tally: _work.Tally, seen: float) -> dict[str, float]:
    """Say how good predictions are, and whether that counts."""
    if seen >= _SEEN:
        console.note(
            f"{'All' if seen == 1 else f'{seen:.0%}'} of these rows are equal to rows that the "
            "model has learnt from, so that this score says little about new rows. Use "
            "`vicinal evaluate`."
        )
    scores = tally.scores()
    console.say(", ".join(f"{name}: {value:.4g}" for name, value in scores.items()))
    return scores


def _refuse_scheduler(scheduler: str | None) -> None:
    if scheduler is not None:
        raise click.UsageError("--scheduler is for a folder of tables. DATA is one table.")


def _of_folder(
    console: Console, learner: Any, data: str, output: str, method: str,
    keep: list[str] | None, proba: bool, scheduler: str | None, options: dict[str, Any],
) -> None:  # fmt: skip
    """Write a folder with the result for each table of a folder."""
    from vicinal.cli import _parts

    job = _parts.Job(method, keep, proba, options)
    done, n_files = _parts.run(console, learner, data, output, job, scheduler)
    facts: dict[str, Any] = {"data": data, "n_rows": done.n_rows, "n_files": n_files}
    if done.tally is not None:
        seen = done.seen / done.n_rows
        facts |= {**_scores(console, done.tally, seen), "seen": seen}
    files = "1 file" if n_files == 1 else f"{n_files} files"
    console.result(f"Wrote {done.n_rows} rows in {files} to {output}.", {**facts, "output": output})


@_options.command("""
vicinal neighbours model.vic new.csv --k 3 > nearest.csv
vicinal neighbours model.vic new.csv --table train.csv --show name,price --keep id
vicinal neighbours model.vic new.csv --table train.csv --json
""")
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("queries", type=_options.DATA_FILE, default="-")
@option("Search", "--k", Whole(1), "How many neighbours of each query.", default=5)
@option(
    "Search", "--table", _options.DATA_FILE, "The table to search and to show columns of, such as "
    "the one that MODEL was fitted to. Default: the rows that MODEL keeps.",
)  # fmt: skip
@option(
    "Search", "--label", str, "The column of --table with the label. Default: the one that MODEL "
    "learnt.", metavar="COLUMN",
)  # fmt: skip
@_options.FORMAT
@option(
    "Output", "--show", str, "Show only these columns of --table. May be repeated, or name several."
    " Default: all.", multiple=True, metavar="COLUMN",
)  # fmt: skip
@_options.KEEP
@_options.OUTPUT_TABLE
def neighbours(
    console: Console, model: Path, queries: str, k: int, table: str | None, output: str,
    **options: Any,
) -> None:  # fmt: skip
    """Find the nearest training rows of each row of QUERIES, in the metric of a MODEL file.

    Writes one line for each query and neighbour, nearest first: the numbers of both rows in their
    tables, from 0; the learnt distance; the class of the neighbour, or its number; and columns of
    --table. Without QUERIES, standard input is read. A row of QUERIES is no neighbour of itself if
    --table is the same file.
    """
    learner = _work.load_model(model)
    asked = _work.read(queries, {**options, "label": None})
    if table is None:
        if options["show"] or options["label"]:
            raise click.UsageError("--show and --label are columns of --table TRAIN.csv.")
        found = _neighbours.among_kept(learner, asked, k, model)
        frame = found.frame(asked, options["keep"])
    else:
        searched = _work.read(table, options).by_model(learner)
        found = _neighbours.among(learner, asked, searched, k, same_file(queries, table))
        frame = found.frame(asked, options["keep"], searched, options["show"])
    if console.as_json and output == "-":
        rows = frame.astype(object).to_dict("records")
        console.result("", {"model": model, "queries": queries, "k": k, "neighbors": rows})
        return
    _work.write(console, frame, output, queries, options["safe_cells"], {"model": model, "k": k})


@_options.command("""
vicinal info model.vic
vicinal info model.vic --json
""")
@click.argument("model", type=_options.MODEL_FILE)
def info(console: Console, model: Path) -> None:
    """Say what a MODEL file holds: the method, its parameters, columns, classes and versions.

    The file is read and its checksum compared, but the model is not made, so that this is safe for
    any file.
    """
    from vicinal.storage import describe

    facts = {"file": model, "bytes": model.stat().st_size, **describe(model)}
    console.result(_words(facts), facts)


def _words(facts: dict[str, Any]) -> str:
    """The facts for people: what is long is cut, and what is usual is left out."""
    about = facts["about"] or {}
    loss, out = about.get("loss"), about.get("left_out") or {}
    versions = (f"{name} {version}" for name, version in (facts["versions"] or {}).items())
    rows = {
        "model": f"{about.get('estimator', 'unknown')} ({facts['kind']}, format {facts['schema']})",
        "dimensions": _from_to(about),
        "iterations": about.get("n_iter"),
        "loss": f"{loss:.4g}" if isinstance(loss, int | float) else None,
        "label": about.get("target"),
        "classes": listed(about.get("classes") or ()),
        "columns": listed(name for name in about.get("feature_names_in") or () if name not in out),
        "left out": listed(f"{name} ({why})" for name, why in out.items()),
        "parameters": listed(_changed(about)),
        "written by": listed(versions),
        "size": f"{facts['bytes']:,} bytes, {len(facts['arrays'])} arrays",
    }
    return "\n".join(f"{name:<11} {text}" for name, text in rows.items() if text not in (None, ""))


def _from_to(about: dict[str, Any]) -> str | None:
    n, d = about.get("n_features_in"), about.get("n_components")
    columns = about.get("feature_names_in")
    encoded = f" after encoding {len(columns)} columns" if columns and len(columns) != n else ""
    return f"{n} to {d}{encoded}" if n and d else None


def _changed(about: dict[str, Any]) -> list[str]:
    """The parameters that are not at their defaults."""
    import inspect

    import vicinal

    given = about.get("parameters") or {}
    known = getattr(vicinal, str(about.get("estimator")), None)
    usual = {} if known is None else inspect.signature(known).parameters
    return [
        f"{name}={value!r}" for name, value in given.items()
        if name not in usual or usual[name].default != value
    ]  # fmt: skip
