"""What a model predicts everywhere in a plane."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_regressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from vicinal.core.types import Array
from vicinal.plotting._colours import Classes, Numbers, class_colours, colouring, linear, srgb
from vicinal.plotting._fitted import Rows
from vicinal.plotting._matplotlib import Display, background, bad, foreground, is_dark
from vicinal.plotting._names import add_names, check_names, legend_inches
from vicinal.plotting._points import draw_points, view_of

_OWNER = "DecisionRegionsDisplay"
_PLANES = ("auto", "map", "columns")
_PALE = 0.42  # how much of its colour a region has; the rest is background
_STRONG = 0.85  # the same for numbers, which must look as in the colour bar
_LINES_UP_TO = 60  # classes whose borders are drawn


class DecisionRegionsDisplay(Display):
    """Regions of the predicted classes, or numbers, in a plane, and the rows in it.

    The plane is that of a map to two dimensions, or that of two columns.  Colours are mixed by the
    class probabilities: where a prediction is uncertain, a region fades into its neighbours.

    Parameters
    ----------
    x, y : array-like of shape (width,), (height,)
        Coordinates of the grid.
    response : array-like of shape (height, width, n_classes) or (height, width)
        Class probabilities, or predicted numbers.
    classes : array-like of shape (n_classes,), default=None
        The labels; None for numbers.
    points, target : array-like of shape (n, 2) and (n,), default=None
        Rows to draw, and their labels or numbers.
    held_out : bool array of shape (n,), default=None
        Rows that were not learnt from; the others are drawn faintly.
    column_names : pair of str, default=None
        Names of the axes, if the plane is that of two columns.
    title : str, default=""

    Attributes
    ----------
    x, y, response, classes, points, target, held_out
        As given.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.plotting import DecisionRegionsDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> nca = NCA(2, random_state=0).fit(X, y)
    >>> DecisionRegionsDisplay.from_estimator(nca, X, y)  # doctest: +SKIP
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        response: Any,
        *,
        classes: Any = None,
        points: Any = None,
        target: Any = None,
        held_out: Any = None,
        column_names: tuple[str, str] | None = None,
        title: str = "",
    ) -> None:
        self.x, self.y, self.response = np.asarray(x), np.asarray(y), np.asarray(response)
        shape = (len(self.y), len(self.x)) + (() if classes is None else (len(classes),))
        if self.response.shape != shape:
            raise bad(_OWNER, "response", f"of shape {shape}", self.response.shape)
        self.classes = None if classes is None else np.asarray(classes)
        self.points = np.empty((0, 2)) if points is None else np.asarray(points)
        self.target = None if target is None else np.asarray(target)
        self.held_out = None if held_out is None else np.asarray(held_out, dtype=bool)
        self.column_names, self.title = column_names, title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        X_test: Any = None,
        y_test: Any = None,
        plane: str = "auto",
        grid_resolution: int = 160,
        ax: Any = None,
        **options: Any,
    ) -> DecisionRegionsDisplay:
        """Draw the regions of a fitted estimator.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted.  One of ours that predicts, at the end of a pipeline or not; a pipeline that
            ends in any classifier or regressor of two columns; or any estimator of two columns.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            The rows that were learnt from.
        y : array-like of shape (n_samples,), default=None
            Their labels or numbers; None draws no rows.
        X_test, y_test : as X and y, default=None
            Rows that were held out.
        plane : {"auto", "map", "columns"}, default="auto"
            "map": that of the learnt map, where each row is drawn as the model sees it; "columns":
            that of the two columns of X; "auto": the first of them that has two dimensions.
        grid_resolution : int, default=160
            Points along each side of the grid at which the model is asked.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        **options
            As in :meth:`plot`.
        """
        check_is_fitted(estimator)
        if plane not in _PLANES:
            raise bad(_OWNER, "plane", "one of 'auto', 'map', 'columns'", plane)
        if not isinstance(grid_resolution, Integral) or grid_resolution < 2:
            raise bad(_OWNER, "grid_resolution", "an int in [2, inf)", grid_resolution)
        found = _plane(estimator, X, plane)
        rows = Rows(_OWNER, X, y, X_test, y_test)
        points = rows.of(found.place)
        low, high = _square(points) if found.names is None else _box(points)
        x, up = (np.linspace(a, b, int(grid_resolution)) for a, b in zip(low, high, strict=True))
        grid = np.stack(np.meshgrid(x, up), axis=-1).reshape(-1, 2)
        response = found.respond(grid)
        shown = {"points": points, "target": rows.y, "held_out": rows.held_out}
        display = cls(
            x, up, response.reshape(len(up), len(x), *response.shape[1:]), classes=found.classes,
            column_names=found.names, title=found.title, **({} if rows.y is None else shown),
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(
        self, ax: Any = None, *, names: str = "auto", size: float | None = None
    ) -> DecisionRegionsDisplay:
        """Draw the regions and the rows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        names, size
            As in :meth:`EmbeddingDisplay.plot`.
        """
        check_names(_OWNER, names)
        colours = self._colours()
        [ax] = self._open(ax, 1, (4.6 + legend_inches(colours, 4.0, names), 4.4))
        if len(self.points):
            draw_points(ax, self.points, colours, size=size, held_out=self.held_out)
        self._regions(ax, colours)
        ax.set_xlim(self.x[0], self.x[-1])
        ax.set_ylim(self.y[0], self.y[-1])
        if self.column_names is not None:
            ax.set_aspect("auto")
            ax.set(xlabel=self.column_names[0], ylabel=self.column_names[1])
        else:
            ax.set_aspect("equal", adjustable="box")
        ax.set_title(self.title, fontsize="medium")
        add_names(ax, self.points, colours, names)
        return self

    def _colours(self) -> Any:
        if self.classes is None:
            known = np.empty(0) if self.target is None else self.target.astype(np.float64)
            every = np.concatenate([known, self.response.ravel()])
            return Numbers(known, float(every.min()), float(every.max()))
        if self.target is None:
            return Classes(np.empty(0, dtype=np.intp), [str(c) for c in self.classes])
        return colouring(self.target, len(self.points), self.classes, False)

    def _regions(self, ax: Any, colours: Any) -> None:
        behind = background(ax)
        extent = (self.x[0], self.x[-1], self.y[0], self.y[-1])
        if self.classes is None:
            rgb, strength = colours.of(self.response), _STRONG
        else:
            palette = linear(class_colours(len(self.classes), is_dark(ax)))
            rgb, strength = srgb(self.response @ palette), _PALE
        pale = behind + strength * (rgb - behind)
        ax.imshow(
            pale, origin="lower", extent=extent, interpolation="bilinear", aspect="auto", zorder=0
        )
        if self.classes is None or len(self.classes) > _LINES_UP_TO:
            return
        for c in range(len(self.classes)):
            others = np.delete(self.response, c, axis=2).max(axis=2)
            lead = self.response[..., c] - others
            if lead.min() < 0 < lead.max():
                line = {"colors": [foreground(ax)], "linewidths": 0.7, "zorder": 1}
                ax.contour(self.x, self.y, lead, levels=[0.0], **line)


class _Plane(NamedTuple):
    """A plane: how rows come into it, what the model says there, and what it is called."""

    place: Callable[[Any], Array]
    respond: Callable[[Array], Array]
    classes: Array | None
    title: str
    names: tuple[str, str] | None = None


def _plane(estimator: Any, X: Any, plane: str) -> _Plane:
    """The plane of an estimator."""
    tried = []
    if plane in ("auto", "map"):
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        steps = estimator[:-1] if isinstance(estimator, Pipeline) and len(estimator) > 1 else None
        if hasattr(last, "_model") and hasattr(last, "_map") and hasattr(last, "predict"):
            if last._map.n_components == 2:
                return _own_plane(last, steps)
            tried.append(f"the map of {type(last).__name__} has {last._map.n_components} "
                         "dimensions")  # fmt: skip
        elif steps is not None and hasattr(last, "predict"):
            if getattr(last, "n_features_in_", 2) == 2:
                place = lambda rows: np.asarray(steps.transform(rows))  # noqa: E731
                return _Plane(place, *_answers(last), _title(last))
            tried.append(f"{type(last).__name__} has {last.n_features_in_} columns")
        else:
            tried.append(f"{type(last).__name__} predicts nothing; put a classifier behind it")
    if plane in ("auto", "columns"):
        if np.shape(X)[1] == 2 and hasattr(estimator, "predict"):
            names = getattr(X, "columns", ("x0", "x1"))
            frame = type(X) if hasattr(X, "columns") else None
            respond, classes = _answers(estimator)
            asked = respond if frame is None else (lambda Z: respond(frame(Z, columns=names)))
            pair = (str(names[0]), str(names[1]))
            return _Plane(np.asarray, asked, classes, _title(estimator), pair)
        tried.append(f"X has {np.shape(X)[1]} columns")
    raise ValueError(
        f"{_OWNER} needs a map to two dimensions, or two columns: {', and '.join(tried)}."
    )


def _own_plane(learner: Any, steps: Any) -> _Plane:
    """The plane of one of our maps, where its model is asked directly."""

    def place(X: Any) -> Array:
        return learner._embedded(X if steps is None else steps.transform(X))

    def respond(Z: Array) -> Array:
        Z = Z.astype(learner._model.Z.dtype, copy=False)
        if is_regressor(learner):
            predicted = learner._outputs.back(learner._model.predict(Z, learner.rule))
            return predicted if predicted.ndim == 1 else predicted[:, 0]
        return learner._model.probabilities(Z, learner.rule)

    return _Plane(place, respond, getattr(learner, "classes_", None), _title(learner))


def _answers(model: Any) -> tuple[Callable[[Any], Array], Array | None]:
    """Probabilities if a model has them, else its classes or numbers."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return model.predict, None
    if hasattr(model, "predict_proba"):
        return model.predict_proba, classes
    return lambda Z: (model.predict(Z)[:, None] == classes).astype(np.float64), classes


def _title(model: Any) -> str:
    last = model[-1] if isinstance(model, Pipeline) else model
    return f"predictions of {type(last).__name__}"


def _square(points: Array) -> tuple[Array, Array]:
    """A square around the points, since both axes of a map have one scale."""
    low, high = view_of(points)
    half = 0.5 * (high - low).max()
    return 0.5 * (low + high) - half, 0.5 * (low + high) + half


def _box(points: Array) -> tuple[Array, Array]:
    """A box around the points, with a margin on each side in its own units."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.06 * np.where(high > low, high - low, 1.0)
    return low - margin, high + margin
