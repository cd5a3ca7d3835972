"""An objective in closed form as a function of torch's autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from vicinal.core.types import Array
from vicinal.engines import cuda
from vicinal.objectives.nca import NCALoss
from vicinal.targets import Labels


def _where_it_lies(Z: Any) -> Any:
    """The points for engines: an array of the host, or a tensor on a GPU, which stays there."""
    if not cuda.is_tensor_of_device(Z):
        return Z.cpu().numpy()
    from vicinal.engines.cuda.arrays import DeviceArray

    return DeviceArray(Z)


class _ClosedForm(torch.autograd.Function):
    """Value and gradient are computed together; the gradient waits for the backward pass."""

    @staticmethod
    def forward(ctx: Any, Z: Any, evaluate: Any) -> Any:
        value, dZ = evaluate(_where_it_lies(Z.detach()), ctx.needs_input_grad[0])
        if dZ is not None:
            dZ = torch.from_numpy(dZ) if isinstance(dZ, np.ndarray) else dZ.tensor
            ctx.save_for_backward(dZ.to(Z.device), Z)
        return Z.new_tensor(value)

    @staticmethod
    def backward(ctx: Any, by_value: Any) -> Any:
        return by_value * _Gradient.apply(*ctx.saved_tensors), None


class _Gradient(torch.autograd.Function):
    """The gradient at Z, which has no derivative.

    With torch's `once_differentiable`, a second derivative by Z would be zero without an error
    where the first was asked for by ``create_graph=True``.
    """

    @staticmethod
    def forward(ctx: Any, dZ: Any, Z: Any) -> Any:
        return dZ.clone()

    @staticmethod
    def backward(ctx: Any, by_gradient: Any) -> Any:
        raise RuntimeError(
            "nca_loss can be differentiated once: its gradient is a closed form whose derivative "
            "is not computed."
        )


@torch.compiler.disable
def closed_form(
    Z: Any, loss: NCALoss, target: Labels, queries: Array, references: Array | None
) -> tuple[Any, Array]:
    """The loss as a tensor, and the queries that it leaves out."""
    left_out: list[Array] = []

    def evaluate(points: Array, gradient: bool) -> tuple[float, Array | None]:
        found, rows = loss.evaluate(points, target, queries, references, None, gradient)
        left_out.append(rows)
        return found.value, found.dZ

    return _ClosedForm.apply(Z, evaluate), left_out[0]
