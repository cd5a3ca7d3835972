"""The base class of the estimators that learn a map from class labels and classify with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._validation import (
    check_classes,
    check_label_types,
    check_number,
    check_option,
    check_rows,
    check_weights,
)
from vicinal.core.types import Array
from vicinal.estimators._base import MetricLearner
from vicinal.estimators._classify import NeighbourClassifierMixin
from vicinal.estimators._neighbours import drop_weightless_rows
from vicinal.fit.method import Data
from vicinal.targets import Labels

__all__ = ["LabelledLearner"]


class LabelledLearner(NeighbourClassifierMixin, MetricLearner):
    """Learns a map from labelled rows; not public."""

    def _target(self, codes: Array, weight: Array | None, n_classes: int) -> Any:
        """The target of the objective."""
        return Labels(codes, weight, classes=np.arange(n_classes))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self, "rule", self._rule_names)
        check_number(self, "n_neighbors", 1, integer=True, or_else=self._voters)

    def _check_data(self, X: Any, y: Any, sample_weight: Any) -> Data:
        check_label_types(y)
        X, y = check_rows(self, X, y, ensure_min_samples=2)
        weight = check_weights(sample_weight, len(y))
        self._rows, X, y, weight = drop_weightless_rows(X, y, weight)
        self.classes_, codes = check_classes(y, type(self).__name__)
        return Data(X, self._target(codes, weight, len(self.classes_)), self.classes_)
