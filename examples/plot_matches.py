"""
A film without labels: rows that match are frames that follow each other
========================================================================

::

    python examples/plot_matches.py [picture.png]

A digit turns slowly, twice round, while the light changes from frame to frame much more than the
digit does.  Nobody says where the digit points.  But frames next to each other in time show nearly
the same place, and NCA learns from such matches alone (Goldberger et al. 2005, section 5): the
light vanishes from the map, and the film becomes a thread.  Needs matplotlib.
"""

import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from vicinal import NCA
from vicinal.plotting import before_after

FRAMES = 180  # of a turn


def film(rng, frames):
    """Frames of 8 × 8 pixels, one row each: a digit that turns under light that flickers."""
    digit = load_digits().images[7]
    ramps = np.stack([np.ones((8, 8)), *np.mgrid[-1:1:8j, -1:1:8j]])
    rows = []
    for angle in 360 * np.arange(frames) / FRAMES:
        picture = rotate(digit, angle, reshape=False, order=1)
        light = np.tensordot(rng.normal(scale=6, size=3), ramps, 1)
        rows.append(picture + light + rng.normal(scale=0.5, size=(8, 8)))
    return np.array(rows).reshape(frames, 64)


def error(Z, Z_new):
    """Mean error, in degrees, if a new frame is placed where the nearest old frame is."""
    nearest = np.linalg.norm(Z_new[:, None] - Z, axis=2).argmin(axis=1)
    wrong = np.abs(nearest - np.arange(len(Z_new)))
    return np.minimum(wrong, FRAMES - wrong).mean() * 360 / FRAMES


picture = Path(*sys.argv[1:2] or ["demo/matches.png"])

# %%
# Learn from one turn, with the frames that follow each other as matches; find the other turn in it.
X = film(np.random.RandomState(0), 2 * FRAMES)
first, second = X[:FRAMES], X[FRAMES:]  # learn from one turn, find the other one in it
following = np.ones(FRAMES - 1)
matches = sp.diags_array([following, following], offsets=[-1, 1])
model = NCA(2, scaling="global", random_state=0).fit(first, matches=matches)
panels = {}
for name, learnt in {"PCA": PCA(2).fit(first), "NCA by matches": model}.items():
    Z = learnt.transform(first)
    off = error(Z, learnt.transform(second))
    print(f"{name}: frames of the second turn are placed with a mean error of {off:.1f}°")
    panels[f"{name}: mean error {off:.0f}°"] = Z

# %%
# The frames of the first turn: the light hides the order from PCA, and the learnt map shows it.
quarters = np.repeat([f"quarter {q}" for q in (1, 2, 3, 4)], FRAMES // 4)
figure = before_after(panels, quarters)
for ax, Z in zip(figure.axes, panels.values(), strict=True):
    ax.plot(*Z.T, color="0.6", linewidth=0.5, zorder=0)
picture.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(picture)
print(f"Picture: {picture}")
