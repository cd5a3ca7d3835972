"""Estimators that hold their training rows: ``kneighbors``, and classification with labels."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal._threads import single_threaded_blas
from vicinal._validation import (
    check_classes,
    check_label_types,
    check_number,
    check_option,
    check_rows,
    check_seed,
    check_weights,
    shaped,
)
from vicinal.core.points import like, to_host
from vicinal.core.types import Array, File, Matrix, MatrixLike, Target, Weights, is_auto
from vicinal.estimators._base import MetricLearner
from vicinal.estimators._metric import rows_of
from vicinal.fit.cost import PredictionCost, prediction_cost
from vicinal.fit.method import Data, RowNumbers, drop_weightless_rows
from vicinal.fit.report import with_callbacks
from vicinal.models.soft import MatchModel
from vicinal.models.stored import StoredRows
from vicinal.models.votes import NeighbourModel
from vicinal.targets import Labels


def can_predict(estimator: BaseEstimator) -> bool:
    """True, or an error that says why there is nothing to predict; unknown before a fit."""
    model = estimator._model
    if not isinstance(model, MatchModel):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} predicts nothing after a fit to matches, which have no "
        "classes. Use transform, kneighbors or score."
    )


def settle(model: BaseEstimator) -> None:
    """Choose now what a prediction would choose, once instead of in each block of rows."""
    final = model.steps[-1][1] if hasattr(model, "steps") else model
    rule = vars(final).get("rule")
    if rule == "draw":
        raise ValueError(
            f"The 'rule' parameter of {type(final).__name__} must be 'posterior' or 'knn' to "
            "predict blocks of rows. Got 'draw' instead, which would draw alike in every block. "
            "Draw from predict_proba."
        )
    if rule == "knn" and vars(final).get("n_neighbors") == "auto":
        final._set_voters()
        final._model.choose_voters()


class NeighbourSearchMixin:
    """Predictions from training rows, ``kneighbors`` and ``kneighbors_graph``."""

    rule: str
    n_neighbors: int | str | None
    #: allowed values of ``rule``
    _rule_names: ClassVar[tuple[str, ...]]
    #: allowed values of ``n_neighbors`` besides numbers
    _voters: ClassVar[tuple[str | None, ...]] = ("auto",)
    _map: Any
    _model: StoredRows
    _rows: RowNumbers

    def _check_rows(self, X: MatrixLike) -> Matrix:
        check_is_fitted(self, "n_components_")
        return rows_of(self, X)

    @property
    def n_neighbors_(self) -> int:
        """Number of voters of ``rule="knn"``."""
        check_is_fitted(self, "n_components_")
        self._model.set_voters(self.n_neighbors)
        settled = self._model.settled_n_neighbors
        if settled is None:  # no search here: `hasattr` and Tab completion come this way
            why = "it is chosen by the first prediction under rule='knn'"
            if self.n_neighbors == "local":
                why = "each row has its own; see local_n_neighbors"
            raise AttributeError(
                f"n_neighbors_ of {type(self).__name__} is not set for "
                f"n_neighbors={self.n_neighbors!r}: {why}."
            )
        return settled

    def _set_voters(self) -> None:
        """Apply ``n_neighbors``, which like ``rule`` may be changed after a fit."""
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)
        self._model.set_voters(self.n_neighbors)

    def _embedded(self, X: MatrixLike) -> Array:
        """Checked rows, embedded; applies the parameters of prediction."""
        X = self._check_rows(X)
        check_option(self, "rule", self._rule_names)
        self._set_voters()
        with single_threaded_blas():
            return self._map.embed(X)

    def _finish_model(self, deadline: float | None) -> None:
        if self.rule == "knn" and self._model.asked != "local" and self._model.is_here:
            self._model.choose_voters(deadline)

    @property
    def _chooses_votes(self) -> bool:
        return self.rule == "knn" and is_auto(self.n_neighbors)

    def kneighbors(
        self,
        X: MatrixLike | None = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
    ) -> tuple[Array, Array] | Array:
        """The nearest training rows of each row, in the learnt metric, nearest first.

        Memory is bounded: no array of all distances is made.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features), default=None
            Rows.  None: the training rows; none is its own neighbour.
        n_neighbors : int, default=None
            Number of neighbours k; None: as many as vote, ``n_neighbors_``.
        return_distance : bool, default=True
            Whether to return the distances too.

        Returns
        -------
        distances : ndarray of shape (n_queries, k)
            The learnt distances, as ``pair_distance`` has them; only if ``return_distance``.
        rows : int64 ndarray of shape (n_queries, k)
            Numbers of the rows in the X of ``fit``.  Rows of weight zero are not among them.  After
            ``partial_fit``: numbers in the stream, from 0, of rows that are remembered.
        """
        check_is_fitted(self, "n_components_")
        distances, near = self._nearest(X, n_neighbors, "kneighbors")
        return (distances, near) if return_distance else near

    def kneighbors_graph(
        self,
        X: MatrixLike | None = None,
        n_neighbors: int | None = None,
        mode: str = "connectivity",
    ) -> sp.csr_matrix:
        """The nearest training rows of each row as a sparse matrix.

        Parameters
        ----------
        X, n_neighbors
            As in :meth:`kneighbors`.
        mode : {"connectivity", "distance"}, default="connectivity"
            Entries of one, or the learnt distances.

        Returns
        -------
        graph : CSR matrix of shape (n_queries, n_samples)
            One column for each row of the X of ``fit``.
        """
        check_is_fitted(self, "n_components_")
        if mode not in ("connectivity", "distance"):
            raise ValueError(
                "The 'mode' parameter of kneighbors_graph must be 'connectivity' or 'distance'. "
                f"Got {mode!r} instead."
            )
        distances, near = map(to_host, self._nearest(X, n_neighbors, "kneighbors_graph"))
        entries = distances if mode == "distance" else np.ones_like(distances)
        ends = np.arange(0, near.size + 1, near.shape[1])
        return sp.csr_matrix(
            (entries.ravel(), near.ravel(), ends), shape=(len(near), self._rows.total)
        )

    def training_labels(self, rows: Any) -> Array:
        """The labels of training rows, or their numbers, as the model keeps them.

        Parameters
        ----------
        rows : int array of any shape
            Numbers of rows, as :meth:`kneighbors` returns them.

        Returns
        -------
        labels : ndarray of the same shape, with further axes if y has several columns
        """
        check_is_fitted(self, "n_components_")
        rows, numbers = np.asarray(rows), self._rows.numbers
        if numbers is not None:
            order = np.argsort(numbers)
            rows = order[np.searchsorted(numbers, rows, sorter=order)]
        return self._stored_labels()[rows]

    def _stored_labels(self) -> Array:
        """The label of each row of the model."""
        raise NotImplementedError

    def _nearest(self, X: MatrixLike, n_neighbors: int | None, caller: str) -> tuple[Array, Array]:
        Z = None if X is None else self._map.embed(self._check_rows(X))
        most = len(self._model.Z) - (Z is None)
        k: Any = n_neighbors
        if k is None:
            if self.n_neighbors == "local":
                raise ValueError(
                    f"The 'n_neighbors' parameter of {caller} must be an int in [1, {most}] where "
                    "that of the estimator is 'local'. Got None instead."
                )
            self._set_voters()
            k = min(self._model.n_neighbors, most)
        if not isinstance(k, Integral) or isinstance(k, bool) or not 1 <= int(k) <= most:
            raise ValueError(
                f"The 'n_neighbors' parameter of {caller} must be an int in [1, {most}]. "
                f"Got {n_neighbors!r} instead."
            )
        with single_threaded_blas():
            model = self._model if Z is None else self._model.beside(Z)
            distances, near = model.nearest(Z, int(k))
        numbers = self._rows.numbers
        near = near if numbers is None else numbers[near]
        return like(X, distances), like(X, near)

    @available_if(can_predict)
    def estimate_predict_cost(self, X: MatrixLike) -> PredictionCost:
        """Estimate the memory and time of a prediction of X without starting it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Only its shape and dtype count.

        Returns
        -------
        cost : PredictionCost
            ``memory_bytes`` beyond the input, at the peak of a prediction under the ``rule``, and
            approximate ``seconds``.

        Notes
        -----
        Memory is usually within a factor of two.  Time is rough, and a bound for the posterior,
        which leaves out training rows that are far away.  The search tree of votes, which the first
        prediction makes, and the choice of ``n_neighbors="auto"`` after a fit are not included; for
        ``n_neighbors="local"`` 50 voters are counted.
        """
        check_is_fitted(self, "n_components_")
        check_option(self, "rule", self._rule_names)
        self._set_voters()
        X = shaped(X)
        return prediction_cost(self._model, self.rule, X)


class LabelledLearner(NeighbourSearchMixin, ClassifierMixin, MetricLearner):
    """Learns a map from labelled rows, and classifies with their stored projections; not public."""

    #: allowed values of ``rule``: the posterior of the method, if it has one, or votes
    _rule_names: ClassVar[tuple[str, ...]] = ("posterior", "knn", "draw")
    classes_: Array
    _model: NeighbourModel

    def _target(self, codes: Array, weight: Array | None, n_classes: int) -> Target:
        """The target of the objective."""
        return Labels(codes, weight, classes=np.arange(n_classes))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self, "rule", self._rule_names)
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)

    def _check_data(self, X: MatrixLike, y: ArrayLike | None, sample_weight: Weights) -> Data:
        check_label_types(y)
        X, labels = check_rows(self, X, y, ensure_min_samples=2)
        weight = check_weights(sample_weight, len(labels))
        self._rows, X, labels, weight = drop_weightless_rows(X, labels, weight)
        self.classes_, codes = check_classes(labels, type(self).__name__)
        return Data(X, self._target(codes, weight, len(self.classes_)), self.classes_)

    def _stored_labels(self) -> Array:
        return self.classes_[self._model.labels.codes]

    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, *, resume_from: File | None = None) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds.  Rows
            and parameters must be the same; only ``verbose``, ``time_budget`` and
            ``n_jobs`` may differ.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, resume_from=resume_from)

    @available_if(can_predict)
    def predict_proba(self, X: MatrixLike) -> Array:
        """Class probabilities under the ``rule``: posterior of the model, or shares of the votes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        P : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; rows sum to one.
        """
        Z = self._embedded(X)
        with single_threaded_blas():
            return like(X, self._model.beside(Z).probabilities(Z, self.rule))

    @available_if(can_predict)
    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Natural logarithms of the class probabilities under the ``rule``.

        The posterior of NCA is computed in logarithms, so that classes far away are still told
        apart where their probability is zero in float64.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_P : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; minus infinity for a class without votes.
        """
        Z = self._embedded(X)
        with single_threaded_blas():
            return like(X, self._model.beside(Z).log_probabilities(Z, self.rule))

    @available_if(can_predict)
    def predict(self, X: MatrixLike) -> Array:
        """The class of highest probability under the ``rule``, or one drawn with them for "draw".

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self._predicted(X)
        return self.classes_[best]

    def _predicted(self, X: MatrixLike) -> Array:
        """The positions of the predicted classes in ``classes_``."""
        Z = self._embedded(X)
        with single_threaded_blas():
            P = self._model.beside(Z).probabilities(Z, self.rule)
        return P.argmax(axis=1) if self.rule != "draw" else _drawn(P, check_seed(self))


def _drawn(P: Array, rng: np.random.RandomState) -> Array:
    """A class for each row, drawn with the row's probabilities."""
    below = np.cumsum(P, axis=1)
    # The last sum may be 1 - 1e-16; a class of probability zero is never drawn.
    at = rng.uniform(size=len(P)) * below[:, -1]
    return np.argmax(below > at[:, None], axis=1)


def effective_n_neighbors(estimator: BaseEstimator, X: MatrixLike | None = None) -> Array:
    """Effective number of neighbours: exp of the entropy of a row's choice.

    It compares all pairs of rows, so it takes long if there are many: as long as a few
    evaluations of the loss.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
        Rows, all treated as new: a training row may choose itself, as in ``predict``.  None:
        the training rows, which do not choose themselves ([Goldberger2005]_ section 2); those
        of weight zero are left out.

    Returns
    -------
    n : ndarray of shape (n_samples,)
        Between 1 and the number of training rows.  Those of the training rows are kept once
        they are computed.
    """
    if X is None:
        check_is_fitted(estimator, "n_components_")
        return estimator._model.effective_n_neighbors
    X = estimator._check_rows(X)
    with single_threaded_blas():
        Z = estimator._map.embed(X)
        return estimator._model.beside(Z).effective_n_neighbors_of(Z)


def local_n_neighbors(estimator: BaseEstimator, X: MatrixLike) -> Array:
    """Number of training rows that vote on each row of X under ``n_neighbors="local"``.

    The effective number of neighbours at test time ([Goldberger2005]_ section 6): exp of the
    entropy of the row's choice among all training rows, rounded, at least 1.  It shows how
    local the decision is under any rule: small if some training rows are much nearer than the
    rest, large if none stands out.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows.  All are treated as new: a training row may choose itself, as in ``predict``.

    Returns
    -------
    k : ndarray of int of shape (n_samples,)
        Between 1 and the number of training rows.
    """
    X = estimator._check_rows(X)
    with single_threaded_blas():
        Z = estimator._map.embed(X)
        return estimator._model.beside(Z).local_n_neighbors(Z)


def check_k(estimator: BaseEstimator) -> None:
    """Check ``k``, the number of rows in learning; ``n_neighbors`` is that of voters."""
    check_number(estimator, "k", 1, integer=True, or_else=(None,))


def learnt_k(estimator: BaseEstimator) -> int:
    """The k to learn with: ``k``, else the number of voters, else the default.

    So a number given to one of the two parameters holds for both, as in other libraries.
    """
    if estimator.k is not None:
        return int(estimator.k)
    voters = estimator.n_neighbors
    return int(voters) if isinstance(voters, Integral) else estimator._default_k
