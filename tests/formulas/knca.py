"""The expected vote of k neighbours, [Tarlow2013] sections 4 and 5, in two plain ways.

`knca_by_subsets` enumerates all sets of k neighbours, for a dozen points.  `knca` is the dynamic
programme over the members of each class and over the classes, in the log domain throughout and
one query at a time, for a hundred points.  The derivations are in ``docs/theory/knca.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulas._common import Array, Index, pull_to_points, squared_distances

__all__ = ["knca", "knca_by_subsets", "knca_posterior"]

# log_odds, gap = score(log_w, code, own, k, vote) for one query: the log odds of winning, and the
# derivatives of -log p by d², which are minus those by the logarithms of the weights.
Score = Callable[[Array, Index, int, int, str], tuple[float, Array]]


def knca_by_subsets(
    Z: ArrayLike,
    y: ArrayLike,
    k: int = 5,
    vote: str = "majority",
    objective: str = "log",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    mass: ArrayLike | None = None,
) -> tuple[float, Array]:
    """kNCA by enumerating all sets of k neighbours: mean loss over the queries, and its gradient.

    With w_ij = mass_j exp(-|z_i - z_j|^2)::

        p_i(s) = prod_{j in s} w_ij / sum_{|t| = k} prod_{j in t} w_ij
        p_i    = sum_{|s| = k} p_i(s) [s votes for y_i]
        loss   = mean of -p_i or -log p_i,   dlog p_i / d|z_i - z_j|^2 = P(j in s) - P(j in s | win)

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    y : array of shape (n,)
        Labels.
    k : int, default=5
        Size of the sets, reduced to the smallest number of references that a query has.
    vote : {"majority", "all"}, default="majority"
        "majority": a set votes for the class with more members in it than any other class (a tie
        is a vote for nobody).  "all": for the class of all its members.
    objective : {"log", "accuracy"}, default="log"
        Loss of a query: ``-log p_i`` or ``-p_i``.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  A row is never its own reference.
    mass : array of shape (n,), default=None
        Factor of the weight of each row as a reference, > 0; None for ones.

    Returns
    -------
    value : float
        A query for which no set votes correctly has p_i = 0.  For "accuracy" it counts with value
        0; for "log" it is left out of sum and divisor.  0.0 if no query counts.
    dZ : ndarray of shape (n, d)

    References
    ----------
    [Tarlow2013]
    """
    return _mean(_score_by_subsets, Z, y, k, vote, objective, queries, references, mass)


def knca(
    Z: ArrayLike,
    y: ArrayLike,
    k: int = 5,
    vote: str = "majority",
    objective: str = "log",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    mass: ArrayLike | None = None,
) -> tuple[float, Array]:
    """kNCA by the dynamic programme of [Tarlow2013] section 5, in the log domain.

    Parameters and results are those of `knca_by_subsets`.  The weights of the sets that win, and of
    those that lose, are computed without subtractions, so that either may be arbitrarily small;
    products that leave a reference out are computed anew for each reference.
    """
    return _mean(_score_by_chains, Z, y, k, vote, objective, queries, references, mass)


def knca_posterior(
    Z_query: ArrayLike,
    Z_reference: ArrayLike,
    y_reference: ArrayLike,
    k: int = 5,
    vote: str = "majority",
) -> Array:
    """Probability that the vote of new points is for each class, by enumerating all sets.

    ``P(c | z) = sum_s p(s) [s votes for c] / sum_s p(s) [s votes for anyone]``: a tie is a vote for
    nobody.  Queries are never references here.  k is at most the number of references.

    Parameters
    ----------
    Z_query : array of shape (n_query, d)
    Z_reference : array of shape (n_reference, d)
    y_reference : array of shape (n_reference,)
    k : int, default=5
    vote : {"majority", "all"}, default="majority"

    Returns
    -------
    P : ndarray of shape (n_query, n_classes)
        In the order of ``np.unique(y_reference)``.  Equal shares if no set votes for anyone.
    """
    log_w = -squared_distances(Z_query, Z_reference)
    classes, code = np.unique(np.asarray(y_reference), return_inverse=True)
    k = min(k, log_w.shape[1])
    P = np.full((len(log_w), len(classes)), 1 / len(classes))
    for i in range(len(log_w)):
        sets, log_p = _subsets(log_w[i], k)
        wins = [_wins(code[sets], c, vote) for c in range(len(classes))]
        log_win = np.array([np.logaddexp.reduce(log_p[won], initial=-np.inf) for won in wins])
        if log_win.max() > -np.inf:
            P[i] = np.exp(log_win - np.logaddexp.reduce(log_win))
    return P


def _mean(
    score: Score,
    Z: ArrayLike,
    y: ArrayLike,
    k: int,
    vote: str,
    objective: str,
    queries: ArrayLike | None,
    references: ArrayLike | None,
    mass: ArrayLike | None,
) -> tuple[float, Array]:
    """Mean loss over the queries and its gradient, given a function that scores one query."""
    if vote not in ("majority", "all"):
        raise ValueError(f"vote must be 'majority' or 'all'. Got {vote!r} instead.")
    if objective not in ("accuracy", "log"):
        raise ValueError(f"objective must be 'accuracy' or 'log'. Got {objective!r} instead.")
    Z = np.asarray(Z, dtype=np.float64)
    n = Z.shape[0]
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    code = np.unique(np.asarray(y), return_inverse=True)[1]
    m = np.ones(n) if mass is None else np.asarray(mass, dtype=np.float64)
    log_w = np.log(m[r]) - squared_distances(Z[q], Z[r])
    k = min(k, len(r) - bool(np.isin(q, r).any()))
    log_odds, G = np.full(len(q), -np.inf), np.zeros(log_w.shape)
    for a, i in enumerate(q):
        others = np.flatnonzero(r != i)
        if k > 0:
            log_odds[a], G[a, others] = score(log_w[a, others], code[r[others]], code[i], k, vote)
    counts = log_odds > -np.inf
    log_p = -np.logaddexp(0, -log_odds)
    if objective == "accuracy":
        weight, loss = np.ones(len(q)), -np.exp(log_p)  # [Tarlow2013] eq. (5), negated
        G *= np.exp(log_p)[:, None]  # dp = p dlog p
    else:
        weight, loss = counts.astype(float), -np.where(counts, log_p, 0.0)  # the end of section 5
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z)
    weight /= weight.sum()
    return float(weight @ loss), pull_to_points(weight[:, None] * G, Z, q, r)


# By enumerating all sets.


def _subsets(log_w: Array, k: int) -> tuple[Index, Array]:
    """All sets of k references, one per row, and the logarithms of their probabilities."""
    sets = np.array(list(combinations(range(len(log_w)), k)), dtype=np.intp)
    log_weight = log_w[sets].sum(axis=1)
    return sets, log_weight - np.logaddexp.reduce(log_weight)  # p_i(s | k; A)


def _wins(codes: Index, own: int, vote: str) -> NDArray[np.bool_]:
    """Which sets, given by the classes of their members, vote for the class `own`."""
    votes = (codes[:, :, None] == np.arange(max(codes.max(), own) + 1)).sum(axis=1)
    if vote == "all":
        return votes[:, own] == codes.shape[1]
    others = np.delete(votes, own, axis=1)
    return votes[:, own] > others.max(axis=1, initial=0)  # phi_k' below eq. (8), for any k' >= 1


def _score_by_subsets(
    log_w: Array, code: Index, own: int, k: int, vote: str
) -> tuple[float, Array]:
    sets, log_p = _subsets(log_w, k)
    wins = _wins(code[sets], own, vote)
    log_win, log_lose = (
        np.logaddexp.reduce(log_p[part], initial=-np.inf)  # eq. (7): numerator, over Z0
        for part in (wins, ~wins)
    )
    gap = np.zeros(len(log_w))
    if log_win == -np.inf:
        return -np.inf, gap
    holds = (sets[:, :, None] == np.arange(len(log_w))).any(axis=1)
    P_win = np.exp(log_p[wins] - log_win) @ holds[wins]  # P(j in s | win)
    P_all = np.exp(log_p) @ holds  # P(j in s)
    return float(log_win - log_lose), P_win - P_all


# By chains: logarithms of polynomial coefficients; the power of x counts the members of a set.


def _chain(log_w: Array, k: int) -> Array:
    """log of the coefficients of prod_j (1 + w_j x) up to x^k, FORWARD1 without its divisor."""
    F = np.full(k + 1, -np.inf)
    F[0] = 0.0
    for w in log_w:
        F[1:] = np.logaddexp(F[1:], F[:-1] + w)
    return F


def _times(F: Array, G: Array) -> Array:
    """log of the coefficients of a product of two polynomials up to x^k, FORWARD2."""
    k = len(F) - 1
    shifted = np.full((k + 1, k + 1), -np.inf)
    for m in range(k + 1):
        shifted[m, m:] = F[m] + G[: k + 1 - m]
    return np.logaddexp.reduce(shifted, axis=0)


def _others(F: list[Array], least: int, k: int) -> tuple[Array, Array]:
    """Sets from other classes: those in which all have fewer than `least` votes, and the others."""
    fewer, reached = np.full((2, k + 1), -np.inf)
    fewer[0] = 0.0
    for F_c in F:
        below, above = F_c.copy(), F_c.copy()
        below[least:], above[:least] = -np.inf, -np.inf
        reached = np.logaddexp(_times(reached, F_c), _times(fewer, above))
        fewer = _times(fewer, below)
    return fewer, reached


def _least(k: int, vote: str) -> list[int]:
    """How many votes of another class prevent a win, for each number 0..k of own votes."""
    # eq. (7): as many as the own class has.  "all": with fewer than k own votes there is no win
    return [m if vote == "majority" or m == k else 0 for m in range(k + 1)]


def _score_by_chains(log_w: Array, code: Index, own: int, k: int, vote: str) -> tuple[float, Array]:
    log_w = log_w - log_w.max(initial=-np.inf)  # changes nothing, since all sets have k members
    F = {c: _chain(log_w[code == c], k) for c in np.unique([own, *code])}
    # rest[c][0][m]: weight of the other classes' part of a winning set with m votes for c; [1]: of
    # a losing set.  Here for the own class.
    rest = {own: np.full((2, k + 1), -np.inf)}
    names = [c for c in F if c != own]
    for m, least in enumerate(_least(k, vote)):
        fewer, reached = _others([F[c] for c in names], least, k)
        rest[own][:, m] = fewer[k - m], reached[k - m]
    log_win, log_lose = np.logaddexp.reduce(F[own] + rest[own], axis=1)
    gap = np.zeros(len(log_w))
    if log_win == -np.inf:
        return -np.inf, gap
    if log_lose == -np.inf:
        return np.inf, gap
    for c in names:
        rest[c] = _rest(F[own], [F[b] for b in names if b != c], k, vote)
    log_not_p = -np.logaddexp(0, log_win - log_lose)
    for j in range(len(log_w)):
        without = (code == code[j]) & (np.arange(len(code)) != j)
        held = log_w[j] + _chain(log_w[without], k)[:k]  # sets with j: one more vote for its class
        in_win, in_lose = np.logaddexp.reduce(held + rest[code[j]][:, 1:], axis=1)
        # P(j in s | win) - P(j in s), as P(j in s) is a mean of those given win and given lose
        gap[j] = np.exp(log_not_p) * (np.exp(in_win - log_win) - np.exp(in_lose - log_lose))
    return float(log_win - log_lose), gap


def _rest(F_own: Array, F_others: list[Array], k: int, vote: str) -> Array:
    """For sets in which some other class has m votes: the weight of all but that class's part."""
    rest = np.full((2, k + 1), -np.inf)
    for votes, least in enumerate(_least(k, vote)):
        fewer, reached = _others(F_others, least, k)
        for m in range(k - votes + 1):
            left = k - votes - m
            if m < least:
                parts = fewer[left], reached[left]
            else:
                parts = -np.inf, np.logaddexp(fewer[left], reached[left])
            rest[:, m] = np.logaddexp(rest[:, m], F_own[votes] + np.array(parts))
    return rest
