"""``vicinal completion``: completion of commands and options by the tab key."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from vicinal.cli import _options
from vicinal.cli._console import Console

EXAMPLES = """
Bash:  echo 'eval "$(vicinal completion bash)"' >> ~/.bashrc
Zsh:   echo 'eval "$(vicinal completion zsh)"' >> ~/.zshrc
Fish:  vicinal completion fish > ~/.config/fish/completions/vicinal.fish
"""


@_options.command("completion", EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(console: Console, shell: str) -> None:
    """Print the script that completes commands in a shell.

    Run one of the lines below once; a new shell then completes commands, options, methods and files
    by the tab key.
    """
    from vicinal.cli._group import vicinal

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(vicinal, {}, "vicinal", "_VICINAL_COMPLETE").source()
    console.result(script, {"shell": shell, "script": script})
