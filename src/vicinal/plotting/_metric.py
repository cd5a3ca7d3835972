"""The learnt metric: which features count, and together with which others."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from vicinal._features import unscaled
from vicinal.core.types import Array
from vicinal.plotting._colours import line_colours
from vicinal.plotting._fitted import Fitted, standardiser
from vicinal.plotting._matplotlib import Display, bad, plain_axes, plain_bar
from vicinal.plotting._names import shortened

_OWNER = "MetricDisplay"
_HEAT = "PuOr_r"  # orange and purple, which the colour-blind tell apart


class MetricDisplay(Display):
    r"""The importances of the features, and the learnt metric as a heat map.

    The squared distance is :math:`d^2(x, x') = (x - x')^T M (x - x')`.  The heat map shows M for
    columns in units of their deviations, divided by its trace, so that its diagonal holds the
    importances.  Off the diagonal, a positive entry means that differences of the same sign in two
    features add up; a negative one, that they cancel.  A map that is not linear has no M: there are
    bars only.

    Parameters
    ----------
    importances : array-like of shape (n_features,)
        Share of each feature in the metric.
    matrix : array-like of shape (n_features, n_features), default=None
        M; None: bars only.
    feature_names : sequence of str, default=None
        None: x0, x1, ...
    name : str, default=""
        The method, for the title.

    Attributes
    ----------
    importances, matrix, feature_names
        As given, in the order of the columns.
    shown_ : int ndarray
        The features that were drawn, from the most important one.
    axes_ : ndarray of matplotlib Axes
        The bars, and the heat map if there is one.
    ax_ : matplotlib Axes
        The bars.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.plotting import MetricDisplay
    >>> wine = load_wine(as_frame=True)
    >>> nca = NCA(2, random_state=0).fit(wine.data, wine.target)
    >>> MetricDisplay.from_estimator(nca).figure_.savefig("metric.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        importances: Any,
        matrix: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        name: str = "",
    ) -> None:
        self.importances = np.asarray(importances, dtype=np.float64)
        D = len(self.importances)
        self.matrix = None if matrix is None else np.asarray(matrix, dtype=np.float64)
        if self.matrix is not None and self.matrix.shape != (D, D):
            raise bad(_OWNER, "matrix", f"of shape ({D}, {D})", self.matrix.shape)
        names = [f"x{i}" for i in range(D)] if feature_names is None else list(feature_names)
        if len(names) != D:
            raise bad(_OWNER, "feature_names", f"of length {D}", len(names))
        self.feature_names, self.name = names, name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> MetricDisplay:
        """Draw the metric of a fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; a pipeline must end in an estimator with ``transform``.  Its features are those
            that the last step sees, such as the columns after one-hot encoding.
        X : {array-like, sparse matrix, data frame}, default=None
            Rows whose deviations are the units of the columns.  None: the units that were used to
            learn, which our estimators remember.
        y : ignored
            For the sake of scikit-learn's interface.
        feature_names : sequence of str, default=None
            None: those that the estimator knows.
        ax : sequence of two matplotlib Axes, or one if the map is not linear, default=None
            None makes a new figure.
        **options
            As in :meth:`plot`.
        """
        fitted = Fitted(estimator, _OWNER)
        importances, matrix = _metric(fitted, X)
        if feature_names is None:
            feature_names = fitted.feature_names(len(importances))
        display = cls(importances, matrix, feature_names=feature_names, name=fitted.name)
        return display.plot(ax, **options)

    def plot(self, ax: Any = None, *, max_features: int = 20) -> MetricDisplay:
        """Draw the bars, and the heat map if there is a matrix.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, or one without a matrix, default=None
            None makes a new figure.
        max_features : int, default=20
            How many features to draw, the most important ones.  One more bar shows the sum of the
            others.
        """
        whole = isinstance(max_features, Integral) and not isinstance(max_features, bool)
        if not whole or max_features < 1:
            raise bad(_OWNER, "max_features", "an int in [1, inf)", max_features)
        order = np.argsort(-self.importances, kind="stable")
        self.shown_ = order[: int(max_features)]
        panels = 1 + (self.matrix is not None)
        names = [shortened(self.feature_names[i]) for i in self.shown_]
        size, options = _layout(names, panels)
        axes = self._open(ax, panels, size, **options)
        self._bars(axes[0], list(names))
        if self.matrix is not None:
            self._heat(axes[1], names)
        return self

    def _bars(self, ax: Any, names: list[str]) -> None:
        share = 100.0 * self.importances[self.shown_]
        rest = len(self.importances) - len(self.shown_)
        ax.barh(range(len(share)), share, color=line_colours(ax)[0], height=0.75)
        if rest:
            others = 100.0 * self.importances.sum() - share.sum()
            ax.barh([len(share)], [others], color="0.6", height=0.75, hatch="///", edgecolor="0.4")
            names.append(f"the other {rest:,} together")
        ax.set_yticks(range(len(names)), names, fontsize=_font(len(names)))
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("share of the metric, %", fontsize="small")
        ax.tick_params(axis="x", labelsize="small")
        plain_axes(ax, "x")
        title = f"{self.name}: importance of features" if self.name else "importance of features"
        ax.set_title(title, fontsize="medium")

    def _heat(self, ax: Any, names: list[str]) -> None:
        assert self.matrix is not None
        part = self.matrix[np.ix_(self.shown_, self.shown_)]
        part = part / (np.trace(self.matrix) or 1.0)
        most = float(np.abs(part).max()) or 1.0
        image = ax.imshow(part, cmap=_HEAT, vmin=-most, vmax=most, aspect="auto")
        ax.set_xticks(range(len(names)), names, rotation=90, fontsize=_font(len(names)))
        ax.set_yticks([])
        ax.set_ylim(self.axes_[0].get_ylim())  # one row for each bar
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        plain_bar(ax, image).ax.tick_params(labelsize="x-small")
        title = "metric, in units of deviations"
        if len(names) < len(self.importances):
            title = f"metric of the {len(names)} most important"
        ax.set_title(title, fontsize="medium")


def _font(count: int) -> float:
    """Size of the names of this many rows."""
    return float(np.clip(10.0 - 0.09 * count, 5.0, 9.0))


def _layout(names: list[str], panels: int) -> tuple[tuple[float, float], dict[str, Any]]:
    """The size of a figure with these bars, and the widths of its panels; a heat map is square."""
    side = float(np.clip(0.22 * (len(names) + 1), 1.8, 12.0))
    text = 0.075 * max(map(len, names)) * _font(len(names)) / 9.0  # inches
    if panels == 1:
        return (text + 2.4, side + 0.8), {}
    size = text + 3.0 + side, side + 0.8 + max(0.0, text - 0.4)
    return size, {"width_ratios": [2.4, side + 0.6]}


def _metric(fitted: Fitted, X: Any) -> tuple[Array, Array | None]:
    """The importances and the matrix, in units of deviations."""
    learner = fitted.learner
    components = getattr(learner, "components_", None)
    if components is None:
        found = getattr(learner, "feature_importances_", None)
        if found is None:
            raise ValueError(
                f"The 'estimator' parameter of {_OWNER} must have 'components_' or "
                f"'feature_importances_'. {fitted.name} has neither."
            )
        return np.asarray(found, dtype=np.float64), None
    A = np.asarray(components, dtype=np.float64)
    if X is not None:
        columns = fitted.columns(X)
        A = A * np.sqrt(standardiser(columns).fit(columns).var_)
    elif hasattr(learner, "_map"):
        A = unscaled(A, learner._map.scale)
    importances = np.sum(A**2, axis=0)
    return importances / (importances.sum() or 1.0), A.T @ A
