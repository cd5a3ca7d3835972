"""How a command ends: exit codes, and one sentence for each error."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import click

from vicinal.cli._console import Console

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


def run(body: Callable[[], Any], console: Console) -> NoReturn:
    """Run a command and exit; an error is one sentence on standard error."""
    try:
        with console.warnings_as_notes():
            code = body()
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGone):
        _drop_output()
        sys.exit(BROKEN_PIPE)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except Exception as error:
        if console.debug and not isinstance(error, (click.ClickException, click.Abort)):
            traceback.print_exc()
        message, code = _told(error)
        _report(message, code, console, error)
    except KeyboardInterrupt:
        _report("Interrupted.", INTERRUPTED, console)
        code = INTERRUPTED
    sys.exit(code if isinstance(code, int) else OK)


def _told(error: Exception) -> tuple[str, int]:
    """The sentence and the exit code for an error."""
    if isinstance(error, click.Abort):
        return "Interrupted.", INTERRUPTED
    if isinstance(error, click.UsageError):
        return error.format_message(), USAGE
    if isinstance(error, click.ClickException):
        return error.format_message(), FAILURE
    if isinstance(error, Failure):
        return str(error), error.code
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}.", FAILURE
    if isinstance(error, MemoryError):
        return str(error) or "There is not enough memory.", FAILURE
    if isinstance(error, (ValueError, ImportError, OSError)):  # ours, and they say what to do
        return str(error) or repr(error), FAILURE
    if isinstance(error, TypeError) and " parameter" in str(error) and "Got " in str(error):
        return str(error), FAILURE
    return f"{type(error).__name__}: {error} (a bug; run it again with --debug to see where)", BUG


def _report(message: str, code: int, console: Console, error: BaseException | None = None) -> None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None and context.command is not None:
        click.echo(context.get_usage(), err=True)
        hint = f"{context.command_path} --help"
        message = f"{message.rstrip('.')}. Try '{hint}'."
    click.echo(f"Error: {message}" if code != INTERRUPTED else message, err=True)
    if console.as_json:
        console.result("", {"error": message, "exit_code": code})


def _drop_output() -> None:
    """Point standard output at nothing: the interpreter flushes it at exit, into a closed pipe."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, sys.stdout.fileno())
    except (OSError, ValueError):  # not a file
        sys.stdout = open(os.devnull, "w")
    finally:
        os.close(nothing)
