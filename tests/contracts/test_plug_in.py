"""New methods plug in from outside: each here is written in this file alone.

An objective with a target of numbers, a map whose parameter is the embedded points themselves, and
a small network.  Each learns, and each goes on from a checkpoint, kept without pickle, to the same
bits as a run that was never cut.  And a backend, whose rows and points are not on the host.
"""

from __future__ import annotations

import io
import json
import pickle
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_wine, make_friedman1
from sklearn.exceptions import ConvergenceWarning

import vicinal
from vicinal import KNCA, MLKR, NCA
from vicinal._features import Features, make_rows
from vicinal.core import points as places
from vicinal.core.problem import Problem
from vicinal.core.stages import Stage
from vicinal.core.state import FitState
from vicinal.core.stopping import stop_rules
from vicinal.core.training import train
from vicinal.core.types import Evaluation, Map, Objective, Target, Units
from vicinal.densities import Student
from vicinal.engines import choose
from vicinal.engines.base import RowSums, merge
from vicinal.engines.cpu.backend import class_sums
from vicinal.engines.cpu.two_sided import TwoSidedSums
from vicinal.fit import context
from vicinal.maps import Linear
from vicinal.neighborhoods import Nearest
from vicinal.objectives import MCMLLoss, NCALoss, nca
from vicinal.samplers import StochasticQueries
from vicinal.solvers import LBFGS, Adam
from vicinal.storage.codec import decode, encode


def through_a_file(state: FitState, classes: tuple[type, ...] = ()) -> FitState:
    """The state after it was written as JSON and an npz file, and read again."""
    arrays: dict[str, Any] = {}
    values = encode(state, "state", arrays, classes)
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        read = {name: stored[name] for name in stored.files}
    return decode(json.loads(json.dumps(values, allow_nan=False)), read, classes=classes)


def assert_resumes(stages: Any, theta: Any, n_iter: int, cut: int, **options: Any) -> Any:
    """Cut a run after an iteration, keep its state, go on: the same bits. The whole run."""
    states: list[FitState] = []

    def keep(info: Any, problem: Problem, state: Any) -> bool:
        if info.iteration == cut:
            states.append(through_a_file(state.state()))
        return False

    whole = train(stages(), theta, max_iter=n_iter, on_iteration=keep, **options)
    rest = train(stages(), None, states[0], max_iter=n_iter - cut, completes=True, **options)
    assert cut < whole.history["iteration"][-1]
    np.testing.assert_array_equal(rest.theta, whole.theta)
    assert rest.history["loss"] == whole.history["loss"]
    return whole


# 1. MLKR: a new objective, and a target that has no classes


@dataclass(frozen=True)
class NumberSpike(Target):
    """A number for each row."""

    y: Any

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> NumberSpike:
        return self if rows is None else NumberSpike(self.y[rows])


@dataclass(frozen=True)
class SquaredErrorSpike(Objective):
    """Squared error of the leave-one-out kernel regression: spec section 6."""

    units: ClassVar[Units] = Units()

    def __call__(
        self, Z, target, *, queries=None, references=None, pairs=None, gradient=True
    ) -> Evaluation:
        rows = np.arange(len(Z))
        queries = rows if queries is None else queries
        references = rows if references is None else references
        d2 = cdist(Z[queries], Z[references], "sqeuclidean")
        d2[queries[:, None] == references] = np.inf
        P = np.exp(d2.min(axis=1, keepdims=True) - d2)
        P /= P.sum(axis=1, keepdims=True)
        y = target.y[references]
        error = target.y[queries] - P @ y
        W = 2 * error[:, None] * P * (y - (target.y[queries] - error)[:, None]) / len(queries)
        dZ = np.zeros_like(Z)
        dZ[queries] += 2 * (W.sum(axis=1)[:, None] * Z[queries] - W @ Z[references])
        dZ[references] += 2 * (W.sum(axis=0)[:, None] * Z[references] - W.T @ Z[queries])
        return Evaluation(float(np.mean(error**2)), dZ if gradient else None, {})


@pytest.fixture
def friedman():
    X, y = make_friedman1(150, noise=0.1, random_state=0)
    return Problem(
        Features(X, "standard"),
        NumberSpike((y - y.mean()) / y.std()),
        SquaredErrorSpike(),
        Linear(3),
    )


def test_mlkr_learns_and_resumes(friedman, rng):
    theta = 0.5 * rng.normal(size=30)
    numeric = [(friedman(theta + h)[0] - friedman(theta - h)[0]) / 2e-6 for h in 1e-6 * np.eye(30)]
    np.testing.assert_allclose(friedman(theta)[1], numeric, atol=1e-7)
    whole = assert_resumes(
        lambda: [Stage(friedman, LBFGS(), stop_rules(LBFGS()))], theta, n_iter=40, cut=7
    )
    assert whole.value < 0.35 * whole.history["loss"][0]
    assert whole.value < 0.2  # of a variance of one: five of the ten columns are noise


def test_mlkr_learns_from_a_few_queries_at_a_time(friedman, rng):
    solver = Adam(0.02)

    def stages():
        return [Stage(friedman, solver, stop_rules(solver), StochasticQueries(50))]

    theta = 0.5 * rng.normal(size=30)
    whole = assert_resumes(stages, theta, n_iter=120, cut=50, seed=3)
    assert friedman.value(whole.theta) < 0.5 * friedman.value(theta)


# 2. Free points: the parameter of the map is Z itself


class SpotNumbers(NamedTuple):
    """Rows that are nothing but their numbers."""

    rows: Any

    def take(self, rows: Any) -> SpotNumbers:
        return self if rows is None else SpotNumbers(self.rows[rows])

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Spots(Map):
    """``Z = theta``."""

    n: int
    n_components: int = 2

    def forward(self, theta, X, dtype=np.float64):
        def pull(dZ):
            full = np.zeros((self.n, self.n_components))
            full[X.rows] = dZ
            return full.ravel()

        return theta.reshape(self.n, -1)[X.rows].astype(dtype), pull


@dataclass(frozen=True)
class Distances(Target):
    """How far apart rows should be."""

    D: Any

    def __len__(self) -> int:
        return len(self.D)

    def take(self, rows: Any) -> Distances:
        return self if rows is None else Distances(self.D[np.ix_(rows, rows)])


@dataclass(frozen=True)
class Stress(Objective):
    """Squared differences of squared distances, two lines."""

    units: ClassVar[Units] = Units()

    def __call__(self, Z, target, *, queries=None, references=None, pairs=None, gradient=True):
        W = (cdist(Z, Z, "sqeuclidean") - target.D**2) / len(Z) ** 2
        dZ = 8 * (W.sum(axis=1)[:, None] * Z - W @ Z)
        return Evaluation(float(np.sum(W**2) * len(Z) ** 2), dZ, {})


def test_free_points_learn_and_resume(rng):
    place = rng.normal(size=(30, 2))
    problem = Problem(
        SpotNumbers(np.arange(30)), Distances(cdist(place, place)), Stress(), Spots(30)
    )
    whole = assert_resumes(
        lambda: [Stage(problem, LBFGS(), stop_rules(LBFGS(), tol=1e-9))],
        rng.normal(size=60),
        n_iter=200,
        cut=5,
    )
    Z = whole.theta.reshape(30, 2)
    np.testing.assert_allclose(cdist(Z, Z), cdist(place, place), atol=1e-3)


# 3. A network: a map that bends, in an estimator


@dataclass(frozen=True)
class TinyNetwork(Map):
    """``Z = tanh(X W) V``, two layers."""

    n_features: int
    hidden: int = 8
    n_components: int = 2

    def _layers(self, theta):
        cut = self.n_features * self.hidden
        W = theta[:cut].reshape(self.n_features, self.hidden)
        return W, theta[cut:].reshape(self.hidden, self.n_components)

    def forward(self, theta, X, dtype=np.float64):
        W, V = self._layers(theta)
        H = np.tanh(X.matmul(W, np.float64))

        def pull(dZ):
            dZ = dZ.astype(np.float64)
            dW = X.rmatmul((dZ @ V.T) * (1 - H**2))
            return np.concatenate([dW.ravel(), (H.T @ dZ).ravel()])

        return (H @ V).astype(dtype), pull

    def start(self, X, rng):
        size = self.hidden * (self.n_features + self.n_components)
        return rng.normal(size=size) / np.sqrt(self.n_features)

    def scaled(self, theta, factor):
        W, V = self._layers(theta)
        return np.concatenate([W.ravel(), factor * V.ravel()])


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


def test_a_network_learns_in_an_estimator(wine):
    X, y = wine
    model = NCA(mapping=TinyNetwork(13), random_state=1).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.9
    assert model.n_components_ == 2
    Z = model.transform(X)
    assert Z.shape == (178, 2)
    np.testing.assert_allclose(
        model.get_metric()(X[0], X[1]), np.linalg.norm(Z[0] - Z[1]), rtol=1e-10
    )
    assert not hasattr(model, "components_")
    with pytest.raises(AttributeError, match="linear maps only"):
        model.get_mahalanobis_matrix()


@pytest.mark.parametrize("sampling", ["full", StochasticQueries(40)])
def test_a_network_goes_on_from_a_warm_start(wine, sampling):
    X, y = wine
    settings = {"mapping": TinyNetwork(13), "random_state": 0, "sampling": sampling, "tol": 0.0}
    solver = "lbfgs" if sampling == "full" else Adam(0.01)
    whole = NCA(max_iter=16, solver=solver, **settings)
    halves = NCA(max_iter=8, solver=solver, warm_start=True, **settings)
    for model in (whole, halves, halves):
        with pytest.warns(ConvergenceWarning) if sampling == "full" else nullcontext():
            model.fit(X, y)
    np.testing.assert_array_equal(halves._map.theta, whole._map.theta)


def test_a_network_resumes_from_a_checkpoint(wine, rng):
    X, y = wine
    features = Features(X, "standard")
    mapping = TinyNetwork(13)
    objective = vicinal.objectives.NCALoss()
    problem = Problem(features, vicinal.targets.Labels(y), objective, mapping, alpha=1e-3)
    assert_resumes(
        lambda: [Stage(problem, LBFGS(), stop_rules(LBFGS()))],
        mapping.start(features, np.random.RandomState(0)),
        n_iter=30,
        cut=11,
    )


# 4. A backend: rows and points that are not on the host


class Away:
    """An array elsewhere: nothing reaches its numbers but what is registered below."""

    def __init__(self, numbers):
        self._numbers = numbers
        self.shape, self.dtype, self.ndim = numbers.shape, numbers.dtype, numbers.ndim

    def __len__(self):
        return len(self._numbers)

    def __getitem__(self, rows):
        return Away(self._numbers[rows])

    def __array__(self, *args, **kwargs):
        raise AssertionError("an array elsewhere was used as if it were here")


class AwayRows:
    """Rows of such a table: products with them stay where they are."""

    def __init__(self, rows):
        self._rows = rows

    def __getattr__(self, name):  # shift, scale, limits, shape, blocks, ...
        return getattr(self._rows, name)

    def __len__(self):
        return len(self._rows)

    def take(self, rows):
        return AwayRows(self._rows.take(rows))

    def matmul(self, B, dtype=np.float64):
        return Away(self._rows.matmul(B, dtype))

    def rmatmul(self, V):
        return self._rows.rmatmul(V._numbers if isinstance(V, Away) else V)

    def columns_times(self, a, dtype=np.float64):
        return Away(self._rows.columns_times(a, dtype))

    def column_dots(self, V):
        return self._rows.column_dots(V._numbers)


class AwayEngine:
    """Sums of the host, and a gradient where the points are."""

    def __init__(self, engine):
        self._engine, self.name = engine, "away"

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def pull(self, *args):
        return Away(self._engine.pull(*args))


class AwayBackend:
    """Three families of engines; those of the host stand for its kernels."""

    def __getattr__(self, family):
        if family not in ("class_sums", "votes", "charged_sums"):
            raise AttributeError(f"no {family} here")

        def engine(data, *args):
            here = data._replace(Z=data.Z._numbers)
            return AwayEngine(getattr(choose.backend(here.Z, len(here.Z)), family)(here, *args))

        return engine


choose.backend.register(Away, lambda Z, n: AwayBackend())
make_rows.register(Away, lambda X, *args, **more: AwayRows(Features(X._numbers, *args, **more)))
places.check_points.register(Away, lambda Z, name="Z": Away(places.check_points(Z._numbers, name)))
places.extent.register(Away, lambda Z: places.extent(Z._numbers))
places.double.register(Away, lambda Z: Away(places.double(Z._numbers)))
places.cast.register(Away, lambda Z, values: Away(values._numbers.astype(Z.dtype)))
places.zeros_like.register(Away, lambda Z: Away(np.zeros_like(Z._numbers)))
places.moved.register(Away, lambda Z, centre: places.moved(Z._numbers, centre))
places.to_host.register(Away, lambda Z: Z._numbers)


@pytest.mark.parametrize(
    "model",
    [
        NCA(2, alpha=3e-3),
        NCA(alpha="auto", cv=2, early_stopping=True, random_state=0),
        NCA(2, sampling=StochasticQueries(40), init="pca", rule="knn", alpha=3e-3, random_state=0),
        NCA(2, neighborhood=Nearest(80), scaling="global", alpha=3e-3),
        NCA(mapping="diagonal", alpha=3e-3, warm_start=True),
        KNCA(2, k=3),
        MLKR(2, alpha=3e-3),
    ],
    ids=["nca", "nca searched", "nca queries", "nca lists", "nca diagonal", "knca", "mlkr"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The lists of")
def test_a_backend_learns_in_an_estimator(wine, model):
    """To the same bits as on the host, whose engines do the work; nothing of it is left behind."""
    X, y = wine
    model = clone(model).set_params(max_iter=10)
    here = clone(model).fit(X[::2], y[::2])
    model.fit(Away(X[::2]), y[::2])
    np.testing.assert_array_equal(model.components_, here.components_)
    np.testing.assert_array_equal(model.predict(X), here.predict(X))
    np.testing.assert_array_equal(model.transform(Away(X)), here.transform(X))
    assert model.loss_ == here.loss_
    assert b"Away" not in pickle.dumps(model)


def test_points_without_a_backend_are_refused():
    with pytest.raises(TypeError, match="No backend is registered for points of the type Fraction"):
        choose.backend(Fraction(1), 3)


# 5. Blocks of queries, which add up by their weights


@dataclass(frozen=True)
class InBlocks(Objective):
    """An objective over another one: disjoint blocks of the queries, each by itself."""

    objective: Any
    edges: tuple[int, ...]  # where blocks begin and end, in a shuffled order
    units: ClassVar[Units] = Units()

    def __call__(
        self, Z, target, *, queries=None, references=None, pairs=None, gradient=True
    ) -> Evaluation:
        queries = np.arange(len(Z)) if queries is None else queries
        queries = np.random.default_rng(0).permutation(queries)
        blocks = [
            self.objective(
                Z, target, queries=queries[a:b], references=references, gradient=gradient
            )
            for a, b in pairwise(self.edges)
        ]
        total = sum(block.weight for block in blocks)
        value, dZ = (
            sum(block.weight / total * part for block, part in zip(blocks, parts, strict=True))
            for parts in ([b.value for b in blocks], [b.dZ for b in blocks])
        )
        return Evaluation(value, dZ, {}, total)


def weighted_targets(rng, n):
    """Each objective that adds over queries, with a target of unequal weights if it takes such."""
    y, weight = np.arange(n) % 4, rng.uniform(0.2, 3.0, n)
    y[:3] = [9, 8, 8]  # one that nobody matches
    labels = vicinal.targets.Labels(y, weight)
    numbers = rng.standard_normal((n, 2))
    near = [np.flatnonzero((y == y[i]) & (np.arange(n) != i))[:2] for i in range(n)]
    neighbours = np.array([[*row, -1, -1][:2] for row in near], np.int32)
    objectives = vicinal.objectives
    return {
        "nca": (objectives.NCALoss(), labels),
        "nca accuracy": (objectives.NCALoss("accuracy"), labels),
        "knca": (objectives.KNCALoss(2), vicinal.targets.Labels(y)),
        "mlkr": (objectives.MLKRLoss(), vicinal.targets.Numbers(numbers, weight)),
        "matches": (
            objectives.MatchLoss(),
            vicinal.targets.NearNumbers(numbers, 0.5, False, weight),
        ),
        "mcml": (objectives.MCMLLoss(), labels),
        "lmnn": (objectives.LMNNLoss(), vicinal.targets.TargetNeighbors(y, neighbours)),
        "ksne": (objectives.KSNELoss(3), vicinal.affinities.affinities(numbers, 8, 3)),
    }


@pytest.mark.parametrize("name", weighted_targets(np.random.default_rng(0), 60))
def test_blocks_of_queries_add_up_to_the_whole(name, rng):
    objective, target = weighted_targets(rng, 60)[name]
    Z = 1.5 * rng.standard_normal((60, 3))
    whole = objective(Z, target)
    blocks = InBlocks(objective, (0, 7, 25, 60))(Z, target)
    assert blocks.value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(blocks.dZ, whole.dZ, rtol=0, atol=1e-12 * np.abs(whole.dZ).max())
    assert blocks.weight == pytest.approx(whole.weight, rel=1e-12)
    assert objective(Z, target, queries=[]).weight == 0.0


# 6. Pairs of blocks of rows, as several machines would share them


class BlockPairSums:
    """The pairs within each block, and those of two blocks once for both; see `base.ClassSums`."""

    name, share = "block pairs", 1.0

    def __init__(self, data, kernel, n_blocks):
        rows = data.reference_rows
        assert np.array_equal(np.sort(data.query_rows), np.sort(rows))
        blocks = np.array_split(rows, n_blocks)
        own = [data._replace(query_rows=block, reference_rows=block) for block in blocks]
        self.own = [class_sums(part, kernel) for part in own]
        self.between = {
            (p, q): TwoSidedSums(own[p]._replace(reference_rows=blocks[q]), kernel)
            for p, q in combinations(range(n_blocks), 2)
        }

    def sums(self):
        parts = [[engine.sums()] for engine in self.own]
        for (p, q), engine in self.between.items():
            for place, found in zip((p, q), engine.sums(), strict=True):
                parts[place].append(found)
        self.parts = [reduce(merge, found) for found in parts]
        log2, shift = (
            np.concatenate([getattr(part, name) for part in self.parts], axis=1)
            for name in ("log2", "shift")
        )
        return RowSums(log2, shift, np.concatenate([part.rows for part in self.parts]))

    def pull(self, sums, slopes):
        each = np.split(slopes, np.cumsum([len(part.rows) for part in self.parts])[:-1], axis=1)
        dZ = sum(
            engine.pull(part, slope)
            for engine, part, slope in zip(self.own, self.parts, each, strict=True)
        )
        for (p, q), engine in self.between.items():
            dZ += engine.pull((self.parts[p], self.parts[q]), (each[p], each[q]))
        return dZ


class BlockPairs(NamedTuple):
    """A neighbourhood, and the source of its pairs."""

    n_blocks: int = 3
    refresh: ClassVar[None] = None
    makes_lists: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    exact: ClassVar[bool] = True

    def pairs(self, Z, codes, references=None, random_state=None):
        return self

    def engine(self, data, kernel):
        if set(data.query_rows) != set(data.reference_rows):  # scores of other rows
            return choose.class_sums(data, kernel)
        return BlockPairSums(data, kernel, self.n_blocks)


@pytest.mark.parametrize("objective", [NCALoss(), NCALoss("accuracy", Student()), MCMLLoss()])
def test_pairs_of_blocks_make_the_whole(objective, rng):
    Z, labels = 1.5 * rng.standard_normal((700, 3)), vicinal.targets.Labels(np.arange(700) % 5)
    whole, blocks = objective(Z, labels), objective(Z, labels, pairs=BlockPairs(4))
    assert blocks.facts["engine"] == "block pairs"
    assert blocks.value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(blocks.dZ, whole.dZ, rtol=0, atol=1e-12 * np.abs(whole.dZ).max())


def test_pairs_that_are_exact_have_an_exact_objective(wine, monkeypatch):
    """The loss of the whole is stated, and not an estimate from some of the rows in float32."""
    monkeypatch.setattr(context, "_EVALUATION_ROWS", 20)
    X, y = wine
    settings = {"alpha": 0.0, "max_iter": 5, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        model = NCA(2, neighborhood=BlockPairs(), **settings).fit(X, y)
    assert model.plan_.exact
    with pytest.warns(ConvergenceWarning):
        lists = NCA(2, neighborhood=Nearest(100), **settings).fit(X, y)
    assert not lists.plan_.exact
    Z = model._map.embed(X)
    assert model.loss_ == pytest.approx(nca(Z, y)[0], rel=1e-12)


# The rules of this file


def test_parts_of_this_file_keep_the_protocols():
    assert isinstance(SquaredErrorSpike(), Objective)
    assert isinstance(Stress(), Objective)
    assert isinstance(InBlocks(Stress(), (0, 1)), Objective)
    assert isinstance(NumberSpike(np.ones(3)), Target)
    assert isinstance(Distances(np.ones((3, 3))), Target)
    assert isinstance(Spots(3), Map)
    assert isinstance(TinyNetwork(3), Map)


def test_the_library_knows_none_of_them():
    here = {SquaredErrorSpike, NumberSpike, Stress, Spots, Distances, SpotNumbers, TinyNetwork,
            Away, AwayRows, AwayEngine, AwayBackend, InBlocks,
            BlockPairSums, BlockPairs}  # fmt: skip
    source = "".join(path.read_text() for path in Path(vicinal.__file__).parent.rglob("*.py"))
    for part in here:
        assert f"class {part.__name__}" not in source


def test_a_state_holds_no_class_that_is_not_allowed(friedman, rng):
    result = train([Stage(friedman, LBFGS(), stop_rules(LBFGS()))], rng.normal(size=30), max_iter=2)
    arrays: dict[str, Any] = {}
    coded = encode(result.state, "state", arrays)
    assert set(coded["fields"]) == set(FitState._fields)
    coded["fields"]["part"] = {"class": "os:system", "fields": {}}
    with pytest.raises(ValueError, match="not a class that a model file may hold"):
        decode(coded, arrays)
