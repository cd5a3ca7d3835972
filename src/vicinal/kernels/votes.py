"""The vote of k neighbours: weights of the sets in which a class wins, and the votes in them.

A class c has the polynomial F_c, whose coefficient F_c[m] is the weight of the sets of m of its
members, e_m(w_j : j in c).  Coefficient m of a product of such polynomials is the weight of the
sets of m members of those classes.  The own class o wins a set of k if it has v votes and

- ``unanimous``: v = k;
- majority: every other class has fewer than v ([Tarlow2013] eq. (7)-(8)); a tie is not a win.

In a majority vote v > k/2 always wins, and v <= (k - 1) / C, rounded up, always loses: C - 1
classes with fewer than v votes each cannot add up to k - v.  The v in between are *contested*: for
each of them the other classes are cut off at degree v - 1.  With two classes no v is contested.

P(c has m votes | win) is F_c[m] d(win)/dF_c[m] / win.  Derivatives come from products of the
classes before c, updated along the way, and of the classes after c, stored: every sum has positive
terms only; neither the lost sets nor the sets without c are computed by subtraction or division.
The products of the classes after c are

- ``suffix``: all their sets,
- ``below``: their sets in which each class has fewer than v votes,
- ``reached``: their sets in which some class has v or more.

A set that is lost because another class has reached v moves to one common prefix of lost sets,
whatever v was: only ``below`` and ``reached`` are computed again for each v.

Which rows are multiplied and added, and in which order, depends only on the number of classes and
k: it is written once, as a list of steps, which the kernels execute one by one.  So LLVM compiles
the loops over lanes once, not for each of the products above.

Queries are lanes, on the last axis.  Weights are plain numbers or logarithms, see
:mod:`vicinal.kernels._arithmetic`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._arithmetic import add, nothing, one, share, times
from vicinal.kernels._jit import exp2, kernel, log2, maximum, minimum


class VoteRoom(NamedTuple):
    """Scratch for one thread: all rows used by the steps; ``P`` (2, C, k + 1, W) is a view of some.

    ``P`` holds the probabilities that class c has m votes in a set that is won [0], or not [1].
    """

    rows: NDArray
    P: NDArray


# Numbers of the single polynomials.  Prefixes have two each, since no step may read what it writes:
# vectorised loops need arrays that do not overlap.
_OWN, _OWN_WIN, _OWN_LOSE, _WINNING, _LOSING, _UNDECIDED, _REST, _ONE = 0, 1, 2, 3, 5, 7, 9, 10
_SINGLE = 11


class Places:
    """The first row of each polynomial.

    ``others``: class polynomials with the own class of each lane replaced by 1; ``suffix``,
    ``below`` and ``reached``: as above, of the classes c, c + 1, ... at [c]; ``lost``: the sets
    that class c turns from undecided to lost; ``P_win`` and ``P_lose``: derivatives, then
    probabilities.
    """

    def __init__(self, C: int, k: int) -> None:
        n = k + 1
        self.single = [n * i for i in range(_SINGLE)]
        sizes = [C, C + 1, C + 1, C + 1, C, C, C]
        starts = n * (_SINGLE + np.cumsum([0, *sizes]))
        self.others, self.suffix, self.below, self.reached, self.lost, self.P_win, self.P_lose = (
            [int(start) + n * c for c in range(size)]
            for start, size in zip(starts, sizes, strict=False)
        )
        self.n_rows = int(starts[-1])


def vote_room(C: int, k: int, W: int) -> VoteRoom:
    """Scratch for C classes, sets of k and up to W lanes: O(C k W), 7 C + 14 rows of (k + 1) W."""
    places = Places(C, k)
    rows = np.empty((places.n_rows, W))
    return VoteRoom(rows, rows[places.P_win[0] :].reshape(2, C, k + 1, W))


_NOTHING, _UNIT, _COPY, _PRODUCTS = 0, 1, 2, 3


class _Steps:
    """Builds the list of steps, as rows of ten integers that `_do` reads."""

    def __init__(self, C: int, k: int) -> None:
        self.C, self.k, self.at = C, k, Places(C, k)
        self.steps: list[tuple[int, ...]] = []

    def table(self) -> NDArray:
        return np.array(self.steps, np.int64).reshape(-1, 10)

    def nothing(self, out: int, first: int, last: int) -> None:
        """Set degrees first to last to the weight 0."""
        self.steps.append((_NOTHING, out, 1, first, last, 0, 0, 0, 0, 0))

    def one(self, out: int) -> None:
        """Set degree 0 to the weight 1."""
        self.steps.append((_UNIT, out, 1, 0, 0, 0, 0, 0, 0, 0))

    def copy(self, x: int, first: int, last: int, out: int) -> None:
        self.steps.append((_COPY, out, 1, first, last, x, 0, 0, 0, 0))

    def products(
        self, out: int, origin: int, sign: int, first: int, last: int, x: int, a: int, b: int,
        y: int, low: int,
    ) -> None:  # fmt: skip
        """Add coefficients of the product of two polynomials X and Y.

            out[origin + sign t] += sum_{m=a}^{min(b, t - low)} X[m] Y[t - m],  t = first, ..., last

        ``a`` to ``b`` are the degrees of X that count, ``low`` is the lowest degree of Y that
        counts.  ``out`` overlaps neither.
        """
        self.steps.append((_PRODUCTS, out + origin, sign, first, last, x, a, b, y, low))

    def product(self, out: int, x: int, y: int) -> None:
        """Add the product of two rows to a row."""
        self.products(out, 0, 1, 0, 0, x, 0, 0, y, 0)

    def suffixes(self, top: int, cap: int, out: list[int]) -> None:
        """Products of the classes from each c on, up to degree top, each class up to degree cap."""
        C = self.C
        self.nothing(out[C], 0, top)
        self.one(out[C])
        for c in range(C - 1, -1, -1):
            self.copy(out[c + 1], 0, top, out[c])
            self.products(out[c], 0, 1, 1, top, self.at.others[c], 1, cap, out[c + 1], 0)

    def reached(self, top: int, v: int) -> None:
        """Sets of the classes from each c on in which some class has v or more votes: v to top."""
        C, at = self.C, self.at
        out = at.reached
        self.nothing(out[C], v, top)
        for c in range(C - 1, -1, -1):
            self.copy(out[c + 1], v, top, out[c])
            self.products(out[c], 0, 1, v, top, at.others[c], 1, v - 1, out[c + 1], v)
            self.products(out[c], 0, 1, v, top, at.others[c], v, top, at.suffix[c + 1], 0)

    def contested(self, v: int) -> None:
        """Add the sets with v own votes, which win if no other class has reached v."""
        at, single, n = self.at, self.at.single, self.k - v  # the others have n votes in all
        self.suffixes(n, v - 1, at.below)
        self.reached(n, v)
        mine = single[_OWN] + v
        self.product(single[_OWN_WIN] + v, mine, at.below[0] + n)
        self.product(single[_OWN_LOSE] + v, mine, at.reached[0] + n)
        self.nothing(single[_UNDECIDED], 1, n)
        self.copy(mine, 0, 0, single[_UNDECIDED])
        for c in range(self.C):
            undecided = single[_UNDECIDED + c % 2]
            following = single[_UNDECIDED + 1 - c % 2]
            top = min(n, c * (v - 1))  # the most votes that the classes before c can have
            # If class c has j votes, the others have n - j = t.  For j < v they
            # decide; for j >= v the set is lost, and joins the other lost sets.
            win, lose, G = at.P_win[c], at.P_lose[c], at.others[c]
            self.products(win, n, -1, n - v + 1, n, undecided, 0, top, at.below[c + 1], 0)
            self.products(lose, n, -1, n - v + 1, n, undecided, 0, top, at.reached[c + 1], v)
            self.products(lose, n, -1, 0, n - v, undecided, 0, top, at.suffix[c + 1], 0)
            self.products(at.lost[c], v, 1, v, n, G, v, n, undecided, 0)
            self.copy(undecided, 0, n, following)
            self.products(following, 0, 1, 1, min(n, top + v - 1), G, 1, v - 1, undecided, 0)

    def settled(self, first_win: int, last_lose: int) -> None:
        """Add the sets decided by the own votes alone, and the sets collected in ``lost``."""
        at, single, k = self.at, self.at.single, self.k
        self.copy(single[_OWN], first_win, k, single[_WINNING])
        self.copy(single[_OWN], 0, last_lose, single[_LOSING])
        self.nothing(single[_LOSING], last_lose + 1, k)
        for v in range(k + 1):
            if v >= first_win or v <= last_lose:
                out = single[_OWN_WIN if v >= first_win else _OWN_LOSE]
                self.product(out + v, single[_OWN] + v, at.suffix[0] + k - v)
        for c in range(self.C):
            winning, next_winning = single[_WINNING + c % 2], single[_WINNING + 1 - c % 2]
            losing, next_losing = single[_LOSING + c % 2], single[_LOSING + 1 - c % 2]
            after, G = at.suffix[c + 1], at.others[c]
            self.products(at.P_win[c], k, -1, 0, k, winning, first_win, k, after, 0)
            self.products(at.P_lose[c], k, -1, 0, k, losing, 0, k, after, 0)
            self.copy(winning, first_win, k, next_winning)
            self.products(next_winning, 0, 1, first_win, k, G, 1, k, winning, first_win)
            self.copy(losing, 0, k, next_losing)
            self.products(next_losing, 0, 1, 1, k, G, 1, k, losing, 0)
            if first_win - last_lose > 1:
                for m in range(
                    2 * (last_lose + 1), k + 1
                ):  # v own votes and v of class c, at least
                    self.product(next_losing + m, at.lost[c] + m, single[_ONE])

    def wins(self, first: int, last: int, cap: int) -> None:
        """Add the sets in which a class has first to last votes and no other has more than cap."""
        at, single, k = self.at, self.at.single, self.k
        top, rest = k - first, single[_REST]
        self.suffixes(top, cap, at.suffix)
        self.nothing(single[_UNDECIDED], 1, top)
        self.one(single[_UNDECIDED])
        for c in range(self.C):
            before, following = single[_UNDECIDED + c % 2], single[_UNDECIDED + 1 - c % 2]
            for v in range(first, last + 1):
                n = k - v
                self.nothing(rest, 0, 0)
                self.products(rest, -n, 1, n, n, before, 0, n, at.suffix[c + 1], 0)
                self.product(at.P_win[c], at.others[c] + v, rest)
            self.copy(before, 0, top, following)
            self.products(following, 0, 1, 1, top, at.others[c], 1, cap, before, 0)


def _limits(C: int, k: int, unanimous: bool) -> tuple[int, int]:
    """Fewest own votes that always win, and most own votes that always lose."""
    if unanimous:
        return k, k - 1
    # (C - 1) (v - 1) < k - v: the other classes cannot all have fewer than v
    return k // 2 + 1, min(k // 2, (k + C - 2) // C)


@lru_cache(maxsize=8)
def vote_steps(C: int, k: int, unanimous: bool) -> tuple[NDArray, tuple[int, ...]]:
    """Steps for `vote_lanes`, and the first rows of the others, the own class and own votes."""
    first_win, last_lose = _limits(C, k, unanimous)
    steps = _Steps(C, k)
    at, single = steps.at, steps.at.single
    steps.one(single[_ONE])
    steps.suffixes(k, k, at.suffix)
    steps.nothing(single[_OWN_WIN], 0, k)
    steps.nothing(single[_OWN_LOSE], 0, k)
    for c in range(C):
        steps.nothing(at.P_win[c], 0, k)
        steps.nothing(at.P_lose[c], 0, k)
        if first_win - last_lose > 1:
            steps.nothing(at.lost[c], 0, k)
    for v in range(last_lose + 1, first_win):
        steps.contested(v)
    steps.settled(first_win, last_lose)
    places = (at.others[0], single[_OWN], single[_OWN_WIN], single[_OWN_LOSE])
    return steps.table(), places


@lru_cache(maxsize=8)
def win_steps(C: int, k: int, unanimous: bool) -> tuple[NDArray, int, int]:
    """Steps for `win_lanes`, and the first rows of the classes and of the results."""
    first_win, last_lose = _limits(C, k, unanimous)
    steps = _Steps(C, k)
    for c in range(C):
        steps.nothing(steps.at.P_win[c], 0, 0)
    steps.wins(first_win, k, k)
    for v in range(last_lose + 1, first_win):
        steps.wins(v, v, v - 1)
    return steps.table(), steps.at.others[0], steps.at.P_win[0]


@kernel
def _do(steps, out, X, Y, W, log):
    """Execute all steps.  ``out``, ``X`` and ``Y`` are the same array; no step overlaps itself."""
    for step in range(steps.shape[0]):
        kind, r, sign, first = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3]
        last, x = steps[step, 4], steps[step, 5]
        a, b, y, low = steps[step, 6], steps[step, 7], steps[step, 8], steps[step, 9]
        for t in range(first, last + 1):
            row = out[r + sign * t]
            if kind < _COPY:
                value = nothing(log) if kind == _NOTHING else one(log)
                for i in range(W):
                    row[i] = value
                continue
            if kind == _COPY:
                for i in range(W):
                    row[i] = X[x + t, i]
                continue
            # Four terms per sweep over the lanes, to read and write the row a quarter as often.
            m, end = x + a, x + minimum(b, t - low) + 1
            n = y + t - a
            while m + 4 <= end:
                for i in range(W):
                    p, q = times(X[m, i], Y[n, i], log), times(X[m + 1, i], Y[n - 1, i], log)
                    u, w = (
                        times(X[m + 2, i], Y[n - 2, i], log),
                        times(X[m + 3, i], Y[n - 3, i], log),
                    )
                    # not in a function: LLVM finds it too long to inline, and a loop with a call is
                    # not vectorised
                    if log is None:
                        row[i] = (row[i] + p) + (q + u) + w
                    else:
                        top = maximum(maximum(p, q), maximum(maximum(u, w), row[i]))
                        two = exp2(p - top) + exp2(q - top)
                        rest = exp2(u - top) + exp2(w - top) + exp2(row[i] - top)
                        row[i] = top + log2(two + rest)
                m, n = m + 4, n - 4
            if m + 2 <= end:
                for i in range(W):
                    p, q = times(X[m, i], Y[n, i], log), times(X[m + 1, i], Y[n - 1, i], log)
                    row[i] = add(row[i], add(p, q, log), log)
                m, n = m + 2, n - 2
            if m < end:
                for i in range(W):
                    row[i] = add(row[i], times(X[m, i], Y[n, i], log), log)


@kernel
def _separate(F, own, others, mine, rows, log):
    """Split off the own class of each lane; among the others it becomes the polynomial 1."""
    C, degrees, W = F.shape
    for m in range(degrees):
        z, absent = rows[mine + m], nothing(log) if m > 0 else one(log)
        for i in range(W):
            z[i] = nothing(log)
        for c in range(C):
            x, y = F[c, m], rows[others + c * degrees + m]
            for i in range(W):
                is_own = own[i] == c
                y[i] = absent if is_own else x[i]
                z[i] = x[i] if is_own else z[i]


@kernel
def _shares(own, others, votes, total, P, rows, log):
    """Total weight over all numbers of own votes; turn derivatives into probabilities.

    The probability of m votes is the derivative times the polynomial, divided by the total.
    """
    C, degrees, W = P.shape[0], P.shape[1], len(total)
    for i in range(W):
        total[i] = nothing(log)
    for m in range(degrees):
        x = rows[votes + m]
        for i in range(W):
            total[i] = add(total[i], x[i], log)
    for c in range(C):
        for m in range(degrees):
            x, y, p = rows[votes + m], rows[others + c * degrees + m], P[c, m]
            for i in range(W):
                weight = x[i] if own[i] == c else times(y[i], p[i], log)
                p[i] = share(weight, total[i], log)


def vote_lanes(F, own, k, unanimous, weights, work, log):
    """Weights of the k-subsets in which the own class wins or does not, and the votes in them.

    Time O(C k²) per lane, plus O(C k²) for each contested v.  Plain numbers suffice for a lane
    whose weights are finite and each either at least ``_arithmetic.LEAST`` or 0 for lack of
    members; other lanes need the log domain, at about ten times the cost.

    Parameters
    ----------
    F : (C, k + 1, W) class polynomials, F[c, 0] = 1; in the arithmetic
    own : (W,) intp, class of each lane
    unanimous : whether all k votes are needed, or a majority
    weights : (2, W) of sets that are won [0], or not [1]; in the arithmetic; out
    work : from ``vote_room`` for at least W lanes; the first W of ``work.P`` receive the plain
        probabilities, 0 in lanes without such a set (plain: of weight ``LEAST`` or more)
    log : None for plain numbers, any int for base-2 logarithms
    """
    steps, (others, mine, *votes) = vote_steps(len(F), k, bool(unanimous))
    rows = work.rows
    _separate(F, own, others, mine, rows, log)
    _do(steps, rows, rows, rows, F.shape[2], log)
    for side in range(2):
        _shares(own, others, votes[side], weights[side], work.P[side], rows, log)


def win_lanes(F, k, unanimous, wins, work, log):
    """Weights of the k-subsets in which each of the classes wins.

    Time O(C k²) per lane, plus O(C v (k - v)) for each contested v, for all classes together.

    Parameters
    ----------
    F, k, unanimous, work, log : as for ``vote_lanes``
    wins : (C, W) weights; in the arithmetic; out
    """
    C, degrees, W = F.shape
    steps, others, out = win_steps(C, k, bool(unanimous))
    rows = work.rows
    rows[others : others + C * degrees, :W] = F.reshape(-1, W)
    _do(steps, rows, rows, rows, W, log)
    wins[:] = rows[out : out + C * degrees : degrees, :W]
