"""A fit that raises leaves the estimator as it was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["unchanged_on_error"]

Fit = TypeVar("Fit", bound=Callable[..., Any])


def unchanged_on_error(fit: Fit) -> Fit:
    """Decorate a method so that the estimator gets all its attributes back if it raises.

    A fitted estimator thus keeps a map, classes and features that belong together, and an unfitted
    one stays unfitted.  Fits replace attributes and never change them in place, so a shallow copy
    is enough.
    """

    @functools.wraps(fit)
    def attempt(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:  # KeyboardInterrupt too: before its first iteration it ends a fit
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return attempt  # type: ignore[return-value]
