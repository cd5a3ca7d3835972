"""Methods side by side on held-out rows: cross-validation with the preparation inside the folds."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from sklearn.utils import check_random_state

from vicinal._validation import check_number, check_option, parameters_of
from vicinal.core.types import Array
from vicinal.learner.columns import n_rows
from vicinal.learner.methods import METHODS, usual_method
from vicinal.learner.targets import (
    as_labels,
    as_target,
    check_target,
    target_kind,
    with_labels,
)
from vicinal.model_selection._baselines import MOST_ROWS, usual_rivals
from vicinal.model_selection._comparison import Comparison, MethodScores
from vicinal.model_selection._rivals import Fold, Rival, make_rival

_MUCH = 0.05  # of balanced accuracy, which other priors would gain


def compare_methods(
    X: Any,
    y: Any,
    methods: Iterable[Any] | None = None,
    *,
    n_components: Any = None,
    cv: Any = 5,
    repeats: int = 1,
    n_neighbors: int = 5,
    target: str | None = None,
    random_state: Any = 0,
    time_budget: float | None = None,
    progress: Callable[[int, int, str], Any] | None = None,
    **columns: Any,
) -> Comparison:
    """Compare methods, and the usual rivals, by what they predict for rows they have not seen.

    In every fold, each method is fitted to the training rows, together with its preparation of the
    columns (:func:`vicinal.make_learner`), and predicts the held-out rows.  All methods get the
    same folds.  What counts is ``predict``; a vote of the nearest training rows in the learnt space
    is scored too, as a second figure.

    Parameters
    ----------
    X : data frame of pandas or polars, array or sparse matrix of shape (n_samples, n_features)
        The table, with categories, gaps and text as they are.
    y : array-like of shape (n_samples,)
        Class labels, or numbers.
    methods : iterable, default=None
        What to compare: names of rivals, names of ``vicinal.learner.METHODS``, and pairs of a name
        and an estimator.  An estimator is prepared for as the methods are; a ``Pipeline`` is taken
        as it is.  None: all rivals and the usual method of :func:`vicinal.make_learner`.  The
        rivals are

        - "majority" (for numbers "mean"): the most frequent class, whatever the row;
        - "euclidean" and "pca": nearest neighbours in the scaled columns and in their PCA;
        - "lda", "logistic" (for numbers "ridge"), "forest" and "boosting": the estimators of
          scikit-learn with its defaults.
    n_components : int, default=None
        Rank of all methods that have one.  None: the default of each; PCA then keeps 95 % of the
        variance, or 32 components of a sparse matrix.  LDA has at most one less than there are
        classes.
    cv : int, splitter or iterable, default=5
        Number of folds, stratified by class, or folds as in scikit-learn.
    repeats : int, default=1
        How often an int ``cv`` is drawn again.
    n_neighbors : int, default=5
        Neighbours that vote for methods without ``predict``, and for the second figure of others.
    target : {"classes", "numbers"}, default=None
        What y is.  None: numbers if one of the methods learns numbers, or if y has fractions or
        more than 20 different numbers; else classes.
    random_state : int, RandomState or None, default=0
        For the folds and all methods.
    time_budget : float, default=None
        Seconds for all.  Methods that can limit their time get an even share of what is left;
        folds that would begin too late are left out, the first one never.
    progress : callable, default=None
        ``progress(n_done, n_fits, name)`` is called before each fit.
    **columns
        Options of :func:`vicinal.make_learner` for columns: ``numeric``, ``categorical``,
        ``ordinal``, ``text``, ``drop``, ``max_categories``.

    Returns
    -------
    comparison : Comparison

    Notes
    -----
    The folds share training rows, so that the usual standard error would be too small.  All
    standard errors have the correction of [Nadeau2003]_: the variance of the score of a fold is
    multiplied by ``1 / J + n_test / n_train`` for J folds.  That variance is the larger one of what
    the folds show among each other and of what the rows show within them.  Each method is compared
    with the best rival, on the same rows, so that the luck of the folds cancels.  A difference of
    up to two standard errors is no clear one.

    Logistic regression, ridge regression, the forest and the boosted trees learn from at most
    10,000 rows.  With more than 50 classes no trees are boosted.  For the log loss no probability
    counts as less than one in the training rows plus one.

    Whether a column holds categories, numbers or text is decided once, from all rows; what is
    computed from the values, such as medians and scales, from the training rows alone.  Classes
    with fewer rows than folds are in as many folds as they have rows.

    References
    ----------
    .. [Nadeau2003] C. Nadeau, Y. Bengio, "Inference for the generalization error", Machine
       Learning 52, 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal.model_selection import compare_methods
    >>> X, y = load_wine(return_X_y=True)
    >>> found = compare_methods(X, y, ["euclidean", "pca", "rca"], n_components=2, cv=3)
    >>> [result.name for result in found.results]
    ['euclidean', 'pca', 'rca']
    >>> found["rca"].mean > found["pca"].mean
    True
    """
    check_target(y, n_rows(X))
    X, y, notes = with_labels(X, y, classes=target == "classes")
    y = as_labels(y)
    given = parameters_of(
        "compare_methods", cv=cv, repeats=repeats, n_neighbors=n_neighbors, target=target,
        time_budget=time_budget,
    )  # fmt: skip
    check_number(given, "repeats", 1, integer=True)
    check_number(given, "n_neighbors", 1, integer=True)
    check_number(given, "time_budget", 0, open_ends=True, or_else=(None,))
    check_option(given, "target", (None, "classes", "numbers"))
    if isinstance(cv, Integral):
        check_number(given, "cv", 2, integer=True)
    elif repeats != 1:
        raise ValueError(
            "The 'repeats' parameter of compare_methods must be 1 if 'cv' is not an int. "
            f"Got {repeats!r} instead."
        )
    methods = None if methods is None else list(methods)
    kind = target or _kind_of(y, methods or ())
    y = as_target(y, kind) if kind == "numbers" else y
    if kind == "classes" and len(np.unique(y)) < 2:
        raise ValueError(f"compare_methods needs rows of at least 2 classes. All are {y[0]!r}.")
    if methods is None:
        n_classes = len(np.unique(y)) if kind == "classes" else 0
        rank = [] if n_components is None else ["n_components"]
        methods = [*usual_rivals(kind, n_classes), usual_method(kind, rank)]
    seed = random_state
    if not isinstance(random_state, Integral):
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    rivals = [
        make_rival(
            method, X, y, kind, n_neighbors, n_components=n_components, random_state=seed,
            columns=columns,
        )
        for method in methods
    ]  # fmt: skip
    _check_names([rival.name for rival in rivals])
    splits = make_folds(y, kind, cv, repeats, seed, notes)
    folds = (Fold.of(X, y, train, test) for train, test in splits)
    return compete(rivals, folds, len(splits), kind, notes, time_budget, progress)


def compete(
    rivals: list[Rival], folds: Iterable[Fold], n_folds: int, kind: str, notes: list[str],
    budget: float | None = None, progress: Callable[[int, int, str], Any] | None = None,
) -> Comparison:  # fmt: skip
    """Score all methods on the folds that there is time for."""
    began, n_done, shares = time.perf_counter(), 0, []
    limited = [rival.name for rival in rivals if rival.time_parameter]
    n_rows, largest = 0, 0
    for i, fold in enumerate(folds):
        spent = time.perf_counter() - began
        if budget is not None and i and spent * (1 + 1 / i) > budget:  # a mean fold would end late
            break
        for j, rival in enumerate(rivals):
            if rival.failed is not None:
                continue
            if progress is not None:
                progress(i * len(rivals) + j, n_folds * len(rivals), rival.name)
            if budget is not None and rival.time_parameter:
                n_left = (n_folds - i) * len(limited) - limited.index(rival.name)
                left = budget - (time.perf_counter() - began)
                rival.budget = max(0.01, 0.9 * left / n_left)
            rival.compete(fold)
        n_done += 1
        shares.append(len(fold.y_test) / len(fold.y))
        n_rows, largest = len(fold.y) + len(fold.y_test), max(largest, len(fold.y))
    for failed in [rival for rival in rivals if rival.failed is not None]:
        if len(rivals) == 1 or all(rival.failed for rival in rivals):
            raise ValueError(f"Method {failed.name!r}: {failed.failed}")
        notes.append(f"{failed.called} was left out: it cannot learn from these rows.")
    rivals = [rival for rival in rivals if rival.failed is None]
    for rival in rivals:
        rival.repeat_warnings()
    few = [rival.called for rival in rivals if rival.most_rows and largest > rival.most_rows]
    if few:
        notes.append(f"{_listed(few)} learnt from {MOST_ROWS:,} of {largest:,} training rows.")
    best = max((rival for rival in rivals if rival.usual), key=lambda one: one.score, default=None)
    results = [rival.result(best, float(np.mean(shares))) for rival in rivals]
    classes, k = rivals[0].classes, rivals[0].n_neighbors
    counts = [] if classes is None else _class_counts(rivals[0], len(classes))
    notes += _about_priors(results)
    cut = "" if n_done == n_folds else f" Time ran out after {n_done} of {n_folds} folds."
    voted = any(one.knn_mean is not None for one in results)
    second = ""
    if voted:
        second = f"; {k}-NN is a vote of the {k} nearest rows in the space that a method learnt"
    return Comparison(
        results=results,
        score_name="R²" if classes is None else "accuracy",
        best_rival=None if best is None else best.name,
        classes=[] if classes is None else [str(name) for name in classes],
        class_counts=counts,
        n_neighbors=k,
        n_folds=n_done,
        n_rows=n_rows,
        complete=n_done == n_folds,
        note=f"{n_rows} rows, {n_done} {'fold' if n_done == 1 else 'folds'}: what each method "
        f"predicts for rows that it has not seen{second}. ± is one standard error, which allows "
        f"for overlapping training rows; a clear difference is larger than two.{cut}",
        notes=notes,
    )


def _class_counts(rival: Rival, n_classes: int) -> list[int]:
    """The held-out rows of each class, each row once."""
    rows = np.concatenate([held.rows for held in rival.held])
    truth = np.concatenate([held.truth for held in rival.held])
    return np.bincount(truth[np.unique(rows, return_index=True)[1]], minlength=n_classes).tolist()


def _about_priors(results: list[MethodScores]) -> list[str]:
    """Where it would change much if all classes weighed alike."""
    told = []
    for one in results:
        if one.even is None or one.rival:
            continue
        (accuracy, fair), now = one.even, one.measures
        if fair - now["balanced accuracy"][0] > _MUCH:
            told.append(
                f"{one.name}: priors='uniform' would weigh all classes alike: balanced accuracy "
                f"about {fair:.2f} instead of {now['balanced accuracy'][0]:.2f}, accuracy about "
                f"{accuracy:.2f} instead of {one.mean:.2f}."
            )
    return told


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _kind_of(y: Array, methods: Iterable[Any]) -> str:
    """Whether y holds classes or numbers: numbers if a method learns them, or by its values."""
    named = (METHODS[each] for each in methods if isinstance(each, str) and each in METHODS)
    return "numbers" if any(info.target == "numbers" for info in named) else target_kind(y)


def _check_names(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or not names:
        problem = f"have different names. {twice[0]!r} is there twice" if names else "not be empty"
        raise ValueError(f"The methods of compare_methods must {problem}.")


def make_folds(
    y: Array, kind: str, cv: Any, repeats: int, seed: int, notes: list[str]
) -> list[tuple[Array, Array]]:
    """The folds; those whose training rows are of one class are left out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        if isinstance(cv, Integral):
            n_splits = min(int(cv), len(y))
            if n_splits < int(cv):
                notes.append(f"There are {len(y)} rows, and as many folds.")
            counts = np.unique(y, return_counts=True)[1] if kind == "classes" else np.zeros(1)
            by_class = counts.max() >= n_splits
            splitter = RepeatedStratifiedKFold if by_class else RepeatedKFold
            cv = splitter(n_splits=n_splits, n_repeats=repeats, random_state=seed)
        else:
            cv = check_cv(cv, y, classifier=kind == "classes")
        folds = list(cv.split(np.zeros(len(y)), y))
    if kind != "classes":
        return folds
    found = [(train, test) for train, test in folds if len(np.unique(y[train])) > 1]
    if not found:
        raise ValueError(
            "compare_methods needs rows of at least 2 classes in the training rows of a fold. "
            "One of the two classes has a single row."
        )
    if len(found) < len(folds):
        notes.append(
            f"{len(folds) - len(found)} of {len(folds)} folds were left out: their training rows "
            "are all of one class."
        )
    return found
