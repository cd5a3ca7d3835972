"""Regression in the embedded space, and the base class of estimators that learn from numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import Tags

from vicinal import densities, neighborhoods
from vicinal._features import BENDING_SCALINGS
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option, check_rows, check_weights
from vicinal.core import checks
from vicinal.core.points import like
from vicinal.core.problem import Problem
from vicinal.core.types import (
    Array,
    File,
    Map,
    MatrixLike,
    Objective,
    Pairs,
    Weights,
    is_auto,
)
from vicinal.densities import Kernel
from vicinal.estimators._base import MetricLearner
from vicinal.estimators._classifier import NeighbourSearchMixin
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.fit.method import (
    MORE_ALPHAS,
    Data,
    Method,
    drop_weightless_rows,
    is_collapsed,
    method_of,
)
from vicinal.fit.report import with_callbacks
from vicinal.models.regression import RegressionModel
from vicinal.neighborhoods import mass_left_out
from vicinal.neighborhoods.refresh import refresh_lists
from vicinal.objectives.mlkr import MLKRLoss
from vicinal.targets import Numbers
from vicinal.targets.labels import plain_mass, weights


class Outputs(NamedTuple):
    """The units of y: each output is centred, divided by its deviation, and by the root of q.

    So all outputs count alike, and a loss of one is that of predicting the means, for any number q
    of outputs.
    """

    shift: Array
    scale: Array
    one: bool  # whether y had one dimension

    def check_fields(self) -> None:
        """Refuse units that are no numbers."""
        for units in (self.shift, self.scale):
            checks.double(np.atleast_1d(units), 1, "the units of y")

    @classmethod
    def of(cls, y: Array, weight: Array | None, owner: str) -> Outputs:
        """The units of some numbers (n,) or (n, q); at least one output must vary."""
        columns = y.reshape(len(y), -1)
        # divided by a power of two, since the squares of huge numbers would overflow
        unit = np.exp2(np.frexp(np.abs(columns).max(axis=0))[1].astype(np.float64))
        part = columns / unit
        # not by the deviation, which rounding keeps from being zero
        varies = np.ptp(part, axis=0) > 4 * np.finfo(np.float64).eps
        shift = part[0] + np.average(part - part[0], axis=0, weights=weight)
        deviation = np.sqrt(np.average((part - shift) ** 2, axis=0, weights=weight))
        if not varies.any():
            raise ValueError(
                f"{owner} needs numbers y that vary. Got {columns[0].tolist()!r} for all "
                f"{len(y)} samples instead."
            )
        deviation = np.where(varies, deviation, 1.0)
        return cls(shift * unit, deviation * unit * np.sqrt(columns.shape[1]), y.ndim == 1)

    def standardised(self, y: Array) -> Array:
        """The numbers that are learnt, (n, q)."""
        return (y.reshape(len(y), -1) - self.shift) / self.scale

    def back(self, values: Array) -> Array:
        """Predictions in the units and the shape of y."""
        y = values * self.scale + self.shift
        return y[:, 0] if self.one else y


class RegressionLearner(LearntMetricMixin, NeighbourSearchMixin, RegressorMixin, MetricLearner):
    """Learns a map from rows with numbers, and predicts from their projections; not public."""

    #: allowed values of ``rule``: means weighted by the kernel, or of the nearest rows
    _rule_names: ClassVar[tuple[str, ...]] = ("kernel", "knn")
    _scalings = BENDING_SCALINGS
    feature_importances_ = property(feature_importances)
    _model: RegressionModel
    _outputs: Outputs
    mapping: str | Map
    kernel: str | Kernel
    init: str | ArrayLike | Callable[..., Array]
    neighborhood: str | neighborhoods.Neighborhood
    scaling: str | None

    def _objective(self, kernel: Kernel) -> Objective:
        """The loss to minimise."""
        raise NotImplementedError

    def _target(self, values: Array, weight: Array | None) -> Numbers:
        """The target of the objective, from standardised numbers."""
        return Numbers(values, weight)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self, "rule", self._rule_names)
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)

    def _check_data(self, X: MatrixLike, y: ArrayLike | None, sample_weight: Weights) -> Data:
        X, found = check_rows(self, X, y, ensure_min_samples=2, multi_output=True, y_numeric=True)
        numbers = checked_numbers(found, type(self).__name__)
        weight = check_weights(sample_weight, len(numbers))
        self._rows, X, numbers, weight = drop_weightless_rows(X, numbers, weight)
        if len(numbers) < 2:
            raise ValueError("sample_weight must be positive for at least 2 rows. Got 1 row.")
        self._outputs = Outputs.of(numbers, weight, type(self).__name__)
        return Data(X, self._target(self._outputs.standardised(numbers), weight))

    @with_callbacks
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: Weights = None,
        *,
        resume_from: File | None = None,
    ) -> Self:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Finite numbers; at least one output must vary.
        sample_weight : array-like of shape (n_samples,), default=None
            Importance of each row, as a query and as a neighbour.  This is not the same as
            repeating rows: a repeated row would be its own neighbour.  Rows of weight zero are left
            out.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds.  Rows
            and parameters must be the same; only ``verbose``, ``time_budget`` and
            ``n_jobs`` may differ.

        Returns
        -------
        self : object
        """
        return self._fit(X, y, sample_weight, resume_from=resume_from)

    def predict(self, X: MatrixLike) -> Array:
        """The numbers of some rows under the ``rule``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In float64, in the units of the y of ``fit``.
        """
        Z = self._embedded(X)
        with single_threaded_blas():
            return like(X, self._outputs.back(self._model.beside(Z).predict(Z, self.rule)))

    def _stored_labels(self) -> Array:
        return self._outputs.back(self._model.numbers.values)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _method(self, data: Data) -> Method:
        name = type(self).__name__
        kernel = _kernel(self.kernel, name)
        listed, neighbourhood = self.neighborhood, None
        if not is_auto(listed):
            neighbourhood = neighborhoods.resolve(listed, name, trees=False)
        objective: Any = self._objective(kernel)
        return method_of(
            self,
            data,
            objective,
            make_model=partial(_make_model, self.n_neighbors),
            refresh=partial(refresh_lists, partial(_left_out, kernel)),
            neighborhood=neighbourhood,
            kernel=kernel,
            cost=objective.cost(data.target),
            alphas=MORE_ALPHAS,  # the loss is a share of the variance of y
            collapse_warning=_collapse_warning,
        )


def _collapse_warning(Z: Array, problem: Problem) -> str | None:
    """The warning for a map to one point, or None; it may be the best map, if y is noise."""
    if not is_collapsed(Z):
        return None
    return (
        "The map has collapsed: all rows are mapped to nearly the same point, where every "
        "prediction is the mean of y. If the columns tell nothing about y, no neighbours predict "
        f"better; if they do, the penalty alpha={float(np.min(problem.alpha)):g} is too strong: "
        "decrease 'alpha'."
    )


def checked_numbers(y: Array, owner: str) -> Array:
    """Checked numbers in float64, (n,) or (n, q)."""
    if sp.issparse(y):
        raise TypeError(f"The y of {owner} must be a dense array. Got a sparse one instead.")
    try:
        return np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"The y of {owner} must hold numbers. Got an array of {y.dtype} instead. "
            "vicinal.NCA() learns classes."
        ) from None


def _kernel(kernel: str | Kernel, owner: str) -> Kernel:
    """A kernel that reaches everywhere: numbers have no classes, and so no backgrounds."""
    part = densities.resolve(kernel, owner)
    if part.background or not part.reaches_everywhere:
        raise ValueError(
            f"The 'kernel' parameter of {owner} must be 'gaussian', 'student' or 'laplace', "
            f"without a background. Got {kernel!r} instead."
        )
    return part


def _make_model(
    n_neighbors: int | str | None, Z: Array, numbers: Numbers, objective: MLKRLoss
) -> RegressionModel:
    return RegressionModel(Z, numbers, n_neighbors, objective.kernel)


def _left_out(
    kernel: Kernel, Z: Array, numbers: Numbers, pairs: Pairs, references: Array | None
) -> neighborhoods.LeftOut:
    """The share of the sums that the lists leave out."""
    rows = np.arange(len(numbers)) if references is None else references
    rng, mass = np.random.RandomState(0), plain_mass(weights(numbers), rows)
    return mass_left_out(Z, None, pairs, references, kernel, mass=mass, random_state=rng)
