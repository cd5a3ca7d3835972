"""Where `vicinal.callbacks.Progress` shows what a fit is doing: terminal, notebook, plain lines."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from vicinal import _clock

_BAR = 20  # characters
_LEAST_BAR = 2  # characters; rich draws a bar of width 0 across the whole terminal
#: words that a narrow terminal shortens
_SHORTER = {"iteration ": "", "at most ": "< ", "held-out loss": "held out"}


class Status(NamedTuple):
    """What a display shows of a fit.

    Parameters
    ----------
    parts : list of str
        Words, the most important first; a narrow display drops the last ones.
    done, total : int or None
        Iterations so far, and at most.
    last : bool
        Whether this is the last status of the fit.
    news : bool
        Whether to show it at once, however recent the status before it is.
    """

    parts: list[str]
    done: int = 0
    total: int | None = None
    last: bool = False
    news: bool = False


class Display(Protocol):
    """Shows the status of one or more fits."""

    def add(self, name: str) -> Any: ...

    def show(self, row: Any, status: Status) -> None: ...

    def close(self) -> None: ...


def open_display(console: Any, interval: float) -> Display:
    """The display that suits the console; None for standard error."""
    from rich.console import Console

    if console is None:
        # Not rich's global console: scikit-learn's progress bar may be using it.
        console = Console(stderr=True)
    if console.is_interactive:
        return _LiveLines(console)
    if console.is_jupyter:
        return _NotebookLines(interval)
    return _PlainLines(console, interval)


def require_rich() -> None:
    """Raise an ImportError that says what to install if rich is missing."""
    try:
        import rich  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "vicinal.callbacks.Progress needs the package rich: pip install rich"
        ) from error


class _Throttled:
    """Writes a line for each status, but not more often than the interval."""

    def __init__(self, interval: float) -> None:
        self.interval = interval

    def add(self, name: str) -> dict[str, Any]:
        return {"name": name, "shown": -math.inf, "words": None}

    def show(self, row: dict[str, Any], status: Status) -> None:
        now, words = _clock.now(), "  ".join(status.parts)
        due = status.last or status.news or now - row["shown"] >= self.interval
        if due and words != row["words"]:
            row["shown"], row["words"] = now, words
            self.write(row, f"{row['name']}: {words}")

    def write(self, row: dict[str, Any], line: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


class _PlainLines(_Throttled):
    """Prints one line after another, for files and pipes."""

    def __init__(self, console: Any, interval: float) -> None:
        super().__init__(interval)
        self.console = console

    def write(self, row: dict[str, Any], line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


class _NotebookLines(_Throttled):
    """Replaces the line of a fit in the output of a notebook cell."""

    def write(self, row: dict[str, Any], line: str) -> None:
        from IPython.display import display

        data = {"text/plain": line}
        if "handle" in row:
            row["handle"].update(data, raw=True)
        else:
            row["handle"] = display(data, raw=True, display_id=True)


class _LiveLines:
    """Updates its lines in place, for terminals."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        self.console = console
        self.bar = BarColumn(bar_width=_BAR)
        self.bars = RichProgress(
            TextColumn("{task.description}", markup=False),
            self.bar,
            TextColumn("{task.fields[words]}", markup=False, table_column=Column(no_wrap=True)),
            console=console,
        )
        self.bars.start()

    def add(self, name: str) -> Any:
        return self.bars.add_task(name, total=None, words="")

    def show(self, row: Any, status: Status) -> None:
        """Update the line; rich draws it ten times a second, news at once."""
        name = self.bars.tasks[self.bars.task_ids.index(row)].description
        self.bar.bar_width, words = _fitted(self.console.width - len(name) - 2, status.parts)
        redraw = status.last or status.news or status.done == 1
        self.bars.update(
            row, completed=status.done, total=status.total, words=words, refresh=redraw
        )

    def close(self) -> None:
        self.bars.stop()


def _fitted(width: int, parts: list[str]) -> tuple[int, str]:
    """The length of the bar, and the words next to it.

    A narrow terminal shortens the bar first, then the words, and only then leaves words out.
    """
    kept = list(parts)
    if _LEAST_BAR + len("  ".join(kept)) > width:
        kept = [_shortened(part) for part in kept]
    while len(kept) > 1 and _LEAST_BAR + len("  ".join(kept)) > width:
        kept.pop()
    words = "  ".join(kept)
    return max(min(_BAR, width - len(words)), _LEAST_BAR), words


def _shortened(part: str) -> str:
    for long, short in _SHORTER.items():
        part = part.replace(long, short)
    return part
