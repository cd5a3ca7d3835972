"""The work of ``methods_speed.py``: data, contenders, and how a result is judged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _common import MEAN_SQUARED_DISTANCE, blobs, early_map
from chi2_lmnn_memory import histograms
from maps_speed import data as bent_rows
from sklearn.datasets import load_digits, load_wine, make_classification, make_friedman1
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale

from vicinal.objectives import mlkr, nca
from vicinal.targets import pairs_from_labels, quadruplets_from_labels

Arrays = dict[str, Any]
SPARSITY = 0.01  # of SDML


class Contender(NamedTuple):
    """A library and what its worker calls the method; what stands in the table in its place."""

    library: str
    key: str
    shown: str = ""

    def __str__(self) -> str:
        return self.shown or self.library


class Task(NamedTuple):
    """The same work for several contenders; the first is vicinal's own method."""

    method: str
    work: str
    data: Arrays
    contenders: list[Contender]
    judge: Callable[[Arrays, Arrays], str]  # of the data and what was learnt
    measure: str


def _beside(key: str, *libraries: str) -> list[Contender]:
    """vicinal and others whose workers have the method under the same name."""
    return [Contender(library, key) for library in ("vicinal", *libraries)]


# ------------------------------------------------------------------------------------- judges


def _votes(data: Arrays, learnt: Arrays, k: int = 5) -> str:
    """Held-out accuracy of k neighbours in the learnt space."""
    y = data["y_reference"] if "y_reference" in data else data["y"]
    model = KNeighborsClassifier(k).fit(learnt["Z"], y)
    return f"{100 * model.score(learnt['Z_test'], data['y_test']):.1f} %"


def _expected_accuracy(data: Arrays, learnt: Arrays) -> str:
    """The objective of NCA in float64: the mean probability of a right choice."""
    value = nca(data["X"] @ learnt["A"].T, data["y"], "accuracy", gradient=False)[0]
    return f"{-value:.4f}"


def _explained(data: Arrays, learnt: Arrays) -> str:
    """The objective of MLKR as R² of each row predicted by the others."""
    loss = mlkr(data["X"] @ learnt["A"].T, data["y"], gradient=False)[0]
    return f"{1.0 - loss / float(np.var(data['y'])):.4f}"


def _right(data: Arrays, learnt: Arrays) -> str:
    return f"{100 * accuracy_score(data['y_test'], learnt['predicted']):.1f} %"


def _r2(data: Arrays, learnt: Arrays) -> str:
    return f"{r2_score(data['y_test'], learnt['predicted']):.3f}"


def _trust(data: Arrays, learnt: Arrays) -> str:
    from vicinal.metrics import trustworthiness

    some = {"sample_size": min(2000, len(learnt["Z"])), "random_state": 0}
    return f"{trustworthiness(data['X'], learnt['Z'], n_neighbors=12, **some):.4f}"


def weak_value(method: str, data: Arrays, learnt: Arrays) -> str:
    """The objective of ITML, MMC, SDML or LSML at a matrix (docs/theory)."""
    X, pairs, y, M = data["X"], data["pairs"], data["y"], learnt["M"]

    def squared(at: Any) -> Any:
        x = X[at[:, 0]] - X[at[:, 1]]
        return np.maximum(np.einsum("ij,ij->i", x @ M, x), 0.0)

    if method == "MMC":
        value = np.mean(squared(pairs[y > 0])) / np.mean(np.sqrt(squared(pairs[y < 0]))) ** 2
        return f"{value:.5g}"
    value = np.trace(M) - np.linalg.slogdet(M)[1] - len(M)  # the divergence from the identity
    if method == "ITML":
        r = squared(pairs) / np.where(y > 0, *data["bounds"])
        r[y * (r - 1.0) <= 0.0] = 1.0
        value += np.sum(r - np.log(r) - 1.0)
    elif method == "SDML":
        off = np.abs(M).sum() - np.abs(np.diag(M)).sum()
        value += data["balance"] * (y @ squared(pairs)) + data["sparsity"] * off
    else:
        near, far = (np.sqrt(squared(data["quadruplets"][:, at])) for at in ([0, 1], [2, 3]))
        value += np.mean(np.maximum(near - far, 0.0) ** 2)
    return f"{value:.5g}"


# --------------------------------------------------------------------------------------- data


def _split(X: Any, y: Any, **more: Any) -> Arrays:
    """Rows to learn from and rows to judge by."""
    stratify = y if y.dtype.kind in "iu" else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=stratify)
    return {"X": X, "y": y, "X_test": X_test, "y_test": y_test, **more}


def _digits(rows: int | None = None, standard: bool = True) -> tuple[Any, Any]:
    X, y = load_digits(return_X_y=True)
    return (scale(X[:rows]) if standard else X[:rows]), y[:rows]


def _hard(n: int) -> tuple[Any, Any]:
    """Ten classes that overlap in 20 of 50 columns."""
    return make_classification(n, 50, n_informative=20, n_classes=10, random_state=0)


def _size(X: Any, more: str = "") -> str:
    return f"{len(X):,} × {X.shape[1]}{more}"


def _constraints(X: Any, y: Any, n: int | None) -> Arrays:
    """What both libraries are told: pairs, quadruplets, bounds and balance."""
    X = scale(X)
    pairs, labels = pairs_from_labels(y, n, random_state=0)
    differ = (X[pairs[:, 0]] != X[pairs[:, 1]]).any(axis=1)
    pairs, labels = pairs[differ], labels[differ]
    x = X[pairs[:, 0]] - X[pairs[:, 1]]
    lowest = np.linalg.eigvalsh((x.T * labels) @ x)[0]
    sample = X[np.random.RandomState(0).randint(len(X), size=(100_000, 2))]
    squares = np.sum((sample[:, 0] - sample[:, 1]) ** 2, axis=1)
    return {
        "X": X, "pairs": pairs, "y": labels, "sparsity": SPARSITY,
        "quadruplets": quadruplets_from_labels(y, n, random_state=0),
        "bounds": np.percentile(squares[squares > 0], (5, 95)),
        "balance": min(0.5, -0.5 / lowest) if lowest < 0 else 0.5,
    }  # fmt: skip


def _chunks(y: Any) -> Any:
    """Chunks of two to four rows of one class; half of the rows are in none."""
    rng = np.random.default_rng(0)
    chunks = np.full(len(y), -1)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))[: np.sum(y == label) // 2]
        chunks[rows] = chunks.max() + 1 + np.arange(len(rows)) // 3
    return chunks


def _photographs(digits: Any, rng: np.random.Generator) -> Any:
    """Pictures under light of random strength and direction, as in examples/plot_partners.py."""
    ramps = np.stack([np.ones((8, 8)), *np.mgrid[-1:1:8j, -1:1:8j]])
    light = np.tensordot(rng.normal(scale=6, size=(len(digits), 3)), ramps, 1)
    return (digits + light + rng.normal(scale=2, size=digits.shape)).reshape(-1, 64)


def _pictures(n: int) -> tuple[Any, str]:
    """Rows of mnist in 50 principal components, or synthetic ones; and which."""
    folder = os.environ.get("VICINAL_DATA")
    if folder is None or not (Path(folder) / "mnist.npz").is_file():
        return blobs(n, 50, dtype=np.float32)[0], "synthetic"
    with np.load(Path(folder) / "mnist.npz") as file:
        rows = np.random.RandomState(0).permutation(len(file["X"]))[:n]
        X = file["X"][rows].astype(np.float32) / 255
    return PCA(50, random_state=0).fit_transform(X).astype(np.float32), "mnist"


# -------------------------------------------------------------------------------------- tasks


def _nca_tasks(quick: bool) -> Iterator[Task]:
    value = (_expected_accuracy, "expected accuracy")
    X, y = _digits(200 if quick else None)
    A, n_iter = PCA(2, random_state=0).fit(X).components_, 3 if quick else 50
    data = {"X": X, "y": y, "A": A, "iterations": n_iter}
    peers = ("scikit-learn", "metric-learn")
    yield Task("NCA", f"digits {_size(X, ' → 2')}, {n_iter} iterations", data,
               _beside("NCA", *peers), *value)  # fmt: skip
    X, y = blobs(300 if quick else 5000)
    n_iter = 2 if quick else 15
    data = {"X": X, "y": y, "A": early_map(X, 2), "iterations": n_iter}
    yield Task("NCA", f"synthetic {_size(X, ' → 2')}, {n_iter} iterations", data,
               _beside("NCA", *peers), *value)  # fmt: skip
    X, y = _digits(100 if quick else 500, standard=False)
    X = X - X.mean(axis=0)  # mlpack does not shift its exponentials: one scale for all columns
    X *= np.sqrt(MEAN_SQUARED_DISTANCE / (2.0 * X.var(axis=0).sum()))
    n_iter = 2 if quick else 10
    data = {"X": X, "y": y, "A": np.eye(X.shape[1]), "iterations": n_iter}
    yield Task("NCA", f"digits {_size(X)}, square, {n_iter} iterations", data,
               _beside("NCA", *peers, "mlpack"), *value)  # fmt: skip
    data = _split(*_digits(200 if quick else None))
    yield Task("NCA, with defaults", f"digits {_size(data['X'])}", data,
               _beside("NCA, with defaults", *peers), _votes, "5-NN, held out")  # fmt: skip


def _voting_tasks(quick: bool) -> Iterator[Task]:
    rows = 200 if quick else None
    n_iter = 3 if quick else 30
    data = _split(*_digits(rows))
    data |= {"A": PCA(2, random_state=0).fit(data["X"]).components_, "iterations": n_iter}
    pair = [Contender("vicinal", "KNCA"), Contender("vicinal", "KNCA, NCA", "NCA, against it")]
    yield Task("KNCA, k = 5", f"digits {_size(data['X'], ' → 2')}, {n_iter} iterations", data, pair,
               _votes, "5-NN, held out")  # fmt: skip
    three = partial(_votes, k=3)
    peers = ("metric-learn", "PyLMNN", "mlpack")
    data = _split(*_digits(rows, standard=False))
    yield Task("LMNN, k = 3", f"digits {_size(data['X'])}", data, _beside("LMNN", *peers), three,
               "3-NN, held out")  # fmt: skip
    data = _split(*_hard(300 if quick else 7000))
    yield Task("LMNN, k = 3", f"synthetic {_size(data['X'])}", data, _beside("LMNN", *peers), three,
               "3-NN, held out")  # fmt: skip
    data = _split(*histograms(300 if quick else 3000, 40 if quick else 200))
    data["iterations"] = n_iter
    yield Task("Chi2LMNN", f"histograms {_size(data['X'], ' → 20')}, {n_iter} iterations", data,
               _beside("Chi2LMNN"), three, "3-NN, held out")  # fmt: skip
    data = _split(*_digits(rows)) | {"iterations": n_iter}
    yield Task("MCML", f"digits {_size(data['X'])}, {n_iter} iterations", data, _beside("MCML"),
               _votes, "5-NN, held out")  # fmt: skip


def _closed_tasks(quick: bool) -> Iterator[Task]:
    data = _split(*_hard(400 if quick else 20_000))
    data["chunks"] = _chunks(data["y"])
    yield Task("RCA", f"synthetic {_size(data['X'])}, chunks of 3", data,
               _beside("RCA", "metric-learn"), _votes, "5-NN, held out")  # fmt: skip
    data = _split(*_hard(400 if quick else 10_000))
    yield Task("LFDA", f"synthetic {_size(data['X'], ' → 10')}", data,
               _beside("LFDA", "metric-learn"), _votes, "5-NN, held out")  # fmt: skip


def _number_tasks(quick: bool) -> Iterator[Task]:
    n, n_iter = (200, 3) if quick else (2000, 30)
    X, y = make_friedman1(n, 20, noise=1.0, random_state=0)
    data = {"X": X, "y": y, "A": early_map(X, 2), "iterations": n_iter}
    yield Task("MLKR", f"Friedman {_size(X, ' → 2')}, {n_iter} iterations", data,
               _beside("MLKR", "metric-learn"), _explained, "R², left out")  # fmt: skip
    data = _split(X, y)
    yield Task("NCARegressor", f"Friedman {_size(data['X'])}", data, _beside("NCARegressor"), _r2,
               "R², held out")  # fmt: skip


def _pair_tasks(quick: bool) -> Iterator[Task]:
    X, y = load_wine(return_X_y=True)
    few = _constraints(X, y, None)
    X, y = load_digits(return_X_y=True)
    many = few if quick else _constraints(X[:, X.std(axis=0) > 0], y, None)
    for method, name, data in (
        ("ITML", "wine", few), ("MMC", "digits", many), ("SDML", "digits", many),
        ("LSML", "digits", many),
    ):  # fmt: skip
        told = data["quadruplets" if method == "LSML" else "pairs"]
        words = "quadruplets" if method == "LSML" else "pairs"
        work = f"{'wine' if quick else name}, {len(told):,} {words} × {data['X'].shape[1]}"
        yield Task(method, work, data, _beside(method, "metric-learn"),
                   partial(weak_value, method), "objective (lower is better)")  # fmt: skip
    rng, n = np.random.default_rng(0), 100 if quick else 800
    pictures = rng.permutation(load_digits().images)
    known, new = pictures[:n], pictures[n : 2 * n]
    data = {
        "X": np.concatenate([_photographs(known, rng), _photographs(known, rng)]),
        "pairs": np.arange(2 * n).reshape(2, n).T,
        "X_reference": _photographs(new, rng), "y_reference": np.arange(len(new)),
        "X_test": _photographs(new, rng), "y_test": np.arange(len(new)),
    }  # fmt: skip
    yield Task("PairNCA", f"photographs {_size(data['X'], ' → 16')}, {n} pairs", data,
               _beside("PairNCA"), partial(_votes, k=1), "partner found, held out")  # fmt: skip


def _picture_tasks(quick: bool) -> Iterator[Task]:
    X, source = _pictures(300 if quick else 5000)
    n_iter = 30 if quick else 750
    contenders = [
        Contender("vicinal", "KSNE"),
        Contender("openTSNE", "KSNE, trees", "openTSNE, trees"),
        Contender("openTSNE", "KSNE, FFT", "openTSNE, FFT"),
        Contender("vicinal", "KSNE, k = 5", "vicinal, k = 5"),
    ]
    if not quick:  # scikit-learn takes no fewer than 250 iterations
        contenders.insert(3, Contender("scikit-learn", "KSNE"))
    yield Task("KSNE, k = 1", f"{source} {_size(X, ' → 2')}, {n_iter} iterations",
               {"X": X, "iterations": n_iter}, contenders, _trust, "trustworthiness")  # fmt: skip


def _map_tasks(quick: bool) -> Iterator[Task]:
    X, y = bent_rows(300 if quick else 10_000)
    X_test, y_test = bent_rows(500 if quick else 5000, seed=2)
    contenders = [
        Contender("vicinal", "maps"),
        Contender("vicinal", "maps, layers", "vicinal, periodic and layers"),
        Contender("scikit-learn", "maps, boosted trees", "scikit-learn, boosted trees"),
        Contender("scikit-learn", "maps, network", "scikit-learn, network"),
    ]
    data = {"X": X, "y": y, "X_test": X_test, "y_test": y_test}
    yield Task("NCA, periodic map", f"bent columns {_size(X)}", data, contenders, _right,
               "accuracy, held out")  # fmt: skip


def tasks(quick: bool) -> Iterator[Task]:
    """All work, one method after the other."""
    for group in (_nca_tasks, _voting_tasks, _closed_tasks, _number_tasks, _pair_tasks,
                  _picture_tasks, _map_tasks):  # fmt: skip
        yield from group(quick)
