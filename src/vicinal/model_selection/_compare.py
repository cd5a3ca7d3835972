"""Methods side by side on held-out rows: cross-validation with the preparation inside the folds."""

from __future__ import annotations

import time
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
from vicinal.learner.methods import METHODS
from vicinal.learner.targets import as_labels, check_target, target_kind, with_labels
from vicinal.model_selection._comparison import Comparison
from vicinal.model_selection._rivals import Rival, make_rival

_FOR_CLASSES = ("euclidean", "pca", "lda", "nca")
_FOR_NUMBERS = ("euclidean", "pca", "mlkr")


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
    """Compare methods by what nearest neighbours under each of them get right on held-out rows.

    In every fold, each method is fitted to the training rows, together with its preparation of the
    columns (:func:`vicinal.make_learner`).  The held-out rows are then classified by a vote of
    their nearest training rows, with the same number of voters for all methods.  If a method has a
    ``predict`` of its own, that is scored too.  All methods get the same folds.

    Parameters
    ----------
    X : data frame of pandas or polars, array or sparse matrix of shape (n_samples, n_features)
        The table, with categories, gaps and text as they are.
    y : array-like of shape (n_samples,)
        Class labels, or numbers.
    methods : iterable, default=None
        What to compare: "euclidean" (columns scaled, nothing learnt), "pca", "lda", names of
        ``vicinal.learner.METHODS``, and pairs of a name and an estimator.  An estimator is prepared
        for as the methods are; a ``Pipeline`` is taken as it is.  None: "euclidean", "pca", "lda"
        and "nca", or, for numbers, "euclidean", "pca" and "mlkr".
    n_components : int, default=None
        Rank of all methods that have one.  None: the default of each; PCA then keeps 95 % of the
        variance, or 32 components of a sparse matrix.  LDA has at most one less than there are
        classes.
    cv : int, splitter or iterable, default=5
        Number of folds, stratified by class, or folds as in scikit-learn.
    repeats : int, default=1
        How often an int ``cv`` is drawn anew.
    n_neighbors : int, default=5
        Number of neighbours.
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
    standard errors have the correction of [Nadeau2003]_: the variance over the J folds is
    multiplied by ``1 / J + n_test / n_train``.  Compare methods by the column "difference", in
    which the luck of the folds cancels, and not by the errors of the single methods.

    Whether a column holds categories, numbers or text is decided once, from all rows; what is
    computed from the values, such as medians and scales, from the training rows alone.

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
    X, y = with_labels(X, y)
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
    if kind == "classes" and len(np.unique(y)) < 2:
        raise ValueError(f"compare_methods needs rows of at least 2 classes. All are {y[0]!r}.")
    if methods is None:
        methods = list(_FOR_CLASSES if kind == "classes" else _FOR_NUMBERS)
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
    folds = _folds(y, kind, cv, repeats, seed)
    n_folds, test_share = _compete(rivals, X, y, folds, time_budget, progress)
    plain = next((rival for rival in rivals if rival.name == "euclidean"), None)
    for rival in rivals:
        rival.repeat_warnings()
    cut = "" if n_folds == len(folds) else f" Time ran out after {n_folds} of {len(folds)} folds."
    return Comparison(
        results=[rival.result(plain, test_share) for rival in rivals],
        score_name="accuracy" if kind == "classes" else "R²",
        n_neighbors=n_neighbors,
        n_folds=n_folds,
        n_rows=len(y),
        complete=n_folds == len(folds),
        note=f"{len(y)} rows, {n_folds} folds, {n_neighbors} nearest neighbours; ± is a standard "
        "error that allows for overlapping training rows; differences are to Euclidean distance."
        f"{cut}",
    )


def _compete(
    rivals: list[Rival], X: Any, y: Array, folds: list[tuple[Array, Array]], budget: float | None,
    progress: Callable[[int, int, str], Any] | None,
) -> tuple[int, float]:  # fmt: skip
    """Fit and score all methods in the folds that there is time for.

    Returns the number of these folds, and the mean of the ratio of held-out to training rows.
    """
    began, n_fits, shares = time.perf_counter(), len(folds) * len(rivals), []
    limited = [rival.name for rival in rivals if rival.time_parameter]
    for i, (train, test) in enumerate(folds):
        spent = time.perf_counter() - began
        if budget is not None and i and spent * (1 + 1 / i) > budget:  # a mean fold would end late
            break
        for j, rival in enumerate(rivals):
            if progress is not None:
                progress(i * len(rivals) + j, n_fits, rival.name)
            if budget is not None and rival.time_parameter:
                n_left = (len(folds) - i) * len(limited) - limited.index(rival.name)
                left = budget - (time.perf_counter() - began)
                rival.budget = max(0.01, 0.9 * left / n_left)
            rival.compete(X, y, train, test)
        shares.append(len(test) / len(train))
    return len(shares), float(np.mean(shares))


def _kind_of(y: Array, methods: Iterable[Any]) -> str:
    """Whether y holds classes or numbers: numbers if a method learns them, or by its values."""
    named = (METHODS[each] for each in methods if isinstance(each, str) and each in METHODS)
    return "numbers" if any(info.target == "numbers" for info in named) else target_kind(y)


def _check_names(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or not names:
        problem = f"have different names. {twice[0]!r} is there twice" if names else "not be empty"
        raise ValueError(f"The methods of compare_methods must {problem}.")


def _folds(y: Array, kind: str, cv: Any, repeats: int, seed: int) -> list[tuple[Array, Array]]:
    if isinstance(cv, Integral):
        splitter = RepeatedStratifiedKFold if kind == "classes" else RepeatedKFold
        cv = splitter(n_splits=int(cv), n_repeats=repeats, random_state=seed)
    else:
        cv = check_cv(cv, y, classifier=kind == "classes")
    return list(cv.split(np.zeros(len(y)), y))
