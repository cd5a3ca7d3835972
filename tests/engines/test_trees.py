"""Trees: every class density within the tolerance, the gradient, and the limit of no tolerance."""

from __future__ import annotations

from types import SimpleNamespace

import formulas
import numpy as np
import pytest

from vicinal import NCA
from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.cpu import trees as _trees
from vicinal.engines.cpu.tiles import coordinate_scale, kernel_points
from vicinal.engines.cpu.trees import Bounded, Trees
from vicinal.fit.method import Config, Data
from vicinal.fit.plan import make_problem
from vicinal.kernels.tree import LEAF, build
from vicinal.neighborhoods import Tree
from vicinal.objectives import nca
from vicinal.targets import Labels


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Trees stand beside tiles, however few the rows."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", 0)


def data(rng, kind, n, d, scale):
    """Points, labels and masses; the last of the four classes has but three members."""
    y = rng.integers(0, 3, n)
    y[:3] = 3
    Z = rng.standard_normal((n, d)) + 0.5 * rng.standard_normal((4, d))[y]
    mass = np.ones(n)
    if kind == "clusters":
        Z = 3.0 * rng.standard_normal((8, d))[rng.integers(0, 8, n)] + 0.05 * Z
    elif kind == "duplicates":
        Z = np.round(Z * 2.0) / 2.0
    elif kind == "weights":
        mass = rng.uniform(0.001, 1.0, n)
    return scale * Z, y, mass


def exact_density(Z, y, mass, c, kernel):
    """Logarithm of ``sum_{j in c, j != i} mass_j kappa(d_ij)``, plainly."""
    D = formulas.squared_distances(Z)
    D[:, y != c] = np.inf
    np.fill_diagonal(D, np.inf)
    energy, _ = kernel.energy(D, Z.shape[1])
    least = energy.min(axis=1)
    return np.log(np.exp(least[:, None] - energy) @ mass) - least


def tree_density(Z, y, mass, c, kernel, tolerance):
    """The same by trees: the sum over the own class of queries that all have class c."""
    scale, centre = coordinate_scale(kernel), np.zeros(Z.shape[1])
    R, order = kernel_points(Z, y, mass, centre, scale)
    everyone = np.full(len(Z), c)
    Q, _ = kernel_points(Z, everyone, mass, centre, scale)
    place = np.empty(len(Z), dtype=int)
    place[order] = np.arange(len(Z))
    engine = Trees(Q, R, place, kernel, Bounded(tolerance), Z.shape[1])
    log_sums, minima = engine.sums()
    return (log_sums[1] - minima[1]) * np.log(2.0), engine.share


@pytest.mark.parametrize("kind", ["plain", "clusters", "duplicates", "weights"])
@pytest.mark.parametrize("d", [2, 5])
def test_every_density_is_within_the_tolerance(rng, kind, d):
    for scale in (0.3, 1.0, 3.0, 10.0):
        Z, y, mass = data(rng, kind, 700, d, scale)
        for c in range(4):
            exact = exact_density(Z, y, mass, c, Gaussian())
            for tolerance in (1e-1, 1e-2, 1e-4):
                found, _ = tree_density(Z, y, mass, c, Gaussian(), tolerance)
                error = np.abs(np.expm1(found - exact)).max()
                assert error <= tolerance, (scale, c, tolerance, error)


@pytest.mark.parametrize("d", [2, 5])
def test_every_student_density_is_within_the_tolerance(rng, d):
    for scale in (0.3, 3.0):
        Z, y, mass = data(rng, "weights", 500, d, scale)
        for c in (0, 3):
            exact = exact_density(Z, y, mass, c, Student())
            for tolerance in (1e-1, 1e-3, 0.0):
                found, share = tree_density(Z, y, mass, c, Student(), tolerance)
                error = np.abs(np.expm1(found - exact)).max()
                assert error <= tolerance + 1e-10, (scale, c, tolerance, error)
                assert tolerance < 0.1 or scale > 1 or share < 1


@pytest.mark.parametrize("kind", ["plain", "duplicates", "weights"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_laplace_density_is_within_the_tolerance(rng, kind, dtype):
    """Its Hessian is infinite at distance zero, near which the slope bounds the error."""
    for scale, d in ((0.1, 2), (3.0, 5)):
        Z, y, mass = data(rng, kind, 500, d, scale)
        Z = Z.astype(dtype)
        for c in (0, 3):
            exact = exact_density(Z, y, mass, c, Laplace())
            for tolerance in (1e-1, 1e-3):
                found, share = tree_density(Z, y, mass, c, Laplace(), tolerance)
                error = np.abs(np.expm1(found - exact)).max()
                assert error <= tolerance + (1e-10 if dtype == np.float64 else 1e-5)
                assert tolerance < 0.1 or scale > 0.1 or share < 1


def exact_others(Z, y, mass):
    """Logarithm of ``sum_{j : y_j != y_i} mass_j exp(-d²_ij)``, plainly."""
    D = formulas.squared_distances(Z)
    D[y[:, None] == y] = np.inf
    least = D.min(axis=1)
    return np.log(np.exp(least[:, None] - D) @ mass) - least


@pytest.mark.parametrize("kind", ["plain", "clusters", "weights"])
def test_the_sum_over_other_classes_is_within_the_tolerance(rng, kind):
    """Classes out of reach share one budget with those nearby."""
    for scale, d, n in ((0.3, 2, 2000), (1.0, 3, 700), (3.0, 2, 1100), (10.0, 5, 700)):
        Z, y, mass = data(rng, kind, n, d, scale)
        Z += 3.0 * rng.standard_normal((4, d))[y]
        exact = exact_others(Z, y, mass)
        S, order = kernel_points(Z, y, mass, np.zeros(d), coordinate_scale(Gaussian()))
        for tolerance in (1e-1, 1e-2):
            bounded = Bounded(tolerance, each_class=False)
            engine = Trees(S, S, np.arange(n), Gaussian(), bounded, d)
            log_sums, minima = engine.sums()
            found = (log_sums[0] - minima[0]) * np.log(2.0)
            error = np.abs(np.expm1(found - exact[order])).max()
            assert error <= tolerance, (scale, tolerance, error)


def test_float32_is_within_the_tolerance(rng):
    for scale in (1.0, 10.0):
        Z, y, mass = data(rng, "plain", 700, 3, scale)
        Z = Z.astype(np.float32)
        exact = exact_density(Z, y, mass, 1, Gaussian())
        found, _ = tree_density(Z, y, mass, 1, Gaussian(), 1e-2)
        assert np.abs(np.expm1(found - exact)).max() <= 1e-2


def thesis_density(Z, i, rows, tolerance, forest, root):
    """The sum of [Oneata2011] eq. (4.11): each node may spend the whole tolerance."""

    def visit(node, so_far):
        first, last, right = forest.nodes[node]
        low, high, mean = forest.boxes[node]
        nearest = np.sum(np.maximum(0, np.maximum(low - Z[i], Z[i] - high)) ** 2)
        farthest = np.sum(np.maximum(Z[i] - low, high - Z[i]) ** 2)
        least, most, n = np.exp(-farthest), np.exp(-nearest), last - first
        if n * (most - least) / 2 <= tolerance * (so_far + n * least):
            return so_far + n * (least + most) / 2  # eq. (4.9)
        if right < 0:
            points = Z[rows[forest.index[first:last]]]
            return so_far + np.exp(-np.sum((Z[i] - points) ** 2, axis=1)).sum()
        gaps = [
            np.sum(np.maximum(0, np.maximum(forest.boxes[v, 0] - Z[i], Z[i] - forest.boxes[v, 1])))
            for v in (node + 1, right)
        ]
        for child in np.array([node + 1, right])[np.argsort(gaps)]:
            so_far = visit(child, so_far)
        return so_far

    return visit(root, 0.0)


def test_the_cut_off_of_the_thesis_fails_the_same_check(rng):
    n, tolerance = 6000, 0.01
    Z = 1.5 * rng.standard_normal((n, 5))
    forest = build(np.ascontiguousarray(Z.T), np.ones(n), np.array([0, n]))
    worst = 0.0
    for i in range(5):
        exact = np.exp(-np.sum((Z - Z[i]) ** 2, axis=1)).sum()
        found = thesis_density(Z, i, np.arange(n), tolerance, forest, 0)
        worst = max(worst, abs(found / exact - 1.0))
    assert worst > tolerance


@pytest.mark.parametrize("objective", ["accuracy", "log"])
@pytest.mark.parametrize("priors", [None, "uniform"])
def test_no_tolerance_is_exact(rng, objective, priors):
    Z, y, mass = data(rng, "duplicates", 300, 3, 1.0)
    labels = Labels(y, mass * rng.uniform(0.1, 1.0, 300), priors)
    for rows in ({}, {"queries": np.arange(40)}, {"references": np.arange(2, 300, 2)}):
        value, dZ = nca(Z, labels, objective, **rows, warn=False)
        report = {}
        tree, dZ_tree = nca(
            Z, labels, objective, **rows, warn=False, pairs=Bounded(0.0, always=True), report=report
        )
        assert tree == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(dZ_tree, dZ, rtol=0, atol=1e-10 * np.abs(dZ).max())
        assert report["share_of_pairs"] > 0.5


def test_far_points_in_float32_equal_tiles(rng):
    """Distances beyond the range of float32 exponentials, lonely classes, a class of one."""
    Z, y, _ = data(rng, "plain", 200, 3, 300.0)
    Z, y = Z.astype(np.float32), np.where(np.arange(200) == 5, 9, y)
    value, dZ = nca(Z, y, "accuracy")
    tree, dZ_tree = nca(Z, y, "accuracy", pairs=Bounded(0.0, always=True))
    assert tree == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(dZ_tree, dZ, rtol=0, atol=1e-4 * np.abs(dZ).max())
    with pytest.warns(UserWarning, match="no other member"):
        nca(Z, y, "log", pairs=Bounded(0.01, always=True))


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_error_of_value_and_gradient(rng, scale):
    """The value's follows from the densities'; the gradient's has no bound, but is as small."""
    Z, y, _ = data(rng, "plain", 1500, 3, scale)
    value, dZ = nca(Z, y)
    tolerance = 0.01
    tree, dZ_tree = nca(Z, y, pairs=Bounded(tolerance, always=True))
    assert abs(tree - value) <= 2 * tolerance / (1 - tolerance)
    error = np.linalg.norm(dZ_tree - dZ) / np.linalg.norm(dZ)
    assert error < 5 * tolerance, f"relative error of dZ: {error:.2g}"


def test_gradient_is_that_of_the_sums_as_computed(rng):
    """Decisions change with the points, but a small step changes few: the slopes agree."""
    Z, y, _ = data(rng, "plain", 400, 2, 0.5)
    report, direction = {}, rng.standard_normal(Z.shape)
    _, dZ = nca(Z, y, pairs=Bounded(0.3, always=True), report=report)
    assert report["share_of_pairs"] < 0.9
    step = 1e-8
    slope = np.subtract(
        *(
            nca(Z + s * direction, y, pairs=Bounded(0.3, always=True), gradient=False)[0]
            for s in (step, -step)
        )
    )
    assert slope / (2 * step) == pytest.approx(np.vdot(dZ, direction), rel=1e-4)


def test_share_falls_with_the_scale(rng):
    shares = []
    for scale in (1.0, 3.0, 10.0):
        report = {}
        Z, y, _ = data(rng, "plain", 3000, 2, scale)
        nca(Z, y, pairs=Bounded(0.01, always=True), gradient=False, report=report)
        shares.append(report["share_of_pairs"])
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.3


@pytest.mark.nojit
def test_tiny(rng):
    Z = rng.standard_normal((LEAF + 8, 2))
    y, queries = (np.arange(len(Z)) >= LEAF + 3).astype(int), np.array([0, 5, LEAF + 5])
    value, dZ = nca(Z, y, queries=queries)
    for tolerance, rtol in ((0.0, 1e-10), (0.1, 0.3)):
        tree, dZ_tree = nca(Z, y, queries=queries, pairs=Bounded(tolerance, always=True))
        assert tree == pytest.approx(value, rel=rtol)
        assert np.linalg.norm(dZ_tree - dZ) <= rtol * np.linalg.norm(dZ)


@pytest.mark.nojit
def test_build(rng):
    n, d = 5 * LEAF + 3, 3
    Z, mass = rng.standard_normal((d, n)), rng.uniform(0.1, 1.0, n)
    forest = build(Z, mass, np.array([0, 40, n]))
    assert sorted(forest.index[forest.index >= 0]) == list(range(n))
    assert forest.mass.sum() == pytest.approx(mass.sum())
    for node, (first, last, right) in enumerate(forest.nodes):
        rows = forest.index[first:last]
        low, high, mean = forest.boxes[node]
        P, v = Z[:, rows], mass[rows]
        np.testing.assert_array_equal(P.min(axis=1), low)
        np.testing.assert_array_equal(P.max(axis=1), high)
        np.testing.assert_allclose(P @ v / v.sum(), mean)
        total, moment = forest.weights[node]
        assert total == pytest.approx(v.sum())
        assert moment == pytest.approx(np.sum(v * (P - mean[:, None]) ** 2))
        if right < 0:
            assert last - first <= LEAF
        else:
            assert tuple(forest.nodes[node + 1, :2]) == (first, forest.nodes[right, 0])
            assert forest.nodes[right, 1] == last


def test_all_pairs_where_trees_would_not_pay(rng):
    """Small data, or all of it near: the tiles, to the last bit.  Far neighbours: the tree."""
    report = {}
    for n, d in ((1300, 5), (500, 2)):
        Z, y, _ = data(rng, "plain", n, d, 1.0)
        value, dZ = nca(Z, y, pairs=Bounded(0.01), report=report)
        exact, dZ_exact = nca(Z, y)
        assert value == exact
        np.testing.assert_array_equal(dZ, dZ_exact)
        assert report == {"share_of_pairs": 1.0, "engine": "tiles"}
    nca(Z, y, pairs=Bounded(0.01, always=True), report=report)
    assert report["engine"] == "tree"
    assert report["share_of_pairs"] < 1.0
    Z, y, _ = data(rng, "plain", 12_000, 2, 5.0)
    nca(Z.astype(np.float32), y, pairs=Bounded(0.1), gradient=False, report=report)
    assert report["engine"] == "tree"


def test_estimators_pass_the_choice_on(rng):
    Z, y, _ = data(rng, "plain", 60, 3, 1.0)
    for always, engine in ((False, "tiles"), (True, "tree")):
        model = NCA(2, neighborhood=Tree(0.05, each_class=False, always=always), alpha=3e-3)
        rows = Data(Z, Labels(y))
        method, plan = model._method(rows), SimpleNamespace(has_lists=False)
        pairs = make_problem(method, Config.of(model), rows, plan, None).pairs
        assert pairs == Bounded(0.05, always, each_class=False)
        report = {}
        nca(Z, y, pairs=pairs, report=report)
        assert report["engine"] == engine


def test_lists_too_long_to_keep_are_made_again(rng, monkeypatch):
    Z, y, _ = data(rng, "plain", 900, 3, 1.0)
    kept = nca(Z, y, pairs=Bounded(0.05, always=True))[1]
    monkeypatch.setattr(_trees, "_LIST_BYTES", 0)
    np.testing.assert_array_equal(nca(Z, y, pairs=Bounded(0.05, always=True))[1], kept)


def test_bad_input(rng):
    Z, y, _ = data(rng, "plain", 20, 2, 1.0)
    with pytest.raises(ValueError, match="must not be Bounded with the kernel Compact"):
        nca(Z, y, "accuracy", kernel=Compact(), pairs=Bounded(0.01, always=True))
    with pytest.raises(ValueError, match=r"'tolerance' of Bounded must be a float in \[0, 1\)"):
        nca(Z, y, pairs=Bounded(1.0))


@pytest.mark.parametrize("kernel", [Gaussian(), Student(), Laplace()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_issue_14_queries_without_company_are_left_out(kernel, dtype):
    Z, y = np.arange(5, dtype=dtype)[:, None], np.array([0, 0, 1, 1, 2])
    everything = Bounded(0, always=True)
    expected = nca(Z, y, kernel=kernel, warn=False)
    value, dZ = nca(Z, y, kernel=kernel, pairs=everything, warn=False)
    assert value == pytest.approx(expected[0], rel=1e-6)
    np.testing.assert_allclose(dZ, expected[1], rtol=1e-5)
    # the only reference is the query itself, which is then wrong
    alone = np.array([1])
    value, dZ = nca(Z, y, "accuracy", alone, alone, kernel=kernel, pairs=everything)
    assert value == 0.0
    assert not dZ.any()
