"""The loss of a fit by iteration, on training and held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter1d

from vicinal.core.types import Array
from vicinal.plotting._colours import line_colours
from vicinal.plotting._fitted import Fitted
from vicinal.plotting._matplotlib import Display, foreground, plain_axes

_OWNER = "ConvergenceDisplay"
_RATIO = 30.0  # of the largest to the smallest loss: from there on, a logarithmic axis
_SMOOTH = 25  # a curve of batches is smoothed over this part of its length


class ConvergenceDisplay(Display):
    """The loss by iteration: of the training rows, and of held-out rows if there were any.

    Parameters
    ----------
    iteration, loss : array-like of shape (n,)
        The training loss after each iteration, penalty included.
    held_out : array-like of shape (n,), default=None
        The loss of the held-out rows; NaN where it was not computed.
    stages : sequence of (int, str), default=()
        First iteration and name of each later stage of the fit.
    chosen : int, default=None
        The iteration whose map was kept.
    noisy : bool, default=False
        Whether each loss is that of a batch: then a smoothed curve is drawn too.
    name : str, default=""
        The method, for the title.

    Attributes
    ----------
    iteration, loss, held_out : ndarray
    stages : list of (int, str)
    chosen : int or None
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.plotting import ConvergenceDisplay
    >>> nca = NCA(2, early_stopping=True, random_state=0).fit(*load_wine(return_X_y=True))
    >>> ConvergenceDisplay.from_estimator(nca).figure_.savefig("fit.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        iteration: Any,
        loss: Any,
        held_out: Any = None,
        *,
        stages: Sequence[tuple[int, str]] = (),
        chosen: int | None = None,
        noisy: bool = False,
        name: str = "",
    ) -> None:
        self.iteration, self.loss = np.asarray(iteration), np.asarray(loss, dtype=np.float64)
        if self.loss.ndim != 1 or self.iteration.shape != self.loss.shape or not len(self.loss):
            raise ValueError(
                f"'iteration' and 'loss' of {_OWNER} must be of one length of at least 1. "
                f"Got shapes {self.iteration.shape} and {self.loss.shape}."
            )
        empty = np.full(len(self.loss), np.nan)
        self.held_out = empty if held_out is None else np.asarray(held_out, dtype=np.float64)
        if self.held_out.shape != self.loss.shape:
            raise ValueError(
                f"'held_out' of {_OWNER} must have shape {self.loss.shape}. "
                f"Got {self.held_out.shape} instead."
            )
        self.stages, self.chosen, self.noisy, self.name = list(stages), chosen, noisy, name

    @classmethod
    def from_history(
        cls, history: Mapping[str, Any], *, ax: Any = None, **parameters: Any
    ) -> ConvergenceDisplay:
        """Draw a history, as fitted estimators have it in ``history_``.

        Parameters
        ----------
        history : mapping
            With ``iteration``, ``loss`` and maybe ``validation_score``, which is minus the loss of
            the held-out rows.
        ax : matplotlib Axes, default=None
        **parameters
            As in the constructor: ``stages``, ``chosen``, ``noisy``, ``name``.
        """
        score = history.get("validation_score")
        held_out = None if score is None else -np.asarray(score, dtype=np.float64)
        return cls(history["iteration"], history["loss"], held_out, **parameters).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Any = None
    ) -> ConvergenceDisplay:
        """Draw the last fit of an estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted, with ``history_``; there are held-out losses if it has ``early_stopping=True``.
        X, y : ignored
            For the sake of scikit-learn's interface.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        """
        fitted = Fitted(estimator, _OWNER)
        learner = fitted.learner
        history = getattr(learner, "history_", None)
        if not history or not len(history["loss"]):
            raise ValueError(
                f"The 'estimator' parameter of {_OWNER} must have a 'history_' of its fit. "
                f"{fitted.name} has none."
            )
        stages = _stages(learner, history)
        noisy = bool(getattr(getattr(learner, "plan_", None), "noisy", False))
        return cls.from_history(
            history, stages=stages, chosen=_chosen(history, stages, noisy), noisy=noisy,
            name=fitted.name, ax=ax,
        )  # fmt: skip

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw the curves into ``ax``, or into a new figure."""
        [ax] = self._open(ax, 1, (5.4, 3.6))
        self._curves(ax)
        if self.chosen is not None:
            ax.axvline(
                self.chosen, color=foreground(ax), linewidth=1, linestyle=":", zorder=1,
                label=f"kept: iteration {self.chosen:,}",
            )  # fmt: skip
        both = np.concatenate([self.loss, self.held_out[np.isfinite(self.held_out)]])
        if both.min() > 0 and both.max() > _RATIO * both.min():
            ax.set_yscale("log")
        plain_axes(ax)
        for first, name in self.stages:
            ax.axvline(first, color=foreground(ax), linewidth=0.8, alpha=0.6, zorder=1)
            ax.annotate(
                f" {name}", (first, 1.0), xycoords=("data", "axes fraction"), va="top",
                fontsize="small", color=foreground(ax),
            )  # fmt: skip
        ax.set(xlabel="iteration", ylabel="loss", title=self.name)
        ax.title.set_fontsize("medium")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False, fontsize="small")
        return self

    def _curves(self, ax: Any) -> None:
        x, marker = self.iteration, "." if len(self.loss) <= 40 else None
        blue, orange, *_ = line_colours(ax)
        raw: dict[str, Any] = {"color": blue, "linewidth": 1.6, "marker": marker}
        if self.noisy:
            ax.plot(x, self.loss, color=blue, linewidth=0.7, alpha=0.35, label="batches")
            width = max(3, len(x) // _SMOOTH)
            smooth = uniform_filter1d(self.loss, width, mode="nearest")
            ax.plot(x, smooth, **{**raw, "marker": None}, label="training, smoothed")
        else:
            ax.plot(x, self.loss, label="training", **raw)
        known = np.isfinite(self.held_out)
        if known.any():
            ax.plot(
                x[known], self.held_out[known], color=orange, linewidth=1.6, linestyle="--",
                marker=marker, label="held-out",
            )  # fmt: skip


def _stages(learner: Any, history: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The stages of an embedding: early exaggeration, then the loss itself."""
    early = getattr(learner, "early_exaggeration_iter", None)
    if early is None:
        return []
    # a step evaluates the loss once; the first one of a new stage evaluates the new loss before
    counts = np.diff(history["n_evaluations"])
    changed = np.flatnonzero(counts[: int(early) + 1] == 2)
    if not len(changed):
        return []
    return [(0, "early exaggeration"), (int(history["iteration"][changed[0]]), "its own loss")]


def _chosen(
    history: Mapping[str, Any], stages: Sequence[tuple[int, str]], noisy: bool
) -> int | None:
    """The iteration whose map was kept."""
    iteration = np.asarray(history["iteration"])
    score = np.asarray(history.get("validation_score", np.nan), dtype=np.float64)
    if np.isfinite(score).any():
        return int(iteration[np.nanargmax(score)])
    if noisy:
        return int(iteration[-1])
    last = np.flatnonzero(iteration > (stages[-1][0] if stages else -1))
    loss: Array = np.asarray(history["loss"], dtype=np.float64)[last]
    return int(iteration[last[np.argmin(loss)]])
