"""The result of a comparison: scores by fold, their errors, and how it is printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.learner.errors import number_text

CLEAR = 2.0  # standard errors that a clear difference exceeds
_UNEVEN = 2.0  # the largest class has more than this many times the rows of the smallest
_RECALLS = 8  # classes whose recall is printed


def corrected_error(
    folds: Sequence[Array], test_share: float, extremes: tuple[float, ...] = ()
) -> float:
    """Standard error of the mean over folds whose training rows overlap ([Nadeau2003]_).

    The variance of the score of a fold is multiplied by ``1 / n_folds + n_test / n_train`` instead
    of ``1 / n_folds``.  That variance is taken between the folds, and is at least what the
    held-out rows of a fold give by themselves: few folds may agree by luck, and one fold has
    nothing to differ from.

    Parameters
    ----------
    folds : sequence of arrays
        For each fold the values of its held-out rows, whose mean is the score of the fold.
    test_share : float
        Held-out rows of a fold for each of its training rows.
    extremes : tuple of float
        The lowest and the highest value that a row can have, if there are such.  They count as two
        more rows, so that a few rows that are all right do not give an error of zero.
    """
    between = float(np.var([fold.mean() for fold in folds], ddof=1)) if len(folds) > 1 else 0.0
    rows = np.concatenate([*folds, np.asarray(extremes, np.float64)])
    within = float(np.var(rows)) / float(np.mean([len(fold) for fold in folds]))
    return math.sqrt((1.0 / len(folds) + test_share) * max(between, within))


def judged(difference: float, error: float) -> str:
    """ "better", "worse", or "level" if the difference is within two standard errors."""
    if abs(difference) <= CLEAR * error or math.isnan(error):
        return "level"
    return "better" if difference > 0 else "worse"


@dataclass(frozen=True)
class Predictions:
    """What a method predicted for rows that it had not learnt from.

    Attributes
    ----------
    rows : int array of shape (n,)
        Numbers of the rows in the table.
    codes : int array of shape (n,) or None
        Predicted classes, as positions in ``Comparison.classes``.
    values : float array of shape (n,) or None
        Predicted numbers.
    confidence : float array of shape (n,) or None
        The probability of the predicted class, where the method gives probabilities.
    """

    rows: Array
    codes: Array | None = None
    values: Array | None = None
    confidence: Array | None = None


@dataclass(frozen=True)
class MethodScores:
    """One method of a comparison.

    Attributes
    ----------
    name : str
    rival : bool
        Whether it is one of the usual methods that the others are compared with.
    scores : ndarray of shape (n_folds,)
        Accuracy, or R², of what ``predict`` gives for the held-out rows of each fold.  A method
        without ``predict`` is scored by a vote of the nearest neighbours in its space.
    mean, error : float
        Their mean and its corrected standard error.
    measures : dict
        Mean and corrected standard error of each measure that the method has: "accuracy",
        "balanced accuracy" and "log loss", or "R²" and "mean absolute error".
    knn_scores : ndarray of shape (n_folds,) or None
        The same as ``scores``, of a vote of the nearest neighbours in the learnt space; None if
        there is no such space, or if ``scores`` are that already.
    knn_mean, knn_error : float or None
    difference, difference_error : float or None
        Mean of ``scores`` minus that of the best rival on the same folds, and its corrected
        standard error; None for rivals, or if there are none.
    n_components : int or None
        Dimensions of the learnt space, in the last fold.
    seconds : float
        Time of all fits and predictions.
    recalls : dict or None
        The share of each class that was predicted right; None for numbers.
    even : tuple of float or None
        Accuracy and balanced accuracy if all classes had weighed alike in the predictions, as with
        ``priors="uniform"``; None for a method without priors.
    predictions : Predictions
        One for each row that was held out.
    warnings : list of str
        What the fits warned of, each once.
    """

    name: str
    rival: bool
    scores: Array
    mean: float
    error: float
    measures: dict[str, tuple[float, float]]
    knn_scores: Array | None
    knn_mean: float | None
    knn_error: float | None
    difference: float | None
    difference_error: float | None
    n_components: int | None
    seconds: float
    recalls: dict[str, float] | None
    even: tuple[float, float] | None
    predictions: Predictions
    warnings: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str | None:
        """ "better", "level" or "worse" than the best rival; None if there is none."""
        if self.difference is None or self.difference_error is None:
            return None
        return judged(self.difference, self.difference_error)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, without the predictions; NaN is None."""
        kept = {name: _plain(value) for name, value in vars(self).items() if name != "predictions"}
        measures = {
            name: {"mean": _plain(mean), "error": _plain(error)}
            for name, (mean, error) in self.measures.items()
        }
        return {**kept, "measures": measures, "verdict": self.verdict}


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
    best_rival : str or None
        The rival with the highest mean score, which the other methods are compared with.
    classes : list of str
        Names of the classes; empty for numbers.
    class_counts : list of int
        Rows of each class.
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
    notes : list of str
        What else the reader should know: what was left out, and what might help.
    """

    results: list[MethodScores]
    score_name: str
    best_rival: str | None
    classes: list[str]
    class_counts: list[int]
    n_neighbors: int
    n_folds: int
    n_rows: int
    complete: bool
    note: str
    notes: list[str]

    def __getitem__(self, name: str) -> MethodScores:
        """The scores of a method."""
        return {result.name: result for result in self.results}[name]

    @property
    def uneven(self) -> bool:
        """Whether some classes have many more rows than others."""
        counts = self.class_counts
        return len(counts) > 1 and max(counts) > _UNEVEN * max(1, min(counts))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, lists and strings, ready for JSON; NaN is None."""
        facts = {name: value for name, value in vars(self).items() if name != "results"}
        return {**facts, "results": [result.to_dict() for result in self.results]}

    def to_frame(self) -> Any:
        """A pandas data frame with one row for each method."""
        import pandas as pd

        rows = []
        for result in self.results:
            row = {name: value for name, value in vars(result).items() if name in _IN_FRAME}
            for name, (mean, error) in result.measures.items():
                if name != self.score_name:
                    row |= {name: mean, f"{name} error": error}
            rows.append(row)
        return pd.DataFrame(rows).set_index("name")

    def __str__(self) -> str:
        told = [*self._table(), ""]
        told += [self.sentence(result.name) for result in self.results if result.verdict]
        if self.uneven:
            told += [self._recalls(one) for one in self.results if not one.rival and one.recalls]
        return "\n".join([*told, *self.notes, "", self.note])

    def _table(self) -> list[str]:
        """The lines of the table; a column that no method has is left out."""
        against = f"vs {self.best_rival}"
        columns: dict[str, list[str]] = {
            "method": [one.name for one in self.results],
            self.score_name: [_shown(one.mean, one.error) for one in self.results],
        }
        for short, name in _SHORT.items():
            columns[short] = [_measure(one, name) for one in self.results]
        columns[f"{self.n_neighbors}-NN"] = [_shown(one.knn_mean, None) for one in self.results]
        columns[against] = [
            _shown(one.difference, one.difference_error, "+") for one in self.results
        ]
        columns["dim"] = [str(one.n_components or "") for one in self.results]
        columns["seconds"] = [f"{one.seconds:.1f}" for one in self.results]
        columns = {name: cells for name, cells in columns.items() if any(cells)}
        lines = [list(columns), *map(list, zip(*columns.values(), strict=True))]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip()
            for line in lines
        ]

    def sentence(self, name: str) -> str:
        """Whether a method is better than the best rival, in words."""
        one = self[name]
        assert one.difference is not None
        assert one.difference_error is not None
        unit = 100.0 if self.score_name == "accuracy" else 1.0
        digits, what = (1, " points") if unit == 100.0 else (3, "")
        by = f"{unit * abs(one.difference):.{digits}f} ± {unit * one.difference_error:.{digits}f}"
        if one.difference == 0.0:
            return f"{name}: no difference from the best rival, {self.best_rival}."
        if one.verdict == "level":
            return (
                f"{name}: no clear difference from the best rival, {self.best_rival}: {by}{what} "
                f"{'ahead' if one.difference > 0 else 'behind'}, within two standard errors."
            )
        return f"{name} is {one.verdict} than the best rival, {self.best_rival}, by {by}{what}."

    def _recalls(self, one: MethodScores) -> str:
        assert one.recalls is not None
        counts = dict(zip(self.classes, self.class_counts, strict=True))
        lowest = sorted(one.recalls, key=lambda name: one.recalls[name])  # type: ignore[index]
        shown = [f"{name} {one.recalls[name]:.0%} of {counts[name]}" for name in lowest[:_RECALLS]]
        more = f", and {len(lowest) - _RECALLS} more classes" if len(lowest) > _RECALLS else ""
        return f"{one.name}, recall by class: {', '.join(shown)}{more}."


_IN_FRAME = (
    "name", "rival", "mean", "error", "knn_mean", "knn_error", "difference", "difference_error",
    "n_components", "seconds",
)  # fmt: skip
#: further measures in the printed table, by short names
_SHORT = {
    "balanced": "balanced accuracy",
    "log loss": "log loss",
    "abs. error": "mean absolute error",
}


def _measure(one: MethodScores, name: str) -> str:
    if name not in one.measures:
        return ""
    mean = one.measures[name][0]
    return number_text(mean) if name == "mean absolute error" else f"{mean:.3f}"


def _shown(mean: float | None, error: float | None, sign: str = "") -> str:
    if mean is None:
        return ""
    known = error is not None and not math.isnan(error)
    return f"{mean:{sign}.3f} ± {error:.3f}" if known else f"{mean:{sign}.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | tuple):
        return [_plain(each) for each in list(value)]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
