"""What a user who reads nothing gets: NCA() beside 5-NN and scikit-learn's NCA."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL, knn, stratified
from reproduce.framework.statistics import Summary

#: columns of the table, in order; the first is the bar to clear, the second the peer to pass
METHODS = {
    "5-NN": "5-NN on standardised columns",
    "scikit-learn": "scikit-learn's NCA, then 5-NN",
    "NCA": "`NCA()`",
    "NCA 5-NN": "`NCA()`, then 5-NN",
    "NCA auto": '`NCA(rule="knn", n_neighbors="auto")`',
    "NCA local": '`NCA(rule="knn", n_neighbors="local")`',
}


#: searches, on the first splits alone
SEARCHES = {"NCA alpha": '`NCA(alpha="auto")`', "NCA rank": '`NCA("auto")`'}


SEARCHED_SPLITS = 5


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all methods within the job, on the same rows."""
    for split, name in product(range(splits or 20), SMALL):
        yield {"data": name, "split": split}


def score_all(data: str, split: int) -> dict[str, Any]:
    """Test accuracy of every method on one split, and the seconds of the two fits to compare."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis as PeerNCA
    from sklearn.preprocessing import StandardScaler

    from vicinal import NCA

    X, y = protocol.data(data)
    train, test = stratified(y, split)
    columns = StandardScaler().fit(X[train])
    S, S_test = columns.transform(X[train]), columns.transform(X[test])
    scores = {"5-NN": knn(S, y[train], S_test, y[test], 5)}

    began = time.perf_counter()
    peer = PeerNCA(random_state=split).fit(S, y[train])
    scores["seconds of scikit-learn"] = time.perf_counter() - began
    scores["scikit-learn"] = knn(peer.transform(S), y[train], peer.transform(S_test), y[test], 5)

    began = time.perf_counter()
    model = NCA(random_state=split).fit(X[train], y[train])
    scores["seconds of NCA"] = time.perf_counter() - began
    scores["NCA"] = float(model.score(X[test], y[test]))
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    scores["NCA 5-NN"] = knn(Z, y[train], Z_test, y[test], 5)
    for k in ("auto", "local"):
        model.set_params(rule="knn", n_neighbors=k)
        scores[f"NCA {k}"] = float(model.score(X[test], y[test]))
    searches = (("alpha", {"alpha": "auto"}), ("rank", {"n_components": "auto"}))
    for key, parameters in searches if split < SEARCHED_SPLITS else ():
        model = NCA(random_state=split, **parameters).fit(X[train], y[train])
        scores[f"NCA {key}"] = float(model.score(X[test], y[test]))
        scores[f"chosen {key}"] = float(model.alpha_ if key == "alpha" else model.n_components_)
    return scores


def parts(done: list[Done]) -> dict[str, Any]:
    """The table, and the two conditions that the defaults must meet."""
    names = [name for name in SMALL if any(each.job["data"] == name for each in done)]
    scores = {
        (name, method): np.array([d.result[method] for d in done if d.job["data"] == name])
        for name in names
        for method in METHODS
    }
    rows, behind = [], []
    for name in names:
        gain = Summary(scores[name, "NCA"] - scores[name, "5-NN"])
        z = gain.mean / gain.error if gain.error else 0.0
        if z < -3:
            behind.append(name)
        cells = [Summary(scores[name, method]) for method in METHODS]
        rows.append([name, *cells, f"{gain:+.1f}"])
    # the standard error of a mean over the sets, whose splits are independent of each other
    per_split = {
        method: np.mean([scores[name, method] for name in names], axis=0) for method in METHODS
    }
    mean = {method: Summary(per_split[method]) for method in METHODS}
    gain = Summary(per_split["NCA"] - per_split["5-NN"])
    rows.append(["**mean**", *mean.values(), f"{gain:+.1f}"])
    ahead = Summary(per_split["NCA"] - per_split["scikit-learn"])
    ahead_votes = Summary(per_split["NCA 5-NN"] - per_split["scikit-learn"])
    seconds = {
        who: np.mean([d.result[f"seconds of {who}"] for d in done])
        for who in ("scikit-learn", "NCA")
    }
    n_splits = len({each.job["split"] for each in done})
    worse = f"worse on {', '.join(behind)}" if behind else "worse on none of them"
    some = [d for d in done if "NCA alpha" in d.result]
    return {
        "ahead": f"{ahead.mean:.1f}",
        "ahead_error": f"{ahead.error:.1f}",
        "n_sets": len(names),
        "ahead_by_votes": f"{ahead_votes.mean:.1f}",
        "ahead_by_votes_error": f"{ahead_votes.error:.1f}",
        "worse": worse,
        "table": table(["set", *METHODS.values(), "`NCA()` − 5-NN"], rows),
        "n_splits": n_splits,
        "scikit_learn": f"{seconds['scikit-learn']:.2f}",
        "nca": f"{seconds['NCA']:.2f}",
        "searched_splits": SEARCHED_SPLITS,
        "searches": _searches(
            some, [name for name in names if any(d.job["data"] == name for d in some)]
        ),
    }


def _searches(done: list[Done], names: list[str]) -> str:
    """Accuracy with alpha or rank on "auto", and what was chosen."""
    rows: list[list[Any]] = []
    methods = ("NCA", *SEARCHES)
    for name in names:
        here = [d.result for d in done if d.job["data"] == name]
        row: list[Any] = [name]
        for method in methods:
            row.append(Summary([result[method] for result in here]))
            if method in SEARCHES:
                values = [result[f"chosen {method.removeprefix('NCA ')}"] for result in here]
                counted = zip(*np.unique(values, return_counts=True), strict=True)
                row.append(", ".join(f"{value:g} ({count})" for value, count in counted))
        rows.append(row)
    means: list[Any] = ["**mean**"]
    for method in methods:
        means.append(f"{np.mean([100 * d.result[method] for d in done]):.2f}")
        if method in SEARCHES:
            gap = Summary(
                [
                    np.mean([d.result[method] - d.result["NCA"] for d in done
                             if d.job["data"] == name])
                    for name in names
                ]
            )  # fmt: skip
            means.append(f"{gap:+.2f} to `NCA()`, over the sets")
    titles = ["set", "`NCA()`"]
    for title in SEARCHES.values():
        titles += [title, "chose"]
    return table(titles, [*rows, means])


EXPERIMENTS = (
    Experiment(
        "defaults",
        "The defaults beside 5-NN and scikit-learn's NCA on eleven small sets",
        jobs,
        score_all,
        parts,
    ),
)
