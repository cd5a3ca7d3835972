"""Tarlow et al. figure 6: kt-SNE of usps digits, with the authors' settings and with today's."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist
from scipy.stats import spearmanr
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, plain_frame, pyplot, square_frame
from reproduce.framework.protocol import data as stored
from reproduce.framework.statistics import Summary, lead
from vicinal import KSNE
from vicinal.callbacks import Frames
from vicinal.metrics import knn_accuracy, r_nx_auc, rank_correlation
from vicinal.objectives import KSNELoss
from vicinal.targets import affinities

SETTINGS = {
    "authors": "the authors' settings",
    "exact": "their descent, perplexity 2",
    "present": "present-day settings",
}


KS = (1, 2, 3, 5, 10)


SEEDS = 10


ROWS = 1000


#: voters of the leave-one-out accuracy; the paper has 1 to 15
VOTERS = (*range(1, 16), 20, 30, 50)


SHOWN_VOTERS = (1, 3, 5, 10, 15, 30, 50)


#: iterations of the pictures; the authors' program ends at the second
EARLY, LATE = 25, 250


#: of the authors' program
MOMENTUM, RATE, PULL, START, NATS, NOMINAL = 0.9, 0.1, 0.5, 0.1, 1.0, 2.0


#: nearest rows over which the share of the own class is taken, about half of a class
REGION = 50


#: standard errors from which a difference counts
SURE = 2.0


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
    """Share of the own class among the nearest rows, so many that they fill half of a class."""
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


def parts(done: list[Done]) -> dict[str, Any]:
    """The claims with their numbers, a table for each setting, and numbers of the protocol."""
    claims = {s: _claims(done, s) for s in SETTINGS if _of(done, s, 1, "auc") is not None}
    return {
        "finding": _finding(claims),
        "claims": "\n\n".join(
            f"**With {SETTINGS[s]}:**\n\n{bullets(*(text for *_, text in found))}"
            for s, found in claims.items()
        ),
        "tables": "\n\n".join(_table(done, s) for s in claims),
        **_protocol(done),
    }


def _of(done: list[Done], setting: str, k: int, what: str) -> Any:
    """A measure over the seeds that k = 1 has too; None where there is none."""
    by_seed = {
        k_: {e.job["seed"]: e.result[what] for e in done
             if e.job["setting"] == setting and e.job["k"] == k_}
        for k_ in {1, k}
    }  # fmt: skip
    common = sorted(set.intersection(*map(set, by_seed.values())))
    return np.array([by_seed[k][seed] for seed in common]) if common else None


def _difference(done: list[Done], setting: str, what: str, at: int | None = None) -> Any:
    """5t-SNE less t-SNE, seed by seed, and the two means."""
    one, five = (_of(done, setting, k, what) for k in (1, 5))
    if one is None or five is None:
        return None
    if at is not None:
        one, five = one[:, VOTERS.index(at)], five[:, VOTERS.index(at)]
    return five - one, float(one.mean()), float(five.mean())


def _claims(done: list[Done], setting: str) -> list[tuple[str, str, str]]:
    """The paper's claims: in a few words, the verdict, and a sentence with the numbers."""
    if _difference(done, setting, "auc") is None:
        return []
    return [
        _one_voter(done, setting),
        _more_voters(done, setting),
        _rearranging(done, setting),
        _regions(done, setting),
    ]


def _verdict(*signs: float) -> str:
    """By the standard errors of the differences, positive on the paper's side."""
    if all(sign > SURE for sign in signs):
        return "seen"
    return "refuted" if any(sign < -SURE for sign in signs) else "not seen"


def _se(gap: Any) -> float:
    return lead(gap, np.zeros_like(gap))[1]


def _one_voter(done: list[Done], setting: str) -> tuple[str, str, str]:
    gap, tsne, five = _difference(done, setting, "accuracy", 1)
    verdict = _verdict(-_se(gap))
    text = (
        f'"t-SNE performs better on 1-nearest neighbor accuracy": **{verdict}**. With one voter '
        f"5t-SNE has {100 * five:.1f} % and t-SNE {100 * tsne:.1f} %, a difference of "
        f"{Summary(gap):+.2f} points."
    )
    return "t-SNE is ahead with one voter", verdict, text


def _more_voters(done: list[Done], setting: str) -> tuple[str, str, str]:
    gaps = {v: _difference(done, setting, "accuracy", v) for v in VOTERS}
    sure = {v: _se(gap) for v, (gap, *_) in gaps.items()}
    verdict = _verdict(sure[15])  # the most voters that the paper has
    ahead = [v for v in VOTERS if sure[v] > SURE]
    behind = [v for v in VOTERS if sure[v] < -SURE]
    shown = " and ".join(
        f"with {v} voters {100 * gaps[v][2]:.1f} % against {100 * gaps[v][1]:.1f} %, a difference "
        f"of {Summary(gaps[v][0]):+.2f} points" for v in (15, 30)
    )  # fmt: skip
    text = (
        f'"when k is increased, 5t-SNE overtakes t-SNE": **{verdict}**. 5t-SNE has {shown}. It is '
        f"ahead for sure with {_counts(ahead)} of voters, and behind with {_counts(behind)}."
    )
    return "5t-SNE overtakes it with more", verdict, text


def _counts(voters: list[int]) -> str:
    """Numbers of voters in words: all, none, or a list."""
    if len(voters) == len(VOTERS):
        return "any number"
    return f"{len(voters)} numbers ({', '.join(map(str, voters))})" if voters else "no number"


def _rearranging(done: list[Done], setting: str) -> tuple[str, str, str]:
    rows, classes = (_difference(done, setting, f"{what} kept") for what in ("rows", "classes"))
    shape = _difference(done, setting, "procrustes")
    verdict = _verdict(-_se(rows[0]), -_se(classes[0]))
    text = (
        f'"the global rearrangement that occurs even after iteration {EARLY} when k = 5", and not '
        f"when k = 1: **{verdict}**. The rank correlation of the distances at iteration {EARLY} "
        f"with those at the end is {rows[1]:.2f} for t-SNE and {rows[2]:.2f} for 5t-SNE between "
        f"rows, {classes[1]:.2f} and {classes[2]:.2f} between the middles of the classes (1: "
        f"nothing is rearranged); the Procrustes distance of the two pictures is {shape[1]:.2f} "
        f"and {shape[2]:.2f}."
    )
    return f"only 5t-SNE rearranges after iteration {EARLY}", verdict, text


def _regions(done: list[Done], setting: str) -> tuple[str, str, str]:
    share, parts = (_difference(done, setting, what) for what in ("same class", "pieces"))
    verdict = _verdict(_se(share[0]), -_se(parts[0]))
    text = (
        f'"larger consistent groups of points" (figure 1): **{verdict}**. Of the {REGION} nearest '
        f"rows {100 * share[1]:.1f} % are of the own class with t-SNE and {100 * share[2]:.1f} % "
        f"with 5t-SNE (a difference of {Summary(share[0]):+.2f} points), and the classes fall into "
        f"{parts[1]:.0f} and {parts[2]:.0f} regions."
    )
    return "5t-SNE has larger regions of one class", verdict, text


def _finding(claims: dict[str, list[tuple[str, str, str]]]) -> str:
    said = [
        f"({SETTINGS[s]}) " + ", ".join(f"{words}: {verdict}" for words, verdict, _ in found)
        for s, found in claims.items() if found
    ]  # fmt: skip
    return f"The paper's claims about figure 6: {'; '.join(said)}." if said else ""


def _table(done: list[Done], setting: str) -> str:
    header = ["k", *(f"{v}-NN" for v in SHOWN_VOTERS), f"own class of {REGION}", "regions",
              "R_NX AUC", "rows kept", "classes kept"]  # fmt: skip
    rows = []
    for k in KS:
        accuracy = _of(done, setting, k, "accuracy")
        if accuracy is None:
            continue
        cells = [f"{Summary(accuracy[:, VOTERS.index(v)]):.1f}" for v in SHOWN_VOTERS]
        rest = {w: _of(done, setting, k, w) for w in
                ("same class", "pieces", "auc", "rows kept", "classes kept")}  # fmt: skip
        cells += [f"{Summary(rest['same class']):.1f}", f"{rest['pieces'].mean():.0f}"]
        cells += [f"{rest[w].mean():.3f}" for w in ("auc", "rows kept", "classes kept")]
        rows.append([k, *cells])
    n = len(_of(done, setting, 1, "auc"))
    words = SETTINGS[setting]
    return f"**{words[0].upper()}{words[1:]}, {n} seeds**\n\n{table(header, rows)}"


def _protocol(done: list[Done]) -> dict[str, Any]:
    return {
        "rows": f"{ROWS:,}",
        "effect": _range(done, "perplexity"),
        "effect_of_others": _range(done, "of others"),
        "seeds": len({e.job["seed"] for e in done}),
        "last": max(e.result["iterations"] for e in done),
        "early": EARLY,
        "late": LATE,
    }


def _range(done: list[Done], what: str) -> str:
    """The least, the largest and the median of quantiles over the rows."""
    found = [e.result[what] for e in done if what in e.result]
    if not found:
        return ""
    least, middle, most = np.array(found).T
    return f"{least.min():.1f} to {most.max():.1f}, {np.median(middle):.1f} in the median"


def draw(done: list[Done], folder: Path) -> None:
    """For each setting the pictures of the first seed, and accuracies by the number of voters."""
    plt = pyplot()
    shown = [s for s in SETTINGS if _of(done, s, 1, "auc") is not None]
    figure = plt.figure(figsize=(16.0, 3.2 * len(shown)), layout="constrained")
    for part, setting in zip(np.ravel(figure.subfigures(len(shown), 1)), shown, strict=True):
        first = {e.job["k"]: e.result for e in done
                 if e.job["setting"] == setting and e.job["seed"] == 0}  # fmt: skip
        times = sorted({int(at) for result in first.values() for at in result["Z"]})
        wide = len(times) * 2
        grid = part.add_gridspec(1, wide + 1, width_ratios=[1] * wide + [1.3])
        for column, (k, when) in enumerate(product((1, 5), times)):
            ax = part.add_subplot(grid[0, column])
            _panel(ax, first.get(k), when)
            ax.set_title(f"k = {k}, iteration {when}", fontsize=10)
            if column == 0:
                ax.set_ylabel(SETTINGS[setting])
        _curves(part.add_subplot(grid[0, wide]), done, setting)
    picture(figure, folder, "tarlow-figure-6")


def _curves(ax: Any, done: list[Done], setting: str) -> None:
    for k, colour in zip(KS, ("black", "#9ecae1", "#56B4E9", "#0072B2", "#08306b"), strict=True):
        accuracy = _of(done, setting, k, "accuracy")
        if accuracy is not None:
            ax.plot(VOTERS, 100 * accuracy.mean(axis=0), color=colour, label=f"k = {k}")
    ax.set(xlabel="voters", ylabel="leave-one-out accuracy, %", xscale="log")
    plain_frame(ax)


def _panel(ax: Any, result: dict[str, Any] | None, when: int) -> None:
    if result is None or "Z" not in result:
        ax.set_axis_off()
        return
    from vicinal.plotting import scatter

    Z = np.array(result["Z"][str(when)])
    scatter(Z, result["y"], ax, legend=False, size=9.0)
    square_frame(ax, Z)


EXPERIMENTS = (
    Experiment(
        "tarlow-figure-6",
        "Tarlow et al. figure 6: t-SNE and 5t-SNE of usps digits",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z", "y"),
    ),
)
