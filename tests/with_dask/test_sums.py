"""Values, gradients and maps of rows on a cluster, compared with one machine."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from with_dask.tables import lazy, ragged, rows

import vicinal
import vicinal.dask
from vicinal._features import Features, make_rows
from vicinal.core.problem import Problem
from vicinal.dask import _table
from vicinal.dask._cluster import Cluster
from vicinal.dask._table import BlockTable
from vicinal.densities import Compact, Student
from vicinal.fit import plan
from vicinal.maps import MLP, Diagonal, Linear
from vicinal.objectives import KNCALoss, MLKRLoss, NCALoss
from vicinal.samplers import MiniBatches, StochasticQueries
from vicinal.starts import spectral
from vicinal.targets import Labels, Numbers

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def in_float64(monkeypatch):
    """Fits without a stage in float32."""
    monkeypatch.setattr(plan, "SINGLE_FROM", 10**9)


def problems(client, X, target, objective, mapping, lengths=None, **more):
    """The same problem on one machine and on the cluster."""
    weight = target.sample_weight
    cluster = Cluster(client, "NCA")
    here = Problem(Features(X, "standard", weight), target, objective, mapping, 1e-3, **more)
    table = BlockTable.of(lazy(X, lengths), cluster)
    return here, here.replace(X=make_rows(table, "standard", weight))


def assert_equal(here, there, theta, tolerance=1e-12, **call):
    (value, gradient), (found, pulled) = here(theta, **call), there(theta, **call)
    assert found == pytest.approx(value, rel=tolerance)
    np.testing.assert_allclose(pulled, gradient, rtol=0, atol=tolerance * np.abs(gradient).max())


@pytest.mark.parametrize("weighted", [False, True])
def test_20000_rows_in_8_ragged_blocks(client, weighted):
    X, y = rows(20_000, 50, 10)
    rng = np.random.default_rng(1)
    labels = Labels(y, rng.uniform(0.2, 3.0, len(y)) if weighted else None)
    here, there = problems(client, X, labels, NCALoss(), Linear(5))
    assert len(there.X.table.blocks.futures) == 8
    assert_equal(here, there, 0.1 * rng.normal(size=250))


OBJECTIVES = {
    "nca": NCALoss(),
    "student": NCALoss("accuracy", Student()),
    "compact": NCALoss("accuracy", Compact(background=False)),
    "mlkr": MLKRLoss(),
    "knca": KNCALoss(3),
}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("train", [None, np.arange(0, 2000, 2)], ids=["all", "half"])
def test_objectives_on_blocks(client, objective, train):
    X, y = rows(2000)
    target = Numbers(X[:, :2] ** 2) if isinstance(objective, MLKRLoss) else Labels(y)
    theta = 0.3 * np.random.default_rng(2).normal(size=36)
    here, there = problems(client, X, target, objective, Linear(3), train=train)
    assert_equal(here, there, theta)
    queries = np.array([1999, 3, 700, 5, 1500, 90])
    value = here.value(theta, queries)
    assert there.value(theta, queries) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("objective", [NCALoss(), MLKRLoss()], ids=["nca", "mlkr"])
def test_few_queries_against_blocks(client, objective):
    """Stochastic learning: the gradient reaches the references and the queries."""
    from vicinal.core.types import Batch

    X, y = rows(2000)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    labels, numbers = Labels(y, weight), Numbers(X[:, :2] ** 2, weight)
    target = labels if isinstance(objective, NCALoss) else numbers
    theta = 0.3 * np.random.default_rng(2).normal(size=36)
    here, there = problems(client, X, target, objective, Linear(3))
    assert_equal(here, there, theta, batch=Batch(queries=np.array([1999, 3, 700, 5, 1500, 90])))


@pytest.mark.parametrize(
    "mapping", [Diagonal(), MLP((8,), n_components=3)], ids=["diagonal", "mlp"]
)
def test_other_maps_on_blocks(client, mapping):
    X, y = rows(1500)
    here, there = problems(client, X, Labels(y), NCALoss(), mapping)
    if isinstance(mapping, Diagonal):
        theta = np.linspace(0.2, 1, 12)
    else:
        _, theta_of = mapping.start_from(here.X, np.random.RandomState(0))
        theta = theta_of(0.3 * np.random.default_rng(2).normal(size=(3, 12)))
    assert_equal(here, there, theta)


def test_sparse_blocks_and_outliers(client):
    """Scaling, with gross outliers in a column, is that of one machine; CSR blocks stay CSR."""
    import dask.array as da

    X, y = rows(2000)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0.0
    X[::400, 3] = 1e6
    lengths, ends = ragged(2000), np.cumsum([0, *ragged(2000)])
    dense = Features(X, "standard")
    for blocks in (lazy(X), lazy(X).map_blocks(sp.csr_matrix)):
        table = BlockTable.of(blocks, Cluster(client, "NCA"))
        found = make_rows(table, "standard")
        np.testing.assert_allclose(found.shift, dense.shift, rtol=1e-12)
        np.testing.assert_allclose(found.scale, dense.scale, rtol=1e-12)
        assert found.limits.high[3] == pytest.approx(dense.limits.high[3], rel=1e-12)
        assert np.isinf(np.delete(found.limits.high, 3)).all()
        B = np.eye(12)[:, :4]
        Z = np.concatenate(client.gather(found.matmul(B).blocks.futures))
        np.testing.assert_allclose(Z, dense.matmul(B), atol=1e-12)
        some = np.array([1900, 5, 5, 800])
        np.testing.assert_allclose(found.take(some).matmul(B), Z[some], atol=1e-12)
    assert ends[-1] == 2000
    assert len(lengths) == 8
    assert isinstance(blocks, da.Array)


def test_scatter_of_blocks(client):
    X, y = rows(2000)
    y[y == 4], y[7], X[:, 5] = 3, 4, y * 3.0  # a class of one row, a column constant within classes
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    for w in (None, weight):
        here = spectral.scatter(Features(X, "standard"), y, 6, w)
        table = BlockTable.of(lazy(X), Cluster(client, "NCA"))
        there = spectral.scatter(make_rows(table, "standard"), y, 6, w)
        for a, b in zip(here, there, strict=True):
            np.testing.assert_allclose(b, a, atol=1e-12)


def test_the_next_batches_are_fetched_ahead(client, monkeypatch):
    """Many at a time; those that nobody asks for, because a run has ended, make room for others."""
    X, _ = rows(2000)
    there = make_rows(BlockTable.of(lazy(X), Cluster(client, "NCA")), "standard")
    here = make_rows(X, "standard")
    batches = [np.arange(start, 2000, 17) for start in range(17)]
    monkeypatch.setattr(_table, "_PAGE_BYTES", 3 * 8 * X.shape[1] * len(batches[0]))
    asked = []
    monkeypatch.setattr(
        BlockTable, "gather", lambda table, rows, gather=BlockTable.gather:
        [asked.append(len(rows)), gather(table, rows)][1],
    )  # fmt: skip
    for run in (batches[:9], batches[9:]):
        there.expect(run)
        for batch in run[:6]:
            assert batch.tobytes() in there._fetched
            assert len(there._fetched) <= 7
            wanted = here.take(batch).matmul(np.eye(12))
            np.testing.assert_allclose(there.take(batch).matmul(np.eye(12)), wanted, atol=1e-12)
    assert [n // 117 for n in asked] == [1, 3, 3, 2, 1, 3, 3, 1]
    there.expect([])
    assert not there._fetched


FOUR = (300, 700, 100, 900)


def fitted(X, y, client, kind="NCA", weight=None, **settings):
    """The same fit on one machine and on the cluster."""
    settings = {"alpha": 1e-3, "random_state": 0, "max_iter": 10, **settings}
    more = {} if weight is None else {"sample_weight": weight}
    here = getattr(vicinal, kind)(3, **settings).fit(X, y, **more)
    more = {} if weight is None else {"sample_weight": lazy(weight)}
    there = getattr(vicinal.dask, kind)(3, client=client, **settings)
    there.fit(lazy(X, FOUR), lazy(y), **more)
    return here, there


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("NCA", {"sampling": "full"}),
        ("NCA", {"sampling": MiniBatches(500, clusters="random")}),
        ("NCA", {"sampling": StochasticQueries(40)}),
        (
            "NCA",
            {
                "sampling": "full",
                "early_stopping": True,
                "scaling": "global",
                "init": "lda",
                "max_iter": 5,
            },
        ),
        ("NCA", {"alpha": "auto", "cv": 2, "max_iter": 2}),
        ("KNCA", {"sampling": MiniBatches(300, clusters="random"), "k": 2}),
        ("MLKR", {"sampling": "full"}),
        ("MLKR", {"sampling": MiniBatches(500, clusters="random")}),
        ("NCARegressor", {"sampling": MiniBatches(500, clusters="random")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value)),
)
def test_fits_are_those_of_one_machine(client, in_float64, kind, settings):
    X, y = rows(2000)
    if kind in ("MLKR", "NCARegressor"):
        y = X[:, 0] * X[:, 1] + X[:, 2]
    here, there = fitted(X, y, client, kind, **settings)
    top = np.abs(here.components_).max()
    np.testing.assert_allclose(there.components_, here.components_, atol=1e-10 * top)
    assert there.loss_ == pytest.approx(here.loss_, rel=1e-9)
    assert there.n_iter_ == here.n_iter_
    assert there.score(lazy(X), lazy(y)) == pytest.approx(here.score(X, y), rel=1e-12)


def test_rows_of_weight_zero_stay_out(client, in_float64):
    X, y = rows(2000)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    weight[::3] = 0.0
    here, there = fitted(X, y, client, weight=weight, sampling="full")
    np.testing.assert_allclose(there.components_, here.components_, atol=1e-9)
    near, at = there.kneighbors(lazy(X), 3)
    found, places = here.kneighbors(X, 3)
    np.testing.assert_allclose(near.compute(), found, atol=1e-6)
    np.testing.assert_array_equal(at.compute(), places)


def test_a_network_learns_from_batches(client):
    X, y = rows(1500)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model = vicinal.dask.NCA(2, mapping=MLP((8,)), max_iter=40, random_state=0, client=client)
        model.fit(lazy(X), y)
    assert model.score(lazy(X), y) > 0.9
    assert model.feature_importances_.shape == (12,)


def test_points_of_linear_maps_are_within_what_is_known(client):
    """Else the largest coordinate is computed, which takes a round trip."""
    X, _ = rows(800)
    there = make_rows(BlockTable.of(lazy(X), Cluster(client, "NCA")), "standard")
    theta = np.random.default_rng(0).normal(size=24)
    Z, _ = there.forward(Linear(2), theta, np.float64)
    exact = np.abs(client.gather(Z.blocks.futures[0])).max()
    assert exact <= Z.extent
    assert Z._extent is not None
    far, _ = there.forward(Linear(2), 1e120 * theta, np.float64)
    assert far._extent is None
    assert 1e118 < far.extent < np.inf
    lost, _ = there.forward(Linear(2), np.nan * theta, np.float64)
    assert np.isnan(lost.extent)
