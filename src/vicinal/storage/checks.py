"""Checks of objects that were read from a file.

Compiled loops do not check the bounds of arrays, so everything that they index with is checked
here: an object that passes can be asked for predictions without harm, whoever wrote the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from vicinal.core.types import Array
from vicinal.storage.names import HOMES, name_of

_LARGEST = 2**31 - 1


def need(holds: bool, what: str) -> None:
    """Refuse the file unless something holds."""
    if not holds:
        raise ValueError(what)


def real(
    array: Any, ndim: int, what: str, shape: tuple[int | None, ...] | None = None,
    finite: bool = True,
) -> None:  # fmt: skip
    """Refuse all but an array of float32 or float64 of so many axes."""
    kinds = (np.float64, np.float32)
    need(type(array) is np.ndarray and array.dtype in kinds, f"{what} must be an array of floats")
    _shaped(array, ndim, what, shape)
    need(not finite or bool(np.isfinite(array).all()), f"{what} must be finite")


def double(array: Any, ndim: int, what: str, shape: Any = None, finite: bool = True) -> None:
    """Refuse all but an array of float64."""
    real(array, ndim, what, shape, finite)
    need(array.dtype == np.float64, f"{what} must be float64")


def indices(array: Any, what: str, n: int, end: int, dtypes: Any = (np.int64,)) -> None:
    """Refuse all but n positions below ``end``."""
    need(type(array) is np.ndarray and array.dtype in dtypes, f"{what} must be an array of ints")
    _shaped(array, 1, what, (n,))
    inside = len(array) == 0 or (int(array.min()) >= 0 and int(array.max()) < end)
    need(inside, f"{what} must be in [0, {end})")


def _shaped(array: Array, ndim: int, what: str, shape: Any) -> None:
    need(array.ndim == ndim, f"{what} must have {ndim} axes")
    for n, wanted in zip(array.shape, shape or (), strict=False):
        need(wanted is None or n == wanted, f"{what} must have shape {shape}, not {array.shape}")


def number(value: Any, what: str, low: float = -np.inf, high: float = np.inf) -> None:
    """Refuse all but a number within limits."""
    plain = isinstance(value, int | float | np.integer | np.floating)
    need(plain and not isinstance(value, bool) and low <= value <= high, f"{what} is out of range")


def count(value: Any, what: str, low: int = 0, high: int = _LARGEST) -> None:
    """Refuse all but an int within limits."""
    need(isinstance(value, int | np.integer) and not isinstance(value, bool), f"{what}: not an int")
    need(low <= value <= high, f"{what} must be in [{low}, {high}]")


def one_of(value: Any, what: str, *kinds: str) -> None:
    """Refuse all but objects of some kinds: stable names, or beginnings of them."""
    found = name_of(type(value)) or ""
    need(found in HOMES and found.startswith(kinds), f"{what} is {found or type(value).__name__}")


def check_sparse(data: Any, columns: Any, indptr: Any, shape: tuple[int, ...]) -> None:
    """Refuse compressed rows that refer to entries outside."""
    need(len(shape) == 2 and shape[1] <= _LARGEST, "a sparse table has two axes")
    kinds = type(data) is np.ndarray and data.ndim == 1 and data.dtype.kind in "fiub"
    need(kinds, "the entries of a sparse table must be numbers")
    need(data.dtype.kind != "f" or bool(np.isfinite(data).all()), "entries must be finite")
    check_lists(indptr, columns, shape[0], shape[1])
    need(len(data) == len(columns), "a sparse table has as many entries as columns")


def check_lists(indptr: Any, columns: Any, n: int, end: int) -> None:
    """Refuse lists of positions, in compressed rows, that leave their bounds."""
    ints = (np.int32, np.int64)
    need(type(indptr) is np.ndarray and indptr.dtype in ints, "indptr must hold ints")
    need(indptr.shape == (n + 1,), "indptr must have one entry more than there are rows")
    need(type(columns) is np.ndarray and columns.ndim == 1, "indices must have one axis")
    ordered = indptr[0] == 0 and bool((np.diff(indptr) >= 0).all()) and indptr[-1] == len(columns)
    need(ordered, "indptr must rise from 0 to the number of indices")
    indices(columns, "indices", len(columns), end, ints)


def check_random_state(state: Any) -> None:
    """Refuse a state that would make the generator read outside its array."""
    whole = isinstance(state, tuple) and len(state) == 5 and state[0] == "MT19937"
    need(whole, "the state of a random generator must be that of MT19937")
    _, key, position, has_gauss, cached = state
    need(type(key) is np.ndarray and key.dtype == np.uint32 and key.shape == (624,), "MT19937")
    count(position, "the position of MT19937", 0, 624)
    count(has_gauss, "the flag of MT19937", 0, 1)
    number(cached, "the cached number of MT19937")


def _weights(array: Any, n: int, what: str = "sample_weight") -> None:
    if array is not None:
        double(array, 1, what, (n,))
        need(bool((array >= 0).all()), f"{what} must not be negative")
        need(n == 0 or array.sum() > 0, f"{what} must not be all zero")


def _linear(fitted: Any) -> None:
    real(fitted.components, 2, "components")
    d, D = fitted.components.shape
    need(d >= 1 and D >= 1, "components must not be empty")
    for name in ("shift", "scale"):
        double(getattr(fitted, name), 1, name, (D,))
    _limits_of(fitted.limits, D)


def _limits_of(limits: Any, D: int) -> None:
    if limits is not None:
        one_of(limits, "limits", "rows.Limits")
        need(len(limits.low) == len(limits.high) == D, "limits must have one entry per column")


def _limits(limits: Any) -> None:
    for array in limits:
        double(array, 1, "limits", finite=False)
        need(not np.isnan(array).any(), "limits must not be NaN")


def _features(rows: Any) -> None:
    X = rows.X
    if sp.issparse(X):
        need(X.dtype in (np.float32, np.float64), "rows must be floats")
    else:
        real(X, 2, "X")
    D = X.shape[1]
    for name in ("shift", "scale"):
        double(getattr(rows, name), 1, name, (D,))
    _limits_of(rows.limits, D)
    for name in ("_ready", "_offset", "_fold", "_exact"):
        need(isinstance(getattr(rows, name), bool | np.bool_), f"{name} must be a bool")
    need(rows.scaling in ("standard", "global", None), "unknown scaling")


def _fitted_map(fitted: Any) -> None:
    one_of(fitted.mapping, "mapping", "map.Periodic", "map.MLP", "map.TorchMap")
    one_of(fitted.features, "features", "rows.Features")
    double(fitted.theta, 1, "theta")
    need(isinstance(fitted.dtype, np.dtype), "dtype must be a dtype")
    D = fitted.features.shape[1]
    need(D >= 1, "there are no columns")
    count(fitted.mapping.n_components, "n_components", 1, len(fitted.theta))
    size = fitted.mapping.cost(D, 8).n_parameters
    need(size == len(fitted.theta), f"theta must have {size} entries, not {len(fitted.theta)}")


def _equal_rows(rows: Any) -> None:
    keys, order = rows._keys, rows._order
    need(type(keys) is np.ndarray and keys.dtype == np.uint64 and keys.ndim == 1, "keys")
    need(len(keys) >= 1 and bool((keys[1:] >= keys[:-1]).all()), "keys must be sorted")
    indices(order, "the order of rows", len(keys), len(keys))


def _labels(target: Any) -> None:
    classes = target.classes
    need(type(classes) is np.ndarray and classes.ndim == 1, "classes must be an array")
    need(type(target.codes) is np.ndarray and target.codes.ndim == 1, "codes must be an array")
    n = len(target.codes)
    indices(target.codes, "codes", n, len(classes))
    _weights(target.sample_weight, n)
    _weights(target.priors, len(classes), "priors")


def _distributions(target: Any) -> None:
    double(target.values, 2, "values")
    n, n_classes = target.values.shape
    need(n_classes >= 1 and bool((target.values >= 0).all()), "distributions must not be negative")
    indices(target.strata, "strata", n, n_classes)
    _weights(target.sample_weight, n)


def _matches(target: Any) -> None:
    need(type(target.indptr) is np.ndarray and target.indptr.dtype == np.int64, "indptr: int64")
    n = len(target.indptr) - 1
    check_lists(target.indptr, target.indices, n, n)
    need(target.indices.dtype == np.int32, "indices must be int32")
    double(target.data, 1, "data", (len(target.indices),))
    need(bool((target.data >= 0).all()) and bool((target.data <= 1).all()), "matches: in [0, 1]")
    _weights(target.sample_weight, n)
    _weights(target.weight, n, "weight")


def _numbers(target: Any) -> None:
    double(target.values, 2, "values")
    need(target.values.shape[1] >= 1, "values must not be empty")
    _weights(target.sample_weight, len(target.values))


def _near_numbers(target: Any) -> None:
    _numbers(target)
    number(target.width, "width", 0.0, 1e300)
    need(isinstance(target.hard, bool), "hard must be a bool")


def _affinities(target: Any) -> None:
    need(type(target.indptr) is np.ndarray and target.indptr.dtype == np.int64, "indptr: int64")
    n = len(target.indptr) - 1
    need(n >= 1, "there are no rows")
    check_lists(target.indptr, target.indices, n, n)
    need(target.indices.dtype == np.int32, "indices must be int32")
    double(target.marginals, 1, "marginals", (len(target.indices),))
    double(target.entropy, 1, "entropy", (n,), finite=False)
    count(target.k, "k", 1, n)


def _stored_rows(model: Any) -> int:
    """The number of rows of a model, after the checks that all models share."""
    real(model.Z, 2, "Z")
    n, d = model.Z.shape
    need(n >= 1 and d >= 1, "Z must not be empty")
    asked = model.asked
    if not (asked is None or isinstance(asked, str)):
        count(asked, "asked", 1)
    if "n_neighbors" in vars(model):
        count(model.n_neighbors, "n_neighbors", 1, n)
    if hasattr(model, "kernel"):
        one_of(model.kernel, "kernel", "kernel.")
    return n


def _of_labels(model: Any, *kinds: str) -> None:
    n = _stored_rows(model)
    one_of(model.labels, "labels", *kinds)
    need(len(model.labels) == n, "labels and Z must have as many rows")
    need(model.n_outputs >= 1, "there are no classes")


def _nca_model(model: Any) -> None:
    _of_labels(model, "target.Labels")
    _background(model.background, model.n_outputs)


def _background(background: Any, n_classes: int) -> None:
    if background is not None:
        double(background, 1, "background", (n_classes,))
        need(bool(((background >= 0) & (background <= 1)).all()), "background: in [0, 1]")


def _distribution_model(model: Any) -> None:
    _of_labels(model, "target.LabelDistributions")
    need(model.background is None, "no background")


def _match_model(model: Any) -> None:
    n = _stored_rows(model)
    one_of(model.matches, "matches", "target.Matches")
    need(len(model.matches) == n, "matches and Z must have as many rows")


def _vote_model(model: Any) -> None:
    _of_labels(model, "target.Labels")
    count(model.k, "k", 1)
    need(getattr(model, "vote", "majority") in ("majority", "all"), "unknown vote")


def _histogram_model(model: Any) -> None:
    _vote_model(model)
    need(bool((model.Z >= 0).all()), "histograms must not be negative")


def _regression_model(model: Any) -> None:
    n = _stored_rows(model)
    one_of(model.numbers, "numbers", "target.Numbers", "target.NearNumbers")
    need(len(model.numbers) == n, "numbers and Z must have as many rows")


def _partner_model(model: Any) -> None:
    real(model.Z, 2, "Z")


def _picture(model: Any) -> None:
    real(model.Z, 2, "Z")
    n, d = model.Z.shape
    need(n >= 1 and d >= 1, "Z must not be empty")
    one_of(model.target, "target", "model.Target")
    one_of(model._equal_rows, "_equal_rows", "rows.EqualRows")
    need(len(model._equal_rows._keys) == n, "there must be one key for each row")
    target, X = model.target, model.X
    given = target.metric in ("precomputed", "precomputed_affinities")
    need(given == (X is None), "rows and metric do not agree")
    if sp.issparse(X):
        need(X.dtype in (np.float32, np.float64), "rows must be floats")
    elif X is not None:
        real(X, 2, "X")
    need(X is None or (X.shape[0] == n and X.shape[1] >= 1), "X and Z must have as many rows")
    count(target.k, "k", 1, n)
    count(target.length, "length", 1, n + 1)
    need(model.kernel in ("cauchy", "gaussian"), "unknown kernel")
    number(model.kappa, "kappa", 0.0, 1e6)


def _picture_target(target: Any) -> None:
    need(isinstance(target.metric, str), "the metric must have a name")
    need(isinstance(target.params, dict), "the parameters of the metric must be a dict")
    number(target.perplexity, "perplexity", 1.0, 1e12)


def _row_numbers(rows: Any) -> None:
    count(rows.total, "total", 1, 2**40)
    if rows.numbers is not None:
        need(type(rows.numbers) is np.ndarray, "numbers must be an array")
        indices(rows.numbers, "numbers", len(rows.numbers), int(rows.total))


def _outputs(outputs: Any) -> None:
    need(isinstance(outputs.one, bool), "one must be a bool")
    for array in (outputs.shift, outputs.scale):
        double(np.atleast_1d(array), 1, "the scale of the numbers")


#: stable name -> check
CHECKS: dict[str, Callable[[Any], None]] = {
    "fitted.FittedLinear": _linear,
    "fitted.FittedMap": _fitted_map,
    "rows.Features": _features,
    "rows.Limits": _limits,
    "rows.EqualRows": _equal_rows,
    "rows.RowNumbers": _row_numbers,
    "rows.Outputs": _outputs,
    "target.Labels": _labels,
    "target.LabelDistributions": _distributions,
    "target.Matches": _matches,
    "target.Numbers": _numbers,
    "target.NearNumbers": _near_numbers,
    "target.Affinities": _affinities,
    "model.NCAModel": _nca_model,
    "model.DistributionModel": _distribution_model,
    "model.MatchModel": _match_model,
    "model.KNCAModel": _vote_model,
    "model.VotingModel": _vote_model,
    "model.Chi2VotingModel": _histogram_model,
    "model.RegressionModel": _regression_model,
    "model.PartnerModel": _partner_model,
    "model.Picture": _picture,
    "model.Target": _picture_target,
}
