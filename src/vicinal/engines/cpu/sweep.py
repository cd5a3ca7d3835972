"""Compiled engine for votes (`base.Votes`): one batch of tiles of queries after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array, Pairs
from vicinal.densities import Gaussian
from vicinal.engines.base import Data
from vicinal.engines.cpu.lanes import AllPairs, BatchState, far_energy
from vicinal.engines.cpu.listed_lanes import ListedPairs
from vicinal.engines.cpu.votes import ClassSummary, Slopes, VoteCounter


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
