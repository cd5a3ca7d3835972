"""The only module that uses ``sklearn.callback``; without it (scikit-learn < 1.9) a no-op.

An estimator inherits from `CallbackSupportMixin`, decorates ``fit`` with `with_callbacks` and
passes an `IterationReporter` to its loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sklearn

from vicinal.fit.display import Activity

__all__ = [
    "HAS_CALLBACKS",
    "CallbackSupportMixin",
    "IterationReporter",
    "callbacks_of",
    "saves_fit_state",
    "with_callbacks",
]

Method = TypeVar("Method", bound=Callable[..., Any])


class _NoCallbackSupport:
    """Replaces scikit-learn's mixin if there is none."""

    def set_callbacks(self, *callbacks: Any) -> Any:
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
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    CallbackSupportMixin = _NoCallbackSupport
    with_callbacks = _unchanged
    HAS_CALLBACKS = False


def callbacks_of(estimator: Any) -> Sequence[Any]:
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
        estimator: Any,
        X: Any = None,
        y: Any = None,
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

    def _reconstruction(self, task: Any, info: Any) -> Callable[[], dict[str, Any]] | None:
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


def saves_fit_state(estimator: Any) -> bool:
    """Whether a callback of the estimator saves it together with the state of its fit."""
    callbacks = callbacks_of(estimator)
    return any(getattr(callback, "saves_fit_state", False) for callback in callbacks)


def _takes_fitted_estimator(callback: Any) -> bool:
    """Whether the end hook of ``callback`` has the parameter ``fitted_estimator``."""
    return "fitted_estimator" in inspect.signature(callback.on_fit_task_end).parameters


def _wants_estimator(callback: Any, context: Any) -> bool:
    """Whether ``callback`` will use the fitted estimator of this task."""
    wants = getattr(callback, "wants_fitted_estimator", None)
    return True if wants is None else bool(wants(context))
