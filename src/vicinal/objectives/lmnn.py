"""LMNN: pull target neighbours closer, push impostors out of the margin."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from vicinal.core.points import cast, check_points, check_rows, to_host, with_range, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, Units
from vicinal.engines import choose
from vicinal.engines.base import Triples
from vicinal.targets import TargetNeighbors


@dataclass(frozen=True)
class LMNNLoss(Objective):
    """The loss of :func:`lmnn` as an object: ``Evaluation = loss(Z, targets, ...)``.

    Parameters
    ----------
    mu : float, default=1.0
        Weight of the hinges relative to the pull.
    margin : float, default=1.0
        By how much impostors should be further away than target neighbours, in units of D.
    distance : {"squared", "chi2"}, default="squared"
        D.
    candidates : Candidates, default=None
        Lists kept from one gradient to the next, for large data; they affect only the time taken.

    Notes
    -----
    It never warns.  An evaluation reports the facts "share_of_pairs", "n_impostors" and "engine".
    """

    mu: float = 1.0
    margin: float = 1.0
    distance: str = "squared"
    candidates: Any = field(default=None, compare=False, repr=False)
    #: facts that the history of a fit records
    columns: ClassVar[tuple[str, ...]] = ("n_impostors",)

    def __post_init__(self) -> None:
        _check_parameters(self.mu, self.margin, self.distance, "LMNNLoss")

    @property
    def units(self) -> Units:
        """Losses are measured in margins."""
        return Units(loss=self.margin, relative_to_map=True)

    def __call__(
        self,
        Z: Array,
        target: TargetNeighbors,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the queries and its gradient by the points."""
        if pairs is not None:
            raise TypeError(f"The 'pairs' parameter of LMNNLoss must be None. Got {pairs!r}.")
        Z = check_points(Z)
        chi2 = self.distance == "chi2"
        _check_points_and_targets(Z, target, chi2)
        is_query = _mask(check_rows(queries, len(Z), "queries", "lmnn"), len(Z))
        is_reference = _mask(check_rows(references, len(Z), "references", "lmnn"), len(Z))
        neighbours = target.neighbors
        known = (neighbours >= 0) & is_query[:, None] & is_reference[neighbours]
        n_scored = int(np.count_nonzero(known.any(axis=1)))
        facts: dict[str, Any] = {"share_of_pairs": 0.0, "n_impostors": 0}
        if not n_scored:
            return Evaluation(0.0, zeros_like(Z) if gradient else None, facts, 0.0)
        triples = Triples(
            with_range(Z, np.ones(1)),
            np.where(known, neighbours, np.int32(-1)),
            target,
            is_query,
            is_reference,
            cast(Z, _weights(target, is_reference)),
            float(self.mu),
            float(self.margin),
            chi2,
        )
        n, d = Z.shape
        backend = choose.backend(Z, choose.histogram_rows(n, d) if chi2 else n)
        engine = backend.margins(triples, self.candidates)
        distances, hinges, n_impostors = engine.sums(gradient)
        facts = {
            "share_of_pairs": engine.share,
            "n_impostors": n_impostors,
            "engine": engine.name,
        }
        dZ = cast(Z, engine.pull(1.0 / n_scored)) if gradient else None
        value = (distances + self.mu * hinges) / n_scored
        return Evaluation(value, dZ, facts, float(n_scored))


def lmnn(
    Z: Array,
    targets: TargetNeighbors,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    mu: float = 1.0,
    margin: float = 1.0,
    distance: str = "squared",
    candidates: Any = None,
    gradient: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean large-margin loss of the queries and its gradient with respect to the points.

    .. math::
        L = \frac1n \sum_i \sum_{j \rightsquigarrow i} \Bigl( D_{ij}
            + \mu \sum_{l: y_l \ne y_i} \bigl[\ell + D_{ij} - D_{il}\bigr]_+ \Bigr)

    ([OlsenPetersen]_ eqs (5) and (8)).  :math:`j \rightsquigarrow i` are the target neighbours of
    i, D is the squared Euclidean distance (LMNN) or, of histograms,
    :math:`\chi^2(u, v) = \tfrac12 \sum_f (u_f - v_f)^2 / (u_f + v_f)`, and :math:`\ell` the margin.
    An impostor, an l with a positive bracket, has the gradient
    :math:`\mu (\partial D_{ij} - \partial D_{il})`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points, non-negative for "chi2".  float32 input is computed in float32 (small
        data: in float64), everything else in float64.
    targets : TargetNeighbors
        Classes and target neighbours of the rows.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored, and of those that may be target neighbours or
        impostors; None for all.
    mu : float, default=1.0
        Weight of the hinges relative to the pull.
    margin : float, default=1.0
        By how much impostors should be further away than target neighbours, in units of D.
    distance : {"squared", "chi2"}, default="squared"
        D.
    candidates : Candidates, default=None
        Lists kept from one gradient to the next; they affect only the time taken.
    gradient : bool, default=True
        False leaves ``dZ`` at zero.
    report : dict, default=None
        Receives "share_of_pairs", the share of all pairs whose distance was computed, and
        "n_impostors", the number of active triples (i, j, l).

    Returns
    -------
    value : float
        The mean over the queries that have a target neighbour; 0 if none has.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Up to 500 rows, NumPy computes whole arrays of pairs and nothing is compiled.  Beyond that, time
    is that of the search for impostors (a float32 inner product for each pair of rows; no search
    while the lists of ``candidates`` are still valid) plus O(d) for each pair found.  Memory is
    O(n (d + k)) plus at most about 100 MB for lists of pairs, however many impostors there are:
    more than 16 million pairs are processed tile by tile instead of listed.  The result is the
    same, to the bit, for any number of threads.
    """
    _check_parameters(mu, margin, distance, "lmnn")
    loss = LMNNLoss(mu, margin, distance, candidates)
    value, dZ, facts, _ = loss(
        Z, targets, queries=queries, references=references, gradient=gradient
    )
    if report is not None:
        report.update((name, facts[name]) for name in ("share_of_pairs", "n_impostors"))
    return value, zeros_like(check_points(Z)) if dZ is None else dZ


def _weights(target: TargetNeighbors, is_reference: Array) -> Array:
    """How much each row counts as an impostor: 1, unless the rows stand for more."""
    return is_reference if target.weight is None else target.weight * is_reference


def _mask(rows: Array, n: int) -> Array:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


def _check_parameters(mu: float, margin: float, distance: str, owner: str) -> None:
    must = f"parameter of {owner} must be"
    if distance not in ("squared", "chi2"):
        raise ValueError(f"The 'distance' {must} 'squared' or 'chi2'. Got {distance!r} instead.")
    for name, value in (("mu", mu), ("margin", margin)):
        if not 0 <= value < np.inf:
            raise ValueError(f"The {name!r} {must} in [0, inf). Got {value!r} instead.")


def _check_points_and_targets(Z: Array, targets: Any, chi2: bool) -> None:
    if not isinstance(targets, TargetNeighbors):
        raise TypeError(
            f"The 'targets' parameter of lmnn must be TargetNeighbors. Got {targets!r} instead."
        )
    if len(targets) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows, but there are targets for {len(targets)}.")
    if chi2 and (negative := (to_host(Z) < 0).any(axis=1)).any():
        row = int(np.flatnonzero(negative)[0])
        raise ValueError(f"Z must not be negative for distance='chi2'. Row {row} is.")
