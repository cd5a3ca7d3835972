"""``vicinal info``: what a model file holds."""

from __future__ import annotations

from pathlib import Path

import click

from vicinal.cli import _options
from vicinal.cli._command import command as _command
from vicinal.cli._console import Console

__all__ = ["command"]

EXAMPLES = """
vicinal info model.vic
vicinal info model.vic --json
"""


@_command("info", EXAMPLES)
@click.argument("model", type=_options.MODEL_FILE)
def command(console: Console, model: Path) -> None:
    """Say what a MODEL file holds: the method, its parameters, columns, classes and versions.

    The file is read and its checksum compared, but the model is not made, so that this is safe for
    any file.
    """
    from vicinal.cli._exit import Failure
    from vicinal.storage import describe

    if not model.exists():
        raise Failure(f"{model}: there is no such file.")
    facts = describe(model)
    console.result("\n".join(f"{name}: {value}" for name, value in facts.items()), facts)
