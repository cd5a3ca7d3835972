"""From class labels to learners that take pairs or quadruplets."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags

from vicinal._validation import (
    check_discrete,
    check_label_types,
    check_number,
    check_rows,
    check_seed,
)
from vicinal.core.types import Array, MatrixLike, Seed
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.fit.resume import unchanged_on_error
from vicinal.maps.fitted import FittedLinear
from vicinal.targets.constraints import pairs_from_labels, quadruplets_from_labels


class FromLabels(LearntMetricMixin, BaseEstimator):
    """Fit a learner of pairs or quadruplets from class labels.

    Pairs of rows of the same class are similar, pairs of different classes are dissimilar; a
    quadruplet joins one of each.  They are drawn at random, without replacement
    (:func:`vicinal.targets.pairs_from_labels`), and handed to a clone of the learner.

    Parameters
    ----------
    learner : estimator
        One of :class:`ITML`, :class:`MMC`, :class:`SDML`, :class:`LSML`, :class:`PairNCA`, or any
        estimator with ``tuple_size`` 2 and ``fit(pairs, y)``, or ``tuple_size`` 4 and
        ``fit(quadruplets)``.  Its parameters can be set and searched as ``learner__gamma``.
    n_constraints : int, default=None
        Number of similar and of dissimilar pairs, or of quadruplets.  None: 20 times the squared
        number of classes [Davis2007]_, or all there are if these are fewer.
    random_state : int, RandomState or None, default=None
        Which pairs are drawn.  It also seeds a learner whose own ``random_state`` is None.
    unlabeled : label, default=None
        The label of rows whose class is not known, such as -1; they are in no pair.  None: every
        label is a class, negative ones too.

    Attributes
    ----------
    learner_ : estimator
        The fitted clone of ``learner``.
    constraints_ : int ndarray of shape (n_tuples, 2) or (n_tuples, 4)
        Indices of the rows in the pairs or quadruplets.
    components_ : ndarray of shape (n_components, n_features)
        That of ``learner_``, if its map is linear.
    classes_ : ndarray of shape (n_classes,)
        The classes.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    References
    ----------
    .. [Davis2007] J. V. Davis, B. Kulis, P. Jain, S. Sra, I. S. Dhillon, "Information-theoretic
       metric learning", ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from vicinal import FromLabels, ITML
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(FromLabels(ITML(), random_state=0), KNeighborsClassifier(3))
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    feature_importances_ = property(feature_importances)

    def __init__(
        self,
        learner: BaseEstimator,
        n_constraints: int | None = None,
        random_state: Seed = None,
        *,
        unlabeled: object = None,
    ) -> None:
        self.learner = learner
        self.n_constraints = n_constraints
        self.random_state = random_state
        self.unlabeled = unlabeled

    @unchanged_on_error
    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Draw constraints from the labels and fit the learner.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Class labels; there must be two classes, one of them with two rows.  Rows with the
            label ``unlabeled`` are left out.

        Returns
        -------
        self : FromLabels
        """
        size = getattr(self.learner, "tuple_size", None)
        if size not in (2, 4) or isinstance(self.learner, type):
            raise ValueError(
                "The 'learner' parameter of FromLabels must be an estimator that learns from pairs "
                f"or quadruplets, such as ITML() or LSML(). Got {self.learner!r} instead."
            )
        check_number(self, "n_constraints", 1, integer=True, or_else=(None,))
        rng = check_seed(self)
        if y is None:
            raise ValueError("FromLabels requires y to be passed, but the target y is None.")
        check_label_types(y)
        X, y = check_rows(self, X, y, ensure_min_samples=2)
        check_discrete(y)
        classes = np.unique(y)
        self.classes_ = classes if self.unlabeled is None else classes[classes != self.unlabeled]
        options = {"unlabeled": self.unlabeled, "random_state": rng}
        labels: list[Array] = []
        if size == 2:
            self.constraints_, *labels = pairs_from_labels(y, self.n_constraints, **options)
        else:
            self.constraints_ = quadruplets_from_labels(y, self.n_constraints, **options)
        self.learner_ = clone(self.learner)
        if getattr(self.learner_, "random_state", 0) is None:
            self.learner_.set_params(random_state=rng.randint(2**31 - 1))
        self.learner_.fit(_rows(X, self.constraints_), *labels)
        self.__dict__.pop("components_", None)
        self._map = self.learner_._map
        if isinstance(self._map, FittedLinear):
            self.components_ = self.learner_.components_
        self.n_components_ = self._map.n_components
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


def _rows(X: MatrixLike, indices: Array) -> Array:
    """The rows with these indices, dense: (n, size, n_features)."""
    rows = X[indices.ravel()]
    rows = rows.toarray() if sp.issparse(rows) else rows
    return rows.reshape(*indices.shape, -1)
