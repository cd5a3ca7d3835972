"""The one place that talks to ``sklearn.callback``; without it (scikit-learn < 1.9) a no-op.

An estimator inherits from `CallbackSupportMixin`, decorates ``fit`` with `with_callbacks` and
hands an `IterationReporter` to its loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import sklearn

__all__ = ["HAS_CALLBACKS", "CallbackSupportMixin", "IterationReporter", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])


class _NoCallbackSupport:
    """Stands in for scikit-learn's mixin where there is none."""

    def set_callbacks(self, *callbacks: Any) -> Any:
        """Refuse callbacks, which this scikit-learn cannot run.

        Parameters
        ----------
        *callbacks : callback instances
            Only none at all is accepted.

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
    """Stand in for scikit-learn's ``with_callbacks``: there is nothing to tear down."""
    return method


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:
    CallbackSupportMixin = _NoCallbackSupport
    with_callbacks = _unchanged
    HAS_CALLBACKS = False


class IterationReporter:
    """Tell the callbacks of an estimator about the iterations of one ``fit``.

    Nothing happens, and next to nothing is spent, when scikit-learn has no callbacks or the
    estimator has none set.  ``fit`` must be decorated with `with_callbacks`, or a callback
    would not be torn down after an error.

    Parameters
    ----------
    estimator : estimator
        The estimator that is being fitted.
    X, y : array-like or None
        The training data, as the user gave them: callbacks score the estimator on them.
    max_iter : int or None
        The most iterations to expect, over all restarts; None if that is not known.  More may
        follow.
    reconstruction_attributes : callable or None, default=None
        ``reconstruction_attributes(info)`` gives the dict of fitted attributes that turn a copy
        of the estimator into one fitted as if the loop had stopped at ``info``.  Called only
        when a callback asks for it.
    metadata : dict or None, default=None
        What else ``fit`` was given, such as ``{"sample_weight": sample_weight}``.

    Attributes
    ----------
    stopped : bool
        Whether a callback has asked to stop.
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
        self._context: Any = None
        callbacks = getattr(estimator, "_skl_callbacks", ()) if HAS_CALLBACKS else ()
        if not callbacks:
            return
        self._estimator = estimator
        self._attributes = reconstruction_attributes
        self._askers = [callback for callback in callbacks if _asks_for_estimator(callback)]
        self._n_reported = 0
        self._arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._context = estimator._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(**self._arguments)

    def __call__(self, info: Any) -> bool:
        """Report one iteration that has ended.

        Parameters
        ----------
        info : object
            Has ``history``, the dict of lists so far (iteration, loss, validation_score, ...),
            and whatever ``reconstruction_attributes`` reads from it.

        Returns
        -------
        stop : bool
            Whether a callback asks to stop.
        """
        root = self._context
        if root is None:
            return False
        estimator = self._estimator
        estimator.history_ = info.history
        # Restarts and rounds may run past the limit, which scikit-learn refuses by an error;
        # its progress bar copes with a limit that goes away.
        if root.max_subtasks is not None and self._n_reported >= root.max_subtasks:
            root.max_subtasks = None
        self._n_reported += 1
        # Whether an iteration happens at all is known only once it has: both hooks come now.
        task = root.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(**self._arguments)
        stop = task.call_on_fit_task_end(
            **self._arguments, reconstruction_attributes=self._reconstruction(task, info)
        )
        self.stopped = self.stopped or stop
        return stop

    def close(self) -> None:
        """Report the end of the fit; to be called last, when the fitted attributes are set."""
        root, self._context = self._context, None
        if root is not None:
            # The estimator itself is fitted by now: a plain copy of it will do.
            root.call_on_fit_task_end(**self._arguments, reconstruction_attributes={})

    def _reconstruction(self, task: Any, info: Any) -> Callable[[], dict[str, Any]] | None:
        """Give what scikit-learn calls if a callback's signature names ``fitted_estimator``.

        A callback that needs it only now and then can say so by a method
        ``wants_fitted_estimator(context)``: the projection of all rows may cost more than a
        stochastic step.
        """
        attributes = self._attributes
        if attributes is None or not any(_wants_estimator(c, task) for c in self._askers):
            return None

        def reconstruct() -> dict[str, Any]:
            # The live lists grow on: "as if stopped now" needs its own.
            history = {name: list(values) for name, values in info.history.items()}
            return {"history_": history, **attributes(info)}

        return reconstruct


def _asks_for_estimator(callback: Any) -> bool:
    """Whether the end hook of ``callback`` has the parameter ``fitted_estimator``."""
    return "fitted_estimator" in inspect.signature(callback.on_fit_task_end).parameters


def _wants_estimator(callback: Any, context: Any) -> bool:
    """Whether ``callback`` will look at the fitted estimator of this task."""
    wants = getattr(callback, "wants_fitted_estimator", None)
    return True if wants is None else bool(wants(context))
