"""
t-SNE that places new points
============================

``KSNE`` draws a picture of digits without their labels, and then places images that it has not
seen.  Each new image is placed by itself: it has the same place whichever images come with it, and
the picture does not move.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from vicinal import KSNE
from vicinal.metrics import trustworthiness

X, y = load_digits(return_X_y=True)
known, new = slice(0, 1200), slice(1200, 1500)

# %%
# The picture, and the places of 300 new images in it.
picture = KSNE(k=1, random_state=0).fit(X[known])
places = picture.transform(X[new])
print(f"trustworthiness of the picture: {trustworthiness(X[known], picture.embedding_):.3f}")

# %%
# Small dots are the picture, circles are new images.  The colours are the digits, which nobody
# was told.
figure, ax = plt.subplots(figsize=(7, 6), layout="constrained")
style = {"cmap": "tab10", "vmin": -0.5, "vmax": 9.5}
ax.scatter(*picture.embedding_.T, c=y[known], s=5, alpha=0.5, **style)
points = ax.scatter(*places.T, c=y[new], s=30, edgecolor="black", linewidth=0.5, **style)
figure.colorbar(points, ax=ax, ticks=range(10), label="digit")
ax.set(xticks=[], yticks=[])
