"""Synthetic sets: small, drawn from a seed, each with one structure that some methods miss."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._validation import check_number, check_seed
from vicinal.core.types import Array
from vicinal.datasets._parts import parameters_of

__all__ = ["make_histograms", "make_rings", "make_stripes"]


def make_rings(
    n_samples: int = 500,
    *,
    n_classes: int = 5,
    noise: float = 1.0,
    radial_noise: float = 0.02,
    random_state: Any = None,
) -> tuple[Array, Array]:
    """Draw classes on concentric circles in a plane, and a third feature that is noise.

    The classes have one mean, so LDA sees nothing; the noise has more variance than either axis of
    the plane, so PCA keeps it.  A linear map that leaves near rows of a class together finds the
    plane: the synthetic example in section 4 of [Goldberger2005], which gives no figures for radii
    and variances; those here are our own.

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows, as equally shared out as can be.
    n_classes : int, default=5
        Number of circles.  The radius of class c is (c + 1) / n_classes.
    noise : float, default=1.0
        Standard deviation of the third feature.  That of either axis of the plane is below 0.71.
    radial_noise : float, default=0.02
        Standard deviation of the distance from the circle.
    random_state : int, RandomState instance or None, default=None
        Seed, or source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 3)
        The plane, then the noise.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1, from the inside out.
    """
    given = parameters_of(
        "make_rings",
        n_samples=n_samples,
        n_classes=n_classes,
        noise=noise,
        radial_noise=radial_noise,
        random_state=random_state,
    )
    y, rng = _classes(given, n_classes)
    check_number(given, "noise", 0)
    check_number(given, "radial_noise", 0)
    angle = rng.uniform(0, 2 * np.pi, size=n_samples)
    radius = (y + 1) / n_classes + radial_noise * rng.standard_normal(n_samples)
    third = noise * rng.standard_normal(n_samples)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), third]), y


def make_stripes(
    n_samples: int = 500,
    *,
    n_classes: int = 2,
    n_repeats: int = 2,
    length: float = 200.0,
    noise: float = 0.1,
    random_state: Any = None,
) -> tuple[Array, Array]:
    """Draw classes in thin parallel stripes that alternate, as in a sandwich.

    The stripes are far longer than they are apart, so PCA looks along them and the nearest rows are
    often of another class.  From bottom to top the classes run 0, 1, …, C - 1, …, 1, 0, the same
    from both sides: all have one mean, and LDA sees nothing.  The one direction that matters is the
    one across.  Methods that ask each row for near rows of its class only, such as those of
    [Goldberger2005] and [Weinberger2009], can find it; to pull whole classes together is hopeless.

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows, as equally shared out among the classes as can be.
    n_classes : int, default=2
        Number of classes, at least 2.
    n_repeats : int, default=2
        How often the classes run up and down: there are 2 (n_classes - 1) n_repeats + 1 stripes.
    length : float, default=200.0
        Length of a stripe.  The distance from one stripe to the next is 1.
    noise : float, default=0.1
        Standard deviation across a stripe.
    random_state : int, RandomState instance or None, default=None
        Seed, or source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Where a row is along its stripe, and across.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1.
    """
    given = parameters_of(
        "make_stripes",
        n_samples=n_samples,
        n_classes=n_classes,
        n_repeats=n_repeats,
        length=length,
        noise=noise,
        random_state=random_state,
    )
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
    """Draw histograms, in which each class has more of its own group of bins.

    Rows are not negative and add up to one, as do shares of visual words or of topics.  For such
    rows [Kedem2012] learn a map under the chi-squared distance, which weighs a difference by how
    full the bin is.

    Row of class c ~ Dirichlet(concentration · (1 + contrast · [bin is in group c])).

    Parameters
    ----------
    n_samples : int, default=500
        Number of rows, as equally shared out as can be.
    n_classes : int, default=3
        Number of classes, and of groups of bins.
    n_bins : int, default=12
        Number of bins, at least n_classes.  Bin b is in group b · n_classes // n_bins.
    concentration : float, default=1.0
        The larger, the less the rows of a class differ.
    contrast : float, default=2.0
        By which factor, less one, a class prefers its group; at 0 all classes are the same.
    random_state : int, RandomState instance or None, default=None
        Seed, or source of randomness.

    Returns
    -------
    X : ndarray of shape (n_samples, n_bins)
        Histograms.
    y : ndarray of shape (n_samples,)
        Classes 0 to n_classes - 1.
    """
    given = parameters_of(
        "make_histograms",
        n_samples=n_samples,
        n_classes=n_classes,
        n_bins=n_bins,
        concentration=concentration,
        contrast=contrast,
        random_state=random_state,
    )
    y, rng = _classes(given, n_classes)
    check_number(given, "n_bins", n_classes, integer=True)
    check_number(given, "concentration", 0, open_ends=True)
    check_number(given, "contrast", 0)
    group = np.arange(n_bins) * n_classes // n_bins
    X = np.empty((n_samples, n_bins))
    for c in range(n_classes):
        rows = y == c
        X[rows] = rng.dirichlet(concentration * (1 + contrast * (group == c)), size=rows.sum())
    return X, y


def _classes(given: Any, n_classes: int, at_least: int = 1) -> tuple[Array, np.random.RandomState]:
    """Classes in equal shares and random order, and what to draw the rows from."""
    check_number(given, "n_classes", at_least, integer=True)
    check_number(given, "n_samples", n_classes, integer=True)
    rng = check_seed(given)
    return rng.permutation(np.arange(given.n_samples, dtype=np.int64) % n_classes), rng
