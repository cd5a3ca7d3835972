"""Learn metrics on wine and digits; print a table of test accuracies and draw a picture.

`make demo` runs it.  Every method gets the same standardised columns and the same stratified
splits: 70 % of the rows for training, 30 % for testing.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vicinal import NCA, RCA
from vicinal.initialise import base_scale, scale_start
from vicinal.objectives import nca, nca_posterior
from vicinal.plotting import before_after

ROW = "{:<8}{:<22}{:>4}{:>9.3f}{:>8.3f}{:>11.3f}{:>10.3f}"
HEAD = "{:<8}{:<22}{:>4}{:>9}{:>8}{:>11}{:>10}"


def methods(n_features, n_classes):
    """The maps to compare: (name, rank, estimator)."""
    yield "PCA", 2, PCA(2)
    yield "PCA, whitened", 2, PCA(2, whiten=True)
    yield "LDA", 2, LDA(n_components=2)
    yield "RCA", 2, RCA(2)
    yield "NCA", 2, NCA(2, random_state=0)
    yield "Euclidean (= PCA)", n_features, FunctionTransformer()
    yield "whitened", n_features, PCA(whiten=True)
    if n_classes > 3:  # LDA has at most n_classes - 1 directions
        yield "LDA (its full rank)", n_classes - 1, LDA()
    yield "RCA", n_features, RCA()
    yield "NCA", n_features, NCA(n_features, random_state=0)


def best_scale(Z, y):
    """The factor with the best leave-one-out posterior on the training rows.

    The posterior depends on the scale of the map.  NCA learns this scale; the other methods do not.
    """
    base = base_scale(Z, np.random.RandomState(0))
    return scale_start(Z, lambda scaled: nca(scaled, y, gradient=False)[0], base)


def evaluate(model, X_train, X_test, y_train, y_test):
    """Test accuracies of 1-NN, 5-NN and the posterior, seconds to fit, and the mapped test rows."""
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    Z_train, Z_test = model.transform(X_train), model.transform(X_test)
    accuracy = [KNeighborsClassifier(k).fit(Z_train, y_train).score(Z_test, y_test) for k in (1, 5)]
    if isinstance(model, NCA):
        accuracy.append(model.score(X_test, y_test))  # rule="posterior" is the default
    else:
        s = best_scale(Z_train, y_train)
        posterior = nca_posterior(s * Z_test, s * Z_train, y_train)
        accuracy.append(np.mean(np.unique(y_train)[posterior.argmax(axis=1)] == y_test))
    return [*accuracy, seconds], Z_test


def compare(name, data, n_splits, first_seed):
    """Print the results of one data set; return its 2-D panels and labels for the first split."""
    raw = [
        train_test_split(
            data.data, data.target, test_size=0.3, stratify=data.target, random_state=s
        )
        for s in range(first_seed, first_seed + n_splits)
    ]
    varies = np.all([X_train.std(axis=0) > 0 for X_train, *_ in raw], axis=0)
    splits = []
    for X_train, X_test, y_train, y_test in raw:
        columns = StandardScaler().fit(X_train[:, varies])
        X_train, X_test = (columns.transform(X[:, varies]) for X in (X_train, X_test))
        splits.append((X_train, X_test, y_train, y_test))
    panels = {}
    for method, rank, model in methods(splits[0][0].shape[1], len(data.target_names)):
        results = [evaluate(model, *split) for split in splits]
        print(ROW.format(name, method, rank, *np.mean([r[0] for r in results], axis=0)), flush=True)
        if rank == 2 and method in ("PCA", "LDA", "NCA"):
            (_, accuracy, _, _), Z = results[0]
            panels[f"{method}: {accuracy:.0%} right by 5-NN"] = Z
    return name, panels, data.target_names[splits[0][3]]


def draw(pictures, path):
    """Draw the test rows of the first split: one row of panels for each data set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(pictures), 3, figsize=(12, 3.9 * len(pictures)), layout="constrained", squeeze=False
    )
    for row, (name, panels, labels) in zip(axes, pictures, strict=True):
        before_after(panels, labels, row)
        row[0].set_ylabel(name, fontsize="x-large")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits of wine, nothing else")
    parser.add_argument("--picture", type=Path, default=Path("demo", "before_after.png"))
    parser.add_argument("--seed", type=int, default=0, help="seed of the first split")
    parser.add_argument(
        "--splits", type=int, default=1, help="number of splits of digits; wine gets ten times more"
    )
    options = parser.parse_args()
    # about 540 test rows for each: ten splits of wine, one of digits
    data = [("wine", load_wine(), 2 if options.quick else 10 * options.splits)]
    if not options.quick:
        data.append(("digits", load_digits(), options.splits))

    start = time.perf_counter()
    print("Compiling, on first use only ...", flush=True)
    for _, bunch, _ in data:
        NCA(2, tol=1e3).fit(bunch.data, bunch.target)
    print(f"... {time.perf_counter() - start:.1f} s\n")

    print(HEAD.format("data", "method", "d", "1-NN", "5-NN", "posterior", "seconds"))
    pictures = [compare(*each, options.seed) for each in data]
    counts = " and ".join(f"{n} split{'s' * (n > 1)} of {name}" for name, _, n in data)
    print(f"\nAccuracy on the test rows ({counts}) and seconds to learn, by rank d.")
    print(
        "Only NCA learns a scale; for the other maps the posterior uses the scale that is best in "
        "training."
    )
    draw(pictures, options.picture)
    print(f"\nThe test rows in 2-D: {options.picture}")
    print(f"Total: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
