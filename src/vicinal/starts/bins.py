"""Starts for histograms: each gives L of shape (r, D), every column on the probability simplex.

A column distributes the mass of a bin over the r new bins.  For r < D the report of Olsen &
Petersen names no start; the starts here were compared on the webcam histograms, where groups of
bins were better than the others by up to two points after learning
(docs/results/olsen-petersen-starts.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import softmax

from vicinal._validation import check_number
from vicinal.core.types import Array
from vicinal.starts.spectral import ScaledRows
from vicinal.starts.starts import start_of

_SEEDINGS = 4  # k-means runs for the groups; the best is kept
_SWEEPS = 50
_ADDED = 1.0  # times the mean mass of a bin, added to all classes: smooths rare bins


@runtime_checkable
class BinStart(Protocol):
    """A first map of labelled histograms: ``L = start(X, codes, n_components, rng)``."""

    def __call__(
        self, X: ScaledRows, codes: Array, n_components: int, rng: np.random.RandomState
    ) -> Array: ...


@dataclass(frozen=True)
class BinIdentity:
    """``softmax(10 I + 0.01)``, the start of [OlsenPetersen] section 3.

    For r < D the first r bins stay as they are, and all others are spread evenly.
    """

    def __call__(
        self, X: ScaledRows, codes: Array, n_components: int, rng: np.random.RandomState
    ) -> Array:
        return softmax(10.0 * np.eye(n_components, X.shape[1]) + 0.01, axis=0)


@dataclass(frozen=True)
class RandomBins:
    """Columns drawn uniformly from the simplex."""

    n_init: int = 1

    def __post_init__(self) -> None:
        check_number(self, "n_init", 1, integer=True)

    def __call__(
        self, X: ScaledRows, codes: Array, n_components: int, rng: np.random.RandomState
    ) -> Array:
        return rng.dirichlet(np.ones(n_components), X.shape[1]).T


@dataclass(frozen=True)
class BinGroups:
    """Groups bins with similar class shares ([Dhillon2003], divisive clustering).

    A bin is described by the share of each class in its mass, with equal weight for all classes.
    Groups are found by k-means with the Kullback-Leibler divergence, which keeps as much of the
    information about the class as possible; a bin is then distributed over the groups in proportion
    to ``exp(-sharpness · divergence)``.

    Parameters
    ----------
    sharpness : float, default=5.0
        At 0 all bins are spread evenly; large values give hard groups.
    """

    sharpness: float = 5.0

    def __post_init__(self) -> None:
        check_number(self, "sharpness", 0.0)

    def __call__(
        self, X: ScaledRows, codes: Array, n_components: int, rng: np.random.RandomState
    ) -> Array:
        share, mass = _class_shares(X, codes)
        divergence = _grouped(share, mass, n_components, rng)
        return softmax(-float(self.sharpness) * divergence, axis=1).T


@dataclass(frozen=True)
class AutoBins:
    """`BinIdentity` for r = D, otherwise `BinGroups`."""

    def __call__(
        self, X: ScaledRows, codes: Array, n_components: int, rng: np.random.RandomState
    ) -> Array:
        start: BinStart = BinIdentity() if n_components == X.shape[1] else BinGroups()
        return start(X, codes, n_components, rng)


class GivenBins:
    """A user's own map."""

    def __init__(self, L: Any, owner: str) -> None:
        self.owner = owner
        try:
            self.array = np.array(L, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The 'init' parameter of {owner} must be an array of numbers. Got {L!r} instead."
            ) from error

    def __call__(
        self, X: ScaledRows, codes: Array, n_components: int, rng: np.random.RandomState
    ) -> Array:
        must = f"The 'init' parameter of {self.owner} must"
        shape = (n_components, X.shape[1])
        if self.array.shape != shape:
            raise ValueError(f"{must} have shape {shape}. Got {self.array.shape} instead.")
        off = np.abs(self.array.sum(axis=0) - 1.0)
        if not (np.isfinite(self.array).all() and (self.array >= 0).all() and off.max() <= 1e-6):
            raise ValueError(
                f"{must} have columns that sum to one and no negative entry. Got an entry of "
                f"{self.array.min():g} and a column that sums to "
                f"{self.array.sum(axis=0)[off.argmax()]:g}."
            )
        return self.array


def _class_shares(X: ScaledRows, codes: Array) -> tuple[Array, Array]:
    """The share of each class in each bin, (D, C), and the mass of the bins."""
    n_classes = int(codes.max()) + 1
    size = np.maximum(np.bincount(codes, minlength=n_classes), 1)
    mean = np.zeros((n_classes, X.shape[1]))
    for rows, part in X.blocks():
        np.add.at(mean, codes[rows], part)
    mean /= size[:, None]
    mass = mean.sum(axis=0)
    share = mean.T + _ADDED * mass.mean() / n_classes
    return share / share.sum(axis=1, keepdims=True), mass


def _grouped(share: Array, mass: Array, r: int, rng: np.random.RandomState) -> Array:
    """Divergence of each bin from the centres of r groups, (D, r): the best of several seedings."""
    mass = mass + 1e-9 * mass.max()  # bins without mass take part too
    own = np.sum(share * np.log(share), axis=1)
    best, least = None, np.inf
    for _ in range(_SEEDINGS):
        centres = _seeds(share, own, mass, r, rng)
        for _ in range(_SWEEPS):
            divergence = np.maximum(own[:, None] - share @ np.log(centres).T, 0.0)
            group = divergence.argmin(axis=1)
            moved = _centres(share, mass, group, divergence, r)
            if np.array_equal(moved, centres):
                break
            centres = moved
        loss = float(np.sum(mass * divergence.min(axis=1)))
        if loss < least:
            best, least = divergence, loss
    assert best is not None
    return best


def _seeds(share: Array, own: Array, mass: Array, r: int, rng: np.random.RandomState) -> Array:
    """Centres far from each other: k-means++ with the divergence instead of squared distances."""
    far = np.ones(len(share))
    chosen: list[int] = []
    for _ in range(r):
        odds = mass * far
        odds = odds if odds.sum() > 0 else mass
        chosen.append(int(rng.choice(len(share), p=odds / odds.sum())))
        divergence = np.maximum(own - share @ np.log(share[chosen[-1]]), 0.0)
        far = divergence if len(chosen) == 1 else np.minimum(far, divergence)
    return share[chosen]


def _centres(share: Array, mass: Array, group: Array, divergence: Array, r: int) -> Array:
    """Mean of each group; an empty group gets the bin with the largest weighted divergence."""
    total = np.bincount(group, mass, minlength=r)
    sums = np.zeros((r, share.shape[1]))
    np.add.at(sums, group, mass[:, None] * share)
    worst = np.argsort(-mass * divergence.min(axis=1), kind="stable")
    empty = np.flatnonzero(total == 0)
    sums[empty], total[empty] = share[worst[: len(empty)]], 1.0
    return sums / total[:, None]


_BIN_NAMES: dict[str, Any] = {
    "auto": AutoBins,
    "groups": BinGroups,
    "identity": BinIdentity,
    "random": RandomBins,
}


def resolve_bins(init: Any, owner: str = "Chi2LMNN") -> BinStart:
    """Turn the value of an ``init`` parameter into a start for histograms.

    Parameters
    ----------
    init : str, BinStart or array-like of shape (r, D)
        A name, a start with its own parameters, or the map itself.
    owner : str, default="Chi2LMNN"
        The estimator to name in an error.

    Returns
    -------
    BinStart
    """
    return start_of(init, owner, _BIN_NAMES, GivenBins, "BinGroups()")
