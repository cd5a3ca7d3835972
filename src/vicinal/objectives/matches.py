"""NCA with soft matches: any degree of match in place of equal labels."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from vicinal._validation import check_option
from vicinal.core.points import cast, check_points, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, PairCost, Pairs, Units
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import MatchSums
from vicinal.engines.odds import odds_loss
from vicinal.objectives._odds import check_kind
from vicinal.objectives._rows import check_kernel, prepare
from vicinal.targets import LabelDistributions, Labels, Matches, NearNumbers

_GAUSSIAN = Gaussian()


@dataclass(frozen=True, eq=False)
class MatchLoss(Objective):
    """The loss of :func:`nca_matches` as an object: ``Evaluation = loss(Z, target, ...)``.

    Parameters
    ----------
    kind : {"log", "accuracy"}, default="log"
        ``-log p_i`` or ``-p_i``.
    kernel : Gaussian, Student or Laplace, default=Gaussian()
        Replaces :math:`e^{-u^2}`; without a background.

    Notes
    -----
    It never warns.  An evaluation reports the facts "share_of_pairs", "engine" and "left_out" (the
    number of queries that "log" leaves out).
    """

    kind: str = "log"
    kernel: Kernel = _GAUSSIAN
    units: ClassVar[Units] = Units(1.0)

    def __post_init__(self) -> None:
        check_option(self, "kind", ("log", "accuracy"))
        check_kernel(self.kernel, "MatchLoss")

    def __call__(
        self,
        Z: Array,
        target: Any,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: Pairs | None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the queries and its gradient by the points."""
        target = check_target(target)
        Z, data, weight = prepare(Z, target, queries, references, pairs, "nca_matches")
        if not len(data.query_rows) or not len(data.reference_rows):
            return Evaluation(0.0, zeros_like(Z) if gradient else None, {}, 0.0)
        backend = choose.backend(data.Z, len(data.Z))
        engine: MatchSums
        if isinstance(target, Labels):
            engine = backend.class_sums(data, self.kernel, pairs)
        else:
            engine = backend.match_sums(data, target, self.kernel, pairs)
        # the odds are the sum over what does not match : the sum over what matches
        found = odds_loss(engine, weight, None, self.kind, gradient)
        facts: dict[str, Any] = {"share_of_pairs": engine.share, "engine": engine.name}
        facts["left_out"] = len(found.left_out) if self.kind == "log" else 0
        dZ = cast(Z, found.dZ) if gradient else None
        return Evaluation(found.value, dZ, facts, found.weight)

    def for_scaling(self) -> MatchLoss:
        """The loss that chooses the scale of a map: "log".

        The accuracy of a start is best at a hard nearest neighbour, where its gradient vanishes.
        """
        return replace(self, kind="log")

    def cost(self, target: Any = None) -> PairCost:
        """The cost of a pair of rows with such a target, or one number each, for a plan.

        A pair serves one of its rows; measured by benchmarks/match_speed.py.
        """
        if isinstance(target, Labels):
            return PairCost()
        if isinstance(target, Matches):
            most = len(target.data) / max(1, len(target))
            return PairCost(
                (1.3, 0.23),
                (2.5, 0.43),
                (27.0, 3.0),
                both_ways=False,
                company=math.ceil(target.counts.mean()) if len(target) else 0,
                pair_bytes=48.0,
                more=lambda size: size.n * (22.0 * most + 24.0),
            )
        q = 1 if target is None else check_target(target).values.shape[1]
        if isinstance(target, LabelDistributions):
            times = (1.9 + 0.1 * q, 0.23), (3.6 + 0.2 * q, 0.43), (15.0 + 1.5 * q, 3.0)
        else:
            hard = target is not None and target.hard
            single, double = (1.2, 2.2) if hard else (1.6, 3.8)
            times = (single + 0.1 * q, 0.22), (double + 0.3 * q, 0.44), (16.0 + 2.0 * q, 3.0)
        return PairCost(
            *times, both_ways=False, pair_bytes=48.0, more=lambda size: 28.0 * size.n * q
        )


def check_target(target: Any) -> Any:
    """Refuse anything that does not tell which rows match."""
    if not isinstance(target, LabelDistributions | Matches | NearNumbers | Labels):
        raise TypeError(
            "The 'target' parameter of nca_matches must be LabelDistributions, Matches, "
            f"NearNumbers or Labels. Got {type(target).__name__} instead."
        )
    if isinstance(target, Labels) and target.priors is not None:
        raise ValueError(
            "The 'target' parameter of nca_matches must not have class priors. Use nca instead."
        )
    return target


def nca_matches(
    Z: Array,
    target: LabelDistributions | Matches | NearNumbers | Labels,
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kernel: Kernel = _GAUSSIAN,
    pairs: Pairs | None = None,
    gradient: bool = True,
    warn: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean loss of stochastic neighbours that match to a degree, and its gradient.

    A query i picks reference j with probability
    :math:`p_{ij} = e^{-\|z_i - z_j\|^2} / \sum_{k \ne i} e^{-\|z_i - z_k\|^2}`
    and is right with probability :math:`p_i = \sum_j m_{ij} p_{ij}`, where :math:`m_{ij}` in [0, 1]
    says how well j matches i ([Goldberger2005]_ section 5).  The loss is the mean over the queries
    of :math:`-p_i` ("accuracy") or of :math:`-\log p_i` ("log").  With
    :math:`m_{ij} = [y_i = y_j]` it is that of :func:`nca`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 input is computed in float32 (small data: in float64), everything
        else in float64.
    target : LabelDistributions, Matches, NearNumbers or Labels
        What gives :math:`m_{ij}`: label distributions, :math:`\sum_c t_{ic} t_{jc}`; a sparse
        matrix; numbers, :math:`e^{-\|y_i - y_j\|^2 / 2 s^2}` or
        :math:`[\|y_i - y_j\| \le s]`; or labels, without priors.
    objective : {"log", "accuracy"}, default="log"
        Which loss.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference.
    kernel : Gaussian, Student or Laplace, default=Gaussian()
        Replaces :math:`e^{-u^2}`; see :mod:`vicinal.densities`.
    pairs : Pairs, default=None
        Lists of the rows that each row of Z may pick, as made by the parts of
        :mod:`vicinal.neighborhoods`; None for all.  Listed rows that are not references are
        ignored.  The lists are held fixed: the gradient is that of the sums over them.  The rows
        that `Matches` names count whether they are listed or not; so :math:`p_i` is too large where
        the lists leave out much of the probability.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.
    warn : bool, default=True
        Whether to warn about queries that "log" leaves out.
    report : dict, default=None
        Receives "share_of_pairs", the share of all (query, reference) pairs that were computed.

    Returns
    -------
    value : float
        The mean loss.  A query that matches no reference (or none in its list) has p_i = 0: it
        counts as such for "accuracy", and is left out, with a warning, for "log".
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Up to 500 rows, NumPy computes whole arrays of pairs and nothing is compiled.  Beyond that, the
    pairs are visited twice, in blocks or list by list, and memory is O(n (d + q)) for q classes or
    numbers, and that of the matrix.  The result is the same, to the bit, for any number of threads.
    Matches below 1e-30 by label distributions or given as a matrix count as none.
    docs/theory/matches.md derives the scheme.
    """
    check_kind(objective, "objective", "nca_matches")
    check_kernel(kernel, "nca_matches")
    value, dZ, facts, _ = MatchLoss(objective, kernel)(
        Z, target, queries=queries, references=references, pairs=pairs, gradient=gradient
    )
    if report is not None and "share_of_pairs" in facts:
        report["share_of_pairs"] = facts["share_of_pairs"]
    if warn and facts.get("left_out"):
        warnings.warn(
            f"{facts['left_out']:.0f} rows match no row that they may pick and are left out of the "
            "log objective.",
            UserWarning,
            stacklevel=2,
        )
    return value, zeros_like(check_points(Z)) if dZ is None else dZ
