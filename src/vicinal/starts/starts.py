"""The starts: each gives ``A = start(X, codes, n_components, rng)`` of shape (d, D), float64.

Every start gives zero weight to columns that are identically zero, and adds rows of zeros if more
components are requested than the data have directions.  The overall scale is chosen afterwards:
see ``scale_start``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from vicinal.core.types import Array
from vicinal.starts.spectral import (
    ScaledRows,
    active_columns,
    discriminant_rows,
    make_space,
    principal_rows,
)

RandomState = np.random.RandomState


@runtime_checkable
class Start(Protocol):
    """A first map for labelled rows.

    Parameters
    ----------
    X : ScaledRows
        Centred and scaled data of shape (n, D).
    codes : ndarray of shape (n,) or None
        Class codes 0..C-1; None if the rows have no classes.  A start that needs classes has a
        class attribute ``needs_classes = True`` (default: False), and refuses None.
    n_components : int
        Number of rows d of the map.
    rng : RandomState
        Source of randomness.
    sample_weight : ndarray of shape (n,), optional
        Importance of each row.

    Returns
    -------
    A : ndarray of shape (d, D)
    """

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array: ...


def _padded(rows: Array, n_components: int) -> Array:
    A = np.zeros((n_components, rows.shape[1]))
    A[: len(rows)] = rows[:n_components]
    return A


def checked_shrinkage(value: Any, owner: str) -> float | Literal["oas"] | None:
    if value is None:
        return None
    if isinstance(value, str) and value == "oas":
        return "oas"
    if isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) <= 1:
        return float(value)
    raise ValueError(
        f"The 'shrinkage' parameter of {owner} must be None, 'oas' or a float in (0, 1]. "
        f"Got {value!r} instead."
    )


def _check_has_classes(codes: Array | None, owner: str) -> None:
    if codes is None:
        raise ValueError(f"The start {owner} needs the class codes of the rows. Got None instead.")


@dataclass(frozen=True)
class Identity:
    """``A = I``; for d < D the first d columns that are not identically zero."""

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        # A component on a column of zeros would never have a gradient.
        columns = np.flatnonzero(active_columns(X, rng))
        A = np.zeros((n_components, X.shape[1]))
        if n_components == X.shape[1]:
            A[columns, columns] = 1.0
        else:
            columns = columns[:n_components]
            A[np.arange(len(columns)), columns] = 1.0
        return A


@dataclass(frozen=True)
class Random:
    """Independent Gaussian entries of variance 1/D.

    Parameters
    ----------
    n_init : int, default=1
        Number of random starts that the estimator tries; it keeps the best result.
    """

    n_init: int = 1

    def __post_init__(self) -> None:
        n_init = self.n_init
        if not isinstance(n_init, Integral) or isinstance(n_init, bool) or n_init < 1:
            raise ValueError(
                "The 'n_init' parameter of Random must be an int in [1, inf). "
                f"Got {n_init!r} instead."
            )

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        A = rng.normal(size=(n_components, X.shape[1])) / np.sqrt(X.shape[1])
        A[:, ~active_columns(X, rng)] = 0.0
        return A


@dataclass(frozen=True)
class PCA:
    """Top eigenvectors of the total scatter S, [Oneata2011] eq. (3.15).

    Parameters
    ----------
    whiten : bool, default=True
        Scale each to unit variance, ``lambda_k^(-1/2) v_k``, as [Oneata2011] does.
    shrinkage : float in (0, 1], "oas" or None, default=None
        Weight of the identity in S.  "oas" computes it as in [Chen2010]; None does so only if
        fewer than ``n_components`` directions vary.
    """

    whiten: bool = True
    shrinkage: float | str | None = None

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        shrinkage = checked_shrinkage(self.shrinkage, "PCA")
        space = make_space(X, None, n_components, rng, sample_weight)
        rows = principal_rows(
            space, n_components, whiten=self.whiten, symmetric=False, shrinkage=shrinkage
        )
        return _padded(rows, n_components)


@dataclass(frozen=True)
class Whiten:
    """``S^(-1/2)``: the symmetric root when d = D, its top d eigenvectors otherwise.

    Parameters
    ----------
    shrinkage : float in (0, 1], "oas" or None, default=None
        As in `PCA`.
    """

    shrinkage: float | str | None = None

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        shrinkage = checked_shrinkage(self.shrinkage, "Whiten")
        space = make_space(X, None, n_components, rng, sample_weight)
        rows = principal_rows(
            space,
            n_components,
            whiten=True,
            symmetric=n_components == X.shape[1],
            shrinkage=shrinkage,
        )
        return _padded(rows, n_components)


@dataclass(frozen=True)
class LDA:
    """Generalised eigenvectors V of (S_B, S_W) with ``V' S_W V = I``.

    [Oneata2011] eqs. (3.16) and (3.17), but with ``S_B`` weighted by the class sizes (see
    `Scatter.deviations`), as in scikit-learn's LinearDiscriminantAnalysis.  Past C - 1 rows the
    best directions of (S, S_W) follow, orthogonal to the first in S_W.

    Parameters
    ----------
    shrinkage : float in (0, 1], "oas" or None, default=None
        Weight of the identity in S_W.  "oas" computes it as in [Chen2010]; None does so only if
        S_W is singular.
    """

    shrinkage: float | str | None = None
    needs_classes: ClassVar[bool] = True

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        shrinkage = checked_shrinkage(self.shrinkage, "LDA")
        _check_has_classes(codes, "LDA")
        space = make_space(X, codes, n_components, rng, sample_weight)
        rows, _ = discriminant_rows(space, n_components, between=True, shrinkage=shrinkage)
        return _padded(rows, n_components)


@dataclass(frozen=True)
class RCA:
    """Generalised eigenvectors V of (S, S_W) with ``V' S_W V = I``, the top d.

    For d = D this is the ``S_W^(-1/2)`` of [Oneata2011] up to a rotation; the top d eigenvectors of
    that matrix would be the directions of least within-class variance.  Because
    ``S = S_W + S_B``, this equals `LDA` as long as S_W needs no shrinkage.

    Parameters
    ----------
    shrinkage : float in (0, 1], "oas" or None, default=None
        As in `LDA`.
    """

    shrinkage: float | str | None = None
    needs_classes: ClassVar[bool] = True

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        # A start need not be perfect: that S_W was singular is nothing to tell the user of a fit.
        return self.rows(X, codes, n_components, rng, sample_weight)[0]

    def rows(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> tuple[Array, str]:
        """The map, and what was done about a singular S_W if ``shrinkage`` is None, or ""."""
        shrinkage = checked_shrinkage(self.shrinkage, "RCA")
        _check_has_classes(codes, "RCA")
        space = make_space(X, codes, n_components, rng, sample_weight)
        rows, complaint = discriminant_rows(space, n_components, between=False, shrinkage=shrinkage)
        return _padded(rows, n_components), complaint


@dataclass(frozen=True)
class Auto:
    """`RCA` with "oas" shrinkage; plain `PCA` if no class has two rows, or there is one class only.

    With the shrinkage of [Chen2010], S_W is useful however few the rows: just above n = D it is
    barely regular, and without shrinkage it would overrate the directions that happen to vary
    least, with no warning.  Classes of one or two rows do no harm, since all classes share one S_W.
    """

    def choose(self, X: ScaledRows, codes: Array | None, n_components: int) -> RCA | PCA:
        """The start for these data."""
        n_classes = 1 if codes is None else len(np.unique(codes))
        return RCA("oas") if 1 < n_classes < X.shape[0] else PCA(whiten=False)

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        part = self.choose(X, codes, n_components)
        return part(X, codes, n_components, rng, sample_weight)


def same_parameters(one: Any, other: Any) -> bool:
    """Whether two starts are of one type and have equal parameters, arrays among them."""
    if type(one) is not type(other):
        return False
    # equal arrays as well as other equal values; of starts, array_equal makes one object each
    return all(np.array_equal(value, vars(other)[name]) for name, value in vars(one).items())


@dataclass(frozen=True, eq=False)  # arrays have no single boolean value
class Given:
    """A user's own array.

    Parameters
    ----------
    array : array-like of shape (d, D)
        The map.
    owner : str, default="NCA"
        The estimator to name in an error.
    """

    array: Any
    owner: str = "NCA"

    def __eq__(self, other: object) -> bool:
        return same_parameters(self, other)

    def __hash__(self) -> int:
        return hash((np.shape(self.array), self.owner))

    def __call__(
        self,
        X: ScaledRows,
        codes: Array | None,
        n_components: int,
        rng: RandomState,
        sample_weight: Array | None = None,
    ) -> Array:
        shape = (n_components, X.shape[1])
        must = f"The 'init' parameter of {self.owner} must be an array of"
        try:
            A = np.array(self.array, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{must} numbers. Got {self.array!r} instead.") from error
        if A.shape != shape:
            raise ValueError(f"{must} shape {shape}. Got {A.shape} instead.")
        if not np.isfinite(A).all():
            worst = A[~np.isfinite(A)][0]
            raise ValueError(f"{must} finite numbers. Got {worst} instead.")
        return A


def _annealing() -> Any:
    from vicinal.starts.annealing import Annealing

    return Annealing()


_NAMES: dict[str, Callable[[], Any]] = {
    "auto": Auto,
    "identity": Identity,
    "lda": LDA,
    "pca": PCA,
    "random": Random,
    "rca": RCA,
    "whiten": Whiten,
    "annealing": _annealing,
}


def resolve(init: Any, owner: str = "NCA") -> Any:
    """Turn the value of an ``init`` parameter into a start.

    Parameters
    ----------
    init : str, Start or array-like of shape (d, D)
        A name, a start with its own parameters, or the map itself.
    owner : str, default="NCA"
        The estimator to name in an error.

    Returns
    -------
    Start
        Or an object with a method ``around(first)``, which wraps a `FirstMap`.
    """
    if hasattr(init, "around") and not isinstance(init, type):
        return init
    return start_of(init, owner, _NAMES, Given, "RCA()")


def start_of(
    init: Any,
    owner: str,
    names: dict[str, Callable[[], Any]],
    given: Callable[..., Any],
    example: str,
) -> Any:
    """The start for a name, a start or an array."""
    if isinstance(init, str) and init in names:
        return names[init]()
    if isinstance(init, (list, tuple)) or hasattr(init, "__array__"):
        return given(init, owner)
    if callable(init) and not isinstance(init, type):
        return init
    known = ", ".join(repr(name) for name in names)
    raise ValueError(
        f"The 'init' parameter of {owner} must be one of {known}, a start such as {example}, or an "
        f"array of shape (n_components, n_features). Got {init!r} instead."
    )
