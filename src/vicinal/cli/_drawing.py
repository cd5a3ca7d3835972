"""What a picture shows: a model, the rows that it learnt from, and rows that it did not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vicinal.cli import _work
from vicinal.cli._console import Console
from vicinal.cli._exit import Failure
from vicinal.cli._learning import learn

_HELD_OUT = 0.3
_SHOWS_HELD_OUT = ("embedding", "regions", "accuracy")


@dataclass(frozen=True)
class Subject:
    """A fitted model and its rows."""

    model: Any
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    label: str | None
    interrupted: bool = False


def subject(console: Console, data: str, options: dict[str, Any]) -> Subject:
    """The model of a file, or one that is learnt now, and its rows."""
    table = _work.read(data, options)
    test = None if options["test"] is None else _work.read(options["test"], options)
    X, y, label = table.X, table.y, table.label
    X_test, y_test = (None, None) if test is None else (test.X, test.y)
    if options["model"] is not None:
        model = _work.load_model(options["model"])
        return Subject(model, X, y, X_test, y_test, label)
    options = {**options, "dim": options["dim"] or _default_rank(options)}
    pipeline = _work.build(table, options)
    if options["kind"] == "rank":  # fits a map of each rank by itself
        return Subject(pipeline, X, y, None, None, label)
    if test is None and options["kind"] in _SHOWS_HELD_OUT:
        X, y, X_test, y_test = _split(X, y, options["seed"])
    with _work.spoken_columns(table):
        outcome = learn(console, pipeline, X, y, _work.limits(options))
    return Subject(pipeline, X, y, X_test, y_test, label, outcome.interrupted)


def _default_rank(options: dict[str, Any]) -> int | None:
    """Two dimensions can be drawn; a metric of pairs has as many as there are columns."""
    from vicinal.learner import METHODS

    set_here = "n_components" in dict(options["settings"])
    has_rank = "n_components" in METHODS[options["method"]].parameters()
    return 2 if has_rank and not set_here else None


def _split(X: Any, y: Any, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows to learn from, and others; of each class the same share where it has enough rows."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    rows, strata = np.arange(len(X)), None
    if y is not None and np.asarray(y).dtype.kind != "f":
        _, counts = np.unique(np.asarray(y).astype(str), return_counts=True)
        strata = y if counts.min() >= 2 and len(counts) <= _HELD_OUT * len(rows) else None
    train, test = train_test_split(rows, test_size=_HELD_OUT, stratify=strata, random_state=seed)
    train.sort()
    test.sort()
    if y is None:
        return X.iloc[train], None, X.iloc[test], None
    return X.iloc[train], y[train], X.iloc[test], y[test]


def _display(name: str) -> Any:
    import matplotlib

    matplotlib.use("Agg")  # files only
    from vicinal import plotting

    return getattr(plotting, name)


def draw(name: str, kind: str, of: Subject, options: dict[str, Any]) -> Any:
    """The figure of a display."""
    display, more = _display(name), {}
    if kind in _SHOWS_HELD_OUT:
        more = {"X_test": of.X_test, "y_test": of.y_test}
    if kind == "embedding":
        more["target_name"] = of.label
    if kind == "neighbors":
        if options["row"] >= len(of.X):
            raise Failure(f"--row: the last row is {len(of.X) - 1}. Got {options['row']}.")
        more = {"row": options["row"]}
    make = display.from_ranks if kind == "rank" else display.from_estimator
    return make(of.model, of.X, of.y, **more).figure_


def scatter(places: Any, y: Any, label: str | None, title: str) -> Any:
    """The figure of an embedding."""
    return _display("EmbeddingDisplay").from_embeddings(
        {title: places}, y, target_name=label
    ).figure_  # fmt: skip
