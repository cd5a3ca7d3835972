"""
Search for similar images
=========================

A search index answers a query with the nearest stored rows.  Here the nearest images under
Euclidean distance of the pixels are compared with the nearest under a learnt distance.  Any index
for Euclidean vectors can hold the embedded rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from vicinal import NCA

SHOWN, NEAREST = 5, 6
X, y = load_digits(return_X_y=True)
X = X + np.random.default_rng(0).normal(scale=6, size=X.shape)  # noise hides the digits
stored, queries = slice(0, 1300), slice(1300, None)

# %%
# The map learns from the stored images and their labels; the queries are new.
model = NCA(12, scaling="global", random_state=0).fit(X[stored], y[stored])
spaces = {"pixels": X, "learnt distance": model.transform(X)}
found = {}
for name, Z in spaces.items():
    index = NearestNeighbors(n_neighbors=NEAREST).fit(Z[stored])
    found[name] = index.kneighbors(Z[queries], return_distance=False)
    right = np.mean(y[stored][found[name]] == y[queries][:, None])
    print(f"{name}: {right:.0%} of the {NEAREST} nearest images show the same digit")

# %%
# Each row is a query and what was found for it; a frame marks another digit.
worst = np.argsort(np.mean(y[stored][found["pixels"]] == y[queries][:, None], axis=1))[:SHOWN]
figure, axes = plt.subplots(SHOWN, 1 + 2 * NEAREST, figsize=(11, 4.4), layout="constrained")
for row, query in zip(axes, worst, strict=True):
    images = [X[queries][query]]
    digits = [y[queries][query]]
    for rows in found.values():
        images += list(X[stored][rows[query]])
        digits += list(y[stored][rows[query]])
    for ax, image, digit in zip(row, images, digits, strict=True):
        ax.imshow(image.reshape(8, 8), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
        if digit != digits[0]:
            plt.setp(ax.spines.values(), color="C1", linewidth=3)
axes[0, 0].set_title("query")
axes[0, 1].set_title("nearest by pixels", loc="left")
axes[0, 1 + NEAREST].set_title("nearest by the learnt distance", loc="left")
