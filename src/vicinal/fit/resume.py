"""How a fit that was cut goes on: what it keeps, and when another fit may complete it.

A callback, an interrupt or the time budget cuts a fit; so does the end of its process, which leaves
a file of `Checkpoint`.  What is kept is plain data.  Each step of a fit draws from a generator of
its own (`core/seeds.py`): a step that was not finished gives the same bits when it is made again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Number
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from vicinal import maps, storage
from vicinal._features import checksum, table_checksum
from vicinal._validation import check_seed
from vicinal.core.problem import Problem
from vicinal.core.state import FitState
from vicinal.core.types import Array, File, Map
from vicinal.fit.context import BestRun, EndedRun, FitRecord
from vicinal.fit.method import Data
from vicinal.fit.plan import Plan, schedule_length
from vicinal.fit.report import saves_fit_state
from vicinal.storage.codec import encode

#: reasons that cut a fit
STOPPED = ("callback", "interrupted", "time_budget")
#: parameters that the bits of an iteration do not depend on
_IRRELEVANT = ("max_iter", "tol", "n_iter_no_change", "time_budget", "verbose", "n_jobs", "device")
#: parameters that may differ from the ones in the checkpoint: they change no result, or, as a
#: time budget, say only how long to go on
_FREE = ("time_budget", "verbose", "n_jobs", "device")
_NONE = np.empty(0)

Fit = TypeVar("Fit", bound=Callable[..., Any])


class ResumeState(NamedTuple):
    """What a fit leaves for a later one: its identity, what it has finished, the run at hand.

    Parameters
    ----------
    parameters : tuple
        The parameters of the estimator, as `parameter_key` gives them.
    rows : str
        The `row_fingerprint` of the training rows.
    seed : int
    plan : Plan or None
        None for an embedding.
    max_iter : int
        That of the fit.
    before : fitted map or None
        The map of the estimator before the fit, if a warm start may continue from it.
    mapping, scale : Map, array
        The map that is learnt, and the scales of the columns.
    state : FitState or None
        The state of the run at hand, or of the last one; None if it is to be made again.
    path : tuple of str or int
        The name of that run.
    cut : bool
        Whether the fit was cut: the next one completes it.
    continues : bool
        Whether the run continues an earlier fit instead of beginning with a start.
    trials, n_starts, best, collapsed
        See `FitRecord`.
    """

    parameters: tuple[tuple[str, str], ...]
    rows: str
    seed: int
    plan: Plan | None
    max_iter: int
    before: Any = None
    mapping: Any = None
    scale: Array = _NONE
    state: FitState | None = None
    path: tuple[str | int, ...] = ()
    cut: bool = False
    continues: bool = False
    trials: dict[str, list[Any]] = {}
    n_starts: int = 0
    best: BestRun | None = None
    collapsed: EndedRun | None = None

    def at(
        self,
        problem: Problem,
        state: FitState | None,
        path: tuple[str | int, ...],
        record: FitRecord,
        cut: bool,
    ) -> ResumeState:
        """The same fit after an iteration or at its end."""
        if record.search_cut:  # what came after it began with the wrong parameters
            return self._replace(cut=True, trials=dict(record.trials))
        return self._replace(
            mapping=problem.mapping,
            scale=problem.X.scale,
            state=None if record.start_cut else state,
            path=path,
            cut=cut or record.start_cut,
            continues=record.continues,
            trials=dict(record.trials),
            n_starts=record.n_starts,
            best=record.best,
            collapsed=record.collapsed,
        )

    def record(self) -> FitRecord:
        """What the fit has finished, for one that completes it."""
        done = self.n_starts, self.best, self.collapsed, self.continues
        return FitRecord(dict(self.trials), *done)

    def is_completed_by(self, new: ResumeState) -> bool:
        """Whether a fit completes this one: this one was cut, and rows and plan are the same."""
        return self.cut and self.rows == new.rows and _same_plan(self.plan, new.plan)

    def state_for(self, new: ResumeState) -> FitState | None:
        """The state that a fit which completes this one begins with.

        If ``max_iter`` has changed, the run that was cut makes that many more iterations.
        """
        state, plan = self.state, new.plan
        if state is None or self.max_iter == new.max_iter:
            return state
        if plan is not None and plan.solver is None:  # the schedule has its own length
            return state
        return state._replace(left=new.max_iter)

    def is_continued_by(self, plan: Plan, mapping: Map, scale: Array) -> bool:
        """Whether a fit can make more iterations of the last run, which had ended."""
        if self.state is None:
            return False
        alike = _same_plan(self.plan, plan) and self.mapping == mapping
        return alike and np.array_equal(self.scale, scale) and self.steps_left(plan) > 0

    def steps_left(self, plan: Plan) -> int:
        """Iterations to run: those requested, or the rest of a schedule."""
        if plan.solver is not None:
            return plan.max_iter
        assert self.state is not None
        return schedule_length(self.state.part) - self.state.history["iteration"][-1]


def _same_plan(a: Plan | None, b: Plan | None) -> bool:
    """Whether two plans use the same parts; their lengths and costs may differ."""
    return a is b if a is None or b is None else a[:4] == b[:4]


def is_checkpoint(path: str | os.PathLike[str]) -> bool:
    """Whether a model file holds the state of a fit; any other file is a FileError."""
    header, _ = storage.read(path)
    match header:
        case {"model": {"fields": {**fields}}}:
            return fields.get("_resume") is not None
    return False


def keeps_state(estimator: BaseEstimator, resumes: bool) -> bool:
    """Whether a fit leaves its state for a later one."""
    return estimator.warm_start or resumes or saves_fit_state(estimator)


def past_fit(estimator: BaseEstimator, resumes: bool) -> ResumeState | None:
    """The last fit, if this one may complete or continue it: it was asked for the same."""
    past: ResumeState | None = estimator._resume
    if past is None or resumes:  # `take_over` has compared the parameters
        return past
    same = past.parameters == parameter_key(estimator.get_params(deep=False))
    return past if estimator.warm_start and same else None


def seed_of(estimator: BaseEstimator) -> int:
    """The seed of a fit: one draw from ``random_state``, be it a generator or its seed."""
    return int(check_seed(estimator).randint(2**31 - 1))


def parameter_key(parameters: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """The parameters that the result of a fit depends on, except its length, as text."""
    return tuple(
        # the text of a generator is its address; the seed of the fit is kept apart
        (key, "RandomState" if isinstance(value, np.random.RandomState) else repr(value))
        for key, value in parameters.items()
        if key not in _IRRELEVANT
    )


def row_fingerprint(data: Data) -> str:
    """A checksum of the rows and their target, whatever the order of their entries in memory.

    A target has its classes and weights, and ``contents``: arrays that are neither.
    """
    X, target = data.X, data.target
    found = table_checksum(X)
    for part in (target.strata, target.sample_weight, *target.contents):
        if part is not None:
            found = checksum(part, found)
    return f"{X.shape} {X.dtype} {found:08x}"


def unchanged_on_error(fit: Fit) -> Fit:
    """Decorate a ``fit`` so that the estimator stays as it was if it raises."""

    @functools.wraps(fit)
    def attempt(estimator: BaseEstimator, *args: Any, **kwargs: Any) -> Any:
        with restored_on_error(estimator):
            return fit(estimator, *args, **kwargs)

    return attempt  # type: ignore[return-value]


@contextmanager
def restored_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Give the estimator all its attributes back if the fit inside this context raises.

    A fitted estimator thus keeps a map, classes and features that belong together, and an unfitted
    one stays unfitted.  Fits replace attributes and never change them in place, so a shallow copy
    is enough.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:  # KeyboardInterrupt too: before its first iteration it ends a fit
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def take_over(estimator: BaseEstimator, path: File | None) -> None:
    """Give the estimator all that the estimator in a checkpoint has learnt.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file holds another estimator, one with other parameters, or no state of a fit.
    """
    name = type(estimator).__name__
    if not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"The 'resume_from' parameter of {name}.fit must be a path or None. "
            f"Got {path!r} instead."
        )
    if not Path(path).exists():
        raise FileNotFoundError(
            f"There is no checkpoint {str(path)!r} from which {name}.fit could resume. To begin a "
            "fit if there is none yet: resume_from=path if path.exists() else None."
        )
    mapping = estimator.get_params(deep=False).get("mapping")
    module = mapping._module if isinstance(mapping, maps.TorchMap) else None
    held = storage.load(path, module=module)
    if type(held) is not type(estimator):
        _refuse(estimator, path, f"it holds a {type(held).__name__}")
    _check_parameters(estimator, held, path)
    if held._resume is None:
        _refuse(
            estimator,
            path,
            "it holds a fitted estimator without the state of its fit. The callback Checkpoint "
            "saves both",
        )
    own = {key: value for key, value in vars(estimator).items() if not _is_learnt(estimator, key)}
    learnt = {key: value for key, value in vars(held).items() if _is_learnt(held, key)}
    vars(estimator).clear()
    vars(estimator).update(own | learnt)


def _is_learnt(estimator: BaseEstimator, name: str) -> bool:
    """Whether ``fit`` has set an attribute: it is no parameter, nor a setting of scikit-learn."""
    settings = ("_skl", "_metadata_request", "_callback", "_parent_callback")
    return name not in estimator.get_params(deep=False) and not name.startswith(settings)


def _check_parameters(estimator: BaseEstimator, held: BaseEstimator, path: File | None) -> None:
    """Refuse parameters that differ from those in the file, all by name."""
    before, now = held.get_params(deep=False), estimator.get_params(deep=False)
    changed = [
        f"{name} was {_text(before[name])} and is {_text(now[name])} now"
        for name in now
        if name not in _FREE and not _same(before[name], now[name])
    ]
    if changed:
        _refuse(estimator, path, "parameters differ: " + "; ".join(changed))


def _same(before: object, now: object) -> bool:
    """Whether two values of a parameter ask for the same."""
    if isinstance(before, Number) and isinstance(now, Number):
        return before == now
    if isinstance(before, np.random.RandomState):  # the fit goes on with the state in the file
        return isinstance(now, np.random.RandomState)
    try:
        return _coded(before) == _coded(now)  # texts of large arrays leave most of them out
    except TypeError:  # no file can hold such a value
        return _text(before) == _text(now)


def _coded(value: object) -> tuple[object, dict[str, Any]]:
    """A value as a model file holds it: JSON, and the contents of arrays."""
    arrays: dict[str, Any] = {}
    coded = encode(value, "parameter", arrays)
    return coded, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def _text(value: object) -> str:
    if isinstance(value, np.random.RandomState):
        return "a RandomState"
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def check_same_fit(
    estimator: BaseEstimator, past: ResumeState, new: ResumeState, path: File | None
) -> None:
    """Refuse rows, targets or a plan that differ from the fit in the checkpoint."""
    if past.rows != new.rows:
        _refuse(
            estimator,
            path,
            f"the rows differ: they were {past.rows} (shape, type, checksum) and are {new.rows} "
            "now. Labels, weights and the order of the rows count",
        )
    if not _same_plan(past.plan, new.plan):
        _refuse(estimator, path, f"its plan was: {past.plan} The plan is now: {new.plan}")


def _refuse(estimator: BaseEstimator, path: File | None, why: str) -> None:
    raise ValueError(
        f"{type(estimator).__name__}.fit cannot resume from the checkpoint {str(path)!r}: {why}."
    )
