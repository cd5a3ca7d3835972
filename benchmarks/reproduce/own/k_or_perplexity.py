"""Is k just another perplexity? kt-SNE over k against the front of t-SNE."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.protocol import data as stored
from vicinal import KSNE
from vicinal.metrics import knn_accuracy, r_nx_auc


class Set(NamedTuple):
    """A data set: how many rows are drawn, how many seeds draw rows and starts, how many vote."""

    words: str
    rows: int
    seeds: int
    voters: int = 10


SETS = {
    "olivetti": Set("faces (olivetti)", 400, 10, voters=5),  # ten images of a person
    "usps9298": Set("usps", 800, 10),
    "mnist": Set("mnist", 800, 10),
}


#: perplexity and exaggeration of t-SNE
TSNE = (*((perplexity, 1) for perplexity in (5, 10, 20, 30, 50, 100)), (10, 2))


USUAL = 30


#: k, perplexity and exaggeration of kt-SNE: at the usual perplexity, and at lower ones
SETTINGS = (*((k, USUAL, 1) for k in (2, 5, 10)), (2, 15, 1), (5, 10, 1))


COLUMNS = 50  # principal components that all methods see


JUDGED_ROWS = 1000  # over which the mean of R_NX is taken


#: by how much a setting must be beyond a front to count, in R_NX AUC or accuracy
MARGIN = 0.005


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; the largest set comes first, so that no job is left alone at the end."""
    tsne = [(1, *each) for each in TSNE]
    for name in reversed(SETS):
        rows, seeds = SETS[name].rows, min(splits or SETS[name].seeds, SETS[name].seeds)
        for seed, (k, perplexity, exaggeration) in product(range(seeds), (*tsne, *SETTINGS)):
            if perplexity <= (rows - 1) / 3:
                yield {"data": name, "seed": seed, "k": k, "perplexity": perplexity,
                       "exaggeration": exaggeration}  # fmt: skip


def work(data: str, seed: int, k: int, perplexity: float, exaggeration: float) -> dict[str, Any]:
    """Measures of one picture, and the perplexity of the marginals that it was told to reach."""
    X, y, P, start = drawn(data, seed)
    model = KSNE(
        k=k, perplexity=perplexity, exaggeration=exaggeration, init=start, random_state=seed
    )
    Z = model.fit_transform(P)
    some = {"sample_size": min(JUDGED_ROWS, len(X)), "random_state": 0}
    return {
        "auc": r_nx_auc(X, Z, **some),
        "accuracy": float(knn_accuracy(Z, y, SETS[data].voters)),
        "one": float(knn_accuracy(Z, y, 1)),
        "marginals": _perplexity(model.affinities_),
        "rows": len(X),
        "iterations": int(model.n_iter_),
    }


@lru_cache(maxsize=1)
def drawn(data: str, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows, labels, principal components, and the start that all settings have in common."""
    X, y = stored(data)
    rng = np.random.RandomState(seed)
    rows = rng.permutation(len(y))[: SETS[data].rows]
    X, y = X[rows].astype(np.float32), y[rows]
    P = PCA(min(COLUMNS, *X.shape), random_state=0).fit_transform(X)
    start = P[:, :2] / P[:, 0].std() + 0.1 * rng.standard_normal((len(P), 2))
    return X, y, P, 1e-4 * start


def _perplexity(target: Any) -> float:
    """The perplexity of the marginals, taken as the choice of one row; the median over the rows."""
    p = target.marginals / target.k
    terms = -p * np.log(np.maximum(p, 1e-300))
    return float(np.median(np.exp(np.add.reduceat(terms, target.indptr[:-1]))))


class Point(NamedTuple):
    """A setting and its means over the seeds; ``by_seed`` has AUC and accuracy in columns."""

    k: int
    perplexity: float
    exaggeration: float
    by_seed: Any
    rest: dict[str, float]

    @property
    def place(self) -> Any:
        """Mean AUC and mean accuracy."""
        return self.by_seed.mean(axis=0)

    @property
    def words(self) -> str:
        """As in the sentences."""
        name = "t-SNE" if self.k == 1 else f"k = {self.k}"
        late = f", exaggeration {self.exaggeration:g}" if self.exaggeration != 1 else ""
        return f"{name}, perplexity {self.perplexity:g}{late}"


def points(done: list[Done], name: str) -> list[Point]:
    """All settings of a data set, with the seeds that all of them have."""
    found: dict[tuple[Any, ...], dict[int, dict[str, float]]] = {}
    for each in done:
        if each.job["data"] == name:
            key = each.job["k"], each.job["perplexity"], each.job["exaggeration"]
            found.setdefault(key, {})[each.job["seed"]] = each.result
    seeds = sorted(set.intersection(*map(set, found.values()))) if found else []
    if not seeds:
        return []
    return [
        Point(
            *key,
            np.array([[of[s]["auc"], of[s]["accuracy"]] for s in seeds]),
            {what: float(np.mean([of[s][what] for s in seeds])) for what in of[seeds[0]]},
        )
        for key, of in sorted(found.items())
    ]


class Lead(NamedTuple):
    """A mean difference over the seeds, and its standard error."""

    gap: float
    error: float

    @property
    def sure(self) -> bool:
        """Whether it counts."""
        return self.gap > max(MARGIN, 2.0 * self.error)


class Beyond(NamedTuple):
    """How far a setting is beyond all others, and whether it is clearly beyond each of them."""

    gap: float
    error: float
    sure: bool


def beyond(one: Point, others: list[Point]) -> Beyond:
    """By how much a setting is better than each of the others in one of the two measures.

    Of each other setting the measure counts in which the mean over the seeds is farther ahead; the
    gap is that to the closest of them.  It is negative if one of the others is better in both.
    """
    leads = [_lead(one, other) for other in others]
    gap, error = min(leads)
    return Beyond(gap, error, all(each.sure for each in leads))


def _lead(one: Point, other: Point) -> Lead:
    """By how much a setting is ahead of another in the measure in which it is farther ahead."""
    gaps = one.by_seed - other.by_seed
    at = int(np.argmax(gaps.mean(axis=0)))
    error = gaps[:, at].std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return Lead(float(gaps[:, at].mean()), float(error))


def front(found: list[Point]) -> list[Point]:
    """The settings of which no other is better in both measures, by AUC."""
    best = [
        p for p in found
        if not any((q.place >= p.place).all() and (q.place > p.place).any() for q in found)
    ]  # fmt: skip
    return sorted(best, key=lambda p: p.place[0])


def parts(done: list[Done]) -> dict[str, Any]:
    """A verdict for each data set, what k does to the target, and all settings."""
    found = {name: points(done, name) for name in SETS}
    found = {name: of for name, of in found.items() if len({p.k for p in of}) > 1}
    verdicts = {name: _verdict(name, of) for name, of in found.items()}
    return {
        "finding": _finding(verdicts),
        "verdicts": bullets(*(text for _, text in verdicts.values())),
        "as_perplexity": "\n\n".join(_as_perplexity(name, of) for name, of in found.items()),
        "tables": "\n\n".join(_table(name, of) for name, of in found.items()),
        "margin": f"{MARGIN:g}",
        "judged": f"{JUDGED_ROWS:,}",
        "columns": COLUMNS,
        "iterations": max(each.result["iterations"] for each in done),
    }


def _verdict(name: str, found: list[Point]) -> tuple[bool, str]:
    """Whether some k > 1 is beyond the front of t-SNE, and the sentences that say so."""
    tsne, more = [p for p in found if p.k == 1], [p for p in found if p.k > 1]
    gaps = [(beyond(p, tsne), p) for p in more]
    ahead = [each for each, _ in gaps if each.sure]
    (gap, error, _), best = max(gaps, key=lambda each: (each[0].sure, each[0].gap))
    back = [(beyond(p, more), p) for p in front(tsne)]
    kept = [each for each, _ in back if each.sure]
    (lost, lost_error, _), strongest = max(back, key=lambda each: each[0].gap)
    each = SETS[name]
    seeds = found[0].by_seed.shape[0]
    verdict = "k brings something" if ahead else "k brings nothing that t-SNE has not"
    text = (
        f"**{each.words}** ({int(found[0].rest['rows']):,} rows, seeds: {seeds}): {verdict}. "
        f"{len(ahead)} of {len(more)} settings with k > 1 are beyond the front of t-SNE. The "
        f"farthest is {best.words} ({_place(best)}), by {gap:+.4f}{_error(error, seeds)}. "
        f"Conversely {len(kept)} of the {len(back)} settings on t-SNE's front are beyond all "
        f"settings with k > 1, the farthest {strongest.words} ({_place(strongest)}), by "
        f"{lost:+.4f}{_error(lost_error, seeds)}."
    )
    return bool(ahead), text


def claims(done: list[Done]) -> Iterator[Claim]:
    """For each set: how far the best k > 1 is beyond the front of t-SNE."""
    for name, each in SETS.items():
        found = points(done, name)
        tsne, more = [p for p in found if p.k == 1], [p for p in found if p.k > 1]
        if tsne and more:
            gaps = [(beyond(p, tsne), p) for p in more]
            count = sum(each.sure for each, _ in gaps)
            (gap, error, _), best = max(gaps, key=lambda of: (of[0].sure, of[0].gap))
            seeds = len(best.by_seed)
            says = f"{each.words}: does k > 1 go beyond the front of t-SNE (R_NX AUC, accuracy)?"
            lead = f"{gap:+.4f}{_error(error, seeds)}" + ("" if seeds > 1 else ", one seed")
            yield Claim(says, "answer", f"{count} of {len(more)} settings; the best by {lead}")


def _place(point: Point) -> str:
    auc, accuracy = point.place
    return f"R_NX AUC {auc:.3f}, accuracy {100 * accuracy:.1f} %"


def _error(error: float, seeds: int) -> str:
    return f" ± {error:.4f}" if seeds > 1 else ""


def _finding(verdicts: dict[str, tuple[bool, str]]) -> str:
    if not verdicts:
        return ""
    lists = {
        True: [SETS[name].words for name, (gains, _) in verdicts.items() if gains],
        False: [SETS[name].words for name, (gains, _) in verdicts.items() if not gains],
    }
    said = []
    if lists[True]:
        said.append(f"beyond that front on {' and '.join(lists[True])}")
    if lists[False]:
        said.append(f"not beyond it on {' and '.join(lists[False])}")
    return (
        "kt-SNE over k against the front of t-SNE over perplexities and exaggerations, R_NX AUC "
        f"against leave-one-out accuracy: larger k goes {', and '.join(said)}."
    )


def _as_perplexity(name: str, found: list[Point]) -> str:
    """Which perplexity of t-SNE comes closest to each k, and how close."""
    plain = [p for p in found if p.k == 1 and p.exaggeration == 1]
    rows = []
    for p in found:
        if p.perplexity == USUAL and p.exaggeration == 1 and plain:
            near = min(plain, key=lambda q: np.linalg.norm(q.place - p.place))
            auc, accuracy = p.place - near.place
            rows.append([
                p.k, f"{p.rest['marginals']:.1f}", f"{p.place[0]:.3f}", f"{100 * p.place[1]:.1f}",
                f"{near.perplexity:g}", f"{auc:+.4f}", f"{100 * accuracy:+.2f}",
            ])  # fmt: skip
    header = ["k", "perplexity of the marginals", "R_NX AUC", f"{SETS[name].voters}-NN",
              "closest t-SNE: perplexity", "AUC against t-SNE", "points of accuracy"]  # fmt: skip
    return f"**{SETS[name].words}, perplexity {USUAL}**\n\n{table(header, rows)}" if rows else ""


def _table(name: str, found: list[Point]) -> str:
    tsne = [p for p in found if p.k == 1]
    shown = {id(p) for p in front(tsne)}
    rows = []
    for p in found:
        rivals = [q for q in tsne if q is not p]
        found_beyond = beyond(p, rivals) if rivals else Beyond(0.0, 0.0, False)
        mark = "on it" if id(p) in shown else ("" if p.k == 1 else f"{found_beyond.gap:+.4f}")
        if p.k > 1 and found_beyond.sure:
            mark = f"**{mark}**"
        rows.append([
            p.k, f"{p.perplexity:g}", f"{p.exaggeration:g}", f"{p.place[0]:.3f}",
            f"{100 * p.place[1]:.1f}", f"{100 * p.rest['one']:.1f}",
            mark,
        ])  # fmt: skip
    header = ["k", "perplexity", "exaggeration", "R_NX AUC", f"{SETS[name].voters}-NN", "1-NN",
              "t-SNE's front"]  # fmt: skip
    return f"**{SETS[name].words}**\n\n{table(header, rows)}"


def draw(done: list[Done], folder: Path) -> None:
    """A panel for each data set: all settings, and the front of t-SNE."""
    plt = pyplot()
    found = {name: of for name in SETS if (of := points(done, name))}
    figure, axes = plt.subplots(
        1, len(found), figsize=(5.2 * len(found), 4.6), layout="constrained", squeeze=False
    )
    colours = {2: "#9ecae1", 5: "#0072B2", 10: "#D55E00"}
    for ax, (name, of) in zip(axes[0], found.items(), strict=True):
        tsne = [p for p in of if p.k == 1]
        ax.scatter(*_columns(tsne), s=14, color="0.6", label="t-SNE")
        ax.plot(*_columns(front(tsne)), color="black", lw=1.0, label="its front")
        for k, colour in colours.items():
            some = [p for p in of if p.k == k]
            if some:
                ax.scatter(*_columns(some), s=26, color=colour, label=f"k = {k}")
        ax.set(xlabel="R_NX AUC", ylabel=f"leave-one-out accuracy, {SETS[name].voters} voters, %",
               title=SETS[name].words)  # fmt: skip
        plain_frame(ax)
    picture(figure, folder, "k-or-perplexity")


def _columns(found: list[Point]) -> Any:
    places = np.array([p.place for p in found]).reshape(-1, 2)
    return places[:, 0], 100 * places[:, 1]


EXPERIMENTS = (
    Experiment(
        "k-or-perplexity",
        "Is k just another perplexity? kt-SNE over k against the front of t-SNE",
        jobs,
        work,
        parts,
        draw,
        claims=claims,
    ),
)
