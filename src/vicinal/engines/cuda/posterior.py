"""Sums of new points over each class by Triton's kernels: what class probabilities are made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data
from vicinal.engines.cuda import kernels
from vicinal.engines.cuda.arrays import DeviceArray, sent
from vicinal.engines.cuda.class_sums import _FUSED, DIFFERENCES_UP_TO, DIRECT_UP_TO
from vicinal.engines.cuda.layout import TILE, Side, class_splits

#: classes up to which each has splits of its own
CLASSES_UP_TO = 256


def suits(Z: DeviceArray, n_classes: int) -> bool:
    """Whether there are kernels for this many dimensions and classes."""
    return Z.shape[1] <= DIFFERENCES_UP_TO and n_classes <= CLASSES_UP_TO


def sums_by_class(
    Z: DeviceArray, data: Data, kernel: Kernel, n_classes: int
) -> tuple[Array, Array]:
    """See `base.Backend`; for points that are no rows of the data."""
    where: Any = data.Z
    given = (data.codes, data.mass, data.reference_rows)
    side = where.remembered("classes", given, lambda: Side(data.reference_rows, data, TILE))
    d, scale, pad = Z.shape[1], kernel.coordinate_scale, kernels.PAD
    centre = where.tensor[side.source].mean(0)
    R = side.spread(where.tensor, centre, scale, pad)
    m, size = len(Z), -(-len(Z) // TILE) * TILE
    Q = R.new_full((d, size), pad)
    Q[:, :m] = ((Z.tensor.to(R.dtype) - centre) * scale).T
    found, first, last, ends = class_splits(side, size // TILE, n_classes)
    M = Q.new_empty(len(first), 2, size)
    S = torch.empty_like(M)
    nobody = torch.full((size,), -1, dtype=torch.int32, device=Q.device)
    unused = Q.new_zeros(1)
    BM, BN = (TILE, 16) if d <= DIRECT_UP_TO else (TILE // 2, 4)
    kernels.sums[(size // BM, len(first))](
        Q, R, nobody, side.mass.to(Q.dtype), nobody, side.tile_code, sent(first, where, np.int32),
        sent(last, where, np.int32), unused, unused, unused, unused, M, S, size, side.N,
        float(kernel.power(d) or 0.0), 0.0, D=d, BM=BM,
        BN=TILE if Q.device.type == "cpu" else BN, FAMILY=kernel.family, WEIGHED=side.weighed,
        ANYWHERE=False, SKIPS=False, **_FUSED,
    )  # fmt: skip
    log2, shift = np.full((m, n_classes), -math.inf), np.full((m, n_classes), math.inf)
    one = torch.empty(2, 2, size, dtype=torch.float64, device=Q.device)
    for c, begin, end in zip(found, ends[:-1], ends[1:], strict=True):
        kernels.joined[(size // TILE, 1)](
            M[begin:end], S[begin:end], one[0], one[1], size, end - begin, BM=TILE, **_FUSED
        )
        shift[:, c], log2[:, c] = one[:, 0, :m].cpu().numpy()
    return log2, shift
