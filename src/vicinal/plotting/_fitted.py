"""What pictures need of a fitted estimator, alone or at the end of a pipeline, and of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from vicinal.core.types import Array
from vicinal.estimators.ksne import KSNE
from vicinal.plotting._matplotlib import bad

_PCA_ROWS = 50_000  # rows from which principal components are computed


class Fitted:
    """A fitted estimator, or a pipeline whose last step is one.

    Parameters
    ----------
    estimator : estimator or Pipeline
    owner : str
        The display that asks, for error messages.

    Attributes
    ----------
    learner : estimator
        The last step, which has the learnt map.
    name : str
        The name of the method.
    steps : Pipeline or None
        The steps before it.
    numbers : bool or None
        True if the estimator learns from numbers; None if the target must tell.
    classes : ndarray or None
        The classes that were learnt, if there are any.
    """

    def __init__(self, estimator: Any, owner: str) -> None:
        check_is_fitted(estimator)
        self.estimator = self.learner = estimator
        self.steps = None
        if isinstance(estimator, Pipeline):
            self.learner = estimator[-1]
            self.steps = estimator[:-1] if len(estimator) > 1 else None
        self.name = type(self.learner).__name__
        if not hasattr(self.learner, "transform"):
            raise ValueError(
                f"The 'estimator' parameter of {owner} must be an estimator with 'transform', or a "
                f"pipeline that ends in one. Got {self.name} instead."
            )
        self.numbers = True if is_regressor(self.learner) else None
        self.classes = getattr(self.learner, "classes_", None)

    def columns(self, X: Any) -> Any:
        """The rows as the learner gets them: numbers, dense or CSR."""
        if self.steps is not None:
            X = self.steps.transform(X)
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])

    def scaled(self, X: Any) -> Callable[[Any], Array]:
        """The function that measures the columns of rows in deviations of ``X``."""
        columns = self.columns(X)
        scaler = standardiser(columns).fit(columns)
        return lambda rows: dense(scaler.transform(self.columns(rows)))

    def embed(self, X: Any) -> Array:
        """The rows under the learnt map."""
        return np.asarray(self.estimator.transform(X))

    def feature_names(self, n_features: int) -> list[str]:
        """Names of the learner's columns."""
        names = getattr(self.learner, "feature_names_in_", None)
        if names is None and self.steps is not None:
            try:
                names = self.steps.get_feature_names_out()
            except (AttributeError, ValueError):  # a step that does not name its columns
                names = None
        if names is None or len(names) != n_features:
            return [f"x{i}" for i in range(n_features)]
        return [readable(str(name)) for name in names]


def readable(name: str) -> str:
    """scikit-learn's names of gaps and of rare categories, in words."""
    block, mark, column = name.partition("missingindicator_")
    if mark:
        return f"{block}{column} missing"
    start = name.removesuffix("_infrequent_sklearn")
    return name if start == name else f"{start}_other values"


class Rows:
    """The rows that were learnt from and held-out rows, or the latter alone.

    Attributes
    ----------
    y, held_out : ndarray or None
        The labels or numbers of all rows, and which rows are held out.
    """

    def __init__(
        self, owner: str, X: Any, y: Any, X_test: Any, y_test: Any, alone: bool = False
    ) -> None:
        parts = [(X_test, y_test, True)] if alone else [(X, y, False)]
        if not alone and (X_test is not None or y_test is not None):
            parts.append((X_test, y_test, True))
        self.tables = [table for table, _, _ in parts]
        known = [np.asarray(target) for _, target, _ in parts if target is not None]
        if any(table is None for table in self.tables) or 0 < len(known) < len(parts):
            raise bad(owner, "y_test", "given if and only if y and X_test are", y_test)
        self.y: Any = np.concatenate(known) if known else None
        self.held_out = None
        if X_test is not None:
            counts = [np.shape(table)[0] for table in self.tables]
            self.held_out = np.repeat([held_out for _, _, held_out in parts], counts)

    def of(self, function: Callable[[Any], Any]) -> Array:
        """The points of all rows under a function of tables."""
        return np.concatenate([np.asarray(function(table)) for table in self.tables])


def scales_columns(learner: Any) -> bool:
    """Whether a learner measures columns in standard deviations, or does not see their scales.

    The old metric, which it is compared with, then does so too.
    """
    given = learner.get_params()
    named = next((name for name in ("scaling", "learner__scaling") if name in given), None)
    return given[named] == "standard" if named else not isinstance(learner, KSNE)


def standardiser(X: Any) -> Any:
    """A scaler of columns to unit deviation; sparse rows are not centred."""
    return StandardScaler(with_mean=not sp.issparse(X))


def principal_components(X: Any, d: int, scale: bool = True) -> Any:
    """A fitted map to d principal components, of scaled columns unless ``scale`` is False.

    If there are fewer columns than d, there are fewer components.
    """
    n, D = X.shape
    rows = X if n <= _PCA_ROWS else X[np.sort(np.random.RandomState(0).permutation(n)[:_PCA_ROWS])]
    d = min(d, D, max(1, min(rows.shape) - sp.issparse(X)))
    pca = PCA(d, svd_solver="arpack" if sp.issparse(X) else "auto", random_state=0)
    found = make_pipeline(standardiser(X), pca) if scale else make_pipeline(pca)
    return found.fit(rows)


def dense(X: Any) -> Array:
    """Rows as a dense array."""
    return X.toarray() if sp.issparse(X) else np.asarray(X)
