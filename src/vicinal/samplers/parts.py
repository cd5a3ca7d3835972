"""The samplers: all rows, some of them, batches of rows, batches of queries.

References
----------
[Oneata2011] §4.1 (sub-sampling), §4.2 (mini-batches), §4.3 (stochastic learning).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal._validation import check_bool, check_option, check_part, warn
from vicinal.core.types import Array, Batch, Dealer, Sampler, Source
from vicinal.targets.labels import class_codes


@dataclass(frozen=True)
class Full(Sampler):
    """Every step embeds all rows, and all rows are queries: the exact objective."""

    fixed: ClassVar[bool] = True
    thins_rows: ClassVar[bool] = False

    def __str__(self) -> str:
        return "all rows"

    def dealer(self, source: Source, random_state: np.random.RandomState) -> Dealer:
        """Every pass is one ``Batch()``; nothing is drawn."""
        return lambda theta, random_state: [Batch()]


@dataclass(frozen=True)
class Subsample(Sampler):
    """One random subset of the rows, against itself, for the whole run ([Oneata2011] §4.1).

    The rows are drawn in proportion to the classes, at least two of every class that has two, so
    that no class is left without a pair.  A subset is less dense than all rows: the map learnt from
    it has too small a scale for all rows, which is corrected at the end of the fit.

    Parameters
    ----------
    size : int or float
        Rows in the subset; a float in (0, 1] is a share of all rows.  If it exceeds the number of
        rows, all of them are used, with a warning.  Fewer than two for each class: an error.
    correct_scale : bool
        Whether a fit ends by multiplying the map by the factor that suits all rows best.  False:
        the map stays as learnt from the subset, as in the thesis.
    """

    size: int | float = 3000
    correct_scale: bool = True

    fixed: ClassVar[bool] = True
    thins_rows: ClassVar[bool] = True

    def __str__(self) -> str:
        return (
            f"one sub-sample of {self.size if self.size >= 1 else f'{self.size:.3g} of the'} rows"
        )

    def __post_init__(self) -> None:
        size = self.size
        if isinstance(size, float | np.floating):
            ok = 0.0 < size <= 1.0
        else:
            ok = isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 2
        if not ok:
            raise ValueError(
                "The 'size' parameter of Subsample must be an int in [2, inf) or a float in "
                f"(0, 1]. Got {size!r} instead."
            )
        check_bool(self, "correct_scale")

    def dealer(self, source: Source, random_state: np.random.RandomState) -> Dealer:
        """Draw the subset; every pass consists of this batch."""
        size = self.size
        codes = class_codes(source.codes, source.n_rows)
        if isinstance(size, float | np.floating):
            size = round(size * source.n_rows)
        n_classes = len(np.unique(codes))
        if size < min(2 * n_classes, source.n_rows):
            raise ValueError(
                f"The 'size' parameter of Subsample must leave two rows for each of the "
                f"{n_classes} classes, {2 * n_classes} in all. Got {self.size!r}, {size} rows, "
                "instead."
            )
        if not _leaves_rows_out(self, int(size), source.n_rows):
            return lambda theta, random_state: [Batch()]
        batch = _random(_stratified(codes, int(size), random_state), source.n_rows)
        return lambda theta, random_state: [batch]


@dataclass(frozen=True)
class MiniBatches(Sampler):
    """Batches of rows against themselves, each row in one batch a pass ([Oneata2011] alg. 4.1).

    A step costs ``size ** 2`` pairs.  Random batches are less dense than all rows and lead to too
    small a scale; clusters keep the density of the data.

    Parameters
    ----------
    size : int
        Largest number of rows in a batch.  If it exceeds the number of rows, every step sees all
        rows, with a warning.  Fewer than the number of classes: an error.
    clusters : {"rpc", "fpc", "random"}
        How the rows of a pass are divided:

        - "rpc": recursive projection clusters, alg. 4.3: split at the median along the line
          through two random rows, until none has more than ``size`` rows;
        - "fpc": farthest point clusters, alg. 4.2 ([Gonzalez1985]), with ``ceil(n / size)``
          centres.  A cluster of fewer than ``size / 10`` rows, or without two rows of one class,
          joins the cluster of the nearest centre; one of more than ``size`` rows is split as by
          "rpc";
        - "random": random groups of nearly equal size.

        The batches of a pass come in random order.
    space : {"embedded", "input"}
        Where to cluster: the projections, again at the beginning of every pass, or the scaled
        input, once.  No effect on random batches.
    correct_scale : bool
        Whether a fit ends by multiplying the map by the factor that suits all rows best.  False:
        the map stays as the last step left it, which is algorithm 4.1 as printed.

    Notes
    -----
    A row may have no other member of its class in its batch.  As a query it is then left out of
    the log objective and counts as wrong in the accuracy objective; it is still a reference for
    the other rows.
    """

    size: int = 2000
    clusters: str = "rpc"
    space: str = "embedded"
    correct_scale: bool = True

    fixed: ClassVar[bool] = False
    thins_rows: ClassVar[bool] = True

    def __str__(self) -> str:
        return (
            f"batches of {self.size} {'random' if self.clusters == 'random' else 'clustered'} rows"
        )

    def __post_init__(self) -> None:
        check_part(self, "size", low=2, kind=int, closed=True)
        check_option(self, "clusters", ("rpc", "fpc", "random"))
        check_option(self, "space", ("embedded", "input"))
        check_bool(self, "correct_scale")

    @property
    def deals_ahead(self) -> bool:  # type: ignore[override]
        """Whether the map has no influence on the passes."""
        return self.clusters == "random"

    def dealer(self, source: Source, random_state: np.random.RandomState) -> Dealer:
        """Check the size; cluster now if that is done once only."""
        n_classes = 0 if source.codes is None else len(np.unique(source.codes))
        if self.size < n_classes:
            raise ValueError(
                "The 'size' parameter of MiniBatches must be at least the number of classes, "
                f"{n_classes}. Got {self.size} instead."
            )
        if not _leaves_rows_out(self, self.size, source.n_rows):
            return lambda theta, random_state: [Batch()]
        if self.clusters == "random":
            return lambda theta, rng: [
                _random(rows, source.n_rows) for rows in _groups(source.n_rows, self.size, rng)
            ]
        if self.space == "input":
            from vicinal.samplers.clusters import InputRows

            points = InputRows(source.n_rows, self._required(source.points))
            return _shuffled(self._split(points, source, random_state))
        embed = self._required(source.embed)

        def deal(theta: Array, rng: np.random.RandomState) -> list[Batch]:
            from vicinal.samplers.clusters import EmbeddedPoints

            return _shuffled(self._split(EmbeddedPoints(embed(theta)), source, rng))(theta, rng)

        return deal

    def _required(self, points: Callable[[Array], Any] | None) -> Callable[[Array], Any]:
        if points is None:
            raise ValueError(
                f"The sampler MiniBatches with space={self.space!r} needs the points to cluster. "
                "Got None."
            )
        return points

    def _split(self, points: Any, source: Source, rng: np.random.RandomState) -> list[Array]:
        from vicinal.samplers.clusters import farthest_point, recursive_projection

        if self.clusters == "fpc":
            return farthest_point(points, self.size, rng, source.codes)
        return recursive_projection(points, np.arange(len(points)), self.size, rng)


@dataclass(frozen=True)
class StochasticQueries(Sampler):
    """A few rows as queries against all rows, each row a query once a pass ([Oneata2011] §4.3).

    A pass shuffles the rows and divides them into groups (alg. 4.4) whose sizes differ by at most
    one.  The gradient of a group is an unbiased estimate of that of all rows, eq. (4.4): the mean
    over a pass, weighted by the sizes of its groups, is the gradient of all rows.

    Parameters
    ----------
    size : int
        Largest number of queries in a batch.  If it exceeds the number of rows, every step sees
        all rows, with a warning.
    """

    size: int = 500

    fixed: ClassVar[bool] = False
    thins_rows: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{self.size} rows against all in each step"

    def __post_init__(self) -> None:
        check_part(self, "size", low=1, kind=int, closed=True)

    def dealer(self, source: Source, random_state: np.random.RandomState) -> Dealer:
        """Check the size; every pass is shuffled again."""
        if not _leaves_rows_out(self, self.size, source.n_rows):
            return lambda theta, random_state: [Batch()]

        def deal(theta: Array, rng: np.random.RandomState) -> list[Batch]:
            # one index for the whole pass, though the map moves: it is rebuilt by the next pass
            pairs = None if source.make_index is None else source.make_index(theta, self.size)
            groups = _groups(source.n_rows, self.size, rng)
            return [Batch(queries=rows, pairs=pairs) for rows in groups]

        return deal


def _leaves_rows_out(sampler: Any, size: int, n_rows: int) -> bool:
    """Whether a batch leaves rows out; warn if ``size`` exceeds the number of rows."""
    if size > n_rows:
        warn(
            f"The 'size' parameter of {type(sampler).__name__} is {size}, but there are {n_rows} "
            "rows to learn from: every batch holds all of them."
        )
    return size < n_rows


def _groups(n_rows: int, size: int, rng: np.random.RandomState) -> list[Array]:
    """All rows in random groups of nearly equal size, at most ``size``; each group sorted."""
    groups = np.array_split(rng.permutation(n_rows), -(-n_rows // size))
    return [np.sort(group) for group in groups]


def _random(rows: Array, n_rows: int) -> Batch:
    """A batch of rows drawn at random."""
    return Batch(rows=rows, share=(len(rows) - 1) / (n_rows - 1))


def _shuffled(groups: list[Array]) -> Dealer:
    return lambda theta, rng: [Batch(rows=groups[i]) for i in rng.permutation(len(groups))]


def _stratified(codes: Array, size: int, rng: np.random.RandomState) -> Array:
    """Rows drawn without replacement in proportion to the classes, sorted."""
    _, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    share = counts * (size / len(codes))
    least = np.minimum(counts, 2)
    quota = np.maximum(np.floor(share).astype(int), least)
    while quota.sum() < size:  # the largest remainders first
        quota[np.argmax(np.where(quota < counts, share - quota, -np.inf))] += 1
    while quota.sum() > size:  # take the excess of small classes from classes above their share
        quota[np.argmax(np.where(quota > least, quota - share, -np.inf))] -= 1
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
    chosen = [rng.permutation(rows)[:n] for rows, n in zip(members, quota, strict=True)]
    return np.sort(np.concatenate(chosen))
