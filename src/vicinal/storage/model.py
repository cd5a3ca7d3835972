"""``save`` and ``load``: a fitted estimator in one file."""

from __future__ import annotations

import platform
import warnings
from typing import Any

import numpy as np
import scipy
import sklearn

from vicinal.core.types import Array
from vicinal.storage import container
from vicinal.storage.codec import ModelCoding
from vicinal.storage.container import FileError
from vicinal.storage.names import name_of
from vicinal.storage.pipelines import from_fields, is_pipeline, to_fields
from vicinal.storage.versions import OtherVersionWarning, user_stacklevel, version

_VERSION = "_vicinal_version"  # the key in pickles


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
    coding = ModelCoding()
    coded = coding.encode(value, kind)
    header = {
        "format": container.FORMAT,
        "schema": container.SCHEMA,
        "kind": kind,
        "versions": _versions(),
        "about": about or {},
        kind: coded,
    }
    container.write(path, header, coding.arrays)


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
    coding = ModelCoding(arrays, module)
    try:
        found = coding.decode(coded)
        coding.check_all_used()
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
    if is_pipeline(model):
        fields = to_fields(model)
        learn = fields["learn"]
        about = _about(learn, str(name_of(type(learn))))
        names = getattr(model, "feature_names_in_", None)
        if names is not None:  # those of the table, before it was prepared
            about["feature_names_in"] = [_short(name) for name in list(names)[:1000]]
        write_object(path, "pipeline", fields, about)
        return
    name = name_of(type(model))
    if name is None or not hasattr(model, "get_params"):
        raise TypeError(
            "A model file holds an estimator of vicinal or a pipeline of vicinal.make_learner. "
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

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, _VERSION: version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        pickled = state.pop(_VERSION, None)
        if pickled not in (None, version()):
            warnings.warn(
                f"This {type(self).__name__} was pickled by vicinal {pickled}, and is loaded by "
                f"{version()}: it may fail or give other results. Files written by "
                "vicinal.save can be read by later versions.",
                OtherVersionWarning,
                stacklevel=user_stacklevel(),
            )
        super().__setstate__(state)  # type: ignore[misc]


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


def _versions() -> dict[str, str]:
    return {
        "vicinal": version(),
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
