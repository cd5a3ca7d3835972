"""metric-learn's classes and keywords over vicinal's estimators.

``from vicinal.compat.metric_learn import LMNN`` in place of ``from metric_learn import LMNN``.  The
classes have metric-learn's constructors and methods, without those that it has deprecated.  They
learn from the columns as they are (``scaling=None``) and without a penalty, as metric-learn's do;
the classes of :mod:`vicinal` scale the columns and choose a penalty, and are usually better.
docs/migration.md has a table of both, and says what differs.

===================  =====================================================================
class here           fits
===================  =====================================================================
NCA                  ``vicinal.NCA(objective="accuracy", alpha=0.0, scaling=None)``
LMNN                 ``vicinal.LMNN(k=n_neighbors, mu=(1 - r) / r, alpha=0.0, scaling=None)``
MLKR                 ``vicinal.MLKR(alpha=0.0, scaling=None)``
LFDA                 ``vicinal.LFDA(scaling=None)``
RCA                  ``vicinal.RCA(scaling=None)``, of the rows in chunklets
ITML, MMC, SDML      ``vicinal.ITML(scaling=None)``, ...
LSML                 ``vicinal.LSML(scaling=None)``
Covariance           ``vicinal.Covariance()``
ITML_Supervised ...  ``vicinal.FromLabels(vicinal.ITML(scaling=None), n_constraints)``, ...
===================  =====================================================================

metric-learn's SCML is not here: vicinal has no such method.
"""

from __future__ import annotations

from typing import Any

from vicinal._public import listing as _listing
from vicinal.compat._row_learners import LFDA, LMNN, MLKR, NCA, RCA, Covariance, RCA_Supervised
from vicinal.compat._tuple_learners import (
    ITML,
    LSML,
    MMC,
    SDML,
    ITML_Supervised,
    LSML_Supervised,
    MMC_Supervised,
    SDML_Supervised,
)

__all__ = [
    "ITML",
    "LFDA",
    "LMNN",
    "LSML",
    "MLKR",
    "MMC",
    "NCA",
    "RCA",
    "SDML",
    "Covariance",
    "ITML_Supervised",
    "LSML_Supervised",
    "MMC_Supervised",
    "RCA_Supervised",
    "SDML_Supervised",
]
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    if name in ("SCML", "SCML_Supervised"):
        # as ImportError the message also reaches those who write "from ... import SCML"
        raise ImportError(
            f"vicinal has no {name}: sparse compositional metric learning is not implemented. "
            "Stay with metric-learn for it, or try NCA, LMNN or ITML_Supervised."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
