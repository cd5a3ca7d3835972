"""The nearest neighbours of scikit-learn as plain data, and back: by the rows that they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.validation import check_is_fitted

from vicinal.core.checks import need

NEIGHBORS = {
    "KNeighborsClassifier": KNeighborsClassifier,
    "KNeighborsRegressor": KNeighborsRegressor,
}
_PARAMETERS = {"algorithm", "leaf_size", "metric", "n_jobs", "n_neighbors", "p", "weights"}


def neighbors_fields(model: Any) -> dict[str, Any]:
    """A fitted k-NN as plain data."""
    check_is_fitted(model)
    parameters = model.get_params()
    odd = [name for name, value in parameters.items() if callable(value) or isinstance(value, dict)]
    if odd:
        raise TypeError(
            f"The {odd[0]!r} parameter of {type(model).__name__} must be a name in a pipeline that "
            f"a model file can hold. Got {parameters[odd[0]]!r} instead."
        )
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list):
        raise TypeError("A model file cannot hold a KNeighborsClassifier with several outputs.")
    names = getattr(model, "feature_names_in_", None)
    return {
        "neighbors": type(model).__name__,
        "parameters": {name: parameters[name] for name in sorted(_PARAMETERS)},
        "X": model._fit_X,
        "y": model._y if classes is None else classes[model._y],
        "feature_names_in": None if names is None else list(names),
    }


def from_neighbors(fields: Any) -> Any:
    """Invert `neighbors_fields`: fit to the same rows."""
    keys = {"neighbors", "parameters", "X", "y", "feature_names_in"}
    need(fields.keys() == keys and fields["neighbors"] in NEIGHBORS, "neighbours")
    asked, names = fields["parameters"], fields["feature_names_in"]
    need(isinstance(asked, dict) and asked.keys() == _PARAMETERS, "parameters of neighbours")
    plain = all(isinstance(value, str | int | float | None) for value in asked.values())
    need(plain and isinstance(fields["y"], np.ndarray), "parameters of neighbours")
    model = NEIGHBORS[fields["neighbors"]](**asked).fit(fields["X"], fields["y"])
    if names is not None:
        need(len(names) == model.n_features_in_, "names of columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    return model
