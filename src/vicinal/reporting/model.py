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
    """The model, the parameters that were set or chosen, and how to load it."""
    versions = {
        "vicinal": vicinal.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }
    steps = ""
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        steps = " after " + ", ".join(type(step).__name__ for _, step in model.steps[:-1])
    name = None if file is None else file.name
    code = _code(model, name)
    return Model(f"{type(learner).__name__}{steps}", _parameters(learner), versions, code, name)


def _parameters(learner: Any) -> dict[str, str]:
    """The parameters that are not at their defaults, and what was chosen where they left it open.

    What a fit chose for the parameter ``alpha`` is its attribute ``alpha_``.
    """
    defaults = signature(type(learner)).parameters
    found = {}
    for name, value in learner.get_params(deep=False).items():
        text = _short(value)
        chosen = vars(learner).get(f"{name}_")
        open_ = value is None or isinstance(value, str)
        if open_ and isinstance(chosen, int | float | str | numpy.number) and chosen != value:
            number = isinstance(chosen, float | numpy.floating)
            told = f"{chosen:.4g}" if number else str(chosen)
            found[name] = f"{told}, chosen by {text}" if value is not None else told
        elif text != _short(defaults[name].default):
            found[name] = text
    if "n_components" not in found and hasattr(learner, "components_"):
        found["n_components"] = str(len(learner.components_))
    return found


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
