"""Guards against over-fitting: when to stop, and how a nonlinear map is learnt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import stratified
from reproduce.framework.statistics import Summary
from reproduce.own.paired import (
    figure,
    gain,
    over_sets,
    present,
    scores,
    subsample,
    told_over_sets,
)

#: the sets of each question: when a linear map should stop, and how one that bends is learnt
SETS = {
    "linear": ("wine", "glass", "ionosphere", "pima", "spectf", "segment", "digits"),
    "bent": ("glass", "ionosphere", "balance", "pima"),
}

#: the most rows that are taken of a set
MOST = 500

#: iterations between two looks at the held-out rows, and the number of looks
EVERY, LOOKS, HELD_OUT = 4, 25, 0.2

#: what the search for the penalty of a nonlinear map may choose
ALPHAS = (3e-4, 3e-3, 3e-2)

LOSS, ACCURACY, END, PENALTY = "held-out loss", "held-out accuracy", "never", "penalty"
BATCHES, LBFGS = "batches", "L-BFGS"
BATCHES_STOPPED, LBFGS_STOPPED = "batches, stopped", "L-BFGS, stopped"
THREE, SEARCHED = "average of three", "penalty searched"

TITLES = {
    LOSS: "stopped by the held-out loss",
    ACCURACY: "stopped by the held-out accuracy",
    END: f"after {EVERY * LOOKS} iterations",
    PENALTY: "`NCA()`, with a penalty",
    BATCHES: "Adam on batches, the default",
    LBFGS: "L-BFGS on all rows",
    BATCHES_STOPPED: "batches, early stopping",
    LBFGS_STOPPED: "L-BFGS, early stopping",
    THREE: "average of three fits",
    SEARCHED: "penalty by cross-validation",
}

#: the columns of each question; the differences are those to the first
FITS = {
    "linear": (LOSS, ACCURACY, END, PENALTY),
    "bent": (BATCHES, LBFGS, LBFGS_STOPPED, BATCHES_STOPPED, THREE, SEARCHED),
}

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every question, set and split."""
    for split in range(splits or SPLITS):
        for question, names in SETS.items():
            yield from ({"question": question, "data": name, "split": split} for name in names)


def work(question: str, data: str, split: int) -> dict[str, Any]:
    """Test accuracy of everything that a question compares."""
    X, y = protocol.data(data)
    rows = subsample(len(y), MOST)
    X, y = X[rows], y[rows]
    train, test = stratified(y, split)
    return (_linear if question == "linear" else _bent)(X, y, train, test, split)


def _linear(X: Any, y: Any, train: Any, test: Any, split: int) -> dict[str, Any]:
    """Follow a fit without a penalty, and stop it where either signal is best."""
    from sklearn.model_selection import train_test_split

    from vicinal import NCA

    by = y[train] if np.bincount(y[train])[np.unique(y[train])].min() > 1 else None
    learn, held = train_test_split(train, test_size=HELD_OUT, stratify=by, random_state=split)
    model = NCA(alpha=0.0, max_iter=EVERY, tol=None, warm_start=True, random_state=split)
    path = []
    for _ in range(LOOKS):
        model.fit(X[learn], y[learn])
        Z = model.transform(X)
        right, loss = _judged(Z, y, learn, held)
        # as after early stopping, prediction uses all training rows
        path.append((loss, -right, _judged(Z, y, train, test)[0]))
    losses, errors, worth = (np.array(column) for column in zip(*path, strict=True))
    penalised = NCA(random_state=split).fit(X[train], y[train])
    return {
        LOSS: float(worth[losses.argmin()]),
        ACCURACY: float(worth[errors.argmin()]),
        END: float(worth[-1]),
        PENALTY: float(penalised.score(X[test], y[test])),
        f"iterations, {LOSS}": int(EVERY * (1 + losses.argmin())),
        f"iterations, {ACCURACY}": int(EVERY * (1 + errors.argmin())),
    }


def _judged(Z: Any, y: Any, references: Any, queries: Any) -> tuple[float, float]:
    """Accuracy and log loss of the posterior rule."""
    from scipy.spatial.distance import cdist
    from scipy.special import logsumexp

    classes = np.unique(y)
    far = -cdist(Z[queries], Z[references], "sqeuclidean")
    known = y[references] == classes[:, None]
    log_P = np.stack(
        [logsumexp(far[:, some], axis=1) if some.any() else np.full(len(far), -np.inf)
         for some in known], axis=1,
    )  # fmt: skip
    log_P -= logsumexp(log_P, axis=1, keepdims=True)
    at = np.searchsorted(classes, y[queries])
    loss = -np.maximum(log_P[np.arange(len(at)), at], np.log(1e-10)).mean()
    return float(np.mean(log_P.argmax(axis=1) == at)), float(loss)


def _bent(X: Any, y: Any, train: Any, test: Any, split: int) -> dict[str, Any]:
    """Learn a periodic map in several ways, at the same penalty but for the search."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    from vicinal import NCA

    result: dict[str, Any] = {}

    def fitted(name: str, seed: int = split, **parameters: Any) -> Any:
        began = time.process_time()
        model = NCA(mapping="periodic", random_state=seed, **parameters).fit(X[train], y[train])
        result[f"core seconds, {name}"] = time.process_time() - began
        result[name] = float(model.score(X[test], y[test]))
        result[f"training loss, {name}"] = float(model.loss_)
        return model

    default = fitted(BATCHES)
    alpha = float(default.alpha_)
    all_rows = {"alpha": alpha, "solver": "lbfgs", "sampling": "full"}
    fitted(LBFGS, **all_rows)
    fitted(LBFGS_STOPPED, early_stopping=True, **all_rows)
    fitted(BATCHES_STOPPED, alpha=alpha, early_stopping=True)
    others = [fitted("another", seed=split + extra * SPLITS, alpha=alpha) for extra in (1, 2)]
    P = np.mean([model.predict_proba(X[test]) for model in (default, *others)], axis=0)
    result[THREE] = float(np.mean(default.classes_[P.argmax(axis=1)] == y[test]))

    began = time.process_time()
    folds = StratifiedKFold(3, shuffle=True, random_state=split)
    grid = GridSearchCV(
        NCA(mapping="periodic", random_state=split), {"alpha": ALPHAS}, cv=folds, refit=False
    )
    chosen = float(grid.fit(X[train], y[train]).best_params_["alpha"])
    seconds = time.process_time() - began
    fitted(SEARCHED, alpha=chosen)
    result[f"core seconds, {SEARCHED}"] += seconds
    return {**result, "alpha": alpha, "alpha searched": chosen}


def parts(done: list[Done]) -> dict[str, Any]:
    """A table for each question, and the answers."""
    linear, bent = _of(done, "linear"), _of(done, "bent")
    stops = {
        key: np.mean([each.result[f"iterations, {key}"] for each in linear]) if linear else 0.0
        for key in (LOSS, ACCURACY)
    }
    return {
        "finding_linear": _finding(done, "linear"),
        "finding_bent": _finding(done, "bent"),
        "linear": _table(done, "linear"),
        "bent": _table(done, "bent"),
        "details": _details(bent),
        "iterations": f"{stops[LOSS]:.0f} iterations (loss) and {stops[ACCURACY]:.0f} (accuracy)",
        "n_splits": len({each.job["split"] for each in done}),
        "most": MOST,
        "every": EVERY,
        "last": EVERY * LOOKS,
        "held": f"{100 * HELD_OUT:.0f}",
        "alphas": ", ".join(f"{alpha:g}" for alpha in ALPHAS),
    }


def _of(done: list[Done], question: str) -> list[Done]:
    return [each for each in done if each.job["question"] == question]


def _table(done: list[Done], question: str) -> str:
    here, (first, *others) = _of(done, question), FITS[question]
    names = present(SETS[question], here)
    rows: list[list[Any]] = []
    for name in names:
        cells = [f"{Summary(list(scores(here, fit, data=name).values())):.1f}"
                 for fit in (first, *others)]  # fmt: skip
        gaps = [f"{gain(here, fit, first, data=name):+.1f}" for fit in others]
        rows.append([name, *cells, *gaps])
    if names:
        gaps = [f"{over_sets(here, fit, first, names):+.2f}" for fit in others]
        rows.append(["**mean**", *[None] * (1 + len(others)), *gaps])
    titles = [TITLES[fit] for fit in (first, *others)]
    return table(["test accuracy", *titles, *(f"{TITLES[fit]} − first" for fit in others)], rows)


def _finding(done: list[Done], question: str) -> str:
    here, (first, *others) = _of(done, question), FITS[question]
    names = present(SETS[question], here)
    return "\n".join(
        f"- {TITLES[fit]}: {told_over_sets(here, fit, first, names)}." for fit in others if names
    )


def _details(done: list[Done]) -> str:
    """Training loss and seconds by set, and the penalties."""
    fits = (BATCHES, LBFGS, SEARCHED)
    rows = []
    for name in present(SETS["bent"], done):
        here = [each.result for each in done if each.job["data"] == name]
        cells = [
            f"{np.mean([each[f'{what}, {fit}'] for each in here]):.{digits}f}"
            for what, digits in (("training loss", 3), ("core seconds", 1))
            for fit in fits
        ]
        alphas = [f"{np.median([each[key] for each in here]):.2g}"
                  for key in ("alpha", "alpha searched")]  # fmt: skip
        rows.append([name, *cells, *alphas])
    titles = [f"{what}: {fit}" for what, fit in product(("training loss", "core seconds"), fits)]
    return table(["", *titles, "median alpha by rows", "searched"], rows)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The three questions."""
    asked = {
        ("linear", ACCURACY, LOSS): "early stopping by held-out accuracy against by held-out loss",
        ("linear", LOSS, PENALTY): "early stopping without a penalty against `NCA()` with one",
        ("bent", LBFGS, BATCHES): "periodic map, L-BFGS on all rows against Adam on batches",
        ("bent", SEARCHED, BATCHES): "periodic map, penalty by cross-validation, not by default",
    }
    for (question, one, other), says in asked.items():
        here = _of(done, question)
        if words := figure(here, one, other, present(SETS[question], here)):
            yield Claim(says, "answer", words)


EXPERIMENTS = (
    Experiment(
        "early-stopping",
        "Guards against over-fitting: early stopping, batches, and the penalty of nonlinear maps",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
