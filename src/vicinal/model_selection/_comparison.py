"""The result of a comparison: scores by fold, their errors, and how it is printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal.core.types import Array


def corrected_error(scores: Array, test_share: float) -> float:
    """Standard error of a mean over folds whose training rows overlap; NaN for a single fold.

    The variance over the folds is multiplied by ``1 / n_folds + n_test / n_train`` instead of
    ``1 / n_folds`` ([Nadeau2003]_).
    """
    if len(scores) < 2:
        return math.nan
    return float(np.std(scores, ddof=1) * math.sqrt(1.0 / len(scores) + test_share))


@dataclass(frozen=True)
class MethodScores:
    """One method of a comparison.

    Attributes
    ----------
    name : str
    scores : ndarray of shape (n_folds,)
        Accuracy, or R², of nearest neighbours on the held-out rows of each fold.
    mean, error : float
        Their mean and its corrected standard error.
    own_scores : ndarray of shape (n_folds,) or None
        The same for the method's own ``predict``, if it has one.
    own_mean, own_error : float or None
    difference, difference_error : float or None
        Mean of ``scores`` minus that of Euclidean distance on the same folds, and its corrected
        standard error; None for Euclidean distance itself, or if it was not compared.
    n_components : int
        Dimensions in which the neighbours were searched for, in the last fold.
    seconds : float
        Mean time of a fit.
    warnings : list of str
        What the fits warned of, each once.
    """

    name: str
    scores: Array
    mean: float
    error: float
    own_scores: Array | None
    own_mean: float | None
    own_error: float | None
    difference: float | None
    difference_error: float | None
    n_components: int
    seconds: float
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings; NaN is None."""
        return {name: _plain(value) for name, value in vars(self).items()}


@dataclass(frozen=True)
class Comparison:
    """Methods compared on the same folds: the result of :func:`compare_methods`.

    ``str()`` gives a table of plain text.

    Attributes
    ----------
    results : list of MethodScores
        In the order in which the methods were given.
    score_name : {"accuracy", "R²"}
        What the scores are.
    n_neighbors : int
        Neighbours that vote, or whose mean is taken.
    n_folds : int
        Fits of each method: folds times repeats, or fewer if time ran out.
    n_rows : int
        Rows of the table.
    complete : bool
        False if ``time_budget`` ended the comparison before all folds were done.
    note : str
        How the scores were computed.
    """

    results: list[MethodScores]
    score_name: str
    n_neighbors: int
    n_folds: int
    n_rows: int
    complete: bool
    note: str

    def __getitem__(self, name: str) -> MethodScores:
        """The scores of a method."""
        return {result.name: result for result in self.results}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, ready for JSON; NaN is None."""
        facts = {name: value for name, value in vars(self).items() if name != "results"}
        return {**facts, "results": [result.to_dict() for result in self.results]}

    def to_frame(self) -> Any:
        """A pandas data frame with one row for each method."""
        import pandas as pd

        frame = pd.DataFrame([vars(result) for result in self.results]).set_index("name")
        return frame.drop(columns=["scores", "own_scores", "warnings"])

    def __str__(self) -> str:
        own = any(result.own_mean is not None for result in self.results)
        compared = any(result.difference is not None for result in self.results)
        lines = [["method", self.score_name]]
        lines[0] += ["difference"] * compared + ["own rule"] * own + ["dim", "seconds"]
        for result in self.results:
            line = [result.name, _shown(result.mean, result.error)]
            line += [_shown(result.difference, result.difference_error, "+")] * compared
            line += [_shown(result.own_mean, result.own_error)] * own
            lines.append([*line, str(result.n_components), f"{result.seconds:.1f}"])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in lines
        ]
        return "\n".join([*table, "", self.note])


def _shown(mean: float | None, error: float | None, sign: str = "") -> str:
    if mean is None:
        return ""
    known = error is not None and not math.isnan(error)
    return f"{mean:{sign}.3f} ± {error:.3f}" if known else f"{mean:{sign}.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    return None if isinstance(value, float) and math.isnan(value) else value
