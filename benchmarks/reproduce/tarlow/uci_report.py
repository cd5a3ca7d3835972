"""What the page on the small sets says: the paper's claims, differences, and all accuracies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, pyplot
from reproduce.framework.statistics import TESTED, Summary
from reproduce.tarlow.common import FAMILIES, PEERS, WITHOUT_K, colour, findings, words
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
    of_rank,
    verdict,
)
from reproduce.tarlow.uci_claims import ALIKE, claims_of, most_cases, objective_gaps, standings

#: methods that have a k, and all that have tables
WITH_K = (*FAMILIES, "LMNN")


METHODS = ("NCA", *WITH_K, *WITHOUT_K)


#: methods with one objective and no penalty to choose: they stand next to every setting
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
        for peer, other in product(PEERS, FAMILIES)
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


def _cells(done: list[Done]) -> Cells:
    """The results of each setting, rank and set; LMNN stands next to every setting."""
    groups: dict[Any, list[Done]] = {}
    for each in sorted(done, key=lambda each: each.job["method"] in SETTLED):
        job = each.job
        where = job["rank"], job["data"]
        if job["method"] not in SETTLED:
            groups.setdefault(((job["objective"], job["alpha"]), *where), []).append(each)
            continue
        for setting in SETTINGS:  # the same against each of them
            if setting == SETTINGS[0] or (setting, *where) in groups:
                groups.setdefault((setting, *where), []).append(each)
    return {key: Cell(group) for key, group in groups.items()}


def parts(done: list[Done]) -> dict[str, Any]:
    """The paper's claims, then all tables."""
    cells = _cells(done)
    return {
        "finding": findings(claims_of(cells, done)),
        "standings": _standings(cells),
        "most_cases": most_cases(cells),
        "alike": f"{ALIKE:g}",
        "convergence": _convergence(done),
        "differences": _differences(cells),
        "clear": f"{CLEAR:g}",
        "by_set": "\n\n".join(_by_set(cells)),
        "alpha": f"{SETTINGS[0][1]:g}",
        "n_sets": len({name for *_, name in cells}),
        "shown_k": ", ".join(map(str, SHOWN_K)),
        "test_k": TEST_K[-1],
        "tables": "\n\n".join(_tables(cells)),
        **_protocol(done),
    }


def _differences(cells: Cells) -> str:
    header, rows = ["difference"], [[words] for words, _ in CLAIMS]
    own = ["NCA", *FAMILIES]
    extra = [[f"log − accuracy, {method}, test k as in training"] for method in own]
    for setting in SETTINGS:
        for rank, rank_words in RANKS.items():
            found = of_rank(cells, setting, rank)
            if not found:
                continue
            header.append(f"{setting[0]}, α = {setting[1]:g}, {rank_words}")
            for row, (_, gap) in zip(rows, CLAIMS, strict=True):
                row.append(str(verdict([gap(cell) for cell in found.values()]) or ""))
            for row, method in zip(extra, own, strict=True):
                gaps = objective_gaps(cells, rank, method) if setting == SETTINGS[0] else {}
                row.append(str(verdict(list(gaps.values())) or ""))
    return table(header, [*rows, *(row for row in extra if any(row[1:]))])


def claims(done: list[Done]) -> Iterator[Claim]:
    """The lines of the index."""
    return claims_of(_cells(done), done)


def _standings(cells: Cells) -> str:
    """kNCA against the best other method, set by set."""
    rows = []
    for rank, rank_words in RANKS.items():
        for name, (gap, errors, best) in standings(cells, rank).items():
            rows.append([name, rank_words, best, f"{gap:+.1f}", f"{errors:+.1f}"])
    header = ["set", "rank", "best other method", "kNCA against that, points", "in standard errors"]
    return table(header, rows)


def _convergence(done: list[Done]) -> str:
    """Iterations to 99 % of the fall of the loss, by method, mean over sets and splits."""
    rows = []
    for rank, rank_words in RANKS.items():
        found: dict[tuple[str, int], dict[str, list[float]]] = {}
        for each in done:
            job = each.job
            if (job["objective"], job["alpha"], job["rank"]) == (*SETTINGS[0], rank):
                key = job["method"], job["k"]
                found.setdefault(key, {}).setdefault(job["data"], []).append(each.result["to 99 %"])
        for key in sorted(found):
            means = [np.mean(values) for values in found[key].values()]
            rows.append([rank_words, words(*key), f"{np.mean(means):.1f}"])
    return table(["rank", "learnt by", "iterations to 99 % of the fall"], rows)


def _by_set(cells: Cells) -> Iterator[str]:
    """The main differences set by set, of the main setting."""
    columns = {
        **{f"{m}: 15 − 1": (lambda c, m=m: c.growth(m, 15)) for m in METHODS},
        **{f"{v} − NCA": (lambda c, v=v: c.gap(v, "NCA", OWN)) for v in WITH_K},
        "all − majority": lambda c: c.gap("all", "majority", OWN),
        "LMNN − all": lambda c: c.gap("LMNN", "all", OWN),
    }
    for rank, rank_words in RANKS.items():
        rows = []
        for name, cell in of_rank(cells, SETTINGS[0], rank).items():
            shown = []
            for gap in columns.values():
                found = gap(cell)
                each = None if found is None else Summary(found / 100.0, TESTED)
                shown.append(each and f"{each:+.1f}")
            rows.append([name, *shown])
        if rows:
            yield (
                f"**{rank_words}, set by set**\n\n{table(['set', *columns], rows)}\n\n"
                "Paired differences in points, mean ± corrected error over the splits, log "
                f"objective, α = {SETTINGS[0][1]:g}; methods at the test k of training."
            )


def draw(done: list[Done], folder: Path) -> None:
    """Accuracy against test k, a panel for each set and rank."""
    cells = _cells(done)
    found = {rank: of_rank(cells, SETTINGS[0], rank) for rank in RANKS}
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
        for name, cell in of_rank(cells, SETTINGS[0], rank).items():
            columns = (*SHOWN_K, CHOSEN)
            header = ["training k", *(f"{v}, {c}" for v in WITH_K for c in columns)]
            rows: list[list[Any]] = []
            for k in sorted({k for _, k in cell.test}):
                row: list[Any] = [k]
                for vote in WITH_K:
                    key = ("NCA", 1) if k == 1 and vote in FAMILIES else (vote, k)
                    row += [_shown(cell.at(*key, c)) if key in cell.test else None for c in columns]
                rows.append(row)
            row = ["chosen, NCA included"]
            for vote in WITH_K:
                of = ("NCA", vote) if vote in FAMILIES else (vote,)
                row += [None] * len(SHOWN_K)
                row.append(_shown(cell.best(of)) if cell.ks(vote) else None)
            rows.append(row)
            yield f"**{name}, {rank_words}, {len(cell.splits)} splits**\n\n{table(header, rows)}"
        comparison = _comparison(of_rank(cells, SETTINGS[0], rank))
        if comparison:
            yield f"**{rank_words}, methods without a k against the others**\n\n{comparison}"


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
    from reproduce.tarlow.uci import MAX_ITER

    by_lbfgs = [each for each in done if each.job["method"] != "ITML"]
    cut = sum(each.result["iterations"] >= MAX_ITER for each in by_lbfgs)
    return {
        "splits": len({each.job["split"] for each in done}),
        "most": MAX_ITER,
        "cut": cut,
        "n_done": len(by_lbfgs),
    }
