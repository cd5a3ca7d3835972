"""Fits that go on from a checkpoint: reading the file, and refusing one of another fit."""

from __future__ import annotations

import os
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from vicinal import storage
from vicinal._validation import warn
from vicinal.estimators._resume import Resumable
from vicinal.storage.codec import encode

__all__ = ["check_same_fit", "check_same_rows", "is_checkpoint", "load_checkpoint", "take_over"]

#: parameters that may differ from those of the fit that is resumed: they do not change its result,
#: or, as a time budget, say only how long to go on
_FREE = ("time_budget", "verbose")
#: attributes in which estimators keep what the last fit has left for a later one
_STATES = ("_resumable", "_left")
#: first bytes of pickles, and of the compressed files of joblib
_PICKLES = (
    *(bytes([0x80, protocol]) for protocol in range(2, 6)),
    b"\x78",  # zlib
    b"\x1f\x8b",  # gzip
    b"BZh",
    b"\xfd7zXZ",
    b"\x5d\x00",  # lzma
    b"\x04\x22M\x18",  # lz4
)


def load_checkpoint(path: str | os.PathLike[str], module: Any = None) -> Any:
    """The estimator that a checkpoint holds, be it a model file or a pickle of earlier versions."""
    path = Path(path)
    if not _is_pickle(path):
        return storage.load(path, module=module)
    import joblib

    warn(
        f"The checkpoint {str(path)!r} was written by an earlier version of vicinal. It is a "
        "pickle, which runs whatever code it holds: load such files only from sources you trust. "
        "Checkpoints written from now on hold no code."
    )
    return joblib.load(path)


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a model file holds the state of a fit; any other file is a FileError."""
    header, _ = storage.read(path)
    match header:
        case {"model": {"fields": {**fields}}}:
            return any(fields.get(name) is not None for name in _STATES)
    return False


def _is_pickle(path: Path) -> bool:
    """Whether a file is a pickle; its contents tell, not its name."""
    with open(path, "rb") as file:
        head = file.read(9)
    # A model file begins with the length of its JSON header, which may look like a pickle.
    if int.from_bytes(head[:8], "little") < 2**32 and head[8:] == b"{":
        return False
    return head.startswith(_PICKLES)


def take_over(estimator: Any, path: Any) -> None:
    """Give the estimator all that the estimator in a checkpoint has learnt.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file holds another estimator, one with other parameters, or no state of a fit.
    """
    name = type(estimator).__name__
    if not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"The 'resume_from' parameter of {name}.fit must be a path or None. "
            f"Got {path!r} instead."
        )
    if not Path(path).exists():
        raise FileNotFoundError(
            f"There is no checkpoint {str(path)!r} from which {name}.fit could resume. To begin a "
            "fit if there is none yet: resume_from=path if path.exists() else None."
        )
    held = load_checkpoint(path, getattr(getattr(estimator, "mapping", None), "_module", None))
    if type(held) is not type(estimator):
        _refuse(estimator, path, f"it holds a {type(held).__name__}")
    _check_parameters(estimator, held, path)
    state = _state_of(held)
    if state is None or state.data is None:
        _refuse(
            estimator,
            path,
            "it holds a fitted estimator without the state of its fit. The callback Checkpoint "
            "saves both",
        )
    own = {key: value for key, value in vars(estimator).items() if not _is_learnt(estimator, key)}
    learnt = {key: value for key, value in vars(held).items() if _is_learnt(held, key)}
    vars(estimator).clear()
    vars(estimator).update(own | learnt)


def _state_of(estimator: Any) -> Any:
    """What the last fit of an estimator has left for a later one."""
    return next((state for name in _STATES if (state := getattr(estimator, name, None))), None)


def _is_learnt(estimator: Any, name: str) -> bool:
    """Whether ``fit`` has set an attribute: it is no parameter, nor a setting of scikit-learn."""
    settings = ("_skl", "_metadata_request", "_callback", "_parent_callback")
    return name not in estimator.get_params(deep=False) and not name.startswith(settings)


def _check_parameters(estimator: Any, held: Any, path: Any) -> None:
    """Refuse parameters that differ from those in the file, all by name."""
    before, now = held.get_params(deep=False), estimator.get_params(deep=False)
    changed = [
        f"{name} was {_text(before[name])} and is {_text(now[name])} now"
        for name in now
        if name not in _FREE and not _same(before[name], now[name])
    ]
    if changed:
        _refuse(estimator, path, "parameters differ: " + "; ".join(changed))


def _same(before: Any, now: Any) -> bool:
    """Whether two values of a parameter ask for the same."""
    if isinstance(before, Number) and isinstance(now, Number):
        return before == now
    if isinstance(before, np.random.RandomState):  # the fit goes on with the state in the file
        return isinstance(now, np.random.RandomState)
    try:
        return _coded(before) == _coded(now)  # texts of large arrays leave most of them out
    except TypeError:  # only pickles hold such a value
        return _text(before) == _text(now)


def _coded(value: Any) -> tuple[Any, dict[str, Any]]:
    """A value as a model file holds it: JSON, and the contents of arrays."""
    arrays: dict[str, Any] = {}
    coded = encode(value, "parameter", arrays)
    return coded, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def _text(value: Any) -> str:
    if isinstance(value, np.random.RandomState):
        return "a RandomState"
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def check_same_fit(estimator: Any, past: Any, left: Any, path: Any) -> Resumable:
    """The fit in the checkpoint; refuse it if the rows or the plan of the present fit differ."""
    check_same_rows(estimator, past.data, left.data, path)
    if past.plan[:4] != left.plan[:4]:
        _refuse(estimator, path, f"its plan was: {past.plan} The plan is now: {left.plan}")
    return past


def check_same_rows(estimator: Any, before: str, now: str, path: Any) -> None:
    """Refuse rows or targets other than those of the fit in the checkpoint."""
    if before != now:
        _refuse(
            estimator,
            path,
            f"the rows differ: they were {before} (shape, type, checksum) and are {now} now. "
            "Labels, weights and the order of the rows count",
        )


def _refuse(estimator: Any, path: Any, why: str) -> None:
    raise ValueError(
        f"{type(estimator).__name__}.fit cannot resume from the checkpoint {str(path)!r}: {why}."
    )
