"""The types that fitted estimators hold, for ``skops.io.load(file, trusted=...)``."""

from __future__ import annotations

from vicinal.storage.names import HOMES

#: modules of torch are code of their own: a file with one is trusted by its owner alone
_NOT_OURS = {"map.TorchMap"}
#: what `make_learner` puts before an estimator, besides steps of scikit-learn; types of numbers
_BESIDES = [
    "numpy.dtype",
    "vicinal.learner.columns.ColumnValues",
    "vicinal.learner.text.TextColumns",
]
#: the adapters of metric-learn's names, which live behind one public module
_ADAPTERS = {
    **dict.fromkeys(
        ("NCA", "LMNN", "MLKR", "LFDA", "RCA", "RCA_Supervised", "Covariance"), "_row_learners"
    ),
    **dict.fromkeys(("ITML", "MMC", "SDML", "LSML"), "_tuple_learners"),
    **dict.fromkeys(
        ("ITML_Supervised", "MMC_Supervised", "SDML_Supervised", "LSML_Supervised"),
        "_tuple_learners",
    ),
}


def _qualified(name: str, home: str) -> str:
    """The name of a class as skops writes it."""
    module, _, kind = home.partition(":")
    if name.startswith("metric_learn."):
        module = f"vicinal.compat.{_ADAPTERS[kind]}"
    return f"{module}.{kind}"


#: names of the types that a fitted estimator may hold; none of them runs code from a file
TRUSTED_TYPES: list[str] = sorted(
    [_qualified(name, home) for name, home in HOMES.items() if name not in _NOT_OURS] + _BESIDES
)
