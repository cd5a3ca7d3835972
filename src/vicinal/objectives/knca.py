"""kNCA: expected accuracy of the vote of k stochastic neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array, Pairs
from vicinal.densities import Gaussian
from vicinal.engines.cpu.lanes import AllPairs, State, far_energy
from vicinal.engines.cpu.listed_lanes import ListedPairs
from vicinal.engines.cpu.tiles import coordinate_scale
from vicinal.engines.cpu.votes import (
    Counter,
    Known,
    Slopes,
    check_k,
    check_labels,
    check_vote,
    precision,
    usable_k,
)
from vicinal.engines.points import check_points, check_rows, with_range
from vicinal.objectives._odds import check_objective, mean_loss, slopes, warn_lonely

__all__ = ["knca"]


def knca(
    Z: Array,
    y: Any,
    k: int = 5,
    vote: str = "majority",
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    pairs: Pairs | None = None,
    gradient: bool = True,
    warn: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean loss of a vote of k stochastic neighbours and its gradient with respect to the points.

    A query i picks a set s of k references with probability

    .. math:: p_i(s) \propto \prod_{j \in s} e^{-\|z_i - z_j\|^2}

    ([Tarlow2013]_ section 4) and is right with the probability p_i that its own class wins the
    vote of s, eqs (5) to (8).  The loss is the mean over the queries of :math:`-p_i` ("accuracy")
    or of :math:`-\log p_i` ("log").  With k = 1 it is that of :func:`nca`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 is computed in float32 (for k up to 15), all else in float64.
    y : array-like of shape (n,) or Labels
        Class labels, without weights or priors.
    k : int, default=5
        Size of the neighbourhoods.  Where a query can pick fewer references, their number is used
        for all queries, with a warning.  Beyond 40 gradients may lose their digits: a warning too.
    vote : {"majority", "all"}, default="majority"
        How a class wins: more votes than any other class (a tie is not a win), or all k votes.
    objective : {"log", "accuracy"}, default="log"
        Which loss.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference.
    pairs : Pairs, default=None
        Lists of the rows that each row of Z may pick, as the parts of
        :mod:`vicinal.neighbourhoods` make them; None for all.  Only what is also among the
        references counts.  Where the lists are samples, weights are divided by their rates.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes half the time.
    warn : bool, default=True
        Whether to warn of a k that is too large, and of queries that "log" leaves out.
    report : dict, default=None
        Is given "share_of_pairs", the share of the pairs of a query and a reference that were
        computed, and "log_domain", the number of queries whose votes were counted in logarithms
        because they leave the range of float64.

    Returns
    -------
    value : float
        The mean loss.  A query whose class cannot win ("all": it has fewer than k other members to
        pick) has p_i = 0: it counts as such for "accuracy", and is left out, with a warning, for
        "log".
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Time is O(k) for each pair of a query and a reference, for all votes at once, and O(C k²) to
    O(C k³) for each query and C classes; memory is O(n d) and that of some tiles of queries.
    docs/theory/knca.md derives the scheme and bounds its errors.  The same bits come out for any
    number of threads.
    """
    Z = check_points(Z)
    labels = check_labels(y, len(Z), "knca")
    check_k(k, "knca")
    unanimous = check_vote(vote, "knca")
    check_objective(objective, "knca")
    if pairs is not None and not isinstance(pairs, Pairs):
        raise TypeError(
            f"The 'pairs' parameter of knca must be Pairs or None. Got {pairs!r} instead."
        )
    query_rows = check_rows(queries, len(Z), "queries", "knca")
    reference_rows = check_rows(references, len(Z), "references", "knca")
    dZ = np.zeros_like(Z)
    told = {} if report is None else report
    told["share_of_pairs"], told["log_domain"] = 0.0, 0
    within = np.isin(query_rows, reference_rows, kind="table").any()
    available = len(reference_rows) - int(within)
    if not len(query_rows) or available < 1:
        return 0.0, dZ
    k = usable_k(k, available, warn, gradient)
    Z = precision(with_range(Z, np.ones(1)), k)
    data = Z, labels.codes, query_rows, reference_rows, k
    engine = AllPairs(*data) if pairs is None else ListedPairs(*data, pairs)
    odds, told["log_domain"] = _sweep(engine, unanimous, objective if gradient else None)
    told["share_of_pairs"] = engine.share
    value, counts = mean_loss(odds, np.ones(len(odds)), objective)
    if objective == "log" and warn:
        warn_lonely(labels, engine.rows[odds == np.inf], f"too few of their class, for k={k},")
    if gradient:
        dZ[...] = engine.G.T * (2.0 / coordinate_scale(Gaussian()) * counts.max(initial=0.0))
    return value, dZ


def _sweep(engine: AllPairs | ListedPairs, unanimous: bool, objective: str | None) -> Any:
    """Odds of all queries, and how many were found in the log domain.

    Batches of tiles are looked at twice: for the odds, and, where an objective is given, for the
    pull of their pairs, which the engine adds up.
    """
    lanes, n_tiles = engine.tiling.lanes, engine.n_tiles
    threads = n_threads()
    rooms: Any = [engine.room() for _ in range(threads)]
    far = far_energy(engine.dtype)
    size = engine.n_classes, engine.k, lanes
    counters = [
        Counter(*size, unanimous, far, engine.n_references) for _ in range(min(threads, n_tiles))
    ]
    odds = np.empty((n_tiles, lanes))
    batch = min(engine.tiling.tiles, n_tiles)
    room = State.room(batch, *size, engine.dtype)

    def task(at: tuple[int, int], thread: int) -> None:
        tile, t = at
        E = np.empty_like(room.T[t])
        engine.collect(tile, room.T[t], E, room.theta[t], rooms[thread])
        known = Known(*(x.astype(np.float64, copy=False) for x in (room.T[t], E, room.theta[t])))
        told = Slopes.room(E.shape) if objective else None
        live = len(engine.rows) - tile * lanes
        odds[tile] = counters[thread].odds(known, engine.own[tile], live, told)
        if told is not None:
            room.values[t], room.powers[t] = told

    for start in range(0, n_tiles, batch):
        tiles = range(start, min(start + batch, n_tiles))
        run(task, [(tile, tile - start) for tile in tiles], threads)
        if objective:
            factor = slopes(odds[start : tiles.stop], objective)
            factor.ravel()[len(engine.rows) - start * lanes :] = 0.0  # lanes that are copies
            engine.pull(tiles, room.first(len(tiles)), factor, rooms)
    in_log_domain = sum(counter.in_log_domain for counter in counters)
    return odds.ravel()[: len(engine.rows)], in_log_domain
