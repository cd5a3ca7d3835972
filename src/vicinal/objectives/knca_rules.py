"""What a vote of k stochastic neighbours says of new points: the chance of each class to win."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal.core.types import Array
from vicinal.engines.cpu.lanes import AllPairs, far_energy
from vicinal.engines.cpu.votes import (
    Counter,
    Known,
    check_k,
    check_labels,
    check_vote,
    precision,
    usable_k,
)
from vicinal.engines.points import check_points, with_range

__all__ = ["knca_posterior"]


def knca_posterior(
    Z: Array,
    Z_reference: Array,
    y_reference: Any,
    k: int = 5,
    vote: str = "majority",
) -> Array:
    """Probability that each class wins the vote of k stochastic neighbours, for new points.

    Parameters
    ----------
    Z : array of shape (n, d)
        New points.
    Z_reference : array of shape (n_references, d)
    y_reference : array-like of shape (n_references,) or Labels
        Classes of the references, without weights or priors.
    k, vote
        As in :func:`knca`.

    Returns
    -------
    probabilities : array of shape (n, n_classes), float64
        Exact win probabilities, divided by their sum over the classes since ties are nobody's.
        Where no set of k references has a winner, all classes that have references share alike.
    """
    Z, Z_reference = check_points(Z), check_points(Z_reference, "Z_reference")
    labels = check_labels(y_reference, len(Z_reference), "knca_posterior", "Z_reference")
    check_k(k, "knca_posterior")
    unanimous = check_vote(vote, "knca_posterior")
    if Z.shape[1] != Z_reference.shape[1]:
        raise ValueError(f"Z has {Z.shape[1]} columns but Z_reference has {Z_reference.shape[1]}.")
    if not len(Z_reference):
        raise ValueError("Z_reference must have at least one row. Got 0.")
    n_classes = len(labels.classes)
    probabilities = np.zeros((len(Z), n_classes))
    if not len(Z):
        return probabilities
    k = usable_k(k, len(Z_reference), gradient=False)
    Z_reference = precision(with_range(Z_reference, np.ones(1), Z), k)
    points = np.concatenate([Z_reference, Z.astype(Z_reference.dtype, copy=False)])
    codes = np.concatenate([labels.codes, np.zeros(len(Z), labels.codes.dtype)])
    rows = np.arange(len(points))
    present = np.unique(labels.codes)
    codes[len(labels) :] = present[0]
    engine = AllPairs(points, codes, rows[len(labels) :], rows[: len(labels)], k)
    threads = min(n_threads(), len(engine.own))
    lanes, far = engine.tiling.lanes, far_energy(engine.dtype)
    counters = [
        Counter(len(present), k, lanes, unanimous, far, len(labels)) for _ in range(threads)
    ]
    rooms = [engine.room() for _ in range(threads)]

    def task(tile: int, thread: int) -> None:
        T, E = np.empty((2, len(present), k, lanes), engine.dtype)
        theta = np.empty((len(present), lanes), engine.dtype)
        engine.collect(tile, T, E, theta, rooms[thread])
        known = Known(*(x.astype(np.float64, copy=False) for x in (T, E, theta)))
        wins = counters[thread].wins(known)
        at = engine.rows[tile * lanes : (tile + 1) * lanes] - len(labels)
        probabilities[at[:, None], present] = wins.T[: len(at)]

    run(task, range(len(engine.own)), threads)
    return probabilities
