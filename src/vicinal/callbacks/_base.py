"""What all callbacks share."""

from __future__ import annotations

from typing import Any


class Callback:
    """Empty hooks: callbacks override those they need."""

    def setup(self, estimator: Any, context: Any) -> None:
        """Get ready; called when a fit begins."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Called when a task begins."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Clean up; called when a fit has ended, also after an error."""


def check_count(owner: str, name: str, value: Any, low: int) -> None:
    """Refuse a parameter that is not an int of at least ``low``."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < low:
        raise ValueError(
            f"The {name!r} parameter of {owner} must be an int in [{low}, inf). "
            f"Got {value!r} instead."
        )


def is_root(context: Any) -> bool:
    """Whether the task is the whole fit of an estimator, alone or inside a meta-estimator."""
    return context.parent is None or context.source_estimator_name is not None
