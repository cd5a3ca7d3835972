"""Neighbourhood components analysis: expected leave-one-out accuracy of stochastic neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from vicinal._validation import check_option
from vicinal.core.points import cast, check_points, check_rows, kept, with_range, zeros_like
from vicinal.core.types import Array, Evaluation, Objective, Pairs, Units
from vicinal.densities import Compact, Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import ClassSums, Data, PairSource, RowSums
from vicinal.engines.odds import mean_loss, odds_loss, slopes
from vicinal.objectives._odds import check_kind, warn_left_out
from vicinal.targets import Labels
from vicinal.targets.labels import leave_one_out, others_of_class, reference_mass, weights

_GAUSSIAN = Gaussian()


class _Prepared(NamedTuple):
    """The rows that count, with their masses and labels.

    ``weight`` is the weight of each row as a query, ``class_mass`` its sum over the references of
    each class, ``unit`` minus log2 of the divisor of the masses, ``lightest`` the least mass.  The
    points of the data are set for each evaluation.
    """

    data: Data
    labels: Labels
    weight: Array
    class_mass: Array
    unit: float
    lightest: Array


class Mixture(Protocol):
    """Terms added to an engine's sums over the other classes [0] and over the own class [1]."""

    #: set by `join`: the kernels' share of each sum, (2, n_queries)
    kernel_share: Array

    def join(self, rest: Array, base: Array) -> tuple[Array, Array]:
        """Add the terms to the sums ``2**(rest + base)``, (2, n_queries); same form returned."""
        ...

    def pull(self, slopes: Array) -> Array:
        """Gradient (n, d) through the terms, from the derivatives by the log of the joint sums."""
        ...


class Background(Protocol):
    """A distribution for each class, mixed with the kernel density of its rows."""

    def shares(self, n_classes: int, owner: str) -> Array:
        """Its mixing weight in each class, in [0, 1); the kernels have the rest."""
        ...

    def mixture(
        self,
        data: Data,
        labels: Labels,
        weight: Array,
        class_mass: Array,
        others: Array,
        unit: float,
    ) -> Mixture:
        """Its terms at the queries of ``data``.

        ``class_mass`` is the weight of the references of each class, ``others`` the weight of each
        query's own class without the query; terms must be multiplied by ``2**unit``.
        """
        ...


def as_background(background: Any) -> Background | None:
    """Return an object that has ``mixture`` unchanged; take an array as shares of normals."""
    if background is None or hasattr(background, "mixture"):
        return background
    from vicinal.objectives.background import NormalBackground

    return NormalBackground(background)


@dataclass(frozen=True, eq=False)
class NCALoss(Objective):
    """The loss of :func:`nca` as an object: ``Evaluation = loss(Z, labels, ...)``.

    Parameters
    ----------
    kind : {"log", "accuracy"}, default="log"
        ``-log p_i`` or ``-p_i``.
    kernel : Kernel, default=Gaussian()
        Replaces :math:`e^{-u^2}`.
    background : array of shape (n_classes,), Background or None, default=None
        Share of a normal distribution in each class, or an object with another distribution; see
        :mod:`vicinal.objectives.background`.

    Notes
    -----
    It never warns.  An evaluation reports the facts "share_of_pairs", "engine", "left_out" (the
    number of queries that "log" leaves out) and, for a kernel of finite range, "out_of_range".
    """

    kind: str = "log"
    kernel: Kernel = _GAUSSIAN
    background: Array | Background | None = None
    units: ClassVar[Units] = Units(1.0)

    def __post_init__(self) -> None:
        check_option(self, "kind", ("log", "accuracy"))

    def __call__(
        self,
        Z: Array,
        target: Labels,
        *,
        queries: Array | None = None,
        references: Array | None = None,
        pairs: Pairs | PairSource | None = None,
        gradient: bool = True,
    ) -> Evaluation:
        """The mean loss of the queries and its gradient by the points."""
        return self.evaluate(Z, target, queries, references, pairs, gradient)[0]

    def suited_to(self, labels: Labels) -> NCALoss:
        """The loss with the background shares for these training rows."""
        kernel = self.kernel
        if not kernel.background:
            return self
        from vicinal.objectives.background import background_weights

        return replace(self, background=background_weights(labels.counts, kernel.beta))

    def for_scaling(self) -> NCALoss:
        """The loss that chooses the scale of a map: "log" where it is defined.

        The accuracy of a start is best at a hard nearest neighbour, where its gradient vanishes.
        """
        everywhere = self.kernel.reaches_everywhere or self.kernel.background
        return replace(self, kind="log" if everywhere else "accuracy")

    def for_start(self, d: int) -> tuple[NCALoss, float]:
        """The same for a start in d dimensions, and a factor of the scale that it chooses.

        Backgrounds classify at any scale.  With them a sample of the rows, which is less dense than
        all, would choose a scale at which no row is in range of another.  So it chooses the scale
        of the Gaussian kernel, and the factor makes the compact kernel as wide.
        """
        if not isinstance(self.kernel, Compact) or not self.kernel.background:
            return self.for_scaling(), 1.0
        gaussian = replace(self, kind="log", kernel=_GAUSSIAN, background=None)
        return gaussian, self.kernel.gaussian_scale(d)

    @property
    def has_index(self) -> bool:
        """Whether `make_index` may find the pairs that count: those in range of the kernel."""
        return not self.kernel.reaches_everywhere

    def make_index(
        self, Z: Array, target: Labels, references: Array | None, n_queries: int
    ) -> PairSource | None:
        """The pairs of many evaluations with a few queries near Z; None where all pairs are best.

        It changes no sum by more than rounding, however far the points have moved since.
        """
        rows = np.arange(len(Z)) if references is None else references
        backend = choose.backend(Z, len(Z))
        return backend.make_index(Z, target.codes, rows, self.kernel, n_queries)

    def evaluate(
        self,
        Z: Array,
        target: Any,
        queries: Array | None,
        references: Array | None,
        pairs: Pairs | PairSource | None,
        gradient: bool,
    ) -> tuple[Evaluation, Array]:
        """The evaluation, and the rows that the loss leaves out."""
        Z = check_points(Z)
        background = as_background(self.background)
        rows = kept(
            Z,
            (target, queries, references, self.kind, background),
            lambda: self._prepare(len(Z), target, queries, references, background),
        )
        if len(rows.data.reference_rows):
            points = with_range(Z, rows.lightest)
            rows = rows._replace(data=rows.data._replace(Z=points))
        if not len(rows.data.query_rows) or not len(rows.data.reference_rows):
            return Evaluation(0.0, zeros_like(Z) if gradient else None, {}, 0.0), np.arange(0)
        engine = choose.class_sums(rows.data, self.kernel, pairs)
        if background is None and self.kernel.reaches_everywhere:
            return self._of_kernels(Z, engine, rows, gradient)
        sums = engine.sums()
        rest, base, mixture = self._density_sums(sums, rows, background)
        with np.errstate(invalid="ignore"):  # inf - inf, where there is no own class
            odds = np.subtract(*rest) + np.subtract(*base)
        left_out = np.isneginf(rest[1])
        odds = np.where(left_out, np.inf, odds)
        value, counts, total = mean_loss(odds, rows.weight[sums.rows], self.kind)
        facts: dict[str, Any] = {"share_of_pairs": engine.share, "engine": engine.name}
        facts["left_out"] = int(left_out.sum()) if self.kind == "log" else 0
        if not self.kernel.reaches_everywhere:
            facts["out_of_range"] = float(np.isneginf(sums.log2).all(axis=0).mean())
        dZ = None
        if gradient:
            # odds = sum over the other classes / sum over the own class
            slope = counts * slopes(odds, self.kind)
            dZ = cast(Z, _pull(engine, sums, mixture, np.stack([slope, -slope])))
        return Evaluation(value, dZ, facts, total), sums.rows[left_out]

    def _of_kernels(
        self, Z: Array, engine: ClassSums, rows: _Prepared, gradient: bool
    ) -> tuple[Evaluation, Array]:
        """The evaluation without a background, computed where the sums of the engine lie."""
        more = None if rows.labels.priors is None else partial(_leave_one_out, rows)
        found = odds_loss(engine, rows.weight, more, self.kind, gradient)
        facts: dict[str, Any] = {"share_of_pairs": engine.share, "engine": engine.name}
        facts["left_out"] = len(found.left_out) if self.kind == "log" else 0
        dZ = cast(Z, found.dZ) if gradient else None
        return Evaluation(found.value, dZ, facts, found.weight), found.left_out

    def _prepare(
        self,
        n: int,
        target: Any,
        queries: Array | None,
        references: Array | None,
        background: Background | None,
    ) -> _Prepared:
        """Masses of the references, and the rows with a positive mass or weight."""
        labels = target if isinstance(target, Labels) else Labels(target)
        if len(labels) != n:
            raise ValueError(f"Z has {n} rows but there are {len(labels)} labels.")
        query_rows = check_rows(queries, n, "queries")
        reference_rows = check_rows(references, n, "references")
        shares = None if background is None else background.shares(len(labels.classes), "nca")
        if self.kind == "log" and not self.kernel.reaches_everywhere:
            _check_reaches(shares)
        weight = weights(labels)
        mass, class_mass, unit = reference_mass(labels, weight, reference_rows, shares)
        reference_rows = reference_rows[mass[reference_rows] > 0]
        query_rows = query_rows[weight[query_rows] > 0]
        data = Data(None, labels.codes, mass, query_rows, reference_rows)
        lightest = mass[reference_rows].min(keepdims=True) if len(reference_rows) else mass[:0]
        return _Prepared(data, labels, weight, class_mass, unit, lightest)

    def _density_sums(
        self, sums: RowSums, rows: _Prepared, background: Background | None
    ) -> tuple[Array, Array, Mixture | None]:
        """log2 of prior times density as ``rest + base``, for the other classes and the own."""
        data, labels, weight, class_mass, unit, _ = rows
        rest, base = sums.log2, -sums.shift
        if labels.priors is None and background is None:
            return rest, base, None
        others = others_of_class(labels, weight, sums.rows, data.reference_rows, class_mass)
        if labels.priors is not None:
            total = class_mass[labels.codes[sums.rows]]
            rest = np.stack([rest[0], rest[1] + leave_one_out(total, others)])
        if background is None:
            return rest, base, None
        mixture = background.mixture(
            data._replace(query_rows=sums.rows), labels, weight, class_mass, others,
            unit + self.kernel.log_integral(data.Z.shape[1]) * np.log2(np.e),
        )  # fmt: skip
        return *mixture.join(rest, base), mixture


def _leave_one_out(rows: _Prepared, queries: Array) -> Array:
    """log2 of what turns the density of the own class into one without the query itself."""
    data, labels, weight, class_mass, *_ = rows
    others = others_of_class(labels, weight, queries, data.reference_rows, class_mass)
    return leave_one_out(class_mass[labels.codes[queries]], others)


def _pull(engine: ClassSums, sums: RowSums, mixture: Mixture | None, by_sums: Array) -> Array:
    """Gradient by the points, from the derivatives by the logarithms of the two sums.

    With p~ and q~ the softmax over the own and over the other classes, dL/dd² is +slope p~_ij in
    the own class and -slope q~_ij in the others: docs/theory/nca.md shows this to be
    [Goldberger2005] eqs (5) and (7).
    """
    if mixture is None:
        return engine.pull(sums, by_sums)
    return engine.pull(sums, by_sums * mixture.kernel_share) + mixture.pull(by_sums)


def _check_reaches(shares: Array | None) -> None:
    if shares is None or not (shares > 0).all():
        raise ValueError(
            "The 'log' objective of nca needs a kernel that reaches everywhere: with a compact one "
            "p_i can be 0, which has no logarithm. Use objective='accuracy' or a background."
        )


def nca(
    Z: Array,
    y: Any,
    objective: str = "log",
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kernel: Kernel = _GAUSSIAN,
    pairs: Pairs | PairSource | None = None,
    background: Array | None = None,
    gradient: bool = True,
    warn: bool = True,
    report: dict[str, Any] | None = None,
) -> tuple[float, Array]:
    r"""Mean loss of stochastic nearest neighbours and its gradient with respect to the points.

    A query i picks reference j with probability
    :math:`p_{ij} = e^{-\|z_i - z_j\|^2} / \sum_{k \ne i} e^{-\|z_i - z_k\|^2}`
    [Goldberger2005]_ eq. (1) and is right with probability
    :math:`p_i = \sum_{j : y_j = y_i} p_{ij}` eq. (2).  The loss is the mean over the queries of
    :math:`-p_i` ("accuracy", eq. (3)) or of :math:`-\log p_i` ("log", eq. (6)).

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.  float32 input is computed in float32 (small data: in float64), everything
        else in float64.
    y : array-like of shape (n,) or Labels
        Class labels; :class:`vicinal.targets.Labels` adds sample weights and class priors.
    objective : {"log", "accuracy"}, default="log"
        Which loss.
    queries, references : int arrays, default=None
        Positions in Z of the rows that are scored and of the rows they may pick; None for all.
        A row is never its own reference.
    kernel : Kernel, default=Gaussian()
        Replaces :math:`e^{-u^2}`; see :mod:`vicinal.densities`.  Its own background setting is for
        estimators: here only ``background`` counts.
    pairs : Pairs or Bounded, default=None
        Lists of the rows that each row of Z may pick, as made by the parts of
        :mod:`vicinal.neighborhoods`; None for all.  Listed rows that are not references are
        ignored.  The lists are held fixed: the gradient is that of the sums over them.
        ``Bounded(tolerance)`` sums far groups of references at once, by trees, so that every class
        density at a query (without ``each_class``: its sum over its own class and its sum over all
        others) is within the relative tolerance ([Oneata2011]_ section 4.4.3); the gradient is
        that of the sums so computed.  If a sample of queries shows that trees would take longer
        than all pairs, all pairs are summed, unless ``always``.
    background : array of shape (n_classes,), default=None
        Share :math:`\beta_c` in [0, 1) of a normal distribution in the density of each class,
        :math:`p(z|c) = \beta_c N(z|\mu_c, \Sigma_c) + (1 - \beta_c) p_\kappa(z|c)`
        [Oneata2011]_ eq. (4.22), with the mean and covariance of the embedded references, the
        query included.  p_i is then the posterior of the own class, with the query left out of
        :math:`p_\kappa` and of the prior.  None: no background.
    gradient : bool, default=True
        False leaves ``dZ`` at zero, and takes less than half the time.
    warn : bool, default=True
        Whether to warn about queries that "log" leaves out.
    report : dict, default=None
        Receives "share_of_pairs", the share of all (query, reference) pairs that were computed one
        by one: the others are too far apart to change the last bit of any sum, belong to a group
        summed at once, or are not listed.  With ``Bounded`` also "engine": "tree", "tiles" or
        "dense".  With a compact kernel also "out_of_range", the share of the queries without any
        reference in range.

    Returns
    -------
    value : float
        The mean loss.  A query whose class has no other member among the references (or in its
        list) has p_i = 0: it counts as such for "accuracy", and is left out, with a warning, for
        "log".  A query with none of its class in range of a compact kernel also has p_i = 0; "log"
        is refused for that kernel, unless there is a background.
    dZ : array of shape (n, d)
        Gradient, float32 if Z is, else float64.

    Notes
    -----
    Up to 500 rows, NumPy computes whole arrays of pairs and nothing is compiled.  Beyond that,
    memory is O(n d); the pairs are visited twice, in tiles or list by list.  From 4,000 rows on, in
    up to 32 dimensions, tiles too far apart to change the last bit of any sum are left out.  The
    result is the same, to the bit, for any number of threads.  References lighter than 1e-60 of the
    heaviest are ignored.  Points beyond 1e9, or masses that span more than a factor of 1e6, are
    computed in float64.
    """
    check_kind(objective, "objective", "nca")
    labels = y if isinstance(y, Labels) else Labels(y)
    loss = NCALoss(objective, kernel, background)
    evaluation, left_out = loss.evaluate(Z, labels, queries, references, pairs, gradient)
    value, dZ, facts, _ = evaluation
    if report is not None:
        names = ["share_of_pairs", "out_of_range"]
        names += ["engine"] if hasattr(pairs, "engine") else []
        report.update((name, facts[name]) for name in names if name in facts)
    if objective == "log" and warn:
        warn_left_out(labels, left_out)
    return value, zeros_like(check_points(Z)) if dZ is None else dZ
