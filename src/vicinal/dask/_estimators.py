"""Estimators that learn from dask arrays, whose rows stay on the workers of a cluster.

Each is its plain class in all but this: ``fit`` hands a table on workers to the plain estimator,
which learns from it by the borders of the library, and predictions for dask arrays are lazy.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from vicinal import densities, neighborhoods
from vicinal._validation import check_option
from vicinal.core.types import is_auto
from vicinal.dask import _engines, _shards  # noqa: F401  (the first registers the backend)
from vicinal.dask._cluster import Cluster
from vicinal.dask._lazy import by_block, check_whole_rows, is_lazy, lazily, on_host
from vicinal.dask._table import BlockTable
from vicinal.estimators import knca, mlkr, nca, nca_regressor
from vicinal.estimators._classifier import settle

#: most bytes of embedded training rows that a fit brings to the client
_GATHER_UP_TO = {"auto": 2**30, "gather": np.inf, "shards": 0}


def _with_client(plain: Callable[..., None]) -> Callable[..., None]:
    """The constructor of a plain class, with the parameters of a cluster besides."""

    def __init__(
        self: Any, *args: Any, references: str = "auto", client: Any = None, **parameters: Any
    ) -> None:
        plain(self, *args, **parameters)
        self.references, self.client = references, client

    own, only = inspect.signature(plain), inspect.Parameter.KEYWORD_ONLY
    defaults = {"references": "auto", "client": None}
    more = [inspect.Parameter(name, only, default=value) for name, value in defaults.items()]
    parameters = [*own.parameters.values(), *more]
    __init__.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return __init__


class OnCluster:
    """What the estimators of this package add to their plain classes; not public."""

    #: the class that it is on one machine
    _plain: ClassVar[type]
    client: Any = None
    references: str = "auto"
    #: the embedded training rows, lazily, where they stay on the workers
    references_: Any
    _kind = "classifier"

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._plain = next(base for base in cls.__mro__ if not issubclass(base, OnCluster))
        if cls._plain is not object:
            cls.__init__ = _with_client(cls._plain.__init__)  # type: ignore[method-assign]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Without the client, which can be neither cloned nor saved."""
        return [*cls._plain._get_param_names(), "references"]  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        state.pop("client", None)
        return state

    def to_local(self) -> Any:
        """The same as an estimator of `vicinal` itself, which knows of no cluster.

        Returns
        -------
        model : estimator
            It saves, predicts and reports where there is no dask.  Training rows that stay on the
            workers (``references_``) are embedded and brought here.

        Raises
        ------
        MemoryError
            If they do not fit.
        """
        local, Z = self._light(), vars(self).get("references_")
        if Z is not None:
            needed, free = 2 * Z.nbytes, _free_memory()
            if needed > free:
                raise MemoryError(
                    f"The {len(Z):,} embedded training rows of {self._plain.__name__} need "
                    f"{needed / 1e9:.3g} GB while they are put together, of {free / 1e9:.3g} GB "
                    "that are free. Leave them on the workers: predict, predict_proba, kneighbors "
                    "and score work without to_local()."
                )
            local._model = copy.copy(local._model)
            (local._model.Z,) = self._computed(Z)
        return local

    def _light(self) -> Any:
        """The plain estimator, without training rows that stay on the workers."""
        plain: Any = self._plain
        local, not_plain = plain.__new__(plain), ("client", "references", "references_")
        vars(local).update({key: part for key, part in vars(self).items() if key not in not_plain})
        return local

    def _computed(self, *lazy: Any) -> tuple[Any, ...]:
        """Lazy arrays in memory, by the client if one was given."""
        from dask.base import compute

        found: tuple[Any, ...] = compute(*lazy, scheduler=self.client)
        return found

    def _asked(self, X: Any, question: Callable[[Any], _shards.Question]) -> Any:
        """The answers from training rows on the workers: lazy ones for a dask array."""
        check_is_fitted(self, "n_components_")
        local = self._light()
        arrays = _shards.answers(local, self.references_, X, question(local))
        found = tuple(arrays) if is_lazy(X) else self._computed(*arrays)
        return found[0] if len(found) == 1 else found

    @property
    def _in_shards(self) -> bool:
        return "references_" in vars(self)

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, resume_from: Any = None
    ) -> Any:
        """Learn the map from a dask array, whose rows stay on the workers.

        Parameters
        ----------
        X : dask array of shape (n_samples, n_features)
            Blocks of whole rows, dense or CSR, float32 or float64.  They are computed, and held by
            the workers until the fit ends.  An array in memory is learnt from as usual.
        y : array-like or dask array of shape (n_samples,)
            Labels, or numbers for regressors.  They are brought to the client.
        sample_weight : array-like or dask array of shape (n_samples,), default=None
            Importance of each row, where the plain class takes it.
        resume_from : path, default=None
            A file of :class:`vicinal.callbacks.Checkpoint`: complete the fit that it holds, on any
            cluster.  The rows and their blocks must be the same.

        Returns
        -------
        self : estimator

        Raises
        ------
        ClusterLostError
            If the scheduler goes away.  The message says how to resume.
        """
        local, more = self._light(), {"resume_from": resume_from}
        if sample_weight is not None:
            more["sample_weight"] = on_host(sample_weight)
        y, lazy = on_host(y), {}
        if not is_lazy(X):
            local.fit(X, y, **more)
        else:
            self._check(X, y)
            with Cluster(self.client, self._plain.__name__) as cluster:
                table = BlockTable.of(X, cluster, _GATHER_UP_TO[self.references])
                local.fit(table, y, **more)
            if not local._model.is_here:
                lazy["references_"] = _shards.embedded(local, X, table.given)
        vars(self).pop("references_", None)
        vars(self).update(vars(local) | lazy)
        return self

    def _check(self, X: Any, y: Any) -> None:
        """Refuse what cannot be learnt from blocks, and say what can."""
        name, given = self._plain.__name__, self.get_params(deep=False)  # type: ignore[attr-defined]
        check_whole_rows(X, name)
        check_option(self, "references", tuple(_GATHER_UP_TO))

        def refuse(parameter: str, allowed: str, why: str) -> None:
            raise ValueError(
                f"The {parameter!r} parameter of vicinal.dask.{name} must be {allowed}: {why}. "
                f"Got {given[parameter]!r} instead."
            )

        pairs = given["neighborhood"]
        if not is_auto(pairs) and neighborhoods.resolve(pairs, name) is not None:
            refuse("neighborhood", "'auto' or 'all'", "lists and trees need all rows in one place")
        if "kernel" in given and densities.resolve(given["kernel"], name).background:
            refuse("kernel", "a kernel without a background", "that needs all rows in one place")
        sampling = given["sampling"]
        clusters = getattr(sampling, "clusters", "random")
        if sampling == "minibatches" or clusters != "random":
            refuse(
                "sampling", "MiniBatches(..., clusters='random') or another sampler",
                "clusters of rows need all of them in one place",
            )  # fmt: skip
        if self._kind == "classifier" and np.ndim(y) > 1 and np.shape(y)[1] > 1:
            raise ValueError(
                f"The labels y of vicinal.dask.{name} must be one-dimensional. Got shape "
                f"{np.shape(y)} instead: label distributions are learnt by vicinal.{name}, on one "
                "machine."
            )

    def transform(self, X: Any) -> Any:
        """Map rows: lazily for a dask array, at once for an array in memory."""
        return lazily(self._light(), "transform", X)

    def predict(self, X: Any) -> Any:
        """Predict rows: lazily for a dask array, at once for an array in memory."""
        if self._in_shards:
            return self._asked(X, partial(_shards.asked, method="predict"))
        return lazily(self._light(), "predict", X)

    def kneighbors(
        self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True
    ) -> Any:
        """The nearest training rows, as the plain class has them: lazily for a dask array."""
        check_is_fitted(self, "n_components_")
        local = self._light()
        if not is_lazy(X) and not (self._in_shards and X is not None):
            return local.kneighbors(X, n_neighbors, return_distance)
        if n_neighbors is None:
            n_neighbors = _shards.n_voters(local) if self._in_shards else _chosen(local)
        if not isinstance(n_neighbors, Integral):
            raise ValueError(
                f"The 'n_neighbors' parameter of kneighbors must be an int. Got {n_neighbors!r} "
                "instead."
            )
        k = int(n_neighbors)
        if self._in_shards:
            distances, rows = self._asked(X, partial(_shards.nearest, k=k))
        else:
            shapes = [((k,), local._model.Z.dtype), ((k,), np.int64)]
            distances, rows = by_block(X, shapes, local, "kneighbors", k)
        return (distances, rows) if return_distance else rows

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **more: Any) -> float:
        """The score of the plain class, as a number: it computes the predictions."""
        if not is_lazy(X) and not self._in_shards:
            return self._light().score(X, on_host(y), on_host(sample_weight), **more)
        measure: Any = accuracy_score if self._kind == "classifier" else r2_score
        found = self.predict(X)
        found = found.compute() if is_lazy(X) else found
        return float(measure(on_host(y), found, sample_weight=on_host(sample_weight)))


def _chosen(local: Any) -> int:
    """The number of voters, chosen now if it is "auto"."""
    settle(local)
    return int(local.n_neighbors_)


def _free_memory() -> float:
    """Bytes that this process may still use."""
    from distributed.system import MEMORY_LIMIT
    from psutil import virtual_memory

    return float(min(virtual_memory().available, MEMORY_LIMIT))


class ClassifierOnCluster(OnCluster):
    """The classifiers among them; not public."""

    def predict_proba(self, X: Any) -> Any:
        """Class probabilities: lazily for a dask array, at once for an array in memory."""
        if self._in_shards:
            return self._asked(X, partial(_shards.asked, method="predict_proba"))
        return lazily(self._light(), "predict_proba", X)


class NCA(ClassifierOnCluster, nca.NCA):
    """`vicinal.NCA` for dask arrays: the same parameters, and two more.

    Parameters
    ----------
    references : {"auto", "gather", "shards"}, default="auto"
        Where the embedded training rows, from which the model predicts, are after the fit: in the
        model ("gather"), or on the workers, block by block ("shards").  "auto" is the first up to
        1 GiB of them.  In shards they are the lazy array ``references_``, embedded again from X by
        each computation unless you keep it: ``model.references_ = model.references_.persist()``.
        ``n_neighbors`` is then an int.
    client : distributed.Client, default=None
        The cluster that holds the rows during ``fit``; None: the current one.  It is no parameter
        of the model: clones and copies use the current one.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from vicinal.dask import NCA
    >>> client = Client()  # doctest: +SKIP
    >>> dX = da.from_zarr("rows.zarr")  # doctest: +SKIP
    >>> model = NCA(5, random_state=0).fit(dX, y)  # doctest: +SKIP
    >>> model.predict(dX).to_zarr("predicted.zarr")  # doctest: +SKIP
    >>> model.to_local().save("model.vic")  # doctest: +SKIP
    """


class KNCA(ClassifierOnCluster, knca.KNCA):
    """`vicinal.KNCA` for dask arrays: the same parameters, with ``references``
    and ``client`` as in `NCA`.

    Votes of k neighbours cannot be merged from blocks: batches learn as on one machine, and what
    needs all rows, as the loss at the end, is computed by the client from the embedded rows.
    """


class MLKR(OnCluster, mlkr.MLKR):
    """`vicinal.MLKR` for dask arrays: the same parameters, with ``references``
    and ``client`` as in `NCA`."""

    _kind = "regressor"


class NCARegressor(OnCluster, nca_regressor.NCARegressor):
    """`vicinal.NCARegressor` for dask arrays: the same parameters, with ``references``
    and ``client`` as in `NCA`.

    As with `KNCA`, batches learn, and what needs all rows is computed by the client.
    """

    _kind = "regressor"
