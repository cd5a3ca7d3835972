"""
Half of the labels are noise: learn for one neighbour, or for a vote of ten?
============================================================================

::

    python examples/plot_votes.py [picture.png]

Half of the training labels of scikit-learn's digits, on average, are replaced by random ones.
Neighbours vote with these noisy labels too; the test labels are the true ones.  Needs matplotlib.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from vicinal import KNCA, NCA

VOTERS = (1, 3, 5, 10, 15, 25)


picture = Path(*sys.argv[1:2] or ["demo/votes.png"])

# %%
# Half of the training labels, on average, are replaced by random ones.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
rng = np.random.RandomState(0)
noise = rng.rand(len(y_train)) < 0.5
labels = np.where(noise, rng.choice(np.unique(y), len(y_train)), y_train)

# %%
# One map learns for a single neighbour, two for a vote of ten.
# one scale for all columns, so that pixels are not standardised one by one
setting = {"n_components": 5, "scaling": "global", "alpha": 3e-3, "random_state": 0}
models = {
    "NCA": NCA(**setting),
    "KNCA, majority of 10": KNCA(k=10, **setting),
    "KNCA, all of 10": KNCA(k=10, vote="all", **setting),
}
figure, ax = plt.subplots(layout="constrained")
print(f"{'voters':<22}" + "".join(f"{k:>8}" for k in VOTERS))
for name, model in models.items():
    Z = model.fit(X_train, labels).transform(X_train)
    Z_test = model.transform(X_test)
    right = [KNeighborsClassifier(k).fit(Z, labels).score(Z_test, y_test) for k in VOTERS]
    print(f"{name:<22}" + "".join(f"{100 * share:>7.1f}%" for share in right))
    ax.plot(VOTERS, right, marker="o", label=name)
ax.set(xlabel="voters", ylabel="test accuracy", title="digits, half of the labels are noise")
ax.legend()
picture.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(picture)
print(f"Picture: {picture}")
