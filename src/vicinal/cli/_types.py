"""Values on the command line: durations, settings, names of methods."""

from __future__ import annotations

import ast
import re
from typing import Any

import click
from click.shell_completion import CompletionItem

_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def near(word: str, words: Any) -> str:
    """``" Did you mean 'x'?"`` for a word that is not among the words, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word.lower().replace("_", "-"), [str(w) for w in words], n=1)
    found = found or get_close_matches(word, [str(w) for w in words], n=1)
    return f" Did you mean {found[0]!r}?" if found else ""


class _Duration(click.ParamType):
    """A time: "90", "30s", "2m", "1h30m"."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The time in seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        parts = re.findall(r"([0-9.]+)\s*([a-z]*)", value.strip().lower())
        whole = "".join(number + unit for number, unit in parts)
        try:
            if not parts or whole != re.sub(r"\s", "", value.lower()):
                raise ValueError
            seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        except (ValueError, KeyError):
            self.fail(f"{value!r} is not a time such as 30s, 2m or 1h30m.", param, ctx)
        if not seconds > 0:
            self.fail("the time must be longer than nothing.", param, ctx)
        return seconds


class _Setting(click.ParamType):
    """A parameter and its value, ``name=value``."""

    name = "name=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        """The name and the value: a number, a truth value, a list, or else a string."""
        name, equals, text = value.partition("=")
        if not equals or not name.strip().isidentifier():
            self.fail(f"{value!r} is not of the form name=value, such as alpha=0.01.", param, ctx)
        return name.strip(), literal(text.strip())


def literal(text: str) -> Any:
    """A value as Python or JSON writes it; anything else is a string."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Choice(click.ParamType):
    """One of some names; a wrong one is answered with the nearest."""

    def __init__(self, name: str, words: Any) -> None:
        self.name, self.words = name, words

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """The name, whatever its case."""
        word = str(value).strip()
        for each in self.words:
            if word.lower() == each.lower():
                return str(each)
        listed = ", ".join(self.words)
        self.fail(
            f"there is no {self.name} {value!r}.{near(word, self.words)} The {self.name}s are "
            f"{listed}.", param, ctx,
        )  # fmt: skip

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class _ImageShape(click.ParamType):
    """The height and width of images, "28x28"."""

    name = "HxW"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[int, int]:
        """Height and width."""
        found = re.fullmatch(r"([1-9][0-9]*)[x×]([1-9][0-9]*)", value.strip().lower())
        if found is None:
            self.fail(f"{value!r} is not a height and a width such as 28x28.", param, ctx)
        return int(found[1]), int(found[2])


DURATION, SETTING, IMAGE_SHAPE = _Duration(), _Setting(), _ImageShape()
