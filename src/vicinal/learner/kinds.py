"""What the caller wishes of columns, and what they are used as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Wishes:
    """What the caller said about single columns; the rest is decided by the values."""

    numeric: tuple[Any, ...] = ()
    categorical: tuple[Any, ...] = ()
    ordinal: Mapping[Any, Sequence[Any] | None] = field(default_factory=dict)
    text: tuple[Any, ...] = ()
    drop: tuple[Any, ...] = ()

    def check(self, names: list[Any]) -> None:
        """Refuse columns that are not there, and those with two uses."""
        uses: dict[Any, str] = {}
        for option in ("numeric", "categorical", "ordinal", "text", "drop"):
            for name in getattr(self, option):
                if name not in names:
                    listed = ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
                    raise ValueError(
                        f"The {option!r} parameter of make_learner must name columns of X: "
                        f"{listed}. Got {name!r} instead."
                    )
                if name in uses:
                    raise ValueError(
                        f"Column {name!r} must have one use. Got {uses[name]!r} and {option!r}."
                    )
                uses[name] = option


@dataclass
class Uses:
    """Columns by their use, in the order of the table, and what is told about them."""

    numbers: list[Any] = field(default_factory=list)
    gaps: list[Any] = field(default_factory=list)  # numbers, some of them missing
    categories: list[Any] = field(default_factory=list)  # strings
    codes: list[Any] = field(default_factory=list)  # categories that are numbers
    ordinal: dict[Any, list[Any]] = field(default_factory=dict)  # with their levels in order
    dates: dict[Any, tuple[str, list[str]]] = field(default_factory=dict)  # format and parts
    text: list[Any] = field(default_factory=list)
    written: dict[Any, str] = field(default_factory=dict)  # how, of numbers in text
    complete: bool = True  # whether no number is missing, and none is text
    left_out: dict[Any, str] = field(default_factory=dict)  # with the reason
    told: dict[str, list[Any]] = field(default_factory=dict)  # columns by what is said of them

    @property
    def only_numbers(self) -> bool:
        return not (self.categories or self.codes or self.ordinal or self.text)

    @property
    def notes(self) -> list[str]:
        """One line for columns of which the same is said."""
        notes = []
        for words, names in filter(all, self.told.items()):
            listed = ", ".join(map(repr, names[:8]))
            more = f" and {len(names) - 8} more" if len(names) > 8 else ""
            notes.append(f"{'Columns' if len(names) > 1 else 'Column'} {listed}{more}: {words}.")
        return notes

    def tell(self, name: Any, words: str) -> None:
        self.told.setdefault(words, []).append(name)
