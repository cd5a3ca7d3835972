"""The picture of the README: the same held-out rows under PCA, LDA and a learnt metric.

    python examples/plot_front_page.py [picture.png] [--splits 5] [--rows 800] [--only rings]

Rings: three classes on rings in two columns, hidden among eight columns of noise; every column has
the same deviation, and all classes have the same mean.  Here NCA learns a metric of all columns, as
it does by default, and two principal components of the embedded rows are drawn.  Digits:
scikit-learn's 1,797 images of 8 x 8 pixels, which NCA maps to two dimensions.  Each method gets the
same scaled columns of one half of the rows, and its default parameters; the picture shows the other
half, for the first split.  The percentages are those of the 5 nearest neighbours among the points
as they are drawn, on the held-out rows: mean and standard error over the splits.  Needs matplotlib.
"""

import argparse
import io
import warnings
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import NCA
from vicinal.datasets import make_rings
from vicinal.plotting import EmbeddingDisplay

NOISE = 8  # columns
K = 5


def methods(nca):
    """The maps to two dimensions, with their default parameters."""
    return {"PCA": PCA(2, random_state=0), "LDA": LDA(n_components=2), "vicinal NCA": nca}


def rings(n, seed):
    """Rings in two columns among columns of noise, in random order; and how NCA is used."""
    X, y = make_rings(n, n_classes=3, random_state=seed)
    rng = np.random.RandomState(seed)
    X = np.hstack([X, rng.normal(size=(n, NOISE - 1))])  # make_rings adds one column of noise
    X, y = X[:, rng.permutation(X.shape[1])], np.array(["inner", "middle", "outer"])[y]
    return X, y, make_pipeline(NCA(random_state=0), PCA(2, random_state=0))


def digits(n, seed):
    """Images of digits as rows of pixels; and how NCA is used."""
    return *load_digits(return_X_y=True), NCA(2, random_state=0)


def evaluate(X, y, nca, seed):
    """For each method its accuracy on the held-out half, and where these rows are mapped to."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    varies = X.std(axis=0) > 0
    X, X_test = X[:, varies], X_test[:, varies]
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    accuracy, places = {}, {}
    for name, model in methods(nca).items():
        Z, places[name] = model.fit(X, y).transform(X), model.transform(X_test)
        accuracy[name] = KNeighborsClassifier(K).fit(Z, y).score(places[name], y_test)
    return accuracy, places, y_test


def percent(values):
    """Mean and standard error of accuracies."""
    mean = f"{100 * np.mean(values):.0f}"
    if len(values) == 1:
        return f"{mean} %"
    return f"{mean} ± {100 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f} %"


def panels(make, n, n_splits):
    """Titles and held-out rows of the first split, their labels, and all accuracies."""
    results = [evaluate(*make(n, seed), seed) for seed in range(n_splits)]
    found = {name: [accuracy[name] for accuracy, *_ in results] for name in results[0][0]}
    _, places, y = results[0]
    titles = {f"{name}: {percent(found[name])}": Z for name, Z in places.items()}
    return titles, y, found


def save(figure, path):
    """Save in 255 colours, in a third of the bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    Image.open(buffer).convert("RGB").quantize(255).save(path, optimize=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", type=Path, nargs="?", default=Path("demo", "front_page.png"))
    parser.add_argument("--splits", type=int, default=5, help="seeds 0, 1, ... of data and splits")
    parser.add_argument("--rows", type=int, default=800, help="rows of the rings")
    parser.add_argument("--only", choices=("rings", "digits"), help="one of the two tables")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)  # of searches that stop early

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tables = {
        f"rings among {NOISE} noise columns": ("rings", rings),
        "digits, 64 pixels": ("digits", digits),
    }
    tables = {name: make for name, (short, make) in tables.items() if options.only in (None, short)}
    figure, axes = plt.subplots(
        len(tables), 3, figsize=(9.6, 3.05 * len(tables)), layout="constrained", squeeze=False
    )
    for row, (name, make) in zip(axes, tables.items(), strict=True):
        titles, y, found = panels(make, options.rows, options.splits)
        EmbeddingDisplay.from_embeddings(titles, y, ax=row, size=13)
        row[0].set_ylabel(name, fontsize="large")
        row[-1].title.set_fontweight("bold")
        for method, values in found.items():
            print(f"{name}: {method}: {percent(values)} of {len(y)} held-out rows")
    save(figure, options.picture)
    print(f"Picture: {options.picture}")


if __name__ == "__main__":
    main()
