"""Losses for networks that are trained by a loop of one's own, in torch.

Needs torch, which is imported when a function is called: ``pip install vicinal[torch]``.  To train
a network by an estimator instead, see :class:`vicinal.maps.TorchMap`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vicinal import densities
from vicinal._public import listing as _listing
from vicinal._validation import check_label_types
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.objectives._odds import warn_left_out
from vicinal.objectives.nca import NCALoss
from vicinal.targets import Labels
from vicinal.torch._network import import_torch

if TYPE_CHECKING:
    import torch

__all__ = ["nca_loss"]
__dir__ = _listing(__name__)


def nca_loss(
    Z: torch.Tensor,
    y: Any,
    references: tuple[torch.Tensor, Any] | None = None,
    *,
    include_batch: bool = False,
    objective: str = "log",
    kernel: str | Kernel = "gaussian",
    warn: bool = True,
) -> torch.Tensor:
    r"""Mean loss of stochastic nearest neighbours, as a tensor that can be differentiated.

    A row i of Z picks reference j with probability
    :math:`p_{ij} = e^{-\|z_i - z_j\|^2} / \sum_{k} e^{-\|z_i - z_k\|^2}` and is right with
    probability :math:`p_i = \sum_{j : y_j = y_i} p_{ij}` [Goldberger2005]_.  The loss is the mean
    of :math:`-\log p_i`, or of :math:`-p_i`, over the rows of Z.

    Parameters
    ----------
    Z : tensor of shape (n, d)
        Embedded rows.
    y : tensor or array-like of shape (n,)
        Their class labels, of any type that can be sorted.
    references : (tensor of shape (m, d), labels of shape (m,)), default=None
        The rows that the rows of Z pick from, and their labels: a sample of other training rows, or
        a memory of earlier batches.  Gradients flow to them as well, unless they are detached.
        None: the rows of Z pick from one another, and never themselves.
    include_batch : bool, default=False
        With ``references``: whether the rows of Z pick from the other rows of Z as well.
    objective : {"log", "accuracy"}, default="log"
        Which loss.
    kernel : str or Kernel, default="gaussian"
        Replaces :math:`e^{-u^2}`: a name or a kernel of :mod:`vicinal.densities`, without a
        background.
    warn : bool, default=True
        Whether to warn about rows without a reference of their class: "log" leaves them out, and
        "accuracy" counts them as wrong without a warning.

    Returns
    -------
    loss : tensor without axes
        On the device of Z, with its precision; float16 and bfloat16 become float32.

    Notes
    -----
    The usual way to write this loss holds several arrays of n × (n + m) numbers for autograd.  Here
    value and gradient are closed forms, computed together in one call: up to 500 rows in whole
    arrays, beyond that in tiles, so that memory is O((n + m) d).  The gradient cannot be
    differentiated again.

    Tensors on a GPU stay there; see docs/howto/gpu.md.  The kernels "compact" and those of
    `Compact` are for tensors of the CPU, as are tensors of other devices, which are copied.

    The width of the kernel is fixed, so that the scale of Z matters.  A network whose last layer
    has weights learns it; a normalised output has to be multiplied by a parameter.

    References
    ----------
    .. [Goldberger2005] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       components analysis", NIPS 17, 2005.

    Examples
    --------
    A network with dropout, trained by Adam on batches that pick from the batch before as well:

    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from vicinal.torch import nca_loss
    >>> X, y = map(torch.from_numpy, load_digits(return_X_y=True))
    >>> X = X.float() / 16
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(
    ...     torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 8)
    ... )
    >>> optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)
    >>> losses, memory = [], None
    >>> for epoch in range(4):
    ...     for rows in torch.randperm(len(X)).split(250):
    ...         Z = network(X[rows])
    ...         loss = nca_loss(Z, y[rows], memory, include_batch=True)
    ...         optimiser.zero_grad()
    ...         loss.backward()
    ...         optimiser.step()
    ...         losses.append(loss.item())
    ...         memory = Z.detach(), y[rows]
    >>> losses[0] > 2 and sum(losses[-8:]) / 8 < 0.5
    True
    """
    pt = import_torch("nca_loss")
    loss = NCALoss(_check_objective(objective), _check_kernel(kernel))
    Z = _check_points(pt, Z, "Z")
    labels = _check_labels(pt, y, len(Z), "y")
    n, chosen = len(Z), None
    if references is not None:
        if not (isinstance(references, tuple | list) and len(references) == 2):
            raise TypeError(
                "The 'references' parameter of nca_loss must be None or a pair of points and their "
                f"labels. Got {type(references).__name__} instead."
            )
        R = _check_points(pt, references[0], "references").to(Z)
        if R.shape[1] != Z.shape[1]:
            raise ValueError(
                f"The 'references' parameter of nca_loss must have points of {Z.shape[1]} "
                f"dimensions, as Z has. Got {R.shape[1]} instead."
            )
        others = _check_labels(pt, references[1], len(R), "references")
        check_label_types([*labels[:1].tolist(), *others[:1].tolist()])
        Z, labels = pt.cat([Z, R]), np.concatenate([labels, others])
        chosen = None if include_batch else np.arange(n, len(labels))
    target = Labels(labels)
    from vicinal.torch._closed_form import closed_form

    value, left_out = closed_form(Z, loss, target, np.arange(n), chosen)
    if warn and objective == "log":
        warn_left_out(target, left_out)
    return value


def _check_objective(objective: Any) -> str:
    if objective not in ("log", "accuracy"):
        raise ValueError(
            "The 'objective' parameter of nca_loss must be one of 'log', 'accuracy'. "
            f"Got {objective!r} instead."
        )
    return objective


def _check_kernel(kernel: Any) -> Kernel:
    found = densities.resolve(kernel, "nca_loss")
    if found.background:
        raise ValueError(
            "The 'kernel' parameter of nca_loss must have no background, which estimators fit to "
            f"all rows. Got {found!r} instead; Compact(background=False) has none."
        )
    return found


def _check_points(pt: Any, Z: Any, name: str) -> Any:
    """A matrix of floating point numbers; half precision becomes float32."""
    if not isinstance(Z, pt.Tensor):
        raise TypeError(
            f"The {name!r} parameter of nca_loss must hold a tensor. "
            f"Got {type(Z).__name__} instead."
        )
    if Z.ndim != 2 or not pt.is_floating_point(Z):
        raise ValueError(
            f"The {name!r} parameter of nca_loss must hold real numbers in two axes. "
            f"Got {Z.dtype} in {Z.ndim} instead."
        )
    return Z if Z.dtype in (pt.float32, pt.float64) else Z.float()


def _check_labels(pt: Any, y: Any, n: int, name: str) -> Array:
    if isinstance(y, pt.Tensor):
        y = y.detach().cpu().numpy()
    check_label_types(y)
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(
            f"The {name!r} parameter of nca_loss must hold one label for each of the {n} rows. "
            f"Got an array of shape {labels.shape} instead."
        )
    return labels
