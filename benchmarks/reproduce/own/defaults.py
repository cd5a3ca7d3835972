"""What a user who reads nothing gets: our classifiers with defaults, against their peers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

from reproduce.framework import protocol
from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import SMALL, knn, stratified
from reproduce.own.defaults_report import SEARCHED_SPLITS, claims, parts


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set and split; all methods within the job, on the same rows."""
    for split, name in product(range(splits or 10), SMALL):
        yield {"data": name, "split": split}


def score_all(data: str, split: int) -> dict[str, Any]:
    """Test accuracy of every method on one split, and the seconds of all fits."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis as PeerNCA
    from sklearn.preprocessing import StandardScaler

    from vicinal import KNCA, LMNN, NCA

    X, y = protocol.data(data)
    train, test = stratified(y, split)
    columns = StandardScaler().fit(X[train])
    S, S_test = columns.transform(X[train]), columns.transform(X[test])
    scores = {"5-NN": knn(S, y[train], S_test, y[test], 5)}

    began = time.perf_counter()
    peer = PeerNCA(random_state=split).fit(S, y[train])
    scores["seconds of scikit-learn"] = time.perf_counter() - began
    scores["scikit-learn"] = knn(peer.transform(S), y[train], peer.transform(S_test), y[test], 5)

    def fitted(name: str, model: Any) -> Any:
        began = time.perf_counter()
        model.set_params(random_state=split).fit(X[train], y[train])
        scores[f"seconds of {name}"] = time.perf_counter() - began
        scores[name] = float(model.score(X[test], y[test]))
        return model

    model = fitted("NCA", NCA())
    scores["alpha"] = float(model.alpha_)
    Z, Z_test = model.transform(X[train]), model.transform(X[test])
    scores["NCA 5-NN"] = knn(Z, y[train], Z_test, y[test], 5)
    for k in ("auto", "local"):
        model.set_params(rule="knn", n_neighbors=k)
        scores[f"NCA {k}"] = float(model.score(X[test], y[test]))
    fitted("NCA fixed", NCA(alpha=3e-3))
    fitted("NCA periodic", NCA(mapping="periodic"))
    fitted("KNCA", KNCA())
    fitted("LMNN", LMNN())
    if split < SEARCHED_SPLITS:
        scores["chosen rank"] = float(fitted("NCA rank", NCA("auto")).n_components_)
    return scores


EXPERIMENTS = (
    Experiment(
        "defaults",
        "The defaults of NCA, KNCA and LMNN against scikit-learn's NCA on eleven small sets",
        jobs,
        score_all,
        parts,
        claims=claims,
    ),
)
