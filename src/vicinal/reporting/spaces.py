"""The points of a page before and after learning, and searches for neighbours among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD

from vicinal import _search
from vicinal._threads import single_threaded_blas
from vicinal.core.types import Array
from vicinal.densities import Gaussian
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.estimators._metric import HistogramMixin
from vicinal.metrics import Chi2Index
from vicinal.models.posterior import StochasticPicks
from vicinal.models.regression import RegressionModel
from vicinal.plotting._fitted import scales_columns
from vicinal.reporting.contents import Neighbours
from vicinal.reporting.subject import Fitted, Part, embedded
from vicinal.starts.first import base_scale, scale_start

_PRODUCTS = 4e11  # multiplications of a search, beyond which it looks at principal components
_LEADING = 50  # of them
_SAMPLE = 500  # rows by which the scale of the old metric is chosen


@dataclass(frozen=True)
class Scaling:
    """Centres and scales columns as the training rows have them."""

    shift: Array
    scale: Array

    @classmethod
    def of(cls, X: Any) -> Scaling:
        """Of the training rows; constant columns get the scale zero."""
        if sp.issparse(X):
            mean = np.asarray(X.mean(axis=0)).ravel()
            square = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            deviation = np.sqrt(np.maximum(square - mean**2, 0.0))
            mean = np.zeros_like(mean)  # a shift would fill the table
        else:
            mean, deviation = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        varies = deviation > 1e-10 * np.abs(mean)
        return cls(mean, np.divide(1.0, deviation, out=np.zeros_like(mean), where=varies))

    def __call__(self, X: Any, standard: bool) -> Any:
        """Centred rows, scaled if ``standard``, as float32: they are looked at, not learnt from."""
        scale = self.scale if standard else np.ones_like(self.scale)
        if sp.issparse(X):
            return sp.csr_matrix(X.multiply(scale)).astype(np.float32)
        return ((X - self.shift) * scale).astype(np.float32)


@dataclass(frozen=True)
class Space:
    """Points with a distance: Euclidean, or χ² of histograms."""

    points: Any
    chi2: bool = False

    def nearest(self, queries: Array, references: Array, k: int) -> tuple[Array, Array]:
        """Numbers and squared distances of the k nearest reference points of each query.

        No point is its own neighbour.  Places that stay empty hold -1 and infinity.
        """
        asked, among = self.points[queries], self.points[references]
        k_found = min(k + 1, len(references))
        if self.chi2:
            squared, near = Chi2Index(among).kneighbors(asked, k_found)
        else:
            near, squared = _search.finder("exact", among)(asked, k_found)
        found = np.where(near >= 0, references[near], -1)
        squared = np.where((found == queries[:, None]) | (found < 0), np.inf, squared)
        missing = max(0, k - k_found)
        found = np.pad(found, ((0, 0), (0, missing)), constant_values=-1)
        squared = np.pad(squared, ((0, 0), (0, missing)), constant_values=np.inf)
        order = np.argsort(squared, axis=1, kind="stable")[:, :k]
        found, squared = (np.take_along_axis(each, order, axis=1) for each in (found, squared))
        return np.where(np.isfinite(squared), found, -1), squared

    def quick(self, n_queries: int, n_references: int) -> tuple[Space, str]:
        """A space that can be searched in seconds, and what was left out of it, if anything."""
        D, sparse = self.points.shape[1], sp.issparse(self.points)
        if sparse and D <= _LEADING:
            return Space(self.points.toarray(), self.chi2), ""
        few = n_queries * n_references * D <= _PRODUCTS or D <= _LEADING
        if self.chi2 or (few and not sparse):
            return self, ""
        points, share = principal(self.points, _LEADING)
        note = (
            f"Old distances are those of the first {_LEADING} principal components "
            f"({100 * share:.0f} % of the variance)."
        )
        return Space(points), note


def principal(X: Any, d: int) -> tuple[Array, float]:
    """The first d principal components of points, and their share of the variance."""
    d_most = min(d, *X.shape)
    made: Any
    if sp.issparse(X):
        made = TruncatedSVD(min(d_most, X.shape[1] - 1), random_state=0)
    else:
        made = PCA(d_most, random_state=0)
    Z = made.fit_transform(X)
    share = float(np.sum(made.explained_variance_ratio_))
    Z = np.pad(Z, ((0, 0), (0, max(0, d - Z.shape[1]))))
    return Z.astype(np.float32), share if np.isfinite(share) else 1.0


@dataclass(frozen=True)
class Points:
    """All points of a page: the training rows first, then those that were held out."""

    fitted: Fitted
    kind: str
    parts: list[Part]
    prepared: Any  # the rows as the learner sees them
    train: Array
    test: Array
    scaling: Scaling
    standard: bool  # whether the old metric uses it
    before: Space
    after: Space
    classes: Array
    y: Array | None  # class codes, or numbers as floats
    images: bool
    counts: tuple[int, int]  # rows that were learnt from and held out, shown or not

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.train) + len(self.test)

    @property
    def codes(self) -> Array | None:
        """Class codes if there are classes."""
        return self.y if self.kind == "classes" else None

    @property
    def held_out(self) -> Array:
        """True for each point that was not learnt from."""
        return np.arange(self.n) >= len(self.train)


def gather(
    fitted: Fitted, kind: str, train: Part, test: Part, images: bool, counts: tuple[int, int]
) -> Points:
    """Prepare and embed the rows of a page, of which there may be more: ``counts``.

    The old metric measures columns in standard deviations where the learner does so.  The columns
    of images have one unit, and are taken as they are.
    """
    parts = [part for part in (train, test) if len(part)]
    prepared = _stacked([fitted.prepared(part.X) for part in parts])
    n, learner = len(train), fitted.learner
    chi2 = isinstance(learner, HistogramMixin)
    scaling = Scaling.of(prepared[:n])
    standard = not images and scales_columns(learner)
    if chi2:
        old = prepared.toarray() if sp.issparse(prepared) else prepared
        old = old / np.maximum(old.sum(axis=1, keepdims=True), 1e-300)
    else:
        old = scaling(prepared, standard)
    Z = getattr(learner, "embedding_", None)  # of the training rows
    if Z is None or len(Z) != n:
        Z = embedded(learner, prepared)
    elif len(test):
        Z = np.vstack([Z, embedded(learner, prepared[n:])])
    classes, y = np.empty(0), None
    if kind != "none":
        y = np.concatenate([part.y for part in parts if part.y is not None])
        if kind == "classes":
            classes, y = np.unique(y, return_inverse=True)
        else:
            y = y.astype(np.float64)
    return Points(
        fitted, kind, parts, prepared, np.arange(n), np.arange(n, n + len(test)), scaling, standard,
        Space(old, chi2), Space(np.asarray(Z), chi2), classes, y, images, counts,
    )  # fmt: skip


def _stacked(tables: list[Any]) -> Any:
    if sp.issparse(tables[0]):
        return sp.vstack(tables).tocsr()
    return np.asarray(tables[0]) if len(tables) == 1 else np.vstack(tables)


def find_neighbours(points: Points, k: int) -> Neighbours:
    """The k nearest training points of all points, before and after learning, with their p_ij."""
    before, after, train, y = points.before, points.after, points.train, points.y
    everyone = np.arange(points.n)
    quick, note = before.quick(points.n, len(train))
    old, old_d2 = quick.nearest(everyone, train, k)
    new, new_d2 = after.nearest(everyone, train, k)
    none = np.full(new_d2.shape, np.nan, np.float32)
    kernel = _kernel_of(points.fitted.learner)
    if kernel is None or y is None or after.chi2:
        return Neighbours(old, new, none, none, note)
    after_p = pick_probabilities(after.points, train, new_d2, kernel)
    scale = _best_scale(quick.points[train], y[train])
    before_p = pick_probabilities(quick.points * np.float32(scale), train, old_d2 * scale**2)
    told = (
        "The bars show how much each training row counts for this row, nearer ones more; all "
        "training rows together have 100 %. For the old metric, distances are multiplied by the "
        "number that suits the labels best."
    )
    return Neighbours(old, new, before_p, after_p, f"{told} {note}".strip())


def pick_probabilities(Z: Array, train: Array, d2: Array, kernel: Any = None) -> Array:
    r"""The p_ij of the nearest training points, given their squared distances ``d2``.

    .. math:: p_{ij} = \kappa(d_{ij}) / \sum_{k \ne i} \kappa(d_{ik})

    where the sum is over all training points.
    """
    kernel = Gaussian() if kernel is None else kernel
    n, d = Z.shape
    Z = np.ascontiguousarray(Z - Z[train].mean(axis=0))
    engine = choose.class_sums(
        Data(Z, np.zeros(n, np.int64), np.ones(n), np.arange(n), train), kernel
    )
    with single_threaded_blas():
        sums = engine.sums()
    log_total = np.empty(n)
    # kept apart until the end: far from all training points both are huge
    log_total[sums.rows] = np.log(2.0) * (sums.log2[1] - sums.shift[1])
    P = np.exp(-kernel.energy(d2, d)[0] - log_total[:, None])
    return np.where(np.isfinite(d2), np.minimum(P, 1.0), np.nan).astype(np.float32)


def _kernel_of(learner: Any) -> Any:
    """The kernel by which rows pick a neighbour; None if the method has no such picks."""
    model = getattr(learner, "_model", None)
    if not isinstance(model, StochasticPicks | RegressionModel):
        return None
    return model.kernel if model.kernel.reaches_everywhere else None


def _best_scale(points: Any, y: Array) -> float:
    """The factor of the old distances at which picks are right most often, on a sample."""
    rng = np.random.RandomState(0)
    rows = rng.permutation(len(y))[:_SAMPLE]
    Z, y = np.asarray(points[rows], np.float64), y[rows]
    norms = np.sum(Z**2, axis=1)
    d2 = np.maximum(norms[:, None] + norms - 2.0 * Z @ Z.T, 0.0)
    np.fill_diagonal(d2, np.inf)

    def loss(scale: float) -> float:
        energy = scale**2 * d2
        weight = np.exp(energy.min(axis=1, keepdims=True) - energy)
        P = weight / weight.sum(axis=1, keepdims=True)
        if y.dtype.kind == "f":
            return float(np.mean((P @ y - y) ** 2))
        right = np.sum(P, axis=1, where=y[:, None] == y)
        return float(-np.mean(np.log(np.maximum(right, 1e-12))))

    return scale_start(1.0, loss, base_scale(Z, rng))
