"""Sets of k references and the attraction of kSNE by Triton's kernels: see `base.SetSums`."""

from __future__ import annotations

import math

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.densities import Gaussian, Student
from vicinal.engines.base import Data, columns_of
from vicinal.engines.cuda import count_kernels, vote_kernels
from vicinal.engines.cuda.arrays import DeviceArray, on_its_device, sent
from vicinal.engines.cuda.layout import layout_of
from vicinal.engines.cuda.votes import _FUSED, Sets, Slopes, Summaries
from vicinal.targets import Affinities

_LENGTH = 128  # entries of a list at a time
#: extent of a picture below which all weights are so near to 1 that float32 knows no differences
_TINY = 0.03


class TritonSets:
    """Sums over all sets of k references: see `base.SetSums`.

    Unless they are to be ``exact``, they are in float32, except of a picture that is tiny.
    """

    name = "triton"

    def __init__(
        self, Z: DeviceArray, k: int, kernel: str, query_rows: Array, reference_rows: Array,
        exact: bool,
    ) -> None:  # fmt: skip
        n = len(Z)
        Z = Z.astype(np.float64 if exact or Z.extent < _TINY else np.float32)
        self.Z, self.query_rows = Z, query_rows
        gaussian = kernel == "gaussian"
        family = (Gaussian if gaussian else Student).family
        layout = layout_of(Data(Z, np.zeros(n, int), np.ones(n), query_rows, reference_rows))
        scale = Gaussian.coordinate_scale if gaussian else 1.0
        self.sets = Sets(Z, layout, k, family, scale)
        self.facts: dict[str, float] = {"chain_rows": 0.0, "share_of_pairs": 1.0}
        self._found: tuple[Summaries, Slopes] | None = None

    @on_its_device
    def sums(self) -> Array:
        """The log of the total weight of all sets of k, for each query."""
        sets, rows, k = self.sets, self.sets.layout.queries, self.sets.k
        found = sets.summaries()
        slopes = Slopes(torch.empty_like(found.near), torch.empty_like(found.near))
        total = torch.empty(rows.N, dtype=torch.float64, device=found.near.device)
        room = torch.empty((k + 1) * (k + 3), rows.N, dtype=torch.float64, device=total.device)
        lanes = sets.lanes(rows.N)
        count_kernels.sets[(rows.N // lanes,)](
            *found, room, total, *slopes, 0, 0, k + 1, rows.N, rows.N, k, BM=lanes, **_FUSED
        )
        self._found = found, slopes
        logs = rows.of_rows(total).cpu().numpy() * math.log(2.0)
        return logs[columns_of(rows.rows, self.query_rows)]

    @on_its_device
    def pull(self, factors: Array) -> DeviceArray:
        """The gradient by Z of the sum of ``factors`` times the `sums`, which come first."""
        rows = self.sets.layout.queries
        mine = factors[columns_of(self.query_rows, rows.rows)]
        factor = rows.per_place(sent(mine, self.Z, self.Z.dtype), 0.0)
        # more weight where points are near
        if self._found is None:
            raise RuntimeError("Call sums first.")
        return self.sets.pull(*self._found, factor, -1.0)


def attraction(Z: DeviceArray, target: Affinities, kernel: str) -> tuple[float, DeviceArray]:
    """The sum of ``-p_ij log w_ij`` over all rows, and its gradient by Z, in float64."""

    def uploaded() -> tuple[torch.Tensor, ...]:
        lists = target.symmetric
        return (sent(lists.indptr, Z, np.int64), sent(lists.indices, Z, np.int32),
                sent(lists.data, Z, np.float64))  # fmt: skip

    points = Z.tensor.double().contiguous()
    with torch.cuda.device_of(points):
        lists = Z.remembered("lists", (target,), uploaded)
        value, G = points.new_empty(len(Z)), torch.empty_like(points)
        vote_kernels.attract[(len(Z),)](
            points, *lists, value, G, D=Z.shape[1], GAUSSIAN=kernel == "gaussian", LENGTH=_LENGTH,
            **_FUSED,
        )  # fmt: skip
        # a pair is in the lists of both its rows
        return float(value.sum()) / 2.0, DeviceArray(G)
