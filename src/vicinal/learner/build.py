"""The pipeline for a table: impute, encode, scale, learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from vicinal._validation import refuse_elsewhere
from vicinal.estimators.chi2_lmnn import Chi2LMNN
from vicinal.estimators.from_labels import FromLabels
from vicinal.learner.columns import is_frame, n_rows, read_columns
from vicinal.learner.errors import ColumnError
from vicinal.learner.kinds import Uses, Wishes
from vicinal.learner.methods import find_method, usual_method
from vicinal.learner.pipeline import Learner, tell
from vicinal.learner.preparation import Settings, numbered, preparation, with_numbered_names
from vicinal.learner.sorting import sort_columns
from vicinal.learner.targets import (
    as_labels,
    as_target,
    check_target,
    refuse_missing_labels,
    rows_without_label,
    target_kind,
)


def make_learner(
    X: Any,
    y: Any = None,
    method: Any = None,
    *,
    task: str | None = None,
    n_components: Any = None,
    random_state: Any = None,
    numeric: Iterable[Any] = (),
    categorical: Iterable[Any] = (),
    ordinal: Iterable[Any] | Mapping[Any, Any] = (),
    text: Iterable[Any] = (),
    drop: Iterable[Any] = (),
    max_categories: int | None = 30,
    scaling: Any = "auto",
    strict: bool = False,
    verbose: int = 0,
    **params: Any,
) -> Learner:
    """Build the pipeline that learns from a table as it is: categories, gaps, text and numbers.

    The table is looked at, and nothing is fitted.

    Parameters
    ----------
    X : data frame of pandas or polars, array or sparse matrix of shape (n_samples, n_features)
        The rows to learn from.
    y : array-like of shape (n_samples,), default=None
        The labels or numbers, to check them against the method; they may also be given to ``fit``
        alone.
    method : str or estimator, default=None
        A name of ``vicinal.learner.METHODS``, or an estimator with its parameters.  Methods that
        learn from pairs draw them from the labels (:class:`vicinal.FromLabels`).  None: "vote", or
        "vote-regressor" if y holds numbers, on average the most accurate ones; with
        ``n_components``, or a parameter that a vote does not have, the single metric "nca" or
        "nca-regressor".
    task : {"classes", "numbers"}, default=None
        What y holds.  None: what the method learns; without a method, numbers if some have
        fractions or more than 20 are different, else classes.
    n_components : int, "auto" or None, default=None
        Rank of the map; None: the default of the method.
    random_state : int, RandomState or None, default=None
        For methods that draw something, and for the words of text columns.
    numeric, categorical, text, drop : names of columns, default=()
        Columns to be used as numbers, as categories, by their words, or not at all, whatever their
        values look like.  Columns of arrays are named by their position.
    ordinal : names of columns or mapping, default=()
        Columns whose values have an order, encoded as 0, 1, 2, ….  A mapping gives the order, from
        the lowest to the highest: ``{"size": ["S", "M", "L"]}``; names alone are enough where the
        type of the column has the order.
    max_categories : int or None, default=30
        Largest number of columns for one category; the rarer values share one.  None: no limit.
    scaling : {"auto", "standard", None} or a scaling of the method, default="auto"
        How columns are scaled (see the notes).  "standard" divides every column by its standard
        deviation; None leaves all as they are, as for pixels.
    strict : bool, default=False
        Refuse a table in which something would have to be left out or guessed.
    verbose : int, default=0
        That of the method, if it has one.
    **params
        Further parameters of the method.

    Returns
    -------
    learner : vicinal.learner.pipeline.Learner
        A ``Pipeline``, unfitted.  Its last step, "learn", is the estimator; the step "prepare"
        before it, if the table needs one, is a ``ColumnTransformer``.

    Raises
    ------
    vicinal.learner.errors.ColumnError
        If a column cannot be used: a ValueError that names the column, a row, its value, and the
        option that handles it.

    Notes
    -----
    What is done with a column that no option names:

    - Numbers and booleans: gaps are filled with the median.  If at least 1 % of the values are
      missing, and at least 5, another column says where.
    - Categories and strings that repeat: one column of zeros and ones for each value, a missing
      value among them.  Values that are new at prediction count as rare ones, or as none.
    - Ordered categories of pandas: 0, 1, 2, ….
    - Missing values: None, NaN, NaT, pandas.NA, nulls of polars and Arrow, masked values of NumPy,
      and texts such as "?", "-", "n/a", "NULL" and "#N/A" mean the same, in the fit and at
      prediction.
    - Numbers in text, such as "3,504", "$7954", "19.5 %", "1.234,5" and, if at least nine tenths
      end in the same unit, "84 kg": numbers.  More than 20 different ones among more than as many
      words: the words are missing.
    - Dates, also in text, with months in several languages, or as 20240131: year, month, weekday,
      hour and the days since the earliest, as far as they differ
      (:class:`vicinal.learner.dates.DateColumns`).
    - Lengths of time, such as "2h 30m", and times of the day: seconds.
    - Strings of three and more words that hardly repeat: TF-IDF of the words, reduced to 32
      components if there are many (:class:`vicinal.learner.text.TextColumns`).
    - Left out: columns without values or with one value only, row numbers, identifiers (strings
      of which more than half are different, and whole numbers that all differ if the name has "id"
      in it), copies of an earlier column.  Of an array of numbers only columns without values are
      left out.

    Whatever is left out or read in another way than it is stored is told in one line, a
    ``TableNote``; ``notes_`` and ``left_out_`` of the learner keep it.  How columns are read is
    decided here, from all rows of X, and never again: in the fit to a part of the rows and at
    prediction, a text in another format is missing, and a new category a rare one.  Rows without
    a label are left out of the fit, and those with a word where most labels are numbers.

    A table of numbers without gaps, of which nothing is left out, gives the same result, bit for
    bit, as the estimator alone, unless the method does not scale columns by itself: kSNE and kt-SNE
    get scaled columns, which ``scaling=None`` prevents.  With categories or text, numbers are
    divided by their standard deviation and zeros and ones are left as they are, instead of all
    being scaled by the method: two rows of different categories are then as far apart as two rows
    that differ in a number by 1.4 deviations, and a rare category does not outweigh a common one.

    Examples
    --------
    >>> import pandas as pd
    >>> from vicinal import make_learner
    >>> X = pd.DataFrame({
    ...     "weight": [4.1, 3.9, None, 5.2, 0.3, 0.2, 0.25, 0.4],
    ...     "coat": ["short", "long", "long", "short", "short", None, "bald", "short"],
    ... })
    >>> y = ["cat"] * 4 + ["mouse"] * 4
    >>> model = make_learner(X, y, n_components=1, random_state=0).fit(X, y)
    >>> model.predict(pd.DataFrame({"weight": [4.4, None], "coat": ["curly", "bald"]})).tolist()
    ['cat', 'mouse']
    """
    refuse_elsewhere("make_learner", X, "X")
    wishes = _wishes(numeric, categorical, ordinal, text, drop)
    if y is not None:
        check_target(y, n_rows(X))
        if strict:
            refuse_missing_labels(y)
    asked = [*params, *([] if n_components is None else ["n_components"])]
    task, method, notes = _task(y, task, method, asked)
    learn = _learner(method, n_components, random_state, verbose, dict(params))
    # Bins that are the same in all rows belong to the histograms.
    uses = _sorted(X, wishes, strict, is_frame(X) and not isinstance(learn, Chi2LMNN))
    if isinstance(learn, Chi2LMNN):
        _check_histograms(uses)
        scale = False
    else:
        scale = _share_scaling(learn, scaling, uses.only_numbers)
    settings = Settings(max_categories, random_state, scale)
    prepare = preparation(X, uses, settings, dropped=bool(wishes.drop))
    steps = [("learn", learn)] if prepare is None else [("prepare", prepare), ("learn", learn)]
    notes = [*_about_names(X), *uses.notes, *notes]
    tell(notes)
    return Learner(steps, task=task, left_out=uses.left_out, notes=notes)


def _sorted(X: Any, wishes: Wishes, strict: bool, named: bool) -> Uses:
    if strict and _about_names(X):
        raise ValueError(f"X has several columns of one name. {_about_names(X)[0]}")
    return sort_columns(read_columns(with_numbered_names(X)), wishes, named, strict)


def _about_names(X: Any) -> list[str]:
    """What is said about columns that have the name of an earlier one."""
    names = list(X.columns) if is_frame(X) else []
    both = zip(names, numbered(names), strict=True)
    return [f"Another column {name!r} is called {new!r}." for name, new in both if name != new]


def _task(
    y: Any, task: str | None, method: Any, asked: list[str]
) -> tuple[str | None, Any, list[str]]:
    """What is learnt, if something says so, by which method, and what is to be told of it."""
    if task not in (None, "classes", "numbers"):
        raise ValueError(
            "The 'task' parameter of make_learner must be 'classes', 'numbers' or None. "
            f"Got {task!r} instead."
        )
    if method is not None:
        learns = find_method(method).target if isinstance(method, str) else None
        if task is not None and learns is not None and (learns == "numbers") != (task == "numbers"):
            other = "'nca-regressor' or 'mlkr'" if task == "numbers" else "'nca'"
            raise ValueError(f"Method {method!r} does not learn {task}. Use method={other}.")
        return task, method, []
    if task is None and y is not None and getattr(y, "ndim", 1) == 1:
        task = target_kind(y)
        if task == "numbers":
            kept = as_labels(y)[~rows_without_label(y)]
            n = len(np.unique(as_target(kept, task)))
            told = f"The labels are {n} different numbers: they are predicted as numbers."
            told = f"{told} task='classes' takes each as a class."
            return task, usual_method(task, asked), [told]
    return task, usual_method(task or "classes", asked), []


def make_preparation(
    X: Any, *, numeric: Any = (), categorical: Any = (), ordinal: Any = (), text: Any = (),
    drop: Any = (), max_categories: int | None = 30, random_state: Any = None, scale: bool = True,
    strict: bool = False,
) -> Any:  # fmt: skip
    """The step "prepare" alone, a ``ColumnTransformer``; None if there is nothing to do.

    The options are those of `make_learner`; numbers are divided by their standard deviation if
    ``scale`` is True.
    """
    wishes = _wishes(numeric, categorical, ordinal, text, drop)
    uses = _sorted(X, wishes, strict, is_frame(X))
    settings = Settings(max_categories, random_state, scale)
    return preparation(X, uses, settings, dropped=bool(wishes.drop))


def _wishes(numeric: Any, categorical: Any, ordinal: Any, text: Any, drop: Any) -> Wishes:
    given = {"numeric": numeric, "categorical": categorical, "text": text, "drop": drop}
    for option, names in {**given, "ordinal": ordinal}.items():
        if isinstance(names, str):
            raise TypeError(
                f"The {option!r} parameter of make_learner must be a list of columns. "
                f"Got {names!r} instead; use [{names!r}]."
            )
    levels = dict(ordinal) if isinstance(ordinal, Mapping) else dict.fromkeys(ordinal)
    return Wishes(**{name: tuple(columns) for name, columns in given.items()}, ordinal=levels)


def _learner(
    method: Any, n_components: Any, random_state: Any, verbose: int, params: dict[str, Any]
) -> Any:
    """The estimator of the last step, with its parameters."""
    common = {"n_components": n_components, "random_state": random_state}
    common = {name: value for name, value in common.items() if value is not None}
    if verbose:
        common["verbose"] = verbose
    if not isinstance(method, str):
        if isinstance(method, type) or not hasattr(method, "fit"):
            raise TypeError(
                "The 'method' parameter of make_learner must be a name or an estimator. "
                f"Got {method!r} instead."
            )
        learn = clone(method)
        return learn.set_params(**_fitting(common, learn.get_params(), repr(method)), **params)
    info = find_method(method)
    known = info.parameters()
    for name in params:
        if name not in known:
            raise TypeError(
                f"Method {info.name!r} has no parameter {name!r}. It has {', '.join(known)}."
            )
    n_constraints = params.pop("n_constraints", None)
    learn = info.load()(**{**info.presets, **_fitting(common, known, repr(info.name)), **params})
    if info.target != "pairs":
        return learn
    return FromLabels(learn, n_constraints, random_state)


def _fitting(common: dict[str, Any], known: Any, method: str) -> dict[str, Any]:
    """The common parameters that a method has; a rank that it cannot have is an error."""
    if "n_components" in common and "n_components" not in known:
        raise ValueError(
            f"Method {method} learns a metric for all columns and has no 'n_components'. "
            f"Got {common['n_components']!r}; leave it out, or choose another method."
        )
    return {name: value for name, value in common.items() if name in known}


def _share_scaling(learn: BaseEstimator, scaling: Any, only_numbers: bool) -> bool:
    """Tell the estimator how to scale, and return whether columns are scaled before it."""
    names = learn.get_params()
    own = next((name for name in ("scaling", "learner__scaling") if name in names), None)
    if own is None:
        if scaling not in ("auto", "standard", None):
            raise ValueError(
                f"The 'scaling' parameter of make_learner must be 'auto', 'standard' or None for "
                f"{type(learn).__name__}, which does not scale by itself. Got {scaling!r} instead."
            )
        return scaling is not None
    # what is scaled robustly leaves zeros and ones as they are
    before = scaling == "auto" and not only_numbers and names[own] not in ("auto", "robust")
    if before or scaling != "auto":
        learn.set_params(**{own: None if before else scaling})
    return before


def _check_histograms(uses: Uses) -> None:
    others = [*uses.categories, *uses.codes, *uses.ordinal, *uses.dates, *uses.text]
    if others:
        raise ColumnError(
            others[0],
            "holds no numbers, but every row must be a histogram for method 'chi2-lmnn'",
            [("drop", "to leave it out")],
        )
