"""What the page about maps says: tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.numbers import read
from reproduce.framework.pages import bullets, table
from reproduce.framework.statistics import Summary
from reproduce.own import table_peers
from reproduce.own.classification_tables import TABLES
from reproduce.own.paired import fitting

__all__ = ["AGAIN", "AVERAGE", "BATCH", "CANDIDATES", "FEW", "OURS", "STEPS", "claims", "parts"]

#: how all maps learn: penalties to choose from, with a rate of Adam for nonlinear maps (None: the
#: estimator's own); a quarter of the rows in a batch, within limits; and steps of candidates and
#: of the last fit, up to this many rows and above
LINEAR = [{"alpha": alpha, "rate": None} for alpha in (1e-2, 1e-3, 1e-4)]
NONLINEAR = [
    {"alpha": 1e-2, "rate": 0.001},
    {"alpha": 1e-2, "rate": 0.01},
    {"alpha": 1e-3, "rate": 0.01},
    {"alpha": 1e-4, "rate": 0.01},
]
BATCH = (64, 1000)
FEW, STEPS = 2000, {"few": (100, 200), "many": (100, 300)}
AGAIN = 1000  # rows up to which the average has a second fit of each map

AVERAGE, CHOSEN = "average", "chosen"
#: the maps, and titles of their columns
OURS = {
    "linear": "linear",
    "laplace": "linear, Laplace kernel",
    "periodic": "periodic",
    "network": "periodic, then MLP",
}
CANDIDATES = {"linear": LINEAR, "laplace": LINEAR, "periodic": NONLINEAR, "network": NONLINEAR}
_ALL_OURS = {**OURS, AVERAGE: "average of these", CHOSEN: "chosen inside"}
#: the peers, and titles of their columns; a map of ours may have the name of a peer
_THEIRS = {f"their {name}": title for name, title in table_peers.NAMES.items()}
_PEERS = [f"their {name}" for name in table_peers.PEERS]
#: the columns that README quotes, the best last
_QUOTED = {
    "their k-NN": "k-NN, Euclidean distance",
    "their boosting": "boosted trees",
    "their network": "network",
    "their SVC": "support vectors",
    "their forest": "random forest",
    "linear": "**vicinal**, linear map",
    "periodic": "**vicinal**, periodic map",
}
_NUMBERS = Path(__file__).parents[3] / "docs" / "results" / "data" / "table-peers.csv"
_CLEAR = 2.0  # corrected errors of a clear difference
_TESTED = 0.2  # of the rows of a split
_TIE = 0.05  # points within which two means are the same as printed


class _Scores:
    """Test accuracies over tables and splits, of our maps and of the peers on the same splits."""

    def __init__(self, done: list[Done], peers: list[Done]) -> None:
        with_peers = {(e.job["data"], e.job["split"]) for e in peers}
        self.done = [e for e in done if (e.job["data"], e.job["split"]) in with_peers]
        keys = {(e.job["data"], e.job["split"]) for e in self.done}
        self.peers = [e for e in peers if (e.job["data"], e.job["split"]) in keys]
        self.tables = [name for name in TABLES if any(name == data for data, _ in keys)]
        self.n_splits = len({split for _, split in keys})

    def lead(self, one: str, other: str) -> Summary:
        """By how much one is ahead on average over the tables, with a corrected error."""
        gaps = [self.of(name, one) - self.of(name, other) for name in self.tables]
        return Summary(np.mean(gaps, axis=0), _TESTED)

    def of(self, name: str, method: str) -> Any:
        """Accuracies on a table, split by split."""
        if method in _THEIRS:
            return table_peers.scores_of(self.peers, name, method.removeprefix("their "))
        if method != CHOSEN:
            return table_peers.scores_of(self.done, name, method)
        return np.array([each.result[chosen_of(each)] for each in self.ours(name)])

    def ours(self, name: str) -> list[Done]:
        """The jobs of a table, split by split."""
        here = [each for each in self.done if each.job["data"] == name]
        return sorted(here, key=lambda each: each.job["split"])

    def means(self, method: str) -> Any:
        """The mean of each table."""
        return np.array([self.of(name, method).mean() for name in self.tables])

    def mean(self, method: str) -> Summary:
        """Over the tables; the error is that of the mean over splits."""
        return Summary(np.mean([self.of(name, method) for name in self.tables], axis=0))


def chosen_of(each: Done) -> str:
    """The best on the inner rows; the simplest of equally good ones."""
    inner = {name: each.result[f"inner of {name}"] for name in (*OURS, AVERAGE)}
    return max(inner, key=inner.__getitem__)


def parts(done: list[Done]) -> dict[str, Any]:
    """Accuracies, wins and losses, times, and where the goal is missed."""
    numbers = read(_NUMBERS)
    scores = _Scores(done, numbers.done)
    means = {peer: scores.mean(peer) for peer in _PEERS}
    best = max(means, key=lambda peer: means[peer].mean)
    return {
        "finding": _finding(scores, best),
        "accuracies": _accuracies(scores),
        "means": table(_QUOTED.values(), [[f"{scores.mean(each):.1f}" for each in _QUOTED]]),
        "lead": f"{scores.lead('periodic', best):+.1f}",
        "against": _against(scores),
        "missed": _missed(scores, best),
        "seconds": _seconds(scores),
        "choices": _choices(scores),
        "n_splits": scores.n_splits,
        "n_tables": len(scores.tables),
        "clear": f"{_CLEAR:g}",
        "alphas": ", ".join(f"{each['alpha']:g}" for each in LINEAR),
        "pairs": "; ".join(f"{each['alpha']:g} and {each['rate']:g}" for each in NONLINEAR),
        "taken": _taken(scores),
        "least": BATCH[0],
        "most": f"{BATCH[1]:,}",
        "again": f"{AGAIN:,}",
        "steps": f"{STEPS['few'][1]} steps up to {FEW:,} rows, {STEPS['many'][1]} above",
        "fewer_steps": STEPS["few"][0],
        "peers_commit": ", ".join(f"`{commit}`" for commit in numbers.commits),
    }


def _finding(scores: _Scores, best: str) -> str:
    """Each of our means against the highest of the peers'."""
    top = scores.mean(best)
    words = [f"{title} {scores.mean(name):.1f}" for name, title in _ALL_OURS.items()]
    reached = [title for name, title in _ALL_OURS.items() if scores.mean(name).mean > top.mean]
    ahead = (
        f"Ahead of it on average are: {'; '.join(reached)}"
        if reached
        else "None of ours is ahead of it on average"
    )
    rests = {name: _rests_on(scores, name, best) for name in _ALL_OURS}
    told = [
        f"{_ALL_OURS[name]} {rest[1]:+.1f} without the set {rest[0]}"
        for name, rest in rests.items()
        if rest
    ]
    hidden = f". Leads that rest on one table, in points: {'; '.join(told)}" if told else ""
    return (
        f"Mean test accuracy over {len(scores.tables)} tables in per cent: NCA with the map "
        f"{'; '.join(words)}. The highest of the four peers is {_THEIRS[best]} with {top:.1f}. "
        f"{ahead}{hidden}"
    )


def _accuracies(scores: _Scores) -> str:
    """A row for each table, the best of all methods in bold."""
    titles = {**_THEIRS, **_ALL_OURS}
    rows = []
    for name in scores.tables:
        found = {method: Summary(scores.of(name, method)) for method in titles}
        best = max(each.mean for each in found.values())
        cells = [
            f"**{each:.1f}**" if each.mean > best - _TIE else f"{each:.1f}"
            for each in found.values()
        ]
        rows.append([name, *cells])
    rows.append(["**mean**", *(f"{scores.mean(method):.1f}" for method in titles)])
    return table(["table", *titles.values()], rows)


def _against(scores: _Scores) -> str:
    """Tables on which each of ours is clearly ahead, about level, and clearly behind."""
    others = {**_THEIRS, "linear": OURS["linear"]}
    rows = []
    for ours, title in _ALL_OURS.items():
        cells = []
        for other in others:
            if other == ours:
                cells.append("–")
                continue
            gaps = [
                Summary(scores.of(n, ours) - scores.of(n, other), _TESTED) for n in scores.tables
            ]
            ahead = sum(gap.mean > _CLEAR * gap.error and gap.mean > 0 for gap in gaps)
            behind = sum(-gap.mean > _CLEAR * gap.error and gap.mean < 0 for gap in gaps)
            mean = np.mean([gap.mean for gap in gaps])
            cells.append(f"{ahead} / {len(gaps) - ahead - behind} / {behind} ({mean:+.1f})")
        rows.append([title, *cells])
    return table(["", *others.values()], rows)


def _missed(scores: _Scores, best: str) -> str:
    """By how much each of ours misses the highest mean, and on which tables most."""
    lines = []
    for ours, title in _ALL_OURS.items():
        gap = scores.mean(ours).mean - scores.mean(best).mean
        each = 100 * (scores.means(ours) - scores.means(best))
        behind = [
            f"{scores.tables[at]} {each[at]:+.1f}" for at in np.argsort(each) if each[at] < -_TIE
        ]
        ahead = [
            f"{scores.tables[at]} {each[at]:+.1f}" for at in np.argsort(-each) if each[at] > _TIE
        ]
        lines.append(
            f"{title}: {gap:+.1f} points on average; behind on {', '.join(behind) or 'none'}; "
            f"ahead on {', '.join(ahead) or 'none'}"
        )
    return bullets(*lines)


def _seconds(scores: _Scores) -> str:
    """Seconds of a core for a fit on 80 % of the rows."""
    peers = {name: title for name, title in table_peers.NAMES.items() if name != "k-NN"}
    rows = []
    for name in scores.tables:
        spent = [table_peers.scores_of(scores.peers, name, f"cpu of {peer}") for peer in peers]
        spent += [scores.of(name, f"cpu of {ours}") for ours in OURS]
        rows.append([name, *(f"{each.mean():.2f}" for each in spent)])
    return table(["table", *peers.values(), *OURS.values()], rows)


def _taken(scores: _Scores) -> str:
    """How often each candidate of each map was the best on the inner rows."""
    lines = []
    for name, candidates in CANDIDATES.items():
        places = [each.result[f"chosen of {name}"] for each in scores.done]
        words = []
        for at, each in enumerate(candidates):
            rate = "" if each["rate"] is None else f", rate {each['rate']:g}"
            words.append(f"alpha {each['alpha']:g}{rate} ({places.count(at)})")
        lines.append(f"{OURS[name]}: {'; '.join(words)}")
    return bullets(*lines)


def _choices(scores: _Scores) -> str:
    """How often each map was the best on the inner rows of a table."""
    names = (*OURS, AVERAGE)
    rows = []
    for name in scores.tables:
        taken = [chosen_of(each) for each in scores.ours(name)]
        rows.append([name, *(taken.count(each) for each in names)])
    return table(["table", *(_ALL_OURS[each] for each in names)], rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The answers of the index; the errors are those of the paired mean over splits."""
    scores = _Scores(done, read(_NUMBERS).done)
    if not scores.tables:
        return
    means = {peer: scores.mean(peer).mean for peer in _PEERS}
    best = max(means, key=means.__getitem__)
    n = len(scores.tables)
    asked = {
        f"Linear map of NCA − {_THEIRS[best]}, the best of four peers, on {n} tables":
            ("linear", best),
        f"Periodic map of NCA − {_THEIRS[best]}, the best of four peers, on {n} tables":
            ("periodic", best),
        "Periodic map of NCA − linear map, parameters chosen for each": ("periodic", "linear"),
    }  # fmt: skip
    for says, (one, other) in asked.items():
        gaps = [scores.of(name, one) - scores.of(name, other) for name in scores.tables]
        each = [Summary(gap, _TESTED) for gap in gaps]
        ahead = sum(gap.mean > _CLEAR * gap.error > 0 for gap in each)
        behind = sum(-gap.mean > _CLEAR * gap.error > 0 for gap in each)
        mean, counts = (
            Summary(np.mean(gaps, axis=0), _TESTED),
            f"ahead on {ahead}, behind on {behind}",
        )
        rest = _rests_on(scores, one, other)
        beside = f" ({rest[1]:+.1f} without the set {rest[0]})" if rest else ""
        yield Claim(
            says,
            "answer",
            fitting(f"{mean:+.1f} points{beside}; {counts}", f"{mean:+.1f}{beside}; {counts}"),
        )


def _rests_on(scores: _Scores, one: str, other: str) -> tuple[str, Summary] | None:
    """The table without which a difference would not be clear, and what it is then."""

    def sign(gap: Summary) -> int:
        return int(np.sign(gap.mean)) if abs(gap.mean) > _CLEAR * gap.error > 0 else 0

    gaps = {name: scores.of(name, one) - scores.of(name, other) for name in scores.tables}
    whole = Summary(np.mean(list(gaps.values()), axis=0), _TESTED)
    changed = {}
    for name in gaps if len(gaps) > 2 else ():
        others = [gap for each, gap in gaps.items() if each != name]
        rest = Summary(np.mean(others, axis=0), _TESTED)
        if sign(rest) != sign(whole):
            changed[name] = rest
    if not changed:
        return None
    name = max(changed, key=lambda each: abs(changed[each].mean - whole.mean))
    return name, changed[name]
