"""What a command says, and where, and how it ends.

Results go to standard output, everything else to standard error; an error is one sentence.
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click

OK, FAILURE, USAGE, NOT_CONVERGED, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 130, 141

#: what `vicinal --help` says about exit codes
CODES = {
    OK: "done",
    FAILURE: "a file, a table or a model cannot be used, or a package is missing",
    USAGE: "the command line is wrong",
    NOT_CONVERGED: "the fit did not converge (only with --strict; the model is written)",
    BUG: "an error of vicinal itself; --debug shows where",
    INTERRUPTED: "interrupted; fit and embed write the best result so far",
    BROKEN_PIPE: "the reader of the output went away",
}


class ReaderGone(Exception):
    """A broken pipe, under a name that click does not handle by itself."""


class Failure(Exception):
    """Ends the command with a sentence for the user and an exit code."""

    def __init__(self, message: str, code: int = FAILURE) -> None:
        super().__init__(message)
        self.code = code


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
        self.words: list[str] = []  # the command line
        self.force = False  # whether files of another kind are replaced
        self.told: dict[str, Any] = {}  # the facts of the last result
        self.warned: set[str] = set()  # the categories of warnings
        self._silent = False
        self._noted: set[str] = set()

    def note(self, text: str) -> None:
        """Say once what the user should know, in one line."""
        line = " ".join(text.split())
        if line not in self._noted:
            self._noted.add(line)
            self.say(f"Note: {line}")

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
        if self.as_json:
            text = json.dumps(self.told, indent=2, ensure_ascii=False)
        if text and not self._silent:
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
            self.warned.add(category.__name__)
            self.note(str(message))

        with warnings.catch_warnings():
            warnings.showwarning = show
            yield

    def run(self, body: Callable[[], Any]) -> NoReturn:
        """Run a command and exit with its code; an error is one sentence on standard error."""
        try:
            with self.warnings_as_notes():
                code = body()
            sys.stdout.flush()
        except (BrokenPipeError, ReaderGone):
            _drop_output()
            sys.exit(BROKEN_PIPE)
        except click.exceptions.Exit as error:
            sys.exit(error.exit_code)
        except Exception as error:
            if self.debug and not isinstance(error, (click.ClickException, click.Abort)):
                traceback.print_exc()
            code = self._report(error, *_told(error))
        except KeyboardInterrupt as error:
            code = self._report(error, "Interrupted.", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else OK)

    def _report(self, error: BaseException, message: str, code: int) -> int:
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context is not None and context.command is not None:
            click.echo(context.get_usage(), err=True)
            message = f"{message.rstrip('.')}. Try '{context.command_path} --help'."
        click.echo(f"Error: {message}" if code != INTERRUPTED else message, err=True)
        if self.as_json:
            self.result("", {"error": message, "exit_code": code})
        return code


def _told(error: Exception) -> tuple[str, int]:
    """The sentence and the exit code for an error."""
    text = str(error)
    if isinstance(error, click.Abort):
        return "Interrupted.", INTERRUPTED
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, Failure):
        return text, error.code
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}.", FAILURE
    if isinstance(error, MemoryError):
        return text or "There is not enough memory.", FAILURE
    if isinstance(error, (ValueError, ImportError, OSError)):  # ours, and they say what to do
        return text or repr(error), FAILURE
    if isinstance(error, TypeError) and " parameter" in text and "Got " in text:
        return text, FAILURE
    return f"{type(error).__name__}: {text} (a bug; run it again with --debug to see where)", BUG


def _drop_output() -> None:
    """Point standard output at nothing: the interpreter flushes it at exit, into a closed pipe."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, sys.stdout.fileno())
    except (OSError, ValueError):  # not a file
        sys.stdout = open(os.devnull, "w")
    finally:
        os.close(nothing)


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
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        return plain(value.tolist())
    return str(value) if isinstance(value, Path) else repr(value)
