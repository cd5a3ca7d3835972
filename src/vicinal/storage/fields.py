"""What a file holds of each class: the fields that are stored, and those that are made again.

Named tuples and dataclasses are stored with all of their fields.  An attribute that is in no list
here cannot be saved: whoever adds one decides whether it belongs into files.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from vicinal.core.coding import is_plain_class

_STORED_ROWS = "Z asked n_neighbors"
_REMADE = "index find equal deadline effective_n_neighbors"

#: of other classes: the fields, of which those after "|" may be missing; and what is not stored
_OBJECTS: dict[str, tuple[str, str]] = {
    "fitted.FittedLinear": ("components shift scale limits", ""),
    "fitted.FittedMap": ("mapping theta features dtype", ""),
    "rows.Features": (
        "X shift scale limits scaling total_variance _ready _offset _fold _exact", ""
    ),
    "rows.EqualRows": ("_keys _order", ""),
    "target.Labels": ("classes codes sample_weight priors", ""),
    "target.LabelDistributions": ("values strata sample_weight", ""),
    "target.Matches": ("indptr indices data sample_weight | weight", ""),
    "target.Numbers": ("values sample_weight", ""),
    "target.NearNumbers": ("values sample_weight width hard", ""),
    "model.NCAModel": ("Z asked labels kernel background | n_neighbors", _REMADE),
    "model.DistributionModel": ("Z asked labels kernel background | n_neighbors", _REMADE),
    "model.MatchModel": ("Z asked matches kernel | n_neighbors", _REMADE),
    "model.KNCAModel": ("Z asked labels k vote | n_neighbors", _REMADE),
    "model.VotingModel": ("Z asked labels k | n_neighbors", _REMADE),
    "model.Chi2VotingModel": ("Z asked labels k | n_neighbors", _REMADE),
    "model.RegressionModel": ("Z asked numbers kernel | n_neighbors", _REMADE),
    "model.PartnerModel": ("Z", ""),
    "model.Picture": ("X Z target kernel kappa _equal_rows", "_potential"),
    "fit.Stream": (
        "problem plan theta n_queries reservoir seed settled state n_steps seconds n_seen",
        "",
    ),
    "fit.Reservoir": ("capacity by_class X codes weight _draws numbers _n_added", ""),
    "map.TorchMap": ("n_components dtype kind state", ""),
}  # fmt: skip

#: attributes of fitted estimators
_FITTED = frozenset(
    "classes_ n_features_in_ feature_names_in_ components_ n_components_ alpha_ scaling_ margin_ "
    "n_iter_ loss_ history_ rounds_ cv_results_ plan_ n_samples_seen_ "
    "embedding_ kl_divergence_ learning_rate_ k_ perplexity_ affinities_ "
    "eigenvalues_ bounds_ multipliers_ threshold_ balance_ constraints_ learner_ estimator_ "
    "n_chunks_ chunks_ "
    "_map _model _rows _outputs _choice _importances _resume _stream _picture".split()
)
#: attributes that belong to the process, not to the model
_NOT_STORED = frozenset({"_skl_callbacks", "_sklearn_output_config", "_metadata_request"})


def is_estimator(kind: type) -> bool:
    """Whether a class of the table is an estimator."""
    return hasattr(kind, "get_params")


def parameters_of(kind: type) -> dict[str, Any]:
    """The parameters of an estimator and their defaults."""
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    found = signature.parameters.items()
    return {name: p.default for name, p in found if name != "self" and p.kind in named}


def allowed_fields(name: str, kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """The fields that an object in a file must have, and those that it may have besides."""
    if is_estimator(kind):
        asked = parameters_of(kind)
        needed = {key for key, default in asked.items() if default is inspect.Parameter.empty}
        return frozenset(needed), (_FITTED | frozenset(asked)) - needed
    if name in _OBJECTS:
        needed_text, _, more = _OBJECTS[name][0].partition("|")
        return frozenset(needed_text.split()), frozenset(more.split())
    if not is_plain_class(kind):
        raise TypeError(f"{name} has no list of fields.")
    if hasattr(kind, "_fields"):
        optional: Any = getattr(kind, "_field_defaults", {})
        return frozenset(kind._fields) - set(optional), frozenset(optional)
    fields = [field for field in dataclasses.fields(kind) if field.init]
    missing = dataclasses.MISSING
    given = {f.name for f in fields if f.default is missing and f.default_factory is missing}
    return frozenset(given), frozenset(f.name for f in fields) - given


def stored_fields(name: str, value: Any) -> dict[str, Any]:
    """The fields of an object that go into a file."""
    kind = type(value)
    if is_plain_class(kind):
        names = getattr(kind, "_fields", None) or [f.name for f in dataclasses.fields(kind)]
        return {key: getattr(value, key) for key in names}
    needed, more = allowed_fields(name, kind)
    skipped = _NOT_STORED if is_estimator(kind) else frozenset(_OBJECTS[name][1].split())
    found = vars(value)
    unknown = found.keys() - needed - more - skipped
    missing = needed - found.keys()
    if unknown or missing:
        raise TypeError(
            f"A model file cannot hold this {kind.__name__}: "
            f"no field for {sorted(unknown)}, no value for {sorted(missing)}."
        )
    # public ones first: they give shared arrays their names
    names = sorted(found.keys() - skipped, key=lambda key: (key.startswith("_"), key))
    return {key: found[key] for key in names}
