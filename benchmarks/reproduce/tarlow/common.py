"""What the experiments of Tarlow et al. share: methods, starts, and votes for many k at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from reproduce.framework.experiment import Claim
from reproduce.framework.pages import bullets
from reproduce.framework.statistics import TESTED, Summary, lead
from vicinal import ITML, KNCA, LMNN, MCML, NCA, FromLabels
from vicinal.samplers import StochasticQueries
from vicinal.solvers import SGD

#: of the authors' released program: rate and momentum of its descent, queries of a batch, and the
#: rows of usps that it learns from and tests with, of each class
RATE, MOMENTUM, QUERIES = 0.01, 0.9, 100
AUTHORS_ROWS = (200, 500)
PASS = 10 * AUTHORS_ROWS[0] // QUERIES  # steps of a pass over all training rows


#: corrected errors beyond which a paired difference counts
SURE = 2.0


def _knca(vote: str, k: int, n_components: int, **parameters: Any) -> Any:
    return KNCA(n_components, k=k, vote=vote, **parameters)


def _nca(k: int, n_components: int, **parameters: Any) -> Any:
    return NCA(n_components, **parameters)


def _lmnn(k: int, n_components: int, **parameters: Any) -> Any:
    # it has no objective to choose, takes all rows, and has no penalty: the paper mentions none
    ours = {"objective", "sampling", "alpha"}
    others = {n: v for n, v in parameters.items() if n not in ours}
    return LMNN(n_components, k=k, alpha=0.0, **others)


def _mcml(k: int, n_components: int, **parameters: Any) -> Any:
    # the loss alone, which at full rank is convex: neither a choice nor a penalty
    ours = {"objective", "alpha"}
    return MCML(n_components, **{n: v for n, v in parameters.items() if n not in ours})


def _itml(k: int, n_components: int, random_state: int, scaling: str, **parameters: Any) -> Any:
    # pairs drawn from the labels; it has no start and no choice of solver, and cannot reduce
    return FromLabels(ITML(scaling=scaling), random_state=random_state)


#: name of a method: ``learner(k, n_components, **parameters)``, an estimator with components_.  A
#: further method is an entry here and in _COLOURS: jobs and reports go through this list.
LEARNERS: dict[str, Callable[..., Any]] = {
    "NCA": _nca,
    "all": partial(_knca, "all"),
    "majority": partial(_knca, "majority"),
    "LMNN": _lmnn,
    "MCML": _mcml,
    "ITML": _itml,
}


#: votes of kNCA, the paper's own
FAMILIES = ("all", "majority")


#: what else has a k: no vote, and one objective
PEERS = ("LMNN",)


#: what else has no k: the paper's other comparators, ITML at full rank only
WITHOUT_K = ("MCML", "ITML")


#: lines of a method for k up to 3, up to 7, and beyond
_COLOURS = {
    "all": ("#9ecae1", "#0072B2", "#08306b"),
    "majority": ("#fdbe85", "#D55E00", "#7f2704"),
    "LMNN": ("#a1d99b", "#009E73", "#00441b"),
    "MCML": ("#CC79A7",) * 3,
    "ITML": ("#E69F00",) * 3,
}


def colour(method: str, k: int = 5) -> str:
    """Of the lines of a method, the more neighbours the darker; NCA is black."""
    return _COLOURS[method][(k > 3) + (k > 7)] if method in _COLOURS else "black"


def grid(ks: Iterable[int]) -> Iterator[dict[str, Any]]:
    """NCA, which is both votes at k = 1, and kNCA at all other k."""
    yield {"method": "NCA", "k": 1}
    for method, k in product(FAMILIES, ks):
        if k > 1:
            yield {"method": method, "k": k}


def words(method: str, k: int) -> str:
    """As in tables and legends."""
    return method if method in ("NCA", *WITHOUT_K) else f"{method}, k = {k}"


def same_start(X: Any, y: Any, d: int, start: str, seed: int, **parameters: Any) -> Any:
    """A start for all methods, of the scale that NCA chooses: an array for ``init``."""
    parameters = {"alpha": 3e-3, "random_state": seed, **parameters}
    still = NCA(d, init=start, sampling="full", tol=1e300, **parameters)
    return still.fit(X, y).components_


def authors_rows(y: Any, seed: int, share: float = 1.0) -> tuple[Any, Any]:
    """Positions of training and test rows, this many of each class as the authors' program has.

    ``share`` is that of the training rows which is taken.
    """
    order = np.random.RandomState(seed).permutation(len(y))
    train, test = [], []
    for label in np.unique(y):
        rows = order[y[order] == label]
        cut = min(AUTHORS_ROWS[0], len(rows) // 2)
        train.append(rows[: round(share * cut)])
        test.append(rows[cut : cut + AUTHORS_ROWS[1]])
    return np.concatenate(train), np.concatenate(test)


def orthonormal(n_columns: int, d: int, seed: int) -> Any:
    """The start of the authors' program: random orthonormal rows."""
    drawn = np.random.RandomState(seed).standard_normal((n_columns, d))
    return np.linalg.qr(drawn)[0].T


def authors_descent(method: str, k: int, start: Any, steps: int, **parameters: Any) -> Any:
    """A learner with the descent of the authors' program, on columns as they are."""
    parameters = {"alpha": 0.0, "scaling": None, "tol": None, **parameters}
    return LEARNERS[method](
        k, len(start), init=start, solver=SGD(RATE, MOMENTUM), max_iter=steps,
        sampling=StochasticQueries(QUERIES), **parameters,
    )  # fmt: skip


def iterations_to(losses: Any, share: float = 0.99, window: int = 1) -> int:
    """After how many iterations a loss has made this share of its whole fall.

    Losses of batches are averaged over windows, each of which then counts as one iteration.
    """
    losses = np.asarray(losses, dtype=float)
    losses = losses[: len(losses) // window * window].reshape(-1, window).mean(axis=1)
    enough = losses[0] - share * (losses[0] - losses.min())
    return int(np.argmax(losses <= enough))


def gap_outcome(*gaps: Any) -> str:
    """Of paired differences, positive on the paper's side: seen, partly or not seen.

    Seen if all of them are above zero by more than two corrected errors, partly if some are; of one
    split nothing more than "partly" is said.
    """
    single = any(len(gap) < 2 for gap in gaps)
    above = [
        float(np.mean(gap)) > 0.0 if single else lead(gap, np.zeros(len(gap)))[1] > SURE
        for gap in gaps
    ]
    if above and all(above):
        return "partly" if single else "seen"
    return "partly" if any(above) else "not seen"


def findings(claims: Iterable[Claim]) -> str:
    """A page's first lines: claims with their outcomes, questions of our own with answers."""
    return bullets(
        *(
            f"{each.says}{'' if each.says.endswith('?') else ':'} {each.figure}"
            if each.outcome == "answer"
            else f"{each.says}: **{each.outcome}** ({each.figure})"
            for each in claims
        )
    )


def points(gap: Any, digits: int = 1) -> str:
    """A difference of shares in points, with its error where there are several splits."""
    each = Summary(gap, TESTED)
    return f"{each:+.{digits}f}" if len(gap) > 1 else f"{each.mean:+.{digits}f}, one split"


def ratio_words(logs: Any, tested: float = TESTED) -> str:
    """The geometric mean of ratios, given their logarithms, and its error."""
    found = Summary(np.asarray(logs, dtype=float) / 100.0, tested)
    mean = float(np.exp(found.mean))
    return f"{mean:.2f} ± {mean * found.error:.2f}" if len(logs) > 1 else f"{mean:.2f}"


def accuracies(Z: Any, y: Any, Z_test: Any, y_test: Any, ks: Iterable[int]) -> list[float]:
    """Accuracy of the vote of the k nearest rows of Z on the rows of Z_test, for each k."""
    ks = list(ks)
    index = NearestNeighbors(n_neighbors=min(max(ks), len(Z))).fit(Z)
    return _voted(index.kneighbors(Z_test, return_distance=False), y, y_test, ks)


def leave_one_out(Z: Any, y: Any, y_true: Any, ks: Iterable[int]) -> list[float]:
    """The same of the rows of Z among themselves: votes by y, judged by y_true."""
    ks = list(ks)
    index = NearestNeighbors(n_neighbors=min(max(ks), len(Z) - 1)).fit(Z)
    return _voted(index.kneighbors(return_distance=False), y, y_true, ks)


def _voted(neighbours: Any, y: Any, y_true: Any, ks: list[int]) -> list[float]:
    """Shares of right votes; of classes with equally many votes the one of the nearest row wins."""
    classes, codes = np.unique(y, return_inverse=True)
    shape = len(neighbours), len(classes)
    counts, first = np.zeros(shape, int), np.full(shape, neighbours.shape[1])
    rows, found = np.arange(len(neighbours)), {}
    ks = [min(k, neighbours.shape[1]) for k in ks]  # no more voters than there are rows
    for rank, voters in enumerate(codes[neighbours].T):
        first[rows, voters] = np.minimum(first[rows, voters], rank)
        counts[rows, voters] += 1
        if rank + 1 in ks:
            leads = counts == counts.max(axis=1, keepdims=True)
            winner = np.where(leads, first, neighbours.shape[1] + 1).argmin(axis=1)
            found[rank + 1] = float(np.mean(classes[winner] == y_true))
    return [found[k] for k in ks]
