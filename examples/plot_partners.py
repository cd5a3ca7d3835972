"""
Find the other picture of the same digit: learn from pairs, without any classes
===============================================================================

::

    python examples/plot_partners.py [picture.png]

Each digit is photographed twice, and the light of the two photographs differs much more than the
digits do.  PairNCA (Goldberger et al. 2005, equation 8) learns from such pairs which differences
say nothing.  Then each photograph of new digits looks for its partner.  Needs matplotlib.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from vicinal import PairNCA

DIGITS, SHOWN = 200, 8


def photographs(digits, rng):
    """Pictures of 8 × 8 pixels under light of random strength and direction."""
    ramps = np.stack([np.ones((8, 8)), *np.mgrid[-1:1:8j, -1:1:8j]])
    light = np.tensordot(rng.normal(scale=6, size=(len(digits), 3)), ramps, 1)
    return (digits + light + rng.normal(scale=2, size=digits.shape)).reshape(-1, 64)


def nearest(queries, gallery):
    """The nearest row of the gallery for each query."""
    return np.linalg.norm(queries[:, None] - gallery, axis=2).argmin(axis=1)


picture = Path(*sys.argv[1:2] or ["demo/partners.png"])

# %%
# Two photographs of each digit; their positions are all that PairNCA is told.
rng = np.random.RandomState(0)
digits = rng.permutation(load_digits().images)
known, new = digits[:DIGITS], digits[DIGITS : 2 * DIGITS]
X = np.concatenate([photographs(known, rng), photographs(known, rng)])
pairs = np.arange(2 * DIGITS).reshape(2, DIGITS).T  # row i and row i + DIGITS
model = PairNCA(16, scaling="global", alpha=0.1).fit(X, pairs)

# %%
# Photographs of new digits look for their partners.
queries, gallery = photographs(new, rng), photographs(new, rng)
found = {
    "pixels": nearest(queries, gallery),
    "PairNCA": nearest(model.transform(queries), model.transform(gallery)),
}
for name, rows in found.items():
    share = np.mean(rows == np.arange(DIGITS))
    print(f"{name}: {100 * share:.0f}% of {DIGITS} photographs find their partner")

# %%
# The first eight of them.
shown = {
    "photograph": queries[:SHOWN],
    "its partner": gallery[:SHOWN],
    **{f"nearest by {name}": gallery[rows[:SHOWN]] for name, rows in found.items()},
}
figure, axes = plt.subplots(len(shown), SHOWN, figsize=(SHOWN, len(shown)))
for row, (name, pictures) in zip(axes, shown.items(), strict=True):
    row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    for ax, pixels in zip(row, pictures, strict=True):
        ax.imshow(pixels.reshape(8, 8), cmap="gray")
        ax.set(xticks=[], yticks=[])
picture.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(picture, bbox_inches="tight")
print(f"Picture: {picture}")
