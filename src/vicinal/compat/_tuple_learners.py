"""metric-learn's learners from pairs and quadruplets, and from labels that give these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from vicinal.compat._adapter import (
    Init,
    PairAdapter,
    QuadrupletAdapter,
    RowAdapter,
    without_class,
)
from vicinal.core.types import Seed
from vicinal.estimators import from_labels, itml, lsml, mmc, sdml
from vicinal.estimators._pairs import Preprocessor

_QUIET = {"verbose": (False, "the fit prints nothing")}
_NO_START = "the problem is convex, and is solved to a known gap without a start"
_MMC_ALONE = {
    "init": ("identity", _NO_START),
    "max_proj": (10_000, "nothing is projected"),
    "diagonal_c": (1.0, "the constraint is met exactly"),
}


def _fit_labels(
    learner: BaseEstimator, asked: dict[str, Any], X: Any, y: ArrayLike
) -> from_labels.FromLabels:
    """The learner, fitted from labels; as in metric-learn, negative labels mean unknown classes."""
    model = from_labels.FromLabels(learner, asked["n_constraints"], asked["random_state"])
    unknown = without_class(y)
    if unknown.any():
        model.set_params(unlabeled=-1)
        y = np.where(unknown, -1, y)
    return model.fit(X, y)


def _itml(asked: dict[str, Any], bounds: ArrayLike | None = None) -> itml.ITML:
    names = ("gamma", "prior", "max_iter", "tol", "random_state")
    if bounds is not None:
        bounds = np.ravel(bounds)  # of any shape, as in metric-learn
    return itml.ITML(bounds=bounds, scaling=None, **{name: asked[name] for name in names})


@dataclass(eq=False, repr=False)
class ITML(PairAdapter):
    """metric-learn's ITML, from the raw columns; see :class:`vicinal.ITML`, which is fitted.

    ``bounds`` are compared with squared distances, as metric-learn's code does.  Without them the
    percentiles are of squared distances; metric-learn takes percentiles of plain distances.
    """

    _no_effect: ClassVar = _QUIET

    gamma: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-3
    prior: Init = "identity"
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(
        self,
        pairs: ArrayLike,
        y: ArrayLike,
        bounds: ArrayLike | None = None,
        calibration_params: dict[str, Any] | None = None,
    ) -> Self:
        """Learn the metric and the threshold from pairs and their labels, +1 or -1."""
        return self._fit_pairs(_itml(self._settings(), bounds), pairs, y, calibration_params)


@dataclass(eq=False, repr=False)
class ITML_Supervised(RowAdapter):
    """metric-learn's ITML from class labels; :class:`vicinal.FromLabels` is fitted."""

    _no_effect: ClassVar = _QUIET

    gamma: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-3
    n_constraints: int | None = None
    prior: Init = "identity"
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike, bounds: ArrayLike | None = None) -> Self:
        """Draw pairs from the class labels, and learn the metric."""
        asked = self._settings()
        return self._keep(_fit_labels(_itml(asked, bounds), asked, self._rows(X), y))


def _mmc(asked: dict[str, Any]) -> mmc.MMC:
    names = ("diagonal", "max_iter", "tol")
    return mmc.MMC(scaling=None, **{name: asked[name] for name in names})


@dataclass(eq=False, repr=False)
class MMC(PairAdapter):
    """metric-learn's MMC, from the raw columns; see :class:`vicinal.MMC`, which is fitted.

    It fixes the mean distance of dissimilar pairs where metric-learn fixes the squared distances of
    similar pairs, so that the metrics have different scales.
    """

    _no_effect: ClassVar = {**_QUIET, **_MMC_ALONE}

    max_iter: int = 100
    max_proj: int = 10_000
    tol: float = 1e-3
    init: Init = "identity"
    diagonal: bool = False
    diagonal_c: float = 1.0
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(
        self, pairs: ArrayLike, y: ArrayLike, calibration_params: dict[str, Any] | None = None
    ) -> Self:
        """Learn the metric and the threshold from pairs and their labels, +1 or -1."""
        return self._fit_pairs(_mmc(self._settings()), pairs, y, calibration_params)


@dataclass(eq=False, repr=False)
class MMC_Supervised(RowAdapter):
    """metric-learn's MMC from class labels; :class:`vicinal.FromLabels` is fitted."""

    _no_effect: ClassVar = {**_QUIET, **_MMC_ALONE}

    max_iter: int = 100
    max_proj: int = 10_000
    tol: float = 1e-6
    n_constraints: int | None = None
    init: Init = "identity"
    diagonal: bool = False
    diagonal_c: float = 1.0
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Draw pairs from the class labels, and learn the metric."""
        asked = self._settings()
        return self._keep(_fit_labels(_mmc(asked), asked, self._rows(X), y))


def _sdml(asked: dict[str, Any]) -> sdml.SDML:
    # the default of metric-learn often has no solution
    balance: Any = asked["balance_param"]
    balance = "auto" if balance == 0.5 else balance
    return sdml.SDML(
        balance,
        asked["sparsity_param"],
        prior=asked["prior"],
        scaling=None,
        random_state=asked["random_state"],
    )


@dataclass(eq=False, repr=False)
class SDML(PairAdapter):
    """metric-learn's SDML, from the raw columns; see :class:`vicinal.SDML`, which is fitted.

    ``balance_param=0.5``, the default, is ``balance="auto"``: 0.5, or less if the problem has no
    solution with it.
    """

    _no_effect: ClassVar = _QUIET

    balance_param: float = 0.5
    sparsity_param: float = 0.01
    prior: Init = "identity"
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(
        self, pairs: ArrayLike, y: ArrayLike, calibration_params: dict[str, Any] | None = None
    ) -> Self:
        """Learn the metric and the threshold from pairs and their labels, +1 or -1."""
        return self._fit_pairs(_sdml(self._settings()), pairs, y, calibration_params)


@dataclass(eq=False, repr=False)
class SDML_Supervised(RowAdapter):
    """metric-learn's SDML from class labels; :class:`vicinal.FromLabels` is fitted."""

    _no_effect: ClassVar = _QUIET

    balance_param: float = 0.5
    sparsity_param: float = 0.01
    prior: Init = "identity"
    n_constraints: int | None = None
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Draw pairs from the class labels, and learn the metric."""
        asked = self._settings()
        return self._keep(_fit_labels(_sdml(asked), asked, self._rows(X), y))


def _lsml(asked: dict[str, Any]) -> lsml.LSML:
    names = ("prior", "max_iter", "tol", "random_state")
    return lsml.LSML(scaling=None, **{name: asked[name] for name in names})


@dataclass(eq=False, repr=False)
class LSML(QuadrupletAdapter):
    """metric-learn's LSML, from the raw columns; see :class:`vicinal.LSML`, which is fitted."""

    _no_effect: ClassVar = _QUIET

    tol: float = 1e-3
    max_iter: int = 1000
    prior: Init = "identity"
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, quadruplets: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Learn the metric from quadruplets; the first two rows of each should be nearer."""
        model = _lsml(self._settings()).set_params(preprocessor=self.preprocessor)
        return self._keep(model.fit(quadruplets, weights))


@dataclass(eq=False, repr=False)
class LSML_Supervised(RowAdapter):
    """metric-learn's LSML from class labels; :class:`vicinal.FromLabels` is fitted."""

    _no_effect: ClassVar = {
        **_QUIET,
        "weights": (None, "quadruplets drawn at random have equal weights"),
    }

    tol: float = 1e-3
    max_iter: int = 1000
    prior: Init = "identity"
    n_constraints: int | None = None
    weights: ArrayLike | None = None
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Draw quadruplets from the class labels, and learn the metric."""
        asked = self._settings()
        return self._keep(_fit_labels(_lsml(asked), asked, self._rows(X), y))
