"""``vicinal info``: what a model file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options
from vicinal.cli._console import Console
from vicinal.cli._work import listed

EXAMPLES = """
vicinal info model.vic
vicinal info model.vic --json
"""


@_options.command("info", EXAMPLES)
@click.argument("model", type=_options.MODEL_FILE)
def command(console: Console, model: Path) -> None:
    """Say what a MODEL file holds: the method, its parameters, columns, classes and versions.

    The file is read and its checksum compared, but the model is not made, so that this is safe for
    any file.
    """
    from vicinal.storage import describe

    facts = {"file": model, "bytes": model.stat().st_size, **describe(model)}
    console.result(_words(facts), facts)


def _words(facts: dict[str, Any]) -> str:
    """The facts for people: what is long is cut, and what is usual is left out."""
    about = facts["about"] or {}
    loss = about.get("loss")
    versions = (f"{name} {version}" for name, version in (facts["versions"] or {}).items())
    rows = {
        "model": f"{about.get('estimator', 'unknown')} ({facts['kind']}, format {facts['schema']})",
        "dimensions": _from_to(about),
        "iterations": about.get("n_iter"),
        "loss": f"{loss:.4g}" if isinstance(loss, int | float) else None,
        "classes": listed(about.get("classes") or ()),
        "columns": listed(about.get("feature_names_in") or ()),
        "parameters": listed(_changed(about)),
        "written by": listed(versions),
        "size": f"{facts['bytes']:,} bytes, {len(facts['arrays'])} arrays",
    }
    return "\n".join(f"{name:<11} {text}" for name, text in rows.items() if text not in (None, ""))


def _from_to(about: dict[str, Any]) -> str | None:
    n, d = about.get("n_features_in"), about.get("n_components")
    columns = about.get("feature_names_in")
    encoded = f" after encoding {len(columns)} columns" if columns and len(columns) != n else ""
    return f"{n} to {d}{encoded}" if n and d else None


def _changed(about: dict[str, Any]) -> list[str]:
    """The parameters that are not at their defaults."""
    import inspect

    import vicinal

    given = about.get("parameters") or {}
    known = getattr(vicinal, str(about.get("estimator")), None)
    usual = {} if known is None else inspect.signature(known).parameters
    return [
        f"{name}={value!r}" for name, value in given.items()
        if name not in usual or usual[name].default != value
    ]  # fmt: skip
