"""What pictures need of a fitted estimator, alone or at the end of a pipeline."""

from __future__ import annotations

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
    steps : Pipeline or None
        The steps before it.
    """

    def __init__(self, estimator: Any, owner: str) -> None:
        check_is_fitted(estimator)
        self.estimator, self.owner = estimator, owner
        self.learner, self.steps = estimator, None
        if isinstance(estimator, Pipeline):
            self.learner = estimator[-1]
            self.steps = estimator[:-1] if len(estimator) > 1 else None
        if not hasattr(self.learner, "transform"):
            raise ValueError(
                f"The 'estimator' parameter of {owner} must be an estimator with 'transform', or a "
                f"pipeline that ends in one. Got {type(self.learner).__name__} instead."
            )

    @property
    def name(self) -> str:
        """The name of the method."""
        return type(self.learner).__name__

    @property
    def numbers(self) -> bool | None:
        """True if the estimator learns from numbers; None if the target must tell."""
        return True if is_regressor(self.learner) else None

    @property
    def classes(self) -> Array | None:
        """The classes that were learnt, if there are any."""
        return getattr(self.learner, "classes_", None)

    def columns(self, X: Any) -> Any:
        """The rows as the learner gets them: numbers, dense or CSR."""
        if self.steps is not None:
            X = self.steps.transform(X)
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])

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
        return [str(name) for name in names]


def standardiser(X: Any) -> Any:
    """A scaler of columns to unit deviation; sparse rows are not centred."""
    return StandardScaler(with_mean=not sp.issparse(X))


def principal_components(X: Any, d: int, scale: bool = True) -> Any:
    """A fitted map to d principal components, of scaled columns unless ``scale`` is False.

    If there are fewer columns than d, the last coordinates are zero.
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
