"""Fits with a `TorchMap`: equal to the map in NumPy, resumed to the same bits, used like any."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from common.checks import assert_same_bits
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from with_torch.networks import D, Residual, clouds, d, plain, rows

from vicinal import KNCA, KSNE, LMNN, NCA
from vicinal._features import Features
from vicinal.callbacks import Checkpoint
from vicinal.core.problem import Problem
from vicinal.fit import run
from vicinal.fit.report import HAS_CALLBACKS
from vicinal.fit.run import first_theta
from vicinal.maps import MLP, TorchMap
from vicinal.objectives import NCALoss
from vicinal.samplers import MiniBatches
from vicinal.targets import Labels
from vicinal.torch import nca_loss

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}


def without_bias(activation=nn.Tanh, seed=0):
    module = plain(activation, seed)
    module[2] = nn.Linear(6, d, bias=False)
    return module


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("residual", [True, False])
def test_equals_the_network_in_numpy(rng, activation, residual):
    make = Residual if residual else without_bias
    module = make(activation=ACTIVATIONS[activation])
    theirs, ours = TorchMap(module), MLP((6,), activation, residual, n_components=d)
    X, theta = rows(rng, 1100), 0.7 * rng.standard_normal(theirs.n_parameters)
    dZ = rng.standard_normal((1100, d))
    if residual:  # the factor of the output
        theta[-1] = 1.0
    same = slice(None, -1 if residual else None)
    (Z, pull), (wanted, wanted_pull) = theirs.forward(theta, X), ours.forward(theta[same], X)
    np.testing.assert_allclose(Z, wanted, rtol=0, atol=1e-10)
    np.testing.assert_allclose(pull(dZ)[same], wanted_pull(dZ), rtol=0, atol=1e-10)
    weights = theirs.penalty_weights(theta)[same]
    np.testing.assert_array_equal(weights, ours.penalty_weights(theta[same]))


def test_a_fit_ends_where_that_of_the_network_in_numpy_does(rng, monkeypatch):
    X, y = clouds(rng)
    ours, starts = MLP((6,), "tanh", residual=False, n_components=d), []

    def recorded(*given):
        starts.append(first_theta(*given))
        return starts[-1]

    def fit(mapping):
        settings = {"alpha": 1e-3, "solver": "lbfgs", "sampling": "full", "max_iter": 500}
        return NCA(d, mapping=mapping, **settings, tol=1e-9, random_state=0).fit(X, y)

    with monkeypatch.context() as patch:
        patch.setattr(run, "first_theta", recorded)
        wanted = fit(ours)
    module = without_bias().double()
    with torch.no_grad():
        torch.nn.utils.vector_to_parameters(torch.from_numpy(starts[0]), module.parameters())
    assert wanted.loss_ < 0.9 * wanted.history_["loss"][0]
    np.testing.assert_allclose(fit(TorchMap(module)).loss_, wanted.loss_, rtol=1e-6)


def test_the_gradient_of_a_problem_is_that_of_nca_loss(rng):
    X, y = clouds(rng)
    module = plain().double()
    features, mapping = Features(X, "standard"), TorchMap(module)
    value, gradient = Problem(features, Labels(y), NCALoss(), mapping)(mapping.start(features, rng))
    loss = nca_loss(module(torch.from_numpy(features.dense(slice(None), np.float64))), y)
    loss.backward()
    wanted = torch.cat([p.grad.ravel() for p in module.parameters()])
    np.testing.assert_allclose(value, loss.item(), rtol=1e-12)
    np.testing.assert_allclose(gradient, wanted, atol=1e-12)


def learner(module, n=10, **parameters):
    given = {"alpha": 1e-3, "max_iter": n, "tol": None, "random_state": 0, **parameters}
    return NCA(mapping=TorchMap(module), **given)


@pytest.mark.parametrize("module", [plain(), Residual()], ids=["plain", "residual"])
def test_two_fits_end_in_the_bits_of_one(rng, module):
    """Also if the first was pickled; and a fit repeats."""
    X, y = clouds(rng)
    whole = learner(module, 10).fit(X, y)
    half = learner(module, 5, warm_start=True).fit(X, y)
    half = pickle.loads(pickle.dumps(half)).fit(X, y)
    again = clone(whole).fit(X, y)
    assert_same_bits(half.transform(X), whole.transform(X))
    assert_same_bits(again.predict_proba(X), whole.predict_proba(X))


def test_another_module_is_not_resumed(rng):
    X, y = clouds(rng)
    other = learner(plain(seed=1), 5).fit(X, y)
    model = learner(plain(), 5, warm_start=True).fit(X, y)
    model.set_params(mapping=TorchMap(plain(seed=1))).fit(X, y)
    assert_same_bits(model.transform(X), other.transform(X))


def test_an_interrupted_fit_resumes_to_the_same_bits(rng, interrupted_nca):
    X, y = clouds(rng)
    parameters = {"mapping": TorchMap(plain()), "alpha": 1e-3, "max_iter": 10, "tol": None}
    whole = NCA(**parameters, random_state=0).fit(X, y)
    cut = interrupted_nca(6)(**parameters, random_state=0, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        cut.fit(X, y)
    cut.fit(X, y)
    assert_same_bits(cut.transform(X), whole.transform(X))


@pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn with callbacks")
def test_a_checkpoint_resumes_to_the_same_bits(rng, tmp_path):
    X, y = clouds(rng)

    class Kill:
        calls = 0

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            self.calls += 1
            if self.calls == 6:
                raise RuntimeError("power cut")

    whole = learner(plain()).fit(X, y)
    path = tmp_path / "fit.vic"
    model = learner(plain()).set_callbacks(Checkpoint(path, every=2), Kill())
    with pytest.raises(RuntimeError, match="power cut"):
        model.fit(X, y)
    assert Checkpoint.load(path, module=plain(seed=1)).n_iter_ < 10
    again = learner(plain()).fit(X, y, resume_from=path)
    assert_same_bits(again.transform(X), whole.transform(X))
    with pytest.raises(ValueError, match=r"mapping was TorchMap.* and is TorchMap"):
        learner(plain(seed=1)).fit(X, y, resume_from=path)


def test_sparse_rows_give_the_same_map(rng):
    X, y = clouds(rng)
    X[X < 0] = 0.0
    dense, sparse = (learner(plain()).fit(table, y) for table in (X, sp.csr_matrix(X)))
    np.testing.assert_allclose(sparse.transform(X), dense.transform(X), rtol=1e-6)
    np.testing.assert_allclose(sparse.transform(sp.csr_matrix(X)), dense.transform(X), rtol=1e-6)


def test_float32_rows_stay_float32(rng):
    X, y = clouds(rng)
    model = learner(plain()).fit(X.astype(np.float32), y)
    assert model.transform(X.astype(np.float32)).dtype == np.float32


def test_a_hidden_layer_finds_what_no_matrix_can(rng):
    """A ring around a disc, among columns of noise."""
    y = rng.integers(2, size=300)
    X = rng.standard_normal((300, D))
    X[:, :2] *= (0.5 + 2 * y)[:, None] / np.linalg.norm(X[:, :2], axis=1, keepdims=True)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, d))
    model = NCA(mapping=TorchMap(module), alpha=1e-3, random_state=0).fit(X[:150], y[:150])
    assert model.score(X[150:], y[150:]) > 0.95


@pytest.mark.parametrize("method", [KNCA, LMNN])
def test_other_methods_learn_networks_as_well(rng, method):
    X, y = clouds(rng)
    model = method(mapping=TorchMap(plain()), max_iter=5, tol=None, random_state=0).fit(X, y)
    assert model.transform(X).shape == (60, d)
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert not hasattr(model, "components_")


def test_batches_and_many_rows(rng):
    """Two precisions, Adam on batches, and a held-out score."""
    X, y = clouds(rng, 1500)
    model = NCA(
        mapping=TorchMap(plain(nn.ReLU)), alpha=1e-4, sampling=MiniBatches(500), max_iter=20,
        early_stopping=True, random_state=0,
    ).fit(X, y)  # fmt: skip
    assert np.isfinite(model.loss_)
    assert set(model.mapping._networks) <= {"float32", "float64"}


def test_a_start_for_matrices_is_refused(rng):
    X, y = clouds(rng)
    for init in ("pca", np.eye(d, D)):
        with pytest.raises(ValueError, match=r"'init' .* of NCA must be 'auto', .* TorchMap"):
            learner(plain(), init=init).fit(X, y)
    with pytest.raises(ValueError, match=r"'init' .* of KSNE must be 'auto', .* TorchMap"):
        KSNE(d, mapping=TorchMap(plain()), init="pca").fit(X)
