"""The vote of k neighbours: weights of the sets in which a class wins, and who voted in them.

A class c has the polynomial F_c, whose coefficient F_c[m] is the weight of the sets of m of its
members, e_m(w_j : j in c).  A product of such polynomials has as its coefficient m the weight of
the sets of m members of those classes.  The own class o wins a set of k if it has v votes and

- ``unanimous``: v = k;
- majority: every other class has fewer than v ([Tarlow2013] eq. (7)-(8)); a tie is not a win.

In a majority vote v > k/2 always wins, and v <= (k - 1) / C, rounded up, always loses: C - 1
classes of fewer than v votes do not make up k - v.  What lies between is *contested*: there the
other classes are cut at degree v - 1, once for each v.  None is contested for two classes.

P(c has m votes | win) is F_c[m] d(win)/dF_c[m] / win.  Derivatives come from products of the
classes before c, carried along, and of those after c, stored: every sum is one of positive terms,
and neither the sets that lose nor those without c are got by subtraction or division.  The classes
after c that matter are

- ``suffix``: all their sets,
- ``below``: their sets in which each has fewer than v votes,
- ``reached``: their sets in which somebody has v or more,

and a set that somebody has lost for the own class goes over to one common prefix of lost sets,
whatever v was: only ``below`` and ``reached`` are made anew for each v.

Queries are the lanes, on the last axis.  Weights are plain numbers or logarithms, as
:mod:`vicinal.kernels._arithmetic` has it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._arithmetic import (
    add,
    add_products,
    nothing,
    one,
    share,
    times,
)
from vicinal.kernels._jit import helper, kernel

__all__ = ["VoteRoom", "vote_lanes", "vote_room", "win_lanes"]


class VoteRoom(NamedTuple):
    """Room for one thread; (C + 1, k + 1, W) arrays but for ``rows``, (10, k + 1, W).

    ``others`` are the class polynomials with the own class of each lane replaced by 1; ``suffix``,
    ``below`` and ``reached`` as above, of the classes c, c + 1, ... at [c]; ``lost`` the sets that
    class c turns from undecided to lost.
    """

    others: NDArray
    suffix: NDArray
    below: NDArray
    reached: NDArray
    lost: NDArray
    rows: NDArray


# Not literals, for each of which numba would compile ``add_products`` anew.
_0, _1 = np.int64(0), np.int64(1)
# What the rows are for.  Prefixes have two each, as no class may read what it writes: vectorised
# loops need arrays that do not overlap.
_OWN, _OWN_WIN, _OWN_LOSE, _WINNING, _LOSING, _UNDECIDED, _REST = 0, 1, 2, 3, 5, 7, 9


def vote_room(C: int, k: int, W: int) -> VoteRoom:
    """Room for C classes, sets of k and up to W lanes: O(C k W), 5 C + 15 rows of (k + 1) W."""
    shape = (C + 1, k + 1, W)
    return VoteRoom(*(np.empty(shape) for _ in range(5)), np.empty((10, k + 1, W)))


@helper
def _limits(C, k, unanimous):
    """Own votes that always win (from the first on), and that always lose (up to the second)."""
    if unanimous:
        return k, k - 1
    # (C - 1) (v - 1) < k - v: the other classes cannot all have fewer than v
    return k // 2 + 1, min(k // 2, (k + C - 2) // C)


@helper
def _fill(rows, first, last, value, W):
    for m in range(first, last + 1):
        row = rows[m]
        for i in range(W):
            row[i] = value


@helper
def _copy(source, first, last, target, W):
    for m in range(first, last + 1):
        x, y = source[m], target[m]
        for i in range(W):
            y[i] = x[i]


@helper
def _separate(F, own, k, W, others, own_votes, log):
    """Part the own class of each lane from the others, among which it is the polynomial 1."""
    for c in range(F.shape[0]):
        for m in range(k + 1):
            x, y, z = F[c, m], others[c, m], own_votes[m]
            absent = nothing(log) if m > 0 else one(log)
            for i in range(W):
                mine = own[i] == c
                y[i] = absent if mine else x[i]
                z[i] = x[i] if mine else z[i]


@helper
def _suffixes(G, top, cap, out, W, log):
    """Products of the classes from each c on, to degree top, no class having more than cap."""
    C = out.shape[0] - 1
    _fill(out[C], 0, top, nothing(log), W)
    _fill(out[C], 0, 0, one(log), W)
    for c in range(C - 1, -1, -1):
        _copy(out[c + 1], 0, top, out[c], W)
        add_products(out[c], _0, _1, _1, top, G[c], _1, cap, out[c + 1], _0, W, log)


@helper
def _reached(G, top, v, suffix, out, W, log):
    """Sets of the classes from each c on in which somebody has v votes or more: v to top votes."""
    C = out.shape[0] - 1
    _fill(out[C], v, top, nothing(log), W)
    for c in range(C - 1, -1, -1):
        _copy(out[c + 1], v, top, out[c], W)
        add_products(out[c], _0, _1, v, top, G[c], _1, v - 1, out[c + 1], v, W, log)
        add_products(out[c], _0, _1, v, top, G[c], v, top, suffix[c + 1], _0, W, log)


@helper
def _contested(v, k, P_win, P_lose, work, W, log):
    """Add the sets with v own votes, which win as long as no other class has reached v."""
    G, suffix, below, reached, rows = (
        work.others, work.suffix, work.below, work.reached, work.rows,
    )  # fmt: skip
    C, n = P_win.shape[0], k - v  # the others have n votes between them
    _suffixes(G, n, v - 1, below, W, log)
    _reached(G, n, v, suffix, reached, W, log)
    mine, x, y = rows[_OWN, v], below[0, n], reached[0, n]
    won, lost = rows[_OWN_WIN, v], rows[_OWN_LOSE, v]
    for i in range(W):
        won[i], lost[i] = times(mine[i], x[i], log), times(mine[i], y[i], log)
    _fill(rows[_UNDECIDED], 1, n, nothing(log), W)
    _copy(rows[_OWN, v : v + 1], 0, 0, rows[_UNDECIDED], W)
    for c in range(C):
        undecided, following = rows[_UNDECIDED + c % 2], rows[_UNDECIDED + 1 - c % 2]
        top = min(n, c * (v - 1))  # the most votes that the classes before c can have
        # With j votes of class c the classes before and after it have t = n - j.  For j < v it is
        # they who decide; for j >= v the set is lost, and joins the other lost ones.
        below_c, reached_c, suffix_c = below[c + 1], reached[c + 1], suffix[c + 1]
        add_products(P_win[c], n, -_1, n - v + 1, n, undecided, _0, top, below_c, _0, W, log)
        add_products(P_lose[c], n, -_1, n - v + 1, n, undecided, _0, top, reached_c, v, W, log)
        add_products(P_lose[c], n, -_1, _0, n - v, undecided, _0, top, suffix_c, _0, W, log)
        add_products(work.lost[c], v, _1, v, n, G[c], v, n, undecided, _0, W, log)
        _copy(undecided, 0, n, following, W)
        end = min(n, top + v - 1)
        add_products(following, _0, _1, _1, end, G[c], _1, v - 1, undecided, _0, W, log)


@helper
def _settled(k, first_win, last_lose, P_win, P_lose, work, W, log):
    """Add the sets that the own votes decide, and go on with those that a class has lost."""
    G, suffix, rows = work.others, work.suffix, work.rows
    _copy(rows[_OWN], first_win, k, rows[_WINNING], W)
    _copy(rows[_OWN], 0, last_lose, rows[_LOSING], W)
    _fill(rows[_LOSING], last_lose + 1, k, nothing(log), W)
    for v in range(k + 1):
        if last_lose < v < first_win:
            continue
        mine, x = rows[_OWN, v], suffix[0, k - v]
        out = rows[_OWN_WIN, v] if v >= first_win else rows[_OWN_LOSE, v]
        for i in range(W):
            out[i] = times(mine[i], x[i], log)
    for c in range(P_win.shape[0]):
        winning, winning_next = rows[_WINNING + c % 2], rows[_WINNING + 1 - c % 2]
        losing, losing_next = rows[_LOSING + c % 2], rows[_LOSING + 1 - c % 2]
        add_products(P_win[c], k, -_1, _0, k, winning, first_win, k, suffix[c + 1], _0, W, log)
        add_products(P_lose[c], k, -_1, _0, k, losing, _0, k, suffix[c + 1], _0, W, log)
        _copy(winning, first_win, k, winning_next, W)
        add_products(winning_next, _0, _1, first_win, k, G[c], _1, k, winning, first_win, W, log)
        _copy(losing, 0, k, losing_next, W)
        add_products(losing_next, _0, _1, _1, k, G[c], _1, k, losing, _0, W, log)
        if first_win - last_lose > 1:
            for m in range(2 * (last_lose + 1), k + 1):  # v own votes and v of class c, at least
                x, y = work.lost[c, m], losing_next[m]
                for i in range(W):
                    y[i] = add(y[i], x[i], log)


@helper
def _total(own_votes, total, W, log):
    """Weight of the sets with any number of own votes."""
    for i in range(W):
        total[i] = nothing(log)
    for v in range(own_votes.shape[0]):
        x = own_votes[v]
        for i in range(W):
            total[i] = add(total[i], x[i], log)


@helper
def _probabilities(own, others, own_votes, total, P, W, log):
    """Turn derivatives into probabilities of m votes: times the polynomial, by the total."""
    for c in range(P.shape[0]):
        for m in range(P.shape[1]):
            x, y, p = own_votes[m], others[c, m], P[c, m]
            for i in range(W):
                weight = x[i] if own[i] == c else times(y[i], p[i], log)
                p[i] = share(weight, total[i], log)


@kernel
def vote_lanes(F, own, k, unanimous, win, lose, P_win, P_lose, work, log):
    """Weights of the k-subsets in which the own class wins or does not, and the votes in them.

    Time O(C k²) a lane, and O(C k²) more for each contested v.  Plain numbers will do for a lane
    whose win and lose are finite and each either at least ``_arithmetic.LEAST`` or 0 for want of
    members; others are to be done in the log domain, at some ten times the cost.

    Parameters
    ----------
    F : (C, k + 1, W) class polynomials, F[c, 0] = 1; in the arithmetic
    own : (W,) intp, class of each lane
    unanimous : whether all k votes are needed, or a majority
    win, lose : (W,) weights; in the arithmetic; out
    P_win, P_lose : (C, k + 1, W) plain probabilities that class c has m votes in a set that is won,
        or not; 0 in lanes that have no such set (plain: of weight ``LEAST`` or more); out
    work : what ``vote_room`` gives for at least W lanes
    log : None for plain numbers, any int for base-2 logarithms
    """
    C, W = F.shape[0], F.shape[2]
    rows = work.rows
    first_win, last_lose = _limits(C, k, unanimous)
    _fill(rows[_OWN], 0, k, nothing(log), W)
    _separate(F, own, k, W, work.others, rows[_OWN], log)
    _suffixes(work.others, k, k, work.suffix, W, log)
    _fill(rows[_OWN_WIN], 0, k, nothing(log), W)
    _fill(rows[_OWN_LOSE], 0, k, nothing(log), W)
    for c in range(C):
        _fill(P_win[c], 0, k, nothing(log), W)
        _fill(P_lose[c], 0, k, nothing(log), W)
        if first_win - last_lose > 1:
            _fill(work.lost[c], 0, k, nothing(log), W)
    for v in range(last_lose + 1, first_win):
        _contested(v, k, P_win, P_lose, work, W, log)
    _settled(k, first_win, last_lose, P_win, P_lose, work, W, log)
    _total(rows[_OWN_WIN], win, W, log)
    _probabilities(own, work.others, rows[_OWN_WIN], win, P_win, W, log)
    _total(rows[_OWN_LOSE], lose, W, log)
    _probabilities(own, work.others, rows[_OWN_LOSE], lose, P_lose, W, log)


@helper
def _add_wins(F, k, first, last, cap, wins, work, W, log):
    """Add the sets in which a class has first to last votes and no other more than cap."""
    top = k - first
    suffix, rows, rest = work.suffix, work.rows, work.rows[_REST]
    _suffixes(F, top, cap, suffix, W, log)
    _fill(rows[_UNDECIDED], 1, top, nothing(log), W)
    _fill(rows[_UNDECIDED], 0, 0, one(log), W)
    for c in range(F.shape[0]):
        before, following = rows[_UNDECIDED + c % 2], rows[_UNDECIDED + 1 - c % 2]
        out, others = wins[c], rest[0]
        for v in range(first, last + 1):
            _fill(rest, 0, 0, nothing(log), W)
            n = k - v
            add_products(rest, -n, _1, n, n, before, _0, n, suffix[c + 1], _0, W, log)
            x = F[c, v]
            for i in range(W):
                out[i] = add(out[i], times(x[i], others[i], log), log)
        _copy(before, 0, top, following, W)
        add_products(following, _0, _1, _1, top, F[c], _1, cap, before, _0, W, log)


@kernel
def win_lanes(F, k, unanimous, wins, work, log):
    """Weights of the k-subsets in which each of the classes wins.

    Time O(C k²) a lane, and O(C v (k - v)) more for each contested v, for all classes together.

    Parameters
    ----------
    F, k, unanimous, work, log : as for ``vote_lanes``
    wins : (C, W) weights; in the arithmetic; out
    """
    C, W = F.shape[0], F.shape[2]
    first_win, last_lose = _limits(C, k, unanimous)
    _fill(wins, 0, C - 1, nothing(log), W)
    _add_wins(F, k, first_win, k, k, wins, work, W, log)
    for v in range(last_lose + 1, first_win):
        _add_wins(F, k, v, v, v - 1, wins, work, W, log)
