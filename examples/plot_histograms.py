"""
Histograms: reduce 64 bins to ten, and show what the ten are made of
====================================================================

::

    python examples/plot_histograms.py [picture.png]

The pixels of scikit-learn's digits, divided by their sum, are a histogram of ink.  The picture
shows how much of each pixel goes to each of the ten learnt bins.  Needs matplotlib.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from vicinal import Chi2LMNN
from vicinal.metrics import Chi2Index

BINS = 10


picture = Path(*sys.argv[1:2] or ["demo/histograms.png"])

# %%
# Each image is divided by its sum: a histogram of ink over 64 pixels.
X, y = load_digits(return_X_y=True)
X = X / X.sum(axis=1, keepdims=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

# %%
# Two baselines, and ten learnt bins.
nearest = Chi2Index(X_train).kneighbors(X_test, 1, return_distance=False)[:, 0]
linear = make_pipeline(PCA(BINS, random_state=0), KNeighborsClassifier(3))
model = Chi2LMNN(n_components=BINS, random_state=0)
rows = {
    "64 bins, nearest by χ²": np.mean(y_train[nearest] == y_test),
    "PCA to 10, three nearest": linear.fit(X_train, y_train).score(X_test, y_test),
    "χ²-LMNN to 10, three nearest": model.fit(X_train, y_train).score(X_test, y_test),
}
for name, right in rows.items():
    print(f"{name:<30}{100 * right:>6.1f}%")

# %%
# Each panel is a learnt bin: the share of each pixel that goes to it.
figure, axes = plt.subplots(2, 5, figsize=(7, 3), layout="constrained")
for ax, share in zip(axes.flat, model.components_, strict=True):
    ax.imshow(share.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
    ax.set_axis_off()
figure.suptitle("the share of each pixel in ten learnt bins")
picture.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(picture)
print(f"Picture: {picture}")
