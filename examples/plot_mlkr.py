"""
A number that depends on two hidden directions: MLKR finds them, and predicts by neighbours
===========================================================================================

::

    python examples/plot_mlkr.py [picture.png]

The number of a row is a wave across a plane that lies aslant in twelve columns; all columns vary
alike, so principal components do not see the plane.  MLKR learns it from the numbers alone.  Left:
test rows in their first two principal components; right: in the plane that was learnt.  The colour
is the number.  Needs matplotlib.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsRegressor

from vicinal import MLKR

ROWS, COLUMNS = 600, 12


def waves(rng):
    """Rows, and a number for each: a wave over two directions of the columns, with noise."""
    X = rng.normal(size=(ROWS, COLUMNS))
    plane = np.linalg.qr(rng.normal(size=(COLUMNS, 2)))[0]
    a, b = (X @ plane).T
    return X, np.sin(2 * a) + b**2 / 2 + 0.1 * rng.normal(size=ROWS)


picture = Path(*sys.argv[1:2] or ["demo/mlkr.png"])

# %%
# MLKR learns the plane from the numbers alone.
X, y = waves(np.random.RandomState(0))
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
plain = KNeighborsRegressor(10).fit(X_train, y_train)
model = MLKR(2, random_state=0).fit(X_train, y_train)
principal = PCA(2).fit(X_train)
before, after = plain.score(X_test, y_test), model.score(X_test, y_test)
print(f"R² of new rows: {before:.2f} by 10 nearest neighbours, {after:.2f} by MLKR")

# %%
# Test rows in two principal components, and in the learnt plane.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
panels = {
    f"principal components; 10-NN on all columns:\nR² = {before:.2f}": principal,
    f"MLKR:\nR² = {after:.2f}": model,
}
for ax, (title, part) in zip(axes, panels.items(), strict=True):
    points = ax.scatter(*part.transform(X_test).T, c=y_test, s=18, cmap="viridis")
    ax.set_title(title, fontsize=10)
    ax.set_aspect("equal", "datalim")
    ax.set_xticks([])
    ax.set_yticks([])
figure.colorbar(points, ax=axes, label="number")
picture.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(picture)
print(f"Picture: {picture}")
