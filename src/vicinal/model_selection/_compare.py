"""Methods side by side on held-out rows: cross-validation with the preparation inside the folds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from sklearn.utils import check_random_state

from vicinal.core.types import Array
from vicinal.learner.columns import n_rows
from vicinal.learner.methods import METHODS
from vicinal.learner.targets import as_labels, check_target, target_kind
from vicinal.model_selection._comparison import Comparison, MethodScores, corrected_error
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
        more than 50 different numbers that hardly repeat; else classes.
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
    y = as_labels(y)
    _check(cv=cv, repeats=repeats, n_neighbors=n_neighbors, time_budget=time_budget)
    methods = None if methods is None else list(methods)
    kind = _kind_of(y, methods, target)
    if kind == "classes" and len(np.unique(y)) < 2:
        raise ValueError(f"compare_methods needs rows of at least 2 classes. All are {y[0]!r}.")
    if methods is None:
        methods = list(_FOR_CLASSES if kind == "classes" else _FOR_NUMBERS)
    seed = random_state
    if not isinstance(random_state, Integral):
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    rivals = [
        make_rival(
            method, X, y, kind, n_components=n_components, random_state=seed, columns=columns
        )
        for method in methods
    ]
    _check_names([rival.name for rival in rivals])
    folds = _folds(X, y, kind, cv, repeats, seed)
    clock = _Clock(time_budget, len(folds), progress)
    shares = []
    for train, test in folds:
        if not clock.has_time_for_a_fold():
            break
        for rival in rivals:
            clock.begin(rival, rivals)
            rival.compete(X, y, train, test, n_neighbors, kind)
        clock.end_fold()
        shares.append(len(test) / len(train))
    complete = len(shares) == len(folds)
    results = _results(rivals, float(np.mean(shares)))
    for rival in rivals:
        rival.repeat_warnings()
    return Comparison(
        results=results,
        score_name="accuracy" if kind == "classes" else "R²",
        n_neighbors=n_neighbors,
        n_folds=len(shares),
        n_rows=len(y),
        complete=complete,
        note=_note(len(y), len(shares), len(folds), n_neighbors),
    )


class _Clock:
    """Divides the time among the fits, and tells how far they are."""

    def __init__(
        self, budget: float | None, n_folds: int, progress: Callable[[int, int, str], Any] | None
    ) -> None:
        self._began, self._budget, self._progress = time.perf_counter(), budget, progress
        self._n_folds, self._folds, self._fits = n_folds, 0, 0

    def _spent(self) -> float:
        return time.perf_counter() - self._began

    def has_time_for_a_fold(self) -> bool:
        """True for the first fold, and while the mean fold would end in time."""
        if self._budget is None or self._folds == 0:
            return True
        return self._spent() * (1 + 1 / self._folds) <= self._budget

    def begin(self, rival: Rival, rivals: Sequence[Rival]) -> None:
        """Tell of the fit to come, and give it its time."""
        n_fits = self._n_folds * len(rivals)
        if self._progress is not None:
            self._progress(self._fits, n_fits, rival.name)
        limited = [other for other in rivals if other.time_parameter]
        if self._budget is not None and rival in limited:
            place = limited.index(rival)
            fits = (self._n_folds - self._folds) * len(limited) - place
            rival.budget = max(0.01, 0.9 * (self._budget - self._spent()) / fits)
        self._fits += 1

    def end_fold(self) -> None:
        self._folds += 1


def _check(*, cv: Any, repeats: Any, n_neighbors: Any, time_budget: Any) -> None:
    """Refuse numbers out of range; folds of one's own cannot be repeated."""
    whole = {"repeats": (repeats, 1), "n_neighbors": (n_neighbors, 1)}
    if isinstance(cv, Integral):
        whole["cv"] = (cv, 2)
    elif repeats != 1:
        raise ValueError(_wrong("repeats", "1 if 'cv' is not an int", repeats))
    for name, (value, low) in whole.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise ValueError(_wrong(name, f"an int in [{low}, inf)", value))
    number = isinstance(time_budget, Real) and not isinstance(time_budget, bool)
    if time_budget is not None and not (number and time_budget > 0):
        raise ValueError(_wrong("time_budget", "a float in (0, inf) or None", time_budget))


def _wrong(name: str, what: str, value: Any) -> str:
    return f"The {name!r} parameter of compare_methods must be {what}. Got {value!r} instead."


def _kind_of(y: Array, methods: list[Any] | None, target: str | None) -> str:
    """Whether y holds classes or numbers."""
    if target is not None:
        if target not in ("classes", "numbers"):
            raise ValueError(_wrong("target", "'classes', 'numbers' or None", target))
        return target
    named = [METHODS[m] for m in methods or () if isinstance(m, str) and m in METHODS]
    if any(info.target == "numbers" for info in named):
        return "numbers"
    return target_kind(y)


def _check_names(names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice or not names:
        problem = f"have different names. {twice[0]!r} is there twice" if names else "not be empty"
        raise ValueError(f"The methods of compare_methods must {problem}.")


def _folds(
    X: Any, y: Array, kind: str, cv: Any, repeats: int, seed: int
) -> list[tuple[Array, Array]]:
    if isinstance(cv, Integral):
        splitter = RepeatedStratifiedKFold if kind == "classes" else RepeatedKFold
        cv = splitter(n_splits=int(cv), n_repeats=repeats, random_state=seed)
    else:
        cv = check_cv(cv, y, classifier=kind == "classes")
    return list(cv.split(np.zeros(len(y)), y))


def _results(rivals: list[Rival], test_share: float) -> list[MethodScores]:
    """The scores with their means and errors; Euclidean distance is what others are compared to."""
    plain = next((rival.scores for rival in rivals if rival.name == "euclidean"), None)
    results = []
    for rival in rivals:
        scores, own = np.array(rival.scores), np.array(rival.own)
        gain = None if plain is None or rival.name == "euclidean" else scores - np.array(plain)
        results.append(
            MethodScores(
                name=rival.name,
                scores=scores,
                mean=float(scores.mean()),
                error=corrected_error(scores, test_share),
                own_scores=own if len(own) else None,
                own_mean=float(own.mean()) if len(own) else None,
                own_error=corrected_error(own, test_share) if len(own) else None,
                difference=None if gain is None else float(gain.mean()),
                difference_error=None if gain is None else corrected_error(gain, test_share),
                n_components=rival.n_components,
                seconds=float(np.mean(rival.seconds)),
                warnings=list(rival.told),
            )
        )
    return results


def _note(n: int, done: int, wanted: int, n_neighbors: int) -> str:
    cut = "" if done == wanted else f" Time ran out after {done} of {wanted} folds."
    return (
        f"{n} rows, {done} folds, {n_neighbors} nearest neighbours; ± is a standard error that "
        f"allows for overlapping training rows; differences are to Euclidean distance.{cut}"
    )
