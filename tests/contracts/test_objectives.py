"""What every objective of embedded points keeps to.  A new one is a line in `CASES`."""

from __future__ import annotations

import copy
import hashlib
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import formulas
import numpy as np
import pytest
import scipy.sparse as sp
from common.affinities import some_affinities
from common.checks import (
    assert_close,
    assert_same_bits,
    each_dtype,
    set_block_size,
    set_threads,
)
from common.clouds import (
    WEIGHTS,
    all_rows,
    away_from_kinks,
    histograms,
    lattice,
    lists_of,
    over_lists,
    points,
    some_lists,
    some_targets,
)
from common.engines import engine  # noqa: F401
from formulas import finite_difference
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import special_ortho_group
from threadpoolctl import threadpool_limits

from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines.cpu.trees import Bounded
from vicinal.objectives import knca, ksne, lmnn, mcml, mlkr, nca, nca_matches, pair_nca
from vicinal.targets import (
    LabelDistributions,
    Labels,
    Matches,
    NearNumbers,
    Numbers,
    PairWeights,
    TargetNeighbors,
)

KERNELS = {
    "gaussian": Gaussian(),
    "student": Student(),
    "laplace": Laplace(),
    "compact": Compact(),
}


def remembered(plain):
    """The plain formula, computed once for the same points."""
    known = {}

    def formula(Z, target, **rows):
        key = hashlib.sha256(pickle.dumps((Z, vars(target), rows))).digest()
        if key not in known:
            known[key] = plain(Z, target, **rows)
        return known[key]

    return formula


@dataclass(frozen=True)
class Case:
    """An objective with its options: what it is called by, and the same from `reference`."""

    name: str
    fast: Callable  # value, dZ = fast(Z, target, queries=None, references=None, ...)
    plain: Callable  # the same, by the formula
    target: Callable  # target = target(y, seed): what it is told to reach
    points: Callable = points  # Z, y = points(rng, n, d, n_classes)
    unit: float = 1.0  # a scale at which some rows matter to each other and others do not
    bounds: tuple[float, float] = (0.0, np.inf)  # of the value
    one_class: bool = True  # one class is the best there can be
    euclidean: bool = True  # a function of Euclidean distances
    labelled: bool = True  # is told classes
    adds: bool = True  # is a mean over queries
    slow: bool = False  # the plain formula goes query by query: few of many
    lists: bool = False  # takes candidate lists
    k: int = 1  # rows that a query must be able to pick
    log: bool = True
    ordered: bool = False  # options go by the order of the classes
    small_blocks: bool = True  # cuts rows into blocks
    rounding: float = 0.0  # of entries of the gradient that ought to be zero
    smooth: Callable | None = None  # Z, target = smooth(rng, scale): for finite differences
    scales: tuple[float, ...] = (1.0, 10.0, 100.0)  # of these
    wide: bool = False  # changes over distances of the size of the scale, however large
    least: float = 0.01  # the largest entry of the gradient is more
    float32: tuple[tuple[float, float], ...] = ((1.0, 2e-6), (10.0, 5e-5))  # scale, error
    extremes: dict[float, tuple[float, float]] = field(default_factory=dict)  # scale: errors
    weights: Callable = lambda target, rows: np.ones(len(rows))  # of the queries in the mean
    right: Callable | None = None  # right(target): whether i may pick j to be right; None: classes

    def __post_init__(self):
        if self.slow:  # both engines are compared with the same numbers
            object.__setattr__(self, "plain", remembered(self.plain))

    def data(self, rng, n, d, n_classes, scale=1.0):
        Z, y = self.points(rng, n, d, n_classes)
        return scale * self.unit * Z, self.target(y)

    def few(self, n, n_classes=3):
        """All rows, or so many that the plain formula can be waited for."""
        wanted = 4 if n_classes <= 10 else 2
        return {"queries": np.arange(0, n, -(-n // wanted))} if self.slow and n > 30 else {}


def labels(y, weighted=False, priors=None):
    """Weights that vary, none of them zero; priors by name, or any."""
    y = np.asarray(y)
    rng = np.random.default_rng(len(y))
    if priors == "given":
        priors = rng.uniform(0.2, 1, len(np.unique(y)))
    return Labels(y, rng.uniform(0.1, 2, len(y)) if weighted else None, priors)


def beta_of(target):
    """Shares of the background, one for each class."""
    return np.linspace(0.05, 0.7, max(1, len(target.classes)))


def huddles(rng, scale):
    """Rows of which four are always in range of each other, for a kernel that ends."""
    Z, y = points(rng, 40, 2, 3)
    Z *= 0.3 * scale
    Z[10:] = np.tile(Z[:10], (3, 1)) + 0.1 * rng.standard_normal((30, 2))
    return Z, y


def nca_case(name, objective, kernel="gaussian", weighted=False, priors=None, **changes):
    """NCA with labels, weights and priors; kernels other than the Gaussian know fewer digits."""
    background = changes.pop("background", False)
    options = {"kernel": KERNELS[kernel], **changes.pop("options", {})}

    def fast(Z, target, queries=None, references=None, **more):
        more = {"warn": False, **options, **more}
        if background:
            more["background"] = beta_of(as_labels(target))
        return nca(Z, target, objective, queries, references, **more)

    def formula(Z, target, queries=None, references=None):
        target = as_labels(target)
        common = {"sample_weight": target.sample_weight, "priors": target.priors}
        rows = (objective, queries, references)
        if background:
            beta = beta_of(target)
            return formulas.nca_background(Z, target.codes, beta, *rows, **common, kernel=kernel)
        return formulas.nca(Z, target.codes, *rows, **common, kernel=kernel)

    changes = {
        "unit": 0.4 if kernel == "compact" else 1.0,
        "bounds": (-1.0, 0.0) if objective == "accuracy" else (0.0, np.inf),
        "smooth": huddles if kernel == "compact" else lattice,
        "scales": (0.3, 1.0, 10.0) if kernel == "compact" else (1.0, 10.0, 100.0),
        "lists": not options.get("pairs") and not background,
        "weights": lambda target, rows: (
            np.ones(len(rows)) if target.sample_weight is None else target.sample_weight[rows]
        ),
        **changes,
    }
    target = partial(labels, weighted=weighted, priors=priors)
    log = objective == "log"
    ordered = background or priors == "given"
    return Case(name, fast, formula, target, log=log, ordered=ordered, **changes)


def as_labels(target):
    return target if isinstance(target, Labels) else Labels(target)


def background_case(name, objective, kernel, **changes):
    """One class is not the best there can be, nor do rows huddle: a normal lies under them."""
    return nca_case(
        name, objective, kernel, background=True, one_class=False, slow=True,
        smooth=lambda rng, scale: points(rng, 14, 2, 3, scale), scales=(0.5, 2.0), least=1e-3,
        float32=((1.0, 2e-5),), small_blocks=False, rounding=1e-9, **changes,
    )  # fmt: skip


def knca_case(k, vote, objective, **changes):
    def formula(Z, target, queries=None, references=None):
        # all sets of the few, chains of the many
        function = formulas.knca_by_subsets if len(Z) <= 12 and k <= 4 else formulas.knca
        return function(Z, as_labels(target).codes, k, vote, objective, queries, references)

    def fast(Z, target, queries=None, references=None, **more):
        return knca(Z, target, k, vote, objective, queries, references, warn=False, **more)

    return Case(
        f"knca {k} {vote} {objective}", fast, formula, labels, slow=True, lists=True, k=k,
        log=objective == "log", bounds=(-1.0, 0.0) if objective == "accuracy" else (0.0, np.inf),
        smooth=partial(lattice, n_classes=2) if k < 8 else lambda rng, s: points(rng, 36, 2, 2, s),
        scales=(0.1, 1.0, 10.0) if k < 8 else (0.1, 1.0), least=1e-100, small_blocks=False,
        float32=((1.0, 1e-4 if k > 5 else 2e-5), *(((5.0, 2e-4),) if k <= 5 else ())), **changes,
    )  # fmt: skip


def mcml_case(name, weighted=False, **changes):
    """One class is not the best there can be: its rows ought to be at one point."""
    options = changes.pop("options", {})

    def fast(Z, target, queries=None, references=None, **more):
        return mcml(Z, target, queries, references, **{"warn": False, **options, **more})

    def formula(Z, target, queries=None, references=None):
        target = as_labels(target)
        return formulas.mcml(Z, target.codes, queries, references, target.sample_weight)

    return Case(
        name, fast, formula, partial(labels, weighted=weighted), one_class=False, smooth=lattice,
        lists=not options, wide=True,
        weights=lambda target, rows: (
            np.ones(len(rows)) if target.sample_weight is None else target.sample_weight[rows]
        ), **changes,
    )  # fmt: skip


def lmnn_case(distance, **changes):
    def target(y, k=3):
        y = np.asarray(y)
        return TargetNeighbors(y, some_targets(np.random.default_rng(len(y)), y, k))

    def fast(Z, target, queries=None, references=None, **more):
        return lmnn(Z, target, queries, references, **WEIGHTS, distance=distance, **more)

    def formula(Z, target, queries=None, references=None):
        rows = {"queries": queries, "references": references}
        return formulas.lmnn(
            Z, target.codes, target.neighbors, **WEIGHTS, distance=distance, **rows
        )

    return Case(
        f"lmnn {distance}", fast, formula, target, slow=True, one_class=False,
        points=points if distance == "squared" else histograms, euclidean=distance == "squared",
        smooth=lambda rng, scale: away_from_kinks(rng, distance, scale),
        float32=((1.0, 2e-5), (30.0, 2e-5)), wide=True,
        weights=lambda target, rows: (target.neighbors[rows] >= 0).any(axis=1) * 1.0, **changes,
    )  # fmt: skip


def ksne_case(k, kernel, kappa=0.0, exaggeration=1.0, **changes):
    def fast(Z, target, queries=None, references=None, **more):
        more = {"kappa": kappa, "exaggeration": exaggeration, **more}
        return ksne(Z, target, kernel, queries, references, **more)

    def formula(Z, target, queries=None, references=None):
        queries, references = (
            np.arange(len(Z)) if rows is None else np.asarray(rows, dtype=int)
            for rows in (queries, references)
        )
        sizes = np.minimum(k, len(references) - np.isin(queries, references))
        n, total, gradient = np.count_nonzero(sizes), 0.0, np.zeros_like(Z)
        for size in set(sizes.tolist()) - {0}:
            rows = queries[sizes == size], references
            value, dZ = formulas.ksne(
                Z, target.matrix.toarray(), size, kernel, kappa, *rows, exaggeration=exaggeration
            )
            total += len(rows[0]) / n * (value - target.entropy[rows[0]].mean())
            gradient += len(rows[0]) / n * dZ
        return total, gradient

    return Case(
        f"ksne {k} {kernel}{' constant' * (kappa > 0)}", fast, formula,
        lambda y: some_affinities(len(y), k), labelled=False, one_class=False, slow=True, k=k,
        bounds=(-np.inf, np.inf), smooth=lambda rng, scale: (lattice(rng, scale)[0], np.arange(16)),
        wide=kernel == "cauchy", **changes,
    )  # fmt: skip


def pair_case(**changes):
    def target(y):
        n, rng = len(y), np.random.default_rng(len(y))
        if n < 2:
            return PairWeights(n, np.zeros((0, 2), int))
        a = rng.integers(0, n, 2 * n)
        b = (a + rng.integers(1, n, 2 * n)) % n
        return PairWeights(n, np.column_stack([a, b]), rng.uniform(0, 2, 2 * n))

    def fast(Z, target, queries=None, references=None, **more):
        return pair_nca(Z, target, None, queries, references, **more)

    def formula(Z, target, queries=None, references=None):
        return formulas.pair_nca(Z, target.pairs, target.weights, queries, references)

    return Case(
        "pairs", fast, formula, target, labelled=False, one_class=False, adds=False,
        smooth=lambda rng, scale: (lattice(rng, scale)[0], np.arange(16)), wide=True, **changes,
    )  # fmt: skip


# Soft matches and numbers.  What a row is told depends on its place, not on the name of its class.


def some_weights(n, weighted):
    return np.random.default_rng(n).uniform(0.1, 2, n) if weighted else None


def distributions(y, weighted):
    """Most of the mass on the own class, for some rows all of it."""
    classes, codes = np.unique(y, return_inverse=True)
    own = np.clip(np.random.default_rng(len(codes)).uniform(0.3, 1.2, len(codes)), 0, 1)[:, None]
    T = own * np.eye(len(classes))[codes] + (1 - own) / max(1, len(classes))
    return LabelDistributions(T.reshape(len(codes), -1), some_weights(len(codes), weighted))


def some_partners(y, weighted):
    """Three partners at random, in one direction, to some degree; none for a few rows."""
    n, rng = len(y), np.random.default_rng(len(y))
    row = np.repeat(np.arange(n), 3)
    M = sp.coo_array((rng.uniform(0.1, 1, 3 * n), (row, rng.integers(0, n, 3 * n))), (n, n))
    M = M.tocsr()
    M.data = np.minimum(M.data, 1.0)
    M = M.multiply((np.arange(n) % 13 != 5)[:, None])
    return Matches(M, some_weights(n, weighted))


def near_numbers(y, weighted, outputs=1, width=0.5, hard=False):
    numbers = np.random.default_rng(len(y)).standard_normal((len(y), outputs)) + 2.0
    return NearNumbers(numbers, width, hard, some_weights(len(y), weighted))


def numbers(y, weighted, outputs):
    values = np.random.default_rng(len(y)).standard_normal((len(y), outputs)) + 5.0
    return Numbers(values, some_weights(len(y), weighted))


def degrees(target):
    """How well each row matches each other row."""
    if isinstance(target, Labels):
        return target.codes[:, None] == target.codes
    if isinstance(target, LabelDistributions):
        return formulas.matches_of_distributions(target.values)
    if isinstance(target, Matches):
        return target.matrix.toarray()
    return formulas.matches_of_numbers(target.values, target.width, target.hard)


def weight_of(target, rows):
    return np.ones(len(rows)) if target.sample_weight is None else target.sample_weight[rows]


def match_case(name, objective, target, kernel="gaussian", **changes):
    def fast(Z, target, queries=None, references=None, **more):
        more = {"warn": False, "kernel": KERNELS[kernel], **more}
        return nca_matches(Z, target, objective, queries, references, **more)

    def formula(Z, target, queries=None, references=None):
        rows = (queries, references, target.sample_weight, kernel)
        return formulas.nca_matches(Z, degrees(target), objective, *rows)

    def weights(target, rows):
        others = degrees(target) * (1 - np.eye(len(target)))
        counts = (others > 0).any(axis=1)[rows] if objective == "log" else 1.0
        return counts * weight_of(target, rows)

    # of many rows one case is compared with the formula, and the others with lists and small blocks
    slow = name != "matches of distributions"
    options = {"labelled": False, "one_class": False, "lists": True, "slow": slow, **changes}
    return Case(
        name, fast, formula, target, log=objective == "log", weights=weights,
        bounds=(-1.0, 0.0) if objective == "accuracy" else (0.0, np.inf), smooth=lattice,
        right=lambda target: degrees(target) > 0, **options,
    )  # fmt: skip


def mlkr_case(name, weighted=False, outputs=1, kernel="gaussian", **changes):
    def fast(Z, target, queries=None, references=None, **more):
        return mlkr(Z, target, queries, references, **{"kernel": KERNELS[kernel], **more})

    def formula(Z, target, queries=None, references=None):
        rows = (queries, references, target.sample_weight, kernel)
        return formulas.mlkr(Z, target.values, *rows)

    return Case(
        name, fast, formula, partial(numbers, weighted=weighted, outputs=outputs),
        labelled=False, one_class=False, lists=True, weights=weight_of, smooth=lattice,
        slow=kernel != "gaussian",
        right=lambda target: np.ones((len(target), len(target))), **changes,
    )  # fmt: skip


FAR = dict.fromkeys((1e-8, 1e8, 1e14, 1e30), (1e-3, 1e-8))
# At huge scales one neighbour is left, and the weights of pairs are differences of equal numbers.
TINY = {1e-8: (1e-3, 1e-8)}
STUDENT = {"float32": ((1.0, 1e-5), (10.0, 1e-5)),
           "extremes": dict.fromkeys((1e3, 1e6, 1e12), (1e-4, 1e-9)) | {1e-6: (1e-3, 1e-9)},
           "least": 1e-6}  # fmt: skip
HEAVY = dict.fromkeys((1e-6, 1e3, 1e6, 1e12), (1e-6, 1e-9))
# of a kernel with a kink neither value nor gradient depends on the scale at which rows coincide
LAPLACE = {"float32": ((1.0, 5e-6), (10.0, 5e-6)), "extremes": FAR}
COMPACT = {"float32": ((0.7, 1e-5),), "least": 1e-4}
CASES = [
    nca_case("nca log", "log", extremes=FAR),
    nca_case("nca accuracy", "accuracy", extremes=FAR),
    nca_case("nca log weights", "log", weighted=True),
    nca_case("nca accuracy weights", "accuracy", weighted=True),
    nca_case("nca log weights priors", "log", weighted=True, priors="given"),
    nca_case("nca accuracy weights uniform", "accuracy", weighted=True, priors="uniform"),
    nca_case("nca log uniform", "log", priors="uniform"),
    nca_case("nca accuracy priors", "accuracy", priors="given"),
    nca_case("student log", "log", "student", **STUDENT),
    nca_case("student accuracy", "accuracy", "student", **STUDENT),
    nca_case("student log weights priors", "log", "student", True, "given", **STUDENT),
    nca_case("laplace log", "log", "laplace", **LAPLACE),
    nca_case("laplace accuracy weights priors", "accuracy", "laplace", True, "given", **LAPLACE),
    nca_case("compact accuracy", "accuracy", "compact", **COMPACT),
    nca_case("compact accuracy weights", "accuracy", "compact", True, "uniform", **COMPACT),
    nca_case("trees log", "log", options={"pairs": Bounded(0.0, always=True)}),
    nca_case(
        "trees accuracy weights", "accuracy", "student", True, "uniform",
        options={"pairs": Bounded(0.0, always=True)}, **STUDENT,
    ),
    nca_case(
        "trees laplace", "log", "laplace", True, "uniform",
        options={"pairs": Bounded(0.0, always=True)}, **LAPLACE,
    ),
    background_case("background log", "log", "gaussian"),
    background_case("background accuracy", "accuracy", "student", weighted=True),
    background_case("background laplace", "log", "laplace"),
    background_case("background compact", "log", "compact", weighted=True, priors="given"),
    *(knca_case(k, vote, objective) for k, vote, objective in [
        (2, "majority", "log"), (2, "all", "accuracy"), (1, "all", "log"),
        (5, "majority", "log"), (5, "all", "log"),
        (5, "majority", "accuracy"), (5, "all", "accuracy"), (12, "all", "log"),
    ]),
    mcml_case("mcml", extremes=FAR),
    mcml_case("mcml weights", weighted=True),
    mcml_case("mcml trees", options={"pairs": Bounded(0.0, always=True)}),
    lmnn_case("squared"),
    lmnn_case("chi2"),
    ksne_case(5, "cauchy", extremes=HEAVY, least=1e-3),
    ksne_case(1, "cauchy", extremes=HEAVY, least=1e-3),
    ksne_case(9, "cauchy", least=1e-3),
    ksne_case(3, "cauchy", kappa=0.2, exaggeration=0.7, scales=(0.3, 1.0, 10.0), least=1e-6),
    ksne_case(1, "gaussian"),
    ksne_case(4, "gaussian"),
    pair_case(extremes=FAR),
    ksne_case(2, "gaussian", kappa=0.03, exaggeration=0.6, scales=(0.1, 1.0, 2.0), least=1e-6),
    match_case("matches of labels", "log", partial(labels, weighted=True), labelled=True,
               one_class=True, extremes=FAR),
    match_case("matches of distributions", "log", partial(distributions, weighted=True)),
    match_case("distributions accuracy", "accuracy", partial(distributions, weighted=False),
               extremes=TINY),
    match_case("distributions student", "log", partial(distributions, weighted=False), "student",
               **STUDENT),
    match_case("distributions laplace", "log", partial(distributions, weighted=True), "laplace"),
    match_case("partners log", "log", partial(some_partners, weighted=True), extremes=TINY,
               float32=((1.0, 5e-6), (10.0, 5e-5))),
    match_case("partners student", "accuracy", partial(some_partners, weighted=False), "student",
               **STUDENT),
    match_case("partners laplace", "log", partial(some_partners, weighted=True), "laplace",
               float32=((1.0, 5e-6), (10.0, 5e-5))),
    match_case("near numbers log", "log", partial(near_numbers, weighted=False), extremes=TINY),
    match_case("near numbers accuracy", "accuracy",
               partial(near_numbers, weighted=True, outputs=2)),
    match_case("hard numbers log", "log", partial(near_numbers, weighted=True, hard=True)),
    match_case("hard numbers student", "accuracy",
               partial(near_numbers, weighted=False, hard=True, outputs=2), "student", **STUDENT),
    mlkr_case("mlkr", extremes=TINY),
    mlkr_case("mlkr of three", weighted=True, outputs=3),
    mlkr_case("mlkr student", kernel="student", **STUDENT),
    mlkr_case("mlkr laplace", kernel="laplace"),
]  # fmt: skip


# those of `make test-fast`; every other compiles kernels of its own
FAST = {"nca log", "nca accuracy weights uniform", "knca 5 majority log", "mcml", "lmnn squared",
        "ksne 5 cauchy", "pairs", "partners log", "mlkr"}  # fmt: skip


# those of `make test-long`: other kernels and weights of targets that are there already
LONG = {"partners student", "hard numbers student", "mlkr student", "distributions accuracy",
        "near numbers accuracy", "mcml trees", "laplace accuracy weights priors", "trees laplace",
        "background laplace", "distributions laplace", "partners laplace",
        "mlkr laplace"}  # fmt: skip


def marks(case):
    """When a case runs."""
    if case.name in LONG:
        return pytest.mark.long
    return () if case.name in FAST else pytest.mark.options


def each(cases=CASES, options_long=False, **wanted):
    """Of the cases those with these properties; perhaps those of `make test-fast` alone."""
    kept = [c for c in cases if all(getattr(c, key) == value for key, value in wanted.items())]
    assert kept
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(
                c,
                id=c.name,
                marks=pytest.mark.long if options_long and c.name not in FAST else marks(c),
            )
            for c in kept
        ],
    )


def each_with(names, many, few, fits=lambda case, *values: True, **wanted):
    """Cases with more parameters: `many` for those of `make test-fast`, `few` for others.

    `make test-long` has the rest of the product.
    """
    kept = [c for c in CASES if all(getattr(c, key) == value for key, value in wanted.items())]
    return pytest.mark.parametrize(
        ("case", *names),
        [
            pytest.param(
                case,
                *values,
                id="-".join([case.name, *map(_word, values)]),
                marks=marks(case) if case.name in FAST or values in few else pytest.mark.long,
            )
            for case in kept
            for values in (
                many if case.name in FAST else [*few, *(v for v in many if v not in few)]
            )
            if fits(case, *values)
        ],
    )


def _word(value):
    return getattr(value, "__name__", str(value))


each_case = each()


def can_wait(case, n, d, n_classes=1):
    """Whether the plain formula takes well under a second: of many rows for one kind of vote."""
    return not case.slow or n <= (800 if case.name in FAST and n_classes <= 100 else 100)


def in_blocks(case, monkeypatch, n):
    """Cut few rows into as many blocks as thousands are: five of them, of odd sizes."""
    if case.small_blocks and n > 100:
        set_block_size(monkeypatch, n // 5 + 1, 1)


def share_of(case, target, rows):
    return float(case.weights(target, np.asarray(rows)).sum())


# Values


# 5 and 60 rows are one block, 800 are several, and so are 250 here; from 48 dimensions on distances
# may be matrix products; 12 rows of 60 columns, and classes of two rows
SHAPES = [(5, 3, 2), (12, 60, 3), (60, 1, 3), (60, 2, 20), (60, 13, 2), (60, 50, 3)]
SHAPES += [(250, 3, 90), (250, 50, 7), (800, 2, 300), (800, 13, 5), (800, 50, 7)]


@each_with(("n", "d", "n_classes"), SHAPES, SHAPES[1:6:2] + SHAPES[6:8], can_wait)
def test_matches_reference(rng, case, monkeypatch, n, d, n_classes):
    if n == 250:
        in_blocks(case, monkeypatch, n)
    Z, target = case.data(rng, n, d, n_classes, 1 / np.sqrt(d))
    if n == 5:
        target = case.target(np.array([0, 1, 0, 1, 0]))
    for scale in [0.3, 3.0, 20.0] if n < 100 else [3.0]:
        rows = case.few(n, n_classes)
        assert_close(case.fast(scale * Z, target, **rows), case.plain(scale * Z, target, **rows),
                     1e-10, 1e-14)  # fmt: skip


@pytest.mark.nojit
@each_case
@each_dtype
def test_matches_reference_on_few_rows(rng, case, dtype):
    Z, target = case.data(rng, 12, 2, 2)
    Z = Z.astype(dtype)
    part = {"queries": np.array([0, 5, 7]), "references": np.array([1, 2, 3, 4, 5, 8, 10, 11])}
    for rows in [{}, part, {"queries": [3]}]:
        got, expected = case.fast(Z, target, **rows), case.plain(Z, target, **rows)
        assert_close(got, expected, 1e-10 if dtype == np.float64 else 1e-4, 1e-13)
        if rows:
            touched = np.r_[rows["queries"], rows.get("references", np.arange(12))]
            assert not np.delete(got[1], touched, axis=0).any() or case.name.startswith("backgr")


PLACES = [(place,) for place in range(3)]


@each_with(("place",), PLACES, PLACES, lambda case, place: place < len(case.scales))
def test_gradient_matches_finite_differences(rng, case, place):
    """At scales of 1, 10 and 100 where the objective still has a gradient there."""
    scale = case.scales[place]
    Z, target = case.smooth(rng, scale)
    target = target if isinstance(target, Labels) else case.target(target)
    dZ = case.fast(Z, target)[1]
    size = np.abs(dZ).max()
    assert size > case.least  # nothing is compared to zero
    step = 1e-6 * scale if case.wide else 1e-4 / (1 + scale)
    numeric = finite_difference(
        lambda W: case.fast(W, target, gradient=False)[0], Z, min(step, 1e-5)
    )
    np.testing.assert_allclose(dZ, numeric, rtol=1e-5, atol=2e-6 * size + 1e-11 * (size > 1e-6))


@each([case for case in CASES if not case.name.startswith(("lmnn", "compact"))], options_long=True)
def test_gradient_matches_finite_differences_at_a_converged_map(rng, case):
    """And further along, where a map goes without a penalty."""
    X, y = points(rng, 20, 4, 3)
    target = case.target(y)

    def loss(a):
        value, dZ = case.fast(X @ a.reshape(2, 4).T, target)
        return value + 1e-3 * a @ a, (dZ.T @ X).ravel() + 2e-3 * a

    if "laplace" in case.name:
        pytest.skip("the minimum may be at a kink, where two rows of a class coincide")
    start = 0.5 * rng.standard_normal(8)
    end = minimize(loss, start, jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "ftol": 0})
    assert np.abs(end.jac).max() < 1e-4
    for factor in (1.0, 1.7):
        Z = factor * X @ end.x.reshape(2, 4).T
        numeric = finite_difference(lambda W: case.fast(W, target, gradient=False)[0], Z, 1e-5)
        dZ = case.fast(Z, target)[1]
        np.testing.assert_allclose(dZ, numeric, rtol=1e-5, atol=2e-6 * np.abs(dZ).max() + 2e-11)


# Which rows


@each_with(("n",), [(100,), (250,), (800,)], [(250,)], adds=True)
def test_value_adds_over_queries(rng, case, monkeypatch, n):
    if n == 250:
        in_blocks(case, monkeypatch, n)
    Z, target = case.data(rng, n, 3, 4)
    value, dZ = case.fast(Z, target)
    parts = np.array_split(rng.permutation(n), [1, n // 9, n - 40])
    got = [case.fast(Z, target, queries=part) for part in parts]
    share = np.array([share_of(case, target, part) for part in parts])
    share /= share.sum()
    assert share @ [part[0] for part in got] == pytest.approx(value, rel=1e-12)
    total = sum(s * part[1] for s, part in zip(share, got, strict=True))
    np.testing.assert_allclose(total, dZ, atol=1e-12 * np.abs(dZ).max())


@each_with(("n", "d"), [(60, 3), (250, 3), (250, 50)], [(60, 3), (250, 50)], can_wait)
def test_queries_and_references(rng, case, monkeypatch, n, d):
    if case.small_blocks:
        set_block_size(monkeypatch, 40, 1)
    Z, target = case.data(rng, n, d, 4, 1.5 / np.sqrt(d))
    order = rng.permutation(n)
    m = 4 if case.slow else n // 3
    for q, r in [
        (order[:m], order[m:]),
        (order[: m + (2 if case.slow else 9)], order[m // 2 :]),
        *([] if case.slow and n > 100 else [(order[:m], None)]),
        (order[5:6], order[: n // 3]),
        (np.sort(order[:m]), order[: max(m, 20)]),
        *([] if case.slow else [(order, order[100:]), (None, order[:70])]),
    ]:
        got = case.fast(Z, target, queries=q, references=r)
        assert_close(got, case.plain(Z, target, queries=q, references=r), 1e-10, 1e-15)
        touched = np.concatenate([np.arange(n) if rows is None else rows for rows in (q, r)])
        assert not np.delete(got[1], touched, axis=0).any()
        masks = [None if rows is None else np.isin(np.arange(n), rows) for rows in (q, r)]
        if r is not None and q is not None:
            by_mask = case.fast(Z, target, queries=masks[0], references=masks[1])
            assert_close(by_mask, got, 1e-12)


# of few rows a background is so narrow that the plain formula underflows
@each([case for case in CASES if not case.name.startswith("background")])
@given(data=st.data())
def test_any_queries_and_references(case, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n = data.draw(st.integers(2, 10))
    Z, y = case.points(rng, n, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)))
    kind = data.draw(st.sampled_from(["plain", "duplicates", "integers", "constant"]))
    Z *= case.unit * data.draw(st.sampled_from([0.1, 0.5, 1, 2]))
    if kind == "duplicates":
        Z = Z[rng.integers(0, n, n)]
    elif kind == "integers":  # exact ties
        Z = np.rint(2 * Z)
    elif kind == "constant":
        Z[:] = Z[0]
    target = case.target(y)
    rows = st.lists(st.integers(0, n - 1), unique=True, max_size=n)
    part = {name: np.array(data.draw(rows), int) for name in ("queries", "references")}
    if "trees" in case.name:  # of which one with nobody but the query finds the query
        assume(len(part["references"]) > 1)
    for given_rows in (part, {}):
        got = case.fast(Z, target, **given_rows)
        atol = max(1e-11, case.rounding)
        assert_close(got, case.plain(Z, target, **given_rows), 1e-8, atol)
        without = case.fast(Z, target, gradient=False, **given_rows)
        assert_same_bits(without, (got[0], np.zeros_like(Z)))
        assert case.bounds[0] - 1e-12 <= got[0] <= case.bounds[1]


# Candidate lists


def plain_over_lists(case, Z, target, pairs, queries=None, references=None):
    """Each query by the plain formula with its own list; of no use with priors."""
    k = case.k
    right = case.right(target) if case.right else target.codes[:, None] == target.codes
    if isinstance(target, Matches):  # counts whether listed or not
        lists = np.split(pairs.indices, pairs.indptr[1:-1])
        pairs = lists_of([np.union1d(*pair) for pair in zip(lists, _partners(target), strict=True)])
    if references is not None or queries is not None:
        q = np.arange(len(Z)) if queries is None else queries
        r = np.arange(len(Z)) if references is None else references
        k = min(k, len(r) - bool(np.isin(q, r).any()))

    def loss(i, rows):
        if not right[i, rows].any():
            return None
        if case.name.startswith("knca"):
            codes, (vote, objective) = target.codes, case.name.split()[2:]
            if formulas.knca(Z, codes, k, vote, "accuracy", [i], rows)[0] == 0:
                return None
            return formulas.knca(Z, codes, k, vote, objective, [i], rows)
        return case.plain(Z, target, queries=[i], references=rows)

    value, dZ = over_lists(
        loss, pairs, len(Z), queries, references, target.sample_weight, log=case.log, least=k
    )
    return value, dZ + np.zeros(Z.shape)


def _partners(target):
    return np.split(target.indices, target.indptr[1:-1])


LISTED = [case for case in CASES if case.lists]
each_listed = each(LISTED)


@pytest.mark.nojit
@each([case for case in LISTED if not case.ordered and "uniform" not in case.name
       and "mcml" not in case.name and case.name != "compact accuracy weights"])  # fmt: skip
@pytest.mark.parametrize("d", [1, 2, 20])
def test_lists_match_the_reference(rng, case, d):
    n = 16 if d == 2 else 40
    Z, target = case.data(rng, n, d, 2, 0.8 / np.sqrt(d))
    pairs = some_lists(rng, n, n // 4, n // 2)
    part = {"queries": np.arange(4, n // 2), "references": np.arange(n // 5, n)}
    for rows in [{}, part]:
        got = case.fast(Z, target, pairs=pairs, **rows)
        assert_close(got, plain_over_lists(case, Z, target, pairs, **rows), 1e-10)


@each_listed
@each_dtype
@pytest.mark.parametrize("n", [60, 600])
def test_full_pair_list_equals_tiles(rng, case, dtype, n):
    Z, target = case.data(rng, n, 4, 3)
    report = {}
    for scale in [0.5, 5.0]:
        for rows in [{}, {"queries": np.arange(n // 3), "references": np.arange(n // 5, n)}]:
            W = (scale * Z).astype(dtype)
            got = case.fast(W, target, pairs=all_rows(n), report=report, **rows)
            assert got[1].dtype == dtype
            error = (2e-4 if case.k > 1 else 5e-5) if dtype == np.float32 else 1e-11
            assert_close(got, case.fast(W, target, **rows), error)
            assert 0.9 < report["share_of_pairs"] <= 1.3  # lists hold rows that are no references


@each_listed
@each_dtype
def test_thread_count_agnosticism_of_lists(rng, case, monkeypatch, dtype):
    Z, target = case.data(rng, 1200, 3, 3)
    Z, pairs = Z.astype(dtype), some_lists(rng, 1200, 8, 20)
    set_threads(monkeypatch, 1)
    expected = case.fast(Z, target, pairs=pairs)
    for threads in [2, 3]:
        set_threads(monkeypatch, threads)
        assert_same_bits(case.fast(Z, target, pairs=pairs), expected)


@each_listed
def test_float32_lists_near_float64(rng, case):
    Z, target = case.data(rng, 200, 4, 3, 0.7)
    Z, pairs = Z.astype(np.float32), some_lists(rng, 200, 30, 60)
    got = case.fast(Z, target, pairs=pairs)
    assert got[1].dtype == np.float32
    expected = case.fast(Z.astype(np.float64), target, pairs=pairs)
    assert_close(got, expected, 1e-4 if case.k > 1 else 2e-5)
    value, dZ = case.fast(Z, target, pairs=pairs, gradient=False)
    assert (value, dZ.any()) == (got[0], False)


@each_listed
def test_value_adds_over_queries_of_lists(rng, case):
    Z, target = case.data(rng, 100, 3, 3)
    parts = np.split(rng.permutation(100), 2)
    share = np.array([share_of(case, target, part) for part in parts])
    share /= share.sum()
    got = [case.fast(Z, target, pairs=all_rows(100), queries=part) for part in parts]
    total = [sum(s * part[field] for s, part in zip(share, got, strict=True)) for field in (0, 1)]
    assert_close(total, case.fast(Z, target, pairs=all_rows(100)), 1e-12)


@each_listed
def test_order_of_a_list_and_rows_that_are_no_references_do_not_matter(rng, case):
    Z, target = case.data(rng, 60, 3, 3)
    pairs = some_lists(rng, 60, 20, 40)
    rows = np.split(pairs.indices, pairs.indptr[1:-1])
    references = np.arange(0, 60, 2)
    shorter = lists_of([rng.permutation(row[row % 2 == 0]) for row in rows])
    got, expected = (
        case.fast(Z, target, references=references, pairs=lists) for lists in (shorter, pairs)
    )
    assert_close(got, expected, 1e-11)


@each_listed
def test_wrong_lists_are_named(rng, case):
    Z, target = case.data(rng, 6, 2, 2)
    good = all_rows(6)
    for pairs, message in [
        (good._replace(indptr=good.indptr[:-1]), r"one list for each of the 6 rows\. Got .*\(6,\)"),
        (good._replace(indptr=good.indptr.astype(float)), r"dtype float64 instead"),
        (good._replace(indices=good.indices.astype(int)), r"vector of int32 .* dtype int64"),
        (good._replace(indptr=good.indptr + 1), r"ends within its 36 indices"),
        (good._replace(indptr=good.indptr[::-1]), r"never decreases"),
        (good._replace(indices=good.indices + np.int32(1)), r"in \[0, 5\]\. Got 1\.\.6 instead"),
        (good._replace(indices=good.indices - np.int32(1)), r"in \[0, 5\]\. Got -1\.\.4 instead"),
        (good._replace(log2_rates=np.zeros((2, 3))), r"shape \(2, 6\) .* Got shape \(2, 3\)"),
        ("near", r"must be Pairs.* Got 'near'"),
    ]:
        with pytest.raises((ValueError, TypeError), match=rf"'pairs' parameter of .*{message}"):
            case.fast(Z, target, pairs=pairs)


# What changes nothing


SIZES = [(d, *size) for d in (3, 60) for size in ((27, 1), (150, 3), (100_000, 4))]


@each_with(("d", "size", "multiple"), SIZES, [SIZES[0], SIZES[4]], small_blocks=True)
def test_tile_size_agnosticism(rng, case, monkeypatch, d, size, multiple):
    Z, target = case.data(rng, 400, d, 5, 2 / np.sqrt(d))
    q = {"queries": rng.permutation(400)[:190], "references": rng.permutation(400)[:220]}
    whole, held_out = case.fast(Z, target), case.fast(Z, target, **q)
    set_block_size(monkeypatch, size, multiple)
    assert_close(case.fast(Z, target), whole, 1e-12)
    assert_close(case.fast(Z, target, **q), held_out, 1e-12)


# few rows in many blocks, or many rows of those that cut them by themselves
TABLES = [
    (t, *size) for t in (np.float32, np.float64)
    for size in ((200, 3), (400, 2), (400, 50), (1300, 2), (1000, 60))
]  # fmt: skip


def are_cut(case, dtype, n, d):
    return case.name in FAST or case.small_blocks == (n == 400)


@each_with(("dtype", "n", "d"), TABLES, TABLES[1:5] + TABLES[7:10:2], are_cut)
def test_thread_count_agnosticism(rng, case, monkeypatch, dtype, n, d):
    Z, target = case.data(rng, n, d, 5, 1.5 / np.sqrt(d))
    Z = Z.astype(dtype)
    q = {"queries": np.arange(n // 2), "references": np.arange(n // 5, n)}
    set_threads(monkeypatch, 1)
    if case.small_blocks:
        set_block_size(monkeypatch, n // 10, 1)  # ten blocks of them: an odd share for each
    whole, held_out = case.fast(Z, target), case.fast(Z, target, **q)
    for threads in [2, 3, 7] if d < 10 else [2, 3]:
        set_threads(monkeypatch, threads)
        assert_same_bits(case.fast(Z, target), whole)
        assert_same_bits(case.fast(Z, target, **q), held_out)


@each_with(("n", "d"), [(300, 20), (1100, 60)], [(800, 50)])
def test_thread_count_agnosticism_under_threadpoolctl(rng, case, n, d):
    """Which also limits BLAS."""
    Z, target = case.data(rng, n, d, 5, 1.5 / np.sqrt(d))
    expected = case.fast(Z, target)
    for threads in [1, 2]:
        with threadpool_limits(threads):
            assert_same_bits(case.fast(Z, target), expected)


@each_with(("n", "d"), [(200, 1), (700, 3), (200, 13), (200, 60)], [(200, 1), (250, 13)],
           euclidean=True)  # fmt: skip
def test_translation_and_rotation(rng, case, monkeypatch, n, d):
    if n == 250:
        in_blocks(case, monkeypatch, n)
    Z, target = case.data(rng, n, d, 4, 1 / np.sqrt(d))
    value, dZ = case.fast(Z, target)
    np.testing.assert_allclose(dZ.sum(axis=0), 0, atol=1e-12 * max(1, n * np.abs(dZ).max()))
    Q = special_ortho_group.rvs(d, random_state=7) if d > 1 else -np.eye(1)
    moved = case.fast(Z @ Q.T + rng.uniform(-50, 50, d), target)
    assert_close(moved, (value, dZ @ Q.T), 1e-10)


@each_with(("n",), [(120,), (250,), (700,)], [(250,)])
def test_order_of_rows_and_names_of_classes(rng, case, monkeypatch, n):
    if n == 250:
        in_blocks(case, monkeypatch, n)
    Z, y = case.points(rng, n, 3, 4)
    Z *= case.unit
    Z[60:70] = Z[:10]  # twins, some of another class
    target = case.target(y)
    value, dZ = case.fast(Z, target)
    order = rng.permutation(n)
    assert_close(case.fast(Z[order], target.take(order)), (value, dZ[order]), 1e-11)
    for names in [list("zebu"), [-7, 1e9, 3, 0.5], [2, 0, 3, 1]]:
        named = np.array(sorted(names) if case.ordered else names)[y]
        assert_close(case.fast(Z, case.target(named)), (value, dZ), 1e-11)


@each_with(("n",), [(200,), (700,)], [(250,)])
def test_float32_near_float64(rng, case, monkeypatch, n):
    """d² is known to eps d², and that is the relative error of exp(-d²)."""
    if n == 250:
        in_blocks(case, monkeypatch, n)
    for scale, rtol in case.float32:
        Z, target = case.data(rng, n, 3, 4, scale)
        Z = Z.astype(np.float32)
        value, dZ = case.fast(Z, target)
        assert dZ.dtype == np.float32
        assert_close((value, dZ), case.fast(Z.astype(np.float64), target), rtol)


# What goes in and comes out


@each_case
@each_dtype
def test_shape_and_dtype_of_the_gradient(rng, case, dtype):
    Z, target = case.data(rng, 40, 3, 2)
    Z = np.asfortranarray(Z.astype(dtype))
    before, told = Z.copy(), copy.deepcopy(vars(target))
    value, dZ = case.fast(Z, target)
    assert type(value) is float
    assert (dZ.shape, dZ.dtype) == (Z.shape, Z.dtype)
    np.testing.assert_array_equal(Z, before)
    for name, entry in told.items():
        if not name.startswith("_"):  # what it keeps for later
            np.testing.assert_array_equal(vars(target)[name], entry)
    Z.setflags(write=False)
    assert_same_bits(case.fast(Z[:, ::-1][:, ::-1], target), (value, dZ))
    whole = np.rint(5 * Z / case.unit).astype(int)
    for other in [Z.astype(np.float16), whole, whole.tolist()]:
        assert case.fast(other, target)[1].dtype == np.float64
    if type(target) is Labels and target.sample_weight is None:
        if target.priors is None:
            assert_same_bits(case.fast(Z, target.codes.tolist()), (value, dZ))


@each_with(("n",), [(90,), (900,)], [(250,)])
def test_without_the_gradient(rng, case, monkeypatch, n):
    if n == 250:
        in_blocks(case, monkeypatch, n)
    Z, target = case.data(rng, n, 3, 4)
    value, dZ = case.fast(Z, target, gradient=False)
    assert value == case.fast(Z, target)[0]
    assert dZ.shape == Z.shape
    assert not dZ.any()


@each_case
def test_report_tells_the_share_of_pairs(rng, case):
    Z, target = case.data(rng, 50, 2, 3)
    report = {"stale": 1}
    value, _ = case.fast(Z, target, report=report)
    assert value == case.fast(Z, target)[0]
    assert 0 < report["share_of_pairs"] <= 1
    assert report["stale"] == 1


@each_case
def test_wrong_input_is_named(rng, case):
    Z, target = case.data(rng, 12, 2, 2)
    Z = np.abs(Z)
    bad, far = Z.copy(), Z.copy()
    bad[3, 1], far[3, 1] = np.nan, np.inf
    mask = np.ones(5, dtype=bool)
    for args, rows, message in [
        ((bad, target), {}, r"Z must be finite\. Got NaN"),
        ((far, target), {}, r"Z must be finite\. Got NaN or infinity"),
        ((1e120 * Z, target), {}, r"Z must lie within ±1e\+100\. Got \d"),
        ((Z[:, 0], target), {}, r"Z must have shape \(n, d\) with d >= 1\. Got \(12,\) instead"),
        ((Z[:, :0], target), {}, r"Got \(12, 0\) instead"),
        (
            (Z, target.take(slice(11))),
            {},
            "Z has 12 rows,? but there are (11 labels|targets for 11)",
        ),
        ((Z, target), {"queries": [0, 12]}, r"'queries' parameter of \w+ must lie in \[0, 11\]"),
        ((Z, target), {"references": [-1, 2]}, r"'references' parameter .* Got -1\.\.2 instead"),
        ((Z, target), {"queries": [1, 2, 1]}, "'queries' parameter of .* must not repeat a row"),
        ((Z, target), {"references": [1, 1]}, "'references' parameter .* must not repeat a row"),
        ((Z, target), {"queries": [0.5]}, "'queries' parameter of .* vector of row positions"),
        ((Z, target), {"references": [[1]]}, "'references' parameter .* vector of row positions"),
        ((Z, target), {"queries": mask}, "'queries' .* vector of row positions"),
    ]:
        with pytest.raises(ValueError, match=message):
            case.fast(*args, **rows)


# Points that are hard on floats


@each_case
@each_dtype
def test_duplicates(rng, case, dtype):
    Z, target = case.data(rng, 60, 3, 4, 2.0)
    Z[30:] = Z[:30]  # half of the pairs with another label
    rtol = 5e-5 if dtype == np.float32 else 1e-10
    Z = Z.astype(dtype)
    rows = case.few(60)
    assert_close(case.fast(Z, target, **rows), case.plain(Z, target, **rows), rtol)
    dZ = case.fast(np.ones((60, 3), dtype), target)[1]  # all rows alike
    assert case.fast(np.ones((60, 3), dtype), target, **rows)[0] == pytest.approx(
        case.plain(np.ones((60, 3)), target, **rows)[0], rel=1e-6
    )
    np.testing.assert_allclose(dZ, 0, atol=max(1e-12, case.rounding))


@each_case
def test_constant_columns(rng, case):
    Z, target = case.data(rng, 60, 2, 3)
    Z = np.column_stack([np.zeros(60), Z, np.full(60, 7.0)])
    rows = case.few(60)
    value, dZ = case.fast(Z, target, **rows)
    assert_close((value, dZ), case.plain(Z, target, **rows), 1e-10, case.rounding)
    atol = max(1e-13 * np.abs(dZ).max(), case.rounding)
    np.testing.assert_allclose(dZ[:, [0, 3]], 0, atol=atol)


@each([case for case in CASES if case.extremes])
@each_dtype
def test_huge_and_tiny_scales(rng, case, dtype):
    Z, target = case.data(rng, 100, 3, 3)
    for scale, errors in case.extremes.items():
        W = (scale * Z).astype(dtype)
        got = case.fast(W, target)
        assert case.bounds[0] <= got[0] <= case.bounds[1]
        assert_close(got, case.plain(W, target), errors[dtype == np.float64])


@each_dtype
@each_with(("n",), [(40,), (250,), (700,)], [(40,), (250,)])
def test_finite_at_any_scale(rng, case, monkeypatch, dtype, n):
    if n == 250:
        in_blocks(case, monkeypatch, n)
    Z, target = case.data(rng, n, 3, 3)
    for scale in [0.0, 1e-30, 1e-8, 1e3, 1e8, 1e30]:
        for rows in ({}, {"queries": np.arange(8), "references": np.arange(8, n)}):
            value, dZ = case.fast((scale * Z).astype(dtype), target, **rows)
            assert np.isfinite(value)
            assert np.isfinite(dZ).all()
            if not case.name.startswith("backgr"):
                assert case.bounds[0] - 1e-6 <= value <= case.bounds[1]


@each([case for case in CASES if case.name in (
    "nca log", "nca accuracy", "student log", "laplace log", "matches of distributions",
    "partners log",
    "near numbers log", "hard numbers log", "mlkr")])  # fmt: skip
@each_dtype
@pytest.mark.parametrize("d", [3, 60])
def test_far_outliers(rng, case, dtype, d):
    """A few rows a million away, alone or together: the others keep all their digits."""
    Z, target = case.data(rng, 300, d, 3, 2 / np.sqrt(d))
    Z[:4] += 1e6 * np.array([[1.0], [-1.0], [2.0], [1.0]])
    Z = Z.astype(dtype)
    rows = {"queries": np.arange(4, 300)}
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert_close(case.fast(Z, target, **rows), case.plain(Z, target, **rows), tolerance)
    got, expected = case.fast(Z, target), case.plain(Z, target)
    if dtype == np.float64:
        assert_close(got, expected, 1e-8)
    elif case.right is None:  # two are neighbours, known to 0.06 each: theirs is a share of 2 / 300
        assert got[0] == pytest.approx(expected[0], rel=1e-4, abs=2 / 300)


@each_case
def test_one_class_few_rows_and_no_rows(rng, case):
    Z, y = case.points(rng, 50, 2, 2)
    Z *= case.unit
    target = case.target(0 * y)
    if case.one_class:
        value, dZ = case.fast(Z, target)
        assert value == pytest.approx(case.bounds[0], abs=1e-15)
        assert not dZ.any()
    else:
        rows = case.few(50)
        assert_close(case.fast(Z, target, **rows), case.plain(Z, target, **rows), 1e-10, 1e-14)
    for n in [0] if "trees" in case.name else [0, 1]:  # a tree of one row finds itself
        value, dZ = case.fast(Z[:n], target.take(np.arange(n)))
        assert (value, dZ.any(), dZ.shape) == (0.0, False, (n, 2))
    for rows in [{"queries": []}, {"references": []}]:
        value, dZ = case.fast(Z, target, **rows)
        assert (value, dZ.any()) == (0.0, False)


@each([case for case in CASES if case.labelled])
def test_classes_of_one_row(rng, case):
    """Nobody is right, or some are not: they count at zero, or not at all, and push the others."""
    Z, y = case.points(rng, 24, 2, 2)
    Z *= case.unit
    value, dZ = case.fast(Z[:12], case.target(np.arange(12)))
    assert (value, dZ.any()) == (0.0, False)
    y[[4, 7]] = 2, 3
    target = case.target(y)
    rows = {"queries": np.arange(12)} if case.slow else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_close(case.fast(Z, target, **rows), case.plain(Z, target, **rows), 1e-10, 1e-14)


def test_the_list_names_no_case_twice():
    names: list[Any] = [case.name for case in CASES]
    assert len(set(names)) == len(names)
