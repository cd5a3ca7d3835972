"""Checkpoints of a running fit."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

from vicinal._atomic import file_behind
from vicinal.callbacks._base import Callback, check_count, is_root

#: Attributes that scikit-learn sets on an estimator for its callbacks: they belong to the running
#: fit and are not saved.
_RUNTIME_ATTRIBUTES = (
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
)


class Checkpoint(Callback):
    """Save the estimator every few iterations and at the end, with the state of its fit.

    The file is a model file (see ``docs/model_files.md``), whatever its name ends in.
    :func:`vicinal.load` gives the estimator as if the fit had stopped there: it predicts with the
    best map so far.  ``fit(X, y, resume_from=path)`` completes the fit, and ends in the same bits
    as one that was never killed.  Callbacks are not saved.

    The file is replaced in one step, so it is always complete: a killed process loses only the
    iterations since the last save, and the part of a file that it may leave is removed by the
    next save.  If a save fails, as on a full disk, the fit warns, goes on, and tries again at
    the next save; the former file stays as it was.  Fits that share one instance, such as those
    of a search, write to the same file.

    On batches each save corrects the scale of the map, as the end of a fit does, which costs as
    much as dozens of steps: increase ``every``.

    Parameters
    ----------
    path : str or path-like
        The file; missing folders are created.  A symbolic link stays, and the file that it leads
        to is replaced.
    every : int, default=10
        Number of iterations between two saves.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.callbacks import Checkpoint
    >>> X, y = load_wine(return_X_y=True)
    >>> path = Path(mkdtemp()) / "nca.vic"
    >>> model = NCA(n_components=2, alpha=0.01).set_callbacks(Checkpoint(path))
    >>> again = path if path.exists() else None  # so that the script may be killed and run again
    >>> model.fit(X, y, resume_from=again).score(X, y) > 0.95
    True
    """

    #: asks the estimator for the state of its fit
    saves_fit_state = True

    def __init__(self, path: str | os.PathLike[str], every: int = 10) -> None:
        check_count("Checkpoint", "every", every, 1)
        self.path = Path(path)
        self.every = every

    @staticmethod
    def load(path: str | os.PathLike[str], *, module: Any = None) -> Any:
        """Load a saved estimator, as :func:`vicinal.load` does.

        Parameters
        ----------
        path : str or path-like
            The file that a checkpoint wrote.
        module : torch.nn.Module, default=None
            The module of an estimator whose map is a ``TorchMap``.

        Returns
        -------
        estimator : estimator
            Ready to predict and transform.
        """
        from vicinal import storage

        return storage.load(path, module=module)

    def setup(self, estimator: Any, context: Any) -> None:
        """Create the folder now, so that what cannot be saved fails before the work begins."""
        from vicinal.storage.codec import encode
        from vicinal.storage.names import name_of

        kind = type(estimator)
        if name_of(kind) is None:
            raise TypeError(f"Checkpoint saves estimators of vicinal. Got {kind.__name__} instead.")
        encode(kind(**estimator.get_params(deep=False)), kind.__name__, {})
        file = file_behind(self.path)
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise IsADirectoryError(f"The checkpoint {str(self.path)!r} is a folder.")
        if not os.access(file.parent, os.W_OK):
            raise PermissionError(
                f"The checkpoint {str(self.path)!r} cannot be written: its folder is read-only."
            )

    def wants_fitted_estimator(self, context: Any) -> bool:
        """Whether to save after the task that ends."""
        return is_root(context) or (context.task_id + 1) % self.every == 0

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> None:
        """Save the estimator when it is due."""
        if fitted_estimator is None or not self.wants_fitted_estimator(context):
            return
        saved = copy.copy(fitted_estimator)
        for name in _RUNTIME_ATTRIBUTES:
            vars(saved).pop(name, None)
        try:
            self._write(saved)
        except Exception as error:  # whatever it is: the fit is worth more than one save
            kept = "The former file is kept" if self.path.exists() else "There is no file yet"
            then = "" if is_root(context) else ", and the fit goes on until the next save"
            from vicinal._validation import warn

            warn(f"The checkpoint {str(self.path)!r} could not be saved: {error}. {kept}{then}.")

    def _write(self, saved: Any) -> None:
        from vicinal import storage

        storage.save(saved, self.path)
