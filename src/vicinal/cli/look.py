"""Commands that show what was learnt: ``vicinal plot`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import INTERRUPTED, OK, Console, Failure
from vicinal.cli._files import File
from vicinal.cli._learning import learn, watched
from vicinal.cli._options import Choice, ImageShape, Whole, add_options, option
from vicinal.learner import METHODS

_HELD_OUT = 0.3
_SHOWS_HELD_OUT = ("embedding", "regions", "accuracy")

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


_LISTED = "\n".join(f"{name:<12} {about}" for name, (_, about) in KINDS.items())


@_options.command(
    """
vicinal plot data.csv --label species -o picture.png
vicinal plot data.csv --label species --model model.vic --kind metric -o metric.svg
vicinal plot train.csv --label species --model model.vic --test test.csv
vicinal plot data.csv --label species --kind neighbors --row 12 -o row12.png
""",
    {"Pictures": _LISTED},
)
@click.argument("data", type=_options.DATA_FILE)
@_options.LABEL
@option("Table", "--test", _options.DATA_FILE, "A table of rows that were not learnt from.")
@_options.FORMAT
@_options.COLUMNS
@option(
    "Method", "--model", _options.MODEL_FILE, "Draw this model, which was fitted to DATA. Default: "
    "learn from 70 % of the rows and hold the others out.",
)  # fmt: skip
@_options.LEARNING
@add_options(
    option("Picture", "--kind", Choice("picture", KINDS), "What to draw; see below.",
           default="embedding"),
    option("Picture", "--row", Whole(0), "The row whose neighbours are drawn; 0 is the first."),
    option("Picture", "--dpi", Whole(20, 1200), "Dots per inch of a .png file.", default=150),
    _options.PROGRESS,
    option("Output", "-o --output", File("picture"), "The picture to write: .png, .svg or .pdf.",
           default=Path("picture.png")),
    _options.FORCE,
)  # fmt: skip
def plot(console: Console, data: str, output: Path, **options: Any) -> int:
    """Draw what was learnt from DATA.

    Dimensions: the picture 'regions' needs a map to two dimensions, and 'embedding' draws two or
    three; without --model and --dim, two are learnt.
    """
    kind = options["kind"]
    if (kind == "neighbors") != (options["row"] is not None):
        raise click.UsageError("--row and --kind neighbors belong together.")
    subject = _subject(console, data, options)
    _draw(kind, subject, options).savefig(output, dpi=options["dpi"])
    facts = {"picture": output, "kind": kind, "data": data, "model": options["model"],
             "interrupted": subject.interrupted}  # fmt: skip
    console.result(f"Picture: {output}", facts)
    return INTERRUPTED if subject.interrupted else OK


class _Subject(NamedTuple):
    """A fitted model and its rows: those that it learnt from, and those that it did not."""

    model: Any
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    label: str | None
    interrupted: bool = False


def _subject(console: Console, data: str, options: dict[str, Any]) -> _Subject:
    """The model of a file, or one that is learnt now, and its rows."""
    model = None if options["model"] is None else _work.load_model(options["model"])
    table = _work.read_labelled(data, options, model)
    X, y, X_test, y_test = table.X, table.y, None, None
    if options["test"] is not None:
        test = _work.read_labelled(options["test"], options, model)
        X_test, y_test = test.X, test.y
    if model is not None:
        return _Subject(model, X, y, X_test, y_test, table.label)
    drawn = {**options, "dim": options["dim"] or 2}  # so that the usual method is a single map
    options["method"] = _work.method_of(table, drawn)
    has_rank = "n_components" in METHODS[options["method"]].parameters()
    if not options["dim"] and has_rank and "n_components" not in dict(options["settings"]):
        options = {**options, "dim": 2}  # which can be drawn
    pipeline = _work.build(table, options)
    if options["kind"] == "rank":  # fits a map of each rank by itself
        return _Subject(pipeline, X, y, None, None, table.label)
    if options["test"] is None and options["kind"] in _SHOWS_HELD_OUT:
        X, y, X_test, y_test = _split(X, y, options["seed"])
    with _work.spoken_columns(table):
        outcome = learn(console, pipeline, X, y, options)
    return _Subject(pipeline, X, y, X_test, y_test, table.label, outcome.interrupted)


def _split(X: Any, y: Any, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows to learn from, and others; of each class the same share where it has enough rows."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    rows, strata = np.arange(len(X)), None
    if y is not None and y.dtype.kind != "f":
        _, counts = np.unique(y.astype(str), return_counts=True)
        strata = y if counts.min() >= 2 and len(counts) <= _HELD_OUT * len(rows) else None
    train, test = map(np.sort, train_test_split(
        rows, test_size=_HELD_OUT, stratify=strata, random_state=seed
    ))  # fmt: skip
    if y is None:
        return X.iloc[train], None, X.iloc[test], None
    return X.iloc[train], y[train], X.iloc[test], y[test]


def display(name: str) -> Any:
    """A class of `vicinal.plotting`, which draws to files only."""
    import matplotlib

    matplotlib.use("Agg")
    from vicinal import plotting

    return getattr(plotting, name)


def _draw(kind: str, of: _Subject, options: dict[str, Any]) -> Any:
    """The figure of a display."""
    made, more = display(KINDS[kind][0]), {}
    if kind in _SHOWS_HELD_OUT:
        more = {"X_test": of.X_test, "y_test": of.y_test}
    if kind == "embedding":
        more["target_name"] = of.label
    if kind == "neighbors":
        if options["row"] >= len(of.X):
            raise Failure(f"--row: the last row is {len(of.X) - 1}. Got {options['row']}.")
        more = {"row": options["row"]}
    make = made.from_ranks if kind == "rank" else made.from_estimator
    return make(of.model, of.X, of.y, **more).figure_


@_options.command("""
vicinal report data.csv --label species -o report.html
vicinal report data.csv --label species --method lmnn --model-out model.vic
vicinal report train.csv --model model.vic --test test.csv
vicinal report digits.csv --label digit --images 8x8 --title "Digits" -o digits.html
""")
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
def report(
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

    pipeline = None if model is None else _work.load_model(model)
    table = _work.read_labelled(data, options, pipeline)
    held_out = None if test is None else _work.read_labelled(test, options, pipeline)
    if pipeline is None:
        options["method"] = _work.method_of(table, options)
        pipeline = _work.build(table, options)
    with watched(console, pipeline, options) as watch, _work.spoken_columns(table):
        made = report(
            pipeline, table.X, table.y, images=images, title=title, target_name=table.label,
            source=table.name,
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
        "verdict": None if made.contents.verdict is None else made.contents.verdict.kind,
        "scores": [
            {"name": each.name, "mean": each.mean, "error": each.error, "learnt": each.learnt}
            for each in made.contents.scores
        ],
        "interrupted": watch.interrupted,
    }
    console.result("\n".join([*made.contents.sentences, f"Page: {output}"]), facts)
    return INTERRUPTED if watch.interrupted else OK
