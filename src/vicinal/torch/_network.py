"""What :class:`vicinal.maps.TorchMap` does with torch: checks, one precision, blocks of rows.

Only functions import torch, since the package is optional.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from vicinal.core.types import Array

_PROBED = 3  # rows on which the properties of a module are checked
_ALONE = 1e3  # units in the last place by which Z may differ if rows come one by one


def import_torch(owner: str) -> Any:
    """torch, or an error that says what to install."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"{owner} needs the package torch: pip install vicinal[torch]") from error
    return torch


def check_module(module: Any) -> None:
    """Refuse what is no module, has nothing to learn, or changes from call to call."""
    torch = import_torch("TorchMap")
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            "The 'module' parameter of TorchMap must be an instance of torch.nn.Module. "
            f"Got {module!r} instead."
        )
    for name, parameter in module.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise ValueError(
                "The 'module' parameter of TorchMap must have all its parameters: apply it to a "
                f"batch once. Got an uninitialised '{name}' instead."
            )
        if not torch.is_floating_point(parameter):
            raise ValueError(
                "The parameters of the 'module' of TorchMap must be real numbers. "
                f"Got {parameter.dtype} for '{name}' instead."
            )
        if not bool(torch.isfinite(parameter).all()):
            raise ValueError(
                "The parameters of the 'module' of TorchMap must be finite. "
                f"Got NaN or infinity in '{name}' instead."
            )
    if not trainable(module):
        raise ValueError(
            "The 'module' parameter of TorchMap must have a parameter that requires a gradient. "
            "Got none instead."
        )
    _check_layers(torch, module)


def _check_layers(torch: Any, module: Any) -> None:
    """Refuse layers that draw at random or look at the other rows of a batch."""
    nn = torch.nn
    may_drop = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)
    for name, layer in module.named_modules():
        draws = isinstance(layer, nn.RReLU)
        if isinstance(layer, may_drop):
            draws = getattr(layer, "p", getattr(layer, "dropout", 0.0)) > 0.0
        normalises = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if normalises and layer.running_mean is None:
            why, mend = "which normalises by the other rows of a batch", "set track_running_stats"
        elif layer.training and normalises:
            why, mend = "in training mode", "call module.eval(): it then uses its running averages"
        elif layer.training and draws:
            why, mend = "in training mode", "call module.eval(), which switches it off"
        else:
            continue
        raise ValueError(
            "The 'module' parameter of TorchMap must map each row on its own, and at every call to "
            f"the same point. Got the layer '{name}', {layer!r}, {why}, instead. To use it, "
            f"{mend}; to train with it, write a loop with vicinal.torch.nca_loss."
        )


def trainable(module: Any) -> list[tuple[str, Any]]:
    """Names and parameters that are learnt, in the order of ``theta``."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def last_linear(module: Any) -> Any:
    """The linear layer that a `torch.nn.Sequential` ends with; None if it ends with another."""
    torch = import_torch("TorchMap")
    while type(module) is torch.nn.Sequential and len(module):
        module = module[-1]
    return module if type(module) is torch.nn.Linear else None


def scale_carriers(module: Any) -> Array | None:
    """Which entries of ``theta`` to multiply so that the points are; None if there are none such.

    They are the weights and biases of the last linear layer, if all of them are learnt, and none
    is shared with another layer or computed from other parameters.
    """
    last, learnt = last_linear(module), [parameter for _, parameter in trainable(module)]
    if last is None or not {name for name, _ in last.named_parameters()} <= {"weight", "bias"}:
        return None
    own = {id(parameter) for parameter in last.parameters()}
    uses = [id(p) for _, p in module.named_parameters(remove_duplicate=False) if id(p) in own]
    if len(uses) > len(own) or not all(p.requires_grad for p in last.parameters()):
        return None
    return np.repeat([id(p) in own for p in learnt], [p.numel() for p in learnt])


def fingerprint(module: Any) -> str:
    """A checksum of the layers, the parameters and the buffers of a module."""
    torch = import_torch("TorchMap")
    found = hashlib.blake2b(f"{type(module).__qualname__} {module!r}".encode(), digest_size=16)
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        found.update(f"{name} {tensor.shape} {tensor.dtype} {tensor.requires_grad}".encode())
        found.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def layer_sizes(module: Any, n_features: int) -> tuple[int, int]:
    """Products and outputs of all layers for one row; what has no layers counts its parameters."""
    torch = import_torch("TorchMap")
    products, outputs = 0, 0

    def count(layer: Any, inputs: Any, found: Any) -> None:
        nonlocal products, outputs
        if not isinstance(found, torch.Tensor):
            return
        outputs += found.numel()
        for weight in layer.parameters(recurse=False):
            if weight.ndim > 1:  # a convolution multiplies it once for each place
                products += weight.numel() * max(1, found.numel() // weight.shape[0])

    leaves = [layer for layer in module.modules() if not any(layer.children())]
    hooks = [layer.register_forward_hook(count) for layer in leaves]
    try:
        with torch.no_grad():
            module(trainable(module)[0][1].new_zeros(1, n_features))
    except RuntimeError:  # rows of another length, which the fit will refuse
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return max(products, sum(p.numel() for p in module.parameters())), outputs


@contextmanager
def single_threaded_torch() -> Iterator[None]:
    """torch on one thread in this thread: its sums depend on its number of threads."""
    torch = import_torch("TorchMap")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


class Network:
    """A copy of a module in one precision, whose parameters are loaded from a vector.

    Parameters
    ----------
    module : torch.nn.Module
        It is copied.
    dtype : {"float32", "float64"}
        The precision in which it computes.
    has_factor : bool
        Whether the last entry of ``theta`` multiplies the output of the module.
    """

    def __init__(self, module: Any, dtype: str, has_factor: bool) -> None:
        torch = self.torch = import_torch("TorchMap")
        self.dtype, self.np_dtype = getattr(torch, dtype), np.dtype(dtype)
        self.module = deepcopy(module).to(self.dtype).eval()
        self.parameters = [parameter for _, parameter in trainable(self.module)]
        self.device = self.parameters[0].device
        sizes = [parameter.numel() for parameter in self.parameters]
        self.edges = np.cumsum([0, *sizes])
        self.has_factor, self.factor = has_factor, 1.0
        self.changes_input = True  # until the first rows have shown that it does not
        self._checked: int | None = None  # number of columns

    def load(self, theta: Array) -> None:
        """Set the parameters."""
        with self.torch.no_grad():
            for k, parameter in enumerate(self.parameters):
                part = theta[self.edges[k] : self.edges[k + 1]].reshape(parameter.shape)
                parameter.copy_(self.torch.from_numpy(part))
        self.factor = float(theta[-1]) if self.has_factor else 1.0

    def embed(self, rows: Array) -> Array:
        """The points of some rows."""
        Z = self._outputs(rows)
        return self.factor * Z if self.has_factor else Z

    def _outputs(self, rows: Array) -> Array:
        with self.torch.inference_mode(False), self.torch.no_grad():
            return self._numbers(self.module(self._tensor(rows)))

    def add_gradient(self, rows: Array, dZ: Array, total: Array) -> None:
        """Add the gradient by ``theta`` of the loss whose gradient by the points is ``dZ``."""
        torch = self.torch
        dZ = np.ascontiguousarray(dZ, dtype=self.np_dtype)
        with torch.inference_mode(False), torch.enable_grad():
            Z = self.module(self._tensor(rows))
            back = self._device_tensor(self.factor * dZ if self.has_factor else dZ)
            parts = torch.autograd.grad(Z, self.parameters, back, allow_unused=True)
        for k, part in enumerate(parts):
            if part is not None:
                total[self.edges[k] : self.edges[k + 1]] += self._numbers(part).ravel()
        if self.has_factor:
            total[-1] += np.einsum("ij,ij->", dZ, self._numbers(Z), dtype=np.float64)

    def _tensor(self, rows: Array) -> Any:
        """The rows as a tensor: on the CPU the same memory, unless the module would change it."""
        return self._device_tensor(np.array(rows) if self.changes_input else rows)

    def _device_tensor(self, array: Array) -> Any:
        array = array.astype(self.np_dtype, copy=False)
        return self.torch.from_numpy(array).to(self.device)

    def _numbers(self, tensor: Any) -> Array:
        return tensor.detach().cpu().numpy()

    def check(self, X: Any, n_components: int) -> None:
        """Refuse a module that does not map each row on its own; note if it changes its input."""
        if self._checked == X.shape[1] or not len(X):
            return
        torch, rows = self.torch, X.dense(slice(0, _PROBED), self.np_dtype)
        with torch.inference_mode(False), torch.no_grad():
            x = self._device_tensor(np.array(rows))
            before = x._version
            try:
                Z = self.module(x)
            except RuntimeError as error:
                raise ValueError(
                    "The 'module' parameter of TorchMap must map rows of the "
                    f"{rows.shape[1]} features. It failed instead: {error}"
                ) from error
        shape = tuple(Z.shape) if isinstance(Z, torch.Tensor) else type(Z).__name__
        if shape != (len(rows), n_components):
            raise ValueError(
                f"The 'module' parameter of TorchMap must map {len(rows)} rows to an output of "
                f"shape ({len(rows)}, {n_components}). Got {shape} instead."
            )
        self.changes_input = x._version != before
        together = self._numbers(Z)
        alone = np.concatenate([self._outputs(rows[i : i + 1]) for i in range(len(rows))])
        _check_same(together, self._outputs(rows), "a row at every call to the same point", 0.0)
        _check_same(together, alone, "each row on its own", _ALONE)
        self._checked = rows.shape[1]


def _check_same(Z: Array, other: Array, what: str, ulps: float) -> None:
    size, apart = float(np.abs(Z).max()), float(np.abs(Z - other).max())
    if np.isfinite(size) and apart > ulps * np.finfo(Z.dtype).eps * size:
        raise ValueError(
            f"The 'module' parameter of TorchMap must map {what}. Its outputs for the same rows "
            f"differ by up to {apart:.2g} instead."
        )
