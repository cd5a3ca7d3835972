"""What the experiments on Oneață's thesis share: fits, scores, starts of its scale, verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduce.framework import statistics
from reproduce.framework.pages import bullets, table
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import Summary, distance, summary, verdict
from vicinal import starts

#: plain NCA: the accuracy objective of eq. (3.3) without a penalty, columns standardised
PLAIN: dict[str, Any] = {"objective": "accuracy", "alpha": 0.0, "scaling": "standard"}


#: early stopping as in section 5.3.2: 5 % of the rows held out, a patience of 25 iterations
EARLY: dict[str, Any] = {
    "early_stopping": True,
    "validation_fraction": 0.05,
    "n_iter_no_change": 25,
}


class Published(statistics.Published):
    """A figure as the thesis prints it: two digits of the error, the mean to the same decimal."""

    def __str__(self) -> str:
        if not self.error:
            return super().__str__()
        decimals = 1 - math.floor(math.log10(self.error))
        return f"{self.mean:.{decimals}f} ± {self.error:.{decimals}f}"


def expected_accuracy(Z: Any, y: Any, **how: Any) -> float:
    """f(A) / N: the mean probability of picking a neighbour of one's own class.

    ``how``: the kernel and the background, where they are not those of plain NCA.
    """
    from vicinal.objectives import nca

    Z = np.asarray(Z, dtype=np.float64)
    return float(-nca(Z, y, objective="accuracy", warn=False, gradient=False, **how)[0])


def scores(model: Any, X: Any, y: Any, train: Any, test: Any) -> dict[str, float]:
    """Train score, test scores of both rules, and the work done, of a fitted NCA."""
    Z = model.transform(X[train])
    return {
        "train": expected_accuracy(Z, y[train]),
        "1-NN": knn(Z, y[train], model.transform(X[test]), y[test]),
        "NCA": float(model.score(X[test], y[test])),
        "iterations": float(model.n_iter_),
        "evaluations": float(model.history_["n_evaluations"][-1]),
    }


def leave_one_out(X: Any, y: Any) -> float:
    """Accuracy of each row's nearest other; of ties the first in the file, as MATLAB's min."""
    from scipy.spatial.distance import cdist

    d2 = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(d2, np.inf)
    return float(np.mean(y[d2.argmin(axis=1)] == y))


def plain_exponentials(A: Any, X: Any, y: Any, train: Any, test: Any) -> dict[str, float]:
    """Scores of a map by the thesis's listing A.1: exp(-d²) as it is, and p = max(p, eps).

    A row whose exponentials all vanish has p = eps, and as a test row goes to class number 1, taken
    to be the one that comes first in the file.
    """
    from scipy.spatial.distance import cdist

    Z, Z_test = X[train] @ A.T, X[test] @ A.T
    K = np.exp(-cdist(Z, Z, "sqeuclidean"))
    np.fill_diagonal(K, 0.0)
    alive = K.sum(axis=1) > 0
    p = np.divide(
        (K * (y[train][:, None] == y[train])).sum(axis=1), K.sum(axis=1),
        out=np.zeros(len(K)), where=alive,
    )  # fmt: skip
    order = y[np.sort(np.unique(y, return_index=True)[1])]
    K = np.exp(-cdist(Z_test, Z, "sqeuclidean"))
    mass = np.stack([K[:, y[train] == label].sum(axis=1) for label in order], axis=1)
    return {
        "train": float(p.mean()),
        "1-NN": knn(Z, y[train], Z_test, y[test]),
        "NCA": float(np.mean(order[mass.argmax(axis=1)] == y[test])),
        "vanished": float(1.0 - alive.mean()),
    }


def flatten(results: dict[str, dict[str, float]]) -> dict[str, float]:
    """Results of several variants in one dict, as ``summary`` wants them."""
    return {
        f"{name}: {key}": value for name, each in results.items() for key, value in each.items()
    }


@dataclass(frozen=True, eq=False)
class OwnScale(starts.Given):
    """A start at the scale its formula gives it, and not at one chosen by the objective.

    ``S^(-1/2)`` for PCA, ``V' S_W V = I`` for LDA and RCA: the thesis knows no other scale.  To the
    estimator it is an array of the user's, which it takes as it is; but computed inside the fit,
    from the rows that are learnt from alone.  ``array`` is the name of the start.
    """

    def __call__(self, X: Any, codes: Any, n_components: int, rng: Any, weight: Any = None) -> Any:
        return starts.resolve(self.array)(X, codes, n_components, rng, weight) * X.scale


def random_start(
    X: Any, d: int, seed: int, size: float = 0.01, scaling: str | None = "standard"
) -> Any:
    """``size * randn(d, D)`` on the scaled columns; 0.01 is what section 3.3.3 cites."""
    A = size * np.random.RandomState(seed).normal(size=(d, X.shape[1]))
    if scaling is None:
        return A
    spread = X.std(axis=0)
    return np.divide(A, spread, out=np.zeros_like(A), where=spread > 0)


#: columns of the sets that are mapped at full rank: pages are rendered without the data
COLUMNS = {"balance": 4, "ionosphere": 33, "iris": 4, "wine": 13}


def rank(name: str, d: str | int) -> int:
    """The number of dimensions; "D" is that of the columns."""
    return COLUMNS[name] if d == "D" else int(d)


def of(done: list[Any], variant: str, score: str, **where: Any) -> Summary | None:
    """Mean and error of one score of one variant of ``flatten``."""
    key = f"{variant}: {score}"
    return summary([each for each in done if key in each.result], key, **where)


class Beside:
    """Our means against figures of the thesis, for cells of data set, d and rule.

    ``paper(name, d, rule, column)`` is the figure of a column of the thesis's table.
    """

    def __init__(self, done: list[Any], rows: Iterable[tuple[str, int]], rules: tuple[str, ...],
                 paper: Callable[..., Published]) -> None:  # fmt: skip
        self.done, self.paper = done, paper
        self.cells = [(name, d, rule) for name, d in rows for rule in rules]

    def ours(self, name: str, d: int, rule: str, fit: str) -> Summary | None:
        """Mean and error of a fit."""
        return summary(self.done, rule, data=name, d=d, fit=fit)

    def pairs(self, fit: str, column: str = "") -> list[tuple[str, Summary | None, Published]]:
        """Test scores of a fit and of a column of the thesis."""
        return [
            (f"{n} d = {d} {rule}", self.ours(n, d, rule, fit), self.paper(n, d, rule, column))
            for n, d, rule in self.cells
            if rule != "train"
        ]

    def verdicts(self, *lines: tuple[str, ...]) -> str:
        """A line for each of (words, fit, column)."""
        return bullets(*(count_verdicts(words, self.pairs(*of)) for words, *of in lines))

    def low(self, *pairs: tuple[str, ...]) -> tuple[int, int]:
        """How many scores of (fit, column) there are, and are three errors below the thesis."""
        known = [each for of in pairs for each in self.pairs(*of) if each[1] is not None]
        return len(known), sum(distance(ours, paper) < -3.0 for _, ours, paper in known)

    def high(self, *pairs: tuple[str, ...]) -> int:
        """How many scores of (fit, column) are more than three errors above the thesis."""
        known = [each for of in pairs for each in self.pairs(*of) if each[1] is not None]
        return sum(distance(ours, paper) > 3.0 for _, ours, paper in known)

    def table(self, header: Iterable[str], fits: Iterable[tuple[str, str]]) -> str:
        """Fits against columns of the thesis, whose figure comes first where it is a new one."""
        fits = list(fits)

        def row(name: str, d: int, rule: str) -> Iterator[Any]:
            yield from (name, d, "f(A), train" if rule == "train" else rule)
            shown = None
            for fit, column in fits:
                theirs, mine = self.paper(name, d, rule, column), self.ours(name, d, rule, fit)
                if column != shown:
                    yield theirs
                shown = column
                yield from (mine, verdict(mine, theirs))

        return table(header, [row(*cell) for cell in self.cells])


def count_verdicts(what: str, pairs: Iterable[tuple[str, Summary | None, Published]]) -> str:
    """One sentence: how many cells are above, level with and below the paper, and which below."""
    known = [(name, distance(ours, paper)) for name, ours, paper in pairs if ours is not None]
    if not known:
        return f"**{what}:** not run yet."
    above = sum(z > 3.0 for _, z in known)
    below = [f"{name} ({z:+.1f})" for name, z in known if z < -3.0]
    words = (
        f"**{what}** ({len(known)} test scores): more than three standard errors above the paper: "
        f"{above}; within three: {len(known) - above - len(below)}; below: {len(below)}"
    )
    return words + (f", namely {', '.join(below)}." if below else ".")
