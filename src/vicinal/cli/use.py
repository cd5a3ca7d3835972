"""Commands that use a model file: ``vicinal transform``, ``predict`` and ``info``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import Console, Failure
from vicinal.cli._options import option
from vicinal.cli._work import listed


@_options.command("""
vicinal transform model.vic new.csv > embedded.csv
vicinal transform model.vic new.parquet --keep id,species -o embedded.parquet
cat new.csv | vicinal transform model.vic - | head
""")
@click.argument("model", type=_options.MODEL_FILE)
@click.argument("data", type=_options.DATA_FILE, default="-")
@_options.FORMAT
@_options.KEEP
@_options.OUTPUT_TABLE
def transform(console: Console, model: Path, data: str, output: str, **options: Any) -> None:
    """Map the rows of DATA by a MODEL file: one column for each dimension.

    In this space the Euclidean distance is the learnt one. Columns are found by name; others, such
    as the label, are left out. Without DATA, standard input is read.
    """
    learner = _work.load_model(model)
    table = _work.read(data, options)
    with _work.spoken_columns(table):
        Z = learner.transform(_work.known_columns(learner, table))
    frame = _work.places(learner, Z, table, options["keep"])
    _work.write(console, frame, output, data, options["safe_cells"])


@_options.command("""
vicinal predict model.vic new.csv > predicted.csv
vicinal predict model.vic new.csv --proba --keep id -o predicted.parquet
vicinal predict model.vic test.csv --label species
""")
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
def predict(
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
    loss = about.get("loss")
    versions = (f"{name} {version}" for name, version in (facts["versions"] or {}).items())
    rows = {
        "model": f"{about.get('estimator', 'unknown')} ({facts['kind']}, format {facts['schema']})",
        "dimensions": _from_to(about),
        "iterations": about.get("n_iter"),
        "loss": f"{loss:.4g}" if isinstance(loss, int | float) else None,
        "classes": listed(about.get("classes") or ()),
        "columns": listed(about.get("feature_names_in") or ()),
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
