"""The model on the page: parameters, versions, and how to load it."""

from __future__ import annotations

import platform
from inspect import signature
from pathlib import Path
from typing import Any

import numpy
import scipy
import sklearn
from sklearn.pipeline import Pipeline

import vicinal
from vicinal.reporting.contents import Model

_CHARACTERS = 60  # of a parameter


def model_of(model: Any, learner: Any, file: Path | None) -> Model:
    """Parameters that differ from their defaults come first."""
    defaults = signature(type(learner)).parameters
    texts = {name: _short(value) for name, value in learner.get_params(deep=False).items()}
    order = sorted(texts, key=lambda name: texts[name] == _short(defaults[name].default))
    versions = {
        "vicinal": vicinal.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }
    steps = ""
    if isinstance(model, Pipeline):
        steps = " after " + ", ".join(type(step).__name__ for _, step in model.steps[:-1])
    parameters = {name: texts[name] for name in order}
    name = None if file is None else file.name
    return Model(f"{type(learner).__name__}{steps}", parameters, versions, _code(model, name), name)


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"


def _code(model: Any, file: str | None) -> str:
    name = file or "model.vic"
    lines = ["import vicinal", ""]
    if file is None:
        lines += [f"vicinal.save(report.model, {name!r})  # once, where the report was made", ""]
    lines += [f"model = vicinal.load({name!r})", "Z = model.transform(X)  # new rows, embedded"]
    if hasattr(model, "predict"):
        lines.append("y = model.predict(X)    # and predicted from their neighbours")
    return "\n".join(lines)
