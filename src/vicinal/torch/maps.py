"""Networks of one's own, in torch, as maps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from typing import Any

import numpy as np

from vicinal._threads import n_threads, run
from vicinal._validation import check_number, check_option, warn
from vicinal.core.types import Array, Map, MapCost
from vicinal.maps._layers import block_size, block_slices
from vicinal.torch._network import (
    Network,
    check_module,
    fingerprint,
    import_torch,
    last_linear,
    layer_sizes,
    scale_carriers,
    single_threaded_torch,
    trainable,
)


class TorchMap(Map):
    r"""Any module of torch as a map: :math:`z_i = f_\theta(x_i)` ([Goldberger2005]_ section 5).

    The loss and its gradient :math:`\partial L / \partial Z` are the closed forms of the objective;
    autograd pulls that gradient back to the parameters.

    Parameters
    ----------
    module : torch.nn.Module
        Maps a tensor of rows, (n, n_features), to one of points, (n, n_components), each row on its
        own.  It is copied: the module that was given does not change.  The parameters that require
        a gradient are learnt.  They start from the values that they have, but for the scale of the
        points, which the fit chooses; ``init`` of the estimator must be left at its default.  All
        other parameters, and the buffers, stay as they are.
    n_components : int, default=None
        Dimensions of the points.  None: those of the last layer, if the module is a `Sequential`
        that ends with a `Linear`, or else those of an output for rows of zeros, with as many
        features as the first layer states.
    dtype : {"float32", "float64"} or None, default=None
        The precision in which the module computes.  None: that of the fit, which is float64 below
        1,000 rows, and float32 followed by float64 from there on, whatever the module has.  Name
        one if the module cannot change its precision, or if its device has no float64.

    Attributes
    ----------
    n_parameters : int
        Length of ``theta``.
    device : str
        Where the module computes.

    Notes
    -----
    ``theta`` holds the parameters that are learnt in the order of ``named_parameters``.  If the
    module is a `Sequential` that ends with a `Linear`, that layer carries the scale of the points.
    For any other module, ``theta`` has one more entry, a learnt factor of the output that starts at
    one, since objectives need a scale and a module may have none to change.  The penalty ``alpha``
    applies to the factor and to parameters of two or more axes, but not to biases and the gains of
    normalisation, which have one.

    The module always computes as after ``module.eval()``.  Layers that draw at random, such as
    `Dropout`, or that look at the other rows of a batch, such as `BatchNorm1d`, are refused by name
    if they are in training mode: the loss of a fit must be a function of ``theta`` alone, or line
    searches, resumed fits and predictions would not agree.  To train with such layers, write a loop
    with :func:`vicinal.torch.nca_loss`.

    Rows are fed in blocks of at most 1,024, dense, centred and scaled like those of all maps; a
    sparse table is made dense block by block.  On the CPU a block that has the right precision is
    not copied, torch runs on one thread for each block, and the bits do not depend on the number
    of threads.  Activations are kept for one block and thread at a time: the pull-back computes
    them again.  If the module is on a GPU, blocks and gradients travel; the objective itself is
    computed on the CPU.  Estimators with ``device="cuda"`` take matrices and weights of columns.

    References
    ----------
    .. [Goldberger2005] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       components analysis", NIPS 17, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from torch import manual_seed, nn  # doctest: +SKIP
    >>> from vicinal import NCA
    >>> from vicinal.maps import TorchMap
    >>> X, y = load_iris(return_X_y=True)
    >>> _ = manual_seed(0)  # doctest: +SKIP
    >>> module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))  # doctest: +SKIP
    >>> model = NCA(mapping=TorchMap(module), alpha=1e-3).fit(X, y)  # doctest: +SKIP
    >>> model.transform(X).shape  # doctest: +SKIP
    (150, 2)
    """

    n_components: int

    def __init__(
        self, module: Any, n_components: int | None = None, *, dtype: str | None = None
    ) -> None:
        check_module(module)
        self.dtype = dtype
        check_option(self, "dtype", (None, "float32", "float64"))
        self._set(deepcopy(module).eval())
        self.n_components = self._dimensions() if n_components is None else n_components
        check_number(self, "n_components", 1, integer=True)

    def _set(self, module: Any) -> None:
        """Take a module, which is not copied."""
        for parameter in module.parameters():
            parameter.grad = None
        self._module = module
        self.device = str(trainable(module)[0][1].device)
        learnt = [parameter for _, parameter in trainable(module)]
        self._scaling = scale_carriers(module)
        weights = np.repeat([float(p.ndim > 1) for p in learnt], [p.numel() for p in learnt])
        self._weights = weights if self._scaling is not None else np.append(weights, 1.0)
        self.n_parameters = len(self._weights)
        self._networks: dict[str, Network] = {}
        self._lock = threading.RLock()  # several fits may share a map
        self._fingerprint = fingerprint(module)

    def _dimensions(self) -> int:
        """The dimensions of the points, from the module alone."""
        last = last_linear(self._module)
        if last is not None:
            return int(last.out_features)
        torch = import_torch("TorchMap")
        stated = [m.in_features for m in self._module.modules() if hasattr(m, "in_features")]
        try:
            first = trainable(self._module)[0][1]
            with torch.no_grad():
                Z = self._module(first.new_zeros(1, *stated[:1]))
            return int(Z.shape[1])
        except (RuntimeError, IndexError, AttributeError) as error:
            raise ValueError(
                "The 'n_components' parameter of TorchMap must be an int if the module does not "
                "tell the dimensions of its points. Got None instead."
            ) from error

    def start(self, X: Any, rng: np.random.RandomState) -> Array:
        """The parameters of the module that was given."""
        parts = [p.detach().cpu().double().numpy().ravel() for _, p in trainable(self._module)]
        theta = np.concatenate(parts if self._scaling is not None else [*parts, [1.0]])
        if not np.isfinite(self.forward(theta, X)[0]).all():
            raise ValueError(
                "The 'module' parameter of TorchMap must map all rows to finite points. "
                "Got NaN or infinity instead."
            )
        return theta

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Embed the rows; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        theta = np.array(theta, dtype=np.float64)  # the caller may change it before the pull
        network = self._network(dtype)
        slices = block_slices(len(X), X.shape[1])
        Z = np.empty((len(X), self.n_components), dtype)

        def embed(rows: slice, thread: int) -> None:
            Z[rows] = network.embed(X.dense(rows, network.np_dtype))

        def pull(dZ: Array) -> Array:
            # partial sums, few enough to store, and as many for any number of threads
            n_groups = max(4, min(16, 2**24 // len(theta)))
            size = max(1, -(-len(slices) // n_groups))
            groups = [slices[g : g + size] for g in range(0, len(slices), size)]
            parts = np.zeros((len(groups), len(theta)))

            def gradient(g: int, thread: int) -> None:
                for rows in groups[g]:
                    network.add_gradient(X.dense(rows, network.np_dtype), dZ[rows], parts[g])

            self._each(network, theta, gradient, range(len(groups)))
            return parts.sum(axis=0)

        self._each(network, theta, embed, slices, X)
        return Z, pull

    def _network(self, dtype: Any) -> Network:
        """The module in the precision that was asked for."""
        name = self.dtype or np.dtype(dtype).name
        with self._lock:
            if name not in self._networks:
                self._networks[name] = Network(self._module, name, self._scaling is None)
            return self._networks[name]

    def _each(
        self, network: Network, theta: Array, work: Any, tasks: Any, checked: Any = None
    ) -> None:
        """``work(task, thread)`` for all tasks, with the parameters loaded."""
        torch, on_cpu = network.torch, network.device.type == "cpu"
        threads = n_threads() if on_cpu else 1

        def alone(task: Any, thread: int) -> None:
            if on_cpu:
                torch.set_num_threads(1)  # holds for the thread that calls it
            work(task, thread)

        with self._lock, single_threaded_torch() if on_cpu else nullcontext():
            network.load(theta)
            if checked is not None:
                network.check(checked, self.n_components)
            run(alone, tasks, threads)

    def cost(self, n_features: int, itemsize: int) -> MapCost:
        """The cost of a row of this many columns, on a CPU."""
        with self._lock:
            products, outputs = layer_sizes(self._module, n_features)
        nanoseconds = (0.15 * products + 6.0 * outputs) * itemsize / 4
        row_bytes = itemsize * (n_features + 2 * outputs)  # and their derivatives
        return MapCost(nanoseconds, self.n_parameters, row_bytes, block_size(n_features))

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose points are ``factor`` times as far from the origin."""
        if self._scaling is not None:
            return np.where(self._scaling, factor * theta, theta)
        return np.append(theta[:-1], factor * theta[-1])

    def penalty_weights(self, theta: Array) -> Array:
        """One for weights and for the factor of the output, zero for parameters of one axis."""
        return self._weights

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TorchMap):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self._fingerprint, self.n_components, self.dtype, self.device

    def __repr__(self) -> str:
        # the parameters of a fit are compared by their texts, so that a checksum is part of it
        dtype = "" if self.dtype is None else f", dtype={self.dtype!r}"
        return (
            f"TorchMap({type(self._module).__name__}, n_components={self.n_components}{dtype}, "
            f"n_parameters={self.n_parameters}, checksum={self._fingerprint[:8]!r})"
        )

    def stored_fields(self) -> dict[str, Any]:
        """What a model file holds of the map: the arrays of the module, but not its code."""
        state = {}
        for name, tensor in self._module.state_dict().items():
            try:
                state[name] = tensor.detach().cpu().numpy()
            except (AttributeError, TypeError) as error:  # no tensor, or as bfloat16
                raise TypeError(
                    f"A model file cannot hold {name!r} of the module of a TorchMap: NumPy has no "
                    "such arrays."
                ) from error
        kind = type(self._module).__name__
        return {
            "n_components": self.n_components,
            "dtype": self.dtype,
            "kind": kind,
            "state": state,
        }

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any], module: Any) -> TorchMap:
        """Invert `stored_fields`, with a module of the same architecture, which is copied."""
        if module is None:
            raise ValueError(
                f"it holds a TorchMap of a module {fields['kind']!r}, whose arrays are stored but "
                "whose code is not. Pass a module of the same architecture: load(path, module=...)"
            )
        torch = import_torch("TorchMap")
        check_module(module)
        module = deepcopy(module)
        try:
            state = {name: torch.as_tensor(array) for name, array in fields["state"].items()}
            module.load_state_dict(state)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                f"the 'module' parameter must have the architecture that was saved: {error}"
            ) from error
        return cls(module, fields["n_components"], dtype=fields["dtype"])

    def __getstate__(self) -> dict[str, Any]:
        module = self._module
        if self.device != "cpu":  # so that it can be loaded where there is no such device
            module = deepcopy(module).cpu()
        return {
            "module": module,
            "device": self.device,
            "n_components": self.n_components,
            "dtype": self.dtype,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.n_components, self.dtype = state["n_components"], state["dtype"]
        module = state["module"]
        if state["device"] != "cpu":
            try:
                module = module.to(state["device"])
            except (RuntimeError, AssertionError):  # as torch says that it was built without CUDA
                warn(f"The module of a TorchMap was on {state['device']}; it is now on the CPU.")
        self._set(module)
