"""Searches for the parameters of the margin methods, with scikit-learn's search classes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from vicinal.estimators.chi2_lmnn import Chi2LMNN, own_class_distance
from vicinal.estimators.lmnn import LMNN

_MU = (0.1, 0.3, 1.0, 3.0, 10.0)
_MU_OF_CHI2 = (0.3, 1.0, 3.0)
_SHARES = (0.05, 0.1, 0.2, 0.4)  # of the distance to the nearest row of the same class


def margin_search(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    mu: Any = None,
    margin: Any = None,
    search: Any = None,
    **kwargs: Any,
) -> Any:
    """Search for the best ``mu`` and ``margin`` of `LMNN` or `Chi2LMNN`.

    Parameters
    ----------
    estimator : LMNN, Chi2LMNN or Pipeline
        A pipeline must end in one of the two.  The estimator is cloned, never fitted itself.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows for the search and the final fit.
    y : array-like of shape (n_samples,)
        Class labels.
    mu : sequence of float, default=None
        Values to try.  None: 0.1, 0.3, 1, 3, 10 for `LMNN`, and 0.3, 1, 3 for `Chi2LMNN`.
    margin : sequence of float, default=None
        Values to try; for `Chi2LMNN` they may include "auto".  None: for `Chi2LMNN`, 0.05, 0.1, 0.2
        and 0.4 times the median χ² distance from a row to the nearest of its class
        (``margin="auto"`` is a sixth of it).  In a pipeline this distance is measured after the
        earlier steps, fitted to all of X.  For `LMNN`, None keeps the margin of the estimator.
    search : class, default=None
        The search class.  None: `sklearn.model_selection.GridSearchCV`.  Any class works that is
        constructed from an estimator and a dict of parameters, such as ``RandomizedSearchCV`` (mu
        and margin may then be distributions) or ``HalvingGridSearchCV``.
    **kwargs
        Its parameters: ``cv``, ``n_jobs``, ``scoring``, ``refit``, ….

    Returns
    -------
    search : GridSearchCV or an instance of the given class
        Fitted, with ``best_params_``, ``cv_results_`` and, fitted to all rows, ``best_estimator_``.

    Raises
    ------
    TypeError
        If the estimator is none of these, or ``search`` is not a class.
    ValueError
        If mu or margin holds a value that is not a positive number; the message names it.

    Notes
    -----
    The margin of `LMNN` is only a unit.  Multiply the margin by c and the map by √c: squared
    distances, the penalty ``alpha`` and the push are then all c times as large.  So the best maps
    of two margins differ only in scale, and have the same neighbours.  The columns of the map of
    `Chi2LMNN` sum to one, so its distances have a scale of their own and the margin matters
    ([OlsenPetersen] section 5, figure 3).

    Both parameters are searched together.  To search one at the best value of the other, as the
    report does, call the function twice; this is also cheaper::

        first = margin_search(estimator, X, y, margin=["auto"])
        second = margin_search(estimator, X, y, mu=[first.best_params_["mu"]])

    References
    ----------
    [OlsenPetersen] section 5

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from vicinal import Chi2LMNN
    >>> from vicinal.model_selection import margin_search
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> model = Chi2LMNN(5, max_iter=10, tol=1.0, random_state=0)
    >>> search = margin_search(model, X[:200], y[:200], mu=[0.3, 3.0], cv=2)
    >>> sorted(search.best_params_)
    ['margin', 'mu']
    >>> len(search.cv_results_["params"])
    8
    """
    search = GridSearchCV if search is None else search
    if not isinstance(search, type):
        raise TypeError(_wrong("search", "a class such as GridSearchCV", search))
    model, prefix = _last_step(estimator)
    grid: dict[str, Any] = {"mu": _MU_OF_CHI2 if isinstance(model, Chi2LMNN) else _MU}
    if mu is not None:
        grid["mu"] = _values("mu", mu)
    if margin is not None:
        grid["margin"] = _values("margin", margin, ("auto",) * isinstance(model, Chi2LMNN))
    elif isinstance(model, Chi2LMNN):
        unit = own_class_distance(_before_last(estimator, X, y), y, model.normalize)
        grid["margin"] = [share * unit for share in _SHARES]
    grid = {prefix + name: values for name, values in grid.items()}
    return search(estimator, grid, **kwargs).fit(X, y)


def _last_step(estimator: Any) -> tuple[Any, str]:
    """The estimator whose parameters are searched, and the prefix of their names."""
    name, model = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if not isinstance(model, LMNN | Chi2LMNN):
        what = "an LMNN, a Chi2LMNN or a Pipeline that ends in one"
        raise TypeError(_wrong("estimator", what, estimator))
    return model, f"{name}__" if name else ""


def _before_last(estimator: Any, X: Any, y: Any) -> Any:
    """The rows as the last step of a pipeline sees them."""
    if not isinstance(estimator, Pipeline) or len(estimator.steps) == 1:
        return X
    return clone(estimator[:-1]).fit_transform(X, y)


def _values(name: str, values: Any, others: tuple[str, ...] = ()) -> Any:
    """The values to try: a checked list, or the given distribution."""
    if hasattr(values, "rvs"):
        return values
    what = "a sequence of floats in (0.0, inf)" + "".join(f" or {other!r}" for other in others)
    tried = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else []
    if not tried:
        raise ValueError(_wrong(name, what, values))
    for value in tried:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not (value in others if isinstance(value, str) else number and 0 < value < math.inf):
            raise ValueError(_wrong(name, what, value))
    return tried


def _wrong(name: str, what: str, value: Any) -> str:
    return f"The {name!r} parameter of margin_search must be {what}. Got {value!r} instead."
