"""Modules and tensors on a GPU give what they give on the CPU."""

import pickle

import numpy as np
import pytest
import torch
from common.checks import assert_same_bits, each_dtype
from with_torch.networks import Residual, clouds, d, plain, rows

from vicinal import NCA
from vicinal.maps import TorchMap
from vicinal.torch import nca_loss

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@each_dtype
@pytest.mark.parametrize("make", [plain, Residual])
def test_points_and_gradients_are_those_of_the_cpu(rng, make, dtype):
    X, here = rows(rng, 2500), TorchMap(make())
    there = TorchMap(make().cuda())
    assert there.device == "cuda:0"
    theta, dZ = here.start(X, None), rng.standard_normal((2500, d)).astype(dtype)
    assert_same_bits(there.start(X, None), theta)
    (Z, pull), (wanted, wanted_pull) = (m.forward(theta, X, dtype) for m in (there, here))
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    assert Z.dtype == dtype
    np.testing.assert_allclose(Z, wanted, atol=tolerance)
    gradient = wanted_pull(dZ)
    np.testing.assert_allclose(pull(dZ), gradient, atol=tolerance * np.abs(gradient).max())
    again, pull_again = there.forward(theta, X, dtype)
    assert_same_bits((again, pull_again(dZ)), (Z, pull(dZ)))


def test_a_fit_is_that_of_the_cpu_and_resumes_to_its_bits(rng):
    X, y = clouds(rng, 200)
    parameters = {"alpha": 1e-3, "tol": None, "random_state": 0}
    mapping = TorchMap(plain().cuda())
    whole = NCA(mapping=mapping, max_iter=10, **parameters).fit(X, y)
    there = NCA(mapping=TorchMap(plain()), max_iter=10, **parameters).fit(X, y)
    np.testing.assert_allclose(whole.loss_, there.loss_, rtol=1e-6)
    half = NCA(mapping=mapping, max_iter=5, warm_start=True, **parameters).fit(X, y)
    half = pickle.loads(pickle.dumps(half))
    assert half.mapping == mapping
    assert half.mapping.device == "cuda:0"
    assert_same_bits(half.fit(X, y).transform(X), whole.transform(X))


def test_a_map_from_a_gpu_is_loaded_without_one(monkeypatch):
    data = pickle.dumps(TorchMap(plain().cuda()))

    def no_device(self, device):
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch.nn.Module, "to", no_device)
    with pytest.warns(UserWarning, match=r"was on cuda:0; it is now on the CPU"):
        mapping = pickle.loads(data)
    assert mapping.device == "cpu"


@each_dtype
def test_the_loss_of_tensors_on_a_gpu(rng, dtype):
    X, y = clouds(rng, 400)
    tensors = [torch.from_numpy(X.astype(dtype)).to(device) for device in ("cpu", "cuda")]
    losses, gradients = [], []
    for Z in tensors:
        Z.requires_grad_()
        labels = torch.from_numpy(y).to(Z.device)
        loss = nca_loss(Z[:300], labels[:300], (Z[300:], labels[300:]), include_batch=True)
        (gradient,) = torch.autograd.grad(loss, Z)
        assert (loss.device, loss.dtype) == (Z.device, Z.dtype)
        assert (gradient.device, gradient.dtype) == (Z.device, Z.dtype)
        losses.append(loss.item())
        gradients.append(gradient.cpu().numpy())
    tolerance = 1e-5 if dtype == np.float32 else 1e-11
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)
    difference = np.linalg.norm(gradients[1] - gradients[0])
    assert difference <= tolerance * np.linalg.norm(gradients[0])


def test_a_network_on_a_gpu_learns_by_the_loss(rng):
    X, y = clouds(rng, 400)
    X, labels = torch.from_numpy(X).float().cuda(), torch.from_numpy(y).cuda()
    module = plain().cuda()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.03)
    losses = []
    for _ in range(40):
        loss = nca_loss(module(X), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
