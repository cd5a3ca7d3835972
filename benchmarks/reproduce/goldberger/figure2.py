"""Goldberger et al. figure 2: rings, wine, faces and digits in two dimensions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data as stored
from reproduce.framework.protocol import knn, stratified
from reproduce.goldberger import maps
from reproduce.goldberger.figure2_report import DEFAULTS, PAPER, claims, draw, parts
from vicinal import NCA
from vicinal.datasets import make_rings
from vicinal.starts import Random

SETS = ("rings", "wine", "faces", "digits")


SPLITS = 10


PERSONS = 18


DIGIT_ROWS = 200  # of each digit


#: settings of NCA on the rings: words, parameters
SETTINGS: dict[str, dict[str, Any]] = {
    PAPER: {"objective": "accuracy", "alpha": 0.0},
    "log, α = 0": {"alpha": 0.0},
    DEFAULTS: {},
}


STARTS: dict[str, Any] = {
    "auto": "auto",
    "pca": "pca",
    "random": "random",
    "random, best of 10": Random(n_init=10),
}


def jobs(splits: int | None) -> Iterator[Job]:
    """The pictures, accuracy on rows held out, and the rings from many starts."""
    for name in SETS:
        yield {"data": name, "part": "picture", "split": 0}
    for name, split in product(SETS, range(splits or SPLITS)):
        yield {"data": name, "part": "held out", "split": split}
    # other draws than those of the pictures
    for split in range(100, 100 + (splits or SPLITS)):
        yield {"data": "rings", "part": "starts", "split": split}


def work(data: str, part: str, split: int) -> dict[str, Any]:
    """Embedded rows, accuracy on rows learnt from and held out, or the outcome of the starts."""
    X, y = rows_of(data, split)
    if part == "starts":
        return compare_starts(X, y, split)
    if part == "picture":
        found = {name: X @ A.T for name, A in all_maps(data, X, y, split).items()}
        scores = {name: maps.leave_one_out(Z, y) for name, Z in found.items()}
        return {
            "y": y.tolist(),
            "Z": {name: rounded(Z) for name, Z in found.items()},
            "score": scores,
        }
    train, test = stratified(y, split)
    result = {}
    for name, A in all_maps(data, X[train], y[train], split).items():
        Z = X @ A.T
        result[f"{name}, train"] = maps.leave_one_out(Z[train], y[train])
        result[f"{name}, test"] = knn(Z[train], y[train], Z[test], y[test])
    return result


def all_maps(name: str, X: Any, y: Any, seed: int) -> dict[str, Any]:
    """The paper's three columns, and NCA as vicinal has it by default."""
    units = name == "wine"  # the others have columns of one kind
    paper = NCA(
        2,
        objective="accuracy",
        alpha=0.0,
        scaling="standard" if units else "global",
        random_state=seed,
    )
    return {
        "PCA": maps.pca(X, y, standard=units),
        "LDA": maps.lda(X, y),
        "NCA": paper.fit(X, y).components_,
        "NCA, defaults": NCA(2, random_state=seed).fit(X, y).components_,
    }


def compare_starts(X: Any, y: Any, seed: int) -> dict[str, Any]:
    """Loss, accuracy, neighbours at the start and seconds of each setting from each start."""
    result = {}
    for (setting, parameters), (words, start) in product(SETTINGS.items(), STARTS.items()):
        model = NCA(2, random_state=seed, init=start, **parameters)
        many = isinstance(start, Random)
        began = time.process_time()
        model.fit(X, y)
        seconds = time.process_time() - began
        still = clone(model).set_params(tol=1e300, alpha=model.alpha_)  # no step at all
        result[f"{setting}; {words}"] = {
            "loss": model.loss_,
            "score": maps.leave_one_out(model.transform(X), y),
            "neighbours": None if many else still.fit(X, y).effective_n_neighbors().mean(),
            "seconds": seconds,
        }
    return result


def rows_of(name: str, seed: int) -> tuple[Any, Any]:
    """Rows in the columns of the paper, as nearly as our sets allow, and classes."""
    if name == "rings":
        return make_rings(500, random_state=seed)
    X, y = stored({"wine": "wine", "faces": "olivetti", "digits": "usps"}[name])
    X = X.astype(float)
    if name == "faces":
        return smaller(X[y < PERSONS], 64, 4), y[y < PERSONS]
    if name == "digits":
        order = np.random.RandomState(seed).permutation(len(y))
        rows = np.concatenate([order[y[order] == c][:DIGIT_ROWS] for c in range(1, 6)])
        return smaller(X[rows], 16, 2), y[rows]
    return X, y


def smaller(X: Any, side: int, factor: int) -> Any:
    """Square images, each block of ``factor`` times ``factor`` pixels replaced by its mean."""
    blocks = X.reshape(len(X), side // factor, factor, side // factor, factor)
    return blocks.mean(axis=(2, 4)).reshape(len(X), -1)


def rounded(Z: Any) -> list[list[float]]:
    """Centred, of unit size, three digits: enough for a picture, and short in the store."""
    Z = Z - Z.mean(axis=0)
    if Z.shape[1] == 1:  # LDA of two classes
        Z = np.column_stack([Z, np.zeros(len(Z))])
    return np.round(Z / np.abs(Z).max(), 4).tolist()


EXPERIMENTS = (
    Experiment(
        "goldberger-figure-2",
        "Goldberger et al. figure 2: rings, wine, faces and digits in two dimensions",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z", "y"),
        claims=claims,
    ),
)
