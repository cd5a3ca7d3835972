"""Steps that several commands take: from a table to a learner, and from a model to a table."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from vicinal.cli._console import Console, Failure
from vicinal.cli._learning import Outcome, learn
from vicinal.learner import METHODS, usual_method
from vicinal.learner.errors import ColumnError, TableNote, near

if TYPE_CHECKING:
    from vicinal.cli._tables import Table


def read(data: str, options: dict[str, Any]) -> Table:
    """The table of a command."""
    from vicinal.cli._tables import read_table

    with warnings.catch_warnings():
        if options.get("strict_columns"):
            warnings.simplefilter("error", TableNote)
        try:
            return read_table(
                data, options.get("label"), sep=options["sep"], na=options["na"],
                header=options["header"], encoding=options["encoding"], safe=options["safe_cells"],
            )  # fmt: skip
        except TableNote as note:
            raise Failure(f"{note} --strict-columns refuses such a table.") from None


def read_labelled(data: str, options: dict[str, Any], model: Any = None) -> Table:
    """The rows of a table that have a label, if one is named, or known to the model."""
    table = read(data, options).by_model(model)
    return table.labelled(options["strict_columns"], options.get("task") == "classes")


def no_label(table: Table) -> click.UsageError:
    """The error for a table without a label column."""
    return click.UsageError(
        f"Name the column to learn: --label COLUMN. {table.name} has {listed(table.X)}."
    )


#: options that need a method with the parameter of this name
_NEEDS = {"dim": "n_components", "early_stopping": "early_stopping",
          "checkpoint": "warm_start", "resume": "warm_start"}  # fmt: skip


def parameters_asked(options: dict[str, Any]) -> list[str]:
    """The parameters that the options set, by which the usual method is chosen."""
    needed = [name for option, name in _NEEDS.items() if options.get(option)]
    return [*needed, *dict(options["settings"])]


def method_of(table: Table, options: dict[str, Any]) -> str:
    """The method that was asked for, or the usual one for what the label holds."""
    from vicinal.learner.targets import target_kind

    if options["method"] is not None:
        return str(options["method"])
    if table.y is None:
        raise no_label(table)
    task = options["task"] or target_kind(table.y)
    if task == "numbers" and options["task"] is None:
        note_numbers(table)
    return usual_method(task, parameters_asked(options))


def note_numbers(table: Table) -> None:
    """Say that the label is learnt as a number."""
    warnings.warn(
        f"Column {table.label!r} holds {table.n_different} different numbers and is learnt as a "
        "number; --task classes learns each as a class.",
        TableNote,
        stacklevel=2,
    )


def listed(items: Iterable[Any], most: int = 12) -> str:
    """The first of some items for a message, and how many more there are."""
    words = [str(item) for item in items]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def named_columns(given: Iterable[str], frame: Any, option: str) -> list[str]:
    """The columns that an option names: each by itself, or several with commas between them."""
    known, found = {str(name): name for name in frame.columns}, []
    for text in given:
        for name in [text] if text in known else [part.strip() for part in text.split(",")]:
            if name not in known:
                raise click.UsageError(
                    f"{option}: there is no column {name!r}.{near(name, known)} The columns are "
                    f"{listed(frame)}."
                )
            found.append(known[name])
    return found


def _orders(given: Iterable[str], frame: Any) -> dict[str, Any]:
    """``size=S,M,L`` as ``{"size": ["S", "M", "L"]}``."""
    orders: dict[str, Any] = {}
    for text in given:
        name, equals, levels = text.rpartition("=") if text.count("=") == 1 else text.partition("=")
        name = name if equals else text
        (column,) = named_columns([name], frame, "--ordinal")
        orders[column] = [level.strip() for level in levels.split(",")] if equals else None
    return orders


def column_options(table: Table, options: dict[str, Any]) -> dict[str, Any]:
    """The options about columns, as `make_learner` takes them."""
    wishes: dict[str, Any] = {
        name: named_columns(options[name], table.X, f"--{name}")
        for name in ("drop", "numeric", "categorical", "text")
    }
    return {**wishes, "ordinal": _orders(options["ordinal"], table.X)}


def settings_of(options: dict[str, Any], *also: str) -> dict[str, Any]:
    """The parameters of --set, with objects in place of names that only the command line has.

    The options in ``also`` are for the parameters of their names, as --dim is for n_components.
    """
    settings = dict(options["settings"])
    source = click.get_current_context().get_parameter_source
    for name, option in (("n_components", "dim"), *((name, name) for name in also)):
        if name in settings and source(option) is ParameterSource.COMMANDLINE:
            spelt = f"--{option.replace('_', '-')}"
            raise click.UsageError(f"{spelt} and --set {name} say the same: give one of them.")
    if "random_state" in settings:
        seed = settings["random_state"]
        seed = seed if type(seed) is int and seed >= 0 else "N, a whole number from 0 on"
        raise click.UsageError(
            f"--set random_state: --seed draws all that is random. Use --seed {seed}."
        )
    if settings.get("mapping") == "mlp":
        from vicinal.maps import MLP

        return {**settings, "mapping": MLP()}
    return settings


def make_pipeline(table: Table, method: str, settings: dict[str, Any], **options: Any) -> Any:
    """The pipeline of `make_learner`, with any parameter of the method."""
    from vicinal import make_learner

    # The parameter 'method' of kt-SNE has the name of one of make_learner's own.
    apart = {name: value for name, value in settings.items() if name == "method"}
    others = {name: value for name, value in settings.items() if name not in apart}
    made = make_learner(table.X, table.y, method, **options, **others)
    return made.set_params(**{f"learn__{name}": value for name, value in apart.items()})


def build(table: Table, options: dict[str, Any], scaling: Any = "auto", **more: Any) -> Any:
    """The pipeline that the options describe; ``more`` are parameters with options of their own."""
    method = options["method"]
    settings = {**more, **settings_of(options, "time_budget", "early_stopping", *more)}
    known = METHODS[method].parameters()
    for name in settings:
        if name not in known:
            raise click.UsageError(
                f"--set: {method} has no parameter {name!r}.{near(name, known)} It has "
                f"{', '.join(known)}."
            )
    if options["time_budget"] is not None and "time_budget" in known:
        settings["time_budget"] = options["time_budget"]
    if options.get("early_stopping"):
        if "early_stopping" not in known:
            raise click.UsageError(f"--early-stopping: {method} has no iterations to stop.")
        settings["early_stopping"] = True
    target = METHODS[method].target
    if target != "none" and table.y is None:
        raise no_label(table)
    if target not in ("none", "numbers"):
        table.check_classes()
    with spoken_columns(table):
        return make_pipeline(
            table, method, settings, n_components=settings.pop("n_components", options["dim"]),
            task=options.get("task"), random_state=options["seed"],
            strict=options["strict_columns"], scaling=scaling, **column_options(table, options),
        )  # fmt: skip


def known_columns(model: Any, table: Table) -> Any:
    """The columns that a model knows, by name; others, such as the label, are left out."""
    from vicinal.learner.preparation import check_new_rows

    check_new_rows(model, table.X)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return table.X
    here = {str(column) for column in table.X.columns}
    missing = [str(name) for name in names if str(name) not in here]
    # A step that prepares columns says itself which it needs: not those that it drops.
    if missing and len(getattr(model, "steps", ())) < 2:
        raise Failure(
            f"{table.name} has no column {missing[0]!r}, which the model was fitted to."
            f"{near(missing[0], here)} It has {listed(table.X)}."
        )
    return table.X[[name for name in names if str(name) in here]]


@contextmanager
def spoken_columns(table: Table) -> Iterator[None]:
    """Errors about columns name options of the command line and lines of the file."""
    try:
        yield
    except ColumnError as error:
        raise Failure(error.text(_spelt, table.place) + _corrected(error)) from error


def _spelt(name: str, column: Any, value: Any) -> str:
    words = {"ordinal": f"{column}=LOWEST,…,HIGHEST", "na": str(value)}
    return f"--{name} {shlex.quote(words.get(name, str(column)))}"


def _corrected(error: ColumnError) -> str:
    """The whole command with the first remedy for each column, if all have one."""
    options = []
    for each in (error, *error.others):
        known = [
            name for name, _ in each.remedies if not name.startswith("=") and name != "ordinal"
        ]
        options += [_spelt(known[0], each.column, each.value)] if known else []
    context = click.get_current_context(silent=True)
    if context is None or len(options) <= len(error.others):
        return ""
    words = shlex.join(["vicinal", *context.obj.words])
    return f"\nFor example: {' '.join([words, *dict.fromkeys(options)])}"


def fit(console: Console, pipeline: Any, table: Table, options: dict[str, Any]) -> Outcome:
    """Fit the pipeline as the options say."""
    with spoken_columns(table):
        return learn(console, pipeline, table.X, table.truth, options)


def save(pipeline: Any, path: Path) -> None:
    """Write the model file."""
    import vicinal

    try:
        vicinal.save(pipeline, path)
    except OSError as error:  # it names the temporary file next to the path
        raise Failure(f"{path}: the model cannot be written: {error.strerror}.") from error


#: what the blocks of `make_learner` are for people
_KINDS = {
    "gaps": "numbers with gaps",
    "ordinal": "ordered values",
    "categories": "categories",
    "codes": "numbers as categories",
}


def size(table: Table, pipeline: Any) -> dict[str, Any]:
    """Rows, columns and what they are used as, classes and dimensions."""
    from vicinal.learner.preparation import columns_used

    used = columns_used(pipeline) or {"numbers": list(table.X.columns)}
    classes = getattr(pipeline.steps[-1][1], "classes_", None)
    return {
        "label": table.label,
        "n_rows": len(table.X),
        "n_columns": sum(map(len, used.values())),
        "columns": {name: [str(column) for column in columns] for name, columns in used.items()},
        "n_classes": None if classes is None else len(classes),
        "n_components": int(pipeline.transform(table.X.iloc[:1]).shape[1]),
    }


def sentence(facts: dict[str, Any]) -> str:
    """What was learnt from what."""
    source = "standard input" if facts["data"] == "-" else facts["data"]
    target = f", the column {facts['label']!r}" if facts["label"] else ""
    classes = f" of {facts['n_classes']} classes" if facts["n_classes"] else ""
    used = "; ".join(
        f"{_KINDS.get(kind, kind)}: {listed(columns, 8)}"
        for kind, columns in facts["columns"].items()
    )
    return (
        f"Learnt {facts['method']} from {source}: {facts['n_rows']} rows, {facts['n_columns']} "
        f"columns{target}{classes}; {facts['n_components']} dimensions.\n"
        f"Columns: {used}."
    )


def load_model(path: Path) -> Any:
    """The model of a file."""
    import vicinal

    return vicinal.load(path)


def mapped(model: Any, table: Table) -> Table:
    """The rows of a table in the space that a model learnt."""
    with spoken_columns(table):
        Z = model.transform(known_columns(model, table))
    return replace(table, X=places(model, Z, table, []))


def places(model: Any, Z: Any, table: Table, keep: Sequence[str]) -> Any:
    """Places of the rows as a data frame, after the columns that are kept."""
    import pandas as pd

    last = last_step(model)
    if hasattr(last, "get_feature_names_out"):
        names = [str(name) for name in last.get_feature_names_out()]
    else:
        names = [f"dim{j + 1}" for j in range(Z.shape[1])]
    return _beside(table, keep, pd.DataFrame(Z, columns=names))


def last_step(model: Any) -> Any:
    """The estimator of a model."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


class Tally(NamedTuple):
    """What the score of predictions is computed from, so that parts of a table can be added.

    ``spread`` is the sum of the squared differences of the true numbers from their mean, and
    ``squares`` and ``absolutes`` are those of the predictions from the true numbers.
    """

    n: int
    correct: int
    numbers: bool = False
    mean: float = 0.0
    spread: float = 0.0
    squares: float = 0.0
    absolutes: float = 0.0

    def plus(self, other: Tally) -> Tally:
        """The tally of both."""
        n, apart = self.n + other.n, other.mean - self.mean
        return Tally(
            n, self.correct + other.correct, self.numbers, self.mean + apart * other.n / n,
            self.spread + other.spread + apart**2 * self.n * other.n / n,
            self.squares + other.squares, self.absolutes + other.absolutes,
        )  # fmt: skip

    def scores(self) -> dict[str, float]:
        """The accuracy, or R² and the mean absolute error."""
        if not self.numbers:
            return {"accuracy": self.correct / self.n}
        # as scikit-learn: of numbers that do not vary, 1 for perfect predictions and 0 for others
        share = self.squares / self.spread if self.spread else float(self.squares > 0)
        return {"r2": 1.0 - share, "mean_absolute_error": self.absolutes / self.n}


def predicted(
    model: Any, table: Table, proba: bool, keep: Sequence[str] | None
) -> tuple[Any, Tally | None]:
    """Predictions as a data frame, and their tally if the truth is known."""
    import pandas as pd

    with spoken_columns(table):
        X = known_columns(model, table)
        guesses = model.predict(X)
        frame = pd.DataFrame({"prediction": guesses})
        if proba:
            shares = model.predict_proba(X)
            for name, share in zip(model.classes_, shares.T, strict=True):
                frame[f"p({name})"] = share
    tally = None if table.y is None else _tally(table.y, guesses, hasattr(model, "classes_"))
    return _beside(table, keep, frame), tally


def _tally(y: Any, guesses: Any, classes: bool) -> Tally | None:
    """The tally of the rows whose truth is known; None if there are none."""
    import numpy as np

    from vicinal.learner.targets import as_target, rows_without_label

    known = ~rows_without_label(y)
    if not known.any():
        return None
    truth, guesses = as_target(y[known], "classes" if classes else "numbers"), guesses[known]
    if classes:
        if (truth.dtype.kind in "OU") != (guesses.dtype.kind in "OU"):
            truth, guesses = truth.astype(str), guesses.astype(str)
        return Tally(len(truth), int(np.sum(truth == guesses)))
    truth = truth.astype(np.float64)
    mean, error = float(truth.mean()), guesses - truth
    spread = float(np.sum((truth - mean) ** 2))
    squares, absolutes = float(error @ error), float(np.sum(np.abs(error)))
    return Tally(len(truth), 0, True, mean, spread, squares, absolutes)


def _beside(table: Table, keep: Sequence[str] | None, frame: Any) -> Any:
    """The kept columns of the table, the label among them, and then the frame; None keeps all."""
    import pandas as pd

    whole = table.whole
    kept = list(whole.columns) if keep is None else named_columns(keep, whole, "--keep")
    twice = [name for name in kept if name in frame.columns]
    if keep is None and twice:  # a table that was predicted before
        warnings.warn(f"Column {twice[0]!r} of {table.name} is replaced.", stacklevel=2)
        kept = [name for name in kept if name not in twice]
    return pd.concat([whole[kept].reset_index(drop=True), frame], axis=1)


def write(
    console: Console, frame: Any, output: str, data: str, safe: bool,
    facts: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write a table; with --json, an object about it, which holds the rows if there is no file."""
    told = {"data": data, "n_rows": len(frame), "columns": list(frame.columns), **(facts or {})}
    if console.as_json and output == "-":
        console.result("", {**told, "rows": frame.to_numpy().tolist()})
        return
    from vicinal.cli._tables import write_table

    write_table(output, frame, safe=safe)
    if output != "-":
        console.result(f"Wrote {len(frame)} rows to {output}.", {**told, "output": output})
