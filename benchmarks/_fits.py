"""Whole fits to the same objective: how long vicinal takes to get where a peer has got."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from _common import Options, Times, progress, ratio, seconds, table, take_turns

_SLACK = 1e-6  # what counts as the same mean p_i: a tenth of every default tolerance


class Task(NamedTuple):
    """A labelled table and the map that every library starts from."""

    name: str
    X: Any
    y: Any
    A: Any

    @property
    def d(self) -> int:
        return self.A.shape[0]


class Reached(NamedTuple):
    """How vicinal gets to a given value."""

    iterations: int  # at which the value was reached; -1 if never
    end: float  # the loss if it goes on
    end_iterations: int
    fit: Callable[[], Any]  # the fit that stops there


def load_task(name: str, d: int, standard: bool = True) -> Task:
    """One of scikit-learn's small data sets with the first d principal axes as the start."""
    from sklearn import datasets
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = StandardScaler().fit_transform(X) if standard else X
    A = PCA(n_components=d, random_state=0).fit(X).components_
    label = name.replace("_", " ") + ("" if standard else ", raw")
    return Task(f"{label} ({X.shape[0]} × {X.shape[1]})", X, y, A)


def mean_loss(task: Task, components: Any) -> float:
    """Minus the expected accuracy per row, in float64."""
    from vicinal.objectives import nca

    return nca(task.X @ components.T, task.y, "accuracy", gradient=False)[0]


def reach(task: Task, value: float) -> Reached:
    """Find the iteration at which vicinal has a loss no greater than ``value``.

    One fit in advance finds it; the fit to be timed then stops there by ``max_iter``.  Both take
    the same path to the last bit.
    """
    from vicinal import NCA

    options = {"objective": "accuracy", "alpha": 0.0, "scaling": None, "tol": 0.0}

    def fit(max_iter: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge is the point
            return NCA(task.d, init=task.A, max_iter=max_iter, **options).fit(task.X, task.y)

    model = fit(300)
    losses = np.asarray(model.history_["loss"])
    there = np.flatnonzero(losses <= value + _SLACK)
    iteration = int(model.history_["iteration"][there[0]]) if there.size else -1
    stop = max(1, iteration) if there.size else 300
    return Reached(iteration, float(losses.min()), model.n_iter_, lambda: fit(stop))


def describe(found: Reached, value: float) -> str:
    """In words, how vicinal fared against that value."""
    if found.iterations < 0:
        return f"not reached: ended at {-found.end:.4f}"
    when = "at the start" if found.iterations == 0 else f"after {found.iterations} iterations"
    deeper = "" if found.end >= value - 1e-4 else f"; goes on to {-found.end:.4f}"
    return when + deeper


def fits_section(options: Options) -> str:
    """scikit-learn's default fit, and vicinal until it has the same value."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    tasks = [("iris", 2, True), ("wine", 2, True)]
    if not options.quick:
        tasks += [("breast_cancer", 2, True), ("digits", 2, True), ("digits", 10, True)]
    rows = []
    for arguments in tasks:
        task = load_task(*arguments)
        progress(f"fits: {task.name}, d = {task.d}")
        peer = NeighborhoodComponentsAnalysis(task.d, init=task.A)

        def fit_peer(peer: Any = peer, task: Task = task) -> None:
            peer.fit(task.X, task.y)

        first = take_turns({"peer": fit_peer}, repeats=1, warm=("peer",))["peer"]
        value = mean_loss(task, peer.components_)
        found = reach(task, value)
        budget = 4.0
        calls = {"ours": found.fit} | ({"peer": fit_peer} if first.best < budget else {})
        times: dict[str, Times] = {"peer": first} | take_turns(calls, repeats=5, budget=budget)
        ours, theirs = times["ours"].median, times["peer"].median
        rows.append(
            [task.name, task.d, f"{-value:.4f}", seconds(theirs), peer.n_iter_, seconds(ours),
             ratio(theirs, ours) if found.iterations >= 0 else "–", describe(found, value)]
        )  # fmt: skip
    header = ["data", "d", "expected accuracy reached", "scikit-learn", "its iterations",
              "vicinal to the same", "ratio", "vicinal gets there"]  # fmt: skip
    notes = [
        "Accuracy objective, no penalty, no scaling of its own, both in float64 from the same "
        "principal axes; columns standardised beforehand unless marked raw. scikit-learn with its "
        "default solver and stopping rule; vicinal stopped at the first iteration with at least "
        "that value (mean p_i over the rows, to within 1e-6). Fits include all checks and what "
        "they store."
    ]
    return table(header, rows, notes)
