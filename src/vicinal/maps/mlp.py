"""A network of dense layers, by default added to a linear map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from vicinal._validation import check_bool, check_option, check_part
from vicinal.core.types import Array, Map, MapCost
from vicinal.maps._layers import (
    ACTIVATIONS,
    LayerRows,
    Network,
    block_size,
    forward_in_blocks,
    known_rank,
    make_network,
    n_features,
    weights_beside,
)


@dataclass(frozen=True)
class MLP(Map):
    r"""Dense layers, added to a linear map.

    .. math::
        h_0 = x, \quad h_l = \mathrm{act}(W_l h_{l-1} + b_l), \quad z = A x + V h_L

    A fit starts with random hidden layers and V = 0, so that the first map is the linear one that
    ``init`` asks for.  With ``residual=False`` there is no A: the network of [Goldberger2005]
    section 5, which starts from a matrix of the last hidden outputs.  There is no bias at the end,
    because distances do not depend on it.

    Parameters
    ----------
    hidden : int or sequence of ints, default=(64,)
        Number of units in each hidden layer.
    activation : {"relu", "tanh", "logistic"}, default="relu"
    residual : bool, default=True
        Whether the linear map ``A x`` is added.
    n_components : int or None, default=None
        Dimensions of the embedded rows; None: the ``n_components`` of the estimator.

    Notes
    -----
    The layers are computed block by block, and once more in the pull-back: memory is that of Z and
    of a few blocks.

    References
    ----------
    [Goldberger2005] J. Goldberger et al., "Neighbourhood Components Analysis", 2005.

    Examples
    --------
    >>> from vicinal.maps import MLP
    >>> MLP(hidden=(100,), activation="logistic", residual=False)
    MLP(hidden=(100,), activation='logistic', residual=False, n_components=None)
    """

    hidden: int | Sequence[int] = (64,)
    activation: str = "relu"
    residual: bool = True
    n_components: int | None = None

    def __post_init__(self) -> None:
        hidden: Any = (self.hidden,) if isinstance(self.hidden, Integral) else self.hidden
        whole = isinstance(hidden, Sequence | np.ndarray) and not isinstance(hidden, str)
        if not (whole and len(hidden) and all(_is_size(size) for size in hidden)):
            raise ValueError(
                "The 'hidden' parameter of MLP must be an int in [1, inf) or a sequence of such. "
                f"Got {self.hidden!r} instead."
            )
        object.__setattr__(self, "hidden", tuple(int(size) for size in hidden))
        check_option(self, "activation", tuple(ACTIVATIONS))
        check_bool(self, "residual")
        if self.n_components is not None:
            check_part(self, "n_components", low=1, kind=int, closed=True)

    def with_rank(self, n_components: int) -> MLP:
        """The same map with this many dimensions."""
        return replace(self, n_components=n_components)

    def network(self, n_inputs: int) -> Network:
        """Its layers for rows of this many columns."""
        d = known_rank(self)
        return make_network(n_inputs, d, self.hidden, self.activation, self.residual)

    def forward(
        self, theta: Array, X: Any, dtype: Any = np.float64
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Embed the rows; the pull-back turns ``dZ`` into the gradient of ``theta``."""
        network = self.network(X.shape[1])
        d = network.n_components
        return forward_in_blocks(network, network.shapes, theta, X, d, dtype, network.widest)

    def cost(self, n_features: int, itemsize: int) -> MapCost:
        """The cost of a row of this many columns."""
        network = self.network(n_features)
        row_bytes, block = itemsize * network.row_entries, block_size(network.widest)
        return MapCost(network.nanoseconds(itemsize), network.size, row_bytes, block)

    def start_from(
        self, X: Any, rng: np.random.RandomState
    ) -> tuple[Any, Callable[[Array], Array]]:
        """The rows that the last matrix multiplies, and the parameters for such a matrix.

        These are the rows of X, or the last hidden outputs if ``residual`` is False.
        """
        network = self.network(X.shape[1])
        inner = network.start(rng)
        outputs = LayerRows(X, lambda x: network.hidden_outputs(inner, x)[-1], network.hidden[-1])
        rows = X if self.residual else outputs

        def theta_of(A: Array) -> Array:
            V = [weights_beside(A, X, outputs, rng)] if self.residual else []
            return np.concatenate([part.ravel() for part in (*inner, *V, A)])

        return rows, theta_of

    def penalty_weights(self, theta: Array) -> Array:
        """One for the entries of matrices, zero for biases."""
        return self._of(theta).penalty_weights

    def scaled(self, theta: Array, factor: float) -> Array:
        """The parameters whose Z is ``factor`` times as large: V and A are multiplied."""
        return self._of(theta).scaled(theta, factor)

    def _of(self, theta: Array) -> Network:
        """Its layers where only the number of parameters is known."""
        return self.network(n_features(lambda D: self.network(D).size, len(theta), repr(self)))


def _is_size(size: Any) -> bool:
    return isinstance(size, Integral) and not isinstance(size, bool) and int(size) >= 1
