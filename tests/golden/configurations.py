"""The configurations of the golden results, each a named function without arguments.

Together they use every estimator, objective, kernel, start, solver, sampler, choice of pairs, map,
stopping rule and search.  Only public names are used, so that this file survives a rewrite of the
internals.  Nothing here depends on time, on the number of threads or on chance.

- ``LARGE``: fits whose every evaluation sees more than 600 rows.  They are compared bit by bit.
- ``SMALL``: fits of fewer than 400 rows, compared by their last objective and the number of
  training errors, and losses with their gradients at fixed points, compared to 1e-12.

A configuration returns a dict of arrays.  The name of an array determines how it is compared if not
bit by bit: see ``close`` in ``make_golden.py``.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits, load_iris, load_wine

from vicinal import (
    KNCA,
    LMNN,
    NCA,
    RCA,
    Chi2LMNN,
    densities,
    model_selection,
    neighborhoods,
    objectives,
    samplers,
    solvers,
    starts,
    targets,
)

HERE = Path(__file__).resolve().parent
LARGE, SMALL = {}, {}
_HISTORY = (
    "iteration",
    "loss",
    "grad_norm",
    "validation_score",
    "n_evaluations",
    "share_of_pairs",
)
_NUMBERS = (
    "n_components_",
    "n_iter_",
    "loss_",
    "alpha_",
    "k_",
    "margin_",
    "n_neighbors_",
    "n_samples_seen_",
)


def large(function):
    """Register a fit of more than 600 rows."""
    LARGE[function.__name__] = _quiet(function)
    return function


def small(function):
    """Register a fit of fewer than 400 rows, or losses at fixed points."""
    SMALL[function.__name__] = _quiet(function)
    return function


def _quiet(function):
    """Suppress warnings: few of these fits converge."""

    def quiet(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)

    return quiet


# Data


def digits(n):
    """The first rows of digits, and the last 50 to predict."""
    X, y = load_digits(return_X_y=True)
    return X[:n], y[:n], X[-50:]


def blobs(n, n_features=5, n_classes=4, seed=0, spread=2.0):
    """Overlapping normal classes whose columns have several scales, and 50 new rows."""
    rng = np.random.RandomState(seed)
    centres = spread * rng.standard_normal((n_classes, n_features))
    y = np.arange(n + 50) % n_classes
    X = (centres[y] + rng.standard_normal((n + 50, n_features))) * 2.0 ** np.arange(n_features)
    return X[:n], y[:n], X[n:]


def two_groups(n, seed=0):
    """Three classes, each with two groups that are far apart in all columns."""
    X, y, new = blobs(n, 4, 3, seed)
    far = 100.0 * 2.0 ** np.arange(4)
    return X + (np.arange(n) % 2)[:, None] * far, y, new + (np.arange(50) % 2)[:, None] * far


def histograms(n, n_bins=12, seed=0):
    """Histograms of three classes, each with higher counts in its own bins, and 50 new rows."""
    rng = np.random.RandomState(seed)
    y = np.arange(n + 50) % 3
    X = rng.poisson(2.0 + 2.0 * (np.arange(n_bins) % 3 == y[:, None]))
    X = X * rng.uniform(0.9, 1.1, X.shape)
    return X[:n], y[:n], X[n:]


def fixed_array(shape, scale=1.0, seed=0):
    """Fixed random numbers."""
    return scale * np.random.RandomState(seed).standard_normal(shape)


# The arrays that are compared


def results_of(model, new):
    """All public arrays of a fitted estimator, and its predictions for new rows."""
    out = {"components_": model.components_, "transform": model.transform(new)}
    if not hasattr(model, "predict"):
        return out
    out["predict_proba"] = model.predict_proba(new)
    out["predict"] = model.predict(new)
    for name in _NUMBERS:
        if hasattr(model, name):
            out[name] = np.asarray(getattr(model, name))
    if hasattr(model, "scaling_"):
        out["scaling_"] = np.asarray(str(model.scaling_))
    for name in _HISTORY:
        if name in model.history_:
            out[f"history_.{name}"] = np.asarray(model.history_[name], dtype=float)
    for name, values in getattr(model, "rounds_", {}).items():
        out[f"rounds_.{name}"] = np.asarray(values, dtype=float)
    if hasattr(model, "effective_n_neighbors"):
        out["mean_effective_n_neighbors_"] = np.mean(model.effective_n_neighbors())
    out.update(tried(model))
    return out


def tried(search):
    """The scores and the parameters in ``cv_results_``, if there are any."""
    results = getattr(search, "cv_results_", None)
    if results is None:
        return {}
    out = {
        f"cv_results_.{name}": np.asarray(values, dtype=float)
        for name, values in results.items()
        if name.endswith("test_score")
    }
    for name in sorted({name for params in results["params"] for name in params}):
        values = [params.get(name, np.nan) for params in results["params"]]
        out[f"cv_results_.{name}"] = np.asarray(values, dtype=float)
    return out


def fitted(model, data, **kwargs):
    """Fit, and return the results."""
    X, y, new = data
    return results_of(model.fit(X, y, **kwargs), new)


# NCA on more than 600 rows


@large
def nca_default():
    return fitted(NCA(max_iter=15, random_state=0, alpha=3e-3), digits(700))


@large
def nca_single_then_double():
    """More than 1,000 rows with a tolerance: float32 first, then float64."""
    model = NCA(2, tol=3e-3, max_iter=100, random_state=0, alpha=3e-3)
    return fitted(model, digits(1300))


@large
def nca_accuracy_identity():
    model = NCA(8, objective="accuracy", init="identity", max_iter=12, random_state=1, alpha=3e-3)
    return fitted(model, digits(900))


@large
def nca_student_pca_cg():
    model = NCA(
        3, kernel="student", init="pca", solver="cg", max_iter=12, random_state=2, alpha=3e-3
    )
    return fitted(model, digits(800))


@large
def nca_student_accuracy_background():
    kernel = densities.Student(background=True, beta=0.1)
    model = NCA(2, kernel=kernel, objective="accuracy", max_iter=10, random_state=2, alpha=3e-3)
    return fitted(model, blobs(1100))


@large
def nca_gaussian_background():
    kernel = densities.Gaussian(background=True, beta="count")
    return fitted(NCA(3, kernel=kernel, max_iter=10, random_state=2, alpha=3e-3), blobs(800))


@large
def nca_compact_count_lda():
    model = NCA(3, kernel="compact", init="lda", max_iter=12, random_state=3, alpha=3e-3)
    return fitted(model, digits(800))


@large
def nca_compact_em_rca():
    kernel = densities.Compact(beta="em")
    model = NCA(2, kernel=kernel, init="rca", max_iter=15, random_state=3, alpha=3e-3)
    return fitted(model, digits(1100))


@large
def nca_compact_share_whiten_bold_driver():
    kernel = densities.Compact(beta=0.2)
    model = NCA(
        3,
        kernel=kernel,
        init="whiten",
        solver="bold_driver",
        max_iter=15,
        random_state=3,
        alpha=3e-3,
    )
    return fitted(model, digits(750))


@large
def nca_compact_bare_accuracy():
    kernel = densities.Compact(background=False)
    model = NCA(2, kernel=kernel, objective="accuracy", max_iter=12, random_state=3, alpha=3e-3)
    return fitted(model, blobs(900))


@large
def nca_as_it_comes():
    """The penalty is chosen by cross-validation."""
    return fitted(NCA(max_iter=8, random_state=4), blobs(700, 6))


@large
def nca_random_starts():
    start = starts.Random(n_init=3)
    return fitted(NCA(2, init=start, max_iter=8, random_state=4, alpha=3e-3), digits(800))


@large
def nca_annealing():
    start = starts.Annealing(n_steps=2, n_iter=2)
    return fitted(NCA(2, init=start, max_iter=8, random_state=4, alpha=3e-3), blobs(700, 6))


@large
def nca_array_global():
    start = fixed_array((3, 64), 0.05)
    model = NCA(3, init=start, scaling="global", alpha=1e-2, max_iter=12, random_state=4)
    return fitted(model, digits(700))


@large
def nca_array_unscaled_adaptive():
    model = NCA(
        2,
        init=fixed_array((2, 5), 0.1),
        scaling=None,
        alpha=0.0,
        solver="adaptive",
        max_iter=15,
        random_state=4,
    )
    return fitted(model, blobs(1050))


@large
def nca_diagonal():
    return fitted(NCA(mapping="diagonal", max_iter=12, random_state=5, alpha=3e-3), digits(700))


@large
def nca_subsample():
    sampling = samplers.Subsample(800)
    return fitted(NCA(3, sampling=sampling, max_iter=10, random_state=6, alpha=3e-3), digits(1500))


@large
def nca_batches_random():
    sampling = samplers.MiniBatches(750, clusters="random")
    return fitted(NCA(4, sampling=sampling, max_iter=12, random_state=6, alpha=3e-3), digits(1500))


@large
def nca_batches_recursive_early_stopping():
    """Of 1,560 rows 156 are held out, and the others are halved."""
    model = NCA(
        3,
        sampling=samplers.MiniBatches(720),
        early_stopping=True,
        n_iter_no_change=2,
        max_iter=25,
        random_state=6,
        alpha=3e-3,
    )
    return fitted(model, digits(1560))


@large
def nca_batches_farthest_momentum():
    """Two clusters of 800 rows each, wherever the first centre is."""
    model = NCA(
        2,
        sampling=samplers.MiniBatches(800, clusters="fpc", space="input"),
        solver="momentum",
        max_iter=12,
        random_state=6,
        alpha=3e-3,
    )
    return fitted(model, two_groups(1600))


@large
def nca_stochastic_adam():
    model = NCA(
        3,
        sampling=samplers.StochasticQueries(300),
        solver="adam",
        max_iter=15,
        random_state=7,
        alpha=3e-3,
    )
    return fitted(model, digits(1200))


@large
def nca_sgd_tuned():
    model = NCA(
        2,
        sampling=samplers.StochasticQueries(100),
        solver="sgd",
        max_iter=15,
        random_state=7,
        alpha=3e-3,
    )
    return fitted(model, blobs(900))


@large
def nca_sgd_falling_momentum():
    """A given learning rate, on all rows."""
    solver = solvers.SGD(solvers.InverseTime(1.0, 10.0), momentum=0.5)
    return fitted(NCA(2, solver=solver, max_iter=12, random_state=7, alpha=3e-3), blobs(800))


@large
def nca_nearest():
    pairs = neighborhoods.Nearest(m=30, refresh=5)
    return fitted(NCA(2, neighborhood=pairs, max_iter=16, random_state=8, alpha=3e-3), digits(1200))


@large
def nca_nearest_radius_compact():
    pairs = neighborhoods.Nearest(m=60, radius=1.0, search="brute", refresh=4)
    model = NCA(3, kernel="compact", neighborhood=pairs, max_iter=10, random_state=8, alpha=3e-3)
    return fitted(model, digits(900))


@large
def nca_random_pairs():
    pairs = neighborhoods.RandomPairs(m=40, refresh=2)
    return fitted(NCA(3, neighborhood=pairs, max_iter=12, random_state=8, alpha=3e-3), digits(900))


@large
def nca_tree():
    pairs = neighborhoods.Tree(always=True)
    return fitted(NCA(2, neighborhood=pairs, max_iter=12, random_state=8, alpha=3e-3), digits(1100))


@large
def nca_tree_shared_student():
    pairs = neighborhoods.Tree(tolerance=0.05, each_class=False, always=True)
    model = NCA(2, kernel="student", neighborhood=pairs, max_iter=10, random_state=8, alpha=3e-3)
    return fitted(model, digits(800))


@large
def nca_alpha_auto():
    """Two folds, each with 700 training rows."""
    return fitted(NCA(2, alpha="auto", cv=2, max_iter=8, random_state=9), blobs(1400))


@large
def nca_rank_auto_voters_auto():
    model = NCA(
        "auto", cv=2, rule="knn", n_neighbors="auto", max_iter=8, random_state=9, alpha=3e-3
    )
    return fitted(model, blobs(1400, 6))


@large
def nca_alpha_scaled_local():
    model = NCA(4, alpha="scaled", rule="knn", n_neighbors="local", max_iter=10, random_state=9)
    return fitted(model, digits(800))


@large
def nca_priors_weights():
    X, y, new = blobs(900)
    weight = np.random.RandomState(1).uniform(0.1, 2.0, 900)
    weight[::50] = 0.0
    model = NCA(2, priors="uniform", max_iter=12, random_state=10, alpha=3e-3)
    return fitted(model, (X, y, new), sample_weight=weight)


@large
def nca_priors_array_accuracy():
    model = NCA(
        2,
        priors=[0.1, 0.2, 0.3, 0.4],
        objective="accuracy",
        max_iter=12,
        random_state=10,
        alpha=3e-3,
    )
    return fitted(model, blobs(1100))


@large
def nca_sparse():
    X, y, new = digits(800)
    data = scipy.sparse.csr_matrix(X), y, scipy.sparse.csr_matrix(new)
    return fitted(NCA(3, max_iter=10, random_state=11, alpha=3e-3), data)


@large
def nca_float32_strings():
    X, y, new = digits(1100)
    names = np.array([f"the digit {digit}" for digit in range(10)])
    data = X.astype(np.float32), names[y], new.astype(np.float32)
    return fitted(NCA(5, max_iter=12, random_state=11, alpha=3e-3), data)


@large
def nca_early_stopping_votes():
    model = NCA(
        6,
        early_stopping=True,
        validation_fraction=0.2,
        n_iter_no_change=3,
        rule="knn",
        n_neighbors=3,
        max_iter=25,
        random_state=12,
        alpha=3e-3,
    )
    return fitted(model, digits(1000))


@large
def nca_stream():
    """Every step has 700 new rows; later steps also have the remembered rows."""
    X, y, new = digits(1500)
    model = NCA(
        3, sampling=samplers.StochasticQueries(700), reservoir_size=900, random_state=13, alpha=3e-3
    )
    for first in (0, 700):
        model.partial_fit(X[first : first + 700], y[first : first + 700], classes=range(10))
    middle = {f"middle.{name}": value for name, value in results_of(model, new).items()}
    model.partial_fit(X[1400:], y[1400:], sample_weight=np.linspace(0.5, 1.5, 100))
    return {**middle, **results_of(model, new)}


@large
def nca_resume():
    X, y, new = digits(900)
    model = NCA(3, max_iter=6, tol=0, warm_start=True, random_state=14, alpha=3e-3)
    first = {f"first.{name}": value for name, value in fitted(model, (X, y, new)).items()}
    return {**first, **fitted(model, (X, y, new))}


# kNCA on more than 600 rows


@large
def knca_majority():
    return fitted(KNCA(3, k=3, max_iter=8, random_state=0), digits(700))


@large
def knca_single_then_double():
    model = KNCA(2, k=2, tol=1e-2, max_iter=60, random_state=0)
    return fitted(model, blobs(1050))


@large
def knca_all_accuracy_random():
    model = KNCA(
        2, k=5, vote="all", objective="accuracy", init="random", max_iter=8, random_state=1
    )
    return fitted(model, blobs(800))


@large
def knca_nearest_votes():
    pairs = neighborhoods.Nearest(m=40, refresh=4)
    model = KNCA(
        3, k=3, neighborhood=pairs, rule="knn", n_neighbors="auto", max_iter=8, random_state=2
    )
    return fitted(model, digits(800))


@large
def knca_random_pairs():
    pairs = neighborhoods.RandomPairs(m=40)
    return fitted(KNCA(2, k=2, neighborhood=pairs, max_iter=6, random_state=2), blobs(800))


@large
def knca_batches():
    sampling = samplers.MiniBatches(750, clusters="random")
    return fitted(KNCA(2, k=3, sampling=sampling, max_iter=6, random_state=3), digits(1500))


@large
def knca_stochastic_early_stopping_diagonal():
    model = KNCA(
        k=4,
        mapping="diagonal",
        sampling=samplers.StochasticQueries(200),
        early_stopping=True,
        n_iter_no_change=2,
        max_iter=12,
        random_state=3,
    )
    return fitted(model, blobs(900))


@large
def knca_stream():
    X, y, new = blobs(1500)
    model = KNCA(2, k=3, sampling=samplers.StochasticQueries(700), reservoir_size=800,
                 random_state=4)  # fmt: skip
    for first in (0, 700):
        model.partial_fit(X[first : first + 700], y[first : first + 700], classes=range(4))
    return results_of(model, new)


# LMNN on more than 600 rows


@large
def lmnn_default():
    return fitted(LMNN(max_iter=15, random_state=0), digits(700))


@large
def lmnn_single_then_double():
    return fitted(LMNN(4, k=3, tol=1e-2, max_iter=100, random_state=0), blobs(1300, 6))


@large
def lmnn_batches():
    sampling = samplers.MiniBatches(800, clusters="random")
    return fitted(LMNN(2, k=2, sampling=sampling, max_iter=8, random_state=3), blobs(1600))


@large
def chi2_queries():
    sampling = samplers.StochasticQueries(700)
    model = Chi2LMNN(3, k=2, sampling=sampling, max_iter=6, random_state=3)
    return fitted(model, histograms(900))


@large
def lmnn_coarse_start():
    """More than 4,000 rows: the first stage uses 2,000 of them."""
    model = LMNN(3, k=3, n_neighbors="auto", max_iter=10, random_state=1)
    return fitted(model, blobs(4400, 6))


@large
def lmnn_refresh_lda():
    model = LMNN(5, refresh_targets=4, init="lda", scaling="standard", max_iter=14, random_state=2)
    return fitted(model, digits(800))


@large
def lmnn_adaptive_diagonal_unscaled():
    model = LMNN(
        mapping="diagonal",
        solver="adaptive",
        init="identity",
        scaling=None,
        mu=2.0,
        margin=3.0,
        max_iter=20,
        random_state=2,
    )
    return fitted(model, blobs(900))


@large
def lmnn_early_stopping():
    model = LMNN(6, early_stopping=True, n_iter_no_change=3, max_iter=25, random_state=3)
    return fitted(model, digits(1100))


@large
def lmnn_alpha_auto():
    return fitted(LMNN(2, k=2, alpha="auto", cv=2, max_iter=6, random_state=4), blobs(1400))


@large
def lmnn_resume_sparse_float32():
    X, y, new = digits(800)
    X, new = (scipy.sparse.csr_matrix(part.astype(np.float32)) for part in (X, new))
    model = LMNN(4, max_iter=5, tol=0, warm_start=True, random_state=4)
    first = {f"first.{name}": value for name, value in fitted(model, (X, y, new)).items()}
    return {**first, **fitted(model, (X, y, new))}


# χ²-LMNN and RCA on more than 600 rows


@large
def chi2_groups_projected():
    return fitted(Chi2LMNN(8, max_iter=12, random_state=0), digits(700))


@large
def chi2_identity_single_then_double():
    return fitted(Chi2LMNN(tol=0.1, max_iter=60, random_state=0), histograms(1100))


@large
def chi2_softmax():
    model = Chi2LMNN(5, constraint="softmax", max_iter=10, random_state=1)
    return fitted(model, histograms(800))


@large
def chi2_random_adaptive():
    start = starts.RandomBins(n_init=2)
    model = Chi2LMNN(4, init=start, solver="adaptive", max_iter=10, random_state=2)
    return fitted(model, histograms(700))


@large
def chi2_array_refresh_bold_driver():
    start = np.random.RandomState(3).uniform(0.5, 1.5, (4, 12))
    model = Chi2LMNN(
        4,
        init=start / start.sum(axis=0),
        refresh_targets=4,
        solver="bold_driver",
        margin=0.05,
        early_stopping=True,
        max_iter=12,
        random_state=3,
    )
    return fitted(model, histograms(900))


@large
def margin_search_lmnn():
    X, y, new = blobs(1400)
    model = LMNN(2, k=2, max_iter=5, random_state=0)
    search = model_selection.margin_search(model, X, y, mu=[0.3, 3.0], cv=2)
    return {**results_of(search.best_estimator_, new), **tried(search)}


@large
def margin_search_chi2():
    X, y, new = histograms(1400)
    model = Chi2LMNN(4, max_iter=4, random_state=0)
    search = model_selection.margin_search(model, X, y, mu=[1.0], cv=2)
    return {**results_of(search.best_estimator_, new), **tried(search)}


@large
def rca_classes_and_chunks():
    X, y, new = digits(900)
    out = {f"plain.{name}": value for name, value in fitted(RCA(), blobs(900)).items()}
    out.update(fitted(RCA(9, shrinkage="oas"), (X, y, new)))
    chunks = np.where(np.arange(900) % 3 == 0, -1, y)
    model = RCA(4, shrinkage=0.2, scaling="global").fit(X, chunks=chunks)
    out.update({f"chunks.{name}": value for name, value in results_of(model, new).items()})
    return out


# Losses and gradients at fixed points


def nca_values(n):
    """The loss of NCA, and its gradient, in many ways."""
    Z, y, _ = blobs(n, 3, 4, seed=5, spread=1.0)
    Z = Z * 0.3
    rng = np.random.RandomState(6)
    some, others = np.sort(rng.permutation(n)[: n // 3]), np.sort(rng.permutation(n)[: n // 2])
    weight = rng.uniform(0.1, 2.0, n)
    heavy = targets.Labels(y, weight, "uniform")
    given = targets.Labels(y, None, [0.1, 0.2, 0.3, 0.4])
    shares = np.array([0.1, 0.2, 0.05, 0.5])
    student, compact = densities.Student(), densities.Compact()
    nearest = neighborhoods.Nearest(m=20).pairs(Z, y)
    drawn = neighborhoods.RandomPairs(m=30).pairs(Z, y, None, np.random.RandomState(7))
    tree = neighborhoods.Tree(tolerance=1e-3, always=True).pairs(Z, y)
    cases = {
        "log": {},
        "accuracy": {"objective": "accuracy"},
        "queries": {"queries": some},
        "references": {"queries": some, "references": others, "objective": "accuracy"},
        "weights": {"y": heavy},
        "weights_accuracy": {"y": heavy, "objective": "accuracy"},
        "priors": {"y": given},
        "student": {"kernel": student},
        "student_accuracy": {"kernel": student, "objective": "accuracy"},
        "student_priors_queries": {"kernel": student, "y": given, "queries": some},
        "compact_accuracy": {"kernel": compact, "objective": "accuracy"},
        "compact_background": {"kernel": compact, "background": shares},
        "compact_background_weights": {"kernel": compact, "background": shares, "y": heavy},
        "gaussian_background": {"background": shares},
        "student_background": {"kernel": student, "background": shares, "references": others},
        "nearest": {"pairs": nearest},
        "nearest_student": {"pairs": nearest, "kernel": student, "objective": "accuracy"},
        "nearest_weights": {"pairs": nearest, "y": heavy, "queries": some},
        "nearest_compact": {"pairs": nearest, "kernel": compact, "background": shares},
        "drawn": {"pairs": drawn},
        "tree": {"pairs": tree},
        "tree_weights": {"pairs": tree, "y": heavy, "objective": "accuracy"},
    }
    return values(objectives.nca, Z, y, cases)


def knca_values(n):
    """The loss of kNCA, and its gradient, in many ways."""
    Z, y, _ = blobs(n, 3, 4, seed=5, spread=1.0)
    Z = Z * 0.3
    rng = np.random.RandomState(6)
    some, others = np.sort(rng.permutation(n)[: n // 3]), np.sort(rng.permutation(n)[: n // 2])
    nearest = neighborhoods.Nearest(m=30, own=5).pairs(Z, y)
    drawn = neighborhoods.RandomPairs(m=30).pairs(Z, y, None, np.random.RandomState(7))
    cases = {
        "one": {"k": 1},
        "two": {"k": 2},
        "five": {"k": 5},
        "five_accuracy": {"k": 5, "objective": "accuracy"},
        "five_all": {"k": 5, "vote": "all"},
        "three_all_accuracy": {"k": 3, "vote": "all", "objective": "accuracy"},
        "ten": {"k": 10},
        "queries": {"k": 4, "queries": some},
        "references": {"k": 3, "queries": some, "references": others},
        "nearest": {"k": 3, "pairs": nearest},
        "nearest_all": {"k": 5, "vote": "all", "pairs": nearest, "objective": "accuracy"},
        "drawn": {"k": 2, "pairs": drawn},
    }
    return values(objectives.knca, Z, y, cases)


def lmnn_values(n):
    """The large-margin loss and its gradient, with squared distances and with χ²."""
    X, y, _ = blobs(n, 3, 4, seed=5, spread=1.0)
    rng = np.random.RandomState(6)
    some, others = np.sort(rng.permutation(n)[: n // 3]), np.sort(rng.permutation(n)[: n // 2])
    aim = {
        k: targets.TargetNeighbors(y, neighborhoods.target_neighbors(X, y, k)) for k in (1, 3, 5)
    }
    few = targets.TargetNeighbors(y, neighborhoods.target_neighbors(X, y, 3, others))
    cases = {
        "one": {"y": aim[1]},
        "three": {"y": aim[3]},
        "five": {"y": aim[5], "mu": 0.3, "margin": 4.0},
        "queries": {"y": aim[3], "queries": some},
        "references": {"y": few, "queries": some, "references": others, "margin": 0.5},
    }
    out = values(objectives.lmnn, X * 0.5, y, cases)
    H, y, _ = histograms(n, 8)
    H = H / H.sum(axis=1, keepdims=True)
    by = {k: targets.TargetNeighbors(y, neighborhoods.target_neighbors(H, y, k)) for k in (1, 3)}
    cases = {
        "chi2_one": {"y": by[1], "margin": 0.01},
        "chi2_three": {"y": by[3], "margin": 0.05, "mu": 2.0},
        "chi2_queries": {"y": by[3], "margin": 0.05, "queries": some, "references": others},
    }
    cases = {name: {"distance": "chi2", **options} for name, options in cases.items()}
    return {**out, **values(objectives.lmnn, H, y, cases)}


def values(function, Z, y, cases):
    """Value and gradient of each case; for the first case also with float32 points."""
    out = {}
    for number, (name, options) in enumerate(cases.items()):
        kwargs = {"y": y, **options}
        aim = kwargs.pop("y")
        value, gradient = function(Z, aim, **kwargs)
        out[f"value.{name}"], out[f"gradient.{name}"] = np.asarray(value), gradient
        alone, _ = function(Z, aim, gradient=False, **kwargs)
        out[f"value.{name}_alone"] = np.asarray(alone)
        if number == 0:
            value, gradient = function(Z.astype(np.float32), aim, **kwargs)
            out[f"single_value.{name}"], out[f"single_gradient.{name}"] = value, gradient
    return {name: np.asarray(value) for name, value in out.items()}


@large
def values_nca_large():
    return nca_values(700)


@large
def values_knca_large():
    return knca_values(700)


@large
def values_lmnn_large():
    return lmnn_values(700)


@small
def values_nca_small():
    return nca_values(300)


@small
def values_knca_small():
    return knca_values(200)


@small
def values_lmnn_small():
    return lmnn_values(300)


# Fits of few rows


def summary(model, X, y):
    """The last objective, and the number of training errors."""
    wrong = np.count_nonzero(model.predict(X) != y)
    return {"loss_": np.asarray(model.loss_), "n_wrong": np.asarray(wrong)}


def many(models, X, y):
    """The summaries of several fits to the same rows."""
    out = {}
    for label, model in models.items():
        found = summary(model.fit(X, y), X, y)
        out.update({f"{name}.{label}": value for name, value in found.items()})
    return out


@small
def nca_small():
    X, y = load_wine(return_X_y=True)
    models = {
        "default": NCA(random_state=0, max_iter=25, alpha=3e-3),
        "picture": NCA(2, objective="accuracy", random_state=0, max_iter=25, alpha=3e-3),
        "compact": NCA(2, kernel="compact", random_state=0, max_iter=15, alpha=3e-3),
        "student": NCA(2, kernel="student", rule="knn", random_state=0, max_iter=15, alpha=3e-3),
        "diagonal": NCA(
            mapping="diagonal", priors="uniform", random_state=0, max_iter=25, alpha=3e-3
        ),
        "nearest": NCA(
            2, neighborhood=neighborhoods.Nearest(m=20), random_state=0, max_iter=15, alpha=3e-3
        ),
        "auto": NCA("auto", alpha="auto", cv=3, random_state=0, max_iter=10),
    }
    return many(models, X, y)


@small
def nca_batches_small():
    X, y = load_iris(return_X_y=True)
    sampling = samplers.MiniBatches(60, clusters="random")
    models = {
        "batches": NCA(2, sampling=sampling, max_iter=15, random_state=0, alpha=3e-3),
        "early": NCA(2, early_stopping=True, max_iter=20, random_state=0, alpha=3e-3),
    }
    return many(models, X, y)


@small
def knca_small():
    X, y = load_iris(return_X_y=True)
    models = {
        "default": KNCA(2, random_state=0, max_iter=20),
        "all": KNCA(2, k=3, vote="all", rule="knn", random_state=0, max_iter=20),
    }
    return many(models, X, y)


@small
def lmnn_small():
    X, y = load_wine(return_X_y=True)
    models = {
        "default": LMNN(random_state=0, max_iter=25),
        "picture": LMNN(2, k=3, init="rca", refresh_targets=5, random_state=0, max_iter=20),
    }
    return many(models, X, y)


@small
def chi2_small():
    X, y, _ = histograms(250)
    models = {
        "default": Chi2LMNN(random_state=0, max_iter=20),
        "groups": Chi2LMNN(4, random_state=0, max_iter=20),
        "softmax": Chi2LMNN(4, constraint="softmax", random_state=0, max_iter=15),
    }
    return many(models, X, y)


def whole_fit():
    """A fit of twelve iterations, with all its answers."""
    model = NCA(3, solver="lbfgs", max_iter=12, tol=0, warm_start=True, random_state=0, alpha=3e-3)
    return fitted(model, digits(1200))


LARGE["whole_fit"] = _quiet(whole_fit)

_COLUMNS = "small maps are projected onto the simplex by NumPy"
#: configurations whose last digits changed when the library was rebuilt, and why
ROUNDED_ANEW = {
    "knca_stream": "fewer than 500 rows are remembered, and these are computed by NumPy",
    "chi2_groups_projected": _COLUMNS,
    "chi2_identity_single_then_double": _COLUMNS,
    "chi2_random_adaptive": _COLUMNS,
    "chi2_array_refresh_bold_driver": _COLUMNS,
    "margin_search_chi2": _COLUMNS,
}
