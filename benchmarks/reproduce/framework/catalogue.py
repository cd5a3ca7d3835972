"""Every experiment by name: a module with EXPERIMENTS in the folder of a paper makes a new one."""

from __future__ import annotations

import importlib
import pkgutil

from reproduce.framework.experiment import Experiment

__all__ = ["PAPERS", "experiments"]

#: folders of the experiments, and headings of the index
PAPERS = {
    "own": "Questions of our own",
    "goldberger": "Goldberger, Roweis, Hinton, Salakhutdinov (2005)",
    "oneata": "Oneață (2011)",
    "tarlow": "Tarlow, Swersky, Charlin, Sutskever, Zemel (2013)",
    "olsen": "Olsen, Petersen: χ²-LMNN",
}


def experiments() -> dict[str, Experiment]:
    """All experiments, paper by paper."""
    found: list[Experiment] = []
    for paper in PAPERS:
        package = importlib.import_module(f"reproduce.{paper}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            found += getattr(importlib.import_module(module.name), "EXPERIMENTS", ())
    return {each.name: each for each in sorted(found, key=lambda e: _order(e.paper, e.name))}


def _order(paper: str, name: str) -> tuple[int, list[object]]:
    """Papers as listed, then names, with table 5.10 after table 5.9."""
    words = name.replace("-", ".").split(".")
    numbers = [(0, int(w), "") if w.isdigit() else (1, 0, w) for w in words]
    return list(PAPERS).index(paper), list(numbers)
