"""Curves of how faithful embeddings are to the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vicinal.metrics import knn_accuracy, r_nx_curve
from vicinal.plotting._matplotlib import pyplot
from vicinal.plotting._palette import COLOURS

__all__ = ["embedding_quality"]

_STYLES = ("-", "--", ":")  # the eleventh embedding has the first colour and the second style


def embedding_quality(
    embeddings: Mapping[str, Any],
    X: Any,
    y: Any = None,
    axes: Any = None,
    *,
    n_neighbors: Iterable[int] = range(1, 31),
    max_neighbors: int | None = None,
    metric: Any = "euclidean",
    sample_size: int | None = None,
    random_state: Any = 0,
) -> Any:
    """Draw the quality of several embeddings of the same data, over all sizes of neighbourhoods.

    The left panel shows :func:`vicinal.metrics.r_nx_curve` over the logarithm of K, with the area
    under the curve in the legend; the right one, if there are labels, the leave-one-out accuracy
    of the k nearest rows.

    Parameters
    ----------
    embeddings : mapping of str to array-like of shape (n, n_components)
        Name and places of the rows in each embedding.
    X : {array-like, sparse matrix} of shape (n, n_features), or (n, n) if precomputed
        The data, or distances between all rows.
    y : array-like of shape (n,), default=None
        Class labels; None: there is no right panel.
    axes : matplotlib Axes or sequence of two of them, default=None
        Where to draw; None makes a new figure.
    n_neighbors : iterable of int, default=range(1, 31)
        The k of the right panel; those of n or more are left out.
    max_neighbors, metric, sample_size, random_state
        As in :func:`vicinal.metrics.r_nx_curve`.  All embeddings are measured on the same rows.

    Returns
    -------
    figure : matplotlib Figure
    """
    if not embeddings:
        raise ValueError(
            "The 'embeddings' parameter of embedding_quality must hold at least one embedding."
        )
    measured = {"max_neighbors": max_neighbors, "metric": metric,
                "sample_size": sample_size, "random_state": random_state}  # fmt: skip
    curves = {name: r_nx_curve(X, Z, **measured) for name, Z in embeddings.items()}
    ks = np.array([k for k in n_neighbors if k < len(next(iter(embeddings.values())))])
    shares = {} if y is None else {n: knn_accuracy(Z, y, ks) for n, Z in embeddings.items()}

    count = 1 + (y is not None)
    if axes is None:
        _, axes = pyplot().subplots(1, count, figsize=(4.8 * count, 3.6), layout="constrained")
    axes = np.ravel(axes)
    if len(axes) != count:
        raise ValueError(f"There are {count} panels. Got {len(axes)} axes instead.")
    for at, (name, (K, R)) in enumerate(curves.items()):
        look = {"color": COLOURS[at % len(COLOURS)],
                "linestyle": _STYLES[at // len(COLOURS) % len(_STYLES)]}  # fmt: skip
        area = np.average(R, weights=1.0 / K)
        axes[0].plot(K, R, label=f"{name} ({area:.3f})", **look)
        if shares:
            axes[1].plot(ks, shares[name], label=name, **look)
    axes[0].set_xscale("log")
    axes[0].set(xlabel="K", ylabel="$R_{NX}(K)$")
    if shares:
        axes[1].set(xlabel="k", ylabel="leave-one-out accuracy of k-NN")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="0.9", linewidth=0.6)
        ax.legend(frameon=False, fontsize="small")
    return axes[0].figure
