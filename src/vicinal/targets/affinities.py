"""The target of an embedding: how likely each row is in a neighbourhood of each other row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from vicinal.core import checks
from vicinal.core.types import Array, Target


@dataclass(frozen=True)
class Affinities(Target):
    r"""Marginals :math:`p^k_{ij}` of neighbourhoods of k rows, in compressed sparse rows.

    Parameters
    ----------
    indptr : int64 array of shape (n + 1,)
    indices : int32 array
        ``indices[indptr[i]:indptr[i + 1]]`` are the rows that row i may choose, never i itself.
    marginals : float64 array
        The chance that each of them is among the k chosen; the list of a row sums to k.
    k : int
        Size of the neighbourhoods.
    entropy : float64 array of shape (n,)
        Entropy of the sets that each row chooses, in nats: what the loss is at best.
    missing : float
        Share of the marginals that the lists leave out, as measured; 0 if they hold all rows, and
        NaN if that is not known, as of a graph of neighbours.
    """

    indptr: Array
    indices: Array
    marginals: Array
    k: int
    entropy: Array
    missing: float = 0.0
    refers_to_rows: ClassVar[bool] = True

    def check_fields(self) -> None:
        """Refuse fields that do not fit together."""
        n = len(self)
        checks.need(n >= 1, "there are no rows")
        checks.graph(self.indptr, self.indices)
        checks.double(self.marginals, 1, "marginals", (len(self.indices),))
        checks.double(self.entropy, 1, "entropy", (n,), finite=False)
        checks.count(self.k, "k", 1, n)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def matrix(self) -> Any:
        """The marginals as a sparse array of shape (n, n)."""
        n = len(self)
        # indptr of int64 would turn the indices into int64 as well
        small = self.indptr[-1] < 2**30  # P + P.T has up to twice as many
        indptr = self.indptr.astype(np.int32) if small else self.indptr
        return sp.csr_array((self.marginals, self.indices, indptr), shape=(n, n))

    @cached_property
    def symmetric(self) -> Any:
        """``P + P.T``: a pair attracts as much as both of its rows want; sorted by columns."""
        P = self.matrix
        both = sp.csr_array(P + P.T)
        both.sort_indices()
        return both

    def __getstate__(self) -> dict[str, Any]:
        """Without `symmetric`, which is larger than all the rest and follows from it."""
        return {name: value for name, value in vars(self).items() if name != "symmetric"}

    def take(self, rows: Any) -> Affinities:
        """Some rows: their marginals for each other."""
        if rows is None:
            return self
        part = sp.csr_array(self.matrix[rows][:, rows])
        indices = part.indices.astype(np.int32, copy=False)
        indptr = part.indptr.astype(np.int64, copy=False)
        return Affinities(indptr, indices, part.data, self.k, self.entropy[rows], self.missing)
