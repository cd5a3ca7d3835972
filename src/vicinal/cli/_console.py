"""What a command says, and where: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


class Console:
    """The output of one command.

    Parameters
    ----------
    as_json : bool
        Results are one JSON object instead of text.
    quiet : bool
        No notes and no progress.
    debug : bool
        An error shows its traceback.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False, debug: bool = False) -> None:
        self.as_json, self.quiet, self.debug = as_json, quiet, debug
        self.progress: bool | None = None  # None: if standard error is a terminal
        self.force = False  # whether files of another kind are replaced
        self.told: dict[str, Any] = {}  # the facts of the last result
        self._silent = False
        self._noted: set[str] = set()
        self._categories: set[str] = set()

    def note(self, text: str) -> None:
        """Say once what the user should know, in one line on standard error."""
        line = " ".join(text.split())
        if not self.quiet and line not in self._noted:
            self._noted.add(line)
            click.echo(f"Note: {line}", err=True)

    def say(self, text: str) -> None:
        """Say what has been done, on standard error."""
        if not self.quiet:
            click.echo(text, err=True)

    @contextmanager
    def status(self) -> Iterator[Callable[[str], None]]:
        """A function that shows what is being done, in one line that it replaces."""
        on_terminal = self.shows_progress and sys.stderr.isatty()

        def show(text: str) -> None:
            if on_terminal:
                click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            elif self.shows_progress:
                click.echo(text, err=True)

        try:
            yield show
        finally:
            if on_terminal:
                click.echo("\r\x1b[K", nl=False, err=True)

    def step(self, words: str) -> None:
        """Say which part of the work begins, if a person is watching."""
        if self.shows_progress:
            click.echo(f"{words[:1].upper()}{words[1:]} …", err=True)

    def result(self, text: str, facts: dict[str, Any]) -> None:
        """Print the result of the command: the text, or the facts as one JSON object."""
        self.told = plain(facts)
        if self._silent:
            return
        if self.as_json:
            text = json.dumps(self.told, indent=2, ensure_ascii=False)
        if text:
            click.echo(text)

    def part(self) -> Console:
        """The console of a command that runs as a part of this one."""
        part = Console(False, self.quiet, self.debug)
        part.progress, part.force, part._silent = self.progress, self.force, self.as_json
        return part

    @property
    def shows_progress(self) -> bool:
        """Whether a fit shows its iterations."""
        if self.quiet or self.progress is False:
            return False
        return self.progress is True or sys.stderr.isatty()

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Show warnings as notes, without the line of code that gave them."""

        def show(message: Any, category: type, *_: Any, **__: Any) -> None:
            self._categories.add(category.__name__)
            self.note(str(message))

        with warnings.catch_warnings():
            warnings.showwarning = show
            yield

    def warned(self, category: str) -> bool:
        """Whether a warning of that category was given."""
        return category in self._categories


class Interrupt:
    """Ctrl-C during a fit: the first ends it with the best model so far, the second ends all.

    As a context manager it handles SIGINT; ``seen`` says whether one came.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.seen = False
        self._before: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, *_: object) -> None:
        if self.seen:
            # Not an exception: the library would take it as a wish to keep what there is.
            show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""
            os.write(2, f"{show_cursor}\nAborted: nothing was written.\n".encode())
            os._exit(130)
        self.seen = True
        self.console.say("\nInterrupted: ending with the best so far. Ctrl-C again aborts.")
        raise KeyboardInterrupt


def plain(value: Any) -> Any:
    """The value as JSON has it: arrays as lists, and no NaN or infinity."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return plain(value.tolist())
    return repr(value)
