"""`TorchMap`: forward, back, what it copies, and what it refuses."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from common.checks import assert_same_bits, each_dtype, set_threads
from formulas import finite_difference
from sklearn.base import clone
from threadpoolctl import threadpool_limits
from torch import nn
from with_torch.networks import D, Residual, d, plain, rows

from vicinal import NCA
from vicinal._features import Features
from vicinal.core.types import Map
from vicinal.maps import TorchMap, _layers

MODULES = {
    "plain": plain,
    "residual": Residual,
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (1, D)), nn.Conv1d(1, 3, 3), nn.SiLU(), nn.Flatten(), nn.Linear(9, d)
    ),
    "bounded": lambda: nn.Sequential(nn.Linear(D, d), nn.Tanh()),
    "normalised": lambda: nn.Sequential(
        nn.Linear(D, 6), nn.LayerNorm(6), nn.BatchNorm1d(6).eval(), nn.ReLU(True), nn.Linear(6, d)
    ),
}
each_module = pytest.mark.parametrize("module", [m() for m in MODULES.values()], ids=MODULES)


def dense(X):
    return np.concatenate([block for _, block in X.blocks()])


@each_module
@each_dtype
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_forward_is_the_module(rng, monkeypatch, module, dtype, kind):
    monkeypatch.setattr(_layers, "_BLOCK", 16)
    X = rows(rng)
    if kind == "sparse":
        X = Features(sp.csr_matrix(dense(X) * (rng.uniform(size=(40, D)) < 0.5)), "standard")
    mapping = TorchMap(module)
    assert mapping.n_components == d
    Z, _ = mapping.forward(mapping.start(X, None), X, dtype)
    wanted = copy.deepcopy(module).double().eval()(torch.from_numpy(dense(X)))
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    assert (Z.shape, Z.dtype) == ((40, d), dtype)
    np.testing.assert_allclose(Z, wanted.detach(), atol=10 * tolerance)


@each_module
def test_pull_is_adjoint_and_matches_finite_differences(rng, monkeypatch, module):
    monkeypatch.setattr(_layers, "_BLOCK", 16)
    X, mapping = rows(rng), TorchMap(module)
    theta = mapping.start(X, None)
    theta = theta + 0.1 * rng.standard_normal(len(theta))
    Z, pull = mapping.forward(theta, X)
    mapping.forward(0.5 * theta, X)  # which must not change what was pulled
    target = rng.standard_normal(Z.shape)
    numeric = finite_difference(
        lambda t: np.sum((mapping.forward(t, X)[0] - target) ** 2) / 40, theta, 1e-6
    )
    gradient = pull(2 * (Z - target) / 40)
    assert (gradient.shape, gradient.dtype) == ((mapping.n_parameters,), np.float64)
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)
    # <dZ, change of Z> = <pull(dZ), change of theta>
    direction, step = rng.standard_normal(len(theta)), 1e-6
    there, back = (mapping.forward(theta + s * direction, X)[0] for s in (step, -step))
    np.testing.assert_allclose(
        np.vdot(target, there - back) / (2 * step), pull(target) @ direction, rtol=1e-7
    )


@each_module
def test_scaled_parameters_scale_the_points(rng, module):
    X, mapping = rows(rng), TorchMap(module)
    theta = mapping.start(X, None)
    Z = mapping.forward(theta, X)[0]
    np.testing.assert_allclose(
        mapping.forward(mapping.scaled(theta, 3.0), X)[0], 3.0 * Z, rtol=1e-12
    )


def test_cost_counts_products_and_outputs():
    plain_cost, wide = TorchMap(plain()).cost(D, 4), TorchMap(plain(hidden=600)).cost(D, 4)
    assert plain_cost.n_parameters == 50
    assert plain_cost.nanoseconds == pytest.approx(0.15 * 50 + 6.0 * (6 + 6 + 2))
    assert wide.nanoseconds > 50 * plain_cost.nanoseconds
    convolution = TorchMap(MODULES["convolution"]()).cost(D, 4)  # 9 weights at 3 places
    assert convolution.nanoseconds >= 0.15 * (9 * 3 + 18)
    small, large = (NCA(mapping=TorchMap(plain(hidden=h)), alpha=0.0) for h in (6, 600))
    X = np.ones((2000, D))
    costs = [model.estimate_cost(X) for model in (small, large)]
    assert costs[1].memory_bytes > costs[0].memory_bytes + 2**20
    assert costs[1].seconds_per_evaluation > costs[0].seconds_per_evaluation


def test_biases_are_not_penalised():
    mapping = TorchMap(plain())
    weights = mapping.penalty_weights(np.zeros(mapping.n_parameters))
    np.testing.assert_array_equal(weights, np.repeat([1.0, 0.0, 1.0, 0.0], [30, 6, 12, 2]))
    assert TorchMap(Residual()).penalty_weights(None)[-1] == 1.0  # the factor of the output


def test_a_shared_last_layer_does_not_carry_the_scale(rng):
    module = nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D))
    module[2].weight = module[0].weight
    X, mapping = rows(rng), TorchMap(module)
    theta = mapping.start(X, None)
    Z, twice = (mapping.forward(mapping.scaled(theta, s), X)[0] for s in (1.0, 2.0))
    np.testing.assert_allclose(twice, 2 * Z, rtol=1e-12)


@each_dtype
@pytest.mark.parametrize("module", [plain(), Residual()])
def test_thread_count_agnosticism(rng, monkeypatch, module, dtype):
    X, mapping = rows(rng, 5000), TorchMap(module)
    theta, dZ = mapping.start(X, None), rng.standard_normal((5000, d)).astype(dtype)
    before, answers = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        set_threads(monkeypatch, threads)
        torch.set_num_threads(threads)
        with threadpool_limits(min(threads, 2)):
            Z, pull = mapping.forward(theta, X, dtype)
            answers.append((Z, pull(dZ)))
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    assert_same_bits(answers[1], answers[0])
    assert_same_bits(answers[2], answers[0])


def test_rows_are_not_copied_and_never_changed(rng):
    seen = []

    class Watching(nn.Linear):
        def forward(self, x):
            seen.append(x.data_ptr())
            return super().forward(x)

    X = rows(rng)
    mapping = TorchMap(Watching(D, d), d)
    mapping.forward(np.ones(mapping.n_parameters), X)
    assert seen[-1] == X.X.ctypes.data
    before = dense(X).copy()
    mapping = TorchMap(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(D, d)))
    Z, pull = mapping.forward(mapping.start(X, None), X)
    pull(Z)
    np.testing.assert_array_equal(dense(X), before)


def test_the_given_module_does_not_change(rng):
    X, y = rng.standard_normal((30, D)), np.arange(30) % 2
    module = plain()
    before = copy.deepcopy(module.state_dict())
    module[0].weight.grad = torch.ones_like(module[0].weight)
    NCA(mapping=TorchMap(module), alpha=0.0, max_iter=3, tol=None).fit(X, y)
    assert all(torch.equal(before[name], p) for name, p in module.state_dict().items())
    assert module.training
    assert torch.equal(module[0].weight.grad, torch.ones_like(module[0].weight))


def test_frozen_parameters_and_buffers_stay(rng):
    module = MODULES["normalised"]()
    module[0].requires_grad_(False)
    mapping = TorchMap(module)
    assert mapping.n_parameters == 2 * 6 + 2 * 6 + 6 * d + d
    X, y = rng.standard_normal((30, D)), np.arange(30) % 2
    model = NCA(mapping=mapping, alpha=0.0, max_iter=3, tol=None).fit(X, y)
    learnt = next(iter(model._map.mapping._networks.values())).module
    assert torch.equal(learnt[0].weight, module[0].weight.double())
    assert not learnt[2].running_mean.any()
    assert not torch.equal(learnt[4].weight, module[4].weight.double())


def test_parts_clone_pickle_and_compare():
    mapping = TorchMap(plain())
    assert isinstance(mapping, Map)
    assert clone(mapping, safe=False) == mapping
    assert pickle.loads(pickle.dumps(mapping)) == mapping
    assert hash(TorchMap(plain())) == hash(mapping)
    others = [plain(seed=1), plain(nn.ReLU), plain().double(), Residual()]
    others[2][0].weight.requires_grad_(False)
    for other in [*map(TorchMap, others), TorchMap(plain(), dtype="float32"), 3]:
        assert mapping != other
        assert repr(mapping) != repr(other)
    assert len(repr(mapping)) < 100
    copied = clone(NCA(mapping=mapping))
    assert copied.mapping == mapping
    assert copied.mapping is not mapping


def test_a_named_precision_holds_at_any_other(rng):
    X, mapping = rows(rng), TorchMap(plain(), dtype="float32")
    theta = mapping.start(X, None)
    Z, pull = mapping.forward(theta, X, np.float64)
    assert Z.dtype == np.float64
    assert_same_bits(Z.astype(np.float32), mapping.forward(theta, X, np.float32)[0])
    assert pull(Z).dtype == np.float64


class Mean(nn.Linear):
    """Looks at the other rows."""

    def forward(self, x):
        return super().forward(x - x.mean(dim=0))


class Noise(nn.Linear):
    """Draws even in evaluation."""

    def forward(self, x):
        return super().forward(x + torch.randn_like(x))


def frozen():
    return plain().requires_grad_(False)


def infinite():
    module = plain()
    module[0].bias.data[0] = np.inf
    return module


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear, "'module' parameter of TorchMap must be an instance of torch.nn.Module. Got"),
        (nn.ReLU(), "must have a parameter that requires a gradient. Got none"),
        (frozen(), "must have a parameter that requires a gradient. Got none"),
        (infinite(), "must be finite. Got NaN or infinity in '0.bias'"),
        (nn.Sequential(nn.LazyLinear(3)), "Got an uninitialised '0.weight'"),
        (
            nn.Sequential(nn.Linear(D, 2), nn.Dropout(0.5)),
            r"layer '1', Dropout\(p=0.5.*module.eval\(\)",
        ),
        (nn.Sequential(nn.Linear(D, 2), nn.BatchNorm1d(2)), "layer '1', BatchNorm1d.*nca_loss"),
        (
            nn.Sequential(nn.Linear(D, 2), nn.BatchNorm1d(2, track_running_stats=False)).eval(),
            "normalises by the other rows",
        ),
        (nn.Sequential(nn.Unflatten(1, (1, D)), nn.Conv1d(1, 2, D)), "'n_components' .* Got None"),
        (torch.nn.Linear(D, 2, dtype=torch.complex64), "real numbers. Got torch.complex64"),
    ],
)
def test_modules_that_are_refused(module, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TorchMap(module)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Mean(D, d), "must map each row on its own"),
        (Noise(D, d), "must map a row at every call to the same point"),
        (nn.Linear(D + 1, d), f"must map rows of the {D} features. It failed"),
        (nn.Sequential(nn.Linear(D, d), nn.Unflatten(1, (d, 1))), r"\(3, 2\). Got \(3, 2, 1\)"),
        (nn.Sequential(nn.LSTM(D, d)), r"\(3, 2\). Got tuple"),
    ],
)
def test_modules_that_rows_show_to_be_wrong(rng, module, message):
    mapping = TorchMap(module, d)
    with pytest.raises(ValueError, match=message):
        mapping.start(rows(rng), None)


def test_outputs_that_are_not_finite_are_refused(rng):
    class Log(nn.Linear):
        def forward(self, x):
            return torch.log(super().forward(x))

    with pytest.raises(ValueError, match=r"to finite points. Got NaN or infinity"):
        TorchMap(Log(D, d), d).start(rows(rng), None)


@pytest.mark.parametrize("wrong", [0, 1.5, "two"])
def test_parameters_are_checked(wrong):
    with pytest.raises(ValueError, match=r"'n_components' parameter of TorchMap must be an int"):
        TorchMap(plain(), wrong)
    with pytest.raises(ValueError, match=r"'dtype' parameter of TorchMap must be one of None"):
        TorchMap(plain(), dtype="float16")
    with pytest.raises(ValueError, match="must have n_components=3"):
        NCA(3, mapping=TorchMap(plain())).fit(np.eye(D), [0, 0, 1, 1, 1])
