"""Small synthetic sets, drawn from a seed, each with a structure that some methods miss."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._validation import check_number, check_seed, parameters_of
from vicinal.core.types import Array


def make_rings(
    n_samples: int = 500,
    *,
    n_classes: int = 5,
    noise: float = 1.0,
    radial_noise: float = 0.02,
    n_noise: int = 1,
    random_state: Any = None,
) -> tuple[Array, Array]:
    """Draw classes on concentric circles in a plane, plus a third feature of noise, or more.

    The classes have the same mean, so LDA finds nothing; the noise has more variance than either
    axis of the plane, so PCA keeps it.  A linear map that keeps near rows of a class together finds
    the plane.  This is the synthetic example in section 4 of [Goldberger2005], which does not state
    the radii and variances; those here are our own.

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows, divided as equally as possible among the classes.
    n_classes : int, default=5
        Number of circles.  The radius of class c is (c + 1) / n_classes.
    noise : float, default=1.0
        Standard deviation of the other features.  For either axis of the plane it is below 0.71.
    radial_noise : float, default=0.02
        Standard deviation of the distance from the circle.
    n_noise : int, default=1
        Number of features of noise.
    random_state : int, RandomState instance or None, default=None
        Seed, or source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 2 + n_noise)
        The plane, then the noise.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1, from the inside out.
    """
    given = parameters_of("make_rings", **locals())
    y, rng = _classes(given, n_classes)
    check_number(given, "noise", 0)
    check_number(given, "radial_noise", 0)
    check_number(given, "n_noise", 0, integer=True)
    angle = rng.uniform(0, 2 * np.pi, size=n_samples)
    radius = (y + 1) / n_classes + radial_noise * rng.standard_normal(n_samples)
    others = noise * rng.standard_normal((n_noise, n_samples))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), *others]), y


def make_stripes(
    n_samples: int = 500,
    *,
    n_classes: int = 2,
    n_repeats: int = 2,
    length: float = 200.0,
    noise: float = 0.1,
    random_state: Any = None,
) -> tuple[Array, Array]:
    """Draw classes in thin, alternating, parallel stripes, like the layers of a sandwich.

    The stripes are much longer than their spacing, so PCA finds the direction along them, and the
    nearest rows are often of another class.  From bottom to top the classes run 0, 1, …, C - 1, …,
    1, 0, symmetrically: all classes have the same mean, and LDA finds nothing.  Only the direction
    across the stripes matters.  Methods that need only some near rows of the same class, such as
    those of [Goldberger2005] and [Weinberger2009], can find it; methods that pull whole classes
    together cannot.

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows, divided as equally as possible among the classes.
    n_classes : int, default=2
        Number of classes, at least 2.
    n_repeats : int, default=2
        Number of times that the classes run up and down; there are
        2 (n_classes - 1) n_repeats + 1 stripes.
    length : float, default=200.0
        Length of a stripe.  The distance between two stripes is 1.
    noise : float, default=0.1
        Standard deviation across a stripe.
    random_state : int, RandomState instance or None, default=None
        Seed, or source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Position along the stripe, and across.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1.
    """
    given = parameters_of("make_stripes", **locals())
    y, rng = _classes(given, n_classes, at_least=2)
    check_number(given, "n_repeats", 1, integer=True)
    check_number(given, "length", 0)
    check_number(given, "noise", 0)
    period = 2 * (n_classes - 1)
    stripes = np.arange(period * n_repeats + 1)
    class_of = np.minimum(stripes % period, -stripes % period)  # up, and down again
    height = np.empty(n_samples)
    for c in range(n_classes):
        rows = y == c
        height[rows] = rng.choice(stripes[class_of == c], size=rows.sum())
    along = length * rng.uniform(-0.5, 0.5, size=n_samples)
    across = height - stripes.mean() + noise * rng.standard_normal(n_samples)
    return np.column_stack([along, across]), y


def make_histograms(
    n_samples: int = 500,
    *,
    n_classes: int = 3,
    n_bins: int = 12,
    concentration: float = 1.0,
    contrast: float = 2.0,
    random_state: Any = None,
) -> tuple[Array, Array]:
    """Draw histograms in which each class has more mass in its own group of bins.

    Rows are non-negative and sum to one, like shares of visual words or of topics.  For such rows
    [Kedem2012] learn a map under the chi-squared distance, which weights a difference by how full
    the bin is.

    Row of class c ~ Dirichlet(concentration · (1 + contrast · [bin is in group c])).

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows, divided as equally as possible among the classes.
    n_classes : int, default=3
        Number of classes, and of groups of bins.
    n_bins : int, default=12
        Number of bins, at least n_classes.  Bin b is in group b · n_classes // n_bins.
    concentration : float, default=1.0
        The larger it is, the less the rows of a class differ.
    contrast : float, default=2.0
        A class prefers its own group of bins by a factor of 1 + contrast; at 0 all classes are the
        same.
    random_state : int, RandomState instance or None, default=None
        Seed, or source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, n_bins)
        Histograms.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1.
    """
    given = parameters_of("make_histograms", **locals())
    y, rng = _classes(given, n_classes)
    check_number(given, "n_bins", n_classes, integer=True)
    check_number(given, "concentration", 0, open_ends=True)
    check_number(given, "contrast", 0)
    group = np.arange(n_bins) * n_classes // n_bins
    X = np.empty((n_samples, n_bins))
    for c in range(n_classes):
        rows = y == c
        X[rows] = _dirichlet(concentration * (1 + contrast * (group == c)), rows.sum(), rng)
    return X, y


def _dirichlet(alpha: Array, n: int, rng: np.random.RandomState) -> Array:
    """Rows from a Dirichlet distribution, also where NumPy's gamma variates under- or overflow.

    Such rows are drawn again, in logarithms.  This changes no probability, since the sum of the
    variates does not depend on their shares.
    """
    X = rng.dirichlet(alpha, size=n)
    lost = ~(np.abs(X.sum(axis=1) - 1.0) < 0.5)
    size = (int(lost.sum()), len(alpha))
    # Gamma(a) = Gamma(a + 1) U^(1/a); log U is in the unit of the least a, or it might be infinite
    least = alpha.min()
    log_u = -rng.standard_exponential(size) * (least / alpha)
    with np.errstate(over="ignore"):
        logs = (log_u - log_u.max(axis=1, keepdims=True)) / least
    logs += np.log(rng.standard_gamma(alpha + 1.0, size))
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    X[lost] = shares / shares.sum(axis=1, keepdims=True)
    return X


def _classes(given: Any, n_classes: int, at_least: int = 1) -> tuple[Array, np.random.RandomState]:
    """Class labels in equal shares and random order, and the RNG for the rows."""
    check_number(given, "n_classes", at_least, integer=True)
    check_number(given, "n_samples", n_classes, integer=True)
    rng = check_seed(given)
    return rng.permutation(np.arange(given.n_samples, dtype=np.int64) % n_classes), rng
