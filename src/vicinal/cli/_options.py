"""Commands and their options: the values that options take, and the options that several share."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from vicinal.cli import _files
from vicinal.cli._files import File
from vicinal.learner import METHODS
from vicinal.learner.errors import near

_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_WORDS = {"true": True, "false": False, "none": None, "null": None}


class Duration(click.ParamType):
    """A time in seconds: "90", "30s", "2m", "1h30m"."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        text = re.sub(r"\s", "", value.lower())
        parts = re.findall(r"([0-9.]+)([a-z]*)", text)
        try:
            if not parts or text != "".join(number + unit for number, unit in parts):
                raise ValueError
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        except (ValueError, KeyError):
            self.fail(f"{value!r} is not a time such as 30s, 2m or 1h30m.", param, ctx)
        if not seconds > 0:
            self.fail("the time must be longer than nothing.", param, ctx)
        return seconds


class Setting(click.ParamType):
    """A parameter and its value, ``name=value``: a number, a boolean, a list, or a string."""

    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        name, equals, text = map(str.strip, value.partition("="))
        if not equals or not name.isidentifier():
            self.fail(f"{value!r} is not of the form name=value, such as alpha=0.01.", param, ctx)
        if text.lower() in _WORDS:
            return name, _WORDS[text.lower()]
        try:
            return name, ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return name, text


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"

    def get_metavar(self, param: Any, ctx: Any = None) -> str:
        return "N"


class Choice(click.ParamType):
    """One of some names; a wrong one is answered with the nearest."""

    def __init__(self, name: str, words: Any) -> None:
        self.name, self.words = name, tuple(words)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        by_lower = {word.lower(): word for word in self.words}
        word = str(value).strip()
        if word.lower() not in by_lower:
            listed = ", ".join(self.words)
            self.fail(
                f"there is no {self.name} {value!r}.{near(word, self.words)} The {self.name}s are "
                f"{listed}.", param, ctx,
            )  # fmt: skip
        return str(by_lower[word.lower()])

    def get_metavar(self, param: Any, ctx: Any = None) -> str:
        return "NAME"

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class ImageShape(click.ParamType):
    """The height and width of images, "28x28"."""

    name = "HxW"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        found = re.fullmatch(r"([1-9][0-9]*)[x×]([1-9][0-9]*)", value.strip().lower())
        if found is None:
            self.fail(f"{value!r} is not a height and a width such as 28x28.", param, ctx)
        return int(found[1]), int(found[2])


class _Option(click.Option):
    """An option that belongs to a group of the help."""

    def __init__(self, *args: Any, group: str = "Output", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What follows the help: the default, but not the range, which the words imply."""
        extra: Any = super().get_help_extra(ctx)
        extra.pop("range", None)
        return extra


class Command(click.Command):
    """A command whose help has groups of options, and further sections as they are."""

    def __init__(self, *args: Any, sections: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, if its files are there and none would be lost."""
        _files.check(ctx)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if row is not None:
                groups.setdefault(getattr(parameter, "group", "Output"), []).append(row)
        for title in sorted(groups, key=lambda title: title == "Output"):  # the last one
            with formatter.section(title):
                formatter.write_dl(groups[title])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, text in self.sections.items():
            with formatter.section(title):
                lines = text.strip("\n").splitlines()
                formatter.write("".join(f"  {line}\n" for line in lines))


def option(
    group: str, names: str, kind: Any, words: str, default: Any = None, **more: Any
) -> Callable[[Any], Any]:
    """An option in a group of the help, whose words follow its names and its kind of value."""
    if kind is bool and "/" not in names:
        more["is_flag"] = True
    if default is not None:
        more.update(default=default, show_default=True)
    elif "/" in names:
        more["default"] = None
    return click.option(
        *names.split(), cls=_Option, group=group, type=kind, help=words, **more
    )  # fmt: skip


def add_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options, in this order."""

    def decorate(function: Any) -> Any:
        for each in reversed(options):
            function = each(function)
        return function

    return decorate


def _set(name: str, *values: Any) -> dict[str, Any]:
    """The settings of an option that changes the console, if it has one of some values."""

    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value in values:
            setattr(context.obj, name, value)

    return {"expose_value": False, "callback": callback}


#: the console has read these three before, so that also a wrong command line obeys them
_COMMON = add_options(
    option("Output", "--json", bool, "Print one JSON object on standard output.",
           expose_value=False),
    option("Output", "--quiet", bool, "Show no notes and no progress.", expose_value=False),
    option("Output", "--debug", bool, "Show the traceback of an error.", expose_value=False),
)  # fmt: skip


def command(examples: str, sections: dict[str, str] | None = None) -> Callable[[Any], Command]:
    """A command with the options that all have, named like its function, which gets the console."""

    def decorate(function: Any) -> Command:
        more = {**(sections or {}), "Examples": examples}
        made: Command = click.command(
            function.__name__,
            cls=Command,
            sections=more,
            context_settings={"max_content_width": 100},
        )(_COMMON(click.pass_obj(function)))
        return made

    return decorate


DATA_FILE, MODEL_FILE = File(path_type=str), File(reads="model")
DATA_FILES = File(path_type=str, folders=True)

LABEL = option(
    "Table", "--label", str,
    "The column to learn, by name or by position: 1 is the first, -1 the last.", metavar="COLUMN",
)  # fmt: skip

TASK = option(
    "Table", "--task", Choice("task", ("classes", "numbers")), "What the label holds. Default: "
    "numbers if some have fractions or more than 20 are different, else classes.",
)  # fmt: skip

SAFE_CELLS = option(
    "Table", "--safe-cells/--no-safe-cells", bool,
    "Write text that begins with = + - @ into a CSV file with an apostrophe before it, so that no "
    "spreadsheet runs it, and read it without.", default=True,
)  # fmt: skip

FORMAT = add_options(
    option("Table", "--sep", str, "What separates the columns of a CSV file; found by itself if "
           "not given."),
    option("Table", "--na", str, "A text that stands for a missing value, besides the empty one, "
           "NA and NaN. May be repeated.", multiple=True),
    option("Table", "--header/--no-header", bool, "Whether the first line of a CSV file names the "
           "columns; found by itself if not given."),
    option("Table", "--encoding", str, "The encoding of a CSV file, such as latin-1. Default: "
           "UTF-8.", metavar="NAME"),
    SAFE_CELLS,
)  # fmt: skip

_SOME = {"multiple": True, "metavar": "COLUMN"}

COLUMNS = add_options(
    option("Columns", "--drop", str, "Leave a column out. All of these may be repeated, or name "
           "several columns: --drop id,date.", **_SOME),
    option("Columns", "--numeric", str, "Use it as a number; what is not one is missing.", **_SOME),
    option("Columns", "--categorical", str, "Use it as a category, also if it looks like a number.",
           **_SOME),
    option("Columns", "--ordinal", str, "Use it as a category whose values have this order.",
           multiple=True, metavar="COLUMN=A,B,C"),
    option("Columns", "--text", str, "Use the words in it.", **_SOME),
    option("Columns", "--strict-columns", bool, "Refuse a table of which something would be left "
           "out or guessed."),
)  # fmt: skip

SET = option(
    "Method", "--set settings", Setting(), "Any other parameter of the method, such as alpha=0.01; "
    "mapping=mlp learns a network. May be repeated.", multiple=True,
)  # fmt: skip

SEED = option(
    "Method", "--seed", Whole(0), "Draws all that is random: the same seed gives the same result.",
    default=0,
)  # fmt: skip

TIME_BUDGET = option(
    "Limits", "--time-budget", Duration(),
    "Learn for at most this long: 30s, 2m, 1h. The best so far is kept.",
)  # fmt: skip

THREADS = option(
    "Limits", "--threads", Whole(1),
    "Use at most this many threads. Default: all cores. The result is the same.",
)  # fmt: skip

LEARNING = add_options(
    TASK,
    option("Method", "--method", Choice("method", METHODS), "What to learn by; `vicinal fit --help`"
           " lists all. Default: vote, or vote-regressor if the label is a number; with --dim or "
           "another option that only a single metric has, nca or nca-regressor."),
    option("Method", "--dim", Whole(1), "Dimensions to map to; 2 for a picture. Default: that of "
           "the method."),
    SET,
    SEED,
    TIME_BUDGET,
    THREADS,
)  # fmt: skip

KEEP = option(
    "Output", "--keep", str, "Columns of the table to put next to the result, such as an "
    "identifier. May be repeated, or name several: --keep id,species.", **_SOME,
)  # fmt: skip

PROGRESS = option(
    "Output", "--progress/--no-progress", bool, "Show the iterations on standard error. Default: "
    "if that is a terminal.", **_set("progress", True, False),
)  # fmt: skip

FORCE = option(
    "Output", "--force", bool, "Replace an existing file even if it is of another kind, such as "
    "notes by a model.", **_set("force", True),
)  # fmt: skip

SCHEDULER = option(
    "Limits", "--scheduler", str, "Let the workers of this dask cluster read and write the files "
    "of a folder, which they must see under the same path.", metavar="ADDRESS",
)  # fmt: skip

OUTPUT_TABLE = add_options(
    option("Output", "-o --output", File("table", path_type=str), "The table to write: .csv, .tsv, "
           ".parquet or .npz; - is CSV on standard output.", default="-"),
    FORCE,
)  # fmt: skip
