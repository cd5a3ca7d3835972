"""Callbacks that tests set."""


class Stop:
    """A callback that stops a fit after some iterations, or raises."""

    def __init__(self, after, raises=None):
        self.after, self.raises = after, raises

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context, **_): ...

    def on_fit_task_end(self, estimator, context):
        if context.parent is None or context.task_id + 1 < self.after:
            return False
        if self.raises is not None:
            raise self.raises
        return True
