"""Rows before and after learning, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.plotting._colours import colouring
from vicinal.plotting._fitted import Fitted, principal_components
from vicinal.plotting._matplotlib import bad, given_axes
from vicinal.plotting._names import check_names
from vicinal.plotting._scatter import check_points, new_panels, panel

_OWNER = "EmbeddingDisplay"
_SHOW = ("all", "held-out")


class EmbeddingDisplay:
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
        held_out: Any = None,
        classes: Any = None,
        target_name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> EmbeddingDisplay:
        """Draw given embeddings.

        Parameters
        ----------
        embeddings, y, held_out, classes, target_name
            As in the constructor.
        ax : matplotlib Axes or sequence of them, default=None
            One for each panel; None makes a new figure.
        **options
            As in :meth:`plot`.

        Returns
        -------
        display : EmbeddingDisplay
        """
        display = cls(
            embeddings, y, held_out=held_out, classes=classes, target_name=target_name
        )  # fmt: skip
        return display.plot(ax, **options)

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
            What to draw beside the learnt map: principal components of the scaled columns, nothing,
            the rows under another fitted transformer, or given points: those of X, then of X_test.
        show : {"all", "held-out"}, default="all"
            Whether to draw the rows that were learnt from too, faintly, or X_test alone.
        n_components : {2, 3}, default=None
            Dimensions of the picture.  None: those of the map, or 2 if they cannot be drawn.  A map
            to more dimensions is drawn by the principal components of the embedded rows, and the
            title says so.
        target_name : str, default=None
            Title of the legend, or label of the colour bar.
        ax : matplotlib Axes or sequence of them, default=None
            One for each panel; None makes a new figure.
        **options
            As in :meth:`plot`.

        Returns
        -------
        display : EmbeddingDisplay
        """
        fitted = Fitted(estimator, _OWNER)
        if show not in _SHOW:
            raise bad(_OWNER, "show", "'all' or 'held-out'", show)
        if show == "held-out" and X_test is None:
            raise bad(_OWNER, "X_test", "given if show='held-out'", X_test)
        if n_components not in (None, 2, 3):
            raise bad(_OWNER, "n_components", "2, 3 or None", n_components)
        rows = _Rows(X, X_test, show)
        Z = rows.of(fitted.embed)
        d = n_components or (Z.shape[1] if Z.shape[1] in (2, 3) else 2)
        panels = {**_before(before, fitted, rows, d), **_after(fitted, Z, d)}
        targets = [t for t in ((y, y_test) if show == "all" else (y_test,)) if t is not None]
        whole = len(targets) == len(rows.parts)
        target = np.concatenate([np.asarray(t) for t in targets]) if targets and whole else None
        if targets and not whole:
            raise bad(_OWNER, "y_test", "given if y and X_test are", None)
        display = cls(
            panels,
            target,
            held_out=rows.held_out,
            classes=None if target is None or fitted.numbers else _all_classes(fitted, target),
            numbers=fitted.numbers,
            target_name=target_name,
        )
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

        Returns
        -------
        display : EmbeddingDisplay
        """
        check_names(_OWNER, names)
        panels = self.embeddings
        if ax is None:
            ax = new_panels(panels.values(), self._colours, names)
        self.axes_ = given_axes(ax, len(panels), _OWNER)
        notes = []
        for each, (title, Z) in zip(self.axes_, panels.items(), strict=True):
            notes.append(
                panel(
                    each,
                    Z,
                    self._colours,
                    title=title,
                    names=names,
                    beside=each is self.axes_[-1],
                    target=self.target_name,
                    size=size,
                    held_out=self.held_out,
                )
            )
        self.ax_, self.figure_ = self.axes_[-1], self.axes_[-1].figure
        self._say(notes[-1])
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


class _Rows:
    """The rows of a picture: those that were learnt from, and held-out ones."""

    def __init__(self, X: Any, X_test: Any, show: str) -> None:
        self.train = X
        self.parts = [X_test] if show == "held-out" else [X]
        counts = [np.shape(X_test if show == "held-out" else X)[0]]
        if X_test is not None and show == "all":
            self.parts.append(X_test)
            counts.append(np.shape(X_test)[0])
        self.held_out = None
        if X_test is not None:
            self.held_out = np.repeat([show == "held-out", True][: len(counts)], counts)

    def of(self, function: Any) -> Array:
        """The points of all rows under a function of tables."""
        return np.concatenate([np.asarray(function(part)) for part in self.parts])


def _all_classes(fitted: Fitted, y: Array) -> Array | None:
    """The learnt classes, so that colours do not depend on the rows; None if y has others."""
    known = fitted.classes
    return known if known is not None and np.isin(y, known).all() else None


def _before(before: Any, fitted: Fitted, rows: _Rows, d: int) -> dict[str, Array]:
    """The panel on the left."""
    if before is None:
        return {}
    if isinstance(before, str):
        if before != "pca":
            raise bad(_OWNER, "before", "'pca', None, a transformer or points", before)
        pca = principal_components(fitted.columns(rows.train), d)
        Z = rows.of(lambda part: pca.transform(fitted.columns(part)))
        return {"before: PCA of the scaled columns": _padded(Z, d)}
    if hasattr(before, "transform"):
        return {f"before: {type(before).__name__}": _padded(rows.of(before.transform), d)}
    Z = check_points(before)
    if len(Z) != sum(np.shape(part)[0] for part in rows.parts):
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
