"""Embedded rows: one picture of them, or several side by side, such as before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.plotting._colours import colouring
from vicinal.plotting._fitted import Fitted, Rows, principal_components, scales_columns
from vicinal.plotting._matplotlib import Display, bad, pyplot
from vicinal.plotting._names import add_names, check_names, legend_inches
from vicinal.plotting._points import draw_points

_OWNER = "EmbeddingDisplay"
_SHOW = ("all", "held-out")


class EmbeddingDisplay(Display):
    """The same rows in one or several embeddings, side by side.

    Make it with :meth:`from_estimator`, which draws the rows before and after learning, or with
    :meth:`from_embeddings`.  Rows that were held out stand out; the rows that were learnt from are
    faint.  From 20,000 rows on a panel is an image: the shade of a spot shows how many rows are
    there, its colour the mixture of their classes.

    Parameters
    ----------
    embeddings : mapping of str to array-like of shape (n, 2) or (n, 3)
        Title and points of each panel.
    y : array-like of shape (n,), default=None
        Class labels, or numbers, which get a colour bar; None: one colour.
    held_out : bool array of shape (n,), default=None
        Rows that were not learnt from.
    classes : array-like, default=None
        All labels, in the order of their colours; None: those in y, sorted.
    numbers : bool, default=None
        Whether y holds numbers; None: if they are not whole.
    target_name : str, default=None
        Title of the legend, or label of the colour bar.

    Attributes
    ----------
    embeddings : dict of str to ndarray
    y, held_out : ndarray or None
    axes_ : ndarray of matplotlib Axes
        One for each panel.
    ax_ : matplotlib Axes
        The last panel.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.plotting import EmbeddingDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> nca = NCA(2, random_state=0).fit(X[::2], y[::2])
    >>> display = EmbeddingDisplay.from_estimator(
    ...     nca, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2]
    ... )  # doctest: +SKIP
    >>> display.figure_.savefig("wine.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        embeddings: Mapping[str, Any],
        y: Any = None,
        *,
        held_out: Any = None,
        classes: Any = None,
        numbers: bool | None = None,
        target_name: str | None = None,
    ) -> None:
        if not embeddings:
            raise ValueError(
                f"The 'embeddings' parameter of {_OWNER} must hold at least one embedding."
            )
        self.embeddings = {title: check_points(Z) for title, Z in embeddings.items()}
        n = len(next(iter(self.embeddings.values())))
        for title, Z in self.embeddings.items():
            if len(Z) != n:
                raise ValueError(f"All embeddings must have {n} rows. {title!r} has {len(Z)}.")
        self.y = None if y is None else np.asarray(y)
        self.held_out = None if held_out is None else np.asarray(held_out, dtype=bool)
        if self.held_out is not None and self.held_out.shape != (n,):
            raise bad(_OWNER, "held_out", f"of shape ({n},)", self.held_out.shape)
        self.classes, self.numbers, self.target_name = classes, numbers, target_name
        self._colours = colouring(self.y, n, classes, numbers)

    @classmethod
    def from_embeddings(
        cls,
        embeddings: Mapping[str, Any],
        y: Any = None,
        *,
        ax: Any = None,
        names: str = "auto",
        size: float | None = None,
        **parameters: Any,
    ) -> EmbeddingDisplay:
        """Draw given embeddings.

        Parameters
        ----------
        embeddings, y, **parameters
            As in the constructor.
        ax, names, size
            As in :meth:`plot`.
        """
        return cls(embeddings, y, **parameters).plot(ax, names=names, size=size)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        X_test: Any = None,
        y_test: Any = None,
        before: Any = "pca",
        show: str = "all",
        n_components: int | None = None,
        target_name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> EmbeddingDisplay:
        """Draw rows before and after learning.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; a pipeline must end in an estimator with ``transform``.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            The rows that were learnt from.
        y : array-like of shape (n_samples,), default=None
            Their labels or numbers.
        X_test, y_test : as X and y, default=None
            Rows that were held out.
        before : "pca", None, transformer or array-like, default="pca"
            What to draw next to the learnt map: components of PCA, nothing,
            the rows under another fitted transformer, or given points: those of X, then of X_test.
        show : {"all", "held-out"}, default="all"
            Whether to draw the rows that were learnt from too, faintly, or X_test alone.
        n_components : {2, 3}, default=None
            Dimensions of the picture.  None: as the map has, or 2 if they cannot be drawn.  A map
            to more dimensions is drawn by the principal components of the embedded rows, and the
            title says so.
        target_name : str, default=None
            Title of the legend, or label of the colour bar.
        ax : matplotlib Axes or sequence of them, default=None
            One for each panel; None makes a new figure.
        **options
            As in :meth:`plot`.
        """
        fitted = Fitted(estimator, _OWNER)
        if show not in _SHOW:
            raise bad(_OWNER, "show", "'all' or 'held-out'", show)
        if show == "held-out" and X_test is None:
            raise bad(_OWNER, "X_test", "given if show='held-out'", X_test)
        if n_components not in (None, 2, 3):
            raise bad(_OWNER, "n_components", "2, 3 or None", n_components)
        rows = Rows(_OWNER, X, y, X_test, y_test, alone=show == "held-out")
        Z = rows.of(fitted.embed)
        d = n_components or (Z.shape[1] if Z.shape[1] in (2, 3) else 2)
        panels = {**_before(before, fitted, X, rows, d), **_after(fitted, Z, d)}
        # colours do not depend on the rows, unless there are classes that were not learnt
        classes = None if rows.y is None or fitted.numbers else fitted.classes
        if classes is not None and not np.isin(rows.y, classes).all():
            classes = None
        display = cls(
            panels, rows.y, held_out=rows.held_out, classes=classes, numbers=fitted.numbers,
            target_name=target_name,
        )  # fmt: skip
        return display.plot(ax, **options)

    def plot(
        self, ax: Any = None, *, names: str = "auto", size: float | None = None
    ) -> EmbeddingDisplay:
        """Draw the panels.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of them, default=None
            One for each panel; None makes a new figure.
        names : {"auto", "legend", "points", "both", "none"}, default="auto"
            How to name the classes: in a legend, in the picture, where each class is densest, in
            both, or not.  "auto": a legend for up to 60 classes, and names in the picture if there
            are more than ten.
        size : float, default=None
            Area of a marker in square points.  None: by the number of rows, and an image if there
            are very many.
        """
        check_names(_OWNER, names)
        panels = self.embeddings
        if ax is None:
            ax = new_panels(panels.values(), self._colours, names)
        axes = self._take(ax, len(panels))
        self.ax_ = axes[-1]
        for each, (title, Z) in zip(axes, panels.items(), strict=True):
            note = panel(
                each, Z, self._colours, title=title, names=names, beside=each is self.ax_,
                target=self.target_name, size=size, held_out=self.held_out,
            )  # fmt: skip
        self._say(note)
        return self

    def _say(self, note: str) -> None:
        """Write under the first panel what the reader must know."""
        held_out = self.held_out
        if held_out is not None and held_out.any() and not held_out.all():
            told = "strong: held-out rows, faint: rows learnt from"
            note = f"{told}; {note}" if note else told
        if not note:
            return
        text = {"fontsize": "x-small", "color": "0.5"}
        if self.ax_.name == "3d":
            self.ax_.text2D(0.5, -0.04, note, transform=self.ax_.transAxes, ha="center", **text)
        else:
            self.axes_[0].set_xlabel(note, loc="left", **text)


def _before(before: Any, fitted: Fitted, X: Any, rows: Rows, d: int) -> dict[str, Array]:
    """The panel on the left."""
    if before is None:
        return {}
    if isinstance(before, str):
        if before != "pca":
            raise bad(_OWNER, "before", "'pca', None, a transformer or points", before)
        scale = scales_columns(fitted.learner)
        pca = principal_components(fitted.columns(X), d, scale)
        Z = rows.of(lambda part: pca.transform(fitted.columns(part)))
        return {f"before: PCA of the {'scaled ' if scale else ''}columns": _padded(Z, d)}
    if hasattr(before, "transform"):
        return {f"before: {type(before).__name__}": _padded(rows.of(before.transform), d)}
    Z = check_points(before)
    if len(Z) != sum(np.shape(part)[0] for part in rows.tables):
        raise ValueError(
            f"The 'before' parameter of {_OWNER} must have a point for each row that is drawn. "
            f"Got {len(Z)} points."
        )
    return {"before": Z}


def _after(fitted: Fitted, Z: Array, d: int) -> dict[str, Array]:
    """The panel on the right."""
    title = f"after: {fitted.name}"
    if Z.shape[1] > d:
        whole = Z.shape[1]
        Z = principal_components(Z, d, scale=False).transform(Z)
        return {f"{title}, {d} principal of {whole} dimensions": Z}
    if Z.shape[1] == 1:
        title += ", one dimension (height is random)"
    return {title: _padded(Z, d)}


def _padded(Z: Array, d: int) -> Array:
    """Points with d coordinates; missing ones spread the points a little, at random."""
    Z = Z[:, :d]
    if Z.shape[1] == d:
        return Z
    spread = 0.08 * float(np.ptp(Z[:, 0]) if len(Z) else 1.0)
    noise = np.random.RandomState(0).uniform(-spread, spread, (len(Z), d - Z.shape[1]))
    return np.hstack([Z, noise])


def scatter(
    Z: Any,
    y: Any,
    ax: Any = None,
    *,
    title: str | None = None,
    classes: Any = None,
    legend: bool = True,
    size: float | None = None,
) -> Any:
    """Draw embedded rows, with one colour per class.

    Rows are drawn in a random order, the same in each call, so that no class covers the others.
    20,000 rows and more are drawn as an image: the shade of a spot shows how many rows are there,
    its colour the mixture of their classes.

    Parameters
    ----------
    Z : array-like of shape (n_samples, 2) or (n_samples, 3)
        Embedded rows, as returned by ``transform`` for ``n_components=2`` or 3.  Three components
        give a picture in three dimensions, which can be turned with the mouse.
    y : array-like of shape (n_samples,)
        Class labels, as they should appear in the legend, or numbers that are not whole, which get
        a colour bar.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.  For three components it must have
        ``projection="3d"``.
    title : str, default=None
        Title of the axes.
    classes : array-like, default=None
        All labels, in the order of the colours; None: those in y, sorted.  Pass ``classes_`` if y
        may lack some classes, so that each class has the same colour in every picture.
    legend : bool, default=True
        Whether to name the classes: in a legend to the right of the axes if there are at most 60,
        and in the picture, where each class is densest, if there are more than ten.
    size : float, default=None
        Area of a marker in square points.  None: by the number of rows, and an image if there are
        very many.

    Returns
    -------
    ax : matplotlib Axes
    """
    Z = check_points(Z)
    colours = colouring(y, len(Z), classes)
    names = "auto" if legend else "none"
    if ax is None:
        wide = 4.3 + legend_inches(colours, 4.0, names)
        figure = pyplot().figure(figsize=(wide, 4.0), layout="constrained")
        ax = figure.add_subplot(projection=projection(Z))
    panel(ax, Z, colours, title=title, names=names, size=size)
    return ax


def before_after(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    axes: Any = None,
    classes: Any = None,
    size: float | None = None,
) -> Any:
    """Draw rows before and after learning, or in any other embeddings, side by side.

    ``before_after(model, X, y)`` draws what a fitted model has learnt, as
    :class:`EmbeddingDisplay` does, which has more options; ``before_after(panels, y)`` draws
    embeddings that are there already.

    Parameters
    ----------
    model : estimator, pipeline, or mapping of str to array-like
        A fitted estimator, or a pipeline that ends with one; or the title and the embedded rows of
        each panel, from left to right, of shape (n_samples, 2) or (n_samples, 3).
    X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features), default=None
        The rows that a model has learnt from.  A mapping has its rows already, so that y may stand
        here.
    y : array-like of shape (n_samples,), default=None
        Labels or numbers, which give the colours.
    axes : sequence of matplotlib Axes, default=None
        One for each panel; None makes a new figure.
    classes, size
        As in `scatter`.  The legend is next to the last panel.

    Returns
    -------
    figure : matplotlib Figure
        Save it with ``figure.savefig("before_after.png")``.
    """
    if isinstance(model, Mapping):
        if X is not None and y is not None:
            raise TypeError(
                "before_after(panels, y) takes no X: the panels hold the rows, embedded. Got X and "
                "y."
            )
        y = X if y is None else y
        return EmbeddingDisplay(model, y, classes=classes).plot(axes, size=size).figure_
    if X is None:
        raise TypeError(
            f"before_after(model, X, y) needs the rows X that {type(model).__name__} has learnt "
            "from. Got None instead."
        )
    if classes is not None:
        raise ValueError(
            "The 'classes' parameter of before_after must be None for a model, which has its own. "
            f"Got {classes!r} instead."
        )
    return EmbeddingDisplay.from_estimator(model, X, y, ax=axes, size=size).figure_


def new_panels(panels: Any, colours: Any, names: str = "auto", height: float = 3.6) -> list[Any]:
    """Axes side by side in a new figure, with room for a legend."""
    panels = list(panels)
    width = height * len(panels) + 0.15 + legend_inches(colours, height - 0.4, names)
    figure = pyplot().figure(figsize=(width, height), layout="constrained")
    return [
        figure.add_subplot(1, len(panels), i + 1, projection=projection(Z))
        for i, Z in enumerate(panels)
    ]


def panel(
    ax: Any,
    Z: Array,
    colours: Any,
    *,
    title: str | None = None,
    names: str = "auto",
    beside: bool = True,
    target: str | None = None,
    size: float | None = None,
    held_out: Array | None = None,
) -> str:
    """Draw one panel; return what the reader must know about rows that are not drawn."""
    if (Z.shape[1] == 3) != (ax.name == "3d"):
        raise ValueError(
            f"The 'ax' parameter must have projection={projection(Z)!r} for a Z of "
            f"{Z.shape[1]} columns. Got {ax.name!r} instead."
        )
    _, note = draw_points(ax, Z, colours, size=size, held_out=held_out)
    if title is not None:
        ax.set_title(title, fontsize="medium")
    add_names(ax, Z, colours, names, beside=beside, title=target)
    return note


def projection(Z: Any) -> str:
    """The projection of axes for these points."""
    return "3d" if np.shape(Z)[-1] == 3 else "rectilinear"


def check_points(Z: Any) -> Array:
    """Points in two or three dimensions."""
    Z = np.asarray(Z)
    if Z.ndim != 2 or Z.shape[1] not in (2, 3):
        raise ValueError(f"Z must have shape (n, 2) or (n, 3). Got {Z.shape} instead.")
    return Z
