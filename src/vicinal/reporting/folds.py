"""Cross-validated scores of the learnt metric beside other distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from vicinal.core.types import Array
from vicinal.learner.preparation import options_of
from vicinal.model_selection import compare_methods
from vicinal.model_selection._comparison import corrected_error
from vicinal.reporting.contents import Score
from vicinal.reporting.scores import Comparison, Gain, dims, has_fewer
from vicinal.reporting.subject import Part, learner_of

FOLDS = 5
_K = 5  # voters
_LABELS = {"euclidean": "Euclidean", "pca": "PCA", "lda": "LDA"}


def can_fold(y: Array, kind: str) -> bool:
    """Whether each fold has a row of every class, and rows to learn it from."""
    if kind == "numbers":
        return len(y) >= 4 * FOLDS
    return int(np.unique(y, return_counts=True)[1].min()) >= FOLDS


def by_folds(
    estimator: Any, part: Part, kind: str, name: str, d: int, images: bool, seconds: float | None
) -> Comparison:
    """Compare by cross-validation: everything is fitted anew in each fold.

    Parameters
    ----------
    estimator : estimator
        Its clones are fitted.
    part : Part
        All rows; each is held out once.
    kind : {"classes", "numbers"}
    name : str
        The learnt method.
    d : int
        Rank of the learnt map, for the other maps too.
    images : bool
        Whether columns are pixels, which are compared as they are.
    seconds : float or None
        Limit for all.
    """
    model = clone(estimator)
    if hasattr(learner_of(model), "set_callbacks"):
        learner_of(model).set_callbacks()  # those of the fit that is shown
    if not isinstance(model, Pipeline):
        model = Pipeline([("learn", model)])
    others = ["pca", "lda"] if kind == "classes" else ["pca"]
    methods: list[Any] = ["euclidean", *others, (name, model)]
    if images:
        centre = StandardScaler(with_std=False)
        methods[0] = ("euclidean", Pipeline([("centre", centre)]))
        methods[1] = ("pca", Pipeline([("pca", PCA(d, random_state=0))]))
    found = compare_methods(
        part.X,
        part.y,
        methods,
        n_components=d,
        cv=FOLDS,
        n_neighbors=_K,
        target=kind,
        random_state=0,
        time_budget=seconds,
        **_column_options(model, part.X),
    )
    scores = {}
    for one in found.results:
        rank = "" if one.name in ("euclidean", name) else f", {dims(one.n_components)}"
        label = _LABELS.get(one.name, one.name) + rank
        error = max(_known(one.error), _least(one.mean, len(part)) if kind == "classes" else 0.0)
        scores[one.name] = Score(label, one.mean, error, learnt=one.name == name)
    first = "pca" if has_fewer(d, found["euclidean"].n_components) else "euclidean"
    share = 1 / (FOLDS - 1)  # of the rows that a fold tests and learns from
    gains = []
    for other in dict.fromkeys([first, "euclidean"]):
        better = found[name].scores - found[other].scores
        error = max(_known(corrected_error(better, share)), 1.0 / len(part))  # one row more or less
        gains.append(Gain(scores[other].name, float(better.mean()), error))
    rule = "give the mean that predicts it" if kind == "numbers" else "vote on its class"
    note = (
        f"Cross-validation of {len(part):,} rows in {found.n_folds} of {FOLDS} folds: a row is "
        f"predicted by metrics that were not learnt from it; its {_K} nearest training rows {rule}."
        " ± is one standard error, which allows for the rows that the folds share."
    )
    listed = [scores[label] for label in dict.fromkeys([first, *scores])]
    return Comparison(listed, note, found.score_name, gains)


def _column_options(model: Pipeline, X: Any) -> dict[str, Any]:
    """How the learnt method uses the columns, so that the others use them alike."""
    prepare = model.named_steps.get("prepare")
    return options_of(prepare, X) if isinstance(prepare, ColumnTransformer) else {}


def _least(share: float, n: int) -> float:
    """The error of a share of n independent rows: folds that agree by luck do not make it less."""
    share = (share * n + 1) / (n + 2)
    return float(np.sqrt(share * (1 - share) / n))


def _known(error: float | None) -> float:
    """An error, or as large as a score if there was one fold only."""
    return 1.0 if error is None or np.isnan(error) else float(error)
