"""The command ``vicinal`` and its list of commands, each loaded when it is needed."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NoReturn

import click

import vicinal as package
from vicinal.cli import _files
from vicinal.cli._console import CODES, Console, Failure, ReaderGone
from vicinal.learner.errors import near

#: the commands, in the groups of the help, and the module of each group
COMMANDS = {
    "Learn": ("fit", "evaluate", "embed"),
    "Use a model": ("predict", "neighbours", "transform", "info"),
    "Look": ("plot", "report"),
    "More": ("demo", "datasets", "completion"),
}
_MODULES = {name: title.split()[0].lower() for title, names in COMMANDS.items() for name in names}
_ALSO = {"neighbors": "neighbours"}  # other spellings

EXAMPLES = """\
  vicinal demo
  vicinal evaluate data.csv --label species
  vicinal fit data.csv --label species --method nca --dim 2 -o model.vic
  vicinal predict model.vic new.csv > predicted.csv
  vicinal neighbours model.vic new.csv --table data.csv > nearest.csv
  vicinal report data.csv --label species -o report.html
"""


class Commands(click.Group):
    """A group that imports a command when it is needed, and ends with our exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help."""
        return [name for names in COMMANDS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        name = _ALSO.get(cmd_name, cmd_name)
        if name not in _MODULES:
            return None
        command: click.Command = getattr(import_module(f"vicinal.cli.{_MODULES[name]}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name one that is spelt like it."""
        names = self.list_commands(ctx)
        if args and args[0] not in {*names, *_ALSO} and not ctx.resilient_parsing:
            ctx.fail(f"There is no command {args[0]!r}.{near(args[0], names)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in their groups."""
        width = max(map(len, self.list_commands(ctx)))
        for title, names in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(width), self._about(ctx, name)) for name in names]
                )  # fmt: skip

    def _about(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(80)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Add examples and the exit codes."""
        with formatter.section("Examples"):
            formatter.write(EXAMPLES)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), words) for code, words in CODES.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; click takes a broken pipe for a failure, and a cut file for Ctrl-D."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None
        except EOFError as error:
            raise Failure("A file that was read is cut off: it has no end.") from error

    def main(  # type: ignore[override]
        self, args: Any = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run the command line, and exit."""
        words = list(sys.argv[1:] if args is None else args) or ["--help"]
        console = Console("--json" in words, quiet="--quiet" in words, debug="--debug" in words)
        console.words = words
        extra.update(standalone_mode=False, obj=console)
        console.run(lambda: super(Commands, self).main(words, prog_name, **extra))


def run_part(words: list[str], console: Console) -> Any:
    """Run a command inside another one; errors are left to the outer one."""
    console.words = words
    return click.Group.main(vicinal, words, "vicinal", standalone_mode=False, obj=console)


def check_part(words: list[str], console: Console) -> None:
    """Check the files of a command that will run inside another one."""
    command = vicinal.get_command(click.Context(vicinal), words[0])
    assert command is not None
    # An earlier command may write what this one reads.
    _files.check(command.make_context(words[0], words[1:], obj=console), all_exist=False)


@click.command(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package.__version__, prog_name="vicinal")
def vicinal() -> None:
    """Learn which rows of a table are alike: metrics, pictures and classifiers from a CSV file.

    `vicinal COMMAND --help` shows the options of a command, with examples.
    """
