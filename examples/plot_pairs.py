"""
Isolated pairs: with neighbourhoods of one they stay alone, with larger ones they join a cluster
================================================================================================

::

    python examples/plot_pairs.py [picture.png]

The toy of figure 1 of Tarlow et al. (2013), without labels.  Around each of four clusters lie six
pairs of points; the points of a pair are nearest to each other, and far from the rest.  If every
point chooses one neighbour (k = 1, t-SNE), it chooses its partner, and nothing pulls the pair to
its cluster.  If it chooses five, the other four come from the cluster.  Needs matplotlib.
"""

import sys
from pathlib import Path

import numpy as np

from vicinal import KSNE
from vicinal.plotting import before_after

CLUSTERS, ROWS, PAIRS, D = 4, 20, 6, 10


def clusters_with_pairs(rng):
    """Rows, the number of the cluster that each belongs to, and whether it is one of a pair."""
    X, y, paired = [], [], []
    for c, direction in enumerate(rng.normal(size=(CLUSTERS, D))):
        centre = 14 * direction / np.linalg.norm(direction)
        X.append(centre + rng.normal(size=(ROWS, D)))
        for direction in rng.normal(size=(PAIRS, D)):
            place = centre + 7 * direction / np.linalg.norm(direction)
            X.append(place + 0.15 * rng.normal(size=(2, D)))
        y += [c] * (ROWS + 2 * PAIRS)
        paired += [False] * ROWS + [True] * (2 * PAIRS)
    return np.concatenate(X), np.array(y), np.array(paired)


def share_at_home(Z, y, paired):
    """Share of the paired rows whose own cluster is the nearest one in the picture."""
    middles = np.array([np.median(Z[~paired & (y == c)], axis=0) for c in range(CLUSTERS)])
    apart = np.linalg.norm(Z[paired][:, None] - middles, axis=2)
    return np.mean(apart.argmin(axis=1) == y[paired])


picture = Path(*sys.argv[1:2] or ["demo/pairs.png"])

# %%
# At this perplexity the nearest row has nearly all of the weight.
X, y, paired = clusters_with_pairs(np.random.RandomState(0))
panels = {}
for k in (1, 5):
    # At this perplexity the nearest row has nearly all of the weight.
    model = KSNE(k=k, perplexity=1.05, init="random", max_iter=500, random_state=0)
    Z = model.fit_transform(X)
    share = f"{100 * share_at_home(Z, y, paired):.0f}%"
    print(f"k = {k}: {share} of the paired points are nearest to their own cluster")
    panels[f"k = {k}: {share} of the pairs at home"] = Z

# %%
# The two points of a pair are joined by a line.
figure = before_after(panels, [f"cluster {c}" for c in y])
for ax, Z in zip(figure.axes, panels.values(), strict=True):
    ends = Z[paired].reshape(-1, 2, 2)  # a line between the two of each pair, a ring around it
    ax.plot(*ends.transpose(2, 1, 0), color="0.3", linewidth=0.8)
    ax.plot(*ends.mean(axis=1).T, "o", markersize=10, markerfacecolor="none", color="0.3")
picture.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(picture)
print(f"Picture: {picture}")
