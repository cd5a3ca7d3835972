"""`nca_loss`: the values and gradients of a plain loss in torch, in memory that grows with N."""

import doctest
import resource
import subprocess
import sys

import numpy as np
import pytest
import torch

from vicinal import densities
from vicinal.densities import Compact, Student
from vicinal.torch import nca_loss

KERNELS = {
    "gaussian": lambda squared, d: -squared,
    "student": lambda squared, d: -0.5 * (d + 1) * torch.log1p(squared),
    "laplace": lambda squared, d: -torch.sqrt(squared),
}


def plain_loss(Z, y, references=None, include_batch=False, objective="log", kernel="gaussian"):
    """The same loss with whole arrays, for autograd."""
    R, y_R, own = Z, y, torch.eye(len(Z), dtype=torch.bool)
    if references is not None:
        R, y_R = references
        own = torch.zeros(len(Z), len(R), dtype=torch.bool)
        if include_batch:
            own = torch.cat([torch.eye(len(Z), dtype=torch.bool), own], dim=1)
            R, y_R = torch.cat([Z, R]), torch.cat([y, y_R])
    squared = ((Z[:, None] - R[None]) ** 2).sum(dim=-1).masked_fill(own, 1.0)
    logits = KERNELS[kernel](squared, Z.shape[1]).masked_fill(own, -torch.inf)
    match = y[:, None] == y_R[None]
    own_class = torch.logsumexp(logits.masked_fill(~match, -torch.inf), dim=1)
    log_p = own_class - torch.logsumexp(logits, dim=1)
    return -(log_p if objective == "log" else log_p.exp()).mean()


def points(rng, n=30, d=3, dtype=torch.float64):
    Z = torch.from_numpy(rng.standard_normal((n, d))).to(dtype).requires_grad_()
    return Z, torch.from_numpy(np.arange(n) % 3)


@pytest.mark.parametrize("objective", ["log", "accuracy"])
@pytest.mark.parametrize("kernel", sorted(set(KERNELS) & set(densities._BY_NAME)))
@pytest.mark.parametrize("picks", ["batch", "references", "both"])
def test_matches_autograd_of_a_plain_loss(rng, objective, kernel, picks):
    (Z, y), (R, y_R) = points(rng), points(rng, 20)
    arguments = {"objective": objective, "kernel": kernel}
    if picks != "batch":
        arguments |= {"references": (R, y_R), "include_batch": picks == "both"}
    inputs = [Z] if picks == "batch" else [Z, R]
    ours, plain = nca_loss(Z, y, **arguments), plain_loss(Z, y, **arguments)
    torch.testing.assert_close(ours, plain, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        torch.autograd.grad(3.0 * ours, inputs), torch.autograd.grad(3.0 * plain, inputs),
        rtol=1e-10, atol=1e-13,
    )  # fmt: skip


def test_gradcheck(rng):
    (Z, y), (R, y_R) = points(rng, 12), points(rng, 9)
    assert torch.autograd.gradcheck(lambda Z: nca_loss(Z, y), (Z,))
    assert torch.autograd.gradcheck(
        lambda Z, R: nca_loss(Z, y, (R, y_R), include_batch=True), (Z, R)
    )


def test_detached_references_get_no_gradient(rng):
    (Z, y), (R, y_R) = points(rng), points(rng, 20)
    nca_loss(Z, y, (R.detach(), y_R)).backward()
    assert R.grad is None
    assert Z.grad.any()


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
        (torch.bfloat16, torch.float32),
    ],
)
def test_precision_is_kept(rng, dtype, out):
    Z, y = points(rng, dtype=dtype)
    loss = nca_loss(Z, y)
    assert (loss.dtype, loss.shape) == (out, ())
    loss.backward()
    assert Z.grad.dtype == dtype
    wanted = plain_loss(Z.detach().double(), y)
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-5, atol=1e-6)


def test_labels_of_any_type_and_tensors_of_any_layout(rng):
    Z, y = points(rng)
    names = np.array(["a", "b", "c"])[y]
    assert nca_loss(Z, names) == nca_loss(Z, y) == nca_loss(Z, y.tolist())
    assert nca_loss(Z.detach().t().contiguous().t(), y) == nca_loss(Z, y)
    other = nca_loss(Z, names, (Z.detach(), names), include_batch=True)
    assert other == nca_loss(Z, y, (Z.detach(), y), include_batch=True)


def test_no_gradient_is_computed_where_none_is_asked_for(rng):
    Z, y = points(rng)
    with torch.no_grad():
        loss = nca_loss(Z, y)
    assert not loss.requires_grad
    assert loss == nca_loss(Z, y).detach()
    assert not nca_loss(Z.detach(), y).requires_grad


def test_the_gradient_cannot_be_differentiated_again(rng):
    Z, y = points(rng)
    (gradient,) = torch.autograd.grad(nca_loss(Z, y), Z, create_graph=True)
    with pytest.raises(RuntimeError, match="nca_loss can be differentiated once"):
        gradient.sum().backward()


def test_rows_without_a_reference_of_their_class(rng):
    Z, y = points(rng, 7)  # classes of 3, 2 and 2
    y[-1] = 5
    with pytest.warns(UserWarning, match=r"1 rows have no other member .* classes 5"):
        loss = nca_loss(Z, y)
    assert loss == nca_loss(Z, y, warn=False)
    few = nca_loss(Z[:6], y[:6], (Z, y), warn=False)
    assert torch.isfinite(few)
    assert nca_loss(Z, y, objective="accuracy") < 0


COUNT = """
import resource, numpy as np, torch
from vicinal.torch import nca_loss
rng = np.random.default_rng(0)
def measure(n):
    Z = torch.from_numpy(rng.standard_normal((n, 4)).astype(np.float32)).requires_grad_()
    nca_loss(Z, np.arange(n) % 10).backward()
    assert torch.isfinite(Z.grad).all()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
few = measure(2_000)
print(measure(20_000) - few)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="units of ru_maxrss")
def test_memory_grows_with_the_number_of_rows():
    """20,000 rows take a few megabytes more than 2,000: one array of pairs would take 1,600."""
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 10_000  # kilobytes
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100_000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Z": np.zeros((4, 2))}, "'Z' parameter of nca_loss must hold a tensor. Got ndarray"),
        ({"Z": torch.zeros(4)}, "two axes. Got torch.float32 in 1"),
        ({"Z": torch.zeros(4, 2, dtype=torch.int64)}, "real numbers .* Got torch.int64 in 2"),
        ({"Z": torch.full((4, 2), torch.nan)}, "Z must be finite"),
        ({"y": [0, 1]}, r"one label for each of the 4 rows. Got an array of shape \(2,\)"),
        ({"y": [0, 1, "a", 1]}, "must all be of one type"),
        ({"references": torch.zeros(4, 2)}, "must be None or a pair of points and their labels"),
        ({"references": (torch.zeros(4, 3), [0] * 4)}, "points of 2 dimensions, as Z has. Got 3"),
        ({"references": (torch.zeros(4, 2), ["a"] * 4)}, "must all be of one type"),
        ({"objective": "margin"}, "'objective' parameter of nca_loss must be one of 'log', 'acc"),
        ({"kernel": "cubic"}, "'kernel' parameter of nca_loss must be"),
        ({"kernel": "compact"}, r"no background.* Compact\(background=False\)"),
        ({"kernel": Compact(background=False)}, "kernel that reaches everywhere"),
    ],
)
def test_arguments_are_checked(change, message):
    arguments = {"Z": torch.zeros(4, 2), "y": [0, 1, 0, 1]} | change
    with pytest.raises((TypeError, ValueError), match=message):
        nca_loss(**arguments)


def test_kernels_with_parameters(rng):
    Z, y = points(rng)
    assert nca_loss(Z, y, kernel=Student()) == nca_loss(Z, y, kernel="student")
    compact = nca_loss(Z, y, kernel=Compact(background=False), objective="accuracy")
    assert -1 < compact < 0


def test_a_compiled_network_learns(rng):
    """torch.compile leaves the loss as it is."""
    Z, y = points(rng)
    compiled = torch.compile(lambda Z: nca_loss(2 * Z, y), backend="eager")
    assert compiled(Z) == nca_loss(2 * Z, y)


def test_the_example_in_the_docstring_runs():
    (example,) = doctest.DocTestFinder(recurse=False).find(nca_loss, "nca_loss")
    result = doctest.DocTestRunner().run(example)
    assert result.attempted > 8
    assert not result.failed
