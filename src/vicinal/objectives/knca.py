"""kNCA: expected accuracy of the vote of k stochastic neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from vicinal._validation import check_option
from vicinal.core.points import cast, check_points, check_rows, with_range, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, Pairs, Units
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.engines.odds import mean_loss, slopes
from vicinal.objectives._odds import check_kind, warn_left_out
from vicinal.objectives._votes import (
    check_k,
    check_labels,
    check_vote,
    precision,
    usable_k,
    usable_votes,
)
from vicinal.targets import Labels


class _WarningFacts(NamedTuple):
    """Facts for warnings: rows left out, the k in use, and how many rows a query could pick."""

    left_out: Array
    k: int
    available: int


@dataclass(frozen=True)
class KNCALoss(Objective):
    """The loss of :func:`knca` as an object: ``Evaluation = loss(Z, labels, ...)``.

    Parameters
    ----------
    k : int, default=5
        Number of neighbours that vote; reduced where a query has fewer references to pick from.
    vote : {"majority", "all"}, default="majority"
        How a class wins.
    kind : {"log", "accuracy"}, default="log"
        ``-log p_i`` or ``-p_i``.

    Notes
    -----
    It never warns.  An evaluation reports the facts "share_of_pairs", "log_domain" (the number of
    queries whose votes were counted in logarithms), "engine" and "left_out" (the number of queries
    that "log" leaves out).
    """

    k: int = 5
    vote: str = "majority"
    kind: str = "log"
    units: ClassVar[Units] = Units(1.0)

    def __post_init__(self) -> None:
        check_k(self.k, "KNCALoss")
        check_vote(self.vote, "KNCALoss")
        check_option(self, "kind", ("log", "accuracy"))

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
        return self.evaluate(Z, target, queries, references, pairs, gradient)[0]

    def suited_to(self, labels: Labels) -> KNCALoss:
        """The loss at the largest k with which any of these training rows can win."""
        return replace(self, k=usable_votes(labels.counts, self.k, self.vote))

    def for_scaling(self) -> KNCALoss:
        """The loss that chooses the scale of a map."""
        return replace(self, kind="log")

    def evaluate(
        self,
        Z: Array,
        target: Any,
        queries: Array | None,
        references: Array | None,
        pairs: Pairs | None,
        gradient: bool,
    ) -> tuple[Evaluation, _WarningFacts]:
        """The evaluation, and the facts for warnings."""
        Z = check_points(Z)
        labels = check_labels(target, len(Z), "knca")
        choose.check_lists(pairs, "knca")
        query_rows = check_rows(queries, len(Z), "queries", "knca")
        reference_rows = check_rows(references, len(Z), "references", "knca")
        within = np.isin(query_rows, reference_rows, kind="table").any()
        available = len(reference_rows) - int(within)
        facts: dict[str, Any] = {"share_of_pairs": 0.0, "log_domain": 0}
        if not len(query_rows) or available < 1:
            dZ = zeros_like(Z) if gradient else None
            return Evaluation(0.0, dZ, facts, 0.0), _WarningFacts(query_rows[:0], self.k, self.k)
        k = min(int(self.k), available)
        points = precision(with_range(Z, np.ones(1)), k)
        data = Data(points, labels.codes, np.ones(len(Z)), query_rows, reference_rows)
        engine = choose.backend(points, len(points)).votes(data, k, self.vote == "all", pairs)
        odds = engine.sums(partial(slopes, objective=self.kind) if gradient else None)
        value, counts, total = mean_loss(odds, np.ones(len(odds)), self.kind)
        left_out = engine.query_rows[odds == np.inf] if self.kind == "log" else query_rows[:0]
        facts = {
            "share_of_pairs": engine.share,
            "log_domain": engine.log_domain,
            "engine": engine.name,
            "left_out": len(left_out),
        }
        dZ = None
        if gradient:  # queries that count all have the same weight; the others have slope 0
            dZ = cast(Z, engine.pull(float(counts.max(initial=0.0))))
        return Evaluation(value, dZ, facts, total), _WarningFacts(left_out, k, available)


def knca(
    Z: Array,
    y: Any,
    k: int = 5,
    vote: str = "majority",
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    pairs: Pairs | None = None,
    gradient: bool = True,
    warn: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean loss of a vote of k stochastic neighbours and its gradient with respect to the points.

    A query i picks a set s of k references with probability

    .. math:: p_i(s) \propto \prod_{j \in s} e^{-\|z_i - z_j\|^2}

    ([Tarlow2013]_ section 4) and is right with the probability p_i that its own class wins the
    vote of s, eqs (5) to (8).  The loss is the mean over the queries of :math:`-p_i` ("accuracy")
    or of :math:`-\log p_i` ("log").  With k = 1 it is that of :func:`nca`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 input is computed in float32 (for k up to 15, and not for
        small data), everything else in float64.
    y : array-like of shape (n,) or Labels
        Class labels, without weights or priors.
    k : int, default=5
        Number of neighbours that vote.  If a query has fewer references to pick from, that number
        is used for all queries, with a warning.  A k above 40, at which gradients may lose their
        digits, also warns.
    vote : {"majority", "all"}, default="majority"
        How a class wins: more votes than any other class (a tie is not a win), or all k votes.
    objective : {"log", "accuracy"}, default="log"
        Which loss.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference.
    pairs : Pairs, default=None
        Lists of the rows that each row of Z may pick, as made by the parts of
        :mod:`vicinal.neighborhoods`; None for all.  Listed rows that are not references are
        ignored.  Where the lists are samples, weights are divided by the sampling rates.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes half the time.
    warn : bool, default=True
        Whether to warn about a k that is too large and about queries that "log" leaves out.
    report : dict, default=None
        Receives "share_of_pairs", the share of all (query, reference) pairs that were computed,
        and "log_domain", the number of queries whose votes were counted in logarithms because
        they leave the range of float64.

    Returns
    -------
    value : float
        The mean loss.  A query whose class cannot win ("all": it has fewer than k other members to
        pick) has p_i = 0: it counts as such for "accuracy", and is left out, with a warning, for
        "log".
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Up to 500 rows, NumPy computes whole arrays of pairs and nothing is compiled.  Beyond that, time
    is O(k) for each pair of a query and a reference, plus O(C k²) to O(C k³) for each query with C
    classes; memory is O(n d) plus a few tiles of queries.  docs/theory/knca.md derives the scheme
    and bounds its errors.  The result is the same, to the bit, for any number of threads.
    """
    check_kind(objective, "objective", "knca")
    check_vote(vote, "knca")
    check_k(k, "knca")
    labels = check_labels(y, len(check_points(Z)), "knca")
    loss = KNCALoss(k, vote, objective)
    (value, dZ, facts, _), warning_facts = loss.evaluate(
        Z, labels, queries, references, pairs, gradient
    )
    if report is not None:
        report.update((name, facts[name]) for name in ("share_of_pairs", "log_domain"))
    if warn:
        usable_k(k, warning_facts.available, True, gradient)
        warn_left_out(
            labels, warning_facts.left_out, f"too few of their class, for k={warning_facts.k},"
        )
    return value, zeros_like(check_points(Z)) if dZ is None else dZ
