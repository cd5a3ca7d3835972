"""Several learnt metrics, and how much each of them counts, by rows that it did not learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vicinal import _clock
from vicinal.core.seeds import rng_for
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel, Laplace
from vicinal.fit.search import jobs
from vicinal.fit.workers import Workers
from vicinal.maps.fitted import FittedMaps
from vicinal.models.vote import Ballots
from vicinal.starts.first import base_scale

#: factors of a kernel's energy that held-out rows choose from, each twice the one before
SCALES = 2.0 ** np.arange(-3, 4)
_ENTRIES = 2**21  # of the largest array of pairs
_SCORED = 1000  # rows of a fold, at most, that choose scales and weights
_TEMPERATURE = 0.02  # a score that is lower by this much counts e times less
_LEAST = 0.03  # weight below which a vote is left out
_LOG_SHARE = 0.3  # of the log loss in the score of classes, next to the accuracy
_FLOOR = 1e-3  # least probability in the log loss


class Fold(NamedTuple):
    """Rows to learn from, and the rows that are held out."""

    rows: Array
    held: Array


class Ballot(NamedTuple):
    """A map that was learnt on one fold, and what it says of the rows that were held out.

    ``Z`` are all rows, embedded at the scale one of the kernel; ``held`` are predictions at all
    scales, (n_scales, n_held, q).
    """

    fitted: Any
    factor: float
    Z: Array
    held: Array


class Outcome(NamedTuple):
    """The maps that vote, and how: see `FittedMaps` and `Ballots`.

    ``scores`` (n_members,) are those of held-out rows, ``weights`` add up to one, and ``scales``
    are the chosen factors of the kernels; both are zero for a member that does not vote.
    ``interrupted`` says that the maps are those that were learnt before Ctrl-C.
    """

    fitted: FittedMaps
    Z: Array
    ballots: Ballots
    scores: Array
    weights: Array
    scales: Array
    interrupted: bool


def stratified_folds(codes: Array, n_folds: int, seed: int) -> list[Fold]:
    """Folds with even shares of each class; a class of fewer than three rows is never held out.

    Where no row can be held out, there is one fold of all rows.
    """
    rng, fold, at = rng_for(seed, "folds"), np.full(len(codes), -1), 0
    for c in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == c))
        if len(rows) >= 3:
            fold[rows] = (np.arange(len(rows)) + at) % n_folds
            at += len(rows)
    return _folds(fold, n_folds)


def even_folds(order: Array, n_folds: int, seed: int) -> list[Fold]:
    """Folds with an even share of each stretch of rows, given their order by number."""
    rng, fold = rng_for(seed, "folds"), np.full(len(order), -1)
    for first in range(0, len(order), n_folds):
        some = order[first : first + n_folds]
        fold[some] = rng.permutation(n_folds)[: len(some)]
    return _folds(fold, n_folds)


def _folds(fold: Array, n_folds: int) -> list[Fold]:
    found = [Fold(np.flatnonzero(fold != m), np.flatnonzero(fold == m)) for m in range(n_folds)]
    found = [each for each in found if len(each.held) and len(each.rows) > 1]
    return found or [Fold(np.arange(len(fold)), np.empty(0, np.intp))]


def score_classes(codes: Array) -> Callable[[Array, Array], Array]:
    """A function that scores probabilities: right or wrong, less a part of the log loss."""

    def score(P: Array, rows: Array) -> Array:
        y = codes[rows]
        own = P[:, np.arange(len(y)), y]
        log = np.log((1.0 - _FLOOR) * own + _FLOOR / P.shape[2])
        return (P.argmax(axis=2) == y) + _LOG_SHARE * log

    return score


def score_numbers(values: Array, weight: Array | None) -> Callable[[Array, Array], Array]:
    """A function that scores predicted numbers: one less the share of the squared error."""
    mean = np.average(values, axis=0, weights=weight)
    variance = np.average(np.sum((values - mean) ** 2, axis=1), weights=weight)

    def score(P: Array, rows: Array) -> Array:
        return 1.0 - np.sum((P - values[rows]) ** 2, axis=2) / (variance or 1.0)

    return score


def kernel_of(estimator: Any) -> tuple[Kernel, bool]:
    """The kernel under which a member votes, and whether its map was learnt at a scale of one."""
    asked = estimator.get_params(deep=False).get("kernel")
    laplace = asked == "laplace" or isinstance(asked, Laplace)
    return Laplace() if laplace else Gaussian(), asked is not None


def means_at_scales(
    queries: Array, stored: Array, values: Array, weight: Array | None, kernel: Kernel
) -> Array:
    """Means of values, weighted by a kernel, for all `SCALES` of it: (n_scales, m, q).

    The exponential is computed for the smallest scale; the others are its squares.
    """
    out = np.empty((len(SCALES), len(queries), values.shape[1]))
    centre = stored.mean(axis=0)
    queries, stored = queries - centre, stored - centre
    norms = np.einsum("ij,ij->i", stored, stored)
    numbers = values if weight is None else values * weight[:, None]
    mass = np.ones(len(stored)) if weight is None else weight
    columns = np.column_stack([numbers, mass]).astype(stored.dtype)
    step = max(1, _ENTRIES // len(stored))
    for first in range(0, len(queries), step):
        q = queries[first : first + step]
        d2 = np.einsum("ij,ij->i", q, q)[:, None] + norms - 2.0 * (q @ stored.T)
        energy = kernel.energy(np.maximum(d2, 0.0, out=d2), stored.shape[1])[0]
        energy -= energy.min(axis=1, keepdims=True)
        energy *= -SCALES[0]
        p = np.exp(energy, out=energy)
        for number in range(len(SCALES)):
            if number:
                np.multiply(p, p, out=p)
            sums = p @ columns
            out[number, first : first + step] = sums[:, :-1] / sums[:, -1:]
    return out


class Vote:
    """Learns members on folds, several at a time, drops the worse ones, and weighs the others.

    Parameters
    ----------
    learn : callable
        ``estimator = learn(member, rows, seed, seconds)``: a fitted estimator with a ``_map``;
        called in threads.  ``seconds`` is the time for it, or None.
    X : array or sparse matrix
        All rows.
    values : array of shape (n, q)
        What is predicted: numbers, or ones in the column of the class.
    weight : array of shape (n,) or None
    folds : list of Fold
    score : callable
        From `score_classes` or `score_numbers`.
    say : callable
        ``say(words)`` prints a line if the user wants it.
    """

    def __init__(
        self,
        learn: Callable[[int, Array, int, float | None], Any],
        X: Any,
        values: Array,
        weight: Array | None,
        folds: list[Fold],
        score: Callable[[Array, Array], Array],
        say: Callable[[str], None],
    ) -> None:
        self.learn, self.X, self.values, self.weight = learn, X, values, weight
        self.folds, self.score, self.say = folds, score, say
        self._ballots: dict[int, list[Ballot]] = {}
        self._kernels: dict[int, Kernel] = {}

    def run(self, n_members: int, seed: int, n_jobs: int | None, deadline: float | None) -> Outcome:
        """All members learn on one fold, and the better half of them on the others.

        After the ``deadline``, on the clock of ``_clock.now``, no further fold is begun.  After
        Ctrl-C the maps vote that have been learnt, if each member has one.
        """
        n_folds = len(self.folds)
        workers = Workers(min(jobs(n_jobs), n_members * n_folds), ahead=n_members * n_folds)
        alive, done, began = list(range(n_members)), 0, _clock.now()
        self._ballots = {member: [] for member in alive}
        while done < n_folds:
            if done == 1:
                alive = self._better_half(alive)
            # all that are left at once, unless time may run out after each
            until = n_folds if done and deadline is None else done + 1
            tasks = [(member, fold, seed) for fold in range(done, until) for member in alive]
            seconds = None
            if deadline is not None:
                seconds = max(deadline - _clock.now(), 0.01) * workers.threads / len(tasks)
            try:
                self._learn(workers, [(*task, seconds) for task in tasks])
            except KeyboardInterrupt:
                if not all(self._ballots[member] for member in alive):
                    raise  # some member has no map to vote with
                return self._count(n_members, alive, interrupted=True)
            pace, done = (_clock.now() - began) / until, until
            if deadline is not None and done < n_folds:
                if _clock.now() + pace > deadline:
                    self.say(f"the time budget ends the vote after {done} folds")
                    break
        return self._count(n_members, alive)

    def _learn(self, workers: Workers, tasks: Sequence[tuple[Any, ...]]) -> None:
        found = workers.results(self._ballot, tasks)
        for (member, fold, *_), (ballot, kernel) in zip(tasks, found, strict=True):
            self._ballots[member].append(ballot)
            self._kernels[member] = kernel
            self.say(f"member {member + 1}, fold {fold + 1} of {len(self.folds)}")

    def _ballot(
        self, member: int, number: int, seed: int, seconds: float | None
    ) -> tuple[Ballot, Kernel]:
        """Learn a member on a fold, and ask it about the rows that are held out."""
        rows, held = self.folds[number]
        rng = rng_for(seed, "member", member, number)
        estimator = self.learn(member, rows, int(rng.randint(2**31 - 1)), seconds)
        kernel, at_scale = kernel_of(estimator)
        Z, factor = np.asarray(estimator._map.embed(self.X)), 1.0
        if not at_scale:
            factor = base_scale(Z[rows], rng)
            Z = Z * Z.dtype.type(factor)
        held = self._scored(number)
        weight = None if self.weight is None else self.weight[rows]
        found = means_at_scales(Z[held], Z[rows], self.values[rows], weight, kernel)
        return Ballot(estimator._map, factor, Z, found), kernel

    def _scored(self, number: int) -> Array:
        """The held-out rows of a fold that are asked about: evenly spread, if they are many."""
        held = self.folds[number].held
        if len(held) <= _SCORED:
            return held
        return held[np.linspace(0, len(held) - 1, _SCORED).astype(int)]

    def scores(self, member: int) -> Array:
        """The mean score of a member at each scale, over the folds that it has learnt."""
        ballots = self._ballots[member]
        rows = np.concatenate([self._scored(number) for number in range(len(ballots))])
        if not len(rows):  # nothing could be held out: the scale that was learnt
            return -np.abs(np.log2(SCALES)) * 1e-9
        each = [self.score(ballot.held, self._scored(m)) for m, ballot in enumerate(ballots)]
        found = np.hstack(each)
        weight = None if self.weight is None else self.weight[rows]
        return np.average(found, axis=1, weights=weight)

    def _better_half(self, members: list[int]) -> list[int]:
        """The better half of the members, rounded up, in their order."""
        best = sorted(members, key=lambda member: -self.scores(member).max())
        return sorted(best[: -(-len(members) // 2)])

    def _count(self, n_members: int, alive: list[int], interrupted: bool = False) -> Outcome:
        """Weights and scales of the members that are left, and their maps side by side."""
        scores, scales = np.zeros(n_members), np.zeros(n_members)
        for member in range(n_members):
            found = self.scores(member)
            scores[member], scales[member] = found.max(), SCALES[found.argmax()]
        left = np.isin(np.arange(n_members), alive)
        weights = np.where(left, np.exp((scores - scores[left].max()) / _TEMPERATURE), 0.0)
        weights[weights < _LEAST * weights.sum()] = 0.0
        weights /= weights.sum()
        scales[weights == 0.0] = 0.0
        parts, factors, points, shares, kernels = [], [], [], [], []
        for member in np.flatnonzero(weights).tolist():
            kernel, ballots = self._kernels[member], self._ballots[member]
            power = 0.5 if kernel.smooth else 1.0  # the energy grows with d², or with d
            share = weights[member] / len(ballots)
            factor = scales[member] ** power * np.sqrt(share)
            for ballot in ballots:
                parts.append(ballot.fitted)
                factors.append(ballot.factor * factor)
                points.append(ballot.Z * ballot.Z.dtype.type(factor))
                shares.append(share)
                kernels.append(kernel)
        widths = np.array([Z.shape[1] for Z in points])
        fitted = FittedMaps(parts, np.array(factors))
        together = Ballots(widths, np.array(shares), kernels)
        Z = np.hstack(points)
        return Outcome(fitted, Z, together, scores, weights, scales, interrupted)
