"""The repulsion of kt-SNE by potentials on a grid, against the exact sums."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from vicinal.engines.cpu import grid, grid_points, grid_transforms
from vicinal.engines.cpu.grid import GridSets
from vicinal.engines.cpu.grid_points import most_nodes
from vicinal.engines.cpu.potential import CompiledPotential, GridPotential
from vicinal.engines.cpu.sets import TileSets
from vicinal.engines.dense.sets import DenseSets

#: the stated relative error of the gradient, and error of log e_k; k = 1 has a coarser grid
GRADIENT, LOG_SUM = {1: 1e-2, 2: 1.5e-3, 5: 1.5e-3, 10: 1.5e-3}, 1e-3


@pytest.fixture(autouse=True)
def on_a_grid(monkeypatch):
    """Few points in a wide picture are left to the exact engine as a whole: not here."""
    monkeypatch.setattr(grid, "pays", lambda box, n, k: True)


def exact(Z, k, factors):
    every = np.arange(len(Z))
    engine = DenseSets(Z, k, "cauchy", 0.0, every, every)
    return engine.sums(), engine.pull(factors)


def by_grid(Z, k, factors):
    engine = GridSets(Z, k)
    return engine.sums(), engine.pull(factors), engine.facts


def assert_near_exact(Z, k, rng, gradient=None, log_sum=LOG_SUM):
    """Sums and gradient within the stated errors; the facts of the evaluation."""
    factors = rng.uniform(0.5, 1.5, len(Z)) / len(Z)
    log_total, dZ = exact(Z, k, factors)
    near_log_total, near_dZ, facts = by_grid(Z, k, factors)
    np.testing.assert_allclose(near_log_total, log_total, rtol=0, atol=log_sum * k)
    assert np.linalg.norm(near_dZ - dZ) <= (gradient or GRADIENT[k]) * np.linalg.norm(dZ)
    return facts


def picture(name, rng, n=400):
    Z = rng.standard_normal((n, 2))
    if name == "clusters":
        return 0.3 * Z + rng.uniform(-15, 15, (8, 2))[rng.integers(8, size=n)]
    if name == "line":
        return 8.0 * Z[:, :1]
    if name == "flat":  # two dimensions of very different extents
        return Z * [10.0, 1e-3]
    return float(name) * Z


@pytest.mark.parametrize("k", [1, 2, 5, 10])
@pytest.mark.parametrize(
    "name", ["1e-8", "1e-4", "0.3", "1", "4", "20", "clusters", "line", "flat"]
)
def test_matches_exact_sums(name, k, rng):
    assert_near_exact(picture(name, rng), k, rng)


@pytest.mark.nojit
@pytest.mark.parametrize("name", ["1e-4", "2", "line"])
def test_few_points(name, rng):
    """For the loops as plain Python.  A lonely row may be wrong by `DOUBT`."""
    assert_near_exact(picture(name, rng, 8), 2, rng, gradient=grid.DOUBT)


@pytest.mark.parametrize("name", ["1e-8", "1e-4", "0.3"])
def test_small_pictures_are_nearly_exact(name, rng):
    """At the start of a fit all weights are near 1: the differences from 1 count."""
    assert_near_exact(picture(name, rng), 5, rng, gradient=1e-6, log_sum=1e-8)


def test_line_of_tiny_extent(rng):
    assert_near_exact(1e-4 * picture("line", rng), 2, rng, gradient=1e-6, log_sum=1e-8)


def test_points_at_one_place():
    """The gradient vanishes, and all weights are 1."""
    Z = np.full((50, 2), 3.0)
    log_total, dZ, _ = by_grid(Z, 2, np.full(50, 0.02))
    np.testing.assert_allclose(log_total, np.log(49 * 48 / 2), rtol=1e-12)
    np.testing.assert_allclose(dZ, 0.0, atol=1e-18)


def test_isolated_pair_goes_to_the_exact_engine(rng):
    """The weight of the other of the pair dominates: Newton's identities cancel."""
    Z = picture("4", rng)
    Z[:2] = [[60.0, 60.0], [60.2, 60.0]]
    facts = assert_near_exact(Z, 5, rng)
    assert 2 <= facts["chain_rows"] <= 40


def test_points_far_out_take_no_memory(rng):
    Z = picture("4", rng)
    Z[7], Z[8] = [1e6, -3.0], [-40.0, 2e5]
    facts = assert_near_exact(Z, 2, rng)
    assert facts["far_rows"] >= 2
    assert facts["chain_rows"] >= 2
    assert facts["grid_nodes"] <= most_nodes(len(Z))


def test_rows_in_doubt_are_counted(rng):
    """A wide picture of few points: with ten neighbours no row can be interpolated."""
    facts = assert_near_exact(60.0 * rng.standard_normal((300, 2)), 10, rng)
    assert facts["chain_rows"] == 300


def test_grid_is_made_finer_for_rows_in_doubt(monkeypatch, rng):
    """Where that costs less than those rows: here, at any cost."""
    Z = picture("5", rng)
    before = assert_near_exact(Z, 10, rng)
    monkeypatch.setattr(grid_points, "box_cost", lambda *given: 0.0)
    after = assert_near_exact(Z, 10, rng)
    assert after["grid_nodes"] > 1.8 * before["grid_nodes"]
    assert after["chain_rows"] < 0.5 * before["chain_rows"]


def test_wide_picture_of_few_points_is_left_to_the_exact_engine(monkeypatch, rng):
    """Its grid costs more than all pairs."""
    monkeypatch.undo()
    Z, factors = 60.0 * rng.standard_normal((300, 2)), np.full(300, 1 / 300)
    log_total, dZ, facts = by_grid(Z, 2, factors)
    assert facts["grid_nodes"] == 0
    assert facts["chain_rows"] == 300
    assert facts["share_of_pairs"] == 1.0
    expected = exact(Z, 2, factors)
    np.testing.assert_allclose(log_total, expected[0], rtol=1e-12)
    np.testing.assert_allclose(dZ, expected[1], atol=1e-12)


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("n_far", [0, 2])
def test_thread_count_agnosticism(k, n_far, rng):
    Z, factors = picture("clusters", rng, 3000), rng.uniform(0.5, 1.5, 3000) / 3000
    Z[:n_far] = [-400.0, 300.0]
    results = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            results.append(by_grid(Z, k, factors))
    for log_total, dZ, _ in results[1:]:
        np.testing.assert_array_equal(log_total, results[0][0])
        np.testing.assert_array_equal(dZ, results[0][1])
    assert results[0][2]["far_rows"] == n_far
    every = np.arange(3000)
    engine = TileSets(Z, k, "cauchy", 0.0, every, every)
    np.testing.assert_allclose(results[0][0], engine.sums(), rtol=0, atol=LOG_SUM * k)
    dZ = engine.pull(factors)
    assert np.linalg.norm(results[0][1] - dZ) <= GRADIENT[k] * np.linalg.norm(dZ)
    # the other rows repel these a little, which is added up over the pieces
    np.testing.assert_allclose(results[0][1][:n_far], dZ[:n_far], rtol=1e-6)


def test_translation_and_order_of_rows(rng):
    """The grid moves with the points, but they lie elsewhere in its cells."""
    Z, factors = picture("clusters", rng), np.full(400, 1 / 400)
    log_total, dZ, _ = by_grid(Z, 5, factors)
    order = rng.permutation(len(Z))
    moved_log_total, moved, _ = by_grid((Z + np.array([3.07, -100.01]))[order], 5, factors)
    np.testing.assert_allclose(moved_log_total, log_total[order], atol=1e-10)
    np.testing.assert_allclose(moved, dZ[order], atol=1e-8)  # charges are added in float32
    stretched = np.vstack([Z, [[-17.1, -17.2]]])  # another corner of the grid
    other_log_total, other, _ = by_grid(stretched, 5, np.append(factors, 0.0))
    exact_log_total, exact_dZ = exact(stretched, 5, np.append(factors, 0.0))
    np.testing.assert_allclose(other_log_total, exact_log_total, atol=5 * LOG_SUM)
    assert np.linalg.norm(other - exact_dZ) <= GRADIENT[5] * np.linalg.norm(exact_dZ)


@pytest.fixture
def in_float64(monkeypatch):
    """Transforms in float64, so that a small step of a difference is not lost in rounding."""
    monkeypatch.setattr(grid, "precision", lambda axes: "float64")


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("k", [1, 5])
def test_gradient_is_that_of_the_value(k, rng):
    """As long as the grid stays the same, the gradient is that of the interpolated value."""
    Z = picture("4", rng)
    factors = rng.uniform(0.5, 1.5, len(Z))
    direction = rng.standard_normal(Z.shape)
    for axis in range(2):  # the corners of the grid stay
        direction[[Z[:, axis].argmin(), Z[:, axis].argmax()]] = 0.0
    _, dZ, _ = by_grid(Z, k, factors)
    step = 1e-6
    ahead, behind = (factors @ by_grid(Z + s * direction, k, factors)[0] for s in (step, -step))
    slope = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(np.sum(dZ * direction), slope, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 5])
def test_memory_is_that_of_the_picture(k, rng):
    """So many bytes for each unit of area and k + 1: the nodes, their fields and spectra."""
    import tracemalloc

    Z = 60.0 * rng.uniform(-1, 1, (2000, 2))
    by_grid(Z, k, np.full(2000, 1e-3))  # compiled, and the kernels kept
    grid_transforms._rooms.flat.clear()
    tracemalloc.start()
    by_grid(Z, k, np.full(2000, 1e-3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    bytes_a_unit = {1: 110, 5: 195}[k]  # the grid of k = 1 has half as many nodes
    expected = bytes_a_unit * (k + 1) * np.prod(np.ptp(Z, axis=0))
    assert 0.6 * expected <= peak <= 1.2 * expected


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("name", ["4", "0.01", "line"])
def test_potential_at_new_places(name, k, rng):
    """As the exact potential, within the grid, beyond it and at a point; each place by itself."""
    Z = picture(name, rng)
    near, true = GridPotential(Z, k), CompiledPotential(Z, k, "cauchy", 0.0)
    places = np.vstack([0.5 * picture(name, rng, 30), Z[:2], 1e4 + Z[:1]])
    values, gradients = near(places)
    exact_values, exact_gradients = true(places)
    np.testing.assert_allclose(values, exact_values, atol=1e-4)
    error = np.linalg.norm(gradients - exact_gradients)
    assert error <= 1e-4 * np.linalg.norm(exact_gradients)
    np.testing.assert_array_equal(values[-1], exact_values[-1])
    alone = [near(place[None]) for place in places]
    np.testing.assert_array_equal(np.concatenate([value for value, _ in alone]), values)
    np.testing.assert_array_equal(np.concatenate([slope for _, slope in alone]), gradients)


def test_potential_of_a_picture_too_wide_for_a_grid(rng):
    Z = picture("4", rng)
    Z[3] = 1e6
    places = Z[:5] + 0.1
    potential = GridPotential(Z, 2)
    assert potential.field is None
    for found, expected in zip(
        potential(places), CompiledPotential(Z, 2, "cauchy", 0.0)(places), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
