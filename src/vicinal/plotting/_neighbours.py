"""The neighbours of one row, before and after learning."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, softmax

from vicinal.core.types import Array
from vicinal.densities import Gaussian
from vicinal.metrics._ranks import check_count
from vicinal.models.posterior import KNCAModel
from vicinal.plotting._colours import Classes, colouring
from vicinal.plotting._fitted import Fitted, dense
from vicinal.plotting._matplotlib import Display, bad
from vicinal.plotting._names import shortened

_OWNER = "NeighborsDisplay"
_BEFORE = "before: scaled columns"
_THUMB = 0.34  # inches


class Side(NamedTuple):
    """The neighbours under one metric.

    ``rows`` are the nearest rows, nearest first; ``values`` what their bars show, and ``p`` the
    probabilities of all rows, or None if the method has none.
    """

    rows: Array
    values: Array
    p: Array | None


class NeighborsDisplay(Display):
    r"""The nearest neighbours of one row before and after learning, with their :math:`p_{ij}`.

    :math:`p_{ij}` is the probability that row i picks row j as its neighbour; the objectives of NCA
    are made of them.  Before learning it is a Gaussian of the distance in scaled columns, whose
    width gives as many effective neighbours (the same perplexity) as after learning.  Methods
    without such probabilities, as LMNN, show distances, divided by the median over all rows.

    Parameters
    ----------
    sides : mapping of str to (rows, values, p)
        For each panel: numbers of the nearest rows, what their bars show, and the probabilities of
        all rows or None.
    y : array-like of shape (n,), default=None
        Labels or numbers of all rows.
    row : int or None, default=None
        Number of the row whose neighbours these are; None: it is none of them.
    label : label, default=None
        Its label or number.
    images : array-like of shape (n, height, width) or (n, height, width, 3), default=None
        Pictures of the rows.
    image : array-like of shape (height, width) or (height, width, 3), default=None
        Picture of the row itself.
    names : sequence of str, default=None
        Names of the rows; None: their numbers.
    numbers : bool, default=None
        Whether y holds numbers; None: if they are not whole.

    Attributes
    ----------
    sides : dict of str to (rows, values, p)
    own_class : dict of str to float
        The sum of :math:`p_{ij}` over the rows of the same class; empty without probabilities or
        classes.
    axes_ : ndarray of matplotlib Axes
    ax_ : matplotlib Axes
        The last panel.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.plotting import NeighborsDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> nca = NCA(2, random_state=0).fit(X, y)
    >>> NeighborsDisplay.from_estimator(nca, X, y, row=70)  # doctest: +SKIP
    """

    def __init__(
        self,
        sides: Any,
        y: Any = None,
        *,
        row: int | None = None,
        label: Any = None,
        images: Any = None,
        image: Any = None,
        names: Any = None,
        numbers: bool | None = None,
    ) -> None:
        self.sides = {title: Side(*side) for title, side in dict(sides).items()}
        self.y = None if y is None else np.asarray(y)
        self.row, self.label = row, label
        self.images, self.image, self.names = images, image, names
        n = 0 if self.y is None else len(self.y)
        self._colours = colouring(self.y, n, None, numbers)
        self.own_class: dict[str, float] = {}
        if self.y is not None and label is not None and isinstance(self._colours, Classes):
            for title, side in self.sides.items():
                if side.p is not None:
                    self.own_class[title] = float(side.p[self.y == label].sum())

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        row: int | None = None,
        query: Any = None,
        label: Any = None,
        n_neighbors: int = 10,
        images: Any = None,
        image: Any = None,
        names: Any = None,
        ax: Any = None,
    ) -> NeighborsDisplay:
        """Find and draw the neighbours of a row.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; a pipeline must end in an estimator with ``transform``.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            The rows that were learnt from, among which the neighbours are.
        y : array-like of shape (n_samples,), default=None
            Their labels or numbers.
        row : int, default=None
            Number of the row in X; it is not its own neighbour.
        query : as X, of one row, default=None
            Another row instead.
        label : label, default=None
            The label of ``query``; that of ``row`` is in y.
        n_neighbors : int, default=10
            How many neighbours to draw.
        images, image, names
            As in the constructor.  ``images`` may also be the shape of a picture, (height, width):
            then the columns of X are its pixels.
        ax : sequence of two matplotlib Axes, default=None
            None makes a new figure.
        """
        fitted = Fitted(estimator, _OWNER)
        n = np.shape(X)[0]
        if (row is None) == (query is None):
            raise ValueError(f"{_OWNER} needs either 'row' or 'query'. Got both or neither.")
        if row is not None and not (isinstance(row, Integral) and 0 <= row < n):
            raise bad(_OWNER, "row", f"an int in [0, {n - 1}]", row)
        k = check_count(_OWNER, "n_neighbors", n_neighbors, None, n - (row is not None))
        places = {_BEFORE: fitted.scaled(X), f"after: {fitted.name}": fitted.embed}
        sides = _sides(fitted.learner, places, X, row, query, k)
        if row is not None and y is not None:
            label = np.asarray(y)[row]
        if isinstance(images, tuple):
            shape = tuple(int(side) for side in images)
            pixels = dense(fitted.columns(X)) if fitted.steps is None else np.asarray(X)
            images = pixels.reshape(n, *shape)
            if query is not None and image is None:
                image = np.asarray(query, dtype=float).reshape(shape)
        if image is None and images is not None and row is not None:
            image = images[row]
        display = cls(
            sides, y, row=row, label=label, images=images, image=image, names=names,
            numbers=fitted.numbers,
        )  # fmt: skip
        return display.plot(ax)

    def plot(self, ax: Any = None) -> NeighborsDisplay:
        """Draw the bars into ``ax``, or into a new figure."""
        k, count = max(len(side.rows) for side in self.sides.values()), len(self.sides)
        height = 1.3 + (0.24 * k if self.images is None else 0.4 * (k + 1))
        axes = self._open(ax, count, (3.9 * count, height))
        self.ax_ = axes[-1]
        if ax is None:
            self.figure_.suptitle(self._headline(), fontsize="medium")
        for each, (title, side) in zip(axes, self.sides.items(), strict=True):
            self._bars(each, title, side)
        return self

    def _headline(self) -> str:
        what = "a new row" if self.row is None else f"row {self._name(self.row)}"
        if self.label is not None:
            what += f" ({_text(self.label)})"
        if len(self.own_class) == 2:
            first, last = self.own_class.values()
            return f"Neighbours of {what}: its own class is picked with {first:.0%} → {last:.0%}"
        return f"Neighbours of {what}"

    def _name(self, row: int) -> str:
        return f"#{row}" if self.names is None else shortened(str(self.names[row]))

    def _bars(self, ax: Any, title: str, side: Side) -> None:
        places = np.arange(len(side.rows))
        rgb: Any = "0.6"
        labels = [self._name(row) for row in side.rows]
        if self.y is not None:
            rgb = self._colours.take(side.rows).rgb(ax)
            targets = map(_text, self.y[side.rows])
            labels = [f"{text}   {name}" for text, name in zip(targets, labels, strict=True)]
        ax.barh(places, side.values, color=rgb, height=0.72)
        ax.set_yticks(places, labels, fontsize="small")
        ax.set_ylim(len(places) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize="small")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlim(0.0, 1.22 * float(np.max(side.values)) or 1.0)
        ax.set_xlabel("distance / median" if side.p is None else "$p_{ij}$")
        share = "" if title not in self.own_class else f": own class {self.own_class[title]:.0%}"
        ax.set_title(f"{title}{share}", fontsize="medium")
        if self.images is not None:
            for at, row in enumerate(side.rows):
                _thumbnail(ax, self.images[row], (side.values[at], at))
        if self.image is not None:
            ax.set_yticks([-1, *places], ["the row itself", *labels])
            ax.set_ylim(len(places) - 0.4, -1.6)
            _thumbnail(ax, self.image, (0.0, -1))


def _text(label: Any) -> str:
    """A label, or a number with three digits."""
    if isinstance(label, float | np.floating):
        return f"{label:.3g}"
    return shortened(str(label))


def _thumbnail(ax: Any, image: Any, place: tuple[float, float]) -> None:
    """A small picture at the end of a bar."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    image = np.asarray(image, dtype=float)
    size = max(image.shape[:2])
    box = OffsetImage(image, zoom=_THUMB * 72.0 / size, cmap="gray", interpolation="nearest")
    ax.add_artist(
        AnnotationBbox(
            box, place, xybox=(_THUMB * 36 + 4, 0), boxcoords="offset points", frameon=False,
            box_alignment=(0.5, 0.5), pad=0.0, annotation_clip=False,
        )
    )  # fmt: skip


def _sides(
    learner: Any, places: dict[str, Any], X: Any, row: int | None, query: Any, k: int
) -> dict[str, Side]:
    """Both panels, whose points ``places`` computes: before learning, and after."""
    squared = {}
    for name, place in places.items():
        Z = np.asarray(place(X), dtype=np.float64)
        difference = Z - (Z[row] if query is None else place(query)[0])
        squared[name] = np.einsum("ij,ij->i", difference, difference)
    counted = np.ones(len(Z), dtype=bool)
    if row is not None:
        counted[row] = False
    near = {
        name: np.argsort(np.where(counted, d2, np.inf), kind="stable")[:k]
        for name, d2 in squared.items()
    }
    kernel = _kernel(learner)
    if kernel is None:
        apart = {name: np.sqrt(d2) for name, d2 in squared.items()}
        return {
            name: Side(rows, apart[name][rows] / (np.median(apart[name][counted]) or 1.0), None)
            for name, rows in near.items()
        }
    before, after = squared
    weight = _weights(learner, len(Z)) * counted
    p = {after: _softmax(-kernel.energy(squared[after], Z.shape[1])[0], weight)}
    p[before] = _at_perplexity(squared[before], weight, entr(p[after]).sum())
    return {name: Side(rows, p[name][rows], p[name]) for name, rows in near.items()}


def _kernel(learner: Any) -> Any:
    """The kernel of a method's stochastic neighbours; None if it has none."""
    model = getattr(learner, "_model", None)
    if isinstance(model, KNCAModel):
        return Gaussian()
    return getattr(model, "kernel", None)


def _weights(learner: Any, n: int) -> Array:
    """The weights of the training rows."""
    model, rows = getattr(learner, "_model", None), getattr(learner, "_rows", None)
    weight = getattr(model, "sample_weight", None)
    if weight is None or rows is None or rows.total != n:
        return np.ones(n)
    if rows.numbers is None:
        return np.asarray(weight, dtype=np.float64)
    whole = np.zeros(n)
    whole[rows.numbers] = weight
    return whole


def _softmax(logits: Array, weight: Array) -> Array:
    with np.errstate(divide="ignore"):
        return softmax(logits + np.log(weight))


def _at_perplexity(squared: Array, weight: Array, entropy: float) -> Array:
    """Gaussian probabilities of the width at which they have this entropy, or nearly so."""
    unit = float(np.median(squared[weight > 0])) or 1.0
    low, high = -20.0, 20.0  # of the logarithm of the precision
    for _ in range(60):
        middle = 0.5 * (low + high)
        p = _softmax(-np.exp(middle) * squared / unit, weight)
        low, high = (middle, high) if entr(p).sum() > entropy else (low, middle)
    return p
