"""Searches for the nearest rows, in the metric of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vicinal.cli import _work
from vicinal.cli._console import Failure

if TYPE_CHECKING:
    from vicinal.cli._tables import Table
    from vicinal.core.types import Array

_LOOKED_AT = 1000  # rows, to tell whether they were learnt from
_EQUAL = 1e-6  # distance of equal rows, for each unit of their length


@dataclass(frozen=True)
class Nearest:
    """The nearest rows of each query, nearest first, and their labels under a name, if known."""

    distances: Array
    rows: Array
    labels: Array | None
    name: str

    def frame(
        self, queries: Table, keep: Any, searched: Table | None = None, show: Any = ()
    ) -> Any:
        """One line for each query and neighbour, with columns of both tables."""
        import numpy as np
        import pandas as pd

        (n, k), flat = self.rows.shape, self.rows.ravel()
        at = np.repeat(np.arange(n), k)
        columns: dict[str, Any] = {"query": at}
        for name in _work.named_columns(keep, queries.X, "--keep"):
            columns[f"query {name}"] = queries.X[name].to_numpy()[at]
        columns |= {"rank": np.tile(np.arange(1, k + 1), n), "row": flat}
        columns["distance"] = self.distances.ravel().astype(np.float64)
        if self.labels is not None:
            columns[self.name] = self.labels.ravel()
        if searched is not None:
            shown = _work.named_columns(show, searched.X, "--show") or searched.X.columns
            for name in shown:
                spelt = f"row {name}" if name in columns else str(name)
                columns[spelt] = searched.X[name].to_numpy()[flat]
        return pd.DataFrame(columns)


def among_kept(model: Any, queries: Table, k: int, path: Path) -> Nearest:
    """Among the training rows that the model keeps."""
    import numpy as np

    learner = _work.last_step(model)
    if not hasattr(learner, "kneighbors"):
        raise Failure(
            f"{path}: {type(learner).__name__} keeps no training rows. Name the table to search: "
            "--table TRAIN.csv."
        )
    with _work.spoken_columns(queries):
        X = _prepared(model, queries)
    distances, rows = learner.kneighbors(X, k)
    labels = learner.training_labels(rows)
    if labels.dtype.kind == "f":  # they were standardised while they were learnt
        labels = np.array([float(f"{value:.12g}") for value in labels.ravel()])
    name = getattr(model, "target_name_", None)
    return Nearest(distances, rows, labels, name or ("class" if _classifies(model) else "value"))


def among(model: Any, queries: Table, searched: Table, k: int, same: bool) -> Nearest:
    """Among the rows of a table; if that is the ``same`` one, no row is its own neighbour."""
    import numpy as np

    from vicinal._search import finder
    from vicinal.estimators._metric import HistogramMixin
    from vicinal.metrics import Chi2Index

    with _work.spoken_columns(searched):
        points = np.asarray(model.transform(_work.known_columns(model, searched)))
    with _work.spoken_columns(queries):
        Z = np.asarray(model.transform(_work.known_columns(model, queries)))
    if k > len(points) - same:
        raise click.UsageError(f"--k: {searched.name} has {len(points)} rows. Got {k}.")
    if isinstance(_work.last_step(model), HistogramMixin):
        squared, near = Chi2Index(points).kneighbors(Z, k + same)
        distances = np.sqrt(squared)
    else:
        near, _ = finder("exact", points)(Z, k + same)
        distances = np.linalg.norm(points[near] - Z[:, None], axis=2)
    if same:
        others = near != np.arange(len(Z))[:, None]
        others[others.all(axis=1), -1] = False  # the row is not among its equals
        distances, near = (each[others].reshape(len(Z), k) for each in (distances, near))
    labels = None if searched.y is None else searched.y[near]
    return Nearest(distances, near, labels, searched.label or "")


def share_learnt(model: Any, table: Table) -> float:
    """About which share of the rows are equal to rows that the model has learnt from."""
    import numpy as np

    learner = _work.last_step(model)
    if not hasattr(learner, "kneighbors"):
        return 0.0
    chosen = np.unique(np.linspace(0, len(table.X) - 1, _LOOKED_AT).astype(int))
    X = _prepared(model, table)[chosen]
    distances = learner.kneighbors(X, 1)[0][:, 0]
    lengths = np.linalg.norm(learner.transform(X), axis=1)
    return float(np.mean(distances <= _EQUAL * np.maximum(lengths, 1e-12)))


def _prepared(model: Any, table: Table) -> Any:
    """The rows of a table as the last step of a model sees them."""
    X = _work.known_columns(model, table)
    if len(getattr(model, "steps", ())) > 1:
        return model[:-1].transform(X)
    return X.to_numpy()


def _classifies(model: Any) -> bool:
    return hasattr(_work.last_step(model), "classes_")
