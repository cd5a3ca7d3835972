"""Tarlow et al. figure 6: kt-SNE of usps digits, with the authors' settings and with today's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data as stored
from reproduce.tarlow import figure6_report as report
from reproduce.tarlow.figure6_report import EARLY, KS, LATE, REGION, SETTINGS, VOTERS
from vicinal import KSNE
from vicinal.affinities import affinities
from vicinal.callbacks import Frames
from vicinal.metrics import knn_accuracy, r_nx_auc, rank_correlation
from vicinal.objectives import KSNELoss

SEEDS = 10


ROWS = 1000


#: of the authors' program
MOMENTUM, RATE, PULL, START, NATS, NOMINAL = 0.9, 0.1, 0.5, 0.1, 1.0, 2.0


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; the pictures show the first seed."""
    for setting, seed, k in product(SETTINGS, range(splits or SEEDS), KS):
        yield {"data": "usps", "setting": setting, "seed": seed, "k": k}


def work(data: str, setting: str, seed: int, k: int) -> dict[str, Any]:
    """Measures of the picture, and for the first seed the picture itself."""
    X, y = stored(data)
    rows = np.random.RandomState(seed).permutation(len(y))[:ROWS]
    X, y = X[rows].astype(np.float64), y[rows]
    result: dict[str, Any] = {}
    if setting == "authors":
        weights, result["perplexity"], result["of others"] = sloppy_weights(X)
        target = affinities(weights, k=k, metric="precomputed_affinities")
        frames = descend(target, seed)
    elif setting == "exact":
        frames = descend(affinities(X, NOMINAL, k), seed)
    else:
        recorded = Frames(every=EARLY)
        KSNE(k=k, random_state=seed).set_callbacks(recorded).fit(X)
        frames = dict(zip(recorded.iterations, map(np.float64, recorded.embeddings), strict=True))
    early, last = frames[EARLY], frames[max(frames)]
    result |= {
        "accuracy": knn_accuracy(last, y, [min(v, len(y) - 1) for v in VOTERS]).tolist(),
        "same class": same_class(last, y),
        "pieces": pieces(last, y),
        "auc": r_nx_auc(X, last),
        "rows kept": rank_correlation(early, last),
        "classes kept": kept_arrangement(early, last, y),
        "procrustes": float(procrustes(early, last)[2]),
        "iterations": max(frames),
        "rows": len(y),
    }
    if seed == 0:
        result["y"] = y.tolist()
        result["Z"] = {}
        for at in sorted({EARLY, LATE, max(frames)}):
            Z = frames[at] - frames[at].mean(axis=0)
            result["Z"][str(at)] = np.round(Z / np.abs(Z).max(), 4).tolist()
    return result


def sloppy_weights(X: Any) -> tuple[Any, list[float], list[float]]:
    """Weights exp(-β_i d²_ij) by the authors' search, and quantiles of the perplexity in effect.

    The search ends as soon as the entropy of a choice among all rows, the row itself included, is
    within one nat of the logarithm of the nominal perplexity.  It begins broad: how it began is
    not known, and if it began narrow, entropies of 0 would already do.  The quantiles are those of
    the choice among all rows, and of that among the others.
    """
    D2 = euclidean_distances(X, squared=True)
    np.fill_diagonal(D2, 0.0)
    weights, effect = np.empty_like(D2), []
    for i, d2 in enumerate(D2):
        beta = 1.0 / d2.mean()
        while _entropy(d2, beta) > np.log(NOMINAL) + NATS:
            beta *= 2.0
        others = np.delete(d2, i)
        effect.append(np.exp([_entropy(d2, beta), _entropy(others, beta)]))
        weights[i] = np.exp(-beta * (d2 - others.min()))
        weights[i, i] = 0.0
    both = np.quantile(effect, [0.0, 0.5, 1.0], axis=0).T.tolist()
    return weights, both[0], both[1]


def _entropy(d2: Any, beta: float) -> float:
    w = np.exp(-beta * (d2 - d2.min()))
    p = w / w.sum()
    return float(-np.sum(p * np.log(np.maximum(p, 1e-300))))


def descend(target: Any, seed: int) -> dict[int, Any]:
    """The authors' descent: Nesterov's momentum on the sum over all rows, and a pull inwards."""
    loss, n = KSNELoss(target.k), len(target)
    Z = START * np.random.RandomState(seed).standard_normal((n, 2))
    V, frames = np.zeros_like(Z), {}
    for iteration in range(1, LATE + 1):
        ahead = Z + MOMENTUM * V
        V = MOMENTUM * V - RATE * (n * loss(ahead, target).dZ + PULL * ahead)
        Z = Z + V
        if iteration in (EARLY, LATE):
            frames[iteration] = Z
    return frames


def same_class(Z: Any, y: Any) -> float:
    """Share of the own class among the nearest rows, this many that they fill half of a class."""
    count = min(REGION, len(y) - 1)
    near = NearestNeighbors(n_neighbors=count).fit(Z).kneighbors(return_distance=False)
    return float(np.mean(y[near] == y[:, None]))


def pieces(Z: Any, y: Any) -> int:
    """Number of regions: parts of the graph of the five nearest that edges of one class join."""
    near = NearestNeighbors(n_neighbors=5).fit(Z).kneighbors(return_distance=False)
    i, j = np.repeat(np.arange(len(y)), 5), near.ravel()
    same = y[i] == y[j]
    graph = coo_array((np.ones(same.sum()), (i[same], j[same])), shape=(len(y), len(y)))
    return int(connected_components(graph, directed=False)[0])


def kept_arrangement(Z: Any, later: Any, y: Any) -> float:
    """Rank correlation of the distances between the middles of the classes, then and later."""
    middles = [
        np.array([each[y == label].mean(axis=0) for label in np.unique(y)]) for each in (Z, later)
    ]
    return float(spearmanr(*map(pdist, middles))[0])


EXPERIMENTS = (
    Experiment(
        "tarlow-figure-6",
        "Tarlow et al. figure 6: t-SNE and 5t-SNE of usps digits",
        jobs,
        work,
        report.parts,
        report.draw,
        drawn=("Z", "y"),
        claims=report.claims,
    ),
)
