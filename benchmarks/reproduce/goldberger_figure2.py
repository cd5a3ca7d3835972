"""Goldberger et al. figure 2: rings, wine, faces and digits in two dimensions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce import goldberger_maps as maps
from reproduce.experiment import Experiment, Job
from reproduce.goldberger_figure2_report import report
from reproduce.protocol import data as stored
from reproduce.protocol import knn, stratified
from vicinal import NCA
from vicinal.initialise import Random

SETS = ("rings", "wine", "faces", "digits")
SPLITS = 10
PERSONS = 18
DIGIT_ROWS = 200  # of each digit

#: settings of NCA on the rings: words, parameters
SETTINGS: dict[str, dict[str, Any]] = {
    "f, α = 0": {"objective": "accuracy", "alpha": 0.0},
    "f, α = 0.003": {"objective": "accuracy"},
    "log, α = 0": {"alpha": 0.0},
    "defaults (log, α = 0.003)": {},
}
STARTS: dict[str, Any] = {
    "auto": "auto",
    "pca": "pca",
    "lda": "lda",
    "random": "random",
    "random, best of 10": Random(n_init=10),
}


def jobs(splits: int | None) -> Iterator[Job]:
    """The pictures, accuracy on rows held out, and the rings from many starts."""
    for name in SETS:
        yield {"data": name, "part": "picture", "split": 0}
    for name, split in product(SETS, range(splits or SPLITS)):
        yield {"data": name, "part": "held out", "split": split}
    # not the draws 0 to 7, on which the size of the smaller starts was chosen
    for split in range(100, 100 + (splits or SPLITS)):
        yield {"data": "rings", "part": "starts", "split": split}


def work(data: str, part: str, split: int) -> dict[str, Any]:
    """Embedded rows and their accuracy, accuracy on other rows, or the outcome of the starts."""
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
    return {
        name: knn(X[train] @ A.T, y[train], X[test] @ A.T, y[test])
        for name, A in all_maps(data, X[train], y[train], split).items()
    }


def all_maps(name: str, X: Any, y: Any, seed: int) -> dict[str, Any]:
    """The paper's three columns, and NCA as vicinal has it by default."""
    # wine alone has columns in units of their own
    units = name == "wine"
    starts = [maps.rca(X, y, 2, "oas"), maps.pca(X, y, standard=units)]
    starts += list(np.random.RandomState(seed).normal(size=(8, 2, X.shape[1])) / X.std())
    scaling = "standard" if units else "global"
    return {
        "PCA": maps.pca(X, y, standard=units),
        "LDA": maps.lda(X, y),
        "NCA": maps.nca_of_the_paper(X, y, starts, scaling=scaling).components_,
        "NCA, defaults": NCA(2, random_state=seed).fit(X, y).components_,
    }


def compare_starts(X: Any, y: Any, seed: int) -> dict[str, Any]:
    """Loss, accuracy and seconds from each start, the scale of the start ours or the paper's."""
    result = {}
    for setting, parameters in SETTINGS.items():
        for words, start in STARTS.items():
            result[f"{setting}, {words}"] = fit_rings(X, y, seed, init=start, **parameters)
    paper = SETTINGS["f, α = 0"]
    for words in ("auto", "pca", "lda", "random"):
        # no step at all: the start, as vicinal scales it
        A = NCA(2, init=words, random_state=seed, tol=1e300, **paper).fit(X, y).components_
        small = maps.sized(A, X)
        result[f"f, α = 0, smaller start, {words}"] = fit_rings(X, y, seed, init=small, **paper)
    return result


def fit_rings(X: Any, y: Any, seed: int, **parameters: Any) -> dict[str, float]:
    """One fit; "noise" is the share of the third column in the squared norm of the map."""
    began = time.perf_counter()
    model = NCA(2, random_state=seed, **parameters).fit(X, y)
    seconds = time.perf_counter() - began
    A = model.components_ * X.std(axis=0)
    start = NCA(2, random_state=seed, tol=1e300, **parameters).fit(X, y)  # no step at all
    return {
        "neighbours": start.mean_effective_n_neighbors_,
        "loss": model.objective_,
        "score": maps.leave_one_out(model.transform(X), y),
        "noise": float((A[:, 2] ** 2).sum() / (A**2).sum()),
        "seconds": seconds,
    }


def rows_of(name: str, seed: int) -> tuple[Any, Any]:
    """Rows in the columns of the paper, as nearly as our sets allow, and classes."""
    if name == "rings":
        return rings(500, seed)
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


def rings(n: int, seed: int, n_classes: int = 5) -> tuple[Any, Any]:
    """Circles of radius 0.2 to 1 in a plane, and a third column of noise of variance one.

    The draws are those of ``vicinal.datasets.make_rings``, which shall take its place.
    """
    rng = np.random.RandomState(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    angle = rng.uniform(0, 2 * np.pi, size=n)
    radius = (y + 1) / n_classes + 0.02 * rng.standard_normal(n)
    noise = rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), noise]), y


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
        report,
    ),
)
