"""The state of a training run, from which warm starts, checkpoints and model files resume.

A :class:`FitState` is plain data.  ``arrays()`` gives it as a dict of JSON values and a dict of
NumPy arrays, and ``from_arrays`` makes it from those: it can be stored without pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from vicinal.core.coding import Coding
from vicinal.core.types import Array, Sampling

SCHEMA = 1


class Best(NamedTuple):
    """The best parameters of a run so far: highest score, or lowest loss if there are no scores."""

    theta: Array
    value: float
    score: float = -np.inf


class Window(NamedTuple):
    """What the stop rules of a loop compare the newest iteration with.

    Parameters
    ----------
    first : float
        The loss at the start of the loop.
    since : int
        Number of rows of the history before the first step of the loop.
    top_score, top_iteration : float, int
        The best score so far, and when it was reached.
    scored : bool
        Whether the newest iteration was scored, other than because it was the last.
    map_size : float
        The largest entry of the map, in which gradients are measured.
    """

    first: float
    since: int
    top_score: float
    top_iteration: int
    scored: bool
    map_size: float


class Round(NamedTuple):
    """Where a run stands between two refreshes.

    The problem of the round is not stored: it is made again from what is stored here.

    Parameters
    ----------
    theta : array
        The parameters at the refresh that began the round.
    iteration : int
        The number of the last iteration before it.
    memory : dict
        The memory of the `Refresh` before it.
    fresh : float or None
        The loss right after it, if losses can be compared.
    top, top_score : array or None, float
        The best parameters of all rounds before, by their held-out score.
    stale : int
        Iterations without a better score.
    """

    theta: Array
    iteration: int
    memory: dict[str, Any]
    fresh: float | None
    top: Array | None
    top_score: float
    stale: int


class FitState(NamedTuple):
    """The state of a run after any iteration.

    Parameters
    ----------
    stage : int
        Number of the current stage.
    part : Solver
        The solver of that stage, with its learning rate.
    solver : NamedTuple
        The state of the solver; its ``theta`` are the current parameters.
    sampling : Sampling or None
        The position in the sequence of batches.
    best : Best
        The best parameters so far.
    history : dict of lists
        One row for each iteration.
    window : Window
        What the stop rules compare with.
    round : Round or None
        The position between two refreshes, in a stage that has a `Refresh`.
    left : int or None
        Number of iterations that the run may still make.
    """

    stage: int
    part: Any
    solver: Any
    sampling: Sampling | None
    best: Best
    history: dict[str, list]
    window: Window
    round: Round | None = None
    left: int | None = None

    def arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The state as JSON values and arrays; see `from_arrays`."""
        coding = Coding()
        values = {name: coding.encode(part, name) for name, part in self._asdict().items()}
        return {"schema": SCHEMA, **values}, coding.arrays

    @classmethod
    def from_arrays(
        cls, values: Mapping[str, Any], arrays: Mapping[str, Array], classes: tuple[type, ...] = ()
    ) -> FitState:
        """Restore a state from the output of `arrays`.

        Parameters
        ----------
        values, arrays : dicts
            The two results of `arrays`.
        classes : tuple of types
            Named tuples and dataclasses from outside vicinal that the state may hold, such as the
            state of your own solver.

        Raises
        ------
        ValueError
            If the schema is unknown, or the state holds a class that is not allowed.
        """
        if values.get("schema") != SCHEMA:
            raise ValueError(
                f"The state of a fit must have schema {SCHEMA}. Got {values.get('schema')!r}."
            )
        coding = Coding(arrays, classes)
        return cls(**{name: coding.decode(values[name]) for name in cls._fields})


def encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A value as JSON; arrays go into ``arrays`` under names that begin with ``name``.

    Lists of numbers become arrays.
    """
    return Coding(arrays).encode(value, name)


def decode(value: Any, arrays: Mapping[str, Array], classes: tuple[type, ...] = ()) -> Any:
    """Invert `encode`."""
    return Coding(arrays, classes).decode(value)
