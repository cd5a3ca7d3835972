"""Curves of how faithful embeddings are to the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from vicinal.core.types import Array
from vicinal.metrics import knn_accuracy, r_nx_curve
from vicinal.plotting._colours import line_colours
from vicinal.plotting._fitted import Fitted, principal_components, standardiser
from vicinal.plotting._matplotlib import Display, plain_axes

_STYLES = ("-", "--", ":")  # the eleventh embedding has the first colour and the second style
_ROWS = 2000  # rows that are compared with all others, unless the user says otherwise


class EmbeddingQualityDisplay(Display):
    r"""How many of the K nearest rows embeddings keep, :math:`R_{NX}(K)`, for all K.

    A second panel shows the leave-one-out accuracy of the k nearest rows, if there are labels.

    Parameters
    ----------
    curves : mapping of str to (K, R)
        What :func:`vicinal.metrics.r_nx_curve` returns for each embedding.
    n_neighbors : array-like of int, default=None
        The k of the second panel.
    accuracies : mapping of str to array-like, default=None
        Accuracies for each k; None: there is no second panel.

    Attributes
    ----------
    curves, accuracies : dict
    n_neighbors : ndarray
    areas : dict of str to float
        Area under each curve over the logarithm of K, as :func:`vicinal.metrics.r_nx_auc`.
    axes_ : ndarray of matplotlib Axes
    ax_ : matplotlib Axes
        The first panel.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import KSNE
    >>> from vicinal.plotting import EmbeddingQualityDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> ksne = KSNE(random_state=0).fit(X)  # doctest: +SKIP
    >>> EmbeddingQualityDisplay.from_estimator(ksne, X, y)  # doctest: +SKIP
    """

    def __init__(
        self,
        curves: Mapping[str, tuple[Array, Array]],
        *,
        n_neighbors: Any = None,
        accuracies: Mapping[str, Any] | None = None,
    ) -> None:
        self.curves = dict(curves)
        self.accuracies = {} if accuracies is None else dict(accuracies)
        self.n_neighbors = np.array([] if n_neighbors is None else n_neighbors, dtype=int)
        self.areas = {
            name: float(np.average(R, weights=1.0 / K)) for name, (K, R) in self.curves.items()
        }

    @classmethod
    def from_embeddings(
        cls,
        embeddings: Mapping[str, Any],
        X: Any,
        y: Any = None,
        *,
        n_neighbors: Iterable[int] = range(1, 31),
        max_neighbors: int | None = None,
        metric: Any = "euclidean",
        sample_size: int | None = None,
        random_state: Any = 0,
        ax: Any = None,
    ) -> EmbeddingQualityDisplay:
        """Measure and draw several embeddings of the same data.

        Parameters
        ----------
        embeddings : mapping of str to array-like of shape (n, n_components)
            Name and places of the rows in each embedding.
        X : {array-like, sparse matrix} of shape (n, n_features), or (n, n) if precomputed
            The data, or distances between all rows.
        y : array-like of shape (n,), default=None
            Class labels; None: there is no second panel.
        n_neighbors : iterable of int, default=range(1, 31)
            The k of the second panel; values of n or more are left out.
        max_neighbors, metric, sample_size, random_state
            As in :func:`vicinal.metrics.r_nx_curve`.  All embeddings are measured on the same rows.
        ax : matplotlib Axes or sequence of two of them, default=None
            None makes a new figure.
        """
        if not embeddings:
            raise ValueError(
                "The 'embeddings' parameter of EmbeddingQualityDisplay must hold at least one "
                "embedding."
            )
        measured = {"max_neighbors": max_neighbors, "metric": metric,
                    "sample_size": sample_size, "random_state": random_state}  # fmt: skip
        curves = {name: r_nx_curve(X, Z, **measured) for name, Z in embeddings.items()}
        ks = np.array([k for k in n_neighbors if k < len(next(iter(embeddings.values())))])
        shares = None
        if y is not None:
            shares = {name: knn_accuracy(Z, y, ks) for name, Z in embeddings.items()}
        return cls(curves, n_neighbors=ks, accuracies=shares).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sample_size: int | None = None,
        **options: Any,
    ) -> EmbeddingQualityDisplay:
        """Measure a learnt map, and as many principal components.

        The data are the columns that the learner sees, scaled to unit deviation.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; a pipeline must end in an estimator with ``transform``.
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Class labels; None: there is no second panel.
        sample_size : int, default=None
            Number of rows that are compared with all others; None: 2,000 if there are more.
        **options
            As in :meth:`from_embeddings`: ``random_state``, which draws those rows, ``ax``, ...
        """
        fitted = Fitted(estimator, "EmbeddingQualityDisplay")
        columns = fitted.columns(X)
        Z = fitted.embed(X)
        pca = principal_components(columns, Z.shape[1])
        if sample_size is None and columns.shape[0] > _ROWS:
            sample_size = _ROWS
        places = {"PCA": pca.transform(columns), fitted.name: Z}
        scaled = standardiser(columns).fit_transform(columns)
        return cls.from_embeddings(places, scaled, y, sample_size=sample_size, **options)

    def plot(self, ax: Any = None) -> EmbeddingQualityDisplay:
        """Draw the curves into ``ax``, or into a new figure."""
        count = 1 + bool(self.accuracies)
        axes = self._open(ax, count, (4.8 * count, 3.6))
        colours = line_colours(axes[0])
        for at, (name, (K, R)) in enumerate(self.curves.items()):
            look = {"color": colours[at % len(colours)],
                    "linestyle": _STYLES[at // len(colours) % len(_STYLES)]}  # fmt: skip
            axes[0].plot(K, R, label=f"{name} ({self.areas[name]:.3f})", **look)
            if self.accuracies:
                axes[1].plot(self.n_neighbors, self.accuracies[name], label=name, **look)
        axes[0].set_xscale("log")
        axes[0].set(xlabel="K", ylabel="$R_{NX}(K)$")
        if self.accuracies:
            axes[1].set(xlabel="k", ylabel="leave-one-out accuracy of k-NN")
        for each in axes:
            plain_axes(each)
            each.legend(frameon=False, fontsize="small")
        axes[0].get_legend().set_title("area under the curve", {"size": "small"})
        return self


def embedding_quality(
    embeddings: Mapping[str, Any], X: Any, y: Any = None, axes: Any = None, **options: Any
) -> Any:
    """Draw several embeddings of the same data; return the figure.

    The parameters are those of :meth:`EmbeddingQualityDisplay.from_embeddings`.
    """
    return EmbeddingQualityDisplay.from_embeddings(embeddings, X, y, ax=axes, **options).figure_
