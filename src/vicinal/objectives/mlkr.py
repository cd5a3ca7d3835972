"""Metric learning for kernel regression: squared error of the leave-one-out prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal.core.points import cast, check_points, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, PairCost, Pairs, Units
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.objectives._rows import check_kernel, prepare
from vicinal.targets import Numbers

_GAUSSIAN = Gaussian()


@dataclass(frozen=True, eq=False)
class MLKRLoss(Objective):
    """The loss of :func:`mlkr` as an object: ``Evaluation = loss(Z, numbers, ...)``.

    The loss is in the unit of the squared numbers and is not divided by their variance: that is for
    the caller.  Standardise the numbers first, to a weighted mean of 0 and a total variance of 1
    over all outputs.  The loss of all rows is then 1 - R² of the leave-one-out prediction, and 1,
    which ``units`` states, is the loss of predicting the mean.

    Parameters
    ----------
    kernel : Gaussian, Student or Laplace, default=Gaussian()
        Replaces :math:`e^{-u^2}`; without a background.

    Notes
    -----
    An evaluation reports the facts "share_of_pairs", "engine" and "left_out" (the number of queries
    without any reference, as with an empty list, which do not count).
    """

    kernel: Kernel = _GAUSSIAN
    units: ClassVar[Units] = Units(1.0)

    def __post_init__(self) -> None:
        check_kernel(self.kernel, "MLKRLoss")

    def __call__(
        self,
        Z: Array,
        target: Numbers,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: Pairs | None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the queries and its gradient by the points."""
        Z, data, weight = prepare(Z, target, queries, references, pairs, "mlkr")
        if not len(data.query_rows) or not len(data.reference_rows):
            return Evaluation(0.0, zeros_like(Z) if gradient else None, {}, 0.0)
        # a common constant changes no error, and without it float32 keeps more digits
        charges = target.values - target.values[data.reference_rows].mean(axis=0)
        backend = choose.backend(data.Z, len(data.Z))
        engine = backend.charged_sums(data, charges, self.kernel, pairs)
        sums = engine.sums()
        alone = np.isneginf(sums.log2)
        counts = np.where(alone, 0.0, weight[sums.rows])
        total = float(counts.sum())
        counts /= total or 1.0
        error = np.where(alone[:, None], 0.0, charges[sums.rows] - sums.means)
        value = float(np.sum(counts[:, None] * error**2))
        facts: dict[str, Any] = {"share_of_pairs": engine.share, "engine": engine.name}
        facts["left_out"] = int(alone.sum())
        dZ = None
        if gradient:
            dZ = cast(Z, engine.pull(sums, -2.0 * counts[:, None] * error))
        return Evaluation(value, dZ, facts, total)

    def cost(self, target: Numbers | None = None) -> PairCost:
        """The cost of a pair of rows with such a target, or one number each, for a plan.

        A pair serves one of its rows; measured by benchmarks/match_speed.py.
        """
        q = 1 if target is None else target.values.shape[1]
        return PairCost(
            (1.0 + 0.12 * q, 0.23),
            (2.0 + 0.28 * q, 0.43),
            (10.0 + 2.0 * q, 3.0),
            both_ways=False,
            more=lambda size: 28.0 * size.n * q,
        )


def mlkr(
    Z: Array,
    y: Any,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kernel: Kernel = _GAUSSIAN,
    pairs: Pairs | None = None,
    gradient: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean squared error of the leave-one-out kernel regression, and its gradient.

    A query i is predicted by the mean of the others,
    :math:`\hat y_i = \sum_{j \ne i} p_{ij} y_j` with
    :math:`p_{ij} = e^{-\|z_i - z_j\|^2} / \sum_{k \ne i} e^{-\|z_i - z_k\|^2}`, and its loss is
    :math:`\|y_i - \hat y_i\|^2`, over all outputs ([Weinberger2007]_).  The loss is the mean over
    the queries, where the paper has the sum.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 input is computed in float32 (small data: in float64), everything
        else in float64.
    y : array-like of shape (n,) or (n, q), or Numbers
        The numbers to predict; :class:`vicinal.targets.Numbers` adds sample weights.  The loss is
        in the unit of their squares; it is 1 - R² of the leave-one-out prediction if they have a
        total variance of one.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are predicted and of the rows that predict them; None for
        all.  A row never predicts itself.
    kernel : Gaussian, Student or Laplace, default=Gaussian()
        Replaces :math:`e^{-u^2}`; see :mod:`vicinal.densities`.
    pairs : Pairs, default=None
        Lists of the rows that predict each row of Z, as made by the parts of
        :mod:`vicinal.neighborhoods`; None for all.  Listed rows that are not references are
        ignored.  The lists are held fixed: the gradient is that of the sums over them.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.
    report : dict, default=None
        Receives "share_of_pairs", the share of all (query, reference) pairs that were computed.

    Returns
    -------
    value : float
        The mean loss.  A query without any reference is left out.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Up to 500 rows, NumPy computes whole arrays of pairs and nothing is compiled.  Beyond that, the
    pairs are visited twice, in blocks or list by list, and memory is O(n (d + q)) for q outputs.
    The result is the same, to the bit, for any number of threads.  docs/theory/mlkr.md derives the
    scheme.
    """
    check_kernel(kernel, "mlkr")
    numbers = y if isinstance(y, Numbers) else Numbers(y)
    value, dZ, facts, _ = MLKRLoss(kernel)(
        Z, numbers, queries=queries, references=references, pairs=pairs, gradient=gradient
    )
    if report is not None and "share_of_pairs" in facts:
        report["share_of_pairs"] = facts["share_of_pairs"]
    return value, zeros_like(check_points(Z)) if dZ is None else dZ
