"""Which methods `vicinal evaluate` compares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from vicinal.cli._tables import Table
from vicinal.cli._types import near
from vicinal.cli._work import check_target, is_number, make_pipeline, settings_of
from vicinal.learner import METHODS


def learns_numbers(table: Table, names: Sequence[str]) -> bool:
    """Whether the label is a number: the methods say, or its values."""
    targets = {METHODS[name].target for name in names if name in METHODS} - {"none"}
    numbers = "numbers" in targets or (not targets and is_number(table.y))
    if numbers and targets - {"numbers"}:
        raise click.UsageError(
            "--method: some of these learn numbers and others classes, so there is no common score."
        )
    check_target(table, "numbers" if numbers else "classes")
    return numbers


def methods(
    table: Table, numbers: bool, columns: dict[str, Any], options: dict[str, Any]
) -> list[Any]:
    """The baselines, and the methods that were asked for, with their settings."""
    baselines = ["euclidean", "pca"] if numbers else ["euclidean", "pca", "lda"]
    asked = list(dict.fromkeys(options["methods"])) or ["mlkr" if numbers else "nca"]
    settings = settings_of(options)
    own = {name: METHODS[name].parameters() for name in asked if name in METHODS}
    known = {parameter for parameters in own.values() for parameter in parameters}
    for name in settings:
        if name not in known:
            raise click.UsageError(
                f"--set: none of the methods has a parameter {name!r}.{near(name, known)}"
            )
    chosen: list[Any] = [*baselines]
    for name in asked:
        its = {key: value for key, value in settings.items() if key in own.get(name, ())}
        if name not in chosen:
            chosen.append((name, _built(table, name, its, columns, options)) if its else name)
    return chosen


def _built(
    table: Table, name: str, settings: dict[str, Any], columns: dict[str, Any],
    options: dict[str, Any],
) -> Any:  # fmt: skip
    rank = options["dim"] if "n_components" in METHODS[name].parameters() else None
    rank = settings.pop("n_components", rank)
    return make_pipeline(
        table, name, settings, n_components=rank, random_state=options["seed"], **columns
    )
