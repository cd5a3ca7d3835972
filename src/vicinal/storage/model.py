"""``save`` and ``load``: a fitted estimator in one file."""

from __future__ import annotations

import platform
import sys
import warnings
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.pipeline import Pipeline

from vicinal.core import checks
from vicinal.core.types import Array
from vicinal.storage import container
from vicinal.storage.codec import Decoder, Encoder
from vicinal.storage.container import FileError
from vicinal.storage.names import name_of
from vicinal.storage.pipelines import from_fields, to_fields

_VERSION = "_vicinal_version"  # the key in pickles
#: what an attribute of an estimator must be: the beginning of a stable name
_KINDS = {
    "_map": "fitted.",
    "_model": "model.",
    "_rows": "rows.RowNumbers",
    "_outputs": "rows.Outputs",
    "_choice": "fit.Choice",
    "_resume": "fit.ResumeState",
    "_stream": "fit.Stream",
    "_picture": "model.Picture",
    "affinities_": "target.Affinities",
    "plan_": "fit.Plan",
}
_LOADERS = ("vicinal", "sklearn", "joblib", "pickle", "copy", "skops")


def write_object(path: Any, kind: str, value: Any, about: dict[str, Any] | None = None) -> None:
    """Write any object that the codec knows.

    Parameters
    ----------
    path : str or path-like
    kind : str
        What the file holds, such as "model".
    value : object
    about : dict, default=None
        More JSON values for people and tools that read the header; loading ignores them.
    """
    encoder = Encoder()
    coded = encoder.encode(value, kind)
    header = {
        "format": container.FORMAT,
        "schema": container.SCHEMA,
        "kind": kind,
        "versions": _versions(),
        "about": about or {},
        kind: coded,
    }
    container.write(path, header, encoder.arrays)


def read_object(path: Any, kind: str, module: Any = None) -> Any:
    """Read what `write_object` wrote under this kind; see `load` for errors."""
    header, arrays = container.read(path)
    if header.get("kind") != kind or kind not in header:
        raise FileError(f"{path} must hold a {kind}. Got {str(header.get('kind'))[:40]!r} instead.")
    return decoded(path, header[kind], arrays, module)


def decoded(
    path: Any, coded: Any, arrays: dict[str, Array], module: Any, finish: Any = None
) -> Any:
    """The object of a file; any problem with it is a FileError that names the file."""
    decoder = Decoder(arrays, module)
    try:
        found = decoder.decode(coded)
        decoder.check_all_used()
        return found if finish is None else finish(found)
    except MemoryError as error:
        raise FileError(f"{path} needs more memory than there is.") from error
    except ImportError:
        raise
    except Exception as error:
        raise FileError(f"{path} cannot be loaded: {error}") from error


def save(model: Any, path: Any) -> None:
    """Save a fitted estimator in one file, without pickle.

    The file is in safetensors' format, with a JSON header and a checksum; docs/model_files.md
    describes it.  It is written in one step: a reader sees the former file or the new one.

    Parameters
    ----------
    model : estimator
        An estimator of vicinal, fitted or not.  Callbacks are not saved.
    path : str or path-like
        The file, by convention with the suffix ".vic".  A symbolic link stays, and the file that
        it leads to is replaced.

    Raises
    ------
    TypeError
        If the model holds something that has no place in a file, such as a function as its metric;
        the message names the parameter.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import os, tempfile
    >>> import vicinal
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = vicinal.NCA(2, alpha=1e-3, random_state=0).fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "iris.vic")
    >>> vicinal.save(model, path)
    >>> (vicinal.load(path).predict(X) == model.predict(X)).all()
    True
    """
    if isinstance(model, Pipeline):
        fields = to_fields(model)
        learn = [step for _, step in model.steps if name_of(type(step)) is not None][-1]
        about = _about(learn, str(name_of(type(learn))))
        names = getattr(model, "feature_names_in_", None)
        if names is not None:  # the names in the table, before it was prepared
            about["feature_names_in"] = [_short(name) for name in list(names)[:1000]]
        if "table" in fields:
            about["target"] = fields["table"]["target"]
            about["left_out"] = {str(name): why for name, why in fields["table"]["left_out"]}
        write_object(path, "pipeline", fields, about)
        return
    name = name_of(type(model))
    if name is None or not hasattr(model, "get_params"):
        raise TypeError(
            "A model file holds an estimator of vicinal, alone or in a pipeline. "
            f"Got a {type(model).__name__} instead."
        )
    write_object(path, "model", model, _about(model, name))


def load(path: Any, *, module: Any = None) -> Any:
    """Load a model that `save` wrote.

    Nothing in a file is executed, and everything is checked: files of others are safe to open.

    Parameters
    ----------
    path : str or path-like
    module : torch.nn.Module, default=None
        The module of a `vicinal.maps.TorchMap`, with the architecture that it had when the model
        was saved; its parameters are taken from the file, and the module itself does not change.

    Returns
    -------
    model : estimator
        It predicts the same bits as the one that was saved.

    Raises
    ------
    vicinal.storage.FileError
        If the file cannot be read; the message names it and says what is wrong.
    """
    header, arrays = container.read(path)
    kind = header.get("kind")
    if kind not in ("model", "pipeline") or kind not in header:
        raise FileError(f"{path} must hold a model. Got {str(kind)[:40]!r} instead.")
    return decoded(path, header[kind], arrays, module, from_fields if kind == "pipeline" else None)


class OtherVersionWarning(InconsistentVersionWarning):
    """An estimator was pickled by another version of vicinal, as scikit-learn warns of its own."""

    def __init__(self, message: str) -> None:
        UserWarning.__init__(self, message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class SaveMixin:
    """The method ``save`` of estimators, and the version in their pickles.

    A pickle that another version of vicinal loads warns.
    """

    def save(self, path: Any) -> None:
        """Save the estimator in one file, without pickle: see :func:`vicinal.save`.

        Parameters
        ----------
        path : str or path-like
            The file, by convention with the suffix ".vic".  :func:`vicinal.load` reads it.
        """
        save(self, path)

    def check_fields(self) -> None:
        """Refuse attributes, from a file, that do not fit together."""
        found = vars(self)
        for key, kind in _KINDS.items():
            if found.get(key) is not None:
                stable = name_of(type(found[key])) or type(found[key]).__name__
                checks.need(stable.startswith(kind), f"{key} is {stable}")
        for key in ("learner_", "estimator_"):
            estimator = found.get(key) is None or hasattr(found[key], "get_params")
            checks.need(estimator, f"{key} must be an estimator")
        for key, ndim in (("components_", 2), ("embedding_", 2), ("_importances", 1)):
            if found.get(key) is not None:
                checks.real(found[key], ndim, key)
        _check_names(found)
        _check_learnt(found)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, _VERSION: _version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        pickled = state.pop(_VERSION, None)
        if pickled not in (None, _version()):
            warnings.warn(
                f"This {type(self).__name__} was pickled by vicinal {pickled}, and is loaded by "
                f"{_version()}: it may fail or give other results. Files written by "
                "vicinal.save can be read by later versions.",
                OtherVersionWarning,
                stacklevel=_user_stacklevel(),
            )
        super().__setstate__(state)  # type: ignore[misc]


def _check_names(found: dict[str, Any]) -> None:
    if "n_features_in_" in found:
        checks.count(found["n_features_in_"], "n_features_in_", 1)
    names = found.get("feature_names_in_")
    if names is not None:
        objects = type(names) is np.ndarray and names.dtype == object and names.ndim == 1
        strings = objects and all(isinstance(name, str) for name in names.tolist())
        checks.need(strings, "names of features must be strings")
        checks.need(len(names) == found.get("n_features_in_"), "names of all features")


def _check_learnt(found: dict[str, Any]) -> None:
    """Refuse a map, a model and a picture of different rows, columns or classes."""
    learnt: Any = found.get("_map")
    model, picture, d = (found.get(key) for key in ("_model", "_picture", "n_components_"))
    if learnt is not None:
        D = learnt.n_features
        checks.need(found.get("n_features_in_") == D, f"n_features_in_ must be {D}")
        checks.need(d in (None, learnt.n_components), "n_components_ and the map do not agree")
    if "components_" in found:
        linear = learnt is not None and hasattr(learnt, "components")
        checks.need(linear, "components_ without a matrix")
        checks.real(found["components_"], 2, "components_", learnt.components.shape)
    if model is not None:
        checks.need(learnt is not None, "a model without a map")
        checks.need(model.Z.shape[1] == learnt.n_components, "map and model do not agree")
        _check_model(found, model)
    if picture is not None:
        checks.need(picture.Z.shape[1] == d, "n_components_ and the picture do not agree")


def _check_model(found: dict[str, Any], model: Any) -> None:
    n, rows, outputs = len(model.Z), found.get("_rows"), found.get("_outputs")
    if rows is not None:
        checks.need(rows.total >= n, "there are more rows than were given")
        checks.need(rows.numbers is None or len(rows.numbers) == n, "the numbers of the rows")
    if hasattr(model, "labels"):
        classes = np.asarray(found.get("classes_"))
        checks.need(classes.shape == (model.n_outputs,), "classes_ and labels do not agree")
    if outputs is not None:
        sizes = {np.size(outputs.shift), np.size(outputs.scale)}
        alike = hasattr(model, "numbers") and sizes <= {1, model.n_outputs}
        checks.need(alike, "the units of y and the numbers do not agree")


def describe(path: Any) -> dict[str, Any]:
    """What a file says about itself, without making a model of it; the checksum is compared.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    header : dict
        ``kind``, ``schema``, ``versions``, ``about`` (as the writer stated it: estimator,
        parameters, classes, feature names) and ``arrays``: type and shape of each array by name.
    """
    header, arrays = container.read(path)
    found = {key: header.get(key) for key in ("kind", "schema", "versions", "about")}
    return {**found, "arrays": {k: (a.dtype.name, a.shape) for k, a in sorted(arrays.items())}}


def _version() -> str:
    """The version of vicinal that runs."""
    return str(sys.modules["vicinal"].__version__)


def _user_stacklevel() -> int:
    """The ``stacklevel`` of the line that loads the pickle, by whatever package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _package(frame) in _LOADERS:
        level, frame = level + 1, frame.f_back
    return level


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _versions() -> dict[str, str]:
    return {
        "vicinal": _version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def _about(model: Any, name: str) -> dict[str, Any]:
    """What people want to know of a model: JSON values, shortened."""
    parameters = {key: _short(value) for key, value in model.get_params(deep=False).items()}
    about: dict[str, Any] = {"estimator": name, "parameters": parameters}
    for key in ("n_features_in_", "n_components_", "n_iter_", "loss_", "n_samples_seen_"):
        value = vars(model).get(key)
        if isinstance(value, int | float | np.number) and np.isfinite(value):
            about[key.strip("_")] = value.item() if isinstance(value, np.number) else value
    for key in ("classes_", "feature_names_in_"):
        values = vars(model).get(key)
        if values is not None:
            about[key.strip("_")] = [_short(value) for value in np.asarray(values).tolist()[:1000]]
    return about


def _short(value: Any) -> Any:
    """A JSON value as it is, anything else as text of at most 200 characters."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    if isinstance(value, np.random.RandomState):
        return "RandomState"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
