"""Oneață's linear baselines on the large sets (table 5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce import protocol
from reproduce.experiment import Done, Experiment, Job
from reproduce.protocol import Summary, knn, rows_70_30, summary
from reproduce.report import Published, distance, table, verdict

#: table 5.3: d = 5, 1-NN
LINEAR = {
    "usps": {"PCA": (73.47, 0.13), "LDA": (87.44, 0.12), "RCA": (87.42, 0.13)},
    "magic": {"PCA": (77.097, 0.080), "LDA": (76.17, 0.29), "RCA": (77.574, 0.078)},
    "mnist": {"PCA": (70.13,), "LDA": (9.96,), "RCA": (79.11,)},
}
METHODS = {
    "PCA": ("PCA", "PCA, whitened"),
    "LDA": ("LDA", "LDA of scikit-learn"),
    "RCA": ("RCA",),
}


def jobs(splits: int | None) -> Iterator[Job]:
    """Random splits of usps and magic; mnist has its own."""
    yield {"data": "mnist", "split": 0}
    for split, name in product(range(splits or 20), ("usps", "magic")):
        yield {"data": name, "split": split}


def work(data: str, split: int) -> dict[str, Any]:
    """1-NN after each map to 5 dimensions, columns raw and standardised."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    from vicinal import RCA, initialise
    from vicinal._features import Features

    X, y = protocol.data(data)
    X = X.astype(np.float32 if data == "mnist" else np.float64)
    train, test = protocol.official(data) if data == "mnist" else rows_70_30(len(y), split)
    rng = np.random.RandomState(0)

    def one_nn(A: Any) -> float:
        return knn(X[train] @ A.T, y[train], X[test] @ A.T, y[test])

    results = {}
    for scaling, words in ((None, "raw"), ("standard", "standardised")):
        features = Features(X[train], scaling)
        starts = {
            "PCA": initialise.PCA(whiten=False),
            "PCA, whitened": initialise.PCA(),
            "LDA": initialise.LDA(),
        }
        for name, start in starts.items():
            A = start(features, y[train], 5, rng) * features.scale
            results[f"{name}, {words}"] = one_nn(A)
        results[f"RCA, {words}"] = one_nn(
            RCA(5, scaling=scaling).fit(X[train], y[train]).components_
        )
    peer = LinearDiscriminantAnalysis(n_components=min(5, len(np.unique(y)) - 1))
    Z = peer.fit(X[train], y[train]).transform(X[train])
    # without shrinkage scikit-learn's map is the same up to a rotation for any scaling
    results["LDA of scikit-learn, raw"] = knn(Z, y[train], peer.transform(X[test]), y[test])
    return results


def report(done: list[Done], folder: Path) -> str:
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
    return f"""{_finding(done)}

{table(head, rows)}

1-NN accuracy on the test rows in per cent, mean ± standard error over the splits; differences in
standard errors of the difference, **bold** where ours is worse by more than three; in points where
there is one split only.

## Reading it

- **PCA** fits raw and *not* whitened: within three standard errors on usps and magic, under a point
  on mnist. Whitened, as the thesis writes it, magic is off; standardised, usps is off by five
  points.
- **LDA and RCA** are one map here: d = 5 is less than the number of classes on the digits, and as
  long as the within-class scatter is regular both take the same directions at the same scale.
  Hence their equal figures, in the thesis too (usps).
- **magic** has two classes, so that LDA has one direction to offer and scikit-learn's stops there.
  Vicinal fills the other four from the total scatter; all have the same eigenvalue, so that
  rounding chooses among them, and raw and standardised differ. The thesis's 76.17 may be such a
  choice as well.
- **mnist** has pixels that never vary, hence a singular within-class scatter. The thesis's LDA
  fails on it (9.96 % is chance); vicinal's and scikit-learn's do not, and give what the thesis's
  RCA gives.

## Protocol and assumptions

Oneață 2011, table 5.3. 20 random splits into 70 % and 30 % for usps and magic, the official one for
mnist; d = 5; one nearest neighbour. PCA and LDA are `vicinal.initialise.PCA` and `LDA`, RCA is
`vicinal.RCA`, which shrinks the within-class scatter only where it is singular. The thesis does not
say whether columns were standardised, and defines PCA as the whitened S^(-1/2); all four
combinations are shown. That its figures are raw and not whitened was read off these scores."""


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
        "On raw columns and without whitening (both read off these scores) vicinal's PCA, LDA and "
        f"RCA give the thesis's figures {', '.join(words[:-1])} and {words[-1]}. The thesis's LDA "
        "on mnist is a failure of its own."
    )


EXPERIMENTS = (
    Experiment(
        "oneata-table-5.3",
        "PCA, LDA and RCA on the large sets (Oneață 2011, table 5.3)",
        jobs,
        work,
        report,
    ),
)
