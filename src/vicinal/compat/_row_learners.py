"""metric-learn's learners from rows, under its keywords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from vicinal._validation import check_discrete, check_number, check_rows, check_seed, warn
from vicinal.compat._adapter import (
    Init,
    RowAdapter,
    without_class,
)
from vicinal.core.types import Array, Seed
from vicinal.estimators import covariance, lfda, lmnn, mlkr, nca
from vicinal.estimators._pairs import Preprocessor

_TOL = 1e-5  # of vicinal, where metric-learn leaves the tolerance to SciPy


def _shape(X: Any) -> tuple[int, int]:
    """Numbers of rows and columns; a fit refuses what has none."""
    shape = X.shape if hasattr(X, "shape") else np.shape(np.asarray(X, dtype=object))
    return shape if len(shape) == 2 else (shape[0] if shape else 1, 1)


def _common(asked: dict[str, Any], X: Any, n_classes: int = 0) -> dict[str, Any]:
    """Keywords of vicinal's NCA, LMNN and MLKR alike: raw columns, no penalty, rank and start.

    Without ``n_components`` the rank is that of the start if this is an array, else that of the
    columns.
    """
    (n, D), rank, init = _shape(X), asked["n_components"], asked["init"]
    if isinstance(init, str):
        rank = D if rank is None else rank
        if init == "auto":  # what it means in metric-learn
            init = "pca" if rank < min(D, n) else "identity"
            init = "lda" if rank <= min(D, n_classes - 1) else init
    return {
        "n_components": rank,
        "init": init,
        "alpha": 0.0,
        "scaling": None,
        "max_iter": asked["max_iter"],
        "verbose": int(asked["verbose"]),
        "random_state": asked["random_state"],
    }


def _n_classes(y: ArrayLike | None) -> int:
    return 0 if y is None else len(np.unique(np.asarray(y)))


@dataclass(eq=False, repr=False)
class NCA(RowAdapter):
    """metric-learn's NCA: expected accuracy of stochastic neighbours, no penalty, raw columns.

    See :class:`vicinal.NCA`, which is fitted.  ``init="auto"`` is "lda", "pca" or "identity" as in
    metric-learn; the scale of a start other than an array is chosen.
    """

    init: Init = "auto"
    n_components: int | None = None
    max_iter: int = 100
    tol: float | None = None
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn the metric from rows (or indices into the preprocessor) and class labels."""
        asked, X = self._settings(), self._rows(X)
        model = nca.NCA(
            objective="accuracy",
            tol=_TOL if asked["tol"] is None else asked["tol"],
            **_common(asked, X, _n_classes(y)),
        )
        return self._keep(model.fit(X, y))


@dataclass(eq=False, repr=False)
class LMNN(RowAdapter):
    """metric-learn's LMNN, from the raw columns, without a penalty.

    See :class:`vicinal.LMNN`, which is fitted with ``mu = (1 - regularization) / regularization``,
    because metric-learn weighs the pull by ``regularization``.  ``convergence_tol`` is a change of
    the loss of all rows there, and so is divided by their number.
    """

    _no_effect: ClassVar = {
        "learn_rate": (1e-7, "L-BFGS chooses the length of its steps"),
        "min_iter": (50, "the fit ends when it has converged"),
    }

    init: Init = "auto"
    n_neighbors: int = 3
    min_iter: int = 50
    max_iter: int = 1000
    learn_rate: float = 1e-7
    regularization: float = 0.5
    convergence_tol: float = 0.001
    verbose: bool = False
    preprocessor: Preprocessor = None
    n_components: int | None = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn the metric from rows (or indices into the preprocessor) and class labels."""
        asked, X = self._settings(), self._rows(X)
        check_number(self, "regularization", 0.0, 1.0, open_ends=True)
        check_number(self, "convergence_tol", 0.0)
        model = lmnn.LMNN(
            k=asked["n_neighbors"],
            n_neighbors=asked["n_neighbors"],
            mu=(1.0 - asked["regularization"]) / asked["regularization"],
            tol=asked["convergence_tol"] / max(1, _shape(X)[0]),
            **_common(asked, X, _n_classes(y)),
        )
        return self._keep(model.fit(X, y))


@dataclass(eq=False, repr=False)
class MLKR(RowAdapter):
    """metric-learn's MLKR, from the raw columns, without a penalty.

    See :class:`vicinal.MLKR`, which is fitted, and which predicts.  ``init="auto"`` is "pca" or
    "identity" as in metric-learn.
    """

    n_components: int | None = None
    init: Init = "auto"
    tol: float | None = None
    max_iter: int = 1000
    verbose: bool = False
    preprocessor: Preprocessor = None
    random_state: Seed = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn the metric from rows (or indices into the preprocessor) and numbers."""
        asked, X = self._settings(), self._rows(X)
        tol = _TOL if asked["tol"] is None else asked["tol"]
        return self._keep(mlkr.MLKR(tol=tol, **_common(asked, X)).fit(X, y))


@dataclass(eq=False, repr=False)
class LFDA(RowAdapter):
    """metric-learn's LFDA, from the raw columns.

    See :class:`vicinal.LFDA`, which is fitted.  ``k=None`` is 7.  metric-learn's has two slips
    (docs/migration.md), which are not repeated here: its map is another one.
    """

    n_components: int | None = None
    k: int | None = None
    embedding_type: str = "weighted"
    preprocessor: Preprocessor = None

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Compute the map from rows (or indices into the preprocessor) and class labels."""
        asked = self._settings()
        model = lfda.LFDA(
            asked["n_components"],
            k=7 if asked["k"] is None else asked["k"],
            embedding=asked["embedding_type"],
            scaling=None,
        )
        return self._keep(model.fit(self._rows(X), y))


@dataclass(eq=False, repr=False)
class RCA(RowAdapter):
    """metric-learn's RCA, whose ``fit`` takes chunklets.

    See :class:`vicinal.RCA`, which is fitted to the rows in chunklets.  A singular scatter is
    shrunk, with a warning, where metric-learn's map has NaN.
    """

    n_components: int | None = None
    preprocessor: Preprocessor = None

    def fit(self, X: Any, chunks: ArrayLike) -> Self:
        """Compute the map from rows and the chunklet of each; -1 for rows in none."""
        asked = self._settings()
        return self._fit_chunks(self._rows(X), chunks, asked["n_components"])

    def _fit_chunks(self, X: Any, chunks: ArrayLike, n_components: int | None) -> Self:
        if chunks is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        chunks = np.asarray(chunks)
        if chunks.dtype.kind == "f" and (chunks == np.rint(chunks)).all():  # as metric-learn does
            chunks = chunks.astype(int)
        # metric-learn computes both scatters from these rows alone
        inside = np.flatnonzero(chunks != -1) if chunks.ndim == 1 else np.arange(len(chunks))
        if 0 < len(inside) < len(chunks) == np.shape(X)[0]:
            X, chunks = X[inside] if hasattr(X, "shape") else np.asarray(X)[inside], chunks[inside]
        return self._keep(covariance.RCA(n_components, scaling=None).fit(X, chunks=chunks))


class RCA_Supervised(RCA):
    """metric-learn's RCA from class labels: chunklets are drawn from the classes.

    If there are fewer than ``n_chunks`` disjoint chunklets, all of them are used, with a warning;
    metric-learn refuses such data.  Rows with a negative label have no known class, and are in no
    chunklet.  :class:`vicinal.RCA` takes labels without drawing chunklets.
    """

    def __init__(
        self,
        n_components: int | None = None,
        n_chunks: int = 100,
        chunk_size: int = 2,
        preprocessor: Preprocessor = None,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.n_chunks = n_chunks
        self.chunk_size = chunk_size
        self.preprocessor = preprocessor
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Draw chunklets from the class labels, and compute the map."""
        asked = self._settings()
        check_number(self, "chunk_size", 2, integer=True)
        check_number(self, "n_chunks", 1, integer=True)
        X, labels = check_rows(self, self._rows(X), y, ensure_min_samples=2)
        check_discrete(labels)
        known = np.flatnonzero(~without_class(labels))
        chunks = np.full(len(labels), -1)
        chunks[known] = _chunks(
            labels[known], asked["n_chunks"], asked["chunk_size"], check_seed(self)
        )
        return self._fit_chunks(X, chunks, asked["n_components"])


def _chunks(y: Array, n_chunks: int, size: int, rng: np.random.RandomState) -> Array:
    """Disjoint chunklets of rows of one class, drawn at random; -1 for rows in none."""
    order = rng.permutation(len(y))
    by_class = [order[y[order] == label] for label in np.unique(y)]
    every = [rows[i : i + size] for rows in by_class for i in range(0, len(rows) - size + 1, size)]
    if not every:
        raise ValueError(f"RCA_Supervised needs a class of at least {size} rows. Got none instead.")
    if len(every) < n_chunks:
        warn(
            f"The 'n_chunks' parameter of RCA_Supervised is {n_chunks}, but there are {len(every)} "
            f"disjoint chunklets of {size} rows: all of them are used."
        )
    chunks = np.full(len(y), -1)
    for c, i in enumerate(rng.permutation(len(every))[:n_chunks]):
        chunks[every[i]] = c
    return chunks


@dataclass(eq=False, repr=False)
class Covariance(RowAdapter):
    """metric-learn's Covariance; see :class:`vicinal.Covariance`, which is fitted."""

    preprocessor: Preprocessor = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the covariance of the rows (or indices into the preprocessor)."""
        self._settings()
        return self._keep(covariance.Covariance().fit(self._rows(X)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
