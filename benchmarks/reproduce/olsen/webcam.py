"""Olsen & Petersen, table 2: χ²-LMNN on webcam at r = 10, 20 and 800."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import data as stored
from reproduce.framework.statistics import Published, distance
from reproduce.olsen.common import (
    PREPARED,
    SHARES,
    SPLITS,
    K,
    Scores,
    chi2_1nn,
    choices,
    choose,
    chosen_chi2,
    folds,
    gain_words,
    histograms,
    judged,
    prepared,
    reduced,
    reduced_1nn,
    shown,
)
from vicinal import LMNN, Chi2LMNN
from vicinal.initialise import BinIdentity

RANKS = (10, 20, 800)


FULL = 800


#: of fits at full rank, but for those as they come
FULL_ITERATIONS = 30


MUS = (0.3, 1.0, 3.0)


#: folds on which μ is chosen as well
MU_SPLITS = 5


#: the report's table 2, in per cent, and the row that its table 4 adds: it seems to quote figures
#: of [Kedem2012], whose histograms are rows / sum (0.08, the error at r = 800, is as printed)
PAPER = {
    "Euclidean": {10: (78.4, 1.3), 20: (78.7, 0.8), 800: (76.7, 1.5)},
    "Euclidean (Kedem)": {10: (67.3, 1.6), 20: (72.7, 0.8), 800: (56.2, 8.0)},
    "LMNN": {10: (78.6, 2.2), 20: (82.4, 1.5), 800: (84.2, 1.2)},
    "χ²": {10: (41.0, 1.8), 20: (55.4, 2.0), 800: (92.8, 1.2)},
    "χ²-LMNN": {10: (83.7, 0.8), 20: (88.1, 1.2), 800: (93.6, 0.9)},
}


OURS = "χ²-LMNN chosen"


#: the baselines that we take for the report's
EUCLIDEAN, LEARNT = "Euclidean, unit", "LMNN chosen, unit"


#: rows of the report that Euclidean distances of rows so prepared stand for
EUCLIDEANS = {"unit": "Euclidean", "sum": "Euclidean (Kedem)"}


#: words of a row, name of its scores, and the row of the report that it stands for
ROWS: tuple[tuple[str, str, str | None], ...] = (
    *(
        (f"Euclidean 1-NN, {words}", f"Euclidean, {how}", EUCLIDEANS.get(how))
        for how, words in PREPARED.items()
    ),
    *(
        (f"LMNN, μ and scaling chosen, 1-NN, {words}", f"LMNN chosen, {how}",
         "LMNN" if how == "unit" else None)
        for how, words in PREPARED.items() if how != "z"
    ),
    *(
        (f"`LMNN()` as it comes, 1-NN, {words}", f"LMNN as it comes, 1-NN, {how}", None)
        for how, words in PREPARED.items()
    ),
    (f"`LMNN()` as it comes, its own votes, {PREPARED['unit']}", "LMNN as it comes, unit", None),
    ("χ² 1-NN, rows / sum (r < 800: the report's start, cut)", "χ²", "χ²"),
    ("χ²-LMNN, margin chosen, 1-NN", OURS, "χ²-LMNN"),
    ("χ²-LMNN, margin and μ chosen, 1-NN", "χ²-LMNN chosen, also μ", None),
    ("`Chi2LMNN(r)` as it comes, 1-NN", "χ²-LMNN as it comes, 1-NN", None),
    ("`Chi2LMNN(r)` as it comes, its own three votes", "χ²-LMNN as it comes", None),
)  # fmt: skip


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each rank and family of methods; ``--where part=lmnn rank=10`` takes some."""
    for split, rank, part in product(range(splits or SPLITS), RANKS, WORK):
        # how little μ matters is shown on the first folds, and in figure 3
        if part != "mu" or (rank != FULL and split < MU_SPLITS):
            yield {"data": "webcam", "split": split, "rank": rank, "part": part}


def work(data: str, split: int, rank: int, part: str) -> dict[str, Any]:
    """Test accuracy of each method of a family, and what was chosen."""
    X, y = stored(data)
    train, test = folds(y, split)
    return WORK[part](X, np.asarray(y), train, test, min(rank, X.shape[1]), split)


def _distances(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """1-NN without learning: Euclidean after PCA, and χ²."""
    scores = {
        f"Euclidean, {how}": reduced_1nn(prepared(X, how, train), y, train, test, r)
        for how in PREPARED
    }
    H = histograms(X)
    if r < X.shape[1]:
        H = H @ BinIdentity()(H, y, r, np.random.RandomState(seed)).T
    return {"scores": {**scores, "χ²": chi2_1nn(H, y, train, test)}}


def _lmnn(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """LMNN after PCA: as it comes, and with μ and the scaling of columns chosen."""
    scores, choices = {}, {}
    for how in PREPARED:
        Z = reduced(prepared(X, how, train), train, r)
        plain = LMNN(k=5, n_neighbors=1, random_state=seed).fit(Z[train], y[train])
        scores[f"LMNN as it comes, 1-NN, {how}"] = plain.score(Z[test], y[test])
        if how == "unit":
            voted = LMNN(random_state=seed).fit(Z[train], y[train])
            scores[f"LMNN as it comes, {how}"] = voted.score(Z[test], y[test])
        grid = {"scaling": [None, "standard"], "mu": list(MUS)}
        model = LMNN(k=K, n_neighbors=1, random_state=seed)
        if how != "z":  # whose columns are scaled already
            search = choose(model, grid, Z[train], y[train], seed)
            scores[f"LMNN chosen, {how}"] = search.score(Z[test], y[test])
            choices[how] = search.best_params_
    return {"scores": scores, "choices": choices}


def _limit(X: Any, r: int) -> dict[str, Any]:
    """At full rank fits are cut short, to keep the choice among them cheap."""
    return {"max_iter": FULL_ITERATIONS} if r == X.shape[1] else {}


def _chi2_lmnn(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with its margin chosen."""
    score, choice = chosen_chi2(histograms(X), y, train, test, r, seed, (1.0,), **_limit(X, r))
    return {"scores": {"χ²-LMNN chosen": score}, "choice": choice}


def _with_mu(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN with both its margin and μ chosen."""
    score, choice = chosen_chi2(histograms(X), y, train, test, r, seed, MUS, **_limit(X, r))
    return {"scores": {"χ²-LMNN chosen, also μ": score}, "choice": choice}


def _defaults(X: Any, y: Any, train: Any, test: Any, r: int, seed: int) -> dict[str, Any]:
    """χ²-LMNN as it comes: its own voters, and 1-NN by the same map."""
    H = histograms(X)
    model = Chi2LMNN(r, random_state=seed).fit(H[train], y[train])
    scores = {
        "χ²-LMNN as it comes": float(model.score(H[test], y[test])),
        "χ²-LMNN as it comes, 1-NN": chi2_1nn(model.transform(H), y, train, test),
    }
    return {"scores": scores, "iterations": int(model.n_iter_), "margin": model.margin_}


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "distances": _distances,
    "lmnn": _lmnn,
    "chi2-lmnn": _chi2_lmnn,
    "defaults": _defaults,
    "mu": _with_mu,
}


def parts(done: list[Done]) -> dict[str, Any]:
    """Markdown."""
    scores = Scores(done, "rank")
    return {
        "finding": _finding(scores),
        "table": _table(scores),
        "gains": _gains(scores),
        "differences": _differences(scores),
        "mu": _mu(scores),
        **_protocol(done, scores),
    }


def _target(rank: int, row: str) -> float:
    """The report's gain of χ²-LMNN over another row of its table."""
    return PAPER["χ²-LMNN"][rank][0] - PAPER[row][rank][0]


def _finding(scores: Scores) -> str:
    parts = []
    for rank in RANKS:
        row, other = ("χ²", "χ²") if rank == FULL else ("Euclidean", EUCLIDEAN)
        over = "χ² 1-NN" if rank == FULL else f"1-NN after PCA of {PREPARED['unit']}"
        gain = scores.gain(rank, OURS, rank, other)
        if gain:
            more = f" points over {over} at r = {rank}, {gain.splits} folds"
            parts.append(str(gain_words(gain, _target(rank, row), more)))
    begin = f"χ²-LMNN gains {'; '.join(parts)}." if parts else "Not all is run yet."
    at_20 = scores.mean(20, OURS)
    if at_20:
        paper = PAPER["χ²-LMNN"][20][0]
        begin += (
            f" At r = 20 it has {shown(at_20)} % of the held-out rows right "
            f"(report {paper} %: {judged(at_20, paper)})."
        )
    return " ".join([begin, *_beside(scores), *_hardest(scores)])


def _beside(scores: Scores) -> Iterator[str]:
    """Our figures less the report's baselines, where ours are others."""
    told = []
    for rank in [rank for rank in RANKS if rank != FULL]:
        mean, paper = scores.mean(rank, OURS), PAPER["Euclidean"][rank][0]
        if mean:
            told.append(f"{mean.mean - paper:+.1f} points from {paper:g} % at r = {rank}")
    if told:
        yield f"It is {', '.join(told)}, the report's own figures after PCA."


def _hardest(scores: Scores) -> Iterator[str]:
    """The gain over the best of the Euclidean baselines, which need not be the report's."""
    for rank in [rank for rank in RANKS if rank != FULL]:
        means = {how: m.mean for how in PREPARED if (m := scores.mean(rank, f"Euclidean, {how}"))}
        if not means:
            continue
        best = max(means, key=lambda how: means[how])
        gain = scores.gain(rank, OURS, rank, f"Euclidean, {best}")
        words = gain_words(gain, _target(rank, "Euclidean"))
        if words:
            yield (
                f"Over the best Euclidean baseline at r = {rank}, {PREPARED[best]} "
                f"({means[best]:.1f} %): {words}."
            )


def _cell(scores: Scores, rank: int, name: str) -> str | None:
    mean, few = shown(scores.mean(rank, name)), scores.splits(rank, name)
    return mean if mean is None or few == _most(scores, rank) else f"{mean} ({few} folds)"


def _most(scores: Scores, rank: int) -> int:
    """Folds of a rank, of which some methods may have fewer."""
    return max(scores.splits(rank, name) for name in scores.found[rank])


def _table(scores: Scores) -> str:
    ranks = [rank for rank in RANKS if rank in scores.found]
    header = ["method"]
    for rank in ranks:
        header += [f"r = {rank}, {_most(scores, rank)} folds", "report"]
    rows: list[list[Any]] = []
    for words, name, paper in ROWS:
        row: list[Any] = [words]
        for rank in ranks:
            row += [_cell(scores, rank, name), paper and Published(*PAPER[paper][rank])]
        if any(row[1:]):
            rows.append(row)
    return table(header, rows)


def _gains(scores: Scores) -> str:
    others = [
        *((words, name) for words, name, _ in ROWS if name.startswith(("Euclidean", "LMNN"))),
        (ROWS[-5][0], "χ²"),
    ]
    targets = {LEARNT: "LMNN", "χ²": "χ²"}
    ranks = [rank for rank in RANKS if rank in scores.found]
    rows = []
    for words, name in others:
        row: list[Any] = [words]
        for rank in ranks:
            gain = scores.gain(rank, OURS, rank, name)
            told = targets.get(name) or ("Euclidean" if name.startswith("Euclidean") else None)
            row.append(gain_words(gain, _target(rank, told)) if told else gain)
        if any(row[1:]):
            rows.append(row)
    return table(["χ²-LMNN, margin chosen, less", *(f"r = {rank}" for rank in ranks)], rows)


def _differences(scores: Scores) -> str:
    """Where our baselines are not the report's."""
    far, near = [], []
    for _, name, paper in ROWS:
        for rank in RANKS if paper else ():
            mean = scores.mean(rank, name)
            if mean:
                published = Published(*PAPER[str(paper)][rank])
                z = distance(mean, published)
                text = f"{paper} at r = {rank} ({mean.mean:.1f}, report {published.mean:g})"
                (far if abs(z) > 3 else near).append(text)
    if not far:
        return "All figures are within three errors of the difference of the report's."
    return (
        f"More than three errors of the difference away from the report's figures: "
        f"{'; '.join(far)}. Within three: {'; '.join(near) or 'none'}. The protocols differ "
        "somewhere, so that gains over the same baselines are compared, not figures."
    )


def _mu(scores: Scores) -> str:
    parts = []
    for rank in RANKS:
        gain = scores.gain(rank, "χ²-LMNN chosen, also μ", rank, OURS)
        if gain:
            parts.append(f"{gain} points at r = {rank} ({gain.splits} folds)")
    grid = ", ".join(f"{mu:g}" for mu in MUS)
    return f"Choosing μ from {grid} as well changes that by {', '.join(parts)}." if parts else ""


def _nearest(scores: Scores) -> str:
    """How far each way to prepare rows is from the report's Euclidean figures."""
    told = []
    for how, words in PREPARED.items():
        means = {rank: scores.mean(rank, f"Euclidean, {how}") for rank in RANKS}
        gaps = [abs(m.mean - PAPER["Euclidean"][rank][0]) for rank, m in means.items() if m]
        if gaps:
            told.append((sum(gaps) / len(gaps), words))
    if not told:
        return ""
    listed = ", ".join(f"{words} {gap:.1f}" for gap, words in sorted(told))
    return f" Points from the report's figures\n  in the mean over the ranks: {listed}."


def _protocol(done: list[Done], scores: Scores) -> dict[str, Any]:
    of = [each for each in done if each.job["part"] == "chi2-lmnn"]
    lines = []
    for rank in RANKS:
        at = [each for each in of if each.job["rank"] == rank]
        if at:
            cut = sum(each.result["choice"]["iterations"] >= FULL_ITERATIONS for each in at)
            stop = f"; {cut} of {len(at)} fits were cut off there" if rank == FULL else ""
            lines.append(
                f"- r = {rank}: {len(at)} folds; share chosen: {choices(at, 'share')}{stop}."
            )
    typical = [each.result["choice"]["typical"] for each in of]
    unit = f", here {min(typical):.2f} to {max(typical):.2f}" if typical else ""
    return {
        "nearest": _nearest(scores),
        "k": K,
        "shares": ", ".join(f"{s:g}" for s in SHARES),
        "typical": unit,
        "chosen": chr(10).join(lines),
        "full_iterations": FULL_ITERATIONS,
        "mus": ", ".join(f"{mu:g}" for mu in MUS),
    }


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-table-2",
        "Olsen & Petersen table 2: χ²-LMNN on webcam, r = 10, 20 and 800",
        jobs,
        work,
        parts,
    ),
)
