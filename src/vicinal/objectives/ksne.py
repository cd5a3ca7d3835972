"""kSNE and kt-SNE: embedded points choose the same neighbourhoods of k as the rows do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vicinal.core.types import Array, Evaluation, Units
from vicinal.engines import choose
from vicinal.engines.points import check_points, check_rows
from vicinal.targets import Affinities

__all__ = ["KSNELoss"]


@dataclass(frozen=True)
class KSNELoss:
    """The loss of kSNE and kt-SNE as an object: ``Evaluation = loss(Z, affinities, ...)``.

    Parameters
    ----------
    k : int, default=5
        Size of the neighbourhoods.
    kernel : {"cauchy", "gaussian"}, default="cauchy"
        kt-SNE or kSNE.
    kappa : float, default=0.0
        Constant that is added to every weight (Uni-SNE).
    exaggeration : float, default=1.0
        Factor of the attraction.
    method : {"auto", "exact", "fft"}, default="auto"
        How the repulsion is computed.
    """

    k: int = 5
    kernel: str = "cauchy"
    kappa: float = 0.0
    exaggeration: float = 1.0
    method: str = "auto"
    units: ClassVar[Units] = Units(1.0)
    columns: ClassVar[tuple[str, ...]] = ("chain_rows",)

    def __call__(
        self,
        Z: Array,
        target: Affinities,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the queries and its gradient by the points."""
        Z = check_points(Z)
        query_rows = check_rows(queries, len(Z), "queries", "ksne")
        reference_rows = check_rows(references, len(Z), "references", "ksne")
        everything = queries is None and references is None
        attraction, pulled = choose.attraction(
            Z, target, self.kernel, self.kappa, None if everything else (query_rows, reference_rows)
        )
        engine = choose.set_sums(
            Z, self.k, self.kernel, self.kappa, query_rows, reference_rows, self.method
        )
        log_total = engine.sums()
        n = len(query_rows)
        # [Tarlow2013] eq. (11); less the entropy of the target it is the divergence
        value = (self.exaggeration * attraction + float(np.sum(log_total))) / n
        value -= float(np.mean(target.entropy[query_rows]))
        dZ = None
        if gradient:
            dZ = (self.exaggeration / n) * pulled + engine.pull(np.full(n, 1.0 / n))
            dZ = dZ.astype(Z.dtype, copy=False)
        return Evaluation(value, dZ, dict(engine.facts))
