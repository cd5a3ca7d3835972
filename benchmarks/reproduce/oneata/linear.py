"""Oneață's linear baselines on the large sets (table 5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import knn, rows_70_30
from reproduce.framework.statistics import Summary, distance, summary, verdict
from reproduce.oneata.common import PLAIN, OwnScale, Published
from reproduce.oneata.judging import APART, NEAR, ONE, n_splits

#: table 5.3: d = 5, 1-NN
LINEAR = {
    "usps": {"PCA": (73.47, 0.13), "LDA": (87.44, 0.12), "RCA": (87.42, 0.13)},
    "magic": {"PCA": (77.097, 0.080), "LDA": (76.17, 0.29), "RCA": (77.574, 0.078)},
    "mnist": {"PCA": (70.13,), "LDA": (9.96,), "RCA": (79.11,)},
}


METHODS = {"PCA": ("PCA", "PCA, whitened"), "LDA": ("LDA", "LDA of scikit-learn"), "RCA": ("RCA",)}


def jobs(splits: int | None) -> Iterator[Job]:
    """Random splits of usps and magic; mnist has its own."""
    yield {"data": "mnist", "split": 0}
    for split, name in product(range(splits or 20), ("usps", "magic")):
        yield {"data": name, "split": split}


def work(data: str, split: int) -> dict[str, Any]:
    """1-NN after each map to 5 dimensions, columns raw and standardised."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    from vicinal import NCA, RCA, starts

    X, y = protocol.data(data)
    X = X.astype(np.float32 if data == "mnist" else np.float64)
    train, test = protocol.official(data) if data == "mnist" else rows_70_30(len(y), split)

    def one_nn(A: Any) -> float:
        return knn(X[train] @ A.T, y[train], X[test] @ A.T, y[test])

    results = {}
    for scaling, words in ((None, "raw"), ("standard", "standardised")):
        named = {
            "PCA": starts.PCA(whiten=False),
            "PCA, whitened": starts.PCA(),
            "LDA": starts.LDA(),
        }
        for name, start in named.items():
            # any gradient of all rows is below this tolerance: the map is the start
            options = PLAIN | {"scaling": scaling, "sampling": "full"}
            still = NCA(5, **options, init=OwnScale(start), tol=1e300)
            results[f"{name}, {words}"] = one_nn(still.fit(X[train], y[train]).components_)
        results[f"RCA, {words}"] = one_nn(
            RCA(5, scaling=scaling).fit(X[train], y[train]).components_
        )
    peer = LinearDiscriminantAnalysis(n_components=min(5, len(np.unique(y)) - 1))
    Z = peer.fit(X[train], y[train]).transform(X[train])
    # without shrinkage scikit-learn's map is the same up to a rotation for any scaling
    results["LDA of scikit-learn, raw"] = knn(Z, y[train], peer.transform(X[test]), y[test])
    return results


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, table, protocol."""

    rows = []
    for name, papers in LINEAR.items():
        for family, methods in METHODS.items():
            paper = Published(*papers[family])
            for method in methods:
                raw = _ours(done, name, method, "raw")
                std = _ours(done, name, method, "standardised")
                rows.append(
                    [name, method, paper, raw, verdict(raw, paper), std, verdict(std, paper)]
                )
    head = ["data", "map to d = 5", "paper", "raw", "difference", "standardised", "difference"]
    return {
        "finding": _finding(done),
        "table": table(head, rows),
        "nearest": _nearest(done),
        "read_off": _read_off(done),
        "splits": len({each.job["split"] for each in done if each.job["data"] != "mnist"}),
    }


def _nearest(done: list[Done]) -> str:
    """Which PCA comes nearest to the thesis's figure, set by set."""
    told = []
    for name, papers in LINEAR.items():
        gaps = {}
        for method, words in product(METHODS["PCA"], ("raw", "standardised")):
            ours = _ours(done, name, method, words)
            if ours is not None:
                kind = "whitened" if method.endswith("whitened") else "not whitened"
                gaps[f"{words}, {kind}"] = abs(ours.mean - papers["PCA"][0])
        if gaps:
            told.append(f"{name} {min(gaps, key=lambda way: gaps[way])}")
    return "; ".join(told) or "(not run yet)"


def _read_off(done: list[Done]) -> str:
    """Which of the four kinds of PCA agree with the thesis on every set."""
    agree = []
    for method, words in product(METHODS["PCA"], ("raw", "standardised")):
        pairs = [(_ours(done, name, method, words), LINEAR[name]["PCA"]) for name in LINEAR]
        if all(ours is not None and _near(done, name, ours, Published(*paper))
               for name, (ours, paper) in zip(LINEAR, pairs, strict=True)):  # fmt: skip
            kind = "with" if method.endswith("whitened") else "without"
            agree.append(f"{words} columns {kind} whitening")
    limits = "within three standard errors (one split: a point)"
    if not agree:
        return f"none of the four kinds of PCA agrees with the thesis on every set, {limits}."
    only = "only " if len(agree) == 1 else ""
    verb = "agree" if len(agree) == 1 else "both agree" if len(agree) == 2 else "all agree"
    return (
        f"of the four kinds of PCA {only}{' and '.join(agree)} {verb} with the thesis on every "
        f"set, {limits}."
    )


def _near(done: list[Done], name: str, ours: Summary, paper: Published) -> bool:
    """Whether a score agrees with a published one: neither above nor below."""
    if n_splits(done, data=name) < 2:
        return abs(ours.mean - paper.mean) <= NEAR
    return abs(distance(ours, paper)) <= APART


def claims(done: list[Done]) -> Iterator[Claim]:
    """The figures of the table: neither more nor less, since nothing is optimised."""
    for family in METHODS:
        votes, figures = [], []
        for name, row in LINEAR.items():
            ours, paper = _ours(done, name, family, "raw"), Published(*row[family])
            if ours is not None:
                votes.append(_near(done, name, ours, paper))
                one = n_splits(done, data=name) < 2
                figures.append(f"{name} {ours.mean:.1f}{ONE}" if one else f"{name} {ours:.1f}")
        theirs = ", ".join(f"{name} {row[family][0]:.1f}" for name, row in LINEAR.items())
        if votes:
            yield Claim(
                f"{family} to five dimensions and 1-NN (raw): {theirs} %",
                "seen" if all(votes) else "partly" if any(votes) else "not seen",
                ", ".join(figures),
            )


def _ours(done: list[Done], name: str, method: str, words: str) -> Summary | None:
    key = f"{method}, {words}"
    return summary([each for each in done if key in each.result], key, data=name)


def _finding(done: list[Done]) -> str:
    """On each set, how near the raw maps come, and which do not."""
    words = []
    for name, papers in LINEAR.items():
        single = len(papers["PCA"]) == 1  # one split: points, not standard errors
        aside = []
        for family, figures in papers.items():
            ours, paper = _ours(done, name, family, "raw"), Published(*figures)
            if ours is not None:
                gap = ours.mean - paper.mean if single else distance(ours, paper)
                if abs(gap) > (1.0 if single else 3.0):
                    aside.append(f"{family} aside, {ours} % where the thesis has {paper} %")
        text = f"within {'a point' if single else 'three standard errors'} on {name}"
        words.append(text + (f" ({'; '.join(aside)})" if aside else ""))
    return (
        "On raw columns and without whitening (see the protocol) vicinal's PCA, LDA and "
        f"RCA give the thesis's figures {', '.join(words[:-1])} and {words[-1]}. The thesis's LDA "
        "on mnist is a failure of its own."
    )


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.3",
        "PCA, LDA and RCA on the large sets (Oneață 2011, table 5.3)",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
