"""The votes of k neighbours: from class summaries of lanes to odds and slopes.

Usually in plain float64; lanes whose weights leave its range are repeated in the log domain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array, Pairs
from vicinal.densities import Gaussian
from vicinal.engines.base import Data
from vicinal.engines.cpu.lanes import AllPairs, BatchState, far_energy
from vicinal.engines.cpu.listed_lanes import ListedPairs
from vicinal.kernels import subsets, votes


class ClassSummary(NamedTuple):
    """Summaries of the classes for some lanes, see :mod:`vicinal.kernels.knca`.

    ``T`` and ``E`` are (C, k, W), ``theta`` is (C, W); all float64.
    """

    T: Array
    E: Array
    theta: Array

    def take(self, lanes: Array) -> ClassSummary:
        """The summaries of some lanes."""
        return ClassSummary(*(np.ascontiguousarray(x[..., lanes]) for x in self))


class Slopes(NamedTuple):
    """Derivatives of log(won : lost) by the log-weights of the members of each class.

    P(j chosen | win) - P(j chosen | lose): for the members of T as ``values``, for all others as
    coefficients ``powers`` of a polynomial, see `class_slopes`; both (C, k, W), float64.
    """

    values: Array
    powers: Array

    @classmethod
    def room(cls, shape: tuple[int, ...]) -> Slopes:
        """Allocate zeros."""
        return cls(np.zeros(shape), np.zeros(shape))


class VoteCounter:
    """Counts the votes of one tile of lanes at a time; one counter per thread.

    Parameters
    ----------
    n_classes, k, lanes : int
        Sizes of the arrays.
    unanimous : bool
        Whether all k votes are needed to win.
    far : float
        Energy of an absent member.
    n : int
        Number of references: bounds the size of the sums.
    log : int or None, default=None
        None for plain numbers; lanes that leave their range go to another counter.

    Attributes
    ----------
    in_log_domain : int
        Number of lanes so far that needed logarithms.
    """

    def __init__(
        self,
        n_classes: int,
        k: int,
        lanes: int,
        unanimous: bool,
        far: float,
        n: int,
        log: int | None = None,
    ) -> None:
        self.k, self.unanimous, self.far, self.n, self.log = k, unanimous, far, n, log
        self.least = subsets.least_weight(n, k)
        self.F = np.empty((n_classes, k + 1, lanes))
        self.weights = np.empty((2, lanes))
        self.vote_room = votes.vote_room(n_classes, k, lanes)
        self.room = subsets.slopes_room(k, lanes)
        self.in_log_domain = 0

    def odds(
        self, summary: ClassSummary, own: Array, live: int, slopes: Slopes | None = None
    ) -> Array:
        """log2 of lost : won sets of each lane, inf where none can be won.

        ``own`` (W,) is the class that should win; the first ``live`` lanes are queries, the others
        padding.  ``slopes``, if given, are filled in.
        """
        near = self._polynomials(summary)
        win, lose = self._votes(own)
        if slopes is not None:
            self._fill(slopes, summary, near)
        if self.log is not None:
            return lose - win
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log2(lose) - np.log2(win)
        within = (np.minimum(win, lose) >= self.least) & (np.maximum(win, lose) <= subsets.MOST)
        if not within.all():
            self._redo_in_logarithms(np.flatnonzero(~within), summary, own, live, odds, slopes)
        return odds

    def wins(self, summary: ClassSummary) -> Array:
        """Chance that each class wins, given no tie: (C, W), summing to one."""
        self._polynomials(summary)
        wins = np.empty((self.F.shape[0], self.F.shape[2]))
        votes.win_lanes(self.F, self.k, self.unanimous, wins, self.vote_room, self.log)
        if self.log is not None:  # if no class can win, all are equal
            wins = np.exp2(wins - wins.max(axis=0))
            return wins / wins.sum(axis=0)
        best = wins.max(axis=0)
        within = (best >= self.least) & (best <= subsets.MOST)
        with np.errstate(invalid="ignore", over="ignore"):
            wins /= wins.sum(axis=0)
        if not within.all():
            lanes = np.flatnonzero(~within)
            wins[:, lanes] = self._in_logarithms(lanes).wins(summary.take(lanes))
        return wins

    def _polynomials(self, summary: ClassSummary) -> Array:
        near = summary.T[:, 0].min(axis=0)
        near = np.where(near < 0.5 * self.far, near, 0.0)
        subsets.class_polynomials(*summary, near, self.far, self.F, self.room, self.log)
        return near

    def _votes(self, own: Array) -> Array:
        votes.vote_lanes(
            self.F, own, self.k, self.unanimous, self.weights, self.vote_room, self.log
        )
        return self.weights

    def _fill(self, slopes: Slopes, summary: ClassSummary, near: Array) -> None:
        for result in slopes:
            result.fill(0.0)
        win, lose = self.vote_room.P
        # logarithms have no sign: won and lost are separate
        parts = [(win - lose, 1.0)] if self.log is None else [(win, 1.0), (lose, -1.0)]
        for part, sign in parts:
            subsets.class_slopes(*summary, near, self.far, part, sign, *slopes, self.room, self.log)

    def _in_logarithms(self, lanes: Array) -> VoteCounter:
        self.in_log_domain += len(lanes)
        size = len(self.F), self.k, len(lanes)
        return VoteCounter(*size, self.unanimous, self.far, self.n, log=1)

    def _redo_in_logarithms(
        self,
        lanes: Array,
        summary: ClassSummary,
        own: Array,
        live: int,
        odds: Array,
        slopes: Slopes | None,
    ) -> None:
        """Repeat some lanes in logarithms, except those that can only win or only lose."""
        for result in slopes or ():
            result[..., lanes] = 0.0
        can_win, can_lose = (possible[lanes] for possible in self._possible(summary.T, own))
        odds[lanes] = np.where(can_win, -np.inf, np.inf)
        lanes = lanes[can_win & can_lose & (lanes < live)]
        if not len(lanes):
            return
        some = None if slopes is None else Slopes.room((len(self.F), self.k, len(lanes)))
        odds[lanes] = self._in_logarithms(lanes).odds(summary.take(lanes), own[lanes], live, some)
        for result, part in zip(slopes or (), some or (), strict=True):
            result[..., lanes] = part

    def _possible(self, T: Array, own: Array) -> tuple[Array, Array]:
        """Whether any set is won, and whether any is lost: a count with all weights 1."""
        self.F[:, 0] = 1.0
        self.F[:, 1:] = T < 0.5 * self.far
        win, lose = self._votes(own)
        return win > 0, lose > 0


class CompiledVotes:
    """Votes of k neighbours among all references, or among listed ones; see `base.Votes`.

    Each batch of tiles is processed twice: for the odds and, if a slope is given, for the pull of
    its pairs, which is summed over the batches.
    """

    def __init__(self, data: Data, k: int, unanimous: bool, pairs: Pairs | None = None) -> None:
        parts = data.Z, data.codes, data.query_rows, data.reference_rows, k
        self.engine = AllPairs(*parts) if pairs is None else ListedPairs(*parts, pairs)
        self.name = "tiles" if pairs is None else "lists"
        self.query_rows, self.unanimous, self.log_domain = self.engine.rows, unanimous, 0

    @property
    def share(self) -> float:
        """The share of all (query, reference) pairs that were computed."""
        return self.engine.share

    def sums(self, slope: Callable[[Array], Array] | None = None) -> Array:
        """log2 of lost : won sets of each query, inf where none can be won."""
        engine = self.engine
        lanes, n_tiles = engine.tiling.lanes, engine.n_tiles
        threads = n_threads()
        rooms: Any = [engine.room() for _ in range(threads)]
        far = far_energy(engine.dtype)
        size = engine.n_classes, engine.k, lanes
        counters = [
            VoteCounter(*size, self.unanimous, far, engine.n_references)
            for _ in range(min(threads, n_tiles))
        ]
        odds = np.empty((n_tiles, lanes))
        batch = min(engine.tiling.tiles, n_tiles)
        room = BatchState.room(batch, *size, engine.dtype)

        def task(at: tuple[int, int], thread: int) -> None:
            tile, t = at
            E = np.empty_like(room.T[t])
            engine.collect(tile, room.T[t], E, room.theta[t], rooms[thread])
            summary = ClassSummary(
                *(x.astype(np.float64, copy=False) for x in (room.T[t], E, room.theta[t]))
            )
            slopes = Slopes.room(E.shape) if slope else None
            live = len(engine.rows) - tile * lanes
            odds[tile] = counters[thread].odds(summary, engine.own[tile], live, slopes)
            if slopes is not None:
                room.values[t], room.powers[t] = slopes

        for start in range(0, n_tiles, batch):
            tiles = range(start, min(start + batch, n_tiles))
            run(task, [(tile, tile - start) for tile in tiles], threads)
            if slope:
                factor = slope(odds[start : tiles.stop])
                factor.ravel()[len(engine.rows) - start * lanes :] = 0.0  # lanes that are copies
                engine.pull(tiles, room.first(len(tiles)), factor, rooms)
        self.log_domain = sum(counter.in_log_domain for counter in counters)
        return odds.ravel()[: len(engine.rows)]

    def pull(self, weight: float) -> Array:
        """Gradient of the weight times the sum of all losses, (n, d)."""
        return self.engine.G.T * (2.0 / Gaussian.coordinate_scale * weight)


def win_shares(
    Z: Array, Z_reference: Array, codes: Array, n_classes: int, k: int, unanimous: bool
) -> Array:
    """Chance that each class wins the vote of k references, given no tie: (n, n_classes)."""
    n = len(Z_reference)
    probabilities = np.zeros((len(Z), n_classes))
    points = np.concatenate([Z_reference, Z.astype(Z_reference.dtype, copy=False)])
    present = np.unique(codes)
    codes = np.concatenate([codes, np.full(len(Z), present[0])])
    rows = np.arange(len(points))
    engine = AllPairs(points, codes, rows[n:], rows[:n], k)
    threads = min(n_threads(), len(engine.own))
    lanes, far = engine.tiling.lanes, far_energy(engine.dtype)
    counters = [VoteCounter(len(present), k, lanes, unanimous, far, n) for _ in range(threads)]
    rooms = [engine.room() for _ in range(threads)]

    def task(tile: int, thread: int) -> None:
        T, E = np.empty((2, len(present), k, lanes), engine.dtype)
        theta = np.empty((len(present), lanes), engine.dtype)
        engine.collect(tile, T, E, theta, rooms[thread])
        summary = ClassSummary(*(x.astype(np.float64, copy=False) for x in (T, E, theta)))
        wins = counters[thread].wins(summary)
        at = engine.rows[tile * lanes : (tile + 1) * lanes] - n
        probabilities[at[:, None], present] = wins.T[: len(at)]

    run(task, range(len(engine.own)), threads)
    return probabilities
