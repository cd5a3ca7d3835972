"""vicinal's side of ``methods_speed.py``: for each method a fit, and what it has learnt."""

from functools import partial

import numpy as np

from vicinal import (
    ITML,
    KNCA,
    KSNE,
    LFDA,
    LMNN,
    LSML,
    MCML,
    MLKR,
    MMC,
    NCA,
    RCA,
    SDML,
    Chi2LMNN,
    NCARegressor,
    PairNCA,
)
from vicinal.maps import MLP, Periodic


def _iterations(model):
    found = getattr(model, "n_iter_", None)
    return {} if found is None else {"iterations": np.max(found)}


def _embedded(model, data):
    reference = data["X_reference"] if "X_reference" in data else data["X"]
    return {"Z": model.transform(reference), "Z_test": model.transform(data["X_test"])}


def _given(data):
    """What fixes an optimisation: start, iterations, no penalty, columns as they are."""
    return {
        "init": data["A"], "max_iter": int(data["iterations"]), "tol": None, "alpha": 0.0,
        "scaling": None,
    }  # fmt: skip


def _make(model, fitted, learnt):
    return lambda: model.fit(*fitted), lambda data: learnt(model, data) | _iterations(model)


def _nca(data):
    model = NCA(len(data["A"]), objective="accuracy", sampling="full", **_given(data))
    return _make(model, (data["X"], data["y"]), lambda m, _: {"A": m.components_})


def _knca(data, k=5):
    kind = partial(NCA) if k is None else partial(KNCA, k=k, vote="majority")
    model = kind(len(data["A"]), objective="log", **_given(data))
    return _make(model, (data["X"], data["y"]), _embedded)


def _embedding(model, data):
    return _make(model, (data["X"], data["y"]), _embedded)


def _mlkr(data):
    model = MLKR(len(data["A"]), **_given(data))
    return _make(model, (data["X"], data["y"]), lambda m, _: {"A": m.components_})


def _rca(data):
    model = RCA(scaling=None)
    return lambda: model.fit(data["X"], chunks=data["chunks"]), lambda d: _embedded(model, d)


def _matrix(model, _):
    return {"M": model.get_mahalanobis_matrix()}


def _pairs(model, data):
    return _make(model, (data["X"][data["pairs"]], data["y"]), _matrix)


def _itml(data):
    return _pairs(ITML(bounds=data["bounds"].tolist(), scaling=None), data)


def _sdml(data):
    return _pairs(SDML(float(data["balance"]), float(data["sparsity"]), scaling=None), data)


def _lsml(data):
    return _make(LSML(scaling=None), (data["X"][data["quadruplets"]],), _matrix)


def _pair_nca(data):
    model = PairNCA(16, scaling="global", alpha=0.1, random_state=0)
    return _make(model, (data["X"], data["pairs"]), _embedded)


def _ksne(data, k):
    iterations = int(data["iterations"])
    model = KSNE(k=k, max_iter=iterations, early_exaggeration_iter=iterations // 3, random_state=0)
    return _make(model, (data["X"],), lambda m, _: {"Z": m.embedding_})


def _predicting(model, data):
    return _make(model, (data["X"], data["y"]), lambda m, d: {"predicted": m.predict(d["X_test"])})


MAKERS = {
    "NCA": _nca,
    "NCA, with defaults": lambda data: _embedding(NCA(random_state=0), data),
    "KNCA": _knca,
    "KNCA, NCA": partial(_knca, k=None),
    "LMNN": lambda data: _embedding(LMNN(k=3, random_state=0), data),
    "Chi2LMNN": lambda data: _embedding(
        Chi2LMNN(20, max_iter=int(data["iterations"]), tol=None, random_state=0), data
    ),
    "RCA": _rca,
    "LFDA": lambda data: _embedding(LFDA(10, scaling=None), data),
    "MCML": lambda data: _embedding(
        MCML(max_iter=int(data["iterations"]), tol=None, random_state=0), data
    ),
    "MLKR": _mlkr,
    "NCARegressor": lambda data: _predicting(NCARegressor(random_state=0), data),
    "ITML": _itml,
    "MMC": lambda data: _pairs(MMC(scaling=None), data),
    "SDML": _sdml,
    "LSML": _lsml,
    "PairNCA": _pair_nca,
    "KSNE": partial(_ksne, k=1),
    "KSNE, k = 5": partial(_ksne, k=5),
    "maps": lambda data: _predicting(NCA(mapping="periodic", random_state=0), data),
    "maps, layers": lambda data: _predicting(
        NCA(mapping=Periodic(then=MLP()), random_state=0), data
    ),
}
