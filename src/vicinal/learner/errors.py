"""What is wrong with a column, and how to handle it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

_LONGEST = 40  # characters of a value that a message shows


class TableNote(UserWarning):
    """One line about what was done with a table, such as a column that was left out."""


class ColumnError(ValueError):
    """A column of a table that cannot be used as it is.

    Parameters
    ----------
    column : str or int
        Its name or position.
    problem : str
        What is wrong, such as "holds dates".
    remedies : list of (str, str)
        Pairs of an option and its use: ``("drop", "to leave it out")``.  The options are those of
        :func:`vicinal.make_learner`; one that starts with "=" is advice and no option.
    row : int, default=None
        A row that shows the problem, counted from zero.
    value : object, default=None
        The value in that row.
    others : sequence of ColumnError, default=()
        The same for further columns; the message has a line for each.
    """

    def __init__(
        self,
        column: Any,
        problem: str,
        remedies: list[tuple[str, str]],
        row: int | None = None,
        value: Any = None,
        others: Sequence[ColumnError] = (),
    ) -> None:
        self.column, self.problem, self.remedies = column, problem, remedies
        self.row, self.value, self.others = row, value, tuple(others)
        super().__init__(self.text())

    def text(
        self,
        option: Callable[[str, Any, Any], str] | None = None,
        place: Callable[[int], str] | None = None,
    ) -> str:
        """The message.

        Parameters
        ----------
        option : callable, default=None
            ``option(name, column, value)`` spells an option; None: as an argument in Python.  A
            command line has its own spelling.
        place : callable, default=None
            ``place(row)`` says where a row is, such as "line 3"; None: "row 1".
        """
        option = _in_python if option is None else option
        where = ""
        if self.row is not None:
            row = f"row {self.row}" if place is None else place(self.row)
            where = f" ({row}: {shown(self.value)})"
        ways = [
            name[1:] if name.startswith("=") else f"{option(name, self.column, self.value)} {use}"
            for name, use in self.remedies
        ]
        line = f"Column {self.column!r} {self.problem}{where}. Use {', or '.join(ways)}."
        return "\n".join([line, *(other.text(option, place) for other in self.others)])

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.column, self.problem, self.remedies, self.row, self.value, self.others)
        return type(self), fields

    @classmethod
    def collect(cls, check: Callable[[Any], object], columns: Iterable[Any]) -> None:
        """Check columns, and raise one error for all that are refused."""
        errors = []
        for column in columns:
            try:
                check(column)
            except ColumnError as error:
                errors.append(error)
        if errors:
            first = errors[0]
            row, value = first.row, first.value
            raise cls(first.column, first.problem, first.remedies, row, value, errors[1:])


def shown(value: Any) -> str:
    """A value in a message, cut if it is long."""
    text = repr(value.item() if hasattr(value, "item") else value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def number_text(value: float, digits: int = 4) -> str:
    """A number with this many digits; a large one whole, with its thousands apart."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.{digits}g}"


def _in_python(name: str, column: Any, value: Any) -> str:
    if name == "na":  # the table is read elsewhere
        return f"na_values=[{value!r}] where the table is read,"
    return f"{name}=[{column!r}]"


def near(word: str, words: Iterable[str]) -> str:
    """``" Did you mean 'x'?"`` for a word that is not among the words, or nothing."""
    spelt = {_plain(other): str(other) for other in words}
    found = get_close_matches(_plain(word), spelt, n=1)
    return f" Did you mean {spelt[found[0]]!r}?" if found else ""


def _plain(word: str) -> str:
    return str(word).lower().replace("_", "-")
