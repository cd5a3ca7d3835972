"""Fits with ``device=`` and of tensors on a GPU; without a GPU the CPU stands for one."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from with_torch import gpu

from vicinal import LMNN, MCML, MLKR, NCA, NCARegressor
from vicinal.densities import Compact
from vicinal.engines.cuda import backend
from vicinal.maps import MLP
from vicinal.torch import nca_loss

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def device(monkeypatch):
    gpu.stand_in(monkeypatch)
    if not gpu.REAL:  # the interpreter would take minutes; test_gpu_engines.py tests the kernels
        monkeypatch.setattr(backend, "uses_triton", lambda device: False)


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


SETTINGS = {"alpha": 3e-3, "max_iter": 12, "random_state": 0}
MODELS = {
    "nca": NCA(2, **SETTINGS),
    "one device": NCA(2, priors="uniform", kernel="student", scaling="global", **SETTINGS),
    "searched": NCA(alpha="auto", cv=2, early_stopping=True, random_state=0, max_iter=10),
    "queries": NCA(2, sampling="stochastic", init="pca", rule="knn", **SETTINGS),
    "batches": NCA(2, sampling="mini_batches", **SETTINGS),
    "diagonal": NCA(mapping="diagonal", objective="accuracy", **SETTINGS),
    "mlkr": MLKR(2, **SETTINGS),
    "regressor": NCARegressor(2, **SETTINGS),
    "mcml": MCML(2, **SETTINGS),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_that_of_the_cpu(wine, name):
    X, y = wine
    here = clone(MODELS[name]).fit(X[::2], y[::2])
    there = clone(MODELS[name]).set_params(device="cuda").fit(X[::2], y[::2])
    assert there.loss_ == pytest.approx(here.loss_, rel=1e-6)
    assert "blocks of torch" in there.plan_.reason or "Triton" in there.plan_.reason
    assert "MiB there" in there.plan_.reason
    np.testing.assert_allclose(there.transform(X), here.transform(X), atol=1e-5)
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=1e-5)
    assert b"engines.cuda" not in pickle.dumps(there)
    again = clone(there).fit(X[::2], y[::2])
    np.testing.assert_array_equal(again.transform(X), there.transform(X))


def test_a_tensor_stays_where_it_is(wine):
    X, y = wine
    model = NCA(2, **SETTINGS).fit(gpu.tensor(X), gpu.tensor(y))
    assert model.device is None
    Z = model.transform(gpu.tensor(X))
    P = model.predict_proba(gpu.tensor(X))
    distances, near = model.kneighbors(gpu.tensor(X[:9]), 3)
    for part in (Z, P, distances, near):
        assert isinstance(part, torch.Tensor)
        assert part.device.type == gpu.DEVICE
    np.testing.assert_allclose(Z.cpu(), model.transform(X), atol=1e-10)
    np.testing.assert_allclose(P.cpu(), model.predict_proba(X), atol=1e-8)
    np.testing.assert_array_equal(near.cpu(), model.kneighbors(X[:9], 3)[1])
    np.testing.assert_array_equal(model.predict(gpu.tensor(X)), model.predict(X))
    assert isinstance(model.predict_proba(X), np.ndarray)
    model.set_params(rule="knn", n_neighbors=4)
    np.testing.assert_array_equal(model.predict(gpu.tensor(X)), model.predict(X))
    own = clone(model).set_params(device="cuda").fit(X, y).kneighbors()
    np.testing.assert_array_equal(own[1], model.kneighbors()[1])


def test_numbers_are_predicted_there(wine):
    X, y = wine
    model = MLKR(2, **SETTINGS).fit(gpu.tensor(X), y.astype(float))
    assert isinstance(model.predict(gpu.tensor(X)), torch.Tensor)
    np.testing.assert_allclose(model.predict(gpu.tensor(X)).cpu(), model.predict(X), atol=1e-6)


def test_single_rows_stay_single(wine):
    """A thousand rows in float32: a stage in it, and one in float64."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1200)
    X = (rng.normal(size=(1200, 4)) + rng.normal(size=(3, 4))[y]).astype(np.float32)
    parameters = {"alpha": 1e-3, "max_iter": 4, "random_state": 0, "sampling": "full"}
    here, there = (NCA(2, device=name, **parameters).fit(X, y) for name in (None, "cuda"))
    assert there.loss_ == pytest.approx(here.loss_, rel=1e-5)
    assert there.transform(X).dtype == np.float32


def test_outliers_are_limited_as_on_the_cpu():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 8)) + y[:, None]
    X[:4, 2] = 1e4  # gross outliers; heavy tails and rare ones are none
    X[:, 5] = rng.standard_t(3, 300)
    X[:, 6] = rng.uniform(size=300) < 0.02
    here, there = (NCA(2, device=name, **SETTINGS).fit(X, y) for name in (None, "cuda"))
    np.testing.assert_allclose(there.transform(X), here.transform(X), rtol=1e-5, atol=1e-5)
    limits = there._map.limits
    np.testing.assert_array_equal(np.isfinite(limits.high), np.isfinite(here._map.limits.high))
    assert np.isfinite(limits.high).sum() == 1


def test_a_checkpoint_goes_on_without_a_gpu(wine, tmp_path):
    pytest.importorskip("safetensors")
    from vicinal.callbacks import Checkpoint

    X, y = wine
    path = tmp_path / "fit.vic"
    parameters = {**SETTINGS, "max_iter": 6}
    model = NCA(2, device="cuda", **parameters).set_callbacks(Checkpoint(path, every=3)).fit(X, y)
    found = NCA(2, **parameters).fit(X, y, resume_from=path)
    np.testing.assert_allclose(found.transform(X), model.transform(X), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (NCA(2, device="cuda", neighborhood="nearest"), "'neighborhood' parameter of NCA must be"),
        (NCA(2, device="cuda", kernel=Compact()), "'kernel' parameter of NCA must be 'gaussian'"),
        (NCA(2, device="cuda", mapping=MLP()), "'mapping' parameter of NCA must be 'linear'"),
        (NCA(2, device="cuda", scaling="robust"), "'scaling' parameter of NCA must be 'standard'"),
        (NCA(2, device="gpu"), "'device' parameter of NCA must be None, 'cpu', 'cuda'"),
    ],
)
def test_what_has_no_engine_is_refused_by_name(wine, model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(*wine)


def test_tables_that_are_no_tables_are_refused(wine):
    import scipy.sparse as sp

    X, y = wine
    with pytest.raises(ValueError, match=r"must be dense for device='cuda'.*X.toarray\(\)"):
        NCA(device="cuda").fit(sp.csr_array(X), y)
    with pytest.raises(ValueError, match="contains NaN or infinity"):
        NCA().fit(gpu.tensor(np.where(X > 13.0, np.nan, X)), y)
    with pytest.raises(ValueError, match=r"X of NCA must have shape \(n_samples, n_features\)"):
        NCA().fit(gpu.tensor(X[0]), y)
    with pytest.raises(ValueError, match="X has 2 features, but NCA is expecting 13"):
        NCA(2, **SETTINGS).fit(X, y).transform(gpu.tensor(X[:, :2]))


@pytest.mark.skipif(not gpu.REAL, reason="needs a GPU")
@pytest.mark.parametrize("model", [LMNN()])
def test_methods_without_an_engine_refuse_tensors(wine, model):
    with pytest.raises(TypeError, match=r"Use X.cpu\(\)"):
        model.fit(gpu.tensor(wine[0]), wine[1])


@pytest.mark.skipif(gpu.REAL, reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_named(wine, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"torch finds 0 GPUs\. Got 'cuda:1' instead"):
        NCA(device="cuda:1").fit(*wine)


def test_the_loss_of_tensors_stays_there():
    Z, y = gpu.clouds(60, 3)
    losses, gradients = [], []
    for points in (torch.from_numpy(Z), gpu.tensor(Z)):
        points.requires_grad_()
        loss = nca_loss(points, y, warn=False)
        (gradient,) = torch.autograd.grad(loss, points)
        assert gradient.device == points.device
        losses.append(loss.item())
        gradients.append(gradient.cpu())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    np.testing.assert_allclose(*gradients, atol=1e-12)


def test_nothing_of_torch_is_imported_until_it_is_used():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, vicinal; from vicinal import NCA;"
        "NCA(1, max_iter=2, alpha=1.0).fit(np.eye(6), [0, 1] * 3);"
        "assert 'torch' not in sys.modules and 'triton' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_convergence_warnings_are_those_of_the_cpu(wine):
    with pytest.warns(ConvergenceWarning):
        NCA(2, alpha=3e-3, max_iter=2, device="cuda").fit(*wine)
