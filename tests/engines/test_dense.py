"""The engine of small data: equal to the compiled loops and to the plain formulas."""

from __future__ import annotations

import subprocess
import sys

import formulas
import numpy as np
import pytest
from common.affinities import some_affinities
from common.checks import assert_close
from numba import config
from threadpoolctl import threadpool_limits

from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.base import Data, merge
from vicinal.engines.dense.class_sums import DenseSums
from vicinal.maps import project_columns
from vicinal.metrics import Chi2Index, chi2_distances
from vicinal.neighborhoods import target_neighbors
from vicinal.objectives import (
    KNCALoss,
    KSNELoss,
    LMNNLoss,
    NCALoss,
    em_background,
    knca_posterior,
    nca_effective_n_neighbors,
    nca_posterior,
)
from vicinal.targets import Labels, TargetNeighbors

KERNELS = {
    "gaussian": Gaussian(),
    "student": Student(),
    "laplace": Laplace(),
    "compact": Compact(background=False),
}
SCALES = [1.0, 10.0, 100.0]


def cloud(rng, scale, n=90, d=3, n_classes=5):
    """Points with twins, a far outlier and a class of one row; every other class has several."""
    Z = rng.standard_normal((n, d))
    y = rng.integers(0, n_classes - 1, n)
    y[0] = n_classes - 1
    Z[10:14] = Z[20:24]
    Z[30] = 40.0
    return scale * Z, y


def rounding(Z):
    """What the rounding of squared distances alone does to the weights of the farthest points."""
    return 1e-12 + 4 * np.finfo(np.float64).eps * np.max(np.sum(Z**2, axis=1))


def both(monkeypatch, evaluate):
    """What the dense and the compiled engine say."""
    with monkeypatch.context() as patch:
        patch.setattr(choose, "DENSE_UP_TO", 2000)
        dense = evaluate()
    return dense, evaluate()


def compare(monkeypatch, loss, Z, target, rtol=1e-12, **rows):
    (value, dZ, facts, _), other = both(monkeypatch, lambda: loss(Z, target, **rows))
    assert facts["engine"] == "dense"
    assert other.facts["engine"] != "dense"
    assert_close((value, dZ), other[:2], rtol)
    return value, dZ


def some_rows(rng, n):
    return {"queries": rng.permutation(n)[: n // 2], "references": rng.permutation(n)[: 2 * n // 3]}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kappa", [0.0, 0.05])
@pytest.mark.parametrize("kernel", ["cauchy", "gaussian"])
def test_ksne(rng, monkeypatch, kernel, kappa, scale):
    Z, _ = cloud(rng, scale)
    for k in (1, 2, 6):
        loss, target = KSNELoss(k, kernel, kappa), some_affinities(len(Z), k)
        for rows in ({}, some_rows(rng, len(Z))):
            compare(monkeypatch, loss, Z, target, k * rounding(Z), **rows)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["log", "accuracy"])
@pytest.mark.parametrize("name", KERNELS)
def test_nca(rng, monkeypatch, name, kind, scale):
    if name == "compact":
        kind, scale = "accuracy", 0.2 * scale
    Z, y = cloud(rng, scale)
    loss = NCALoss(kind, KERNELS[name])
    # by heavy tails far points count too, and with them the rounding of their distances
    rtol = rounding(Z) if name == "student" else 1e-12
    labels = Labels(y, rng.uniform(0.1, 1.0, len(y)), "uniform")
    compare(monkeypatch, loss, Z, Labels(y), rtol, **some_rows(rng, len(y)))
    compare(monkeypatch, loss, Z, labels, rtol)
    compare(monkeypatch, loss, Z, labels, rtol, **some_rows(rng, len(y)))
    expected = formulas.nca(Z, y, kind, kernel=name)
    assert_close(compare(monkeypatch, loss, Z, Labels(y), rtol), expected, rtol)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_nca_with_a_background(rng, monkeypatch, kernel):
    Z, y = cloud(rng, 1.0)
    loss = NCALoss("log", kernel, np.linspace(0.1, 0.5, 5))
    compare(monkeypatch, loss, Z, Labels(y))
    compare(monkeypatch, loss, Z, Labels(y, priors="uniform"), **some_rows(rng, len(y)))
    beta = both(monkeypatch, lambda: em_background(Z, y, loss.background, kernel=kernel, steps=3))
    np.testing.assert_allclose(*beta, rtol=1e-11)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("vote", ["majority", "all"])
@pytest.mark.parametrize("kind", ["log", "accuracy"])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_knca(rng, monkeypatch, k, kind, vote, scale):
    Z, y = cloud(rng, scale, n=60, d=2)
    loss = KNCALoss(k, vote, kind)
    rtol = rounding(Z)
    compare(monkeypatch, loss, Z, y, rtol, **some_rows(rng, len(y)))
    found = compare(monkeypatch, loss, Z, y, rtol)
    if k < 5 or scale == 10.0:  # the plain formula takes a second
        assert_close(found, formulas.knca(Z, y, k, vote, kind), rtol)


def test_three_near_points_and_the_rest_far_off(rng, monkeypatch):
    """Where a weight divided out of the product would leave no digits: spec, section 3."""
    Z = np.concatenate([1e-3 * rng.standard_normal((6, 2)), 4.0 + rng.standard_normal((30, 2))])
    y = np.arange(36) % 3
    compare(monkeypatch, KNCALoss(3), Z, y, 1e-13)


@pytest.mark.parametrize("distance", ["squared", "chi2"])
@pytest.mark.parametrize("scale", SCALES)
def test_lmnn(rng, monkeypatch, distance, scale):
    Z, y = cloud(rng, scale)
    Z = np.abs(Z) if distance == "chi2" else Z
    targets = TargetNeighbors(y, target_neighbors(Z, Labels(y).codes, 3))
    loss = LMNNLoss(0.7, 0.9 * scale, distance)
    compare(monkeypatch, loss, Z, targets)
    compare(monkeypatch, loss, Z, targets, **some_rows(rng, len(y)))


@pytest.mark.parametrize("scale", SCALES)
def test_what_predicts(rng, monkeypatch, scale):
    Z, y = cloud(rng, scale)
    new, weight = scale * rng.standard_normal((700, 3)), rng.uniform(0.1, 1.0, len(y))
    for kernel in (Gaussian(), Student()):
        for labels in (Labels(y), Labels(y, weight, "uniform")):
            np.testing.assert_allclose(
                *both(monkeypatch, lambda k=kernel, t=labels: nca_posterior(new, Z, t, k)),
                rtol=rounding(Z), atol=1e-200,
            )  # fmt: skip
        for queries in (None, new):
            np.testing.assert_allclose(
                *both(
                    monkeypatch,
                    lambda k=kernel, q=queries: nca_effective_n_neighbors(Z, weight, q, k),
                ),
                rtol=rounding(Z),
            )
    for vote in ("majority", "all"):
        np.testing.assert_allclose(
            *both(monkeypatch, lambda v=vote: knca_posterior(new, Z, y, 4, v)),
            rtol=1e-9,
            atol=1e-12,
        )


def test_histograms_and_the_simplex(rng, monkeypatch):
    X, Y = rng.dirichlet(np.full(6, 0.3), 120), rng.dirichlet(np.full(6, 0.3), 80)
    np.testing.assert_allclose(*both(monkeypatch, lambda: chi2_distances(X, Y)), rtol=1e-13)
    for dense, compiled in zip(
        *both(monkeypatch, lambda: Chi2Index(Y).kneighbors(X, 5)), strict=True
    ):
        np.testing.assert_allclose(dense, compiled, rtol=1e-13)
    L = rng.standard_normal((7, 30)) * np.logspace(-3, 3, 30)
    np.testing.assert_allclose(*both(monkeypatch, lambda: project_columns(L)), rtol=0, atol=1e-14)


def test_machines_may_exchange_row_sums(rng):
    """Two engines with half of the references each: sums are merged, gradients add up."""
    Z, y = cloud(rng, 1.0)
    rows, mass = np.arange(len(y)), rng.uniform(0.1, 1.0, len(y))
    whole = DenseSums(Data(Z, y, mass, rows, rows), Student())
    parts = [DenseSums(Data(Z, y, mass, rows, half), Student()) for half in (rows[:40], rows[40:])]
    order = np.argsort(whole.query_rows)
    slopes = rng.standard_normal((2, len(y)))
    joint = merge(*(part.sums() for part in parts))
    total, expected = joint.log2 - joint.shift, whole.sums().log2 - whole.sums().shift
    places = np.argsort(parts[0].query_rows)
    np.testing.assert_allclose(total[:, places], expected[:, order], rtol=1e-13)
    found = sum(part.pull(joint, slopes[:, part.query_rows]) for part in parts)
    expected = whole.pull(whole.sums(), slopes[:, whole.query_rows])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_same_bits_for_any_number_of_blas_threads(rng, monkeypatch):
    monkeypatch.setattr(choose, "DENSE_UP_TO", 2000)
    Z, y = cloud(rng, 0.3, n=450, d=20)
    targets = TargetNeighbors(y, target_neighbors(Z, Labels(y).codes, 3))
    for loss, target in [(NCALoss(), Labels(y)), (KNCALoss(3), y), (LMNNLoss(), targets)]:
        results = []
        for threads in (1, 2, 4):
            with threadpool_limits(threads):
                results.append(loss(Z, target))
        for value, dZ, *_ in results[1:]:
            assert value == results[0].value
            np.testing.assert_array_equal(dZ, results[0].dZ)


def test_posteriors_of_a_row_do_not_depend_on_the_others(rng, monkeypatch):
    monkeypatch.setattr(choose, "DENSE_UP_TO", 2000)
    Z, y = cloud(rng, 1.0)
    new = rng.standard_normal((1500, 3))
    for posterior in (nca_posterior, knca_posterior):
        np.testing.assert_array_equal(posterior(new, Z, y)[-7:], posterior(new[-7:], Z, y))


_NOTHING_IS_COMPILED = """
import warnings
import numpy as np
from numba.core.dispatcher import Dispatcher
from sklearn.datasets import load_iris, load_wine

def refuse(self, signature):
    raise AssertionError(f"{self.py_func.__name__} is compiled")

Dispatcher.compile = refuse
warnings.simplefilter("ignore")
from vicinal import NCA, KNCA, KSNE, LMNN, MLKR, Chi2LMNN, NCARegressor, PairNCA
from vicinal.engines import choose

few = {"max_iter": 3, "random_state": 0}
plain = {"alpha": 3e-3, **few}
options = {
    NCA: [{}, {"n_components": 2, "kernel": "student"}, {"kernel": "compact", "max_iter": 5},
          {"objective": "accuracy", "priors": "uniform", "rule": "knn", "n_neighbors": "local"},
          {"rule": "knn", "early_stopping": True, "max_iter": 5}, {"mapping": "diagonal"},
          {"kernel": "laplace"}],
    KNCA: [{}, {"k": 3, "vote": "all", "n_components": 2}, {"objective": "accuracy"}],
    LMNN: [{}, {"k": 5, "n_components": 2, "refresh_targets": 2, "max_iter": 5}],
    Chi2LMNN: [{}, {"constraint": "softmax", "n_components": 3, "max_iter": 5}],
}
for load in (load_wine, load_iris):
    X, y = load(return_X_y=True)
    X = X / X.std(axis=0)
    for method, settings in options.items():
        for setting in settings:
            search = method is not NCA or (not setting and load is load_iris)
            model = method(**{**(few if search else plain), **setting}).fit(X, y)
            model.predict(X)
            model.transform(X)
            model.predict_proba(X)
    T = 0.9 * np.eye(3)[y] + 0.1 / 3
    for setting in options[NCA][:2] + options[NCA][4:]:
        NCA(**{**plain, **setting}).fit(X, T).predict_proba(X)
        model = NCA(**{**plain, **setting}).fit(X, matches=T @ T.T)
        model.score(X, matches=T @ T.T)
        model.effective_n_neighbors(X)
for setting in [{}, {"k": 2, "kernel": "gaussian", "kappa": 0.1, "init": "spectral"},
                {"mapping": "linear"}, {"n_components": 3, "metric": "cosine"}]:
    model = KSNE(max_iter=5, **setting).fit(X)
    model.transform(X[:3] + 0.01)
for method, settings in {
    MLKR: [{}, {"kernel": "student", "rule": "knn", "n_neighbors": "auto", "early_stopping": True}],
    NCARegressor: [{}, {"matching": "hard", "objective": "accuracy", "mapping": "diagonal"}],
}.items():
    for setting in settings:
        model = method(max_iter=5, random_state=0, **setting).fit(X, X[:, 0] * X[:, 1])
        model.predict(X)
        model.kneighbors(X)
pairs = X[np.arange(len(X) // 2 * 2).reshape(-1, 2)]
for setting in [{}, {"mapping": "diagonal"}, {"alpha": "auto", "cv": 2}]:
    model = PairNCA(max_iter=5, **setting).fit(pairs, np.where(np.arange(len(pairs)) % 3, 1, -1))
    model.predict(pairs)
choose.DENSE_UP_TO = 0  # the trap works
try:
    NCA(**plain).fit(X, y)
except AssertionError:
    print("done")
"""


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is ever compiled")
def test_small_fits_compile_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", _NOTHING_IS_COMPILED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr[-2000:]
    assert not any(tmp_path.rglob("*.nb*"))
