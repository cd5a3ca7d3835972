"""Several learnt metrics and one vote, as a classifier and as a regressor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from vicinal._threads import single_threaded_blas
from vicinal._validation import check_classes, check_label_types, check_rows, check_weights
from vicinal.core.types import Array, MatrixLike, Weights
from vicinal.estimators._regressor import Outputs, checked_numbers
from vicinal.estimators._votes import Members, MetricVoteBase
from vicinal.fit.method import Data, drop_weightless_rows
from vicinal.fit.resume import seed_of, unchanged_on_error
from vicinal.fit.vote import even_folds, score_classes, score_numbers, stratified_folds
from vicinal.models.vote import VoteModel, VoteRegressionModel
from vicinal.targets import Labels, Numbers


class MetricVote(ClassifierMixin, MetricVoteBase):
    r"""Several learnt metrics and one vote: more accurate than each of them.

    Each member learns a map on the rows outside of each fold.  Rows that are held out choose the
    scale :math:`s_m` of its kernel and its weight :math:`w_m`:

    .. math:: P(c \mid x) = \sum_m w_m \frac1F \sum_{f=1}^F
              \frac{\sum_{j : y_j = c} e^{-s_m \|\varphi_{mf}(x) - \varphi_{mf}(x_j)\|^2}}
                   {\sum_j e^{-s_m \|\varphi_{mf}(x) - \varphi_{mf}(x_j)\|^2}}, \qquad
              w_m \propto e^{J_m / 0.02}, \quad J = \text{accuracy} - 0.3\, \text{log loss}.

    All training rows vote, whether or not a map has learnt from them.  After one fold the better
    half of the members goes on.  Distances, neighbours and ``transform`` are those of the weighted
    metric :math:`d^2 = \sum_m w_m s_m \frac1F \sum_f d_{mf}^2`: the points of all maps side by
    side.

    Parameters
    ----------
    members : "auto" or list, default="auto"
        Who votes: names, and estimators of vicinal that learn a map.  "network", "periodic" and
        "bins" are :class:`NCA` with the map of that name (:class:`vicinal.maps.MLP` for the first),
        learnt on batches; "laplace" is the map of quantile bins again under the kernel of that
        name, and "low-rank" a matrix of one dimension fewer than there are classes.  "auto" is all
        of them, but "periodic" up to 50 columns and 150,000 entries.  An estimator with a kernel
        votes under it if it is Laplace's, and any other under a Gaussian at a scale that suits its
        map.
    n_folds : int or "auto", default="auto"
        Number of stratified folds, and so of maps of each member.  Classes of fewer than three rows
        are in no fold: all maps learn from them.  "auto" is five, but from 800 rows only the first
        three of the five are learnt.
    scaling : {"auto", "robust", "standard", "global", None}, default="auto"
        Scaling of the columns for the members that have names, as in :class:`NCA`; "auto" is
        "robust", or "standard" for sparse rows.
    rule : {"posterior", "knn"}, default="posterior"
        Predict by the probabilities above, or by a vote of the nearest training rows in the
        weighted metric.
    n_neighbors : int or "auto", default=5
        Number of voters of ``rule="knn"``, and of neighbours in :meth:`kneighbors`.
    time_budget : float or None, default=None
        Limit in seconds for ``fit``: members get shares of what is left, and no fold is begun that
        would end too late.  The first fold is always made.  The result then depends on the machine.
    n_jobs : int or None, default=None
        How many maps are learnt at once, in threads that share those of the library; None and -1:
        one for each thread.  The result is the same for any number.
    random_state : int, RandomState or None, default=None
        For folds, and for what members draw.
    verbose : int, default=0
        Print a line for each map that is learnt, and the weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    members_ : list of str
        The names of the members; an estimator is named by its class and its place.
    weights_ : ndarray of shape (n_members,)
        Their weights, which add up to one; zero for those that have been left out.
    scales_ : ndarray of shape (n_members,)
        The factors of their squared distances (for the kernel "laplace": of their distances).
    scores_ : ndarray of shape (n_members,)
        J on held-out rows; of one fold for a member that was left out there.
    n_components_ : int
        Dimensions of ``transform``: those of all maps together.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the weighted metric.
    n_neighbors_ : int
        Number of voters of ``rule="knn"``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names.

    See Also
    --------
    MetricVoteRegressor : The same for numbers.
    NCA : A single metric.

    Notes
    -----
    A vote is no single map: there are no ``components_``.  Callbacks, checkpoints and
    ``warm_start`` are for single maps.  A classifier that learns no metric, such as a forest, can
    vote next to this one in :class:`sklearn.ensemble.VotingClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import MetricVote
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MetricVote(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> distances, rows = model.kneighbors(X[1:3], 4)
    >>> rows.shape
    (2, 4)
    """

    _rule_names: ClassVar[tuple[str, ...]] = ("posterior", "knn")
    classes_: Array
    _model: VoteModel

    def _known_members(self, size: Members) -> dict[str, Any]:
        return size.classes()

    @unchanged_on_error
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None) -> MetricVote:
        """Learn the members and their weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Importance of each row, as in :class:`NCA`; members must take weights.

        Returns
        -------
        self : MetricVote
        """
        self._check_parameters()
        seed = seed_of(self)
        check_label_types(y)
        X, labelled = check_rows(self, X, y, ensure_min_samples=2)
        weight = check_weights(sample_weight, len(labelled))
        self._rows, X, labelled, weight = drop_weightless_rows(X, labelled, weight)
        self.classes_, codes = check_classes(labelled, type(self).__name__)
        n_classes = len(self.classes_)
        labels = Labels(codes, weight, classes=np.arange(n_classes))
        data = Data(X, labels, self.classes_)
        members = self._chosen_members(data, n_classes)
        folds = stratified_folds(codes, self._n_parts, seed)
        found = self._vote(
            data, codes, np.eye(n_classes)[codes], members, folds, score_classes(codes), seed
        )
        self._model = VoteModel(found.Z, labels, self.n_neighbors, found.ballots)
        self._finish_model(None)
        return self

    def _stored_labels(self) -> Array:
        return self.classes_[self._model.labels.codes]

    def predict_proba(self, X: MatrixLike) -> Array:
        """Class probabilities under the ``rule``.

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
            return self._model.probabilities(Z, self.rule)

    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Natural logarithms of the class probabilities; minus infinity for zero.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_P : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: MatrixLike) -> Array:
        """The class of highest probability under the ``rule``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]


class MetricVoteRegressor(RegressorMixin, MetricVoteBase):
    r"""Several learnt metrics and one vote on numbers: :class:`MetricVote` for regression.

    A member predicts the mean of the training rows' numbers, weighted by its kernel, and the
    prediction is the weighted mean of those.  Weights are :math:`w_m \propto e^{R_m^2 / 0.02}`,
    with the :math:`R^2` of held-out rows.

    Parameters
    ----------
    members : "auto" or list, default="auto"
        Who votes: names, and estimators of vicinal that learn a map.  "network", "periodic" and
        "bins" are :class:`MLKR` with such a map, "linear" is one with a matrix, and "matches" is an
        :class:`NCARegressor` with a network.  "auto" is all of them, but "periodic" up to 50
        columns and 150,000 entries.
    n_folds : int or "auto", default="auto"
        Number of folds, each with an even share of small and large numbers; "auto" as in
        :class:`MetricVote`.
    scaling : {"auto", "robust", "standard", "global", None}, default="auto"
        Scaling of the columns for the members that have names, as in :class:`MetricVote`.
    rule : {"kernel", "knn"}, default="kernel"
        Predict from all training rows by the kernels, or from the nearest ones in the weighted
        metric.
    n_neighbors : int or "auto", default=5
        Number of neighbours of ``rule="knn"`` and of :meth:`kneighbors`.
    time_budget, n_jobs, random_state, verbose
        As in :class:`MetricVote`.

    Attributes
    ----------
    members_, weights_, scales_, scores_, n_components_, feature_importances_, n_neighbors_, \
            n_features_in_, feature_names_in_
        As in :class:`MetricVote`; scores are :math:`R^2`.

    See Also
    --------
    MetricVote : The same for classes.
    MLKR, NCARegressor : Single metrics for numbers.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from vicinal import MetricVoteRegressor
    >>> X, y = make_friedman1(n_samples=300, random_state=0)
    >>> model = MetricVoteRegressor(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.7)
    True
    """

    _rule_names: ClassVar[tuple[str, ...]] = ("kernel", "knn")
    _model: VoteRegressionModel
    _outputs: Outputs

    def __init__(
        self,
        members: str | Sequence[Any] = "auto",
        *,
        n_folds: int | str = "auto",
        scaling: str | None = "auto",
        rule: str = "kernel",
        n_neighbors: int | str = 5,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            members,
            n_folds=n_folds,
            scaling=scaling,
            rule=rule,
            n_neighbors=n_neighbors,
            time_budget=time_budget,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )

    def _known_members(self, size: Members) -> dict[str, Any]:
        return size.numbers()

    @unchanged_on_error
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: Weights = None
    ) -> MetricVoteRegressor:
        """Learn the members and their weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Finite numbers, of which at least one output must vary.
        sample_weight : array-like of shape (n_samples,), default=None
            Importance of each row, as in :class:`MLKR`; members must take weights.

        Returns
        -------
        self : MetricVoteRegressor
        """
        self._check_parameters()
        seed = seed_of(self)
        X, found = check_rows(self, X, y, ensure_min_samples=2, multi_output=True, y_numeric=True)
        given = checked_numbers(found, type(self).__name__)
        weight = check_weights(sample_weight, len(given))
        self._rows, X, given, weight = drop_weightless_rows(X, given, weight)
        if len(given) < 2:
            raise ValueError("sample_weight must be positive for at least 2 rows. Got 1 row.")
        self._outputs = Outputs.of(given, weight, type(self).__name__)
        values = self._outputs.standardised(given)
        numbers = Numbers(values, weight)
        data = Data(X, numbers)
        members = self._chosen_members(data, 0)
        folds = even_folds(np.lexsort(values.T), self._n_parts, seed)
        score = score_numbers(values, weight)
        outcome = self._vote(data, given, values, members, folds, score, seed)
        self._model = VoteRegressionModel(outcome.Z, numbers, self.n_neighbors, outcome.ballots)
        self._finish_model(None)
        return self

    def _stored_labels(self) -> Array:
        return self._outputs.back(self._model.numbers.values)

    def predict(self, X: MatrixLike) -> Array:
        """The numbers of some rows under the ``rule``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        Z = self._embedded(X)
        with single_threaded_blas():
            return self._outputs.back(self._model.predict(Z, self.rule))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
