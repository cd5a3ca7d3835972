"""The finished steps of a fit, so that a fit that was cut need not repeat them.

A fit is a sequence of steps: a search with its candidates, the starts, a run of the solver from
each.  Steps are nested, and each has a name.  A fit that resumes another one takes the same way
again, but what the other had finished is looked up by its name instead of being computed, and the
random generator is set to where it was afterwards.  So the rest of the fit is the same, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.state import FitState

__all__ = ["Cut", "Entry", "Journal", "Record"]


class Entry(NamedTuple):
    """The result of a step, and the state of the random generator after it."""

    value: Any
    rng: Any


class Cut(NamedTuple):
    """Where a fit was cut; plain data, as `FitState` is.

    Parameters
    ----------
    levels : tuple of dicts
        The results of finished steps by their names: of the fit, of the step of the fit that was
        not finished, of the step of that step, ...
    names : tuple of str
        The names of those unfinished steps; one fewer than levels.
    state : FitState or None
        The state of the run in the innermost one, if it had begun.
    """

    levels: tuple[dict[str, Entry], ...]
    names: tuple[str, ...]
    state: FitState | None = None


class Journal:
    """Records the finished steps of a fit, and knows those of the fit that it resumes.

    Parameters
    ----------
    past : Cut or None
        Where the fit that is resumed was cut.
    """

    def __init__(self, past: Cut | None = None) -> None:
        self._past = past
        self._levels: list[dict[str, Entry]] = [{}]
        self._names: list[str] = []
        #: where this fit was cut, if it was
        self.cut: Cut | None = None
        self._final = False

    def _known(self) -> dict[str, Entry]:
        """The results of the past fit on the present level."""
        depth, past = len(self._names), self._past
        if past is None or tuple(self._names) != past.names[:depth]:
            return {}
        return past.levels[depth]

    def resumes(self, name: str) -> bool:
        """Whether the past fit had begun a step of this name on the present level."""
        path, past = (*self._names, name), self._past
        unfinished = past is not None and path == past.names[: len(path)]
        return unfinished or name in self._known()

    @property
    def has_state(self) -> bool:
        """Whether the past fit was cut in the run of the present step."""
        past = self._past
        return past is not None and past.state is not None and tuple(self._names) == past.names

    def take_state(self) -> FitState | None:
        """The state of the run that was cut in the present step; given once."""
        if not self.has_state:
            return None
        past, self._past = self._past, None
        assert past is not None
        return past.state

    def step(
        self, name: str, rng: np.random.RandomState, compute: Callable[[], Any], keep: bool = True
    ) -> Any:
        """The result of a step: known, or computed, and recorded if ``keep``."""
        if name in self._known():
            return self.take(name, rng)
        self._names.append(name)
        self._levels.append({})
        try:
            value = compute()
        finally:
            if self._past is not None and tuple(self._names) == self._past.names[: self._depth]:
                self._past = None  # a later step may have the same name
            self._names.pop()
            self._levels.pop()
        if keep:
            self.put(name, value, rng)
        return value

    @property
    def _depth(self) -> int:
        return len(self._names)

    def put(self, name: str, value: Any, rng: np.random.RandomState) -> None:
        """Record a result, in place of an earlier one of the same name."""
        self._levels[-1][name] = Entry(value, rng.get_state())

    def take(self, name: str, rng: np.random.RandomState) -> Any:
        """The result that the past fit recorded under this name, or None."""
        entry = self._known().get(name)
        if entry is None:
            return None
        rng.set_state(entry.rng)
        self._levels[-1][name] = entry
        return entry.value

    def recorded(self, name: str) -> Any:
        """The result of this name on the present level or the nearest one around it, or None."""
        for level in reversed(self._levels):
            if name in level:
                return level[name].value
        return None

    def here(self, state: FitState | None = None) -> Cut:
        """Where the fit stands."""
        return Cut(tuple(dict(level) for level in self._levels), tuple(self._names), state)

    def mark_cut(self, cut: Cut, final: bool = False) -> None:
        """Remember where the fit was cut.  After a ``final`` cut the fit only finishes off."""
        if not self._final:
            self.cut, self._final = cut, final


class Record(NamedTuple):
    """A journal, and the random generator of those who write in it."""

    journal: Journal
    rng: np.random.RandomState

    @classmethod
    def new(cls) -> Record:
        """A record that no one reads."""
        return cls(Journal(), np.random.RandomState())

    def step(self, name: str, compute: Callable[[], Any], keep: bool = True) -> Any:
        """See `Journal.step`."""
        return self.journal.step(name, self.rng, compute, keep)

    def put(self, name: str, value: Any) -> None:
        """See `Journal.put`."""
        self.journal.put(name, value, self.rng)

    def take(self, name: str) -> Any:
        """See `Journal.take`."""
        return self.journal.take(name, self.rng)
