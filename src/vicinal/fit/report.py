"""Reports on a running fit: printed lines for the user, and scikit-learn's callbacks.

No other module uses ``sklearn.callback``; scikit-learn < 1.9 has none, and nobody is called.  An
estimator inherits from `CallbackSupportMixin`, decorates ``fit`` with `with_callbacks` and passes
an `IterationReporter` to its loop.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from vicinal import _clock
from vicinal.core.loop import Iteration
from vicinal.core.problem import Problem
from vicinal.core.stages import RunSnapshot
from vicinal.core.types import Activity, MatrixLike

_SAY_EVERY = 10.0  # seconds between printed lines about a search that is slow
_COMPILING = "compiling for this machine"
#: how a fit ended, by the reason of its last run; others mean convergence
_ENDINGS = {
    "interrupted": "interrupted",
    "callback": "stopped by a callback",
    "time_budget": "stopped by the time budget",
    "non_finite": "stopped by an infinite loss",
}

Method = TypeVar("Method", bound=Callable[..., Any])


class IterationReport(NamedTuple):
    """What callbacks receive: an iteration, its problem, and where the fit stands.

    ``snapshot`` is None during a start; ``path`` is the name of the run.
    """

    history: dict[str, list]
    info: Iteration
    problem: Problem
    snapshot: RunSnapshot | None
    searching: bool = False
    path: tuple[str | int, ...] = ()


class Reports:
    """Prints and reports what one fit does.

    Parameters
    ----------
    name : str
        Name of the estimator.
    verbose : int
        Whether to print.
    report : IterationReporter or None, default=None
        Calls the callbacks; it is added once the fit begins.
    """

    def __init__(self, name: str, verbose: int, report: IterationReporter | None = None) -> None:
        self.name, self.verbose, self.report = name, verbose, report
        self._has_heading = self._has_compiled = False
        self._search_pace: _clock.Pace | None = None
        self._search_said = 0.0

    def say(self, words: object) -> None:
        """Print a line if ``verbose``: words, or what has them as its text."""
        if self.verbose:
            print(f"[{self.name}] {words}")

    def doing(self, words: str) -> None:
        """Tell the callbacks about a part of the fit that is not an iteration of it."""
        if self.report is not None:
            self.report.begin(Activity(words))

    def expect(self, max_iter: int) -> None:
        """Tell the callbacks how many iterations there will be at most."""
        if self.report is not None:
            self.report.max_iter = max_iter

    def searching(self, step: SearchStep) -> None:
        """Report that a search begins to learn a candidate on a fold."""
        if self._search_pace is None:
            self._search_pace, self._search_said = _clock.Pace(), _clock.now()
        else:
            self._search_pace.count()
        activity = step.activity(self._search_pace)
        if _clock.now() - self._search_said >= _SAY_EVERY:
            self._search_said = _clock.now()
            self.say("  ".join([activity.words, *activity.details]))
        if self.report is not None:
            self.report.begin(activity)

    def search_ended(self) -> None:
        """Forget the pace of the search that has ended."""
        self._search_pace = None

    @contextmanager
    def watching_compilation(self) -> Iterator[None]:
        """Report when something is compiled inside this context."""
        with _clock.watch_compilation(self._compiling):
            yield

    def _compiling(self) -> None:
        if not self._has_compiled:
            self._has_compiled = True
            self.say(f"{_COMPILING}: the compiled code is kept for later fits")
        if self.report is not None:
            self.report.tell(Activity(_COMPILING))

    def on_iteration(
        self, searching: bool = False, path: tuple[str | int, ...] = ()
    ) -> Callable[..., bool]:
        """The function that `train` calls after each iteration; it returns whether to stop."""

        def report(info: Iteration, problem: Problem, snapshot: RunSnapshot | None) -> bool:
            history = info.history
            if searching:  # a search has losses of its own
                history = {**history, "loss": [math.nan]}
            else:
                self._say_iteration(info, problem.held_out is not None)
            # the start is iteration 0, but callbacks count from 1
            if info.iteration == 0 or self.report is None:
                return False
            stop = self.report(IterationReport(history, info, problem, snapshot, searching, path))
            # a stop requested during a search also applies to the fit
            return stop or self.report.stopped

        return report

    def _say_iteration(self, info: Iteration, scored: bool) -> None:
        if not self.verbose:
            return
        if not self._has_heading:
            self._has_heading = True
            self.say(heading(scored))
        self.say(line_of(info, scored))

    def start_reporter(
        self, searching: bool, record: Any, deadline: float | None = None
    ) -> StartReporter:
        """Reports the iterations of a start to callbacks; they, and the deadline, may stop it."""
        return StartReporter(self, searching, record, deadline)

    def close(self, reason: str) -> None:
        """Report the end of the fit, and how it ended."""
        if self.report is not None:
            self.report.close(_ENDINGS.get(reason, "finished"))


class StartReporter:
    """Reports the iterations of a start, whose losses are not the losses of the fit.

    ``record``, a `FitRecord`, is told if the start is cut: a fit that resumes this one makes it
    again.
    """

    def __init__(
        self,
        reports: Reports,
        searching: bool,
        record: Any,
        deadline: float | None = None,
    ) -> None:
        self.reports, self.searching, self.record = reports, searching, record
        self.deadline = deadline
        self._report = reports.on_iteration(searching=True)

    @property
    def talks(self) -> bool:
        """Whether lines are printed."""
        return bool(self.reports.verbose) and not self.searching

    def __call__(self, info: Iteration, problem: Problem) -> bool:
        """Report an iteration; return whether a callback or the deadline requests a stop."""
        late = self.deadline is not None and _clock.now() >= self.deadline
        stop = self._report(info, problem, None)
        if stop:
            self.cut()
        return stop or late

    def cut(self) -> None:
        """Note that the start ends before its time."""
        self.record.start_cut = True

    def say(self, words: str) -> None:
        """Print a line if ``talks``."""
        if self.talks:
            self.reports.say(words)


def heading(scored: bool = False) -> str:
    """The heading of the lines of `line_of`."""
    score = f" {'held-out loss':>14}" if scored else ""
    return f"{'iteration':>9} {'loss':>14} {'gradient':>10}{score} {'seconds':>10}"


def line_of(step: Iteration, scored: bool = False) -> str:
    """One line about an iteration, or a step of a stream; a held-out score is minus a loss."""
    score = ""
    if scored:
        value = -step.validation_score
        score = " " * 15 if np.isnan(value) else f" {value:14.6f}"
    return (
        f"{step.iteration:9d} {step.loss:14.8f} {step.grad_norm:10.2e}{score} {step.seconds:10.2f}"
    )


class _NoCallbackSupport:
    """Replaces scikit-learn's mixin if there is none."""

    def set_callbacks(self, *callbacks: object) -> Self:
        """Refuse callbacks, which this scikit-learn cannot run.

        Parameters
        ----------
        *callbacks : callback instances
            Must be empty.

        Returns
        -------
        self : estimator
            The estimator itself.

        Raises
        ------
        ImportError
            If any callback is given.
        """
        if callbacks:
            raise ImportError(
                f"Callbacks of {type(self).__name__} need scikit-learn >= 1.9. "
                f"Found scikit-learn {sklearn.__version__} instead."
            )
        return self


def _unchanged(method: Method) -> Method:
    """Replaces scikit-learn's ``with_callbacks``: there is nothing to tear down."""
    return method


try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    CallbackSupportMixin = _NoCallbackSupport
    with_callbacks = _unchanged
    HAS_CALLBACKS = False


def callbacks_of(estimator: BaseEstimator) -> Sequence[Any]:
    """The callbacks that are set on an estimator."""
    return getattr(estimator, "_skl_callbacks", ()) if HAS_CALLBACKS else ()


class IterationReporter:
    """Reports the iterations of one ``fit`` to the callbacks of the estimator.

    Does nothing, at almost no cost, if scikit-learn has no callbacks or the estimator has none
    set.  ``fit`` must be decorated with `with_callbacks`; otherwise a callback would not be torn
    down after an error.

    Parameters
    ----------
    estimator : estimator
        The estimator that is being fitted.
    X, y : array-like or None
        The training data, as the user gave them: callbacks score the estimator on them.
    max_iter : int or None
        Expected number of iterations at most, over all restarts; None if unknown.  There may be
        more.
    reconstruction_attributes : callable or None, default=None
        ``reconstruction_attributes(info)`` returns the dict of fitted attributes that turn a copy
        of the estimator into one fitted as if the loop had stopped at ``info``.  Called only
        if a callback requests it.
    metadata : dict or None, default=None
        Further arguments of ``fit``, such as ``{"sample_weight": sample_weight}``.

    Attributes
    ----------
    stopped : bool
        Whether a callback has requested a stop.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        X: MatrixLike | None = None,
        y: ArrayLike | None = None,
        *,
        max_iter: int | None,
        reconstruction_attributes: Callable[[Any], dict[str, Any]] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self.stopped = False
        self.max_iter = max_iter
        self._context: Any = None
        self._told: Activity | None = None  # None: not known to the callbacks
        self._part = Activity()
        callbacks = callbacks_of(estimator)
        if not callbacks:
            return
        self._estimator = estimator
        self._attributes = reconstruction_attributes
        self._listeners = [c for c in callbacks if hasattr(c, "on_fit_activity")]
        self._estimator_users = [c for c in callbacks if _takes_fitted_estimator(c)]
        self._n_reported = 0
        self._arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._context = estimator._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._arguments)

    @property
    def has_callbacks(self) -> bool:
        """Whether there is anybody to report to."""
        return self._context is not None

    def __call__(self, info: Any) -> bool:
        """Report one finished iteration.

        Parameters
        ----------
        info : object
            Has ``history``, the dict of lists so far (iteration, loss, validation_score, ...),
            and whatever ``reconstruction_attributes`` needs.

        Returns
        -------
        stop : bool
            Whether a callback requests a stop.
        """
        root = self._context
        if root is None:
            return False
        estimator = self._estimator
        estimator.history_ = info.history
        searching = getattr(info, "searching", False)
        self.tell(self._part if searching else Activity(total=self.max_iter))
        # Restarts and refreshes may exceed the limit, which would be an error in scikit-learn;
        # its progress bar can handle a limit that is removed.
        if root.max_subtasks is not None and self._n_reported >= root.max_subtasks:
            root.max_subtasks = None
        self._n_reported += 1
        # An iteration is reported only once it is complete, so both hooks are called now.
        task = root.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(**self._arguments)
        stop = task.call_on_fit_task_end(
            **self._arguments, reconstruction_attributes=self._reconstruction(task, info)
        )
        self.stopped = self.stopped or stop
        return stop

    def tell(self, activity: Activity) -> None:
        """Tell the callbacks what the fit is doing, unless they know."""
        if self._context is None or activity == self._told:
            return
        self._told = activity
        for callback in self._listeners:
            callback.on_fit_activity(self._estimator, self._context, activity)

    def begin(self, part: Activity) -> None:
        """Tell the callbacks about a part of the fit; iterations of a search belong to it."""
        self._part = part
        self.tell(part)

    def close(self, words: str = "finished") -> None:
        """Report the end of the fit; call it last, when the fitted attributes are set.

        Parameters
        ----------
        words : str, default="finished"
            How the fit ended.
        """
        self.tell(Activity(words, ends=True))
        root, self._context = self._context, None
        if root is not None:
            # The estimator is fitted now, so a plain copy of it suffices.
            root.call_on_fit_task_end(**self._arguments, reconstruction_attributes={})

    def _reconstruction(
        self, task: object, info: IterationReport
    ) -> Callable[[], dict[str, Any]] | None:
        """The function that scikit-learn calls if a callback takes ``fitted_estimator``.

        A callback that needs it only sometimes can have a method
        ``wants_fitted_estimator(context)``: the projection of all rows may cost more than a
        stochastic step.
        """
        attributes = self._attributes
        if attributes is None or not any(_wants_estimator(c, task) for c in self._estimator_users):
            return None

        def reconstruct() -> dict[str, Any]:
            # Copy the lists, which keep growing.
            history = {name: list(values) for name, values in info.history.items()}
            return {"history_": history, **attributes(info)}

        return reconstruct


def saves_fit_state(estimator: BaseEstimator) -> bool:
    """Whether a callback of the estimator saves it together with the state of its fit."""
    callbacks = callbacks_of(estimator)
    return any(getattr(callback, "saves_fit_state", False) for callback in callbacks)


def _takes_fitted_estimator(callback: Any) -> bool:
    """Whether the end hook of ``callback`` has the parameter ``fitted_estimator``."""
    return "fitted_estimator" in inspect.signature(callback.on_fit_task_end).parameters


def _wants_estimator(callback: object, context: object) -> bool:
    """Whether ``callback`` will use the fitted estimator of this task."""
    wants = getattr(callback, "wants_fitted_estimator", None)
    return True if wants is None else bool(wants(context))


class SearchStep(NamedTuple):
    """Where a search stands: a candidate in one fold, and the best candidate so far.

    Parameters
    ----------
    candidate : dict
        The parameters that are being tried.
    number, n_candidates : int
        Number of the candidate, from 1, and of all candidates; the search may end sooner.
    fold, n_folds : int
        Number of the fold, from 1, and of all folds.
    best : (dict, float) or None
        The best candidate so far, and its accuracy on held-out rows.
    """

    candidate: Mapping[str, float]
    number: int
    n_candidates: int
    fold: int
    n_folds: int
    best: tuple[Mapping[str, float], float] | None = None

    def activity(self, pace: _clock.Pace) -> Activity:
        """It as an activity; ``pace`` counts the folds."""
        fold = f"fold {self.fold}/{self.n_folds}"
        total = self.n_candidates * self.n_folds
        done = (self.number - 1) * self.n_folds + self.fold - 1
        left = pace.left(total - done)
        details = [] if left is None else [f"at most {_clock.duration(left)} left"]
        if self.best is not None:
            details.append(f"best {_values(self.best[0])} ({100 * self.best[1]:.1f} %)")
        words = f"candidate {self.number}/{self.n_candidates}: {_values(self.candidate)}, {fold}"
        return Activity(words, tuple(details), done, total, recurs=True)


def _values(parameters: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in parameters.items())
