"""LMNN: target neighbours are pulled, impostors pushed out of a margin."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._threads import block_edges, n_threads, run
from vicinal.core.types import Array
from vicinal.engines.cpu.impostors import Candidates, Rows, visit
from vicinal.engines.points import check_points, check_rows, with_range
from vicinal.kernels import lmnn as kernels
from vicinal.targets import TargetNeighbours

__all__ = ["lmnn"]


def lmnn(
    Z: Array,
    targets: TargetNeighbours,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    mu: float = 1.0,
    margin: float = 1.0,
    distance: str = "squared",
    candidates: Candidates | None = None,
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
        Embedded points, none negative for "chi2".  float32 is computed in float32, all else in
        float64.
    targets : TargetNeighbours
        Classes and target neighbours of the rows.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored, and of those that may be target neighbours or
        impostors; None for all.
    mu : float, default=1.0
        Weight of the hinges beside the pull.
    margin : float, default=1.0
        By how much impostors should be further off than target neighbours, in units of D.
    distance : {"squared", "chi2"}, default="squared"
        D.
    candidates : Candidates, default=None
        Lists kept from one gradient to the next; they change how long it takes and nothing else.
    gradient : bool, default=True
        False leaves ``dZ`` at zero.
    report : dict, default=None
        Is given "share_of_pairs", the share of all pairs whose distance was computed, and
        "n_impostors", the number of active triples (i, j, l).

    Returns
    -------
    value : float
        The mean over the queries that have a target neighbour; 0 where none has.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Time is that of the search for impostors (an inner product in float32 for each pair of rows;
    none, where the lists of ``candidates`` still hold) and O(d) for each pair that is found.
    Memory is O(n (d + k)) and at most some 100 MB for lists of pairs, however many impostors there
    are: more than 16 million pairs are looked at tile by tile and not listed.  The same bits come
    out for any number of threads.
    """
    Z = check_points(Z)
    _check(Z, targets, mu, margin, distance)
    query_rows = check_rows(queries, len(Z), "queries", "lmnn")
    reference_rows = check_rows(references, len(Z), "references", "lmnn")
    dZ = np.zeros_like(Z)
    told = {} if report is None else report
    told["share_of_pairs"], told["n_impostors"] = 0.0, 0
    chi2 = distance == "chi2"
    points = np.ascontiguousarray(with_range(Z, np.ones(1)))
    is_query, is_reference = _mask(query_rows, len(Z)), _mask(reference_rows, len(Z))
    neighbours = targets.neighbours
    known = (neighbours >= 0) & is_query[:, None] & is_reference[neighbours]
    neighbours = np.where(known, neighbours, np.int32(-1))
    n_scored = int(np.count_nonzero(known.any(axis=1)))
    if not n_scored:
        return 0.0, dZ
    D, reach, furthest = _reach(points, neighbours, margin, chi2)
    rows = _rows(is_query, is_reference, targets.codes, gradient)
    hinge, active = np.zeros(len(Z)), np.zeros(neighbours.shape, np.int64)
    slope = np.zeros_like(points) if gradient else points[:0]

    def push(block: Array, indptr: Array, indices: Array) -> None:
        kernels.push(
            points, reach, furthest, is_reference, block, indptr, indices, float(mu), chi2,
            gradient, hinge, active, slope,
        )  # fmt: skip

    # a value alone is of other rows, as a rule, and would put its lists in the place of theirs
    lists = candidates if gradient else None
    n_pairs = visit(points, rows, furthest, chi2, lists, push)
    told["share_of_pairs"] = n_pairs / max(1, len(rows.needing) * len(rows.listed))
    told["n_impostors"] = int(active.sum())
    value = (D.sum(dtype=np.float64) + mu * hinge.sum()) / n_scored
    if gradient:
        weight = np.where(known, 1.0 + mu * active, 0.0).astype(points.dtype)
        _pull(points, targets, weight, chi2, slope)
        np.multiply(slope, 1.0 / n_scored, out=dZ, casting="same_kind")
    return float(value), dZ


def _reach(Z: Array, neighbours: Array, margin: float, chi2: bool) -> tuple[Array, Array, Array]:
    """Distances to the target neighbours, these with the margin, and the largest of a row."""
    D, reach = np.empty(neighbours.shape, Z.dtype), np.empty(neighbours.shape, Z.dtype)
    furthest = np.empty(len(Z), Z.dtype)
    edges = block_edges(len(Z))

    def task(b: int, thread: int) -> None:
        kernels.targets(
            Z, neighbours, float(margin), chi2, edges[b], edges[b + 1], D, reach, furthest
        )

    run(task, range(len(edges) - 1), n_threads())
    return D, reach, furthest


def _pull(Z: Array, targets: TargetNeighbours, weight: Array, chi2: bool, slope: Array) -> None:
    first, sources = targets.inverse
    edges = block_edges(len(Z))

    def task(b: int, thread: int) -> None:
        i0, i1 = edges[b], edges[b + 1]
        kernels.pull(Z, targets.neighbours, weight, first, sources, i0, i1, chi2, slope)

    run(task, range(len(edges) - 1), n_threads())


def _rows(is_query: Array, is_reference: Array, codes: Array, gradient: bool) -> Rows:
    """Who must look at whom: for a gradient impostors look at those they are impostors of."""
    if not gradient:
        return Rows(np.flatnonzero(is_query), np.flatnonzero(is_reference), codes)
    everyone = np.flatnonzero(is_query | is_reference)
    return Rows(everyone, everyone, codes)


def _mask(rows: Array, n: int) -> Array:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


def _check(Z: Array, targets: Any, mu: float, margin: float, distance: str) -> None:
    must = "parameter of lmnn must be"
    if not isinstance(targets, TargetNeighbours):
        raise TypeError(f"The 'targets' {must} TargetNeighbours. Got {targets!r} instead.")
    if len(targets) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows, but there are targets of {len(targets)}.")
    if distance not in ("squared", "chi2"):
        raise ValueError(f"The 'distance' {must} 'squared' or 'chi2'. Got {distance!r} instead.")
    for name, value in (("mu", mu), ("margin", margin)):
        if not 0 <= value < np.inf:
            raise ValueError(f"The {name!r} {must} in [0, inf). Got {value!r} instead.")
    if distance == "chi2" and Z.min(initial=0.0) < 0:
        row = int(np.flatnonzero((Z < 0).any(axis=1))[0])
        raise ValueError(f"Z must not be negative for distance='chi2'. Row {row} is.")
