"""The members of a vote by their names, and what votes on classes and on numbers share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from vicinal import _clock
from vicinal._features import BENDING_SCALINGS
from vicinal._threads import single_threaded_blas
from vicinal._validation import check_number, check_option
from vicinal.core.types import Array, is_auto
from vicinal.estimators._base import MetricLearner
from vicinal.estimators._classifier import NeighbourSearchMixin
from vicinal.estimators._metric import LearntMetricMixin, feature_importances
from vicinal.estimators.mlkr import MLKR
from vicinal.estimators.nca import NCA
from vicinal.estimators.nca_regressor import NCARegressor
from vicinal.fit.method import Data, penalty_by_rows
from vicinal.fit.score import fitted_importances
from vicinal.fit.vote import Fold, Outcome, Vote
from vicinal.maps import MLP, Bins
from vicinal.samplers import MiniBatches, Subsample

_SCALINGS = ("auto", *BENDING_SCALINGS)
#: columns, and entries of the table, above which there are no periodic features: their cost grows
_WIDE, _LARGE = 50, 150_000
_BINS = (16, 320)  # bins of a column, and of all columns together
_BATCH = (64, 512)  # rows: a quarter of all, within these limits
_PAIRED = 256  # rows of a batch whose numbers are compared in pairs, at most
_SUBSET = 2000  # rows that a matrix is learnt from, at most
_LOW = 5  # dimensions of the map of low rank, at most
_PARTS = 5  # of the rows; each map learns without one of them
_MANY, _FEW_FOLDS = 800, 3  # rows from which three of the five folds suffice


class Members:
    """The members of a vote by their names, for a table of this size.

    Parameters
    ----------
    n, n_features : int
        Rows to learn from, and their columns.
    n_classes : int
        0 for numbers.
    scaling : str or None
        Of each member.
    n_parts : int
        Number of parts of the rows; a map learns without one of them.
    """

    def __init__(
        self, n: int, n_features: int, n_classes: int, scaling: str | None, n_parts: int
    ) -> None:
        self.n, self.n_features, self.n_classes = n, n_features, n_classes
        # penalties were found on up to 1,000 rows; more rows need weaker ones
        self.alpha = penalty_by_rows(n)
        self.common: dict[str, Any] = {"scaling": scaling}
        self.batches = {**self.common, "alpha": self.alpha, "max_iter": 150 if n <= 1700 else 300}
        learnt = int(n * (1.0 - 1.0 / n_parts))
        size = int(np.clip(learnt // 4, *_BATCH))
        if size < learnt and 2 * n_classes <= size:
            self.batches["sampling"] = MiniBatches(size, "random")
        self.few = {**self.common, "sampling": Subsample(_SUBSET)} if n > _SUBSET else self.common

    def classes(self) -> dict[str, Any]:
        """Those that learn classes."""
        low = max(1, min(self.n_classes - 1, _LOW, self.n_features))
        weaker = {**self.batches, "alpha": self.alpha / 3}
        found = {
            "network": NCA(mapping=MLP(), **self.batches),
            "periodic": NCA(mapping="periodic", **self.batches),
            "laplace": NCA(kernel="laplace", mapping=self._bins(), **weaker),
            "bins": NCA(mapping=self._bins(), **self.batches),
            "low-rank": NCA(low, alpha=3 * self.alpha, **self.few),
        }
        return found

    def numbers(self) -> dict[str, Any]:
        """Those that learn numbers."""
        # the loss is a share of the variance of y
        weaker = {**self.batches, "alpha": self.alpha / 3}
        found = {
            "network": MLKR(mapping=MLP(), **weaker),
            "periodic": MLKR(mapping="periodic", **weaker),
            "matches": NCARegressor(mapping=MLP(), **self._paired()),
            "bins": MLKR(mapping=self._bins(), **self.batches),
            "linear": MLKR(alpha=self.alpha / 10, **self.few),
        }
        return found

    def _paired(self) -> dict[str, Any]:
        sampling = self.batches.get("sampling")
        if sampling is None or sampling.size <= _PAIRED:
            return self.batches
        return {**self.batches, "sampling": MiniBatches(_PAIRED, "random")}

    def _bins(self) -> Bins:
        most, together = _BINS
        return Bins(max(2, min(most, together // self.n_features)))

    def chosen(self, found: dict[str, Any]) -> list[str]:
        """The names that vote unless others are asked for."""
        large = self.n_features > _WIDE or self.n * self.n_features > _LARGE
        return [name for name in found if name != "periodic" or not large]


class MetricVoteBase(LearntMetricMixin, NeighbourSearchMixin, BaseEstimator):
    """What both votes share; not public."""

    _voters: ClassVar[tuple[str, ...]] = ("auto",)
    feature_importances_ = property(feature_importances)

    def __init__(
        self,
        members: str | Sequence[Any] = "auto",
        *,
        n_folds: int | str = "auto",
        scaling: str | None = "auto",
        rule: str = "posterior",
        n_neighbors: int | str = 5,
        time_budget: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.members = members
        self.n_folds = n_folds
        self.scaling = scaling
        self.rule = rule
        self.n_neighbors = n_neighbors
        self.time_budget = time_budget
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_number(self, "n_folds", 2, integer=True, or_else=("auto",))
        check_option(self, "scaling", _SCALINGS)
        check_option(self, "rule", self._rule_names)
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)
        check_number(self, "time_budget", 0.0, open_ends=True, or_else=(None,))
        check_number(self, "n_jobs", -1, integer=True, or_else=(None,))
        check_number(self, "verbose", 0, integer=True, or_else=(True, False))

    def _known_members(self, size: Members) -> dict[str, Any]:
        """The members that have names."""
        raise NotImplementedError

    def _chosen_members(self, data: Data, n_classes: int) -> dict[str, Any]:
        """The members of this fit, by name; estimators are named by their class and place."""
        scaling: Any = self.scaling
        if scaling == "auto":
            scaling = "standard" if sp.issparse(data.X) else "robust"
        size = Members(data.n, data.n_features, n_classes, scaling, self._n_parts)
        known = self._known_members(size)
        asked = self.members
        if isinstance(asked, str) and asked == "auto":
            asked = size.chosen(known)
        found: dict[str, Any] = {}
        for number, member in enumerate(asked if not isinstance(asked, str) else [asked]):
            if isinstance(member, str) and member in known and member not in found:
                found[member] = known[member]
            elif isinstance(member, LearntMetricMixin) and not isinstance(member, type):
                found[f"{type(member).__name__} {number}"] = member
            else:
                raise ValueError(
                    f"The 'members' parameter of {type(self).__name__} must be 'auto' or a list of "
                    f"different names among {', '.join(map(repr, known))} and estimators of "
                    f"vicinal that learn a map. Got {self.members!r} instead."
                )
        if not found:
            raise ValueError(
                f"The 'members' parameter of {type(self).__name__} must name at least one member. "
                f"Got {self.members!r} instead."
            )
        return found

    @property
    def _n_parts(self) -> int:
        """Number of parts of the rows."""
        return _PARTS if is_auto(self.n_folds) else int(self.n_folds)

    def _learnt_folds(self, folds: list[Fold], n: int) -> list[Fold]:
        """The folds that maps are learnt on."""
        return folds[:_FEW_FOLDS] if is_auto(self.n_folds) and n >= _MANY else folds

    def _learn_member(
        self,
        members: list[Any],
        X: Any,
        y: Array,
        weight: Array | None,
        member: int,
        rows: Array,
        seed: int,
        seconds: float | None,
    ) -> Any:
        """A member, fitted to some rows."""
        estimator = clone(members[member])
        known = estimator.get_params(deep=False)
        given = {"random_state": seed, "n_jobs": 1, "time_budget": seconds}
        estimator.set_params(**{name: value for name, value in given.items() if name in known})
        if isinstance(estimator, MetricLearner):
            estimator._tells_importances = False  # those of the vote are computed once
        more = {} if weight is None else {"sample_weight": weight[rows]}
        return estimator.fit(X[rows], y[rows], **more)

    def _vote(
        self,
        data: Data,
        y: Array,
        values: Array,
        members: dict[str, Any],
        folds: list[Fold],
        score: Any,
        seed: int,
    ) -> Outcome:
        """Learn the members, and set what is known of them."""
        weight = data.target.sample_weight
        deadline = None if self.time_budget is None else _clock.now() + self.time_budget
        learn = partial(self._learn_member, list(members.values()), data.X, y, weight)
        folds = self._learnt_folds(folds, data.n)
        vote = Vote(learn, data.X, values, weight, folds, score, self._say)
        # members are warned of by nobody: the vote says by weights what they are worth
        with single_threaded_blas(), warnings.catch_warnings(action="ignore"):
            found = vote.run(len(members), seed, self.n_jobs, deadline)
            self._importances = fitted_importances(found.fitted, data.X, seed)
        if found.interrupted:
            words = "was interrupted: the maps vote that had been learnt by then."
            warnings.warn(f"{type(self).__name__} {words}", ConvergenceWarning, stacklevel=4)
        self._map = found.fitted
        self.n_components_ = found.fitted.n_components
        self.members_ = list(members)
        self.weights_, self.scales_, self.scores_ = found.weights, found.scales, found.scores
        for name, weight, scale in zip(members, found.weights, found.scales, strict=True):
            self._say(f"{name}: weight {weight:.3f}, scale {scale:g}")
        return found

    def _say(self, words: str) -> None:
        if self.verbose:
            print(f"[{type(self).__name__}] {words}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
