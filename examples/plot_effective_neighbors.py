"""
How many neighbours a prediction rests on
=========================================

NCA learns a distance *and* its scale.  The scale says how many neighbours a row effectively
listens to: few where the classes are far apart, many near a border or under noise.  The penalty
``alpha`` moves this number.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from vicinal import NCA

X, y = make_moons(400, noise=0.25, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# The number of neighbours of each new row, for three penalties.
figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for ax, alpha in zip(axes, (0.001, 0.01, 0.1), strict=True):
    model = NCA(2, alpha=alpha, random_state=0).fit(X_train, y_train)
    numbers = model.local_n_neighbors(X_test)
    points = ax.scatter(*X_test.T, c=np.log10(numbers), s=25, vmin=0, vmax=2.3)
    accuracy = model.score(X_test, y_test)
    ax.set(xticks=[], yticks=[], title=f"alpha = {alpha}: accuracy {accuracy:.0%}")
    print(f"alpha = {alpha}: a typical row listens to {np.median(numbers):.0f} neighbours")
bar = figure.colorbar(points, ax=axes, label="effective number of neighbours")
bar.set_ticks([0, 1, 2], labels=["1", "10", "100"])
