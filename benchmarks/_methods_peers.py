"""The other libraries' side of ``methods_speed.py``; each function imports its library itself."""

import sys
import types
from functools import partial

import numpy as np

# ---------------------------------------------------------------------- metric-learn and PyLMNN


def _embedded(model, data):
    return {"Z": model.transform(data["X"]), "Z_test": model.transform(data["X_test"])}


def _components(model, _):
    return {"A": model.components_}


def _matrix(model, _):
    return {"M": model.get_mahalanobis_matrix()}


def _make(model, fitted, learnt, **options):
    def told(data):
        iterations = getattr(model, "n_iter_", None)
        return learnt(model, data) | ({} if iterations is None else {"iterations": iterations})

    return lambda: model.fit(*fitted, **options), told


def _metric_learn(name, data, learnt=_embedded, fitted=("X", "y"), **parameters):
    import metric_learn

    model = getattr(metric_learn, name)(**parameters)
    return _make(model, tuple(data[part] for part in fitted), learnt)


def _ml_descent(name, data):
    """NCA and MLKR: from the given start, this many iterations."""
    given = {"n_components": len(data["A"]), "init": data["A"]}
    return _metric_learn(name, data, _components, max_iter=int(data["iterations"]), **given)


def _ml_pairs(name, data, **parameters):
    import metric_learn
    from sklearn.covariance import graphical_lasso

    def without_start(*args, cov_init=None, **kwargs):  # which scikit-learn no longer takes
        return graphical_lasso(*args, **kwargs)

    metric_learn.sdml.graphical_lasso = without_start
    model = getattr(metric_learn, name)(**parameters)
    options = {"bounds": data["bounds"].copy()} if name == "ITML" else {}
    return _make(model, (data["X"][data["pairs"]], data["y"]), _matrix, **options)


def _ml_sdml(data):
    return _ml_pairs(
        "SDML", data, balance_param=float(data["balance"]), sparsity_param=float(data["sparsity"])
    )


def _ml_lsml(data):
    from metric_learn import LSML

    return _make(LSML(), (data["X"][data["quadruplets"]],), _matrix)


def _pylmnn(data):
    """L-BFGS of SciPy on the square of the hinge, at most 50 iterations."""
    # the package imports a search for parameters, whose library is old and large, and not used here
    methods = types.ModuleType("GPyOpt.methods")
    methods.BayesianOptimization = None
    sys.modules |= {"GPyOpt": types.ModuleType("GPyOpt"), "GPyOpt.methods": methods}
    from pylmnn import LargeMarginNearestNeighbor

    model = LargeMarginNearestNeighbor(n_neighbors=3, random_state=0)
    return _make(model, (data["X"], data["y"]), _embedded)


# --------------------------------------------------------------------------------------- mlpack


def _mlpack_nca(data):
    """L-BFGS from the identity: its only start."""
    import mlpack

    answer, iterations = {}, int(data["iterations"])

    def fit():
        answer.update(mlpack.nca(
            input_=data["X"], labels=data["y"], optimizer="lbfgs", max_iterations=iterations,
            copy_all_inputs=True,
        ))  # fmt: skip

    # its matrices have a point per column, and come back transposed
    return fit, lambda _: {"A": answer["output"].T, "iterations": iterations}


def _mlpack_lmnn(data, iterations=25):
    """L-BFGS on the nearest impostors; by default it may take 100,000 iterations."""
    import mlpack

    answer = {}

    def fit():
        answer.update(mlpack.lmnn(
            input_=data["X"], labels=data["y"], k=3, optimizer="lbfgs", copy_all_inputs=True,
            max_iterations=iterations,
        ))  # fmt: skip

    def learnt(data):
        A = answer["output"]
        return {"Z": data["X"] @ A, "Z_test": data["X_test"] @ A, "iterations": iterations}

    return fit, learnt


# --------------------------------------------------------------------- scikit-learn and openTSNE


def _sk_nca(data):
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    model = NeighborhoodComponentsAnalysis(
        len(data["A"]), init=data["A"], max_iter=int(data["iterations"]), tol=0.0
    )
    return _make(model, (data["X"], data["y"]), _components)


def _sk_nca_default(data):
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    model = NeighborhoodComponentsAnalysis(random_state=0)
    return _make(model, (data["X"], data["y"]), _embedded)


def _predicting(model, data):
    def learnt(data):
        iterations = getattr(model, "n_iter_", None)
        found = {"predicted": model.predict(data["X_test"])}
        return found | ({} if iterations is None else {"iterations": iterations})

    return lambda: model.fit(data["X"], data["y"]), learnt


def _sk_trees(data):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return _predicting(HistGradientBoostingClassifier(early_stopping=True, random_state=0), data)


def _sk_network(data):
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier(early_stopping=True, random_state=0)
    fit, learnt = _predicting(make_pipeline(StandardScaler(), network), data)
    return fit, lambda data: learnt(data) | {"iterations": network.n_iter_}


def _sk_tsne(data):
    from sklearn.manifold import TSNE

    model = TSNE(max_iter=int(data["iterations"]), n_jobs=-1, random_state=0)
    return _make(model, (data["X"],), lambda m, _: {"Z": m.embedding_})


def _open_tsne(data, method):
    from openTSNE import TSNE

    iterations, answer = int(data["iterations"]), {}
    exaggerated = iterations // 3

    def fit():
        model = TSNE(
            n_iter=iterations - exaggerated, early_exaggeration_iter=exaggerated, n_jobs=-1,
            negative_gradient_method=method, random_state=0,
        )  # fmt: skip
        answer["Z"] = np.asarray(model.fit(data["X"]))

    return fit, lambda _: {"Z": answer["Z"], "iterations": iterations}


MAKERS = {
    "metric-learn": {
        "NCA": partial(_ml_descent, "NCA"),
        "NCA, with defaults": partial(_metric_learn, "NCA", random_state=0),
        "LMNN": partial(_metric_learn, "LMNN", n_neighbors=3, random_state=0),
        "RCA": partial(_metric_learn, "RCA", fitted=("X", "chunks")),
        "LFDA": partial(_metric_learn, "LFDA", n_components=10, k=7),
        "MLKR": partial(_ml_descent, "MLKR"),
        "ITML": partial(_ml_pairs, "ITML"),
        "MMC": partial(_ml_pairs, "MMC"),
        "SDML": _ml_sdml,
        "LSML": _ml_lsml,
    },
    "PyLMNN": {"LMNN": _pylmnn},
    "mlpack": {"NCA": _mlpack_nca, "LMNN": _mlpack_lmnn},
    "scikit-learn": {
        "NCA": _sk_nca,
        "NCA, with defaults": _sk_nca_default,
        "KSNE": _sk_tsne,
        "maps, boosted trees": _sk_trees,
        "maps, network": _sk_network,
    },
    "openTSNE": {
        "KSNE, trees": partial(_open_tsne, method="bh"),
        "KSNE, FFT": partial(_open_tsne, method="fft"),
    },
}
