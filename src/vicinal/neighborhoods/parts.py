"""Lists of the nearest rows, random ones or target neighbours, and all pairs summed by trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from vicinal import _search
from vicinal._threads import block_edges, n_threads, run
from vicinal._validation import check_bool, check_number, check_option, warn
from vicinal.core.types import Array, Pairs
from vicinal.targets.labels import class_codes

SEARCHED = 16_384  # rows searched at a time: 26 MB of distances and indices for m = 100


@dataclass(frozen=True)
class Nearest:
    """The m nearest references of each row, none beyond a radius ([Oneata2011] sections 4.4, 5.4).

    If the list of a row has too few other members of its own class, the nearest of them are added,
    however far they are: otherwise the truncation could make :math:`-\\log p_i` infinite.

    Parameters
    ----------
    m : int, default=100
        Length of the lists.  According to the thesis, few neighbours carry the mass once a map is
        half learnt; :func:`mass_left_out` measures it.
    radius : float, default=None
        Distance in the embedded space beyond which no row is listed.  At ``sqrt(30)`` the Gaussian
        kernel is ``exp(-30)``.  The compact kernel is zero beyond 1.
    search : {"auto", "tree", "brute", "faiss"}, default="auto"
        "tree": a k-d tree, exact, for few dimensions.  "brute": all distances, exact.  "faiss": an
        inverted file, approximate above 10,000 references, for the largest data; needs
        ``pip install faiss-cpu``.  "auto": a tree up to five dimensions; above, faiss if it is
        installed and there are more than 50,000 references; otherwise a tree up to eight
        dimensions and brute force above.
    refresh : int, default=10
        Most iterations between refreshes of the lists; where rows move far, they come sooner.
    own : int, default=1
        Least number of other members of its own class in a list, if the class has that many.
    min_probability : float, default=None
        Least probability :math:`p_{ij}` of a listed row, under the Gaussian kernel and among the m
        nearest, so that none is dropped whose probability among all rows is above it.  The lists
        are then shorter where few rows carry the mass.  The thesis drops rows below ``exp(-30)``.

    Notes
    -----
    Memory is 4 (m + own) bytes a row for the lists, a copy of the references for the search, and
    some 30 MB.  The lists do not depend on the number of threads.
    """

    m: int = 100
    radius: float | None = None
    search: str = "auto"
    refresh: int = 10
    own: int = 1
    min_probability: float | None = None

    makes_lists: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(self, "m", 1, integer=True)
        check_number(self, "own", 1, integer=True)
        check_number(self, "radius", 0.0, open_ends=True, or_else=(None,))
        check_number(self, "min_probability", 0.0, 1.0, open_ends=True, or_else=(None,))
        check_option(self, "search", ("auto", "tree", "brute", "faiss"))
        check_number(self, "refresh", 1, integer=True)

    def pairs(
        self,
        Z: Array,
        codes: Array | None,
        references: Array | None = None,
        random_state: Any = None,
    ) -> Pairs:
        """Lists for all rows of Z.

        Parameters
        ----------
        Z : array of shape (n, d)
        codes : int array of shape (n,) or None
            Class of each row; None: one class of all rows.
        references : int array, default=None
            Rows that may be listed; None for all.
        random_state : ignored
            Nothing is drawn; other neighbourhoods use it.

        Returns
        -------
        Pairs
        """
        from vicinal.kernels import neighbours

        references, codes = reference_rows(references, len(Z)), class_codes(codes, len(Z))
        m = _length(self, references)
        n, width = len(Z), m + int(self.own)
        flat = np.empty(n * width, np.int32)
        lists = flat.reshape(n, width)
        counts, n_own = np.empty(n, np.int64), np.empty(n, np.int64)
        order = neighbours.visiting_order(Z)
        reach = np.inf if self.radius is None else float(self.radius) ** 2
        found = _search.finder(self.search, Z[references])
        for start in range(0, n, SEARCHED):
            rows = order[start : start + SEARCHED]
            near, d2 = found(Z[rows], min(m + 1, len(references)))
            if self.min_probability is not None:
                near = _probable(near, d2, references[near] == rows[:, None], self.min_probability)
            neighbours.fill_nearest(
                rows, near, d2, references, codes, m, reach, lists, counts, n_own
            )
        if self.radius is not None and not counts.any():
            warn(
                f"No two rows are within the radius of {type(self).__name__}: each list holds only "
                f"the nearest row of the same class. Raise radius={self.radius!r}."
            )
        _append_own(Z, codes, references, int(self.own), n_own, lists, counts)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        neighbours.close_gaps(flat, width, counts)
        del lists  # without this view, resize can free the rest of the memory in place
        flat.resize(indptr[-1], refcheck=False)
        return Pairs(indptr, flat)


def _probable(near: Array, d2: Array, itself: Array, least: float) -> Array:
    """``near``, with -1 in place of rows whose probability among those found is below ``least``."""
    energy = np.where(itself | (near < 0), np.inf, d2).astype(np.float64)
    nearest = energy.min(axis=1, keepdims=True)
    kernel = np.exp(np.where(np.isinf(nearest), 0.0, nearest) - energy)
    # p = kernel / sum; a row itself stays, because the list ends at the first -1
    improbable = kernel < least * kernel.sum(axis=1, keepdims=True)
    return np.where(improbable & ~itself, -1, near)


def _append_own(
    Z: Array, codes: Array, references: Array, own: int, n_own: Array, lists: Array, counts: Array
) -> None:
    """Append the nearest rows of the same class to lists that hold fewer than ``own`` of them."""
    from vicinal.kernels import neighbours

    rows = np.flatnonzero(n_own < own)
    by_class = rows[np.argsort(codes[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(codes[by_class], prepend=-1))
    for part in np.split(by_class, starts[1:]) if len(by_class) else []:
        members = references[codes[references] == codes[part[0]]]
        if not len(members) or (len(members) == 1 and (part == members[0]).all()):
            continue
        found = _search.finder("auto", Z[members])
        for start in range(0, len(part), SEARCHED):
            chunk = part[start : start + SEARCHED]
            near = found(Z[chunk], min(own + 1, len(members)))[0]
            near = np.where(near < 0, chunk[:, None], members[near])  # nothing found: itself
            neighbours.append_missing(chunk, near, own, n_own, lists, counts)


@dataclass(frozen=True)
class RandomPairs:
    r"""m random references for each row, half of them of its own class ([Tarlow2013] section 8).

    Two simple random samples are drawn without replacement, from the own class and from all others;
    a class too small for its half is taken whole, and the other half is then longer.  The sampling
    rates come with the lists, and the objective divides its sums by them: the sum over the own
    class and the sum over the others are then unbiased estimates of the full sums, whatever the
    sizes of the classes, the weights and the priors.  (Halves, because the variances of the two
    logarithms add up in the variance of the odds; samples of equal rates would leave a row of a
    small class without a neighbour of its class.)  The loss is a curved function of the two sums,
    so it keeps a bias of order 1 / m, which is small only if many references share the mass: at
    20,000 points in 5 dimensions, where the nearest 100 carry 80 % of it, 100 random ones gave a
    mean loss of 3.15 instead of 2.50 (and the nearest 100 gave 2.53).

    Parameters
    ----------
    m : int, default=100
        Length of the lists, at least 2.
    refresh : int, default=1
        Number of iterations between draws of the lists.

    Notes
    -----
    Memory is 4 m bytes a row.  The lists depend on the seed, not on the number of threads.
    """

    m: int = 100
    refresh: int = 1

    makes_lists: ClassVar[bool] = True
    draws: ClassVar[bool] = True
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(self, "m", 2, integer=True)
        check_number(self, "refresh", 1, integer=True)

    def pairs(
        self,
        Z: Array,
        codes: Array | None,
        references: Array | None = None,
        random_state: Any = None,
    ) -> Pairs:
        """Lists for all rows of Z; the arguments are those of :meth:`Nearest.pairs`.

        Only the number of rows of Z matters.  ``random_state`` is an int, a
        :class:`numpy.random.RandomState` or None.
        """
        from vicinal.kernels import neighbours

        n = len(Z)
        references, codes = reference_rows(references, n), class_codes(codes, n)
        m = _length(self, references)
        references = references[np.argsort(codes[references], kind="stable")]
        first, last = (np.searchsorted(codes[references], codes, side=s) for s in ("left", "right"))
        position = np.full(n, -1)
        position[references] = np.arange(len(references))
        members = last - first - (position >= 0)
        others = len(references) - (last - first)
        n_own = np.minimum(members, np.maximum(m // 2, m - others))
        n_other = np.minimum(others, m - n_own)
        indptr = np.concatenate([[0], np.cumsum(n_own + n_other)])
        indices = np.empty(indptr[-1], np.int32)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        edges = block_edges(n, 4096, 1)
        threads = min(n_threads(), len(edges) - 1)
        seen = [np.full(len(references), -1, np.int32) for _ in range(threads)]

        def task(block: int, thread: int) -> None:
            i0, i1 = edges[block], edges[block + 1]
            # each block has its own generator, so the thread makes no difference
            uniform = np.random.default_rng([seed, block]).random(indptr[i1] - indptr[i0])
            neighbours.fill_random(
                i0, i1, indptr, n_own, first, last, position, references, uniform, seen[thread],
                indices,
            )  # fmt: skip

        run(task, range(len(edges) - 1), threads)
        shares = np.stack([n_other / np.maximum(others, 1), n_own / np.maximum(members, 1)])
        return Pairs(indptr, indices, np.log2(np.where(shares > 0, shares, 1.0)))


@dataclass(frozen=True)
class Tree:
    """All pairs, with distant groups summed at once within a tolerance ([Oneata2011] alg. 4.6).

    Parameters
    ----------
    tolerance : float, default=0.01
        Largest relative error of the density of each class at a row.  The odds of its class are
        then within ``(1 + tolerance) / (1 - tolerance)``.
    each_class : bool, default=True
        False applies the tolerance to the sum over all other classes of a row, on which alone the
        odds depend, but not to each of them.  Late in learning, distant classes are then summed at
        once, in less than half the time.
    always : bool, default=False
        False sums all pairs exactly if a few sampled rows show that trees would take longer.

    Notes
    -----
    The tree is faster than all pairs if it visits less than about half of them one by one
    (``history_["share_of_pairs"]``).  Measured by benchmarks/nca_trees.py with
    ``each_class=False``, it was faster at 46 % and slower at 71 % for 20,000 rows in two dimensions
    (24 and 66 % for 60,000), and at 45 and 56 % in five (36 and 96 % for 60,000): 1.3 to 2.2 times
    as fast late in learning, when few neighbours count, half as fast early on.  All pairs become
    faster late in learning too: pairs that change no bit are skipped.
    """

    tolerance: float = 0.01
    each_class: bool = True
    always: bool = False
    refresh: ClassVar[None] = None  # the trees are built at every evaluation
    makes_lists: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number(self, "tolerance", 0.0, 0.5)
        check_bool(self, "each_class")
        check_bool(self, "always")

    def pairs(
        self,
        Z: Array,
        codes: Array | None,
        references: Array | None = None,
        random_state: Any = None,
    ) -> Any:
        """Settings for the sums by trees; all arguments are ignored, since no lists are made."""
        from vicinal.engines.cpu.trees import Bounded

        return Bounded(float(self.tolerance), bool(self.always), bool(self.each_class))


def reference_rows(references: Array | None, n: int) -> Array:
    rows = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    if not len(rows):
        raise ValueError("Lists of neighbours need at least one reference.")
    return rows


def _length(part: Nearest | RandomPairs, references: Array) -> int:
    """The length of the lists, at most the number of references."""
    if part.m > len(references):
        warn(
            f"The 'm' parameter of {type(part).__name__} is {part.m}, but there are only "
            f"{len(references)} references: all of them are used."
        )
    return min(int(part.m), len(references))


def target_neighbors(
    points: Array | Callable[[Array], Array],
    codes: Array,
    k: int,
    references: Array | None = None,
    finder: Callable[[Array], _search.Find] | None = None,
) -> Array:
    """The k nearest rows of its own class, for each row.

    Parameters
    ----------
    points : array of shape (n, d), or callable
        Positions of the rows in space; a callable returns those of some rows, so that not all need
        be in memory at once.
    codes : int array of shape (n,)
        Class of each row.
    k : int
        Number of neighbours.
    references : int array, default=None
        Rows that may be neighbours; None for all.
    finder : callable, default=None
        ``find = finder(points)``, ``positions, distances = find(queries, k)``; None for Euclidean
        distances.

    Returns
    -------
    neighbours : int32 array of shape (n, k)
        Nearest first, -1 where the class has fewer other members among the references.
    """
    if not isinstance(k, Integral) or k < 1:
        raise ValueError(
            f"The 'k' parameter of target_neighbors must be an int in [1, inf). Got {k!r} instead."
        )
    codes = np.asarray(codes)
    references = reference_rows(references, len(codes))
    at: Any = points if callable(points) else np.asarray(points).__getitem__
    make = finder or _euclidean
    out = np.full((len(codes), k), -1, np.int32)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        members = references[codes[references] == code]
        if not len(members):
            continue
        find = make(at(members))
        width = min(k + 1, len(members))
        for start in range(0, len(rows), SEARCHED):
            chunk = rows[start : start + SEARCHED]
            found = find(at(chunk), width)[0]
            out[chunk] = _without_self(np.where(found < 0, -1, members[found]), chunk, k)
    return out


def _euclidean(points: Array) -> _search.Find:
    return _search.finder("exact", points)  # must not depend on installed packages


def _without_self(found: Array, rows: Array, k: int) -> Array:
    """The first k except the row itself, which among equal rows need not come first."""
    found = np.where(found == rows[:, None], -1, found)
    order = np.argsort(found < 0, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(found, order, axis=1)
    return np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=-1)
