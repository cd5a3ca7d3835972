"""Matches: which rows belong together, as a sparse matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vicinal.core import checks
from vicinal.core.types import Array, Target
from vicinal.targets._checks import chances_in_batch, checked_matches, checked_weight, part_of

#: smaller matches count as none: float32 has no range for them and a match of one
LEAST_MATCH = 1e-30
_GROUP = 100  # rows that match each other


class Matches(Target):
    """How well each row matches each other row: temporal neighbours, or known matches.

    Parameters
    ----------
    M : sparse matrix or array of shape (n, n)
        ``M[i, j]`` in [0, 1] says how right it is that row i picks row j.  The diagonal is ignored,
        and so are entries below 1e-30.  It need not be symmetric.
    sample_weight : array-like of shape (n,), default=None
        Importance weights v: the mass of a row as a reference and its weight as a query.

    Attributes
    ----------
    indptr, indices, data : int64, int32 and float64 arrays
        The matches in compressed sparse rows, sorted by column, none of them zero.
    weight : float64 array of shape (n,) or None
        How many rows of all a row stands for among those that a query does not match; set by
        `in_batch`.
    """

    #: the target of a row are other rows, which must then be present too
    refers_to_rows: ClassVar[bool] = True
    #: what the score of a prediction is called
    score_name: ClassVar[str] = "share of matches"
    indptr: Array
    indices: Array
    data: Array
    sample_weight: Array | None
    weight: Array | None = None

    def __init__(self, M: Any, sample_weight: Any = None) -> None:
        self._set(_checked(M))
        self.sample_weight = checked_weight(sample_weight, len(self), "Matches")

    def _set(self, M: Any) -> None:
        self.indptr = M.indptr.astype(np.int64)
        self.indices = M.indices.astype(np.int32)
        self.data = M.data.astype(np.float64)

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        checks.graph(self.indptr, self.indices)
        checks.double(self.data, 1, "data", (len(self.indices),))
        checks.within(self.data, "matches", 0.0, 1.0)
        checks.weights(self.sample_weight, len(self))
        checks.weights(self.weight, len(self), "weight")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Any:
        """The matches as a sparse array of shape (n, n)."""
        n = len(self)
        # indptr of int64 would turn the indices into int64 as well
        indptr = self.indptr.astype(np.int32) if self.indptr[-1] < 2**31 else self.indptr
        return sp.csr_array((self.data, self.indices, indptr), shape=(n, n))

    @property
    def contents(self) -> tuple[Array, ...]:
        """All arrays besides the weights."""
        return self.indptr, self.indices, self.data

    @property
    def counts(self) -> Array:
        """Number of matches of each row."""
        return np.diff(self.indptr)

    def between(self, queries: Any, references: Any) -> Any:
        """The matches of some rows among others: a sparse array (n_queries, n_references)."""
        return sp.csr_array(self.matrix[queries][:, references])

    def take(self, rows: Any) -> Matches:
        """The matches of some rows among each other."""
        if rows is None:
            return self
        part = object.__new__(type(self))
        block = self.between(rows, rows)
        block.sort_indices()
        part._set(block)
        part.sample_weight = part_of(self.sample_weight, rows)
        if self.weight is not None:
            part.weight = self.weight[rows]
        return part

    def draw(self, rows: Array, size: int, rng: np.random.RandomState) -> Array:
        """A sample of some rows, in groups that match."""
        return matching_groups(self.matrix, rows, size, rng)

    @property
    def chance(self) -> float:
        """The share of matches among the picks of rows that pick any other row alike."""
        v = np.ones(len(self)) if self.sample_weight is None else self.sample_weight
        others = v.sum() - v
        shares = np.divide(self.matrix @ v, others, out=np.zeros(len(self)), where=others > 0)
        return float(np.average(shares, weights=v)) if len(self) else 0.0

    def in_batch(
        self, rows: Array, share: float | None = None, train: Array | None = None
    ) -> tuple[Array, Matches, Array]:
        r"""What a batch of rows needs: its rows and their matches, which it embeds too.

        All matches of a query are then present, but of the other rows only some.  If the batch is a
        random draw of a share f of the rows, a row l that the query does not match counts
        :math:`1 / \pi_l` times, with :math:`\pi_l` the chance that l, or one of the rows that
        match it, is in the batch: the sums over all rows are then estimated without bias.

        Parameters
        ----------
        rows : int array
            The rows of the batch.
        share : float, default=None
            Chance that a row is in the batch, given another one that is; None if the rows were
            chosen by their place.  Then every row counts once.
        train : int array, default=None
            The rows that batches are drawn from; None: all.

        Returns
        -------
        rows : int array
            The rows to embed, sorted.
        target : Matches
            Their target; rows outside the batch have no matches.
        queries : int array
            Positions of the batch among these rows.
        """
        n = len(self)
        own = self.matrix[rows]
        embedded = np.zeros(n, np.bool_)
        embedded[own.indices] = True
        if train is not None:
            allowed = np.zeros(n, np.bool_)
            allowed[train] = True
            embedded &= allowed
        embedded[rows] = True
        everyone = np.flatnonzero(embedded)
        queries = np.searchsorted(everyone, rows)
        part = object.__new__(type(self))
        block = sp.coo_array(own[:, everyone])
        size = (len(everyone), len(everyone))
        block = sp.csr_array((block.data, (queries[block.row], block.col)), size)
        block.sort_indices()
        part._set(block)
        part.sample_weight = part_of(self.sample_weight, everyone)
        if share is not None:
            part.weight = 1.0 / self._chances(share, train)[everyone]
        return everyone, part, queries

    def _chances(self, share: float, train: Array | None) -> Array:
        """The chance that a batch embeds each row, given a query that does not match it."""
        M = self.matrix if train is None else self.matrix[train]
        followers = np.bincount(M.indices, minlength=len(self))
        return chances_in_batch(followers, share, M.shape[0] - 1)


def _checked(M: Any) -> Any:
    """Matches in canonical compressed rows, without the diagonal and without zeros."""
    M = sp.coo_array(checked_matches(M, None, "The 'M' parameter of Matches"))
    kept = (M.row != M.col) & (M.data >= LEAST_MATCH)
    M = sp.csr_array((M.data[kept], (M.row[kept], M.col[kept])), M.shape)
    M.sort_indices()
    return M


def matching_groups(M: Any, rows: Array, size: int, rng: np.random.RandomState) -> Array:
    """A sample of some rows, sorted, in groups that match: a random row of each, then its matches.

    Of many rows, hardly any in a plain random sample would match another one there.

    Parameters
    ----------
    M : CSR array of shape (n, n)
        The matches.
    rows : int array
        The rows to draw from, at least ``size``.
    size : int
        Number of rows to draw.
    rng : RandomState

    Returns
    -------
    int array of shape (size,)
    """
    free = np.zeros(M.shape[0], dtype=bool)
    free[rows] = True
    order = rng.permutation(rows)
    matched = np.diff(M.indptr)[order] > 0
    drawn: list[Array] = []
    left = size
    for first in np.concatenate([order[matched], order[~matched]]):
        if not free[first]:
            continue
        new, room = np.array([first]), min(_GROUP, left)
        while len(new):
            free[new] = False
            drawn.append(new)
            room, left = room - len(new), left - len(new)
            if room == 0:
                break
            near = np.unique(M[new].indices)
            new = rng.permutation(near[free[near]])[:room]
        if left == 0:
            break
    return np.sort(np.concatenate(drawn))
