"""Commands whose help has groups of options, and examples to copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from vicinal.cli import _files


class _Option(click.Option):
    """An option that belongs to a group of the help."""

    def __init__(self, *args: Any, group: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What follows the help: the default, but not the range, which the words imply."""
        extra: Any = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command with further sections of help, which are printed as they are."""

    def __init__(self, *args: Any, sections: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, if no file would be lost by it."""
        _files.check(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if row is not None:
                groups.setdefault(getattr(parameter, "group", "Output"), []).append(row)
        for title in sorted(groups, key=lambda title: title == "Output"):  # the last one
            with formatter.section(title):
                formatter.write_dl(groups[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and other sections."""
        for title, text in self.sections.items():
            with formatter.section(title):
                lines = text.strip("\n").splitlines()
                formatter.write("".join(f"  {line}\n" for line in lines))


def option(group: str, *names: str, **settings: Any) -> Callable[[Any], Any]:
    """An option in a group of the help."""
    return click.option(*names, cls=_Option, group=group, **settings)


def add_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options that commands share, in this order."""

    def decorate(function: Any) -> Any:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate


def _seen(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """The console has read these three before, so that also a wrong command line obeys them."""


_COMMON = add_options(
    option("Output", "--json", is_flag=True, expose_value=False, callback=_seen,
           help="Print one JSON object on standard output."),
    option("Output", "--quiet", is_flag=True, expose_value=False, callback=_seen,
           help="Show no notes and no progress."),
    option("Output", "--debug", is_flag=True, expose_value=False, callback=_seen,
           help="Show the traceback of an error."),
)  # fmt: skip


def command(
    name: str, examples: str, sections: dict[str, str] | None = None
) -> Callable[[Any], Command]:
    """A command with the options that all have; its function gets the console first."""

    def decorate(function: Any) -> Command:
        more = {**(sections or {}), "Examples": examples}
        made: Command = click.command(
            name, cls=Command, sections=more, context_settings={"max_content_width": 100}
        )(_COMMON(click.pass_obj(function)))
        return made

    return decorate
