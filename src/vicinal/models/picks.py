"""How many training rows a stochastic neighbour is picked from."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.models.stored import StoredRows
from vicinal.objectives import nca_effective_n_neighbors


class StochasticPicks(StoredRows):
    """Effective numbers of neighbours, for models whose queries pick a training row at random.

    Class priors have no influence on them.
    """

    kernel: Kernel

    @cached_property
    def effective_n_neighbors(self) -> Array:
        """Effective number of neighbours of each training row, [Goldberger2005] section 2."""
        return nca_effective_n_neighbors(self.Z, self.sample_weight, kernel=self.kernel)

    def effective_n_neighbors_of(self, Z: Array) -> Array:
        """Effective number of neighbours of each query among the training rows."""

        def answer(part: Array) -> Array:
            return nca_effective_n_neighbors(
                self.Z, self.sample_weight, Z_query=part, kernel=self.kernel
            )

        return self._in_chunks(Z, 16 * Z.shape[1] + 200, answer)

    def local_n_neighbors(self, Z: Array) -> Array:
        """The k of each query: its effective number of neighbours, [Goldberger2005] section 6."""
        effective: Any = np.rint(self.effective_n_neighbors_of(Z))
        return np.clip(effective, 1, len(self.Z)).astype(np.intp)
