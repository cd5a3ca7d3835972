"""Fitted models of every kind, on little data: what files are tested with."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import scipy.sparse as sp

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
    Covariance,
    FromLabels,
    MetricVote,
    MetricVoteRegressor,
    NCARegressor,
    PairNCA,
)
from vicinal.compat import metric_learn
from vicinal.maps import MLP, Periodic
from vicinal.solvers import Adam, Momentum

N, D = 36, 3
NEW = 5  # rows to predict


def rows(dtype=np.float64):
    """Three clouds, their classes, and numbers along the first column."""
    rng = np.random.RandomState(0)  # whose numbers never change
    y = np.arange(N) % 3
    X = rng.standard_normal((N, D)) + 2.0 * rng.standard_normal((3, D))[y]
    return X.astype(dtype), y, X[:, 0] + 0.1 * rng.standard_normal(N)


X, Y, NUMBERS = rows()
COUNTS = np.abs(X) / np.abs(X).sum(axis=1, keepdims=True)
PAIRS = np.random.RandomState(1).randint(0, N, (40, 2))
ALIKE = np.where(Y[PAIRS[:, 0]] == Y[PAIRS[:, 1]], 1, -1)
QUADRUPLETS = np.random.RandomState(2).randint(0, N, (30, 4))
WORDS = np.array(["ant", "bee", "cat"])
SHORT = {"max_iter": 3, "random_state": 0}
MATCHES = sp.csr_array(0.5 * (Y[:, None] == Y))


def _stream(model, X):
    model.partial_fit(X[:20], WORDS[Y[:20]], classes=WORDS)
    return model.partial_fit(X[20:], WORDS[Y[20:]])


def _sampled(model):
    return model.fit(X, Y, sample_weight=np.arange(N) % 4)


#: name -> a function that fits a model
MODELS = {
    "nca": lambda: NCA(2, **SHORT).fit(X, Y),
    "nca words": lambda: NCA(2, rule="knn", n_neighbors="auto", **SHORT).fit(X, WORDS[Y]),
    "nca objects": lambda: NCA(2, **SHORT).fit(X, WORDS[Y].astype(object)),
    "nca truth values": lambda: NCA(2, priors="uniform", **SHORT).fit(X, Y == 1),
    "nca int8": lambda: NCA(2, n_neighbors="local", rule="knn", **SHORT).fit(X, Y.astype("i1")),
    "nca float32": lambda: NCA(2, kernel="student", **SHORT).fit(X.astype("f4"), Y),
    "nca sparse": lambda: NCA(2, **SHORT).fit(sp.csr_matrix(X), Y),
    "nca weights": lambda: _sampled(NCA(2, **SHORT)),
    "nca diagonal": lambda: NCA(mapping="diagonal", **SHORT).fit(X, Y),
    "nca periodic": lambda: NCA(2, mapping=Periodic(3, 2), **SHORT).fit(X, Y),
    "nca network": lambda: NCA(2, mapping=MLP((4,)), solver=Adam(0.05), **SHORT).fit(X, Y),
    "nca background": lambda: NCA(2, kernel="compact", **SHORT).fit(X, Y),
    "nca distributions": lambda: NCA(2, **SHORT).fit(X, 0.7 * np.eye(3)[Y] + 0.1),
    "nca matches": lambda: NCA(2, **SHORT).fit(X, matches=MATCHES),
    "nca stream": lambda: _stream(NCA(2, random_state=0), X),
    "nca warm": lambda: NCA(2, warm_start=True, solver=Momentum(), **SHORT).fit(X, Y),
    "nca searched": lambda: NCA("auto", alpha="auto", cv=2, **SHORT).fit(X, Y),
    "nca outliers": lambda: NCA(2, **SHORT).fit(np.where(X == X.max(), 1e5, X), Y),
    "knca": lambda: KNCA(2, k=2, **SHORT).fit(X, Y),
    "knca stream": lambda: _stream(KNCA(2, k=2, random_state=0), sp.csr_matrix(X)),
    "lmnn": lambda: LMNN(2, refresh_targets=2, warm_start=True, **SHORT).fit(X, Y),
    "chi2 lmnn": lambda: Chi2LMNN(2, **SHORT).fit(COUNTS, Y),
    "mcml": lambda: MCML(2, rule="posterior", **SHORT).fit(X, Y),
    "mlkr": lambda: MLKR(2, **SHORT).fit(X, np.c_[NUMBERS, NUMBERS**2]),
    "nca regressor": lambda: NCARegressor(2, rule="knn", **SHORT).fit(X, NUMBERS),
    "vote": lambda: MetricVote(["low-rank", "laplace"], n_folds=2, random_state=0).fit(X, WORDS[Y]),
    "vote regressor": lambda: MetricVoteRegressor(
        ["linear", "network"], n_folds=2, random_state=0
    ).fit(X, NUMBERS),
    "ksne": lambda: KSNE(perplexity=5, early_exaggeration_iter=5, max_iter=10).fit(X),
    "ksne distances": lambda: KSNE(perplexity=5, metric="precomputed", max_iter=10).fit(
        np.abs(X[:, None] - X).sum(axis=2)
    ),
    "ksne map": lambda: KSNE(
        perplexity=5, mapping="linear", max_iter=10, warm_start=True,
        random_state=np.random.RandomState(3),
    ).fit(X),
    "pair nca": lambda: PairNCA(2, preprocessor=X, **SHORT).fit(PAIRS, ALIKE),
    "itml": lambda: ITML(preprocessor=X).fit(PAIRS, ALIKE),
    "mmc": lambda: MMC(preprocessor=X).fit(PAIRS, ALIKE),
    "sdml": lambda: SDML(preprocessor=X).fit(PAIRS, ALIKE),
    "lsml": lambda: LSML(preprocessor=X).fit(QUADRUPLETS),
    "from labels": lambda: FromLabels(ITML(), random_state=0).fit(X, WORDS[Y]),
    "rca": lambda: RCA(2).fit(X, Y),
    "lfda": lambda: LFDA(2).fit(X, Y),
    "covariance": lambda: Covariance().fit(X),
    "metric_learn nca": lambda: metric_learn.NCA(n_components=2, max_iter=3).fit(X, Y),
    "metric_learn itml": lambda: metric_learn.ITML(preprocessor=X).fit(PAIRS, ALIKE),
    "metric_learn lsml": lambda: metric_learn.LSML_Supervised(random_state=0).fit(X, Y),
}  # fmt: skip


def _many(n=600):
    """More rows than the engines for small data take, their classes, and numbers."""
    rng = np.random.RandomState(4)
    y = np.arange(n) % 3
    return rng.standard_normal((n, D)) + y[:, None], y, rng.standard_normal(n)


MANY, MANY_Y, MANY_NUMBERS = _many()
LARGE = {
    "large nca": lambda: NCA(2, rule="knn", n_neighbors="local", **SHORT).fit(MANY, MANY_Y),
    "large knca": lambda: KNCA(2, k=3, **SHORT).fit(MANY, MANY_Y),
    "large mlkr": lambda: MLKR(2, **SHORT).fit(MANY, MANY_NUMBERS),
    "large chi2": lambda: Chi2LMNN(2, **SHORT).fit(
        np.abs(MANY) / np.abs(MANY).sum(axis=1, keepdims=True), MANY_Y
    ),
    "large ksne": lambda: KSNE(perplexity=5, max_iter=5, random_state=0).fit(MANY),
}


@functools.cache
def fitted(name):
    """The model of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {**MODELS, **LARGE}[name]()


def queries(model):
    """Rows, or tuples, that a model can be asked about."""
    if hasattr(model, "steps"):
        return FRAME.iloc[:NEW]
    size = getattr(model, "tuple_size", 1)
    if size > 1 and getattr(model, "preprocessor", None) is not None:
        return (PAIRS if size == 2 else QUADRUPLETS)[:NEW]
    if getattr(model, "metric", None) == "precomputed":
        return np.abs(X[:NEW, None] - X).sum(axis=2) + 0.1
    return np.abs(X[:NEW]) + 0.01 if isinstance(model, Chi2LMNN) else X[:NEW] + 0.01


def answers(model):
    """All that a model says of some rows: bits, by the name of the method."""
    asked, found = queries(model), {}
    tuples = np.asarray(asked).ndim == 2 and np.asarray(asked).dtype.kind == "i"
    methods = ["predict", "predict_proba"] + ["decision_function"] * tuples
    methods += ["pair_distance"] * (tuples and asked.shape[1] == 2)
    methods += ["transform", "kneighbors", "predict_log_proba"] * (not tuples)
    for method in methods:
        if hasattr(model, method):
            extra = {"n_neighbors": 2} if method == "kneighbors" else {}
            found[method] = np.asarray(getattr(model, method)(asked, **extra))
    assert found
    return found


def table():
    """A data frame with all kinds of columns, and its labels."""
    import pandas

    rng = np.random.RandomState(3)
    n = 60
    y = rng.choice(["yes", "no"], n)
    weather = np.array(["sun", "rain", "snow", "wind", "fog"])
    return pandas.DataFrame(
        {
            "number": rng.standard_normal(n) + (y == "yes"),
            "gaps": np.where(rng.random_sample(n) < 0.2, np.nan, rng.standard_normal(n)),
            "count": rng.randint(0, 5, n),
            "kind": rng.choice(np.array(["u", "v", "w", "x", None], dtype=object), n),
            "rare": rng.choice(["p", "q", "r", "s"], n, p=[0.5, 0.3, 0.1, 0.1]),
            "size": pandas.Categorical(rng.choice(["S", "L"], n), ["S", "L"], ordered=True),
            "text": [" ".join([*rng.choice(weather, 4), f"day{i}"]) for i in range(n)],
        }
    ), y


FRAME, ANSWER = table()


def learner(method="nca", frame=FRAME, **options):
    """A fitted pipeline for a table."""
    from vicinal import make_learner

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_learner(frame, ANSWER, method, random_state=0, **options)
        return model.fit(frame, ANSWER)


MODELS["pipeline"] = lambda: learner(max_iter=3, max_categories=3)
