"""More than one machine: estimators for dask arrays, and lazy predictions of any fitted model.

It needs the extra ``dask``; docs/howto/dask.md says when it pays.  The rows stay on the workers
of a cluster, and the results have the same bits for any number of workers.
"""

from __future__ import annotations

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "vicinal.dask needs dask and distributed: pip install 'vicinal[dask]'."
    ) from error

from vicinal.dask._cluster import ClusterLostError
from vicinal.dask._estimators import KNCA, MLKR, NCA, NCARegressor
from vicinal.dask._lazy import predict, predict_proba, transform

__all__ = [
    "KNCA",
    "MLKR",
    "NCA",
    "ClusterLostError",
    "NCARegressor",
    "predict",
    "predict_proba",
    "transform",
]

_ELSEWHERE = {
    "LMNN": "its target neighbours and impostors need all rows in one place",
    "Chi2LMNN": "its target neighbours and impostors need all rows in one place",
    "MCML": "it compares all pairs many times",
    "KSNE": "it places all rows at once",
}


def __getattr__(name: str) -> object:
    """What is not here, and what to do instead."""
    if name in _ELSEWHERE:
        raise AttributeError(
            f"There is no vicinal.dask.{name}: {_ELSEWHERE[name]}. Fit vicinal.{name} to a sample, "
            "then vicinal.dask.transform(model, X)."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
