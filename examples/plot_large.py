"""
Many rows: let NCA learn from batches, or pass the rows as a stream
===================================================================

::

    python examples/plot_large.py [picture.png]

The data are 30,000 rows on five noisy rings in a plane, hidden by a third column of large
variance. Needs matplotlib.
"""

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from vicinal import NCA, datasets

N_TEST = 1000
BATCH = 500


def learn_in_batches(X, y):
    """Fit with the default plan: for this many rows NCA chooses batches, and says so."""
    start = time.perf_counter()
    model = NCA(2, max_iter=60, random_state=0).fit(X, y)
    print(f"The plan: {model.plan_}.")
    print(f"{model.n_iter_} steps took {time.perf_counter() - start:.1f} s, compilation included.")
    return model


def learn_from_a_stream(X, y, X_test, y_test):
    """Learn from one batch after another; return the rows seen and the test accuracy after each."""
    model = NCA(2, reservoir_size=2500, random_state=0)
    seen, accuracy = [], []
    for first in range(0, len(X), BATCH):
        rows = slice(first, first + BATCH)
        model.partial_fit(X[rows], y[rows], classes=np.arange(5))
        seen.append(model.n_samples_seen_)
        accuracy.append(model.score(X_test, y_test))
    return seen, accuracy


def draw(losses, seen, accuracy, levels, path):
    """Draw the loss of each batch against the accuracy of the stream."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    left.plot(losses)
    left.set(title="Batches of 3,000 rows", xlabel="step", ylabel="loss of the batch")
    right.plot(seen, accuracy, marker=".", label="stream")
    for (name, level), style in zip(levels.items(), ("--", ":"), strict=True):
        right.axhline(level, linestyle=style, color="grey", label=name)
    right.set(title="A stream of 500-row batches", xlabel="rows seen", ylabel="test accuracy")
    right.legend(frameon=False)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


picture = Path(*sys.argv[1:2] or ["demo/large.png"])

# %%
# A plan for this many rows, and a stream of the same rows.
X, y = datasets.make_rings(30_000, noise=10.0, radial_noise=0.05, random_state=0)
X_train, X_test, y_train, y_test = X[N_TEST:], X[:N_TEST], y[N_TEST:], y[:N_TEST]

before = KNeighborsClassifier().fit(X_train, y_train).score(X_test, y_test)
model = learn_in_batches(X_train, y_train)
after = model.score(X_test, y_test)
seen, accuracy = learn_from_a_stream(X_train, y_train, X_test, y_test)
print("Test accuracy")
print(f"5-NN on the raw columns: {before:.1%}")
print(f"NCA on batches:          {after:.1%}")
print(f"NCA on a stream:         {accuracy[-1]:.1%}")

# %%
# The loss of each batch, and the accuracy of the stream as it goes on.
levels = {"all rows, by batches": after, "5-NN, raw columns": before}
draw(model.history_["loss"], seen, accuracy, levels, picture)
print(f"Picture: {picture}")
