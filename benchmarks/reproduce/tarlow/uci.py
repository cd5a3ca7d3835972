"""Tarlow et al., supplement: kNCA on small sets, by training k, test k, vote and objective."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import rows_70_30
from reproduce.framework.statistics import Summary
from reproduce.tarlow.common import (
    FAMILIES,
    LEARNERS,
    PEERS,
    WITHOUT_K,
    accuracies,
    colour,
    grid,
    leave_one_out,
    same_start,
    words,
)
from reproduce.tarlow.uci_cells import (
    CHOSEN,
    CLEAR,
    OWN,
    RANKS,
    SETS,
    SETTINGS,
    SHOWN_K,
    TEST_K,
    Cell,
    Cells,
    verdict,
)

#: methods that have a k, and all that have tables
WITH_K = (*FAMILIES, "LMNN")


METHODS = ("NCA", *WITH_K, *WITHOUT_K)


#: methods with one objective and no penalty to choose: they stand beside every setting
SETTLED = (*PEERS, *WITHOUT_K)


#: claims: words, and the differences of a set
CLAIMS: tuple[tuple[str, Callable[[Cell], Any]], ...] = (
    *(
        (f"{m}: test k = {high} − test k = 1", lambda c, m=m, high=high: c.growth(m, high))
        for m in METHODS
        for high in (5, 15)
    ),
    *(
        (f"{vote} − NCA, {where}", lambda c, v=vote, t=test_k: c.gap(v, "NCA", t))
        for vote in WITH_K
        for where, test_k in (
            ("test k as in training", OWN), ("test k = 1", 1), ("test k = 5", 5),
            ("test k = 15", 15), ("test k chosen", CHOSEN),
        )
    ),
    *(
        (f"all − majority, {where}", lambda c, t=test_k: c.gap("all", "majority", t))
        for where, test_k in (
            ("test k as in training", OWN), ("test k = 1", 1), ("test k = 15", 15),
            ("test k chosen", CHOSEN),
        )
    ),
    *(
        (f"{peer} − {other}, {where}", lambda c, p=peer, o=other, t=test_k: c.gap(p, o, t))
        for peer, other in (*product(PEERS[:1], FAMILIES), PEERS[::-1])
        for where, test_k in (("test k as in training", OWN), ("test k chosen", CHOSEN))
    ),
    *(
        (f"{one} − {other}, {where}", lambda c, o=one, p=other, t=test_k: c.gap(o, p, t))
        for one, other in (*((m, "NCA") for m in WITHOUT_K), *product(FAMILIES, WITHOUT_K))
        for where, test_k in (("test k = 1", 1), ("test k = 5", 5), ("test k chosen", CHOSEN))
    ),
    *(
        (f"{vote} − NCA, training k and test k chosen",
         lambda c, v=vote: c.best((v,)) - c.best(("NCA",)) if c.ks(v) and c.ks("NCA") else None)
        for vote in WITH_K
    ),
)  # fmt: skip


SPLITS = 10


TRAINING_K = range(1, 11)


PEERS_K = (1, 3, 5, 10)


def jobs(splits: int | None) -> Iterator[Job]:
    """A job for each fit; ``--where objective=log alpha=0.003 method=all k=5`` takes some."""
    for (objective, alpha), split in product(SETTINGS, range(splits or SPLITS)):
        for name, rank, method in product(SETS, ("2", "full"), grid(TRAINING_K)):
            setting = {"objective": objective, "alpha": alpha}
            yield {"data": name, "split": split, "rank": rank, **setting, **method}
    # once: they have no such settings
    cells = product(range(splits or SPLITS), SETS, ("2", "full"), PEERS, PEERS_K)
    for split, name, rank, method, k in cells:
        setting = {"objective": "margin", "alpha": 0.0}
        yield {"data": name, "split": split, "rank": rank, **setting, "method": method, "k": k}
    for split, name, rank in product(range(splits or SPLITS), SETS, ("2", "full")):
        for method in WITHOUT_K if rank == "full" else WITHOUT_K[:1]:  # ITML cannot reduce
            setting = {"objective": "convex", "alpha": 0.0}
            yield {"data": name, "split": split, "rank": rank, **setting, "method": method, "k": 1}


def work(
    data: str, split: int, rank: str, objective: str, alpha: float, method: str, k: int
) -> dict[str, Any]:
    """Accuracies for test k = 1, ..., 15 on the test rows, and leave-one-out on the others."""
    X, y = stored(data)
    X = X.astype(float)
    train, test = rows_70_30(len(y), split)
    d = 2 if rank == "2" else X.shape[1]
    # all methods begin where NCA does
    objective, alpha = SETTINGS[0] if method in SETTLED else (objective, alpha)
    setting = {"objective": objective, "alpha": alpha, "scaling": "standard"}
    start = same_start(X[train], y[train], d, "pca", split, **setting)
    model = LEARNERS[method](
        k, d, init=start, solver="lbfgs", sampling="full", max_iter=500, random_state=split,
        **setting,
    )  # fmt: skip
    model.fit(X[train], y[train])
    Z = X @ model.components_.T
    run = getattr(model, "learner_", model)  # that of FromLabels
    return {
        "test": accuracies(Z[train], y[train], Z[test], y[test], TEST_K),
        "train": leave_one_out(Z[train], y[train], y[train], TEST_K),
        "iterations": int(run.n_iter_),
        "loss": float(run.objective_),
    }


def _cells(done: list[Done]) -> Cells:
    """The results of each setting, rank and set; LMNN stands beside every setting."""
    groups: dict[Any, list[Done]] = {}
    for each in sorted(done, key=lambda each: each.job["method"] in SETTLED):
        job = each.job
        where = job["rank"], job["data"]
        if job["method"] not in SETTLED:
            groups.setdefault(((job["objective"], job["alpha"]), *where), []).append(each)
            continue
        for setting in SETTINGS:  # the same beside each of them
            if setting == SETTINGS[0] or (setting, *where) in groups:
                groups.setdefault((setting, *where), []).append(each)
    return {key: Cell(group) for key, group in groups.items()}


def parts(done: list[Done]) -> dict[str, Any]:
    """The paper's claims, then all tables."""
    cells = _cells(done)
    return {
        "finding": _finding(cells),
        "claims": _claims(cells),
        "clear": f"{CLEAR:g}",
        "by_set": "\n\n".join(_by_set(cells)),
        "alpha": f"{SETTINGS[0][1]:g}",
        "shown_k": ", ".join(map(str, SHOWN_K)),
        "test_k": TEST_K[-1],
        "tables": "\n\n".join(_tables(cells)),
        **_protocol(done),
    }


def _of(cells: Cells, setting: Any, rank: str) -> dict[str, Cell]:
    """The sets at a setting and rank, by name."""
    return {name: cells[setting, rank, name] for name in SETS if (setting, rank, name) in cells}


def _objectives(cells: Cells, rank: str, method: str) -> dict[str, Any]:
    """Log less accuracy at the test k of training, the same penalty, by set."""
    gaps = {}
    logs, accuracies = (_of(cells, setting, rank) for setting in SETTINGS[:2])
    for name in [name for name in logs if name in accuracies]:
        one, other = logs[name], accuracies[name]
        common = sorted(set(one.splits) & set(other.splits))
        names = [key for key in one.test if key[0] == method and key in other.test]
        if common and names:
            rows = [[cell.splits.index(split) for split in common] for cell in (one, other)]
            gaps[name] = np.mean(
                [one.at(*n, n[1])[rows[0]] - other.at(*n, n[1])[rows[1]] for n in names], axis=0
            )
    return gaps


def _claims(cells: Cells) -> str:
    header, rows = ["difference"], [[words] for words, _ in CLAIMS]
    own = ["NCA", *FAMILIES]
    extra = [[f"log − accuracy, {method}, test k as in training"] for method in own]
    for setting in SETTINGS:
        for rank, rank_words in RANKS.items():
            found = _of(cells, setting, rank)
            if not found:
                continue
            header.append(f"{setting[0]}, α = {setting[1]:g}, {rank_words}")
            for row, (_, gap) in zip(rows, CLAIMS, strict=True):
                row.append(str(verdict([gap(cell) for cell in found.values()]) or ""))
            for row, method in zip(extra, own, strict=True):
                gaps = _objectives(cells, rank, method) if setting == SETTINGS[0] else {}
                row.append(str(verdict(list(gaps.values())) or ""))
    return table(header, [*rows, *(row for row in extra if any(row[1:]))])


def _finding(cells: Cells) -> str:
    """The paper's claims, each judged by the main setting at both ranks."""
    claims = {
        "larger k at test time helps (15 against 1, after NCA)": lambda c: c.growth("NCA", 15),
        "and after kNCA (all)": lambda c: c.growth("all", 15),
        "kNCA (all) beats NCA, test k as in training": lambda c: c.gap("all", "NCA", OWN),
        "kNCA (majority) beats NCA likewise": lambda c: c.gap("majority", "NCA", OWN),
        "all beats majority": lambda c: c.gap("all", "majority", OWN),
        "kNCA (all) beats LMNN": lambda c: c.gap("all", "LMNN", OWN),
        "kNCA (majority) beats LMNN": lambda c: c.gap("majority", "LMNN", OWN),
        "kNCA (all) beats MCML": lambda c: c.gap("all", "MCML", OWN),
        "kNCA (all) beats ITML": lambda c: c.gap("all", "ITML", OWN),
    }
    parts = []
    for claim, gap in claims.items():
        found = []
        for rank, rank_words in RANKS.items():
            each = verdict([gap(cell) for cell in _of(cells, SETTINGS[0], rank).values()])
            if each:
                found.append(f"{each.judged} at {rank_words} ({each:+.1f} points)")
        if found:
            parts.append(f"{claim}: {', '.join(found)}")
    objectives = [_objectives(cells, rank, m) for rank in RANKS for m in FAMILIES]
    # one difference for each set: its ranks and votes are no draws of their own
    by_set = [[float(np.mean(of[name])) for of in objectives if name in of] for name in SETS]
    gaps = [float(np.mean(each)) / 100.0 for each in by_set if each]
    if gaps:
        each = Summary(gaps)
        parts.append(f"log and accuracy differ by {each:+.1f} points")
    return f"The paper's claims on {len({name for *_, name in cells})} small sets: " + (
        "; ".join(parts) + "." if parts else "the main setting is not run yet."
    )


def _by_set(cells: Cells) -> Iterator[str]:
    """The main differences set by set, of the main setting."""
    columns = {
        **{f"{m}: 15 − 1": (lambda c, m=m: c.growth(m, 15)) for m in METHODS},
        **{f"{v} − NCA": (lambda c, v=v: c.gap(v, "NCA", OWN)) for v in WITH_K},
        "all − majority": lambda c: c.gap("all", "majority", OWN),
        "LMNN − all": lambda c: c.gap("LMNN", "all", OWN),
        "LMNN, refreshed − LMNN": lambda c: c.gap(*PEERS[::-1], OWN),
    }
    for rank, rank_words in RANKS.items():
        rows = []
        for name, cell in _of(cells, SETTINGS[0], rank).items():
            shown = []
            for gap in columns.values():
                found = gap(cell)
                each = None if found is None else Summary(found / 100.0)
                shown.append(each and f"{each:+.1f}")
            rows.append([name, *shown])
        if rows:
            yield (
                f"**{rank_words}, set by set**\n\n{table(['set', *columns], rows)}\n\n"
                "Paired differences in points, mean ± standard error over the splits, log "
                f"objective, α = {SETTINGS[0][1]:g}; methods at the test k of training."
            )


def draw(done: list[Done], folder: Path) -> None:
    """Accuracy against test k, a panel for each set and rank."""
    cells = _cells(done)
    found = {rank: _of(cells, SETTINGS[0], rank) for rank in RANKS}
    names = [name for name in SETS if any(name in of for of in found.values())]
    if not names:
        return
    plt = pyplot()
    figure, axes = plt.subplots(
        len(RANKS), len(names), figsize=(2.6 * len(names), 5.6), layout="constrained", sharex=True,
        squeeze=False,
    )  # fmt: skip
    for row, rank in zip(axes, RANKS, strict=True):
        for ax, name in zip(row, names, strict=True):
            cell = found[rank].get(name)
            for method in METHODS if cell else ():
                for k in [k for k in cell.ks(method) if k in (1, 2, 5, 10)]:
                    scores = cell.test[method, k].mean(axis=0)
                    ax.plot(TEST_K, scores, color=colour(method, k), label=words(method, k))
            ax.set_title(f"{name}, {RANKS[rank]}", fontsize=10)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(color="0.9", lw=0.6)
        row[0].set_ylabel("test accuracy, per cent")
    for ax in axes[-1]:
        ax.set_xlabel("k at test time")
    lines = {line.get_label(): line for ax in axes.flat for line in ax.get_lines()}
    below = {"loc": "outside lower center", "ncols": len(names) + 1, "frameon": False}
    figure.legend(lines.values(), lines, **below)
    picture(figure, folder, "tarlow-uci")


def _tables(cells: Cells) -> Iterator[str]:
    for rank, rank_words in RANKS.items():
        for name, cell in _of(cells, SETTINGS[0], rank).items():
            columns = (*SHOWN_K, CHOSEN)
            header = ["training k", *(f"{v}, {c}" for v in WITH_K for c in columns)]
            rows: list[list[Any]] = []
            for k in sorted({k for _, k in cell.test}):
                row: list[Any] = [k]
                for vote in WITH_K:
                    key = ("NCA", 1) if k == 1 and vote in FAMILIES else (vote, k)
                    row += [_shown(cell.at(*key, c)) if key in cell.test else None for c in columns]
                rows.append(row)
            row = ["chosen"]
            for vote in WITH_K:
                of = ("NCA", vote) if vote in FAMILIES else (vote,)
                row += [None] * len(SHOWN_K)
                row.append(_shown(cell.best(of)) if cell.ks(vote) else None)
            rows.append(row)
            yield f"**{name}, {rank_words}, {len(cell.splits)} splits**\n\n{table(header, rows)}"
        comparison = _comparison(_of(cells, SETTINGS[0], rank))
        if comparison:
            yield f"**{rank_words}, methods without a k beside the others**\n\n{comparison}"


def _comparison(found: dict[str, Cell]) -> str:
    """NCA, the paper's comparators and kNCA with k chosen, set by set."""
    if not any(cell.ks(m) for cell in found.values() for m in WITHOUT_K):
        return ""
    shown = (1, 5, CHOSEN)
    methods = ("NCA", *WITHOUT_K)
    header = ["set", *(f"{m}, {k}" for m in methods for k in shown),
              *(f"{v}, both k chosen" for v in WITH_K)]  # fmt: skip
    rows = []
    for name, cell in found.items():
        row: list[Any] = [name]
        for m in methods:
            row += [_shown(cell.at(m, 1, k)) if cell.ks(m) else None for k in shown]
        row += [_shown(cell.best((v,))) if cell.ks(v) else None for v in WITH_K]
        rows.append(row)
    return table(header, rows)


def _shown(scores: Any) -> str:
    each = Summary(scores / 100.0)
    return f"{each:.1f}"


def _protocol(done: list[Done]) -> dict[str, Any]:
    cut = sum(each.result["iterations"] >= 500 for each in done)
    return {"cut": cut, "n_done": len(done)}


EXPERIMENTS = (
    Experiment(
        "tarlow-uci",
        "Tarlow et al., supplement: kNCA on small sets, by training k, test k, vote and objective",
        jobs,
        work,
        parts,
        draw,
    ),
)
